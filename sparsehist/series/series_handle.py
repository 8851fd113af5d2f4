"""A series: one histogram of a store, its releases and its plans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import polars as pl

from sparsehist import series
from sparsehist.declaration import Declaration
from sparsehist.declaration.checks import checked_text
from sparsehist.errors import DeclarationError, NotFoundError, present
from sparsehist.ledger.ledger import Ledger
from sparsehist.privacy import Level, as_level, level_text
from sparsehist.privacy.guarantees import EpsilonDelta
from sparsehist.release import cell_round, pipeline
from sparsehist.release.cell_parameters import requested
from sparsehist.release.planning import COUNTS, Plan, Planner
from sparsehist.release.releases import Release
from sparsehist.store import SeriesRecord, State

if TYPE_CHECKING:
    from sparsehist.privacy.exact_numbers import Number
    from sparsehist.release.query_session import QuerySession
    from sparsehist.release.releases import WorkloadRelease
    from sparsehist.series.store_handle import Store
    from sparsehist.workload import Strategy, Workload


_RELEASES = {
    **dict.fromkeys(("name", "workload", "level"), str),
    **dict.fromkeys(("std", "threshold", "expected_false_keys"), float),
    "released_at": str,
}


AnyRelease = TypeVar("AnyRelease", bound=Release)


class StoredSeries:
    """What series of every kind have: a place in a store, a declaration, a cap and releases."""

    def __init__(self, store: Store, series_id: str, declaration: Declaration) -> None:
        """Use the functions that create and open series instead."""
        self.store = store
        self.declaration = declaration
        self._series_id = series_id

    @property
    def name(self) -> str:
        """Name of the series."""
        return self.declaration.name

    @contextmanager
    def _hold(self, wait: float | None = None) -> Iterator[tuple[State, SeriesRecord]]:
        """Hold the store and find the series in it."""
        with self.store._hold(wait) as state:
            record = state.series(self.name)
            if record is None or record.series_id != self._series_id:
                self.store._remember(state)
                raise NotFoundError(f"the series {self.name!r} was dropped from {self.store!r}")
            yield state, record

    def _released(
        self, made: type[AnyRelease], request: Any, open_path: pipeline.Opener, who: str | None, wait: float | None
    ) -> AnyRelease:
        """Make a release, or give it again."""
        checked_text("who", who)
        with self._hold(wait) as (state, record):
            held = pipeline.Held(state, record, self.declaration, who)
            frame, metadata, repeated = pipeline.release(held, request, open_path, generator=self.store._generator)
            return made(frame, metadata, origin=self.store._origin(state), repeated=repeated)

    def _repr_html_(self) -> str:
        """What a notebook shows: declaration and releases."""
        return series.in_notebook(self)

    def raise_cap(self, level: Level, *, reason: str, who: str | None = None) -> None:
        """Raise the cap of the series; from then on it holds ex post.

        The cap it was created with still shows in the ledger: nothing beyond it was a promise made in advance.

        Args:
            level: The new cap, exact; above the one in force.
            reason: Why; kept in the ledger.
            who: Asks for it, kept in the ledger; the user of the operating system by default.

        Raises:
            DeclarationError: If the series has no cap, the level is not above it, or there is no reason.
            BudgetExceededError: If a budget charged the series its cap, whole, at its first release.
            NotFoundError: If the series was dropped.
        """
        wanted = as_level(level)
        said = {"reason": checked_text("reason", reason, needed=True), "who": checked_text("who", who)}
        with self._hold() as (state, record):
            ledger = Ledger.of(state)
            cap = ledger.cap(record.series_id).now
            if cap is None:
                raise DeclarationError(f"the series {self.name!r} has no cap: there is nothing to raise")
            if wanted <= cap:
                raise DeclarationError(f"the cap is {level_text(cap)}: it can be raised only, got {level!r}")
            ledger.check_raised_cap(record.series_id)
            state.declare("raise cap", series_id=record.series_id, level=level_text(wanted), **said)

    def releases(self) -> pl.DataFrame:
        """Name, workload, level, threshold and time of each release, in the order they were made.

        Returns:
            One row per release: name, workload (null for one of cells), level, std, threshold and expected_false_keys
            (both null for a workload or a session of queries, whose answers are its own), released_at.
        """
        return pl.DataFrame(self._listing(), schema=_RELEASES)

    def _listing(self) -> list[dict[str, Any]]:
        """The rows of `releases`."""
        with self.store._hold() as state:
            record = state.series(self.name)
            about = [] if record is None else [release.metadata for release in pipeline.published(state, record)]
        return [{column: metadata.get(column) for column in _RELEASES} for metadata in about]


class Series(StoredSeries):
    """One histogram, fixed at creation, from which any number of releases can be made.

    All releases of a series together are as private as the finest of them: for Gaussian noise, rho-zCDP
    with rho their largest level, for neighbouring logs that differ by all rows of one unit.
    """

    def __repr__(self) -> str:
        """Name and domain: public parameters only."""
        return f"Series({self.name!r}, domain={self.declaration.domain.describe()}, in {self.store!r})"

    def release(
        self,
        name: str,
        *,
        level: Level | EpsilonDelta | None = None,
        threshold: float | None = None,
        false_keys: float | None = None,
        delta: float | None = None,
        max_false_keys: float = 1e7,
        who: str | None = None,
        wait: float | None = None,
    ) -> Release:
        """Release the histogram at a level, or give back the release of that name.

        Committed before it is returned: after a crash it is either whole or was never drawn. A name that
        exists stands for the same numbers for ever.

        Args:
            name: Of the release; a-z, 0-9 and _.
            level: Privacy level, exact; larger is finer. rho for Gaussian noise. Or `sh.EpsilonDelta(1, 1e-6)`: the
                largest level, rounded down to 12 digits, at which the release keeps to it; in an open domain half
                of delta is for the domain, unless the population's budget splits it otherwise.
            threshold: A cell is published when its rounded noisy count is above it, in counts.
            false_keys: Instead of `threshold`: how many empty cells to expect among the published; the lowest
                threshold that keeps to it is taken. 0.01 when neither is given.
            delta: For an open domain, instead of `threshold`: what this release may add to the delta of the series;
                the lowest threshold that keeps to it is taken. Half of what remains when neither is given.
            max_false_keys: Refuse a threshold that would publish more empty cells than this.
            who: Asks for it, kept in the ledger; the user of the operating system by default.
            wait: Seconds to wait for the store; the store's own by default.

        Returns:
            The release.

        Raises:
            LevelError: If the level is no positive, finite number.
            CapExceededError: If the sum over the paths of the series would exceed its cap.
            BudgetExceededError: If the population would exceed its budget, or the delta of an open domain has no
                room for it; says which threshold would do.
            ThresholdError: If the threshold cannot be served; says which would do.
            NameTakenError: If the name stands for another request.
            NotFoundError: If no level is given and there is no release of that name.
            StoreInUseError: If another process or thread holds the store.
        """
        request = requested(
            name, level=level, threshold=threshold, false_keys=false_keys, delta=delta, max_false_keys=max_false_keys
        )
        return self._released(Release, request, cell_round.open_path, who, wait)

    def release_workload(
        self,
        name: str,
        workload: Workload | str | None = None,
        *,
        level: Level | EpsilonDelta | None = None,
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
                `sh.workload.Matrix(matrix)`; sizes that are left out are those of the domain.
            level: Privacy level, exact; larger is finer; or `sh.EpsilonDelta(1, 1e-6)`, as for `release`.
            strategy: How it is answered: "auto" takes the least mean error at the series' max_keys, and keeps to it;
                or a name, such as "spectral", "identity", "residual".
            post_processing: Declared, free of cost: "consistent" (answers that some histogram gives) and
                "non_negative", or both; none by default. Standard deviations are those before it.
            who: As for `release`.
            wait: As for `release`.

        Returns:
            The release: one row per query; where queries are not listed, as in all ranges, `answer(low, high)`.

        Raises:
            DeclarationError: If a parameter is wrong, the workload does not fit the domain, the domain is open, or
                the noise of the series has no workloads. Other errors are those of `release`.

        Warns:
            CountsWarning: If max_keys is above 1: a sum over cells counts a unit once per cell it is in.

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
        from sparsehist.release import workload_round
        from sparsehist.release.releases import WorkloadRelease

        request = workload_round.requested(
            self.declaration, name, workload, level=level, strategy=strategy, post_processing=post_processing
        )
        workload_round.warn_of_counts(self.declaration, request)
        return self._released(WorkloadRelease, request, workload_round.open_path, who, wait)

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
            One row per strategy and level, best first: strategy, level, std (root of the mean variance of a query, in
            counts), lower_bound (no factorization answers with less, in counts, at one cell per unit; null
            where unknown), ratio (of the variances), sensitivity (of R·x), chosen (what "auto" takes).

        Raises:
            DeclarationError: If the workload does not fit the domain, or the noise has no workloads.
            LevelError: If a level is no level.
        """
        from sparsehist.release import workload_round

        request = workload_round.requested(
            self.declaration, "plan", workload, level=None, strategy="auto", post_processing=None
        )
        return workload_round.planned_strategies(self.declaration, present(request.workload), levels)

    def interactive(
        self,
        name: str,
        *,
        level: Level | None = None,
        accuracy: Number | None = None,
        mass: int | None = None,
        most_updates: int | None = None,
        start: Release | None = None,
        who: str | None = None,
        wait: float | None = None,
    ) -> QuerySession:
        """Open a session that answers predicates as they come to mind, or go on with the session of that name.

        It is a noise path of its own, and charged whole when it opens, whatever is asked: its level adds to that of
        the cells and of workloads. A public hypothesis about all cells answers what it answers well enough; where it
        does not, the truth is measured and the hypothesis moved, at most so many times. Worth it for predicates that
        nobody can list beforehand; what can be listed is answered far better by a release.

        Args:
            name: Of the session, unique among the releases of the series; a-z, 0-9 and _.
            level: Of the whole session, exact: epsilon beside Laplace noise, rho beside Gaussian noise, where
                updates cost much less.
            accuracy: Largest error wanted, as a share of all counts together; below a half.
            mass: All bounded counts together, where that is public; by default measured, at a part of the level.
            most_updates: Answers that can be measured; by default what the accuracy needs at most.
            start: A release of the same keys, of this series or another, to begin from: free, and much better than
                from nothing.
            who: As for `release`.
            wait: As for `release`, here and in every question.

        Returns:
            The session; `ask` it.

        Raises:
            DeclarationError: If a parameter is wrong, the domain is open or has more than 10**7 cells, or levels of
                the noise have no sum with those of sessions. Other errors are those of `release`.
            DataError: If the release to start from holds nothing above 0.

        Example:
            >>> import polars as pl
            >>> import sparsehist as sh
            >>> counts = sh.Counts(pl.DataFrame({"hour": range(24), "count": [90_000] * 6 + [1_000] * 18}))
            >>> visits = sh.create(":memory:", counts, name="visits", key="hour", max_keys=1, domain=sh.Integers(24))
            >>> session = visits.interactive("at_night", level=1, accuracy=0.2)
            >>> answer = session.ask(pl.col("hour") < 6)
            >>> answer.fresh, abs(answer.value - 540_000) < answer.error
            (True, True)
        """
        return series.open_queries(
            self, name, level=level, accuracy=accuracy, mass=mass, most_updates=most_updates, start=start, who=who,
            wait=wait,
        )  # fmt: skip

    def plan_interactive(
        self,
        levels: Level | Iterable[Level],
        accuracies: Number | Iterable[Number] = (0.05, 0.1, 0.2),
        *,
        mass: int,
        queries: int = 1000,
        most_updates: int | None = None,
        started: bool = False,
    ) -> pl.DataFrame:
        """Say what sessions of interactive queries would do; spends nothing and draws nothing.

        Args:
            levels: Candidate levels, as `interactive` takes them.
            accuracies: Candidate errors, as shares of the mass.
            mass: All bounded counts together, as far as anybody may know.
            queries: How many would be asked.
            most_updates: As `interactive` takes it.
            started: Whether a release to start from would be given.

        Returns:
            One row per level and accuracy: level and accuracy (exact text), updates (answers that can be measured),
            error (in counts, of any answer), std (of a measured answer, in counts) and failure (a bound on the
            probability that any of `queries` answers is off by more than `error`, while updates last).

        Raises:
            DeclarationError: If a parameter is wrong, or the series has no such sessions.
            LevelError: If a level is no level.

        Example:
            >>> import polars as pl
            >>> import sparsehist as sh
            >>> counts = sh.Counts(pl.DataFrame({"hour": [3], "count": [9]}))
            >>> visits = sh.create(":memory:", counts, name="visits", key="hour", max_keys=1, domain=sh.Integers(24))
            >>> visits.plan_interactive(1, 0.2, mass=10**6).select("updates", "error").row(0)
            (158, 200000.0)
        """
        return series.plan_queries(
            self.declaration, levels, accuracies, mass=mass, queries=queries, most_updates=most_updates,
            started=started,
        )  # fmt: skip

    def plan(
        self,
        levels: Level | EpsilonDelta | Iterable[Level | EpsilonDelta] | None = None,
        *,
        false_keys: float | None = None,
        threshold: float | None = None,
        delta: float | None = None,
        counts: Sequence[int] = COUNTS,
        shows: int | None = None,
        probability: float = 0.95,
        equal: int | None = None,
        wait: float | None = None,
    ) -> Plan:
        """Say what releases at candidate levels would do, each on its own; spends nothing and draws nothing.

        Depends on the declaration and on what was released before, never on the counts. Parameters and errors are
        those of `sparsehist.plan`; `equal` divides what the budget of the population leaves.

        Returns:
            The plan: tables by level and by count, and `plot()`.

        Raises:
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
        with self._hold(wait) as (state, record):
            past = state.past(record.path_id)
            planner = Planner(Ledger.of(state), record.series_id, self.declaration, past, chosen)
            return planner.plan(counts, levels=levels, shows=shows, probability=probability, equal=equal)
