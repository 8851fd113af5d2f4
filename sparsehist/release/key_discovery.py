"""Discover keys privately in a few rounds, and publish them as a catalogue: a domain that lists its keys.

Each round is a series over an open domain, with one release. A unit with m keys adds 1/sqrt(m), rounded down, to the
count of each of its keys, so the L2 norm of all that it adds is at most 1. Keys that were discovered are left out of
later rounds, so the other keys of a unit get more weight.

Source: MAD2R (arXiv:2502.08878) and DP-SIPS (arXiv:2301.01998) for the rounds; docs/mathematics.md, "Discovery".
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Literal

import polars as pl

from sparsehist.counting import Counting
from sparsehist.counting.contract import Choice, Counts
from sparsehist.declaration import Declaration
from sparsehist.declaration.bounding import Share
from sparsehist.declaration.checks import checked_name, checked_whole
from sparsehist.domain import Catalogue, Open
from sparsehist.domain.base import key_names
from sparsehist.errors import DeclarationError, NameTakenError, NotFoundError, SeriesDiffersError, shown
from sparsehist.histogram.open_domain import OpenBudget
from sparsehist.ledger.ledger import Ledger
from sparsehist.ledger.spent import CELLS, Account
from sparsehist.privacy import Level, as_level, level_text
from sparsehist.release import any_kind
from sparsehist.release.cell_parameters import cell_metadata, requested
from sparsehist.release.creation import counted_into
from sparsehist.release.home import Home, home_of
from sparsehist.release.metadata import level_fields
from sparsehist.release.pipeline import prepared

_PARTS = 256
"""Weights are multiples of 1/256: each key of a unit with 200 keys gets 18/256 (18.1/256 before rounding)."""
_LAST, _EARLIER = Fraction(9, 10), Fraction(4, 5)
"""The last round gets 9/10 of level and delta, each earlier round 4/5 of what is left. These fractions were chosen by
experiments on the data set MSWeb and on generated logs."""
_MOST_ROUNDS = 8


def shares_of_rounds(rounds: int) -> list[Fraction]:
    """Return the share of level and delta that each round gets, such as 1/50, 2/25 and 9/10; the shares sum to 1."""
    left, shares = Fraction(1), list[Fraction]()
    for number in range(rounds - 1):
        shares.append(left * (_LAST if number == 0 else _EARLIER))
        left -= shares[-1]
    return [left, *reversed(shares)]


def discover_keys(
    store: str | os.PathLike[str] | Home,
    source: object,
    *,
    unit: str | Sequence[str],
    key: str,
    most_keys: int,
    level: Level,
    delta: str | float | Fraction,
    rounds: int = 3,
    kind: Literal["string", "integer", "date"] = "string",
    name: str = "discovery",
    population: str = "default",
    on_null: Choice = "error",
    counting: Counting | None = None,
) -> Catalogue:
    """Discover keys of a log privately, and return them as a catalogue.

    Discovery finds far more keys than a release of an open domain, and a series over the catalogue needs no delta.
    The ledger lists each round as a series, named `{name}_1` and so on. Another call with the same name and log
    returns the same catalogue at no cost.

    Args:
        store: Directory of the store, created if missing; ":memory:" for experiments; or a Store.
        source: The log itself, as for `create`; not `Counts`.
        unit: Column of the privacy unit, or several that name it together.
        key: Column of the key.
        most_keys: Most keys that a unit counts towards, at least 1. Public; a larger number raises thresholds.
        level: rho of zCDP that all rounds spend together.
        delta: Largest probability, over all rounds, of publishing a key that only one unit has; between 0 and 1.
        rounds: From 1 to 8; the last round takes most of level and delta.
        kind: Type of the keys.
        name: Name of the discovery.
        population: Population that pays for the rounds.
        on_null: "error" or "drop" for rows without unit or key.
        counting: As for `create`; the distinct pairs of unit and key stay in memory.

    Returns:
        The discovered keys, sorted. Public: print them, save them with `write_parquet`, declare them as a domain.

    Raises:
        BudgetExceededError: If all rounds together exceed the population's budget; nothing was drawn.
        NotFoundError: If the level was too small to discover a key of this log. The level is spent.
        NameTakenError: If another discovery has this name.

    Example:
        >>> import polars as pl
        >>> import sparsehist as sh
        >>> log = pl.DataFrame({"user": range(3000), "page": [f"p{user % 3}" for user in range(3000)]})
        >>> found = sh.discover_keys(
        ...     sh.open(":memory:", seed=1), log, unit="user", key="page", most_keys=10, level=0.1, delta=1e-6
        ... )
        >>> str(found)
        "catalogue('p0', 'p1', 'p2')"
    """
    home = home_of(store)
    if isinstance(source, Counts):
        raise DeclarationError("sh.Counts has no units: pass the log itself to discover keys")
    planned = planned_rounds(
        unit=unit, key=key, most_keys=most_keys, level=level, delta=delta, rounds=rounds, kind=kind, name=name,
        population=population, on_null=on_null,
    )  # fmt: skip
    check_room(home, planned)
    discovered = pl.DataFrame(schema={key_names(1)[0]: planned[0].declared.domain.dtypes[0]})
    for each in planned:

        def without(pairs: pl.DataFrame, keys: pl.DataFrame = discovered) -> tuple[pl.DataFrame, dict[str, bytes]]:
            return pairs.join(keys, on=keys.columns, how="anti"), {}

        try:
            record = counted_into(home, source, each.declared, counting, if_exists="resume", choose=without)
            spent: dict[str, Any] = {"level": each.level, "open_delta": each.open_delta}
            release = any_kind.release(home, record.name, record.series_id, "keys", **spent)
        except (SeriesDiffersError, NameTakenError):
            raise NameTakenError(
                f"the discovery {name!r} was made from another log or with other parameters: use another name"
            ) from None
        discovered = pl.concat([discovered, release.frame.select(pl.col(key).alias(discovered.columns[0]))])
    if discovered.is_empty():
        raise NotFoundError(
            "no key of the log was published, and the level is spent: discover keys again under another name, with a "
            f"larger level or delta; the level was {level_text(as_level(level))}"
        )
    return Catalogue(discovered.to_series().sort())


def planned_rounds(
    *,
    key: str,
    most_keys: int,
    level: Level,
    delta: str | float | Fraction,
    rounds: int = 3,
    kind: str = "string",
    name: str = "discovery",
    **declared: Any,
) -> list[Round]:
    """Check the parameters of `discover_keys`, and return the declarations and levels of its rounds.

    The parameters in `declared`, such as unit and population, are the same in the declarations of all rounds.
    """
    checked_whole("rounds", rounds, 1, _MOST_ROUNDS)
    if not isinstance(key, str):
        raise DeclarationError(f"key must name one column, got {shown(key)}")
    checked_name("discovery", name)
    exact, whole, bounding = as_level(level), Open(kind, delta=delta), Share(most_keys=most_keys, parts=_PARTS)
    planned = []
    for number, share in enumerate(shares_of_rounds(rounds), start=1):
        domain = Open(kind, delta=whole.delta * share)
        series = Declaration(
            name=f"{name}_{number}", key=(key,), max_keys=1, domain=domain, bounding=bounding, **declared
        )
        planned.append(Round(series, level_text(exact * share), OpenBudget(domain.delta, series.touched).remaining))
    return planned


def check_room(home: Home, planned: Sequence[Round]) -> None:
    """Raise an error if the planned rounds would exceed a budget. Rounds that exist already cost nothing."""
    if not home.path.exists():
        return
    with home.hold() as state:
        charged(Ledger.of(state), [each for each in planned if state.series(each.declared.name) is None])


def charged(ledger: Ledger, planned: Iterable[Round]) -> Ledger:
    """Return the ledger with the planned rounds and their costs added. Raise an error if a round exceeds a limit."""
    for each in planned:
        declaration = each.declared
        ledger.check_series(declaration)
        ledger = ledger.with_series(Account(declaration.name, declaration))
        request = requested("planned", level_fields(each.level), open_delta=each.open_delta)
        public = partial(cell_metadata, declaration, past=())
        *_, spends = prepared(ledger, declaration.name, declaration, CELLS, request, public)
        ledger.check(*spends)
        ledger = ledger.with_release(*spends)
    return ledger


@dataclass(frozen=True)
class Round:
    """A round of key discovery: the declaration of its series, and the level and delta of its only release."""

    declared: Declaration
    level: str
    open_delta: float | None = None  # delta that the release spends; None for the default
