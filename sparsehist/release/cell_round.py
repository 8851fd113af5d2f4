"""Draw the noise of a release of counts and of sums of measures, and read the rows of a committed release.

Each measure has its own noise path. When a cell is first published with a sum of the measure, the true sum of
this cell is stored, and its noise is drawn at all levels released so far. Noise at any further level is drawn when
that level is released.
The noise of sums is independent of the noise of counts, so noisy counts may decide which sums are published
(docs/mathematics.md, measures). Sums are committed together with the counts of the release.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import polars as pl

from sparsehist.domain import Domain, draw_free
from sparsehist.domain.base import key_names
from sparsehist.errors import present
from sparsehist.histogram import NewlyTracked, draw_round
from sparsehist.histogram.dense import noise_at_level
from sparsehist.histogram.grid import round_to_grid
from sparsehist.histogram.round import plain_path
from sparsehist.ledger.spent import CELLS, PathName, measure_path
from sparsehist.noise.family import NoiseArray
from sparsehist.privacy import level_text
from sparsehist.release.cell_parameters import (
    LAZILY,
    CellRequest,
    MeasureSums,
    cell_metadata,
    joint_statement,
    means,
    sums_published,
)
from sparsehist.release.metadata import CellMetadata
from sparsehist.release.pipeline import ANSWER, LockedSeries, NoisePath
from sparsehist.release.published_rows import Shown, is_in, published_frame, shown_cells
from sparsehist.store import NewRound, Past, PathRecord, Spot, Tracked
from sparsehist.store.series_files import SeriesFiles
from sparsehist.typing import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, repr=False)
class _TrackingPath(NoisePath):
    """A noise path with a stored list of its tracked cells, that is, the cells whose noise was drawn."""

    def tracked(self) -> tuple[Tracked, pl.DataFrame]:
        """Return the tracked cells, and the keys of the tracked empty cells in the same order."""
        path_id, domain = self.path_id, self.locked.declaration.domain
        tracked = Tracked(*np.zeros((2, 0), np.int64)) if path_id is None else self.locked.state.tracked(path_id)
        if path_id is not None and (tracked.position < 0).any():
            return tracked, self.locked.state.empty_keys(path_id)
        return tracked, pl.DataFrame(schema=dict(zip(key_names(domain.columns), domain.dtypes, strict=True)))


@dataclass(frozen=True, repr=False)
class CellPath(_TrackingPath):
    """The noise path of the counts of a series. It is created together with the series."""

    @property
    def path_id(self) -> int:
        return self.locked.record.path_id

    @property
    def name(self) -> PathName:
        return CELLS

    @property
    def _past(self) -> Past:
        return self.locked.state.past(self.path_id)

    def metadata(self, request: CellRequest) -> CellMetadata:
        return cell_metadata(self.locked.declaration, request, self._past)

    def statement(self, request: CellRequest, metadata: CellMetadata) -> str:
        declaration, level = self.locked.declaration, present(request.level)
        if declaration.domain.is_open:
            # In an open domain, delta is stated for all releases together. So the level must be stated for all
            # releases together, too: it is the level of the finest release.
            level = max([level, *(spent_level for spent_level, _ in self._past)])
        words = declaration.family_in_units.statement(level)
        if declaration.domain.is_open:
            words = joint_statement(declaration, words, level, metadata.delta_spent)
        return f"{words}; {LAZILY}" + "".join(sums.statement for sums in request.measures)

    def draw(self, request: CellRequest, metadata: CellMetadata, *, rng: np.random.Generator) -> NewRound:
        files, declaration = self.locked.files, self.locked.declaration
        level, past, (tracked, empty_keys) = present(request.level), self._past, self.tracked()
        threshold, n_tracked = metadata.effective_threshold * declaration.unit_of_counts, tracked.position.size
        n_taken = _tracked_by_group(files, tracked)
        counts, sizes = _untracked_groups(files, n_taken, tracked, declaration.domain)
        neighbours = self.neighbours(level, n_tracked)
        drawn = draw_round(
            declaration.family_in_units,
            past,
            level,
            threshold,
            neighbours=neighbours,
            n_tracked=n_tracked,
            n_untracked=sizes,
            counts=counts,
            rng=rng,
        )
        new = drawn.new
        positions, new_counts = _assign_cells(files, n_taken, new, counts)
        n_empty = int(np.count_nonzero(positions < 0))
        new_keys = _draw_empty_keys(declaration.domain, files, empty_keys, n_empty, rng=rng)
        beside: list[NewRound] = []
        if request.measures:
            after = Tracked(np.append(tracked.position, positions), np.append(tracked.count, new_counts))
            noise = np.append(drawn.tracked, new.values)
            shown = self._shown(after, noise, pl.concat([empty_keys, new_keys]), metadata)
            beside = [
                MeasurePath(self.locked, sums).draw_sums(request.name, shown, metadata.round, rng=rng)
                for sums in request.measures
            ]
        paths: dict[Spot, NoiseArray] = {at: new.paths[:, i] for i, (at, _) in enumerate(past)}
        return self.new_round(
            request,
            metadata,
            beside=beside,
            threshold=threshold,
            level_noise=None if level in neighbours else drawn.tracked,
            positions=positions,
            counts=new_counts,
            empty_keys=new_keys,
            paths=paths | {level: new.values},
        )

    def rows(self, level: Fraction, metadata: CellMetadata) -> pl.DataFrame:
        """Return the rows of a committed release; every call returns the same rows."""
        declaration, (tracked, empty_keys) = self.locked.declaration, self.tracked()
        noise = self.locked.state.noise(self.path_id, level, tracked.position.size)
        shown = self._shown(tracked, noise, empty_keys, metadata)
        del tracked, noise  # free memory before the rows are made
        beside = {
            sums.measure.sum_column: MeasurePath(self.locked, sums).sums(shown) for sums in sums_published(metadata)
        }
        if not declaration.shares:
            beside |= means(beside)
        return published_frame(declaration.key, self.locked.files.keys, shown, beside)

    def _shown(self, tracked: Tracked, noise: NoiseArray, empty_keys: pl.DataFrame, metadata: CellMetadata) -> Shown:
        unit = self.locked.declaration.unit_of_counts
        grid = None if self.locked.declaration.family.integer else metadata.grid * unit
        return shown_cells(tracked, noise, empty_keys, metadata.effective_threshold * unit, grid, unit=unit)


@dataclass(frozen=True, repr=False)
class MeasurePath(_TrackingPath):
    """The noise path of one measure; the first release with this measure adds the path to the store."""

    request: MeasureSums

    @property
    def name(self) -> PathName:
        return measure_path(self.request.measure.name)

    def draw_sums(self, release: str, shown: Shown, round_id: str | None, *, rng: np.random.Generator) -> NewRound:
        """Draw the noise of a measure's sums, for the cells in `shown` and for all tracked cells of this path.

        Cells that become tracked also get noise at all levels released earlier.
        """
        declaration, path_id, measure = self.locked.declaration, self.path_id, self.request.measure
        family, level, (tracked, empty_keys) = self.request.family, self.request.level, self.tracked()
        n_tracked, near = tracked.position.size, self.neighbours(level, tracked.position.size)
        level_noise = None if level in near else noise_at_level(family, level, near, n_tracked, rng=rng)
        nonempty = np.setdiff1d(shown.position[shown.position >= 0], tracked.position)
        new_empty = shown.empty_keys.join(empty_keys, on=empty_keys.columns, how="anti")
        sums = self.locked.files.sums(nonempty, declaration.measures.index(measure))
        positions = np.append(nonempty, np.full(new_empty.height, -1))
        levels = tuple(sorted({*self.spent, level}))
        drawn = plain_path(family, levels, positions.size, rng=rng)
        paths: dict[Spot, NoiseArray] = dict(zip(levels, drawn, strict=True))
        opened = PathRecord(self.locked.record.series_id, *self.name, family.integer)
        name, request = f"{release}{ANSWER}{measure.name}", {"level": level_text(level)}
        public = {"kind": opened.kind, "series": declaration.name, "name": name, "measure": str(measure)}
        return NewRound(
            opened if path_id is None else path_id,
            name,
            level,
            request,
            {**public, **request, "round": round_id},
            level_noise,
            positions=positions,
            counts=np.append(sums, np.zeros(new_empty.height, np.int64)),
            empty_keys=new_empty,
            paths=paths,
        )

    def sums(self, shown: Shown) -> FloatArray:
        """Return noisy sums for the rows of a release, on the scale of the measure's column."""
        (tracked, empty_keys), step = self.tracked(), self.request.measure.step
        of_cell, nonempty = np.empty(shown.position.size, np.int64), shown.position >= 0
        order = np.argsort(tracked.position, kind="stable")  # empty cells (position -1) come first
        of_cell[nonempty] = order[np.searchsorted(tracked.position[order], shown.position[nonempty])]
        numbered = empty_keys.with_columns(cell=order[: empty_keys.height])
        cells = shown.empty_keys.join(numbered, on=empty_keys.columns, how="left", maintain_order="left")["cell"]
        of_cell[~nonempty] = cells.to_numpy()
        noise = self.locked.state.noise(present(self.path_id), self.request.level, tracked.position.size)[of_cell]
        steps = noisy_sums(tracked.count[of_cell], noise, self.request.grid)
        return np.asarray(steps * step.numerator / step.denominator, np.float64)


def noisy_sums(sums: IntArray, noise: NoiseArray, grid: float) -> FloatArray:
    """Return sums plus noise, rounded to the grid. Sums, noise and `grid` are given in multiples of `measure.step`.

    Each sum is split into a multiple of the grid step and a remainder. The multiple is added last, so that large sums
    do not make the noise less precise.
    """
    on_grid = np.floor(sums / grid) * grid
    return np.asarray(on_grid + round_to_grid((sums - on_grid) + noise, grid), np.float64)


def open_path(locked: LockedSeries, _request: CellRequest) -> CellPath:
    """Return the noise path of the counts of a series. A series has only one such path, so the request is ignored."""
    return CellPath(locked)


def _tracked_by_group(files: SeriesFiles, tracked: Tracked) -> IntArray:
    """Return the number of tracked cells for each nonzero count in the series, in ascending order of counts."""
    count, start, _ = files.groups
    nonzero = tracked.position[tracked.position >= 0]
    return np.bincount(np.searchsorted(start, nonzero, side="right") - 1, minlength=count.size)


def _untracked_groups(
    files: SeriesFiles, n_taken: IntArray, tracked: Tracked, domain: Domain
) -> tuple[IntArray, list[int]]:
    """Group the untracked cells by their count. Return the count and size of each group; empty cells come first."""
    count, _, size = files.groups
    tracked_empty = tracked.position.size - int(n_taken.sum())
    empty = 0 if domain.is_open else domain.size - files.n_nonzero - tracked_empty
    left = size - n_taken
    open_groups = np.flatnonzero(left)
    return np.append(0, count[open_groups]), [empty, *left[open_groups].tolist()]


def _assign_cells(
    files: SeriesFiles, n_taken: IntArray, new: NewlyTracked, counts: IntArray
) -> tuple[IntArray, IntArray]:
    """Choose the cells that become tracked. Return their positions in the counts file (-1 if empty) and their counts.

    `new` says only how many cells with each count become tracked. Cells with the same count are in uniformly random
    order in the counts file, and they become tracked in this order. So the cells that become tracked are a uniformly
    random choice among all untracked cells with this count.
    """
    count, start, _ = files.groups
    counted = counts > 0
    of_file = np.searchsorted(count, counts[counted])
    # The newly tracked cells of a group are consecutive both in the counts file and in `new.group`. So the position
    # of a cell in the counts file is its index in `new.group` plus an offset, which is the same for the whole group.
    ahead = np.searchsorted(new.group, np.arange(counts.size))
    ahead[counted] = start[of_file] + n_taken[of_file] - ahead[counted]
    of_group = counts[new.group]
    positions = ahead[new.group] + np.arange(new.group.size)
    positions[of_group == 0] = -1
    return positions, of_group


def _draw_empty_keys(
    domain: Domain, files: SeriesFiles, tracked_keys: pl.DataFrame, n: int, *, rng: np.random.Generator
) -> pl.DataFrame:
    """Draw the keys of `n` newly tracked empty cells, uniformly from all empty keys that are not yet tracked."""
    if n == 0:
        return tracked_keys.clear()

    def taken(keys: pl.DataFrame) -> BoolArray:
        return (files.positions(keys) >= 0) | is_in(keys, tracked_keys)

    return draw_free(
        domain,
        n,
        n_taken=files.n_nonzero + tracked_keys.height,
        taken=taken,
        taken_keys=lambda: pl.concat([files.all_keys(), tracked_keys]),
        rng=rng,
    )
