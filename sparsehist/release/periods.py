"""Declare, append to, plan, finish and drop periodic series, which have one declaration for many periods."""

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
from sparsehist.release.metadata import checked_levels
from sparsehist.release.planning import Plan, Planner
from sparsehist.release.steps import as_bytes, comparable_units, kind_of_all, read_frame
from sparsehist.release.stored_declaration import check_equal_declaration, declaration_of
from sparsehist.store import RegisteredFile, SeriesRecord, State, ensure_store

_UNITS = "units"
_EXAMPLES = {"day": "2026-03-17", "week": "2026-W12", "month": "2026-03"}
_FORMATS = {"day": "%Y-%m-%d", "week": "%G-W%V", "month": "%Y-%m"}
_PLANNED = "planned"


def declare_periods(home: Home, declaration: Declaration, if_exists: str) -> Declaration:
    """Declare a periodic series and its budget, unless an equal declaration exists. Return the declaration."""
    name, every = declaration.name, present(declaration.every)
    checked_name("series of each period", f"{name}_20260317")
    if declaration.unit is None and every.most_periods is not None:
        raise DeclarationError(
            "most_periods needs unit=, the column that identifies a unit in all periods", parameter="every"
        )
    limit = None if every.budget is None else budget_within(every.budget, opens=declaration.domain.is_open)
    declared = replace(declaration, every=replace(every, budget=None))
    ensure_store(home.path)
    with home.hold() as state:
        ledger = Ledger.of(state)
        if name in ledger.limits.periods:
            stored = Declaration.from_json(ledger.limits.declarations[name])
            series = f"{home!r} has a periodic series {name!r} already"
            check_equal_declaration(series, stored, declaration, if_exists)
            return declared
        ledger.check_name(name)
        taken = [*ledger.limits.periods, *(record.name for record in state.all_series())]
        clashes = [taken_name for taken_name in taken if taken_name == name or every.names(name, taken_name)]
        if clashes or _in_use(ledger, name):
            raise NameTakenError(
                "the name of the periodic series, or of one of its periods, is already in use: use another name; the "
                f"name in use is {(clashes or [name])[0]!r} in {home!r}"
            )
        if limit is not None:
            state.declare("set budget", population=name, details=limit.as_json())
        state.declare("declare periods", population=name, details=declaration.as_json())
    return declared


def drop(home: Home, state: State, name: str, *, reason: str | None = None) -> None:
    """Erase a series. A periodic series can be erased only if it has no periods and no period was ever released."""
    ledger = Ledger.of(state)
    if name not in ledger.limits.periods:
        home.find(state, name)
        state.drop_series(name, reason=reason)
    elif _in_use(ledger, name):
        raise RefusedError(
            f"{name!r} cannot be dropped, because it is a periodic series that has periods, or had periods that were "
            "released: drop the series of its periods instead, by their names"
        )
    else:
        state.declare("drop periods", population=name, reason=reason)


def _in_use(ledger: Ledger, population: str) -> bool:
    """Return whether a population has a series now, or had one that was dropped after a release."""
    return any(account.releases or account.dropped is None for account in ledger.of_population(population))


def declared_periods(state: State, name: str) -> Declaration:
    """Return the declaration of a periodic series. If it has periods, the domain is read from the last period."""
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
            "the catalogue of this periodic series is not stored yet, because no period was appended: call create "
            "again with if_exists='reuse', and append the period to the series that create returns; the series is "
            f"{periodic.name!r} of {home!r}"
        )
    if isinstance(source, Counts) and rule.most_periods is not None:
        raise DeclarationError("most_periods needs to know the units: append the log, not counts")
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
            # Read the units of earlier periods only if this period is new. Otherwise, they are not needed, because
            # `counted_into` returns the existing series of this period. Another process may drop this series in
            # between. Then the log is counted as if there were no earlier periods, but `_check_same` raises an error
            # before the wrong counts are stored.
            full, kind = _units_before(state, periodic, records) if is_new else (pl.DataFrame(), "")
            series_ids = [record.series_id for record in records]
            further = {
                "choose": partial(_count_in_period, periodic, full, kind),
                "check": partial(_check_same, periodic, series_ids),
            }
    return counted_into(home, source, declaration, counting, if_exists="resume", **further)


def plan_period(
    home: Home,
    periodic: Declaration,
    levels: Level | EpsilonDelta | Iterable[Level | EpsilonDelta],
    chosen: CellRequest,
    counts: Sequence[int],
) -> Plan:
    """Plan a release of the next period at each level, with the cost of releasing all periods at this level."""
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
    """Finish a periodic series: erase the lists of units counted in its periods, and allow no further periods."""
    with home.hold() as state:
        if name not in Ledger.of(state).limits.finished:
            state.declare("finish periods", population=name)
        for record in periods_of(state, name):
            if _units_of(record) is not None:
                state.finish_series(record, [_UNITS])


def _units_before(state: State, periodic: Declaration, records: Sequence[SeriesRecord]) -> tuple[pl.DataFrame, str]:
    """Return the units already counted in `most_periods` periods, and the data type of the units in earlier periods.

    The result is secret. Each period stores the list of its units in the directory of its series, and this list is as
    secret as the log.
    """
    gone = any(one.dropped and one.releases for one in Ledger.of(state).of_population(periodic.name))
    if gone or any(_units_of(record) is None for record in records):
        raise RefusedError(
            f"nothing more can be added to {periodic.name!r}: the record of which units were counted in earlier "
            "periods was erased, by finish() or by dropping a released period"
        )
    lists = [read_frame(record.directory, present(_units_of(record))) for record in records]
    lists = [units for units in lists if units.height]  # leave out empty lists: they do not show the type of units
    if not lists:
        return pl.DataFrame(), ""
    counted = pl.concat([units.rename({units.columns[0]: "unit"}) for units in lists]).group_by("unit").len()
    most_periods = present(present(periodic.every).most_periods)
    return counted.filter(pl.col("len") >= most_periods).select("unit"), lists[0].columns[0]


def _count_in_period(
    periodic: Declaration, full: pl.DataFrame, earlier_kind: str, pairs: pl.DataFrame
) -> tuple[pl.DataFrame, dict[str, bytes]]:
    """Return the (unit, key) pairs to count in a period, and the content of the file that lists their units.

    The units in `full` are left out, because they were already counted in `most_periods` periods. All other units are
    counted. The file has one column, whose name is the data type of the units.
    """
    units, kind = comparable_units(pairs["unit"], present(periodic.unit))
    pairs, kind = pairs.with_columns(units.alias("unit")), kind_of_all(earlier_kind, kind, "periods")
    if full.height:
        pairs = pairs.join(full, on="unit", how="anti")
    return pairs, {_UNITS: as_bytes(pairs["unit"].unique().sort().alias(kind).to_frame())}


def _check_same(periodic: Declaration, series_ids: Sequence[str], state: State) -> None:
    """Raise an error before the commit if periods were added or dropped while the log was counted."""
    if [record.series_id for record in periods_of(state, periodic.name)] != series_ids:
        raise StoreInUseError(
            "another period was added or dropped while this one was counted, which may change the units to count: "
            f"nothing was written, so append the period to {periodic.name!r} again"
        )


def periods_of(state: State, population: str) -> list[SeriesRecord]:
    """Return the series of all periods of a population, in the order in which the periods were added."""
    return [record for record in state.all_series() if record.population == population]


def _units_of(record: SeriesRecord) -> RegisteredFile | None:
    return next((file for file in record.files if file.name == _UNITS), None)


def names_of_period(periodic: Declaration, named: str | date) -> tuple[str, str]:
    """Return the label of a period, such as "2026-W12", and the name of its series; `named` is a label or a date."""
    kind, day = present(periodic.every).period, named
    if isinstance(named, str) and (kind == "week" or "W" not in named.upper()):
        text = f"{named}-01" if kind == "month" and re.fullmatch(r"\d{4}-\d\d", named) else named.upper()
        with suppress(ValueError):
            day = date.fromisoformat(text)  # the Monday of a week such as 2026-W12
    if not isinstance(day, date) or isinstance(day, datetime):
        raise DeclarationError(f"period must be a {kind} such as {_EXAMPLES[kind]}; got {shown(named)}")
    label = day.strftime(_FORMATS[kind])
    return label, f"{periodic.name}_{label.replace('-', '').lower()}"
