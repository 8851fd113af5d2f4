"""One declaration and one budget for the series of many periods."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

from sparsehist import series
from sparsehist.counting.contract import Choice, Counts
from sparsehist.counting.sources import Log, engine_errors, open_log
from sparsehist.declaration import Declaration, Every
from sparsehist.declaration.checks import checked_choice, checked_name, checked_text, checked_whole
from sparsehist.domain import Domain
from sparsehist.errors import DataError, DeclarationError, NameTakenError, NotFoundError, present
from sparsehist.ledger.budgets import budget_within
from sparsehist.ledger.ledger import Ledger
from sparsehist.ledger.periods import USER, Periods
from sparsehist.ledger.table import DEFAULT_DELTA, Row, ledger_rows
from sparsehist.periods.calendar import Period, is_no_date, span_of
from sparsehist.periods.most_periods import UNITS, FirstPeriods, periods_of
from sparsehist.privacy import Cost, Level, level_text, total_cost
from sparsehist.privacy.epsilon_delta import guarantee
from sparsehist.privacy.guarantees import EpsilonDelta
from sparsehist.release.cell_parameters import requested
from sparsehist.release.creation import NewLog, checked_source, counted_into, counting_of
from sparsehist.release.planning import COUNTS, LEVELS, Plan, Planner, checked_levels, finite_or_none
from sparsehist.release.spending import cells_of
from sparsehist.release.stored_declaration import check_alike, declaration_of, declare
from sparsehist.series.series_handle import Series
from sparsehist.series.store_handle import Progress, Store, reporting
from sparsehist.store import State, ensure_store

LEAVING_OUT = "leaving out"
"""Begins the phase that says that rows are left out."""

_PERIODS = ("day", "week", "month")
_PER_YEAR = {"day": 365, "week": 52, "month": 12}
_MOST = 10_000
_PLANNED = "planned"
_LONGEST_NAME = 63 - len("_20260317")


class PeriodicSeries:
    """A log in periods: each is counted into a series of its own, and all of them share a declaration and a budget.

    What one unit in one period loses is the cost of the costliest period; what one unit loses over all of them is the
    sum. The ledger, every release and `progress` say both.
    """

    def __init__(self, store: Store, declaration: Declaration, rule: Periods) -> None:
        """Use `create_periodic` or `open_periodic` instead."""
        self.store = store
        self.declaration = declaration
        self.rule = rule

    def __repr__(self) -> str:
        """Name, periods and domain: public parameters only."""
        return (
            f"PeriodicSeries({self.name!r}, {self.rule.periods} {self.rule.what}s, protects={self.rule.protects!r}, "
            f"domain={self.declaration.domain.describe()}, in {self.store!r})"
        )

    def _repr_html_(self) -> str:
        """What a notebook shows: declaration, and what all periods have cost."""
        return series.in_notebook(self)

    @property
    def name(self) -> str:
        """Name of all periods together, and of their population."""
        return self.declaration.population

    def add(
        self,
        source: object,
        *,
        period: str | date | int,
        time: str | None = None,
        on_other_period: Choice = "error",
        memory_limit: str | int | None = None,
        threads: int | None = None,
        progress: Progress = None,
        who: str | None = None,
        wait: float = 0.0,
    ) -> Series:
        """Count the log of a period into its series, all or nothing; the same log again gives that series.

        Periods come in any order, each once. Give `time`: what one unit loses in one period rests on its rows of
        that period being counted in that period alone. It is a column that says when a row was: dates, timestamps,
        text that begins with a date, or the number of a step. Timestamps with a time zone are taken by the clock of
        that zone. The log is then read by Polars. `on_other_period` is "error" or "drop", for rows of another
        period or without a time; `progress` is told whether there were any, and never how many. `period` is
        "2026-03-17", "2026-W12" or "2026-03"; any day in it, as a date or its text; or a number from 1 where
        periods are steps. All else is as for `create`.

        Returns:
            Its series, as any other: `visits_2026w12`.

        Raises:
            DeclarationError: If there is no such period, or all that were declared have been added.
            DataError: If the log breaks a rule, holds rows of another period, or text for a time that is no date.
            SeriesDiffersError: If the period was added from another log, or with another `time`.
            RefusedError: If it is finished, or no longer known who counted in the periods before.
            StoreInUseError: If somebody else added a period meanwhile, and units count in some periods only.
        """
        rule, span = self.rule, span_of(self.rule.period, period)
        checked_choice("on_other_period", on_other_period, ("error", "drop"))
        if on_other_period == "drop" and time is None:
            raise DeclarationError(
                "on_other_period='drop' leaves rows out by a column that says when they were: name it with time="
            )
        name = checked_name("series", f"{self.name}_{span.name}")
        declaration = counting_of(
            source, replace(self.declaration, name=name, every=None, period=span.label, time=time)
        )
        if rule.most_periods is not None and isinstance(source, Counts):
            raise DeclarationError("most_periods needs to know which units counted before: add the log, not counts")
        with self.store._hold(wait or None) as state:
            known = [record.name for record in periods_of(state, self.name)]
            if declaration.name not in known and len(known) >= rule.periods:
                raise DeclarationError(f"all {rule.periods} {rule.what}s of {self.name!r} have been added")
        with reporting(progress) as report:
            if time is not None:
                source = _rows_of(span, source, declaration, time, on_other_period, report)
            return counted_into(
                self.store, NewLog(source, declaration, "reuse", accept_changed_source=False, who=who),
                progress=report, wait=wait,
                bound=None if rule.most_periods is None else FirstPeriods(self.name, rule.most_periods),
                memory_limit=memory_limit, threads=threads,
            )  # fmt: skip

    def series(self, period: str | date | int) -> Series:
        """The series of a period that was added.

        Raises:
            NotFoundError: If it was not.
        """
        return self.store.series(f"{self.name}_{span_of(self.rule.period, period).name}")

    def added(self) -> list[str]:
        """The periods that were added, in that order, but for those that were dropped."""
        with self.store._hold() as state:
            return [str(declaration_of(record).period) for record in periods_of(state, self.name)]

    def released(self) -> list[str]:
        """Those of the periods that were added of which something was released."""
        with self.store._hold() as state:
            names = {path.series for path in Ledger.of(state).of_population(self.name) if path.releases}
            return [str(declaration_of(one).period) for one in periods_of(state, self.name) if one.name in names]

    def progress(self, *, delta: float = DEFAULT_DELTA) -> Row:
        """What all periods have cost so far: their row of the ledger.

        Args:
            delta: At which epsilon is shown.

        Returns:
            Among others `periods` (how many were added, how many there will be, how many were released, and how many
            more can be at the level of the last one), `per_period` and `per_period_epsilon` (what one unit in one
            period bears), `level` and `epsilon` (what one unit bears), `budget` and `remaining`.
        """
        with self.store._hold() as state:
            rows = ledger_rows(Ledger.of(state), delta, short=True)
        return next(row for row in rows if row["population"] == self.name)

    def plan(
        self,
        levels: Level | EpsilonDelta | Iterable[Level | EpsilonDelta] = LEVELS,
        *,
        false_keys: float | None = None,
        threshold: float | None = None,
        delta: float | None = None,
        counts: Sequence[int] = COUNTS,
    ) -> Plan:
        """Say what one more period would publish at candidate levels, and what all of them would cost so.

        Parameters are those of `Series.plan`; levels are those of one release of each period. Beside each level
        stand `all_per_period` and `all_per_user` (exact: what all declared periods cost one unit in one of them,
        and one unit), and both as epsilon at delta 1e-6.
        """
        chosen = requested("plan", level=None, threshold=threshold, false_keys=false_keys, delta=delta)
        declaration = replace(self.declaration, name=_PLANNED)
        with self.store._hold() as state:
            ledger = Ledger.of(state)
        ledger = ledger.with_series(cells_of(_PLANNED, declaration))
        planner = Planner(ledger, _PLANNED, declaration, (), chosen)
        levels = checked_levels(levels)
        made = planner.plan(counts, levels=levels, shows=None, probability=0.95, equal=None)
        costs = [planner.cost_of_release(level) for level in levels]
        rows = [{**row, **self._all_periods(cost)} for row, cost in zip(made.by_level, costs, strict=True)]
        return replace(made, by_level=rows)

    def _all_periods(self, cost: Cost) -> Mapping[str, Any]:
        rule = self.rule
        found: dict[str, Any] = {}
        for name, times in (
            ("all_per_period", rule.per_period(rule.periods)),
            ("all_per_user", min(rule.periods, rule.per_user or rule.periods)),
        ):
            together = total_cost([cost] * times)
            found[name] = level_text(present(together.amount))
            found[f"{name}_epsilon"] = finite_or_none(guarantee(together, DEFAULT_DELTA))
        return found

    def finish(self, *, who: str | None = None) -> None:
        """Let nothing be added afterwards, and erase who counted in which period; releases go on.

        Only where a unit counts in some periods only is that known at all.

        Args:
            who: Asks for it, kept in the ledger; the user of the operating system by default.
        """
        checked_text("who", who)
        with self.store._hold() as state:
            if self.name not in Ledger.of(state).limits.finished:
                state.declare("finish periods", who=who, population=self.name)
            for record in periods_of(state, self.name):
                if any(file.name == UNITS for file in record.files):
                    state.finish_series(record, [UNITS], who=who)


def create_periodic(
    store: str | os.PathLike[str] | Store,
    *,
    name: str,
    unit: str | Sequence[str] | None,
    key: str | Sequence[str],
    max_keys: int,
    domain: Domain | str,
    period: str | int = "week",
    protects: str = USER,
    most_periods: int | None = None,
    periods: int | None = None,
    budget: Level | EpsilonDelta | None = None,
    on_null: Choice = "error",
    on_outside: Choice = "error",
    bounding: str = "keep",
    key_types: Mapping[str, str] | None = None,
    unverified: bool = False,
    if_exists: str = "error",
    who: str | None = None,
    wait: float = 0.0,
    seed: int | None = None,
) -> PeriodicSeries:
    """Declare a log in periods, each counted into a series of its own, with one budget for all; Gaussian noise.

    Parameters are those of `create`, but for these. `name` is that of all periods together and of their population;
    their series are called `name_2026w12` and the like. `max_keys` bounds the keys of a unit in each period. With
    `if_exists="reuse"` what was declared alike is returned, whatever its budget is by now. `unit` may be None where
    all periods come as `Counts`.

    `period` is "day", "week" (ISO), "month", or a whole number of steps; `periods` how many there will be at most,
    those of a year by default. `budget` is rho, or `sh.EpsilonDelta(1, 1e-6)`, that no choice of levels exceeds,
    for what `protects` says: "user", one unit over all periods, whose cost is the sum; or "user-week" ("user-day",
    "user-month", "user-period"), one unit in one period, whose cost is that of the costliest. With `most_periods`,
    a unit counts in so many at most, the first ones that are added. Its cost is then that of so many of the
    costliest. What one unit in one period bears doubles with it at most: the two costliest, as taking a unit out of
    one period lets a later one count it.

    Raises:
        DeclarationError: If a parameter is wrong, or the budget leaves room for nothing.
        NameTakenError: If the name stands for something else.
        SeriesDiffersError: If it was to be reused and is declared otherwise; says in what.

    Example:
        >>> import polars as pl
        >>> import sparsehist as sh
        >>> visits = sh.create_periodic(":memory:", name="visits", unit="user", key="url", max_keys=1,
        ...                             domain=sh.Strings(max_bytes=8), protects="user-week", budget="0.1")
        >>> log = pl.DataFrame({"user": range(500), "url": ["/home"] * 500})
        >>> for week in ("2026-W11", "2026-W12"):
        ...     _ = visits.add(log, period=week).release("public", level="0.1")
        >>> visits.progress()["per_period"], visits.progress()["level"]
        ('0.1 per user-week', '0.2')
    """
    period_text = _checked_period(period)
    if most_periods is not None:
        checked_whole("most_periods", most_periods, 1, _MOST)
    n_periods = checked_whole("periods", _PER_YEAR.get(period_text, 365) if periods is None else periods, 1, _MOST)
    rule = Periods(period_text, protects, most_periods, n_periods)
    checked_choice("protects", protects, (USER, rule.unit_period))
    if len(checked_name("log in periods", name)) > _LONGEST_NAME:
        raise DeclarationError(
            f"the name of a log in periods has at most {_LONGEST_NAME} letters, as its series add the period to it; "
            f"got {name!r}"
        )
    declaration = declare(
        name=name, unit=unit, key=key, max_keys=max_keys, domain=domain, noise="gaussian", cap=None, population=name,
        on_null=on_null, on_outside=on_outside, bounding=bounding, unverified=unverified, key_types=key_types,
    )  # fmt: skip
    declaration = replace(declaration, every=Every(period, n_periods, protects, most_periods))
    if declaration.unit is None and most_periods is not None:
        raise DeclarationError("most_periods needs the column of the unit: it has to know who counted before")
    rule = replace(rule, declaration=declaration.as_json())
    limit = None if budget is None else budget_within(budget, opens=declaration.domain.is_open)
    checked_choice("if_exists", if_exists, ("error", "reuse"))
    checked_text("who", who)
    home = store if isinstance(store, Store) else Store(store, wait=wait, seed=seed)
    ensure_store(home.path)
    with home._hold(wait or None) as state:
        ledger = Ledger.of(state)
        known = ledger.limits.periods.get(name)
        if known is not None:
            made = Declaration.from_json(known.declaration)
            check_alike(f"{home!r} has a log in periods {name!r} already", made, declaration, if_exists)
            return PeriodicSeries(home, declaration, rule)
        ledger.check_name(name)
        if ledger.of_population(name) or state.series(name) is not None:
            raise NameTakenError(f"{home!r} has a series or a population {name!r} already: take another name")
        taken = (*ledger.limits.periods, *(record.name for record in state.all_series()))
        if in_the_way := [known for known in taken if rule.names(name, known)]:
            raise NameTakenError(
                f"{home!r} has {in_the_way[0]!r}, which a {rule.what} of {name!r} would be called: take another name"
            )
        if limit is not None:
            state.declare("set budget", who=who, population=name, details=limit.as_json())
        state.declare("declare periods", who=who, population=name, details=rule.as_json())
    return PeriodicSeries(home, declaration, rule)


def open_periodic(store: str | os.PathLike[str] | Store, name: str, *, wait: float = 0.0) -> PeriodicSeries:
    """Give a log in periods of a store by its name, as `open` gives a store.

    Raises:
        NotFoundError: If there is no store, or no log in periods of that name in it.
    """
    home = store if isinstance(store, Store) else Store(store, wait=wait)
    with home._hold() as state:
        rule = Ledger.of(state).limits.periods.get(name)
        if rule is None:
            raise NotFoundError(f"{home!r} holds no log in periods {name!r}")
        declaration = _declaration(state, name, rule)
    return PeriodicSeries(home, declaration, rule)


def _declaration(state: State, name: str, rule: Periods) -> Declaration:
    """What all periods share, with the copies of catalogues that the last one has."""
    records = periods_of(state, name)
    if records:
        domain = declaration_of(records[-1]).domain
        return replace(Declaration.from_json(rule.declaration), domain=domain)
    try:
        return Declaration.from_json(rule.declaration, files={})
    except (DeclarationError, NotFoundError):
        raise NotFoundError(
            f"the catalogue of {name!r} comes into the store with the first period: add that one by create_periodic "
            "with if_exists='reuse'"
        ) from None


def _rows_of(
    span: Period,
    source: object,
    declaration: Declaration,
    time: str,
    on_other: Choice,
    report: Callable[[str], None],
) -> Log:
    """The rows of a period, read by Polars; refuses others unless they are to be dropped."""
    if isinstance(source, Counts):
        raise DeclarationError("time= is a column of the log; counts that were made elsewhere have none")
    source = checked_source(source, declaration)
    unit = declaration.unit or ()
    columns = dict.fromkeys((*((unit,) if isinstance(unit, str) else unit), *declaration.key, time))
    log = open_log(source, [*columns])
    if log.kind == "spark":
        raise DeclarationError("time= is for logs that are read here: filter a Spark frame by its days instead")
    inside = span.holds(time, log.dtypes[time])
    no_date = is_no_date(time, log.dtypes[time])
    with engine_errors(log.label, log):
        found = log.lazy([time]).select(unread=no_date.any(), alone=inside.all(), some=inside.any())
        unread, alone, some = found.collect(engine="streaming").row(0)
    if unread:
        raise DataError(f"the column {time!r} holds text that is no date: it has to begin with one like 2026-03-17")
    if on_other == "error" and not alone:
        raise DataError(
            f"the log holds rows that are not of {span.label} by the column {time!r}; on_other_period='drop' leaves "
            "them out"
        )
    if not alone:  # how many is a secret; that there are some is what the error would have said
        report(f"{LEAVING_OUT} {'rows that are' if some else 'every row, as it is'} not of {span.label}")
    return log.only(inside, [*columns])


def _checked_period(period: str | int) -> str:
    if period in _PERIODS:
        return str(period)
    if isinstance(period, bool) or not isinstance(period, int) or not 1 <= period <= _MOST:
        raise DeclarationError(f"period must be 'day', 'week', 'month' or a whole number of steps, got {period!r}")
    return str(period)
