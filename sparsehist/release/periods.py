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
_LONGEST_NAME = 63 - len("_20260317")


def declare_periods(home: Home, declaration: Declaration, if_exists: str) -> Declaration:
    """Declare a periodic series and its budget, or return the declaration of the existing equal one."""
    name, every = declaration.name, present(declaration.every)
    if len(name) > _LONGEST_NAME:
        raise DeclarationError(
            f"the name of a periodic series has at most {_LONGEST_NAME} letters, as each period adds its own; got "
            f"{name!r}",
            parameter="name",
        )
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
            made = Declaration.from_json(ledger.limits.declarations[name])
            check_alike(f"{home!r} has a periodic series {name!r} already", made, declaration, if_exists)
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
            state.declare("set budget", who=home.who, population=name, details=limit.as_json())
        state.declare("declare periods", who=home.who, population=name, details=declaration.as_json())
    return declared


def drop(home: Home, state: State, name: str, *, reason: str | None = None) -> None:
    """Erase a series, or a periodic one without periods: its declaration and its budget.

    Raises:
        NotFoundError: If there is no such series.
        RefusedError: If a periodic series holds periods, or some were released.
    """
    ledger = Ledger.of(state)
    if name not in ledger.limits.periods:
        home.find(state, name)
        state.drop_series(name, who=home.who, reason=reason)
    elif _in_use(ledger, name):
        raise RefusedError(
            f"{name!r} is a periodic series, which can be dropped while it holds no period and none was released: "
            "drop its periods, each a series"
        )
    else:
        state.declare("drop periods", who=home.who, population=name, reason=reason)


def _in_use(ledger: Ledger, population: str) -> bool:
    """Return whether a population has a series, or had one that was released."""
    return any(known.releases or known.dropped is None for known in ledger.of_population(population))


def declared_periods(state: State, name: str) -> Declaration:
    """Return the declaration of a periodic series, with the catalogues copied for its last period, if it has one."""
    stored = Ledger.of(state).limits.declarations[name]
    records = periods_of(state, name)
    if records:
        domain = declaration_of(records[-1]).domain
        return replace(Declaration.from_json(stored), domain=domain)
    return Declaration.from_json(stored)


def append_period(
    home: Home,
    periodic: Declaration,
    source: object,
    period: str | date,
    counting: Counting | None = None,
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
            earlier = _EarlierPeriods([record.series_id for record in records], periodic)
            if is_new:  # otherwise it is returned as it is; if it is dropped meanwhile, the check refuses
                earlier.read(state, records)
            further = {"choose": earlier.choose, "check": earlier.check}
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
    made = planner.plan(counts, levels=exact)
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
    return replace(made, levels=made.levels.with_columns(further))


def finish_periods(home: Home, name: str) -> None:
    """Refuse further periods, and erase the record of which units counted in which periods."""
    with home.hold() as state:
        if name not in Ledger.of(state).limits.finished:
            state.declare("finish periods", who=home.who, population=name)
        for record in periods_of(state, name):
            if _units_of(record) is not None:
                state.finish_series(record, [_UNITS], who=home.who)


class _EarlierPeriods:
    """The units that counted in `most_periods` periods, so that they count in no further one. Secret.

    Whether a unit counts in a period depends only on the earlier periods in which that unit counts. Each period
    stores a list of its units in the directory of its series; the list is as secret as the log.
    """

    def __init__(self, seen: Sequence[str], periodic: Declaration) -> None:
        self._seen, self._periodic = seen, periodic
        self._full, self._kind = pl.DataFrame(), ""

    def read(self, state: State, records: Sequence[SeriesRecord]) -> None:
        """Read the lists of units."""
        population = self._periodic.name
        gone = any(one.dropped and one.releases for one in Ledger.of(state).of_population(population))
        if gone or any(_units_of(record) is None for record in records):
            raise RefusedError(
                f"who counted in the periods of {population!r} was erased, by finish or by dropping one that was "
                "released: nothing more can be added"
            )
        tables = []
        for record in records:
            table = read_frame(record.directory, present(_units_of(record)))
            if table.height:  # the column's name is the kind of the units; an empty table has no kind
                self._kind = table.columns[0]
                tables.append(table.rename({self._kind: "unit"}))
        if tables:
            counted = pl.concat(tables).group_by("unit").len()
            most = present(present(self._periodic.every).most_periods)
            self._full = counted.filter(pl.col("len") >= most).select("unit")

    def choose(self, pairs: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, bytes]]:
        """Return the pairs of the units that count in this period, and the list of these units."""
        units, kind = comparable_units(pairs["unit"], present(self._periodic.unit))
        pairs = pairs.with_columns(units.alias("unit"))
        kind = kind_of_all(self._kind, kind, "periods")
        if self._full.height:
            pairs = pairs.join(self._full, on="unit", how="anti")
        return pairs, {_UNITS: as_bytes(pairs["unit"].unique().sort().alias(kind).to_frame())}

    def check(self, state: State) -> None:
        """Refuse to commit if periods were added or dropped meanwhile."""
        population = self._periodic.name
        if [record.series_id for record in periods_of(state, population)] != self._seen:
            raise StoreInUseError(
                f"a period of {population!r} was added or dropped meanwhile, and units of both may count in one of "
                "them only: nothing was written, begin again"
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
