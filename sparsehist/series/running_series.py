"""A series whose log goes on: steps are appended in order, and running counts released at any of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date

from sparsehist.counting.progress import Counting
from sparsehist.errors import present
from sparsehist.privacy import Level
from sparsehist.privacy.guarantees import EpsilonDelta
from sparsehist.release import any_kind, steps
from sparsehist.release.planning import COUNTS, Plan
from sparsehist.release.releases import Release, of_cells
from sparsehist.series.series import CountedSeries


class RunningSeries(CountedSeries):
    """A series to which steps are appended, and from which the running count of any of them is released.

    A unit counts once per key over all steps, at the first one in which it has the key, and towards at most max_keys
    keys: first come, first kept. All releases together, over all steps and levels and in any order, are as private as
    the finest of them, rho-zCDP with rho their largest level: the noise of all steps is one path. That noise is 1.46,
    1.87 and 2.64 times that of a single release of the same level at 7, 30 and 365 steps (root mean square).

    The store keeps who counted for what, as secret as the log, until `finish` erases it.

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

    @property
    def steps(self) -> int:
        """How many steps the series is declared for."""
        return present(self.declaration.n_steps)

    def __repr__(self) -> str:
        """Name, domain and steps: public parameters only."""
        return (
            f"RunningSeries({self.name!r}, domain={self.declaration.domain.describe()}, steps={self.steps}, "
            f"in {self.store!r})"
        )

    def appended(self) -> int:
        """Return how many steps were appended so far."""
        with self._hold() as (state, record):
            return len(state.steps(record))

    def append(self, log: object, *, step: int | str | date, counting: Counting | None = None) -> bool:
        """Append the log of the next step, all or nothing.

        The same pairs of units and keys again, for a step that was appended, change nothing; other pairs are refused:
        noise that was drawn for the counts of a step could not follow a change.

        Args:
            log: As for `create`, but not `sh.Counts`; it may be empty.
            step: Its number from 1, in order; or a day in it where steps were declared with a start.
            counting: As for `create`.

        Returns:
            Whether this call appended it: False if it was appended with the same pairs before.

        Raises:
            DeclarationError: If the series has no such step, or it is not the next one.
            DataError: If the log breaks a rule; never quotes a key or a unit.
            NameTakenError: If the step was appended with other pairs.
            RefusedError: If the series is finished.
        """
        number = present(self.declaration.steps).step_of(step)
        return steps.append_step(self.store.home, self.declaration, self.series_id, log, number, counting)

    def release(
        self,
        name: str,
        *,
        step: int | str | date | None = None,
        what: str | None = None,
        level: Level | EpsilonDelta | None = None,
        epsilon: Level | None = None,
        delta: Level | None = None,
        threshold: float | None = None,
        false_keys: float | None = None,
        open_delta: float | None = None,
        max_false_keys: float = 1e7,
    ) -> Release:
        """Release the running counts of a step at a level, or return the release of that name.

        Any step that was appended, at any level, in any order; levels are equal or a relative 1e-6 apart. The cost
        of all of them is the finest level, once. New units of single steps, and of blocks of steps, are noise paths
        of their own: each costs its own finest level, and costs add up.

        Args:
            name: As for `Series.release`; so are all parameters that are not listed here.
            step: Up to which units are counted: a number from 1, or a day.
            what: "running" (running counts, the default), "new" (units that have the key first in this step) or
                "blocks(7)" (units of a block of so many steps, of which this is the last).
            level: See `Series.release`.
            epsilon: See there.
            delta: See there.
            threshold: See there.
            false_keys: See there.
            open_delta: See there.
            max_false_keys: See there.

        Raises:
            DeclarationError: If the series has no such step, no block ends there, or the domain is open and something
                else than running counts is asked.
            NotFoundError: If the step was not appended yet, or nothing is given and there is no release of that name.
            LevelError: If the level cannot be served, or nearly is one that was released.
        """
        return of_cells(any_kind.release(
            self.store.home, self.declaration, self.series_id, name, step=step, what=what, level=level,
            epsilon=epsilon, delta=delta, threshold=threshold, false_keys=false_keys, open_delta=open_delta,
            max_false_keys=max_false_keys,
        ))  # fmt: skip

    def plan(
        self,
        levels: Level | EpsilonDelta | Iterable[Level | EpsilonDelta] | None = None,
        *,
        step: int | str | date,
        what: str | None = None,
        epsilon: Level | None = None,
        delta: Level | None = None,
        false_keys: float | None = None,
        threshold: float | None = None,
        open_delta: float | None = None,
        counts: Sequence[int] = COUNTS,
    ) -> Plan:
        """Say what releases of a step would publish at candidate levels, each on its own; spends and draws nothing.

        Depends on the declaration and on earlier releases, never on the counts: the step need not have been
        appended. `step` and `what` are those of `release`; all else is as for `Series.plan`.
        """
        return any_kind.plan(
            self.store.home, self.declaration, self.series_id, levels, step=step, what=what, epsilon=epsilon,
            delta=delta, false_keys=false_keys, threshold=threshold, open_delta=open_delta, counts=counts,
        )  # fmt: skip

    def finish(self) -> None:
        """Erase which pairs of units and keys counted; nothing can be appended afterwards, releases go on."""
        steps.finish(self.store.home, self.declaration, self.series_id)
