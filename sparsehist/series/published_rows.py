"""The rows of a release: in their order, and in memory of their own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sparsehist.histogram import round_to_grid
from sparsehist.noise.family import NoiseArray
from sparsehist.series.declaration import Declaration
from sparsehist.store import SeriesFiles, Tracked
from sparsehist.store.ordering import stable_order

_BLOCK = 1 << 18


@dataclass(frozen=True, repr=False, eq=False)
class Shown:
    """The cells of a release. Positions follow the order of the true counts: secret, and never printed.

    Attributes:
        position: In the counts file, by cell number, -1 for an empty one; shape (q,).
        noisy: Noisy counts on the grid; shape (q,).
        empty: Which of the tracked empty cells are among them.
        step: Of the grid; 1 for integer noise.
    """

    position: NDArray[np.int64]
    noisy: NoiseArray
    empty: NDArray[np.bool_]
    step: float

    def __repr__(self) -> str:
        return "Shown()"


def shown_cells(tracked: Tracked, noise: NoiseArray, threshold: float, grid: float | None) -> Shown:
    """Every tracked cell above the threshold; `grid` is None for integer noise.

    In arrays of its own, so that those of the state can be let go before the rows take their place.
    """
    above = noise > threshold - tracked.count
    everything = bool(above.all())  # then nothing is copied that need not be
    position, count = (array if everything else array[above] for array in (tracked.position, tracked.count))
    noisy = noise.copy() if everything else noise[above]
    if grid is not None:
        _round_in_place(noisy, grid)
    noisy += count
    return Shown(position, noisy, above[tracked.position < 0], 1.0 if grid is None else grid)


def published_frame(
    declaration: Declaration, files: SeriesFiles, empty_keys: pl.DataFrame, shown: Shown
) -> pl.DataFrame:
    """The rows of a release: largest first, then by key; `empty_keys` are those of all tracked empty cells."""
    noisy = shown.noisy
    from_file = shown.position >= 0
    if from_file.all():
        keys = files.keys(shown.position)
    else:
        keys = pl.concat([files.keys(shown.position[from_file]), empty_keys.filter(pl.Series(shown.empty))])
        noisy = np.concatenate([noisy[from_file], noisy[~from_file]])
    frame = keys.rename(dict(zip(keys.columns, declaration.key, strict=True)))
    frame = frame.select(declaration.key).with_columns(pl.Series("noisy_count", noisy))
    step = shown.step
    del keys, noisy, from_file, shown
    return _in_own_buffers(frame[_order(frame, list(declaration.key), step)])


def _round_in_place(noise: NoiseArray, step: float) -> None:
    """Round to the grid by blocks: what that takes besides does not grow with the cells."""
    for first in range(0, noise.size, _BLOCK):
        block = noise[first : first + _BLOCK]
        block[:] = round_to_grid(block, step)


def _order(frame: pl.DataFrame, keys: list[str], step: float) -> NDArray[np.uint32 | np.uint64]:
    """Rows by noisy count, largest first, then by key; keys are compared only where counts are equal."""
    noisy = frame["noisy_count"].to_numpy()
    # In steps of the grid below the largest: whole numbers, exact as the step is a power of two.
    order = stable_order(((noisy.max(initial=0) - noisy) / step).astype(np.uint64))
    by = pl.arg_sort_by("noisy_count", *keys, descending=[True] + [False] * len(keys))
    first = 0
    while first < order.size:  # by blocks, so that many ties take little memory
        last = _end_of_tie(noisy, order, min(first + _BLOCK, order.size))
        rows = order[first:last]
        falling = noisy[rows]
        same_as_next = np.append(falling[1:] == falling[:-1], False)
        tied = np.flatnonzero(same_as_next | np.roll(same_as_next, 1))
        if tied.size:
            rows[tied] = rows[tied][frame[rows[tied]].select(by).to_series().to_numpy()]
        first = last
    return order


def _end_of_tie(noisy: NoiseArray, order: NDArray[np.uint32 | np.uint64], end: int) -> int:
    """The first place from `end` on where the count is another one than just before `end`."""
    value = noisy[order[end - 1]]
    while end < order.size:
        other = noisy[order[end : end + _BLOCK]] != value
        if other.any():
            return end + int(other.argmax())
        end += other.size
    return end


def _in_own_buffers(frame: pl.DataFrame) -> pl.DataFrame:
    """The same rows in fresh memory, strings laid out in row order.

    Polars strings are views into the buffers they were read from: those hold keys that are not published, and
    lie in the order of the counts file, which is that of the true counts.
    """
    return pl.DataFrame(pl.from_arrow(frame.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())))
