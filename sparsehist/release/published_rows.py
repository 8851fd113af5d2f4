"""Select the tracked cells that a release publishes, and return them as a frame."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from sparsehist.histogram import round_to_grid
from sparsehist.noise.family import NoiseArray
from sparsehist.store import Tracked
from sparsehist.typing import BoolArray, FloatArray, IntArray, secret


@secret
@dataclass(frozen=True, repr=False, eq=False)
class Shown:
    """The published cells of a release. Positions in the counts file are secret: the file is sorted by true count.

    `position` has the position of each published cell in the counts file, or -1 for an empty cell. `noisy` has the
    noisy counts of these cells; shape (rows,) each. `empty_keys` has the keys of the published empty cells, in the
    order in which these cells occur in `position`.
    """

    position: IntArray
    noisy: NoiseArray
    empty_keys: pl.DataFrame


def shown_cells(
    tracked: Tracked,
    noise: NoiseArray,
    empty_keys: pl.DataFrame,
    threshold: float,
    grid: float | None,
    *,
    unit: int = 1,
) -> Shown:
    """Return the tracked cells whose noisy count is above the threshold.

    Counts, noise, threshold and grid are in parts of a count; `unit` says how many parts make one count.
    `empty_keys` contains the keys of all tracked empty cells. `grid` is None for integer noise, which is not rounded.
    """
    above = noise > threshold - tracked.count
    noisy = noise[above] if grid is None else round_to_grid(noise[above], grid)
    noisy += tracked.count[above]
    if unit != 1:
        noisy /= unit  # this division is exact, because the number of parts is a power of two
    empty = pl.Series(above[tracked.position < 0], dtype=pl.Boolean)
    return Shown(tracked.position[above], noisy, empty_keys.filter(empty))


def published_frame(
    key: tuple[str, ...],
    keys_at: Callable[[IntArray], pl.DataFrame],
    shown: Shown,
    beside: Mapping[str, FloatArray] | None = None,
) -> pl.DataFrame:
    """Return the rows of a release, sorted by noisy count (largest first), then by key.

    `keys_at` returns the keys at given positions of the counts file; `beside` maps names to further columns.
    """
    columns = {"noisy_count": shown.noisy, **(beside or {})}
    nonempty = shown.position >= 0
    keys = keys_at(shown.position[nonempty])
    if not nonempty.all():
        keys = pl.concat([keys, shown.empty_keys])
        columns = {name: np.append(each[nonempty], each[~nonempty]) for name, each in columns.items()}
    frame = keys.rename(dict(zip(keys.columns, key, strict=True))).select(key)
    frame = frame.with_columns(pl.Series(name, each, nan_to_null=True) for name, each in columns.items())
    del keys, columns, nonempty, shown  # free memory before the rows are sorted
    return _in_own_buffers(frame.sort("noisy_count", *key, descending=[True] + [False] * len(key)))


def _in_own_buffers(frame: pl.DataFrame) -> pl.DataFrame:
    """Copy strings to new memory, in row order.

    Without the copy, Polars strings would be views of buffers that also contain unpublished keys, in the secret order
    of the true counts.
    """
    return frame.with_columns(pl.col(pl.String) + "")


def is_in(keys: pl.DataFrame, others: pl.DataFrame) -> BoolArray:
    """Return, for each row of `keys`, whether `others` contains this row; shape (rows,)."""
    marked = others.with_columns(pl.lit(value=True).alias("found")).unique(others.columns)
    joined = keys.join(marked, on=others.columns, how="left", maintain_order="left")
    return joined["found"].fill_null(value=False).to_numpy()
