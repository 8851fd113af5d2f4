"""A release as the entries that changed since an earlier one.

Over the levels Laplace and discrete Laplace noise is constant except for jumps: between near levels most entries keep
their noise, and only the others need to be sent. Which entries change depends on the noise alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsehist.dense.dense_release import DenseRelease
from sparsehist.errors import InputError, LevelOrderError
from sparsehist.noise.family import NoiseArray
from sparsehist.privacy.levels import as_level
from sparsehist.typing import IntArray

# Families with a guarantee whose bridge from fine to coarse is 0 with probability var(fine)/var(coarse).
_LAZY = ("Laplace", "DiscreteLaplace")


@dataclass(frozen=True, eq=False, repr=False)
class DenseUpdate:
    """The entries of a release that differ from an earlier one; all of it is public.

    Attributes:
        indices: Ascending; shape (m,), int64.
        values: New values; shape (m,).
        metadata: That of the new release, and "since", the level of the earlier one.
    """

    indices: IntArray
    values: NoiseArray
    metadata: dict[str, Any]


def changed(earlier: DenseRelease, later: DenseRelease) -> DenseUpdate:
    """Find the entries of `later` that differ from `earlier`, a release of the same vector at any other level.

    Raises:
        InputError: If the noise is not Laplace or discrete Laplace, or the releases are of different vectors or lie
            on different grids, so that every value differs (declare one `step` for all levels).

    Example:
        >>> from sparsehist.dense import MultipleRelease
        >>> from sparsehist.noise import DiscreteLaplace
        >>> vector = MultipleRelease(DiscreteLaplace(), range(1000))
        >>> first, second = vector.release(1), vector.release("1.1")
        >>> update = changed(first, second)
        >>> update.indices.size < 500, apply_update(first, update).values.tolist() == second.values.tolist()
        (True, True)
    """
    noise = type(later.family).__name__
    if noise not in _LAZY:
        raise InputError(
            f"under {noise} noise every entry changes between any two levels: publish the release itself"
        )
    for what in ("size", "noise", "sensitivity", "truth_step", "post_processing"):
        one, other = earlier.metadata[what], later.metadata[what]
        if one != other:
            raise InputError(f"these are not releases of one vector: {what} is {one} and {other}")
    if earlier.metadata["grid"] != later.metadata["grid"]:
        raise InputError(
            "the releases lie on different grids, so every value differs: MultipleRelease(..., step=...)"
        )
    indices = np.flatnonzero(earlier.values != later.values)
    return DenseUpdate(indices, later.values[indices], {**later.metadata, "since": earlier.metadata["level"]})


def apply_update(earlier: DenseRelease, update: DenseUpdate) -> DenseRelease:
    """Turn the release that an update was made against into the later release.

    Raises:
        LevelOrderError: If the update was made against another level.
        InputError: If the releases are of different lengths.
    """
    metadata = dict(update.metadata)
    since = metadata.pop("since")
    if earlier.metadata["level"] != since:
        raise LevelOrderError(f"the update is one since level {since}, not since {earlier.metadata['level']}")
    if earlier.values.size != metadata["size"]:
        raise InputError(f"the update is for {metadata['size']} entries, the release has {earlier.values.size}")
    values = earlier.values.copy()
    values[update.indices] = update.values
    return DenseRelease(values, earlier.family, as_level(metadata["level"]), metadata)
