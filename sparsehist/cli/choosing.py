"""The commands `choose max-keys` and `choose keys`: public parameters from small private releases."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

import sparsehist as sh
from sparsehist.cli import options
from sparsehist.cli.answer import Answer
from sparsehist.cli.declared import given, options_of
from sparsehist.cli.options import DEFAULT, READ, ReadingOptions, StorePath, Using
from sparsehist.cli.tables import counted, escape, rows_table, significant
from sparsehist.declaration.checks import checked_output

if TYPE_CHECKING:
    from rich.console import RenderableType

choose = App(
    name="choose",
    help="Choose parameters of a series by small private releases, which stand in the ledger.",
    help_format="plaintext",
    default_parameter=Parameter(negative=()),
)
_Units = options_of("Units", ("unit", "population", "on_null"))
_Asked = options_of("Asked", ("unit", "key", "domain", "noise", "population", "on_null", "on_outside"))


@choose.command
def max_keys(
    store: StorePath,
    /,
    *,
    input: options.Inputs,  # noqa: A002
    declared: Annotated[_Asked, Parameter(name="*")],  # type: ignore[valid-type]
    name: Annotated[str, Parameter(help="Its series are called NAME_keys and NAME_profile.")] = "choice",
    largest_keys: Annotated[
        int, Parameter(help="Number of keys, the largest ones, to make the error small for.")
    ] = 500,
    level: Annotated[str, Parameter(help="The price, exact.")] = "0.005",
    release_level: Annotated[
        str | None, Parameter(help="Level of the later release; refuse if the budget has no room for both.")
    ] = None,
    reading: Annotated[ReadingOptions, Parameter(name="*")] = READ,
    using: Using = DEFAULT,
) -> Answer:
    r"""Choose --max-keys and --bounding for a log, privately and at a small price.

    Two small releases, which stand in the ledger and which later releases add
    to, show the largest keys and how many keys units have: enough to weigh what
    each bound would cut against its noise. Asked again, it costs nothing. What
    plan --max-keys 5 --shows 1000 names for the domain is a quarter of the
    level at which a key of 1,000 units is seen.

    For example:
      sparsehist choose max-keys logs.sparsehist --input 'log/*.parquet' \
          --unit user_id --key query --domain 'strings(max_bytes=32)' \
          --level 0.01 --release-level 0.1
    """
    choice = sh.choose_max_keys(
        using.new(store), reading.files(input), name=name, largest_keys=largest_keys, level=level,
        release_level=release_level, counting=reading.counting(), **given(declared),
    )  # fmt: skip
    best = choice.estimates.sort("error", "max_keys").head(5)
    data = {
        "max_keys": choice.max_keys, "bounding": choice.bounding, "level": choice.level,
        "series": [choice.keys, choice.profile], "estimates": choice.estimates.to_dicts(),
    }  # fmt: skip
    shown: list[RenderableType] = [
        f"[bold]--max-keys {choice.max_keys} --bounding {choice.bounding}[/]",
        "Estimated error of a key among the largest, in counts, at the best bounds:",
        rows_table(significant(best.to_dicts())),
        f"Level {choice.level} is spent, in the series {choice.keys} and {choice.profile}; later releases add to it.",
    ]
    return Answer(data, shown)


@choose.command
def keys(
    store: StorePath,
    /,
    *,
    input: options.Inputs,  # noqa: A002
    declared: Annotated[_Units | None, Parameter(name="*")] = None,  # type: ignore[valid-type]
    most_keys: Annotated[int, Parameter(help="Keys of a unit that may count at all; a public number.")],
    level: Annotated[str, Parameter(help="rho of zCDP, spent by all rounds together; exact.")],
    delta: Annotated[str, Parameter(help="Probability that a key which one unit alone has is found.")],
    key: Annotated[str, Parameter(help="Column of the key.")],
    out: Annotated[Path, Parameter(help="Catalogue to write: a .parquet file.")],
    rounds: Annotated[int, Parameter(help="From 1 to 8; later rounds take most of level and delta.")] = 3,
    kind: Annotated[Literal["string", "integer", "date"], Parameter(help="Type of the keys.")] = "string",
    name: Annotated[str, Parameter(help="Its series are called NAME_1, NAME_2, …")] = "discovery",
    reading: Annotated[ReadingOptions, Parameter(name="*")] = READ,
    using: Using = DEFAULT,
) -> Answer:
    r"""Find keys that nobody can list, privately, and write them as a catalogue.

    Rounds of weighted counts over an open domain, which stand in the ledger. The
    catalogue is public: declare it as the domain of a series. Asked again with
    the same name, the store gives the same keys at no cost.

    For example:
      sparsehist choose keys logs.sparsehist --input 'log/*.parquet' \
          --unit user_id --key query --most-keys 100 --level 0.1 --delta 1e-6 \
          --out queries.parquet
    """
    checked_output("--out", out, (".parquet",))
    found = sh.discover_keys(
        using.new(store), reading.files(input), key=key, most_keys=most_keys, level=level, delta=delta,
        rounds=rounds, kind=kind, name=name, counting=reading.counting(), **given(declared),
    )  # fmt: skip
    found.write_parquet(out)
    data = {"keys": found.size, "out": str(out), "level": level, "delta": delta}
    shown: list[RenderableType] = [
        f"{counted(found.size, 'key')} found and written to {escape(str(out))}; level {level} is spent.",
        f"As a domain: {escape(f'catalogue(file={str(out)!r})')}",
    ]
    return Answer(data, shown)
