"""The noise path of running counts: what is public of a release, what a round draws, and the rows of a release."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl

from sparsehist.domain import Open, draw_free
from sparsehist.errors import DeclarationError, NotFoundError, of_kind, present
from sparsehist.histogram.open_budget import OpenBudget, OpenBudgets
from sparsehist.histogram.slack import step_slack
from sparsehist.histogram.step_round import PointHistory, StepRound, draw_step_round
from sparsehist.ledger.ledger import CELLS, PathName
from sparsehist.noise.over_steps import Point, StepNoise
from sparsehist.privacy import level_text
from sparsehist.running.step_files import StepFiles
from sparsehist.series.cell_parameters import (
    LAZILY,
    CellRequest,
    check_std,
    closed_parameters,
    of_release,
    open_guarantee,
    open_parameters,
)
from sparsehist.series.cell_round import is_in, published_frame, shown_cells
from sparsehist.series.declaration import Declaration
from sparsehist.series.metadata import RunningMetadata, shared
from sparsehist.series.pipeline import Held, MakeGenerator
from sparsehist.store import NewRound, PathRecord, Tracked
from sparsehist.store.support import hash_keys
from sparsehist.typing import IntArray
from sparsehist.workload import Prefix
from sparsehist.workload.strategies.spectral import Spectral


@dataclass(frozen=True)
class RunningRequest(CellRequest):
    """What a caller asked of a release of running counts.

    Attributes:
        step: From 1; None as the release of that name has it.
    """

    needs = "step= and level="

    step: int | None = None

    @property
    def complete(self) -> bool:
        return self.step is not None and super().complete

    def as_json(self) -> dict[str, Any]:
        return super().as_json() | {"step": self.step}


@lru_cache(maxsize=8)
def step_noise(steps: int, max_keys: int) -> StepNoise:
    """The noise of one key over all steps: prefix sums by the spectral strategy, at level 1/2.

    A unit puts one 1 into the steps of each of at most `max_keys` keys, and the strategy's columns have norm 1.
    """
    strategy = Spectral(Prefix(steps))
    answers = np.cumsum(strategy.solve(np.eye(strategy.n_noise)), axis=0)
    covariance = max_keys * strategy.sensitivity(1).l2 ** 2 * (answers @ answers.T)
    return StepNoise((covariance + covariance.T) / 2)


@dataclass(frozen=True, repr=False)
class RunningPath:
    """The running counts of a series."""

    held: Held
    files: StepFiles

    @property
    def path_id(self) -> int:
        return self.held.record.path_id

    @property
    def name(self) -> PathName:
        return CELLS

    @property
    def noise(self) -> StepNoise:
        """Of one key."""
        declaration = self.held.declaration
        return step_noise(present(declaration.steps), declaration.max_keys)

    def metadata(self, request: RunningRequest) -> RunningMetadata:
        step = present(request.step)
        if step > self.files.n_steps:
            raise NotFoundError(
                f"step {step} of {self.held.declaration.name!r} was not appended yet; {self.files.n_steps} were"
            )
        past = self.held.state.past_points(self.path_id)
        return running_metadata(self.held.declaration, self.noise, request, past)

    def statement(self, request: RunningRequest, metadata: RunningMetadata) -> tuple[str, bool]:
        declaration, level = self.held.declaration, present(request.level)
        spent = [known for _, known, _ in self.held.state.past_points(self.path_id)]
        finest = max([level, *spent])
        words = metadata.family.statement(finest)
        if declaration.domain.is_open:
            return f"{open_guarantee(declaration, level_text(finest), words, metadata.delta_spent)}; {LAZILY}", True
        return f"this release and all earlier ones of the series together: {words}; {LAZILY}", False

    def draw(
        self, request: RunningRequest, metadata: RunningMetadata, *, who: str | None, rng: np.random.Generator
    ) -> NewRound:
        state, domain = self.held.state, self.held.declaration.domain
        point = Point(metadata.step - 1, present(request.level))
        past = history_of(state.past_points(self.path_id), is_open=domain.is_open)
        history = past.with_release(point, metadata.effective_threshold)
        tracked = state.tracked(self.path_id)
        all_keys = self.files.all_keys
        known, false_keys = self._resolved(tracked, all_keys)
        counts, largest = self.files.counts_at(sorted({point.step, history.steps[-1]}), all_keys.height)[[0, -1]]
        free = np.ones(all_keys.height, bool)
        free[known[known >= 0]] = False
        untracked = np.flatnonzero(free)
        taken = pl.concat([all_keys, false_keys])
        drawn = draw_step_round(
            self.noise,
            past,
            point,
            metadata.effective_threshold,
            tracked=state.all_noise(self.path_id, tracked.position.size),
            counts=counts[untracked],
            largest=largest[untracked],
            n_empty=0 if domain.is_open else domain.size - taken.height,
            counts_at=lambda some: self.files.counts_of(untracked[some], history.steps, all_keys.height),
            rng=rng,
        )
        n_empty = int(np.count_nonzero(drawn.cells < 0))
        fresh = all_keys.clear()
        if n_empty:
            fresh = draw_free(
                domain, n_empty, n_taken=taken.height, taken=lambda keys: is_in(keys, taken),
                taken_keys=lambda: taken, rng=rng,
            )  # fmt: skip
        is_new = point not in past.points
        return self._round(request, metadata, history, drawn, untracked, fresh, is_new=is_new, who=who)

    def _round(
        self,
        request: RunningRequest,
        metadata: RunningMetadata,
        history: PointHistory,
        drawn: StepRound,
        untracked: IntArray,
        fresh: pl.DataFrame,
        *,
        is_new: bool,
        who: str | None,
    ) -> NewRound:
        positions = np.full(drawn.cells.size, -1, np.int64)
        positions[drawn.cells >= 0] = untracked[drawn.cells[drawn.cells >= 0]]
        return NewRound(
            path_id=self.path_id,
            name=request.name,
            level=present(request.level),
            request=request.as_json()
            | {
                "threshold": metadata.threshold,
                "false_keys": metadata.false_keys,
                "delta_share": metadata.delta_share,
            },
            threshold=metadata.effective_threshold,
            metadata=metadata.as_dict(),
            level_noise=drawn.tracked if is_new else None,
            positions=positions,
            counts=np.zeros(positions.size, np.int64),  # they differ by step, and stand with the steps
            empty_keys=fresh,
            paths={(at.step, at.level): drawn.paths[i] for i, at in enumerate(history.points)},
            who=who,
            step=metadata.step - 1,
        )

    def rows(self, level: Fraction, metadata: RunningMetadata) -> pl.DataFrame:
        """Read from what was committed: counts of a step never change, so that a release is the same for ever."""
        state, declaration, step = self.held.state, self.held.declaration, metadata.step - 1
        tracked = state.tracked(self.path_id)
        noise = state.noise(self.path_id, (step, level), tracked.position.size)
        all_keys = self.files.all_keys
        known, false_keys = self._resolved(tracked, all_keys)
        counts = np.zeros(known.size, np.int64)
        counts[known >= 0] = self.files.counts_at([step], all_keys.height)[0][known[known >= 0]]
        if declaration.domain.is_open:
            noise = np.where(counts > 0, noise, -np.inf)
        shown = shown_cells(Tracked(known, counts), noise, metadata.effective_threshold, metadata.grid)
        return published_frame(declaration, self.files, false_keys, shown)

    def _resolved(self, tracked: Tracked, all_keys: pl.DataFrame) -> tuple[IntArray, pl.DataFrame]:
        """The numbers of the tracked keys, -1 for those that never had a unit, and these, in order.

        A false key that got units later keeps its noise.
        """
        if not (tracked.position < 0).any():
            return tracked.position, all_keys.clear()
        keys = self.held.state.empty_keys(self.path_id).drop("cell")
        found = self.files.known_keys.find(keys, hash_keys(keys, self.held.record.salt))
        known = tracked.position.copy()
        known[known < 0] = found
        return known, keys.filter(pl.Series(found < 0))


def running_metadata(
    declaration: Declaration, noise: StepNoise, request: RunningRequest, past: list[tuple[int, Fraction, float]]
) -> RunningMetadata:
    """Choose the threshold and say what a release will be: a function of public parameters only.

    Args:
        declaration: Of the series.
        noise: Of one key.
        request: With a step and a level.
        past: Steps (from 0) and levels released so far, each with the lowest effective threshold.
    """
    point = Point(present(request.step) - 1, present(request.level))
    family, domain = noise.at(point.step), declaration.domain
    history = history_of(past, is_open=domain.is_open)
    check_std(declaration, point.level, family.std(point.level))
    # Refuses levels that are nearly equal, before anything is chosen by them.
    factor = noise.factor(history.with_release(point, math.inf).points)
    if isinstance(domain, Open):
        chosen = open_parameters(domain, request, open_spent(declaration, noise, past, point))
    else:

        def still_lazy(effective: float) -> float | None:
            rare = history.with_release(point, effective).draws_all_empty(noise)
            return history.largest_tail(noise) if rare else None

        chosen = closed_parameters(family, domain, request, still_lazy)
    return RunningMetadata(
        **shared(declaration),
        **of_release(family, request),
        **chosen,
        numerical_slack=step_slack(factor, family.std(point.level), declaration.max_keys),
        step=point.step + 1,
        steps=noise.n_steps,
        strategy=Spectral.word,
        counts=f"units that had the key by step {point.step + 1}, each once",
    )


def open_spent(
    declaration: Declaration, noise: StepNoise, past: list[tuple[int, Fraction, float]], point: Point
) -> OpenBudgets:
    """What releases have left of the delta of an open domain, for one more at a point.

    Of each point P[1 + noise > threshold] is spent: a unit may be alone at a key at every step, also where others
    join later; their sum is an upper bound.
    """
    domain = of_kind(declaration.domain, Open)
    spent = tuple(math.exp(float(noise.at(step).log_tail(bound - 1, level))) for step, level, bound in past)
    known = [(level, bound) for step, level, bound in past if (step, level) == point]
    budget = OpenBudget(float(domain.delta), declaration.max_keys, spent)
    return OpenBudgets(noise.at(point.step), known, ((1, budget),))


def history_of(past: list[tuple[int, Fraction, float]], *, is_open: bool) -> PointHistory:
    """What the core knows of earlier releases."""
    points = tuple(Point(step, level) for step, level, _ in past)
    return PointHistory(points, tuple(bound for *_, bound in past), hides_empty=is_open)


def open_path(
    held: Held, request: RunningRequest, known: PathRecord | None, *, generator: MakeGenerator
) -> RunningPath:
    """The path of the running counts, which every running series has."""
    del request, known, generator
    return RunningPath(held, StepFiles(held.state, held.record, held.declaration.domain.dtypes))


def at_step(cells: CellRequest, step: int | None, steps: int) -> RunningRequest:
    """The same request of a running count.

    Raises:
        DeclarationError: If the series has no such step.
    """
    given = {field.name: getattr(cells, field.name) for field in fields(cells)}
    return RunningRequest(**given, step=None if step is None else checked_step(step, steps))


def checked_step(step: int, steps: int) -> int:
    """A step of a series, from 1.

    Raises:
        DeclarationError: If it is none.
    """
    if isinstance(step, bool) or not isinstance(step, int) or not 1 <= step <= steps:
        raise DeclarationError(f"step must be a whole number from 1 to {steps}, got {step!r}")
    return step
