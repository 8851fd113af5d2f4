"""`Series`, `RunningSeries` and `PeriodicSeries`: histograms of a store, their releases and their plans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any, overload

import polars as pl

from sparsehist.counting.progress import Counting
from sparsehist.declaration import Declaration, Every
from sparsehist.errors import present
from sparsehist.html import ABOUT, html_table, in_notebook, table_of_dicts
from sparsehist.ledger.ledger import Ledger
from sparsehist.ledger.table import DEFAULT_DELTA, Row, for_people, ledger_rows
from sparsehist.privacy import Level
from sparsehist.privacy.guarantees import EpsilonDelta
from sparsehist.release import any_kind, periods, steps
from sparsehist.release.cell_parameters import measure_sums, requested
from sparsehist.release.limits import raise_cap
from sparsehist.release.metadata import LEVELS, checked_levels, declaration_rows
from sparsehist.release.periods import names_of_period, periods_of
from sparsehist.release.pipeline import RELEASES, rows_of_releases
from sparsehist.release.planning import COUNTS, Plan, plan_releases
from sparsehist.release.releases import Release, WorkloadRelease
from sparsehist.release.stored_declaration import declaration_of
from sparsehist.store import SeriesRecord, State

if TYPE_CHECKING:
    from sparsehist.release.query_session import QuerySession
    from sparsehist.series.store import Store
    from sparsehist.workload import Strategy, Workload


class DeclaredSeries:
    """Base class of all series. Its attributes are the store and the declaration of the series."""

    def __init__(self, store: Store, declaration: Declaration) -> None:
        """Do not call this constructor: use `create` or `Store.series`."""
        self.store, self.declaration = store, declaration

    @property
    def name(self) -> str:
        """Name of the series; for a periodic series, also the name of its population."""
        return self.declaration.name

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the declaration, and a table of the releases or of the cost of all periods."""
        return in_notebook(self, self._tables)

    def _tables(self) -> Iterator[str]:
        yield html_table(f"Series {self.name}", ABOUT, declaration_rows(self.declaration))


class CountedSeries(DeclaredSeries):
    """Base class of `Series` and `RunningSeries`, which have releases and a cap."""

    def __init__(self, store: Store, declaration: Declaration, series_id: str) -> None:
        """Do not call this constructor: use `create` or `Store.series`."""
        super().__init__(store, declaration)
        self.series_id = series_id

    @contextmanager
    def _hold(self) -> Iterator[tuple[State, SeriesRecord]]:
        """Lock the store, and yield its state and the record of the series."""
        with self.store.hold() as state:
            yield state, self.store.find(state, self.name, self.series_id)

    def _tables(self) -> Iterator[str]:
        yield from super()._tables()
        yield table_of_dicts("Releases", self.releases().to_dicts())

    def raise_cap(self, level: Level, *, reason: str) -> None:
        """Raise the cap of the series. The new cap holds only ex post; `declaration.cap` does not change.

        Raises:
            DeclarationError: If the series has no cap, the level is not above the cap, or the reason is missing.
            BudgetExceededError: If the budget of the population was charged for the whole cap at the first release.
                The cap is then final, because releases above it would not be charged.
            NotFoundError: If the series was dropped.
        """
        raise_cap(self.store, self.name, level, reason=reason, series_id=self.series_id)

    def releases(self) -> pl.DataFrame:
        """Return one row per release, in order; no rows if the series was dropped.

        The columns are name, workload (null for a release of cells), level, std, threshold and expected_false_keys
        (both null for a workload or a session of queries), and released_at.
        """
        with self.store.hold() as state:
            record = state.series(self.name)
            dropped = record is None or record.series_id != self.series_id
            rows = [] if dropped else rows_of_releases(state, present(record))
        return pl.DataFrame(rows, schema=RELEASES)

    @overload
    def release(self, name: str, *, workload: None = None, **parameters: Any) -> Release: ...

    @overload
    def release(self, name: str, *, workload: Workload | str, **parameters: Any) -> WorkloadRelease: ...

    def release(  # type: ignore[misc] # the overloads abbreviate most parameters as **parameters
        self,
        name: str,
        *,
        level: Level | EpsilonDelta | None = None,
        epsilon: Level | None = None,
        delta: Level | None = None,
        threshold: float | None = None,
        false_keys: float | None = None,
        open_delta: float | None = None,
        max_false_keys: float = 1e7,
        step: int | str | date | None = None,
        measures: Level | Mapping[str, Level] | None = None,
        workload: Workload | str | None = None,
        strategy: Strategy | str | None = None,
    ) -> Release | WorkloadRelease:
        """Release the histogram or the answers to a workload, or return the existing release with this name.

        A release is committed to the store before it is returned. The same name always gives the same numbers. All
        releases of cells are on one noise path, so together they cost as much as the finest one. Each
        combination of a workload and a strategy has a noise path of its own, and the costs of noise paths add up.

        Args:
            name: Name of the release, unique in the series: a-z, 0-9 and _, beginning with a letter.
            level: Privacy level, exact; larger is finer. ρ for Gaussian noise, ε for Laplace.
            epsilon: Instead of a level: release the counts at the largest level that is (epsilon, `delta`)-DP. The
                cost of measures is added. An open domain gets half of delta, unless the population's budget splits
                delta differently.
            delta: The delta that belongs to `epsilon`; 0 by default.
            threshold: Publish cells whose rounded noisy count is above this threshold, in counts.
            false_keys: Instead of `threshold`: use the lowest threshold with this expected number of published empty
                cells. 0.01 by default.
            open_delta: Instead, for an open domain: the delta of the series that this release spends; by default
                half of the remaining delta.
            max_false_keys: Refuse a threshold with a larger expected number of published empty cells.
            step: For a running series: the last step to count, a number from 1 or a day.
            measures: Publish sums of the series' measures for the published keys: one level for all, or a level by
                name, {"price": 0.5}. Each measure is a separate noise path, and its cost is added.
            workload: Workload to answer instead of releasing cells, such as `sh.workload.Ranges()`; or its text.
            strategy: For a workload: "spectral", "identity", "residual"; or "auto", the default, which chooses the
                least mean error at the series' max_keys once, for all releases of the workload.

        Returns:
            The release. A workload release has one row per query, or `answer(low, high)` if queries are not listed.

        Raises:
            DeclarationError: If a parameter is wrong, or the domain or noise of the series has no workloads.
            LevelError: If the level is not a positive, finite number; in a running series, if it is nearly equal to
                the level of an earlier release.
            CapExceededError: If the total cost of the series' paths would exceed its cap.
            BudgetExceededError: If the population would exceed its budget, or an open domain its delta; the message
                names an allowed threshold.
            ThresholdError: If the threshold is not possible; the message names a possible one.
            NameTakenError: If the release of this name was made with other parameters.
            NotFoundError: If no level is given and there is no release of that name, or the step was not appended.
            StoreInUseError: If another process or thread is using the store.

        Warns:
            CountsWarning: If a sum over cells may count a unit more than once.

        Example:
            >>> import polars as pl
            >>> import sparsehist as sh
            >>> log = pl.DataFrame({"user": range(500), "hour": [i % 24 for i in range(500)]})
            >>> visits = sh.create(":memory:", log, name="visits", unit="user", key="hour", max_keys=1,
            ...                    domain=sh.Integers(24))
            >>> ranges = visits.release("by_range", workload=sh.workload.Ranges(), level="0.5")
            >>> noisy_answer, std = ranges.answer(9, 17)
            >>> 0 < std < 5
            True
        """
        return any_kind.release(
            self.store, self.declaration, self.series_id, name, level=level, epsilon=epsilon, delta=delta,
            threshold=threshold, false_keys=false_keys, open_delta=open_delta, max_false_keys=max_false_keys,
            step=step, measures=measures, workload=workload, strategy=strategy,
        )  # fmt: skip

    def plan(
        self,
        levels: Level | EpsilonDelta | Iterable[Level | EpsilonDelta] | None = None,
        *,
        step: int | str | date | None = None,
        epsilon: Level | None = None,
        delta: Level | None = None,
        false_keys: float | None = None,
        threshold: float | None = None,
        open_delta: float | None = None,
        measures: Level | Mapping[str, Level] | None = None,
        counts: Sequence[int] = COUNTS,
        shows: int | None = None,
        probability: float = 0.95,
        equal: int | None = None,
    ) -> Plan:
        """Predict accuracy and cost of one release at each candidate level; nothing is drawn or spent.

        The plan depends on the declaration and on earlier releases, never on the counts. Parameters and errors are
        those of `sparsehist.plan`, but `equal=n` divides the remaining budget of the population among n new series.
        The parameters `step` and `measures` are those of `release`. A running series needs `step`, which may be a
        future step.

        Example:
            >>> import polars as pl
            >>> import sparsehist as sh
            >>> log = pl.DataFrame({"user": range(500), "url": ["/home"] * 500})
            >>> visits = sh.create(":memory:", log, name="visits", unit="user", key="url", max_keys=1,
            ...                    domain=sh.Strings(max_bytes=8), cap=1)
            >>> _ = visits.release("first", level="0.5")
            >>> planned = visits.plan(["0.1", "0.7"])
            >>> planned.levels.select("level", "adds", "currency").rows()
            [('0.1', '0', 'rho'), ('0.7', '0.2', 'rho')]
        """
        return plan_releases(
            self.store, self.declaration, self.series_id, levels, step=step, epsilon=epsilon, delta=delta,
            false_keys=false_keys, threshold=threshold, open_delta=open_delta, measures=measures,
            counts=counts, shows=shows, probability=probability, equal=equal,
        )  # fmt: skip


class Series(CountedSeries):
    """A histogram, fixed at creation, that can be released any number of times.

    All releases of a series together are as private as the finest release: with Gaussian noise they are rho-zCDP,
    where rho is the largest level, for neighbouring logs that differ by all rows of one unit.
    """

    def __repr__(self) -> str:
        """Show the name and the domain, which are public."""
        return f"Series({self.name!r}, domain={self.declaration.domain.describe()}, in {self.store!r})"

    def plan_workload(
        self, workload: Workload | str, levels: Level | EpsilonDelta | Iterable[Level | EpsilonDelta] | None = None
    ) -> pl.DataFrame:
        """Predict the error of each strategy for a workload; nothing is drawn or spent.

        Returns:
            One row per strategy and level, the best strategy first. Columns: strategy, level, std (root of the mean
            variance of an answer, in counts), ratio (mean variance divided by the smallest that any factorization
            can have if each unit counts towards one cell; null if unknown), sensitivity (of R·x), chosen (whether
            "auto" chooses this strategy).

        Raises:
            DeclarationError: If the workload does not fit the domain, or the noise has no workloads.
        """
        from sparsehist.release.workload_round import planned_strategies

        return planned_strategies(self.store, self.declaration, self.series_id, workload, levels)

    def interactive(
        self,
        name: str,
        *,
        level: Level | None = None,
        accuracy: Level | None = None,
        mass: int | None = None,
        most_updates: int | None = None,
        start: Release | None = None,
    ) -> QuerySession:
        """Open a session that answers adaptively chosen queries, or continue the session with this name.

        A session is a separate noise path, charged as a whole when it opens. A query is a predicate: the answer
        approximates the sum of the counts of the cells that satisfy the predicate. The session computes the answer
        from a public estimate of all counts. If this answer is too inaccurate, the session measures the sum with
        noise instead, and corrects the estimate.
        If you know all predicates in advance, a workload release is better.

        Args:
            name: Name of the session, unique among the releases of the series; a-z, 0-9 and _.
            level: Level of the whole session, exact: epsilon with Laplace noise; rho with Gaussian noise, which makes
                updates much cheaper.
            accuracy: Largest error of an answer, as a share of the sum of all counts; below 1/2.
            mass: Sum of all bounded counts, if public; by default it is measured with part of the level.
            most_updates: Largest number of measured answers; by default as many as the accuracy can need.
            start: A release of the same keys, of any series, for a much better first estimate at no cost.

        Raises:
            DeclarationError: If a parameter is wrong, the domain is open or has more than 10**7 cells, or sessions do
                not support the noise of the series. Other errors are as for `release`.
            DataError: If `start` has no positive count.

        Example:
            >>> import polars as pl
            >>> import sparsehist as sh
            >>> counts = sh.Counts(pl.DataFrame({"hour": range(24), "count": [90_000] * 6 + [1_000] * 18}), largest=1)
            >>> visits = sh.create(":memory:", counts, name="visits", key="hour", max_keys=1, domain=sh.Integers(24))
            >>> session = visits.interactive("at_night", level=1, accuracy=0.2)
            >>> answer = session.ask(pl.col("hour") < 6)
            >>> answer.fresh, abs(answer.value - 540_000) < answer.error
            (True, True)
        """
        from sparsehist.release.query_session import QuerySession, queries_requested

        request = queries_requested(
            self.declaration, name, level=level, accuracy=accuracy, mass=mass, most_updates=most_updates, start=start
        )
        return QuerySession(self.store, self.declaration, self.series_id, request)


class RunningSeries(CountedSeries):
    """A series whose log grows step by step. A release publishes running counts: the counts up to a given step.

    A unit counts once per key, at the first step in which it has the key, and only towards its first max_keys keys.
    Releases can be made for any steps, at any levels and in any order. They are all on one noise path. Together they
    are rho-zCDP, where rho is the largest level. With 7, 30 and 365 steps, the standard deviation of the noise (root
    mean square over steps) is 1.46, 1.87 and 2.64 times as large as in a `Series` at the same level. The store
    records which units were counted for which keys. This record is as secret as the log; `finish` erases it.

    Example:
        >>> import polars as pl
        >>> import sparsehist as sh
        >>> store = sh.open(":memory:", seed=1)
        >>> visits = sh.create(store, name="visits", unit="user", key="url", max_keys=5,
        ...                    domain=sh.Strings(max_bytes=8), steps=7)
        >>> visits.append(pl.DataFrame({"user": range(500), "url": ["/home"] * 500}), step=1)
        True
        >>> visits.append(pl.DataFrame({"user": range(250, 900), "url": ["/home"] * 650}), step=2)
        True
        >>> second, first = (visits.release(f"day_{day}", step=day, level="0.5") for day in (2, 1))
        >>> [880 < second.frame["noisy_count"].item() < 920, 480 < first.frame["noisy_count"].item() < 520]
        [True, True]
    """

    def __repr__(self) -> str:
        """Show the name, the domain and the number of steps, which are public."""
        domain, steps = self.declaration.domain.describe(), self.declaration.n_steps
        return f"RunningSeries({self.name!r}, domain={domain}, steps={steps}, in {self.store!r})"

    def appended(self) -> int:
        """Return the number of steps appended so far."""
        with self._hold() as (state, record):
            return len(state.steps(record))

    def append(self, log: object, *, step: int | str | date, counting: Counting | None = None) -> bool:
        """Append the log of the next step, completely or not at all.

        Appending a step again with the same (unit, key) pairs changes nothing. Other pairs are refused, because the
        step may have been released already.

        Args:
            log: As for `create`, but not `sh.Counts`; it may be empty.
            step: Number of the step, from 1; or a day in it, if steps were declared with a start. Steps are appended
                in order.
            counting: As for `create`.

        Returns:
            Whether this call appended the step: False if it was appended before with the same pairs.

        Raises:
            DeclarationError: If the series has no such step, or it is not the next step.
            DataError: If the log breaks a rule; the message never quotes a key or a unit.
            NameTakenError: If the step was appended with other pairs.
            RefusedError: If the series is finished.
        """
        number = present(self.declaration.steps).step_of(step)
        return steps.append_step(self.store, self.declaration, self.series_id, log, number, counting)

    def finish(self) -> None:
        """Erase the record of which units were counted. No more steps can be appended; releases remain possible."""
        steps.finish(self.store, self.declaration, self.series_id)


class PeriodicSeries(DeclaredSeries):
    """A periodic series: each period, such as a week, has its own series; all share a declaration and a budget.

    The ledger, every release and `progress` show two costs to one unit: in one period (the largest cost of any
    period) and over all periods (the sum of their costs).

    Example:
        >>> import polars as pl
        >>> import sparsehist as sh
        >>> visits = sh.create(":memory:", name="visits", unit="user", key="url", max_keys=1,
        ...                    domain=sh.Strings(max_bytes=8),
        ...                    every=sh.Every("week", protects="user-week", budget="0.1"))
        >>> log = pl.DataFrame({"user": range(500), "url": ["/home"] * 500})
        >>> for week in ("2026-W11", "2026-W12"):
        ...     _ = visits.append(log, period=week).release("public", level="0.1")
        >>> visits.progress()["per_period"], visits.progress()["level"]
        ('0.1 per user-week', '0.2')
    """

    def __repr__(self) -> str:
        """Show the name, the periods and the domain, which are public."""
        rule = self.rule
        return (
            f"PeriodicSeries({self.name!r}, {rule.n_periods} {rule.period}s, protects={rule.protects!r}, "
            f"domain={self.declaration.domain.describe()}, in {self.store!r})"
        )

    def _tables(self) -> Iterator[str]:
        yield from super()._tables()
        yield table_of_dicts("Cost of the periods", for_people([self.progress()]))

    @property
    def rule(self) -> Every:
        """The `Every` object that declares the periods and the privacy unit that the budget protects."""
        return present(self.declaration.every)

    def append(
        self,
        log: object,
        *,
        period: str | date,
        counting: Counting | None = None,
    ) -> Series:
        """Append the log of a period as a new series, and return this series. If this fails, nothing is appended.

        Periods can be appended in any order. Appending the same log again returns the existing series; a different
        log for the same period is refused. The cost per period is correct only if no row is in the logs of two
        periods.

        Args:
            log: The rows of this period, as for `create`. Rows of other periods cannot be detected, and would count.
            period: "2026-03-17", "2026-W12" or "2026-03"; or any day in the period, as a date or text.
            counting: As for `create`.

        Raises:
            DeclarationError: If there is no such period, or all declared periods have been appended.
            DataError: If the log breaks a rule.
            SeriesDiffersError: If the period was appended from another log.
            RefusedError: If the periodic series is finished, or the record of which units counted was erased.
            StoreInUseError: If another process appended a period meanwhile, and `most_periods` is set.
        """
        record = periods.append_period(self.store, self.declaration, log, period, counting)
        return Series(self.store, declaration_of(record), record.series_id)

    def series(self, period: str | date) -> Series:
        """Return the series of a period. Raise a NotFoundError if the period was not appended."""
        with self.store.hold() as state:
            record = self.store.find(state, names_of_period(self.declaration, period)[1])
        return Series(self.store, declaration_of(record), record.series_id)

    def appended(self) -> list[str]:
        """Return the periods that were appended and not dropped, in the order in which they were appended."""
        with self.store.hold() as state:
            return [str(declaration_of(record).period) for record in periods_of(state, self.name)]

    def progress(self, *, delta: float = DEFAULT_DELTA) -> Row:
        """Return the ledger row of this series. It shows the cost of all periods so far; epsilon is shown at `delta`.

        `periods` says how many periods were declared, appended and released, and how many more can be released at
        the level of the last period. `per_period` and `per_period_epsilon` are the cost to one unit in one period.
        `level` and `epsilon` are the cost to one unit over all periods. The row also has `budget` and `remaining`.
        """
        with self.store.hold() as state:
            rows = ledger_rows(Ledger.of(state), delta, short=True)
        return next(row for row in rows if row["population"] == self.name)

    def plan(
        self,
        levels: Level | EpsilonDelta | Iterable[Level | EpsilonDelta] = LEVELS,
        *,
        epsilon: Level | None = None,
        delta: Level | None = None,
        false_keys: float | None = None,
        threshold: float | None = None,
        open_delta: float | None = None,
        measures: Level | Mapping[str, Level] | None = None,
        counts: Sequence[int] = COUNTS,
    ) -> Plan:
        """Predict accuracy and cost of a release of one more period, and the cost of releasing all declared periods.

        Parameters are those of `Series.plan`. For each level, the plan assumes that all declared periods are released
        once at this level: `all_per_period` is then the exact cost to one unit in one period, and `all_per_user` the
        exact cost to one unit over all periods. Both are also shown as epsilon at delta 1e-6.
        """
        chosen = requested("plan", threshold=threshold, false_keys=false_keys, open_delta=open_delta)
        chosen = replace(chosen, measures=measure_sums(self.declaration, measures))
        if epsilon is not None or delta is not None:
            levels = checked_levels(None, epsilon, delta)
        return periods.plan_period(self.store, self.declaration, levels, chosen, counts)

    def finish(self) -> None:
        """Refuse further periods, and erase the lists of units counted in each period. Releases remain possible."""
        periods.finish_periods(self.store, self.name)
