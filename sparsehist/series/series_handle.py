"""Workloads of a series: prefix sums, ranges, marginals and other linear queries on its bounded counts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import polars as pl

from sparsehist.accounting.limits import checked_text
from sparsehist.privacy import Level
from sparsehist.series.held_series import HeldSeries

if TYPE_CHECKING:  # a fifth of the time to start, and most series have no workloads
    from sparsehist.series.workload_release import WorkloadRelease
    from sparsehist.workload import Strategy, Workload


class WorkloadSeries(HeldSeries):
    """The workloads of a `Series`."""

    def release_workload(
        self,
        name: str,
        workload: Workload | str | None = None,
        *,
        level: Level | None = None,
        strategy: Strategy | str = "auto",
        post_processing: str | Iterable[str] | None = None,
        who: str | None = None,
        wait: float | None = None,
    ) -> WorkloadRelease:
        """Release the answers of a workload at a level, or give back the release of that name.

        Each workload answered by a strategy is a noise path of its own: its releases together cost what the finest
        of them costs, whatever the order; that adds to the cost of the cells and of other workloads. Committed
        before it is returned.

        Args:
            name: Of the release, unique over the series; a-z, 0-9 and _.
            workload: What is asked, or its text: `sh.Prefix()`, "ranges()", `sh.Marginals(k=2)`, a matrix by
                `sh.Workload(matrix)`; sizes that are left out are those of the domain.
            level: Privacy level, exact; larger is finer.
            strategy: How it is answered: "auto" takes the least mean error at the series' max_keys, and keeps to it;
                or a name, such as "spectral", "identity", "residual".
            post_processing: Declared, free of cost: "consistent" (answers that some histogram gives) and
                "non_negative", or both; none by default. Standard deviations are those before it.
            who: Asks for it, kept in the ledger; the user of the operating system by default.
            wait: Seconds to wait for the store; the store's own by default.

        Returns:
            The release: a row a query; for workloads that are not listed, such as all ranges, `answer(low, high)`.

        Raises:
            DeclarationError: If a parameter is wrong, the workload does not fit the domain, the domain is open, or
                the noise of the series has no workloads.
            LevelError: If the level is no level or cannot be served.
            CapExceededError: If the sum over the paths of the series would exceed its cap.
            BudgetExceededError: If the population would exceed its budget.
            NameTakenError: If the name stands for another request.
            NotFoundError: If there is no release of that name and no workload and level to make it.
            StoreInUseError: If another process or thread holds the store.

        Example:
            >>> import polars as pl
            >>> import sparsehist as sh
            >>> log = pl.DataFrame({"user": range(500), "hour": [i % 24 for i in range(500)]})
            >>> visits = sh.create(":memory:", log, name="visits", unit="user", key="hour", max_keys=1,
            ...                    domain=sh.Integers(24))
            >>> ranges = visits.release_workload("by_range", sh.Ranges(), level="0.5")
            >>> noisy_answer, std = ranges.answer(9, 17)
            >>> 0 < std < 5
            True
        """
        from sparsehist.series import workload_round
        from sparsehist.series.workload_release import WorkloadRelease

        request = workload_round.requested(
            self.declaration, name, workload, level=level, strategy=strategy, post_processing=post_processing
        )
        checked_text("who", who)
        with self.held(wait) as (state, record):
            files = state.series_files(record)
            released = workload_round.existing(state, record, files, self.declaration, request)
            if released is None:
                released = workload_round.release(
                    state, record, files, self.declaration, request, who=who, rng=self.store.generator()
                )
            origin = self.store.origin(state)
        frame, metadata = released
        return WorkloadRelease(frame, metadata, origin=origin)

    def plan_workload(
        self,
        workload: Workload | str,
        levels: Level | Iterable[Level] | None = None,
    ) -> pl.DataFrame:
        """Say how well each strategy would answer a workload; spends nothing and draws nothing.

        Args:
            workload: What would be asked, or its text.
            levels: Candidate levels; 0.001, 0.01, 0.1 and 1 by default.

        Returns:
            A row a strategy and level, best first: strategy, level, std (root of the mean variance of a query, in
            counts), lower_bound (no factorization answers with less, in counts, at one cell a unit; null where
            unknown), ratio (of the variances), sensitivity (of R·x), chosen (what "auto" takes).

        Raises:
            DeclarationError: If the workload does not fit the domain, or the noise has no workloads.
            LevelError: If a level is no level.
        """
        from sparsehist.planning.workload_plan import planned_strategies
        from sparsehist.series import workload_round

        request = workload_round.requested(
            self.declaration, "plan", workload, level=None, strategy="auto", post_processing=None
        )
        assert request.workload is not None
        return planned_strategies(self.declaration, request.workload, levels)
