"""Plans of a series: what releases would do, before they are made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sparsehist.planning.cell_plan import COUNTS, LEVELS, Plan, in_store, planned
from sparsehist.privacy import Level
from sparsehist.series.held_series import HeldSeries
from sparsehist.series.request import requested


class PlannedSeries(HeldSeries):
    """The planning of a `Series`."""

    def plan(
        self,
        levels: Level | Iterable[Level] = LEVELS,
        *,
        false_keys: float | None = None,
        threshold: float | None = None,
        delta: float | None = None,
        counts: Sequence[int] = COUNTS,
        wait: float | None = None,
    ) -> Plan:
        """Say what releases at candidate levels would do, each on its own; spends nothing and draws nothing.

        Depends on the declaration and on what was released before, never on the counts.

        Args:
            levels: Candidate levels, exact.
            false_keys: Expected number of empty cells among the published; 1 where no threshold is given either.
            threshold: In counts, instead.
            delta: For an open domain, instead: what the release may take of its delta.
            counts: True counts to show the error at.
            wait: Seconds to wait for the store; the store's own by default.

        Returns:
            The plan: tables by level and by count, and `plot()`.

        Raises:
            DeclarationError: If a parameter is wrong.
            LevelError: If a level is no level, or cannot be served.
            ThresholdError: If a threshold cannot be served.
            BudgetExceededError: If the delta of an open domain has no room for a release.

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
        chosen = requested("plan", level=None, threshold=threshold, false_keys=false_keys, delta=delta)
        with self.held(wait) as (state, record):
            cost = in_store(state, record, self.declaration, record.path_id)
            return planned(self.declaration, state.releases(record.path_id), levels, chosen, counts, cost)
