"""Periodic series: one declaration and one budget for the series of many periods."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime
from functools import partial
from typing import Any

import polars as pl

from sparsehist.counting.contract import Counts
from sparsehist.counting.progress import Counting
from sparsehist.declaration import Declaration
from sparsehist.declaration.checks import checked_name
from sparsehist.domain.unread import UnreadDomain
from sparsehist.errors import (
    DeclarationError,
    NameTakenError,
    NotFoundError,
    RefusedError,
    StoreInUseError,
    present,
    shown,
)
from sparsehist.ledger.budgets import budget_within
from sparsehist.ledger.ledger import Ledger
from sparsehist.ledger.spent import Account
from sparsehist.ledger.table import DEFAULT_DELTA, finite_or_none
from sparsehist.privacy import Level, level_text, total_cost
from sparsehist.privacy.epsilon_delta import guarantee
from sparsehist.privacy.guarantees import EpsilonDelta
from sparsehist.release.cell_parameters import CellRequest, cell_metadata
from sparsehist.release.creation import counted_into
from sparsehist.release.home import Home
from sparsehist.release.planning import Plan, Planner, checked_levels
from sparsehist.release.steps import as_bytes, comparable_units, kind_of_all, read_frame
from sparsehist.release.stored_declaration import check_alike, declaration_of
from sparsehist.store import RegisteredFile, SeriesRecord, State, ensure_store

_UNITS = "units"
_EXAMPLES = {"day": "2026-03-17", "week": "2026-W12", "month": "2026-03"}
_FORMATS = {"day": "%Y-%m-%d", "week": "%G-W%V", "month": "%Y-%m"}
_PLANNED = "planned"


def declare_periods(home: Home, declaration: Declaration, if_exists: str) -> Declaration:
    """Declare a periodic series and its budget, or return the declaration of the existing equal one."""
    name, every = declaration.name, present(declaration.every)
    checked_name("series of each period", f"{name}_20260317")
    if declaration.unit is None and every.most_periods is not None:
        raise DeclarationError(
            "most_periods needs the column of the unit, to know who counted before", parameter="every"
        )
    limit = None if every.budget is None else budget_within(every.budget, opens=declaration.domain.is_open)
    declared = replace(declaration, every=replace(every, budget=None))
    ensure_store(home.path)
    with home.hold() as state:
        ledger = Ledger.of(state)
        if name in ledger.limits.periods:
            stored = Declaration.from_json(ledger.limits.declarations[name])
            check_alike(f"{home!r} has a periodic series {name!r} already", stored, declaration, if_exists)
            return declared
        ledger.check_name(name)
        taken = [*ledger.limits.periods, *(record.name for record in state.all_series())]
        clashes = [known for known in taken if known == name or every.names(name, known)]
        if clashes or _in_use(ledger, name):
            raise NameTakenError(
                f"{home!r} has a series or population {(clashes or [name])[0]!r} already, a name of {name!r} or of a "
                f"{every.period} of it: take another name"
            )
        if limit is not None:
            state.declare("set budget", population=name, details=limit.as_json())
        state.declare("declare periods", population=name, details=declaration.as_json())
    return declared


def drop(home: Home, state: State, name: str, *, reason: str | None = None) -> None:
    """Erase a series, or a periodic one that holds no period and of which none was released."""
    ledger = Ledger.of(state)
    if name not in ledger.limits.periods:
        home.find(state, name)
        state.drop_series(name, reason=reason)
    elif _in_use(ledger, name):
        raise RefusedError(
            f"{name!r} is a periodic series, which can be dropped while it holds no period and none was released: "
            "drop its periods, each a series"
        )
    else:
        state.declare("drop periods", population=name, reason=reason)


def _in_use(ledger: Ledger, population: str) -> bool:
    """Return whether a population has a series, or had one that was released."""
    return any(known.releases or known.dropped is None for known in ledger.of_population(population))


def declared_periods(state: State, name: str) -> Declaration:
    """Return the declaration of a periodic series, with the catalogues copied for its last period, if it has one."""
    declaration = Declaration.from_json(Ledger.of(state).limits.declarations[name])
    records = periods_of(state, name)
    return replace(declaration, domain=declaration_of(records[-1]).domain) if records else declaration


def append_period(
    home: Home, periodic: Declaration, source: object, period: str | date, counting: Counting | None = None
) -> SeriesRecord:
    """Count the log of a period into its series; see `PeriodicSeries.append`."""
    rule = present(periodic.every)
    if isinstance(periodic.domain, UnreadDomain):
        raise NotFoundError(
            f"the catalogue of {periodic.name!r} comes into {home!r} with the first period: declare the series again "
            "with if_exists='reuse' and append one"
        )
    if isinstance(source, Counts) and rule.most_periods is not None:
        raise DeclarationError("most_periods needs rows with their units: append the log, not counts")
    label, name = names_of_period(periodic, period)
    declaration = replace(periodic, name=name, every=None, period=label)
    further: dict[str, Any] = {}
    with home.hold() as state:
        records = periods_of(state, periodic.name)
        is_new = all(record.name != name for record in records)
        if is_new:
            Ledger.of(state).check_series(declaration)
            if len(records) >= rule.n_periods:
                raise DeclarationError(f"all {rule.n_periods} {rule.period}s of {periodic.name!r} have been appended")
        if rule.most_periods is not None:
            # An existing period is returned as it is. If it is dropped meanwhile, `_check_same` refuses.
            full, kind = _units_before(state, periodic, records) if is_new else (pl.DataFrame(), "")
            known = [record.series_id for record in records]
            further = {
                "choose": partial(_count_in_period, periodic, full, kind),
                "check": partial(_check_same, periodic, known),
            }
    return counted_into(home, source, declaration, counting, if_exists="resume", **further)


def plan_period(
    home: Home,
    periodic: Declaration,
    levels: Level | EpsilonDelta | Iterable[Level | EpsilonDelta],
    chosen: CellRequest,
    counts: Sequence[int],
) -> Plan:
    """Plan one more period, and the cost if all periods are released so; see `PeriodicSeries.plan`."""
    declaration, rule = replace(periodic, name=_PLANNED, every=None), present(periodic.every)
    with home.hold() as state:
        ledger = Ledger.of(state).with_series(Account(_PLANNED, declaration))
    planner = Planner(ledger, _PLANNED, declaration, chosen, partial(cell_metadata, declaration, past=()))
    exact, alone = checked_levels(levels), Ledger().with_series(Account(_PLANNED, declaration))
    costs = [alone.with_release(*planner.release(level)[1]).accounts[_PLANNED].cost for level in exact]
    plan = planner.plan(counts, levels=exact)
    times = {
        "all_per_period": rule.per_period(rule.n_periods),
        "all_per_user": min(rule.n_periods, rule.most_periods or rule.n_periods),
    }
    further: list[pl.Series] = []
    for name, number in times.items():
        totals = [total_cost([cost] * number) for cost in costs]
        further.append(pl.Series(name, [level_text(present(total.amount)) for total in totals]))
        epsilons = [finite_or_none(guarantee(total, DEFAULT_DELTA)) for total in totals]
        further.append(pl.Series(f"{name}_epsilon", epsilons, dtype=pl.Float64))
    return replace(plan, levels=plan.levels.with_columns(further))


def finish_periods(home: Home, name: str) -> None:
    """Refuse further periods, and erase the record of which units counted in which periods."""
    with home.hold() as state:
        if name not in Ledger.of(state).limits.finished:
            state.declare("finish periods", population=name)
        for record in periods_of(state, name):
            if _units_of(record) is not None:
                state.finish_series(record, [_UNITS])


def _units_before(state: State, periodic: Declaration, records: Sequence[SeriesRecord]) -> tuple[pl.DataFrame, str]:
    """Return the units that counted in `most_periods` periods, and the kind of all units before. Secret.

    Each period stores a list of its units in the directory of its series; the list is as secret as the log.
    """
    gone = any(one.dropped and one.releases for one in Ledger.of(state).of_population(periodic.name))
    if gone or any(_units_of(record) is None for record in records):
        raise RefusedError(
            f"the record of who counted in the periods of {periodic.name!r} was erased, by finish or by dropping a "
            "released period: nothing more can be added"
        )
    lists = [read_frame(record.directory, present(_units_of(record))) for record in records]
    lists = [units for units in lists if units.height]  # an empty list has no kind of units
    if not lists:
        return pl.DataFrame(), ""
    counted = pl.concat([units.rename({units.columns[0]: "unit"}) for units in lists]).group_by("unit").len()
    most_periods = present(present(periodic.every).most_periods)
    return counted.filter(pl.col("len") >= most_periods).select("unit"), lists[0].columns[0]


def _count_in_period(
    periodic: Declaration, full: pl.DataFrame, known_kind: str, pairs: pl.DataFrame
) -> tuple[pl.DataFrame, dict[str, bytes]]:
    """Return the pairs of the units that count in a period, and the list of these units, named by their kind.

    Whether a unit counts depends only on the earlier periods in which that unit counted.
    """
    units, kind = comparable_units(pairs["unit"], present(periodic.unit))
    pairs, kind = pairs.with_columns(units.alias("unit")), kind_of_all(known_kind, kind, "periods")
    if full.height:
        pairs = pairs.join(full, on="unit", how="anti")
    return pairs, {_UNITS: as_bytes(pairs["unit"].unique().sort().alias(kind).to_frame())}


def _check_same(periodic: Declaration, known: Sequence[str], state: State) -> None:
    """Refuse to commit if periods were added or dropped meanwhile."""
    if [record.series_id for record in periods_of(state, periodic.name)] != known:
        raise StoreInUseError(
            f"a period of {periodic.name!r} was added or dropped meanwhile, which decides who counts in this one: "
            "nothing was written, append it again"
        )


def periods_of(state: State, population: str) -> list[SeriesRecord]:
    """Return the series of the periods of a population, in the order in which they were added."""
    return [record for record in state.all_series() if record.population == population]


def _units_of(record: SeriesRecord) -> RegisteredFile | None:
    return next((file for file in record.files if file.name == _UNITS), None)


def names_of_period(periodic: Declaration, named: str | date) -> tuple[str, str]:
    """Return a period, such as "2026-W12", and the name of its series, given its name or a day in it."""
    kind, day = present(periodic.every).period, named
    if isinstance(named, str) and (kind == "week" or "W" not in named.upper()):
        text = f"{named}-01" if kind == "month" and re.fullmatch(r"\d{4}-\d\d", named) else named.upper()
        with suppress(ValueError):
            day = date.fromisoformat(text)  # which reads a week as its Monday
    if not isinstance(day, date) or isinstance(day, datetime):
        raise DeclarationError(f"period must name one, such as {_EXAMPLES[kind]}; got {shown(named)}")
    label = day.strftime(_FORMATS[kind])
    return label, f"{periodic.name}_{label.replace('-', '').lower()}"
