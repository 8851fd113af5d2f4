"""Periodic series: one declaration and one budget for the series of many periods."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path

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
)
from sparsehist.ledger.budgets import budget_within
from sparsehist.ledger.ledger import Ledger
from sparsehist.ledger.spent import Account
from sparsehist.ledger.table import DEFAULT_DELTA, finite_or_none
from sparsehist.privacy import Level, level_text, total_cost
from sparsehist.privacy.epsilon_delta import guarantee
from sparsehist.privacy.guarantees import EpsilonDelta
from sparsehist.release.calendar import span_of
from sparsehist.release.cell_parameters import CellRequest, cell_metadata
from sparsehist.release.creation import NewLog, PairFilter, counted_into, with_source
from sparsehist.release.home import Home
from sparsehist.release.planning import Plan, Planner, checked_levels
from sparsehist.release.steps import comparable_units, kind_of_all
from sparsehist.release.stored_declaration import check_alike, declaration_of
from sparsehist.store import RegisteredFile, SeriesRecord, State, ensure_store, write_file
from sparsehist.store.private_files import verified

_UNITS = "units"
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
    declared = replace(declaration, every=every.without_budget())
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
    span = span_of(rule.period, period)
    if isinstance(source, Counts) and rule.most_periods is not None:
        raise DeclarationError("most_periods needs rows with their units: append the log, not counts")
    name = checked_name("series", f"{periodic.name}_{span.name}")
    declaration = with_source(replace(periodic, name=name, every=None, period=span.label), source)
    with home.hold() as state:
        known = [record.name for record in periods_of(state, periodic.name)]
    if name not in known and len(known) >= rule.n_periods:
        raise DeclarationError(f"all {rule.n_periods} {rule.period}s of {periodic.name!r} have been appended")
    bound = None if rule.most_periods is None else FirstPeriods(periodic.name, rule.most_periods)
    return counted_into(home, NewLog(source, declaration, "resume"), counting, bound=bound)


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


class FirstPeriods(PairFilter):
    """A filter that keeps units which counted in fewer than `most_periods` periods before.

    Whether a unit counts in a period depends only on the earlier periods in which that unit counts. Each period
    stores a list of its units in the directory of its series; the list is as secret as the log. Holds secrets.
    """

    def __init__(self, population: str, most_periods: int) -> None:
        self._population, self._most = population, most_periods
        self._seen: list[str] = []
        self._full = pl.DataFrame()
        self._kind = ""
        self._units = pl.Series("unit", [])

    def begin(self, state: State) -> None:
        """Read which units counted in `most_periods` periods already."""
        records = periods_of(state, self._population)
        gone = any(one.dropped and one.releases for one in Ledger.of(state).of_population(self._population))
        if gone or any(_units_of(record) is None for record in records):
            raise RefusedError(
                f"who counted in the periods of {self._population!r} was erased, by finish or by dropping one that "
                "was released: nothing more can be added"
            )
        self._seen = [record.series_id for record in records]
        tables = []
        for record in records:
            table = pl.read_ipc(io.BytesIO(verified(record.directory, present(_units_of(record)))))
            if table.height:  # the column's name is the kind of the units; an empty table has no kind
                self._kind = table.columns[0]
                tables.append(table.rename({self._kind: "unit"}))
        if tables:
            counted = pl.concat(tables).group_by("unit").len()
            self._full = counted.filter(pl.col("len") >= self._most).select("unit")

    def kept(self, pairs: pl.DataFrame, columns: str | Sequence[str]) -> pl.DataFrame:
        """Return the pairs of those units (in these columns) that count in this period."""
        units, kind = comparable_units(pairs["unit"], columns)
        pairs = pairs.with_columns(units.alias("unit"))
        self._kind = kind_of_all(self._kind, kind, "periods")
        if self._full.height:
            pairs = pairs.join(self._full, on="unit", how="anti")
        self._units = pairs["unit"].unique()
        return pairs

    def check(self, state: State) -> None:
        """Refuse to commit if periods were added or dropped since `begin`."""
        if [record.series_id for record in periods_of(state, self._population)] != self._seen:
            raise StoreInUseError(
                f"a period of {self._population!r} was added or dropped meanwhile, and units of both may count in "
                "one of them only: nothing was written, begin again"
            )

    def files(self, directory: Path, *, durable: bool) -> list[RegisteredFile]:
        """Write the list of units that count in this period; its column is named after their kind."""
        sink = io.BytesIO()
        frame = self._units.alias(self._kind).to_frame().sort(self._kind)
        frame.write_ipc(sink, compat_level=pl.CompatLevel.oldest())
        return [write_file(directory / _UNITS, sink.getbuffer(), durable=durable)]


def periods_of(state: State, population: str) -> list[SeriesRecord]:
    """Return the series of the periods of a population, in the order in which they were added."""
    return [record for record in state.all_series() if record.population == population]


def _units_of(record: SeriesRecord) -> RegisteredFile | None:
    return next((file for file in record.files if file.name == _UNITS), None)
