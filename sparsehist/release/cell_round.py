"""The noise path of the cells of a series: what a round draws, and the rows of what was committed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
import polars as pl

from sparsehist.declaration import Declaration
from sparsehist.domain import Domain, draw_free
from sparsehist.errors import present
from sparsehist.histogram import NewlyTracked, draw_round, round_to_grid
from sparsehist.ledger.spent import CELLS, PathName
from sparsehist.noise.family import NoiseArray
from sparsehist.release.cell_parameters import CellRequest, cell_metadata, cell_statement
from sparsehist.release.measure_intervals import means
from sparsehist.release.measure_parameters import sums_published
from sparsehist.release.measure_round import MeasurePath, Table
from sparsehist.release.metadata import CellMetadata
from sparsehist.release.pipeline import Held, adjacent
from sparsehist.store import NewRound, Past, PathRecord, Spot, Tracked
from sparsehist.store.series_files import SeriesFiles
from sparsehist.typing import BoolArray, FloatArray, IntArray, secret

_BLOCK = 1 << 18


@dataclass(frozen=True, repr=False)
class CellPath:
    """The cells of a series; open from the start."""

    held: Held

    @property
    def path_id(self) -> int:
        return self.held.record.path_id

    @property
    def name(self) -> PathName:
        return CELLS

    def metadata(self, request: CellRequest) -> CellMetadata:
        return cell_metadata(self.held.declaration, request, self.held.state.past(self.path_id))

    def statement(self, request: CellRequest, metadata: CellMetadata) -> str:
        past = self.held.state.past(self.path_id)
        of_cells = cell_statement(self.held.declaration, present(request.level), metadata, past)
        return of_cells + "".join(sums.statement for sums in request.measures)

    def draw(self, request: CellRequest, metadata: CellMetadata, *, rng: np.random.Generator) -> NewRound:
        state, files, level = self.held.state, self.held.files, present(request.level)
        declaration = self.held.declaration
        domain = declaration.domain
        past = state.past(self.path_id)
        tracked = state.tracked(self.path_id)
        n_tracked = tracked.position.size
        spent = {known for known, _ in past}
        taken = _taken(files, tracked)
        counts, sizes = _untracked_groups(files, taken, tracked, domain)
        drawn = draw_round(
            declaration.family_in_units,
            past,
            level,
            metadata.effective_threshold * declaration.unit_of_counts,
            neighbours={at: state.noise(self.path_id, at, n_tracked) for at in adjacent(spent, level)},
            n_tracked=n_tracked,
            n_untracked=sizes,
            counts=counts,
            rng=rng,
        )
        positions, new_counts = _assign_cells(files, taken, drawn.new, counts)
        n_empty = int(np.count_nonzero(positions < 0))
        known = self._empty_keys(tracked)
        new_keys = _draw_empty_keys(domain, files, known, n_empty, rng=rng)
        beside: list[NewRound] = []
        if request.measures:
            after = Tracked(np.append(tracked.position, positions), np.append(tracked.count, new_counts))
            shown = self._shown(after, np.append(drawn.tracked, drawn.new.values), metadata)
            table = _table(shown, pl.concat([known, new_keys]))
            beside = [
                MeasurePath(self.held, sums).draw(request.name, table, metadata.round, rng=rng)
                for sums in request.measures
            ]
        return self.held.new_round(
            self,
            request,
            metadata,
            stored=request.chosen(metadata),
            beside=beside,
            threshold=metadata.effective_threshold * declaration.unit_of_counts,
            level_noise=None if level in spent else drawn.tracked,
            positions=positions,
            counts=new_counts,
            empty_keys=new_keys,
            paths=_paths(past, level, drawn.new),
        )

    def rows(self, level: Fraction, metadata: CellMetadata) -> pl.DataFrame:
        """Read from what was committed, so that a release is the same each time it is given."""
        state, declaration = self.held.state, self.held.declaration
        tracked = state.tracked(self.path_id)
        noise = state.noise(self.path_id, level, tracked.position.size)
        shown = self._shown(tracked, noise, metadata)
        empty_keys = self._empty_keys(tracked)
        del tracked, noise  # before the rows take their place
        beside = {}
        if measured := sums_published(metadata):
            table = _table(shown, empty_keys)
            beside = {each.measure.sum_column: MeasurePath(self.held, each).sums(table) for each in measured}
            beside |= {} if declaration.shares else means(beside)
        return published_frame(declaration, self.held.files, empty_keys, shown, beside)

    def _shown(self, tracked: Tracked, noise: NoiseArray, metadata: CellMetadata) -> Shown:
        unit = self.held.declaration.unit_of_counts
        grid = None if self.held.declaration.family.integer else metadata.grid * unit
        return shown_cells(tracked, noise, metadata.effective_threshold * unit, grid, unit=unit)

    def _empty_keys(self, tracked: Tracked) -> pl.DataFrame:
        """Keys of the tracked empty cells, by cell number."""
        if (tracked.position < 0).any():
            return self.held.state.empty_keys(self.path_id)
        dtypes = self.held.declaration.domain.dtypes
        return pl.DataFrame(schema={f"key_{i}": dtype for i, dtype in enumerate(dtypes)})


def open_path(held: Held, _request: CellRequest, _known: PathRecord | None) -> CellPath:
    """The path of the cells, which every series has."""
    return CellPath(held)


def _taken(files: SeriesFiles, tracked: Tracked) -> IntArray:
    """How many cells of each group are tracked."""
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
    """Positions and counts of the cells that become tracked: the next ones of each group, -1 for empty cells.

    Within a group the file holds the cells in uniformly random order and the tracked ones are a prefix, so
    the next ones are a uniform choice.
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
    """Keys for empty cells that become tracked: uniform among those neither counted nor tracked."""
    if n == 0:
        return known.clear()

    def taken(keys: pl.DataFrame) -> BoolArray:
        tracked_empty = is_in(keys, known) if known.height else np.zeros(keys.height, bool)
        return files.contains(keys) | tracked_empty

    return draw_free(
        domain,
        n,
        n_taken=files.n_nonzero + known.height,
        taken=taken,
        taken_keys=lambda: pl.concat([files.all_keys(), known]),
        rng=rng,
    )


def is_in(keys: pl.DataFrame, among: pl.DataFrame) -> BoolArray:
    """Which rows of one frame are in another; shape (rows,)."""
    marked = among.with_columns(pl.lit(value=True).alias("known")).unique(among.columns)
    joined = keys.join(marked, on=among.columns, how="left", maintain_order="left")
    return joined["known"].fill_null(value=False).to_numpy()


def _paths(past: Past, level: Fraction, new: NewlyTracked) -> dict[Spot, NoiseArray]:
    """Noise of the new cells at every level of the path."""
    paths: dict[Spot, NoiseArray] = {known: new.paths[:, i] for i, (known, _) in enumerate(past)}
    paths[level] = new.values
    return paths


@secret
@dataclass(frozen=True, repr=False, eq=False)
class Shown:
    """The cells of a release. Positions follow the order of the true counts: secret, and never printed.

    By cell number: the position in the counts file, -1 for an empty one, and the noisy count on the grid; shape (q,).
    `empty` says which of the tracked empty cells are among them.
    """

    position: IntArray
    noisy: NoiseArray
    empty: BoolArray


def shown_cells(tracked: Tracked, noise: NoiseArray, threshold: float, grid: float | None, *, unit: int = 1) -> Shown:
    """Every tracked cell above the threshold; `grid` is None for integer noise.

    All is given in parts of a count, of which `unit` make one, and comes back in counts.

    In arrays of its own, so that those of the state can be let go before the rows take their place.
    """
    above = noise > threshold - tracked.count
    everything = bool(above.all())  # then nothing is copied needlessly
    position, count = (array if everything else array[above] for array in (tracked.position, tracked.count))
    noisy = noise.copy() if everything else noise[above]
    if grid is not None:
        _round_in_place(noisy, grid)
    noisy += count
    if unit != 1:
        noisy /= unit  # a power of two: exact
    return Shown(position, noisy, above[tracked.position < 0])


class NumberedKeys(Protocol):
    """The keys of nonempty cells, by position."""

    def keys(self, positions: IntArray, /) -> pl.DataFrame:
        """Columns key_0, …, in the order asked."""


def _table(shown: Shown, empty_keys: pl.DataFrame) -> Table:
    """The shown cells, for measures; `empty_keys` are those of all tracked empty cells."""
    return Table(shown.position, empty_keys.filter(pl.Series(shown.empty, dtype=pl.Boolean)))


def published_frame(
    declaration: Declaration,
    files: NumberedKeys,
    empty_keys: pl.DataFrame,
    shown: Shown,
    beside: Mapping[str, FloatArray] | None = None,
) -> pl.DataFrame:
    """The rows of a release: largest first, then by key.

    `empty_keys` are those of all tracked empty cells; `beside` are further columns of what is shown.
    """
    columns = {"noisy_count": shown.noisy, **(beside or {})}
    from_file = shown.position >= 0
    if from_file.all():
        keys = files.keys(shown.position)
    else:
        keys = pl.concat([files.keys(shown.position[from_file]), empty_keys.filter(pl.Series(shown.empty))])
        columns = {name: np.append(each[from_file], each[~from_file]) for name, each in columns.items()}
    frame = keys.rename(dict(zip(keys.columns, declaration.key, strict=True)))
    numbers = [pl.Series(name, each, nan_to_null=True) for name, each in columns.items()]
    frame = frame.select(declaration.key).with_columns(numbers)
    del keys, columns, numbers, from_file, shown
    falling = [True] + [False] * len(declaration.key)
    return _in_own_buffers(frame.sort("noisy_count", *declaration.key, descending=falling))


def _round_in_place(noise: NoiseArray, step: float) -> None:
    """Round to the grid by blocks: what that takes besides does not grow with the cells."""
    for first in range(0, noise.size, _BLOCK):
        block = noise[first : first + _BLOCK]
        block[:] = round_to_grid(block, step)


def _in_own_buffers(frame: pl.DataFrame) -> pl.DataFrame:
    """The same rows in fresh memory, strings laid out in row order.

    Polars strings are views into the buffers they were read from: those hold keys that are not published, and
    lie in the order of the counts file, which is that of the true counts.
    """
    return pl.DataFrame(pl.from_arrow(frame.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())))
