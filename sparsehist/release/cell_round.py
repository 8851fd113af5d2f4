"""The noise path of a series' cells: draw a round, and read the rows of a committed release."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import polars as pl

from sparsehist.domain import Domain, draw_free
from sparsehist.errors import present
from sparsehist.histogram import NewlyTracked, draw_round
from sparsehist.ledger.spent import CELLS, PathName
from sparsehist.noise.family import NoiseArray
from sparsehist.release.cell_parameters import LAZILY, CellRequest, cell_metadata, joint_statement
from sparsehist.release.measure_parameters import means, sums_published
from sparsehist.release.measure_round import MeasurePath
from sparsehist.release.metadata import CellMetadata
from sparsehist.release.pipeline import Held, NoisePath
from sparsehist.release.published_rows import Shown, is_in, published_frame, shown_cells
from sparsehist.store import NewRound, Past, Spot, Tracked
from sparsehist.store.series_files import SeriesFiles
from sparsehist.typing import BoolArray, IntArray


@dataclass(frozen=True, repr=False)
class CellPath(NoisePath):
    """The noise path of the cells of a series; it exists from the start."""

    @property
    def path_id(self) -> int:
        return self.held.record.path_id

    @property
    def name(self) -> PathName:
        return CELLS

    @property
    def _past(self) -> Past:
        return self.held.state.past(self.path_id)

    def metadata(self, request: CellRequest) -> CellMetadata:
        return cell_metadata(self.held.declaration, request, self._past)

    def statement(self, request: CellRequest, metadata: CellMetadata) -> str:
        declaration, level = self.held.declaration, present(request.level)
        if declaration.domain.is_open:
            # In an open domain the delta covers all releases together, so the stated level must too.
            level = max([level, *(known for known, _ in self._past)])
        words = declaration.family_in_units.statement(level)
        if declaration.domain.is_open:
            words = joint_statement(declaration, words, level, metadata.delta_spent)
        return f"{words}; {LAZILY}" + "".join(sums.statement for sums in request.measures)

    def draw(self, request: CellRequest, metadata: CellMetadata, *, rng: np.random.Generator) -> NewRound:
        state, files, declaration = self.held.state, self.held.files, self.held.declaration
        level, past, tracked = present(request.level), self._past, state.tracked(self.path_id)
        threshold = metadata.effective_threshold * declaration.unit_of_counts
        n_tracked, spent = tracked.position.size, {known for known, _ in past}
        taken = _taken(files, tracked)
        counts, sizes = _untracked_groups(files, taken, tracked, declaration.domain)
        drawn = draw_round(
            declaration.family_in_units,
            past,
            level,
            threshold,
            neighbours=self.neighbours(level, n_tracked),
            n_tracked=n_tracked,
            n_untracked=sizes,
            counts=counts,
            rng=rng,
        )
        new = drawn.new
        positions, new_counts = _assign_cells(files, taken, new, counts)
        known = self.held.empty_keys(self.path_id, tracked)
        n_empty = int(np.count_nonzero(positions < 0))
        new_keys = _draw_empty_keys(declaration.domain, files, known, n_empty, rng=rng)
        beside: list[NewRound] = []
        if request.measures:
            after = Tracked(np.append(tracked.position, positions), np.append(tracked.count, new_counts))
            noise = np.append(drawn.tracked, new.values)
            shown = self._shown(after, noise, pl.concat([known, new_keys]), metadata)
            beside = [
                MeasurePath(self.held, sums).draw_sums(request.name, shown, metadata.round, rng=rng)
                for sums in request.measures
            ]
        paths: dict[Spot, NoiseArray] = {at: new.paths[:, i] for i, (at, _) in enumerate(past)}
        return self.new_round(
            request,
            metadata,
            stored=request.chosen(metadata),
            beside=beside,
            threshold=threshold,
            level_noise=None if level in spent else drawn.tracked,
            positions=positions,
            counts=new_counts,
            empty_keys=new_keys,
            paths=paths | {level: new.values},
        )

    def rows(self, level: Fraction, metadata: CellMetadata) -> pl.DataFrame:
        """Read a committed release: it is the same each time."""
        state, declaration = self.held.state, self.held.declaration
        tracked = state.tracked(self.path_id)
        noise = state.noise(self.path_id, level, tracked.position.size)
        shown = self._shown(tracked, noise, self.held.empty_keys(self.path_id, tracked), metadata)
        del tracked, noise  # free memory before the rows are made
        beside = {
            sums.measure.sum_column: MeasurePath(self.held, sums).sums(shown) for sums in sums_published(metadata)
        }
        if not declaration.shares:
            beside |= means(beside)
        return published_frame(declaration.key, self.held.files.keys, shown, beside)

    def _shown(self, tracked: Tracked, noise: NoiseArray, empty_keys: pl.DataFrame, metadata: CellMetadata) -> Shown:
        unit = self.held.declaration.unit_of_counts
        grid = None if self.held.declaration.family.integer else metadata.grid * unit
        return shown_cells(tracked, noise, empty_keys, metadata.effective_threshold * unit, grid, unit=unit)


def open_path(held: Held, _request: CellRequest) -> CellPath:
    """Return the noise path of the cells, which every series has."""
    return CellPath(held)


def _taken(files: SeriesFiles, tracked: Tracked) -> IntArray:
    """Return how many cells of each group are tracked."""
    count, start, _ = files.groups
    nonzero = tracked.position[tracked.position >= 0]
    return np.bincount(np.searchsorted(start, nonzero, side="right") - 1, minlength=count.size)


def _untracked_groups(
    files: SeriesFiles, taken: IntArray, tracked: Tracked, domain: Domain
) -> tuple[IntArray, list[int]]:
    """Counts and sizes of the groups of untracked cells; the empty ones (none if open) come first."""
    count, _, size = files.groups
    tracked_empty = tracked.position.size - int(taken.sum())
    empty = 0 if domain.is_open else domain.size - files.n_nonzero - tracked_empty
    left = size - taken
    open_groups = np.flatnonzero(left)
    return np.append(0, count[open_groups]), [empty, *left[open_groups].tolist()]


def _assign_cells(
    files: SeriesFiles, taken: IntArray, new: NewlyTracked, counts: IntArray
) -> tuple[IntArray, IntArray]:
    """Return positions and counts of newly tracked cells: the next ones of each group, -1 for empty cells.

    Cells of a group are stored in uniformly random order, and the tracked ones come first; so the next ones are a
    uniform choice.
    """
    count, start, _ = files.groups
    counted = counts > 0
    of_file = np.searchsorted(count, counts[counted])
    # Per group: offset from the index in `new` to the position in the file.
    ahead = np.searchsorted(new.group, np.arange(counts.size))
    ahead[counted] = start[of_file] + taken[of_file] - ahead[counted]
    of_group = counts[new.group]
    positions = ahead[new.group] + np.arange(new.group.size)
    positions[of_group == 0] = -1
    return positions, of_group


def _draw_empty_keys(
    domain: Domain, files: SeriesFiles, known: pl.DataFrame, n: int, *, rng: np.random.Generator
) -> pl.DataFrame:
    """Draw keys for newly tracked empty cells, uniformly among keys neither counted nor tracked."""
    if n == 0:
        return known.clear()

    def taken(keys: pl.DataFrame) -> BoolArray:
        tracked_empty = is_in(keys, known) if known.height else np.zeros(keys.height, bool)
        return (files.positions(keys) >= 0) | tracked_empty

    return draw_free(
        domain,
        n,
        n_taken=files.n_nonzero + known.height,
        taken=taken,
        taken_keys=lambda: pl.concat([files.all_keys(), known]),
        rng=rng,
    )
