"""A log in periods: one series for each day, week or month, with one declaration and one budget."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

from sparsehist.counting.contract import Choice
from sparsehist.counting.progress import Counting
from sparsehist.declaration import Declaration, Every
from sparsehist.errors import present
from sparsehist.html import ABOUT, html_table, in_notebook, table_of_dicts
from sparsehist.ledger.ledger import Ledger
from sparsehist.ledger.table import DEFAULT_DELTA, Row, for_people, ledger_rows
from sparsehist.privacy import Level
from sparsehist.privacy.guarantees import EpsilonDelta
from sparsehist.release import periods
from sparsehist.release.calendar import span_of
from sparsehist.release.cell_parameters import requested
from sparsehist.release.measure_parameters import sums_asked
from sparsehist.release.parameter_rows import declaration_rows
from sparsehist.release.periods import periods_of
from sparsehist.release.planning import COUNTS, LEVELS, Plan, levels_or_goal
from sparsehist.release.stored_declaration import declaration_of
from sparsehist.series.series import Series

if TYPE_CHECKING:
    from sparsehist.series.store import Store


class PeriodicSeries:
    """A log in periods: each is counted into a series of its own, and all of them share a declaration and a budget.

    What one unit in one period loses is the cost of the costliest period; what one unit loses over all of them is the
    sum. The ledger, every release and `progress` say both.

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

    def __init__(self, store: Store, declaration: Declaration) -> None:
        """Use `create` and `Store.series` instead."""
        self.store, self.declaration = store, declaration

    def __repr__(self) -> str:
        """Name, periods and domain: public parameters only."""
        rule = self.rule
        return (
            f"PeriodicSeries({self.name!r}, {rule.n_periods} {rule.what}s, protects={rule.protects!r}, "
            f"domain={self.declaration.domain.describe()}, in {self.store!r})"
        )

    def _repr_html_(self) -> str:
        """Declaration, and what all periods have cost, for notebooks."""
        return in_notebook(self, self._tables)

    def _tables(self) -> Iterator[str]:
        yield html_table(f"Periods of {self.name}", ABOUT, declaration_rows(self.declaration))
        yield table_of_dicts("What they cost", for_people([self.progress()]))

    @property
    def name(self) -> str:
        """Name of all periods together, and of their population."""
        return self.declaration.name

    @property
    def rule(self) -> Every:
        """The declaration of the periods and of what the budget protects."""
        return present(self.declaration.every)

    def append(
        self,
        log: object,
        *,
        period: str | date | int,
        time: str | None = None,
        on_other_period: Choice = "error",
        counting: Counting | None = None,
    ) -> Series:
        """Count the log of a period into its series, all or nothing; the same log again returns that series.

        Periods come in any order, each once. Give `time`: what one unit in one period loses rests on its rows of
        that period being counted in that period alone. The log is then read by Polars.

        Args:
            log: As for `create`.
            period: "2026-03-17", "2026-W12" or "2026-03"; any day in it, as a date or its text; or a number from 1
                where periods are steps.
            time: Column that says when a row was: dates, timestamps (in their own time zone), text that begins with a
                date, or the number of a step.
            on_other_period: "error" or "drop", for rows of another period or without a time. Progress says whether
                there were any, never how many.
            counting: As for `create`.

        Returns:
            Its series, as any other: `visits_2026w12`.

        Raises:
            DeclarationError: If there is no such period, or all that were declared have been appended.
            DataError: If the log breaks a rule, holds rows of another period, or text for a time that is no date.
            SeriesDiffersError: If the period was appended from another log, or with another `time`.
            RefusedError: If it is finished, or no longer known who counted in the periods before.
            StoreInUseError: If somebody else appended a period meanwhile, and units count in some periods only.
        """
        record = periods.append_period(
            self.store.home, self.declaration, log, period, time=time, on_other_period=on_other_period,
            counting=counting,
        )  # fmt: skip
        return Series(self.store, declaration_of(record), record.series_id)

    def series(self, period: str | date | int) -> Series:
        """Return the series of a period.

        Raises:
            NotFoundError: If the period was not appended.
        """
        name = f"{self.name}_{span_of(self.rule.period, period).name}"
        with self.store.home.hold() as state:
            record = self.store.home.find(state, name)
        return Series(self.store, declaration_of(record), record.series_id)

    def appended(self) -> list[str]:
        """Return the periods in the order in which they were appended, without those that were dropped."""
        with self.store.home.hold() as state:
            return [str(declaration_of(record).period) for record in periods_of(state, self.name)]

    def progress(self, *, delta: float = DEFAULT_DELTA) -> Row:
        """Return what all periods have cost so far: their row of the ledger.

        Args:
            delta: The delta for which epsilon is shown.

        Returns:
            Among others `periods` (how many were appended, how many there will be, how many were released, and how
            many more can be at the level of the last one), `per_period` and `per_period_epsilon` (what one unit in
            one period bears), `level` and `epsilon` (what one unit bears), `budget` and `remaining`.
        """
        with self.store.home.hold() as state:
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
        """Say what one more period would publish at candidate levels, and what all of them would cost so.

        Parameters are those of `Series.plan`; levels are those of one release of each period. Beside each level
        stand `all_per_period` and `all_per_user` (exact: what all declared periods cost one unit in one of them,
        and one unit), and both as epsilon at delta 1e-6.
        """
        chosen = requested("plan", threshold=threshold, false_keys=false_keys, open_delta=open_delta)
        chosen = replace(chosen, measures=sums_asked(self.declaration, measures))
        if epsilon is not None or delta is not None:
            levels = levels_or_goal(None, epsilon, delta)
        return periods.plan_period(self.store.home, self.declaration, levels, chosen, counts)

    def finish(self) -> None:
        """Let no period be appended afterwards, and erase who counted in which; releases go on.

        Who counted is known only where a unit counts in some periods only.
        """
        periods.finish_periods(self.store.home, self.name)
