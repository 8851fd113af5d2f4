"""The noise path of the cells of a series: what a round draws, and the rows of what was committed."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sparsehist.domain import Domain, draw_free
from sparsehist.histogram import NewlyTracked, draw_round
from sparsehist.ledger.ledger import CELLS, PathName
from sparsehist.noise.family import NoiseArray
from sparsehist.series.cell_parameters import cell_metadata
from sparsehist.series.metadata import CellMetadata
from sparsehist.series.pipeline import Held, adjacent
from sparsehist.series.published_rows import published_frame, shown_cells
from sparsehist.series.request import CellRequest
from sparsehist.store import NewRound, Past, PathRecord, SeriesFiles, Tracked


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

    def draw(
        self, request: CellRequest, metadata: CellMetadata, *, who: str | None, rng: np.random.Generator
    ) -> NewRound:
        assert request.level is not None
        state, files, level = self.held.state, self.held.files, request.level
        domain = self.held.declaration.domain
        past = state.past(self.path_id)
        tracked = state.tracked(self.path_id)
        n_tracked = tracked.position.size
        spent = {known for known, _ in past}
        counts, sizes = untracked_groups(files, tracked, domain)
        drawn = draw_round(
            self.held.declaration.family,
            past,
            level,
            metadata.effective_threshold,
            neighbours={at: state.noise(self.path_id, at, n_tracked) for at in adjacent(spent, level)},
            n_tracked=n_tracked,
            n_untracked=sizes,
            counts=counts,
            rng=rng,
        )
        positions, new_counts = assign_cells(files, tracked, drawn.new, counts)
        n_empty = int(np.count_nonzero(positions < 0))
        return NewRound(
            path_id=self.path_id,
            name=request.name,
            level=level,
            request=request.as_json()
            | {
                "threshold": metadata.threshold,
                "false_keys": metadata.false_keys,
                "delta_share": metadata.delta_share,
            },
            threshold=metadata.effective_threshold,
            metadata=metadata.as_dict(),
            level_noise=None if level in spent else drawn.tracked,
            positions=positions,
            counts=new_counts,
            empty_keys=_draw_empty_keys(domain, files, self._empty_keys(tracked), n_empty, rng=rng),
            paths=_paths(past, level, drawn.new),
            who=who,
        )

    def rows(self, level: Fraction, metadata: CellMetadata) -> pl.DataFrame:
        """Read from what was committed, so that a release is the same each time it is given."""
        state, declaration = self.held.state, self.held.declaration
        tracked = state.tracked(self.path_id)
        noise = state.noise(self.path_id, level, tracked.position.size)
        grid = None if declaration.family.integer else metadata.grid
        shown = shown_cells(tracked, noise, metadata.effective_threshold, grid)
        empty_keys = self._empty_keys(tracked)
        del tracked, noise  # before the rows take their place
        return published_frame(declaration, self.held.files, empty_keys, shown)

    def _empty_keys(self, tracked: Tracked) -> pl.DataFrame:
        """Keys of the tracked empty cells, by cell number."""
        if (tracked.position < 0).any():
            return self.held.state.empty_keys(self.path_id).drop("cell")
        dtypes = self.held.declaration.domain.dtypes
        return pl.DataFrame(schema={f"key_{i}": dtype for i, dtype in enumerate(dtypes)})


def open_path(held: Held, request: CellRequest, known: PathRecord | None, *, rng: np.random.Generator) -> CellPath:
    """The path of the cells, which every series has."""
    del request, known, rng
    return CellPath(held)


def untracked_groups(files: SeriesFiles, tracked: Tracked, domain: Domain) -> tuple[NDArray[np.int64], list[int]]:
    """Counts and sizes of the groups of untracked cells; the empty ones (none if open) come first."""
    count, start, size = files.groups
    nonzero = tracked.position[tracked.position >= 0]
    taken = np.bincount(np.searchsorted(start, nonzero, side="right") - 1, minlength=count.size)
    empty = 0 if domain.is_open else domain.size - files.n_nonzero - (tracked.position.size - nonzero.size)
    left = size - taken
    open_groups = np.flatnonzero(left)
    return np.append(0, count[open_groups]), [empty, *left[open_groups].tolist()]


def assign_cells(
    files: SeriesFiles, tracked: Tracked, new: NewlyTracked, counts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions and counts of the cells that become tracked: the next ones of each group, -1 for empty cells.

    Within a group the file holds the cells in uniformly random order and the tracked ones are a prefix, so
    the next ones are a uniform choice.
    """
    count, start, _ = files.groups
    of_group = counts[new.group]
    file_group = np.searchsorted(count, of_group)
    nonzero = tracked.position[tracked.position >= 0]
    taken = np.bincount(np.searchsorted(start, nonzero, side="right") - 1, minlength=count.size)
    first = np.searchsorted(new.group, new.group, side="left")
    rank = np.arange(new.group.size) - first
    inside = of_group > 0
    positions = np.full(new.group.size, -1, np.int64)
    chosen = file_group[inside]
    positions[inside] = start[chosen] + taken[chosen] + rank[inside]
    return positions, of_group


def _draw_empty_keys(
    domain: Domain, files: SeriesFiles, known: pl.DataFrame, n: int, *, rng: np.random.Generator
) -> pl.DataFrame:
    """Keys for empty cells that become tracked: uniform among those neither counted nor tracked."""
    if n == 0:
        return known.clear()

    def taken(keys: pl.DataFrame) -> NDArray[np.bool_]:
        tracked_empty = _is_in(keys, known) if known.height else np.zeros(keys.height, bool)
        return files.contains(keys) | tracked_empty

    return draw_free(
        domain,
        n,
        n_taken=files.n_nonzero + known.height,
        taken=taken,
        taken_keys=lambda: pl.concat([files.all_keys(), known]),
        rng=rng,
    )


def _is_in(keys: pl.DataFrame, among: pl.DataFrame) -> NDArray[np.bool_]:
    marked = among.with_columns(pl.lit(value=True).alias("known")).unique(among.columns)
    joined = keys.join(marked, on=among.columns, how="left", maintain_order="left")
    return joined["known"].fill_null(value=False).to_numpy()


def _paths(past: Past, level: Fraction, new: NewlyTracked) -> dict[Fraction, NoiseArray]:
    """Noise of the new cells at every level of the path."""
    paths = {known: new.paths[:, i] for i, (known, _) in enumerate(past)}
    paths[level] = new.values
    return paths
