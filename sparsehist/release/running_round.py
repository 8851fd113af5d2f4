"""The noise path of running counts: choose a release's metadata, draw its round, and read its rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl

from sparsehist.declaration import Declaration, Steps
from sparsehist.domain import draw_free
from sparsehist.errors import DeclarationError, NotFoundError, present
from sparsehist.histogram.step_round import PointHistory, draw_step_round
from sparsehist.ledger.spent import PathName
from sparsehist.noise.over_steps import Point
from sparsehist.release.cell_parameters import LAZILY, CellRequest, joint_statement, parameters_at
from sparsehist.release.metadata import RunningMetadata
from sparsehist.release.pipeline import Held, NoisePath
from sparsehist.release.published_rows import is_in, published_frame, shown_cells
from sparsehist.release.steps import StepFiles
from sparsehist.release.totals import RUNNING, Totals
from sparsehist.store import NewRound, PathRecord, Tracked
from sparsehist.typing import IntArray

PastPoints = list[tuple[int, Fraction, float]]
"""Number of the total, level and lowest effective threshold of each earlier release."""


@dataclass(frozen=True)
class RunningRequest(CellRequest):
    """The parameters that a caller gave for a release of running counts: the step, from 1, and what is counted."""

    needs = "step= and level="

    step: int | None = None
    what: str | None = None
    n_steps: int = 0  # of the series

    @property
    def complete(self) -> bool:
        return self.step is not None and super().complete

    @property
    def totals(self) -> Totals:
        """The kind of totals that a new release counts."""
        return Totals(self.what or RUNNING, self.n_steps)

    def as_json(self) -> dict[str, Any]:
        return super().as_json() | {"step": self.step, "what": self.what}


@dataclass(frozen=True, repr=False)
class RunningPath(NoisePath):
    """The noise path of the running counts of a series, or of other totals of its steps."""

    files: StepFiles
    totals: Totals

    @property
    def name(self) -> PathName:
        return self.totals.path

    @property
    def past(self) -> PastPoints:
        """Earlier releases of these totals."""
        return [] if (path_id := self.path_id) is None else self.held.state.past_points(path_id)

    def metadata(self, request: RunningRequest) -> RunningMetadata:
        step, declaration = present(request.step), self.held.declaration
        if step > self.files.n_steps:
            raise NotFoundError(
                f"step {step} of {declaration.name!r} was not appended yet; {self.files.n_steps} were"
            )
        # The guarantee depends only on the sources of steps up to this one.
        source = max(known.source for known in self.held.state.steps(self.held.record)[:step])
        return running_metadata(replace(declaration, source=source), request, self.past)

    def statement(self, request: RunningRequest, metadata: RunningMetadata) -> str:
        declaration = self.held.declaration
        finest = max([present(request.level), *(level for _, level, _ in self.past)])
        words = metadata.family.statement(finest)
        if declaration.domain.is_open:
            return f"{joint_statement(declaration, words, finest, metadata.delta_spent)}; {LAZILY}"
        return f"this release and all earlier ones of {self.totals.name} of the series together: {words}; {LAZILY}"

    def draw(self, request: RunningRequest, metadata: RunningMetadata, *, rng: np.random.Generator) -> NewRound:
        declaration, path_id, all_keys = self.held.declaration, self.path_id, self.files.all_keys
        domain, totals = declaration.domain, self.totals
        point = Point(totals.row(metadata.step), present(request.level))
        past = _history(self.past, is_open=domain.is_open)
        history = past.with_release(point, metadata.effective_threshold)
        known, false_keys = self._tracked()
        untracked = np.setdiff1d(np.arange(all_keys.height), known)
        taken = pl.concat([all_keys, false_keys])
        spent = [(row, level) for row, level, _ in self.past]
        noise = [self.held.state.noise(present(path_id), spot, known.size) for spot in spent]
        drawn = draw_step_round(
            totals.noise(declaration.max_keys),
            past,
            point,
            metadata.effective_threshold,
            tracked=np.array(noise) if noise else np.empty((0, 0)),
            counts=self._counts([point.step], untracked)[0],
            # Running counts never decrease, and no other total exceeds them.
            largest=self.files.counts_at([totals.span(history.steps[-1])[1]], untracked)[0],
            n_empty=0 if domain.is_open else domain.size - taken.height,
            counts_at=lambda some: self._counts(history.steps, untracked[some]),
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
        return self.held.new_round(
            self,
            request,
            metadata,
            stored=request.chosen(metadata) | {"what": totals.text},
            threshold=metadata.effective_threshold,
            level_noise=None if point in past.points else drawn.tracked,
            positions=positions,
            counts=np.zeros(positions.size, np.int64),  # true counts differ by step: the files of steps hold them
            empty_keys=fresh,
            paths={(at.step, at.level): drawn.paths[i] for i, at in enumerate(history.points)},
            step=point.step,
        )

    def rows(self, level: Fraction, metadata: RunningMetadata) -> pl.DataFrame:
        """Read a committed release: it never changes, since the counts of a step never change."""
        row, (known, false_keys) = self.totals.row(metadata.step), self._tracked()
        noise = self.held.state.noise(present(self.path_id), (row, level), known.size)
        counts = np.zeros(known.size, np.int64)
        counts[known >= 0] = self._counts([row], known[known >= 0])[0]
        if self.held.declaration.domain.is_open:
            noise = np.where(counts > 0, noise, -np.inf)
        shown = shown_cells(Tracked(known, counts), noise, false_keys, metadata.effective_threshold, metadata.grid)
        return published_frame(self.held.declaration.key, self.files.keys, shown)

    def _counts(self, rows: Sequence[int], some: IntArray) -> IntArray:
        """Return true totals of the keys with these numbers; shape (rows, keys)."""
        return self.totals.counts(rows, lambda steps: self.files.counts_at(steps, some))

    def _tracked(self) -> tuple[IntArray, pl.DataFrame]:
        """Return the numbers of tracked keys, -1 for keys that never had a unit; and the latter keys, in order.

        A false key that gets units later keeps its noise.
        """
        path_id = self.path_id
        known = np.empty(0, np.int64) if path_id is None else self.held.state.tracked(path_id).position.copy()
        if not (known < 0).any():
            return known, self.files.all_keys.clear()
        keys = self.held.state.empty_keys(present(path_id))
        known[known < 0] = found = self.files.numbers_of(keys).cast(pl.Int64).fill_null(-1).to_numpy()
        return known, keys.filter(pl.Series(found < 0))


def running_metadata(declaration: Declaration, request: RunningRequest, past: PastPoints) -> RunningMetadata:
    """Choose the threshold and return the metadata of a release, from public parameters only."""
    totals, is_open = request.totals, declaration.domain.is_open
    if is_open and totals.width is not None:
        raise DeclarationError(
            f"the domain of {declaration.name!r} is open, and its delta is spent by running counts alone: "
            f"{totals.name} need a declared domain"
        )
    noise, step = totals.noise(declaration.max_keys), present(request.step)
    point = Point(totals.row(step), present(request.level))
    history = _history(past, is_open=is_open)
    # Computed here because it refuses levels that are nearly equal.
    noise.factor(history.with_release(point, math.inf).points)

    def still_lazy(effective: float) -> float | None:
        rare = history.with_release(point, effective).draws_all_empty(noise)
        return history.largest_tail(noise) if rare else None

    spent = [((known, level), noise.at(known), bound) for known, level, bound in past]
    at = (point.step, point.level)
    return RunningMetadata(
        **parameters_at(at, noise.at(point.step), declaration, request, spent, still_lazy),
        step=step,
        strategy=totals.strategy,
        counts=totals.words(step),
    )


def _history(past: PastPoints, *, is_open: bool) -> PointHistory:
    points = tuple(Point(step, level) for step, level, _ in past)
    return PointHistory(points, tuple(bound for *_, bound in past), hides_empty=is_open)


def open_path(held: Held, request: RunningRequest, known: PathRecord | None) -> RunningPath:
    """Return the noise path of the requested totals."""
    if known is not None:
        request = replace(request, what=known.workload)
    return RunningPath(held, StepFiles(held.state, held.record, held.declaration.domain.dtypes), request.totals)


def at_step(cells: CellRequest, step: int | str | date | None, what: str | None, steps: Steps) -> RunningRequest:
    """Return the request as one for running counts, or for other totals."""
    number = None if step is None else steps.step_of(step)
    request = RunningRequest(**vars(cells), step=number, what=what, n_steps=steps.number)
    if number is not None:
        request.totals.row(number)
    return request
