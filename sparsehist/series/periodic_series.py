"""Periodic series: one series for each day, week or month, with one declaration and one budget."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

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
    """A periodic series: each period of a log is its own series, and all share a declaration and a budget.

    The cost to one unit in one period is the cost of the costliest period; the cost to one unit over all periods is
    their sum. The ledger, every release and `progress` show both.

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
        """Show name, periods and domain: public parameters only."""
        rule = self.rule
        return (
            f"PeriodicSeries({self.name!r}, {rule.n_periods} {rule.period}s, protects={rule.protects!r}, "
            f"domain={self.declaration.domain.describe()}, in {self.store!r})"
        )

    def _repr_html_(self) -> str:
        """Show the declaration, and the cost of all periods, in notebooks."""
        return in_notebook(self, self._tables)

    def _tables(self) -> Iterator[str]:
        yield html_table(f"Periods of {self.name}", ABOUT, declaration_rows(self.declaration))
        yield table_of_dicts("What they cost", for_people([self.progress()]))

    @property
    def name(self) -> str:
        """Name of the periodic series, and of its population."""
        return self.declaration.name

    @property
    def rule(self) -> Every:
        """The declaration of the periods and of the privacy unit of the budget."""
        return present(self.declaration.every)

    def append(
        self,
        log: object,
        *,
        period: str | date,
        counting: Counting | None = None,
    ) -> Series:
        """Count the log of a period into its series, completely or not at all; the same log returns the same series.

        Periods can be appended in any order, each once. The cost per unit and period is right only if each row
        counts in its own period alone.

        Args:
            log: The rows of this period, as for `create`. Rows of other periods count too, and cannot be detected.
            period: "2026-03-17", "2026-W12" or "2026-03"; or any day in the period, as a date or text.
            counting: As for `create`.

        Returns:
            The series of the period, such as `visits_2026w12`.

        Raises:
            DeclarationError: If there is no such period, or all declared periods have been appended.
            DataError: If the log breaks a rule.
            SeriesDiffersError: If the period was appended from another log.
            RefusedError: If the periodic series is finished, or the record of who counted before was erased.
            StoreInUseError: If another process appended a period meanwhile, and `most_periods` is set.
        """
        record = periods.append_period(self.store.home, self.declaration, log, period, counting)
        return Series(self.store, declaration_of(record), record.series_id)

    def series(self, period: str | date) -> Series:
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
        """Return the cost of all periods so far, as their row of the ledger.

        Args:
            delta: The delta for which epsilon is shown.

        Returns:
            Among others `periods` (how many were appended, are declared, were released, and can still be released at
            the level of the last one), `per_period` and `per_period_epsilon` (cost to one unit in one period),
            `level` and `epsilon` (cost to one unit), `budget` and `remaining`.
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
        """Plan one more period at candidate levels, and the cost of all declared periods at the same level.

        Parameters are those of `Series.plan`, for one release of each period. `all_per_period` and
        `all_per_user` are the exact costs, to one unit in one period and to one unit in all periods, if all declared
        periods are released at this level. Both are also shown as epsilon at delta 1e-6.
        """
        chosen = requested("plan", threshold=threshold, false_keys=false_keys, open_delta=open_delta)
        chosen = replace(chosen, measures=sums_asked(self.declaration, measures))
        if epsilon is not None or delta is not None:
            levels = levels_or_goal(None, epsilon, delta)
        return periods.plan_period(self.store.home, self.declaration, levels, chosen, counts)

    def finish(self) -> None:
        """Refuse further periods, and erase which units counted in which periods; releases remain possible.

        The record exists only with `most_periods`.
        """
        periods.finish_periods(self.store.home, self.name)
