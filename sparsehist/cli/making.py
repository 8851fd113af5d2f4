"""The commands that make series from logs (`create`, `append`, `finish`) or help declare them (`check`, `choose`)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

import sparsehist as sh
from sparsehist.cli.answer import Answer, in_options, parameter_lines, rows_table
from sparsehist.cli.options import DEFAULT, READ, ReadingOptions, SeriesName, StorePath, Using, arguments, options_of
from sparsehist.declaration.checks import checked_output
from sparsehist.errors import DeclarationError, InputError
from sparsehist.ledger.ledger import Ledger
from sparsehist.release.metadata import declaration_rows
from sparsehist.series.series import Series

_Created = options_of("Created")
_Checked = options_of("Checked", "unit key domain max_keys on_null on_outside")
_Discovered = options_of("Discovered", "unit population on_null")
_Chosen = options_of("Chosen", "unit key domain noise population on_null on_outside", needed="key domain")
choose = App(
    name="choose",
    help="Choose parameters of a series by small private releases, which the ledger lists.",
    help_format="plaintext",
    default_parameter=Parameter(negative=()),
)


def create(
    store: StorePath,
    /,
    *,
    declared: Annotated[_Created, Parameter(name="*")],  # type: ignore[valid-type]
    if_exists: Literal["error", "reuse"] = "error",
    reading: ReadingOptions = READ,
    using: Using = DEFAULT,
) -> Answer:
    r"""Count a log into a new series, or declare a series to which logs will be appended.

    The command counts how many units touched each key, where each unit counts towards at
    most --max-keys keys, and saves the counts in a private directory (mode 0700). It
    does not publish or spend anything. The declaration cannot be changed afterwards.

    With --steps (running counts of one growing log) or --every (one histogram per
    day, week or month), use append to add the log of each step or period.

    For example:
      sparsehist create logs.sparsehist --input 'log/*.parquet' --unit user_id \
          --key query --max-keys 20 --domain 'strings(max_bytes=32)' --cap 2 \
          --name queries
      sparsehist create logs.sparsehist --unit user_id --key query --max-keys 20 \
          --domain 'strings(max_bytes=32)' --steps 365 --name daily

    Args:
        if_exists: If the series exists: error refuses; reuse keeps it, or exits with 5 if declaration or log differ.
    """
    options = arguments(declared)
    appended = "steps" in options or "every" in options
    if appended and reading != READ:
        raise DeclarationError("with --steps or --every, create reads no log: use the command append to add logs")
    name, opened, existed = options["name"], using.store(store), False
    if if_exists == "reuse" and store.exists():
        with opened.hold() as state:
            existed = state.series(name) is not None or name in Ledger.of(state).limits.periods
    log = None if appended else reading.files()
    declaration = sh.create(opened, log, **options, if_exists=if_exists, counting=reading.counting()).declaration
    status = "reused" if existed else "created"
    data = {"store": str(store), "series": name, "status": status, "declaration": declaration.as_json()}
    shown: list[Any] = [
        f"{status} the series {name} in {store}; nothing is published yet",
        parameter_lines(declaration_rows(declaration)),
    ]
    if len(warning := opened.ledger(series=name, full=True)["warning"].drop_nulls()):
        data["warning"] = warning[0]
        shown.append(f"warning, population {declaration.population}: {warning[0]}")
    return Answer(data, shown)


def append(
    store: StorePath,
    /,
    *,
    series: SeriesName,
    step: str | None = None,
    period: str | None = None,
    reading: ReadingOptions = READ,
    using: Using = DEFAULT,
) -> Answer:
    """Append the log of the next step or of a period, completely or not at all.

    Appending the same log again changes nothing; a different log for the same step or
    period is refused. For a running series, and for a periodic series with most_periods,
    the store keeps a secret record of which units were counted; finish erases it.

    For example:
      sparsehist append logs.sparsehist --series daily --step 1 --input day_1.parquet

    Args:
        step: For a running series: number of the step, from 1, or a day in it.
        period: For a periodic series: 2026-W12, 2026-03, or any day in the period (2026-03-17).
    """
    if (step is None) == (period is None):
        raise DeclarationError("give --step for a running series, or --period for a periodic series")
    growing, position = _growing(using.store(store), series), arguments(step=step, period=period)
    before = growing.appended()
    growing.append(reading.files(), **position, counting=reading.counting())
    status = "appended" if growing.appended() != before else "repeated"
    data = {"store": str(store), "series": series, "status": status, **position}
    what = f"period {period}" if step is None else f"step {step}"
    return Answer(data, [f"{status} {what} to {series}; this publishes nothing"])


def finish(store: StorePath, /, *, series: SeriesName, yes: bool = False, using: Using = DEFAULT) -> Answer:
    """End a running or periodic series, and erase the record of which units were counted.

    This cannot be undone. Further logs are refused, but releases remain possible.

    For example:
      sparsehist finish logs.sparsehist --series daily --yes

    Args:
        yes: Confirm that the series is to be finished.
    """
    ending = _growing(using.store(store), series)
    if not yes:
        raise DeclarationError(f"finishing a series cannot be undone: give --yes to finish {series}")
    ending.finish()
    shown = [f"finished {series}: nothing more can be appended, and the record of which units counted is erased"]
    return Answer({"store": str(store), "series": series, "status": "finished"}, shown)


def _growing(store: sh.Store, name: str) -> Any:
    """Return the running or periodic series of this name."""
    series = store.series(name)
    if isinstance(series, Series):
        raise DeclarationError(f"logs can be appended only to a running or periodic series, not to {name}")
    return series


def check(
    log: list[str] | None = None,
    /,
    *,
    declared: Annotated[_Checked | None, Parameter(name="*")] = None,  # type: ignore[valid-type]
    reading: ReadingOptions = READ,
    store: Path | None = None,
    using: Using = DEFAULT,
) -> Answer:
    r"""Show what `create` would refuse, omit or cut in a log.

    The command counts rows without unit or key, keys outside the domain, and units with
    too many keys. These numbers are secret. The exit code is 2 if `create` would refuse
    the log. With --store, the command compares the files of a store with their digests.

    For example:
      sparsehist check 'log/*.parquet' --unit user_id --key query \
          --max-keys 20 --domain 'strings(max_bytes=32)'
      sparsehist check --store logs.sparsehist

    Args:
        log: Files or quoted globs, as for --input.
        store: Instead of a log: the store whose files are checked.
    """
    if store is not None:
        with using.home(store).hold() as state:
            state.verify()
        intact = f"{store} is intact: no file was changed"
        return Answer({"store": str(store), "status": "intact"}, [intact])
    options = arguments(declared)
    if len(options.keys() - {"on_null", "on_outside"}) < 4:
        raise DeclarationError(
            "to check a log, give files, --unit, --key, --domain and --max-keys; to check a store, give --store"
        )
    rules = sh.check_log(reading.files(log or ()), key_types=reading.types(), counting=reading.counting(), **options)
    rows = [row | {"outcome": in_options(row["outcome"])} for row in rules.to_dicts()]
    refused = any(row["outcome"].startswith("refused") for row in rows)
    verdict = "`create` would refuse this log" if refused else "`create` would take this log"
    shown = [rows_table(rows), f"{verdict}. The numbers are secret: they are for the owner of the log."]
    return Answer({"refused": refused, "rules": rows}, shown, exit_code=InputError.exit_code if refused else 0)


@choose.command
def max_keys(
    store: StorePath,
    /,
    *,
    declared: Annotated[_Chosen, Parameter(name="*")],  # type: ignore[valid-type]
    name: str = "choice",
    largest_keys: int = 500,
    level: str = "0.005",
    release_level: str = "0.1",
    reading: ReadingOptions = READ,
    using: Using = DEFAULT,
) -> Answer:
    r"""Choose --max-keys and --bounding for a log, at a small privacy cost.

    Two small releases show the keys with the largest counts, and a histogram of the
    number of keys per unit. From these releases, the command estimates the bias and noise
    for each value of --max-keys. Both releases are charged to the population. Repeating
    the command costs nothing.

    For example:
      sparsehist choose max-keys logs.sparsehist --input 'log/*.parquet' \
          --unit user_id --key query --domain 'strings(max_bytes=32)' \
          --level 0.01 --release-level 0.1

    Args:
        name: Prefix of the names of both series, NAME_keys and NAME_profile.
        largest_keys: Number of largest keys whose error is minimised.
        level: Level of both releases together, exact.
        release_level: Level of the later release for which max_keys is chosen.
    """
    choice = sh.choose_max_keys(
        using.store(store), reading.files(), name=name, largest_keys=largest_keys, level=level,
        release_level=release_level, counting=reading.counting(), **arguments(declared),
    )  # fmt: skip
    shown = [
        f"--max-keys {choice.max_keys} --bounding {choice.bounding}; --json has the estimated errors",
        f"Level {choice.level} is spent, in the series {choice.keys} and {choice.profile}; later releases add to it.",
    ]
    return Answer(vars(choice) | {"estimates": choice.estimates.to_dicts()}, shown)


@choose.command
def keys(
    store: StorePath,
    /,
    *,
    declared: Annotated[_Discovered | None, Parameter(name="*")] = None,  # type: ignore[valid-type]
    most_keys: int,
    level: str,
    delta: str,
    key: str,
    out: Path,
    rounds: int = 3,
    kind: Literal["string", "integer", "date"] = "string",
    name: str = "discovery",
    reading: ReadingOptions = READ,
    using: Using = DEFAULT,
) -> Answer:
    r"""Find the keys of an open domain privately, and write them as a catalogue.

    The command finds keys in several rounds, each of which releases weighted counts. The
    catalogue is public, so it can be declared as the domain of a series. Running the
    command again with the same --name returns the same keys, at no further cost.

    For example:
      sparsehist choose keys logs.sparsehist --input 'log/*.parquet' \
          --unit user_id --key query --most-keys 100 --level 0.1 --delta 1e-6 \
          --out queries.parquet

    Args:
        most_keys: Largest number of keys of a unit that are counted; public.
        level: rho of zCDP for all rounds together; exact.
        delta: Probability of finding a key that only one unit has.
        key: Column of the key.
        out: Catalogue to write: a .parquet file.
        rounds: Number of rounds, from 1 to 8; the last round uses most of level and delta.
        kind: Type of the keys.
        name: Prefix of the names of the series, one per round: NAME_1, NAME_2, …
    """
    checked_output("--out", out, (".parquet",))
    catalogue = sh.discover_keys(
        using.store(store), reading.files(), key=key, most_keys=most_keys, level=level, delta=delta,
        rounds=rounds, kind=kind, name=name, counting=reading.counting(), **arguments(declared),
    )  # fmt: skip
    catalogue.write_parquet(out)
    data = {"keys": catalogue.size, "out": str(out), "level": level, "delta": delta}
    shown = [
        f"{catalogue.size:,} keys found and written to {out}; level {level} is spent.",
        f"As a domain: catalogue(file={str(out)!r})",
    ]
    return Answer(data, shown)
