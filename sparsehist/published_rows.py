"""The rows of a release: in their order, and in memory of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sparsehist.declaration import Declaration
from sparsehist.histogram import round_to_grid
from sparsehist.noise.family import NoiseArray
from sparsehist.store import SeriesFiles, Tracked


def published_frame(
    declaration: Declaration,
    files: SeriesFiles,
    tracked: Tracked,
    empty_keys: pl.DataFrame,
    noise: NoiseArray,
    metadata: Mapping[str, Any],
    threshold: float,
) -> pl.DataFrame:
    """The rows of a release: every tracked cell above the threshold, largest first, then by key."""
    above = noise > threshold - tracked.count
    position, count, shown = tracked.position[above], tracked.count[above], noise[above]
    rounded = shown if declaration.family.integer else round_to_grid(shown, metadata["grid"])
    from_file = position >= 0
    empty_above = above[tracked.position < 0]
    keys = pl.concat([files.keys(position[from_file]), empty_keys.filter(pl.Series(empty_above))])
    noisy = np.concatenate([(count + rounded)[from_file], (count + rounded)[~from_file]])
    names = dict(zip(keys.columns, declaration.key, strict=True))
    frame = keys.rename(names).with_columns(pl.Series("noisy_count", noisy))
    ordered = frame.select(*declaration.key, "noisy_count")[_order(frame, list(declaration.key))]
    return _in_own_buffers(ordered)


def _order(frame: pl.DataFrame, keys: list[str]) -> NDArray[np.int64]:
    """Rows by noisy count, largest first, then by key; keys are compared only where counts are equal."""
    noisy = frame["noisy_count"].to_numpy()
    order = np.argsort(-noisy, kind="stable")
    falling = noisy[order]
    same_as_next = np.append(falling[1:] == falling[:-1], False) if falling.size else np.empty(0, bool)
    tied = np.flatnonzero(same_as_next | np.roll(same_as_next, 1))
    if tied.size:
        by = pl.arg_sort_by("noisy_count", *keys, descending=[True] + [False] * len(keys))
        order[tied] = order[tied][frame[order[tied]].select(by).to_series().to_numpy()]
    return order


def _in_own_buffers(frame: pl.DataFrame) -> pl.DataFrame:
    """The same rows in fresh memory, strings laid out in row order.

    Polars strings are views into the buffers they were read from: those hold keys that are not published, and
    lie in the order of the counts file, which is that of the true counts.
    """
    return pl.DataFrame(pl.from_arrow(frame.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())))
