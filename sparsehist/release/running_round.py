"""The noise path of running counts: what is public of a release, what a round draws, and the rows of a release."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
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
from sparsehist.noise.over_steps import Point, StepNoise
from sparsehist.privacy import level_text
from sparsehist.release.cell_parameters import (
    LAZILY,
    CellRequest,
    open_guarantee,
    parameters_at,
)
from sparsehist.release.cell_round import is_in, published_frame, shown_cells
from sparsehist.release.metadata import RunningMetadata
from sparsehist.release.pipeline import Held
from sparsehist.release.steps import StepFiles
from sparsehist.release.totals import RUNNING, Totals
from sparsehist.store import NewRound, PathRecord, SeriesRecord, State, Tracked
from sparsehist.typing import IntArray


@dataclass(frozen=True)
class RunningRequest(CellRequest):
    """What a caller asked of a release of running counts: their step, from 1, and what is counted."""

    needs = "step= and level="

    step: int | None = None
    what: Totals | None = None

    @property
    def complete(self) -> bool:
        return self.step is not None and super().complete

    def as_json(self) -> dict[str, Any]:
        return super().as_json() | {"step": self.step, "what": self.what and self.what.text}


@dataclass(frozen=True, repr=False)
class RunningPath:
    """The running counts of a series, or other totals of its steps."""

    held: Held
    files: StepFiles
    totals: Totals

    @property
    def path_id(self) -> int | None:
        return path_of(self.held.state, self.held.record, self.totals)

    @property
    def name(self) -> PathName:
        return self.totals.path

    @property
    def noise(self) -> StepNoise:
        """Of one key."""
        return self.totals.noise(self.held.declaration.max_keys)

    @property
    def past(self) -> list[tuple[int, Fraction, float]]:
        """Totals and levels released so far, each with the lowest threshold."""
        return past_of(self.held.state, self.held.record, self.totals)

    def metadata(self, request: RunningRequest) -> RunningMetadata:
        step = present(request.step)
        if step > self.files.n_steps:
            raise NotFoundError(
                f"step {step} of {self.held.declaration.name!r} was not appended yet; {self.files.n_steps} were"
            )
        # The guarantee depends on the sources of the steps up to this one only.
        sources = [known.source for known in self.held.state.steps(self.held.record)[:step]]
        return running_metadata(replace(self.held.declaration, source=max(sources)), request, self.past)

    def statement(self, request: RunningRequest, metadata: RunningMetadata) -> str:
        declaration, level = self.held.declaration, present(request.level)
        spent = [known for _, known, _ in self.past]
        finest = max([level, *spent])
        words = metadata.family.statement(finest)
        if declaration.domain.is_open:
            return f"{open_guarantee(declaration, level_text(finest), words, metadata.delta_spent)}; {LAZILY}"
        return f"this release and all earlier ones of {self.totals.name} of the series together: {words}; {LAZILY}"

    def draw(self, request: RunningRequest, metadata: RunningMetadata, *, rng: np.random.Generator) -> NewRound:
        state, domain = self.held.state, self.held.declaration.domain
        point = Point(self.totals.row(metadata.step), present(request.level))
        past = history_of(self.past, is_open=domain.is_open)
        history = past.with_release(point, metadata.effective_threshold)
        tracked = self._tracked()
        all_keys = self.files.all_keys
        known, false_keys = self._resolved(tracked, all_keys)
        last = self.totals.span(history.steps[-1])[1]
        # Running counts never fall, and no other total is above them.
        largest = self.files.counts_at([last], all_keys.height)[0]
        (counts,) = self.totals.counts([point.step], lambda steps: self.files.counts_at(steps, all_keys.height))
        free = np.ones(all_keys.height, bool)
        free[known[known >= 0]] = False
        untracked = np.flatnonzero(free)
        taken = pl.concat([all_keys, false_keys])
        drawn = draw_step_round(
            self.noise,
            past,
            point,
            metadata.effective_threshold,
            tracked=np.empty((0, 0)) if (path := self.path_id) is None else state.all_noise(path, known.size),
            counts=counts[untracked],
            largest=largest[untracked],
            n_empty=0 if domain.is_open else domain.size - taken.height,
            counts_at=lambda some: self.totals.counts(
                history.steps, lambda steps: self.files.counts_at(steps, all_keys.height, untracked[some])
            ),
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
            stored=request.chosen(metadata) | {"what": self.totals.text},
            threshold=metadata.effective_threshold,
            level_noise=None if point in past.points else drawn.tracked,
            positions=positions,
            counts=np.zeros(positions.size, np.int64),  # they differ by step, and stand with the steps
            empty_keys=fresh,
            paths={(at.step, at.level): drawn.paths[i] for i, at in enumerate(history.points)},
            step=self.totals.row(metadata.step),
        )

    def rows(self, level: Fraction, metadata: RunningMetadata) -> pl.DataFrame:
        """Read from what was committed: counts of a step never change, so that a release is the same for ever."""
        declaration, row, tracked = self.held.declaration, self.totals.row(metadata.step), self._tracked()
        noise = self.held.state.noise(present(self.path_id), (row, level), tracked.position.size)
        all_keys = self.files.all_keys
        known, false_keys = self._resolved(tracked, all_keys)
        counts = np.zeros(known.size, np.int64)
        (at_step,) = self.totals.counts([row], lambda steps: self.files.counts_at(steps, all_keys.height))
        counts[known >= 0] = at_step[known[known >= 0]]
        if declaration.domain.is_open:
            noise = np.where(counts > 0, noise, -np.inf)
        shown = shown_cells(Tracked(known, counts), noise, metadata.effective_threshold, metadata.grid)
        return published_frame(declaration, self.files, false_keys, shown)

    def _tracked(self) -> Tracked:
        path, none = self.path_id, np.empty(0, np.int64)
        return Tracked(none, none) if path is None else self.held.state.tracked(path)

    def _resolved(self, tracked: Tracked, all_keys: pl.DataFrame) -> tuple[IntArray, pl.DataFrame]:
        """The numbers of the tracked keys, -1 for those that never had a unit, and these, in order.

        A false key that got units later keeps its noise.
        """
        if not (tracked.position < 0).any():
            return tracked.position, all_keys.clear()
        keys = self.held.state.empty_keys(present(self.path_id))
        found = self.files.numbers_of(keys).cast(pl.Int64).fill_null(-1).to_numpy()
        known = tracked.position.copy()
        known[known < 0] = found
        return known, keys.filter(pl.Series(found < 0))


def path_of(state: State, record: SeriesRecord, totals: Totals) -> int | None:
    """The noise path of some totals; None before their first release."""
    if totals.workload is None:
        return record.path_id
    known = (path for path in state.paths(record) if (path.kind, path.workload) == totals.path[:2])
    return next((path.path_id for path in known), None)


def past_of(state: State, record: SeriesRecord, totals: Totals) -> list[tuple[int, Fraction, float]]:
    """Totals and levels released so far, each with the lowest effective threshold."""
    path = path_of(state, record, totals)
    return [] if path is None else state.past_points(path)


def running_metadata(
    declaration: Declaration, request: RunningRequest, past: list[tuple[int, Fraction, float]]
) -> RunningMetadata:
    """Choose the threshold and return the metadata of a release, from public parameters only."""
    totals = totals_of(declaration, request)
    if declaration.domain.is_open and totals.workload is not None:
        raise DeclarationError(
            f"the domain of {declaration.name!r} is open, and its delta is spent by running counts alone: "
            f"{totals.name} need a declared domain"
        )
    noise, step = totals.noise(declaration.max_keys), present(request.step)
    point = Point(totals.row(step), present(request.level))
    history = history_of(past, is_open=declaration.domain.is_open)
    # Refuses levels that are nearly equal, before anything is chosen by them.
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


def totals_of(declaration: Declaration, request: CellRequest) -> Totals:
    """What a request counts: running counts, unless it says otherwise."""
    asked = request.what if isinstance(request, RunningRequest) else None
    return asked or Totals(RUNNING, present(declaration.n_steps))


def history_of(past: list[tuple[int, Fraction, float]], *, is_open: bool) -> PointHistory:
    """Return the history of earlier releases in the form of the core."""
    points = tuple(Point(step, level) for step, level, _ in past)
    return PointHistory(points, tuple(bound for *_, bound in past), hides_empty=is_open)


def open_path(held: Held, request: RunningRequest, known: PathRecord | None) -> RunningPath:
    """The path of what was asked: of running counts, which every running series has, or of other totals."""
    steps = present(held.declaration.n_steps)
    totals = request.what or Totals(RUNNING if known is None else known.workload or RUNNING, steps)
    return RunningPath(held, StepFiles(held.state, held.record, held.declaration.domain.dtypes), totals)


def at_step(cells: CellRequest, step: int | str | date | None, what: str | None, steps: Steps) -> RunningRequest:
    """The same request of a running count, or of another total."""
    given = {field.name: getattr(cells, field.name) for field in fields(cells)}
    totals = None if what is None else Totals(what, steps.number)
    number = None if step is None else steps.step_of(step)
    if number is not None and totals is not None:
        totals.row(number)
    return RunningRequest(**given, step=number, what=totals)
