"""Make releases of running counts: choose the metadata, draw the noise, and read the rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import polars as pl

from sparsehist.declaration import Declaration
from sparsehist.domain import draw_free
from sparsehist.errors import NotFoundError, present
from sparsehist.histogram.step_round import PointHistory, draw_step_round
from sparsehist.ledger.spent import CELLS, PathName
from sparsehist.noise.over_steps import Point, StepNoise
from sparsehist.release.cell_parameters import LAZILY, CellRequest, joint_statement, parameters_at
from sparsehist.release.metadata import RunningMetadata
from sparsehist.release.pipeline import NoisePath
from sparsehist.release.published_rows import is_in, published_frame, shown_cells
from sparsehist.release.steps import StepFiles
from sparsehist.store import NewRound, Tracked
from sparsehist.typing import FloatArray, IntArray
from sparsehist.workload import Prefix
from sparsehist.workload.strategies.spectral import Spectral

PastPoints = list[tuple[int, Fraction, float]]
"""For each (step, level) released before: step (from 0), level and lowest effective threshold."""


@dataclass(frozen=True)
class RunningRequest(CellRequest):
    """The parameters of a release of running counts; steps are numbered from 1."""

    step: int | None = None

    @property
    def missing(self) -> list[str]:
        return [*(["step="] if self.step is None else []), *super().missing]

    def as_json(self) -> dict[str, Any]:
        return super().as_json() | {"step": self.step}


@dataclass(frozen=True, repr=False)
class RunningPath(NoisePath):
    """The noise path of the running counts of a series."""

    @cached_property
    def files(self) -> StepFiles:
        """The files of all steps. They contain the keys, the counted (unit, key) pairs, and the counts."""
        return StepFiles(self.locked.state, self.locked.record, self.locked.declaration.domain.dtypes)

    @property
    def name(self) -> PathName:
        return CELLS

    @property
    def past(self) -> PastPoints:
        """For each earlier release point: the step (the first is 0), the level, and the lowest threshold used."""
        return self.locked.state.past_points(self.locked.record.path_id)

    def metadata(self, request: RunningRequest) -> RunningMetadata:
        step, declaration = present(request.step), self.locked.declaration
        appended = self.locked.state.steps(self.locked.record)
        if step > len(appended):
            raise NotFoundError(
                f"step {step} of the series has not been appended yet; {declaration.name!r} has {len(appended)} steps"
            )
        # The guarantee of a step depends only on the sources of this step and of earlier steps.
        source = max(each.source for each in appended[:step])
        return running_metadata(replace(declaration, source=source), request, self.past)

    def statement(self, request: RunningRequest, metadata: RunningMetadata) -> str:
        declaration = self.locked.declaration
        finest = max([present(request.level), *(level for _, level, _ in self.past)])
        words = metadata.family.statement(finest)
        if declaration.domain.is_open:
            return f"{joint_statement(declaration, words, finest, metadata.delta_spent)}; {LAZILY}"
        return f"this release and all earlier ones of the series together: {words}; {LAZILY}"

    def draw(self, request: RunningRequest, metadata: RunningMetadata, *, rng: np.random.Generator) -> NewRound:
        declaration, path_id, all_keys = self.locked.declaration, self.locked.record.path_id, self.files.all_keys
        domain, counts_at = declaration.domain, self.files.counts_at
        point = Point(metadata.step - 1, present(request.level))
        past = _history(self.past, is_open=domain.is_open)
        history = past.with_release(point, metadata.effective_threshold)
        numbers, false_keys = self._tracked()
        untracked = np.setdiff1d(np.arange(all_keys.height), numbers)
        taken = pl.concat([all_keys, false_keys])
        noise = [self.locked.state.noise(path_id, at, numbers.size) for at in past.points]
        drawn = draw_step_round(
            noise_over_steps(declaration),
            past,
            point,
            metadata.effective_threshold,
            tracked=np.array(noise) if noise else np.empty((0, 0)),
            counts=counts_at([point.step], untracked)[0],
            largest=counts_at([history.steps[-1]], untracked)[0],  # counts never decrease, so these are the largest
            n_empty=0 if domain.is_open else domain.size - taken.height,
            counts_at=lambda some: counts_at(history.steps, untracked[some]),
            rng=rng,
        )
        n_empty = int(np.count_nonzero(drawn.cells < 0))
        fresh = all_keys.clear()
        if n_empty:
            fresh = draw_free(
                domain, n_empty, n_taken=taken.height, taken=lambda keys: is_in(keys, taken),
                taken_keys=lambda: taken, rng=rng,
            )  # fmt: skip
        positions = np.full(drawn.cells.size, -1, np.int64)
        positions[drawn.cells >= 0] = untracked[drawn.cells[drawn.cells >= 0]]
        return self.new_round(
            request,
            metadata,
            threshold=metadata.effective_threshold,
            level_noise=None if point in past.points else drawn.tracked,
            positions=positions,
            counts=np.zeros(positions.size, np.int64),  # zeros are enough: `rows` reads counts from step files
            empty_keys=fresh,
            paths=dict(zip(history.points, drawn.paths, strict=True)),
            step=point.step,
        )

    def rows(self, level: Fraction, metadata: RunningMetadata) -> pl.DataFrame:
        """Return the rows of a committed release. Rows never change, because the counts of a step never change."""
        step, (numbers, false_keys) = metadata.step - 1, self._tracked()
        noise = self.locked.state.noise(self.locked.record.path_id, (step, level), numbers.size)
        counts = np.zeros(numbers.size, np.int64)
        counts[numbers >= 0] = self.files.counts_at([step], numbers[numbers >= 0])[0]
        if self.locked.declaration.domain.is_open:
            noise = np.where(counts > 0, noise, -np.inf)
        shown = shown_cells(Tracked(numbers, counts), noise, false_keys, metadata.effective_threshold, metadata.grid)
        return published_frame(self.locked.declaration.key, self.files.all_keys.__getitem__, shown)

    def _tracked(self) -> tuple[IntArray, pl.DataFrame]:
        """Return the row of each tracked key in `files.all_keys` (-1 for an empty key), and the tracked empty keys.

        A tracked key that is empty keeps its noise when units touch it at a later step.
        """
        path_id = self.locked.record.path_id
        numbers = self.locked.state.tracked(path_id).position.copy()
        if not (numbers < 0).any():
            return numbers, self.files.all_keys.clear()
        keys = self.locked.state.empty_keys(path_id)
        numbers[numbers < 0] = since = self.files.numbers_of(keys).cast(pl.Int64).fill_null(-1).to_numpy()
        return numbers, keys.filter(pl.Series(since < 0))


def running_metadata(declaration: Declaration, request: RunningRequest, past: PastPoints) -> RunningMetadata:
    """Choose the threshold of a release of running counts, and return its metadata, from public parameters only."""
    noise, step = noise_over_steps(declaration), present(request.step)
    point = Point(step - 1, present(request.level))
    history = _history(past, is_open=declaration.domain.is_open)
    # Factor the covariance matrix before noise is drawn: this raises an error if levels are nearly equal.
    noise.factor(history.with_release(point, math.inf).points)

    def still_lazy(effective: float) -> float | None:
        rare = history.with_release(point, effective).draws_all_empty(noise)
        return history.largest_tail(noise) if rare else None

    spent = [((at_step, level), noise.at(at_step), bound) for at_step, level, bound in past]
    at = (point.step, point.level)
    counts = f"units that had the key by step {step}, each once"
    chosen = parameters_at(at, noise.at(point.step), declaration, request, spent, still_lazy)
    return RunningMetadata(**chosen, step=step, counts=counts)


def noise_over_steps(declaration: Declaration) -> StepNoise:
    """Return the joint distribution of one key's noise at all steps, scaled for units with `most_touched` keys."""
    return StepNoise(declaration.most_touched * _covariance(present(declaration.steps).number))


@lru_cache(maxsize=8)
def _covariance(steps: int) -> FloatArray:
    """Return the covariance matrix, for max_keys=1, of the noise of one key at all steps."""
    strategy = Spectral(Prefix(steps))
    answers = np.cumsum(strategy.to_cells(np.eye(strategy.n_noise)), axis=0)
    covariance = strategy.l2(1) ** 2 * (answers @ answers.T)
    return np.asarray((covariance + covariance.T) / 2)


def _history(past: PastPoints, *, is_open: bool) -> PointHistory:
    points = tuple(Point(step, level) for step, level, _ in past)
    return PointHistory(points, tuple(bound for *_, bound in past), hides_empty=is_open)
