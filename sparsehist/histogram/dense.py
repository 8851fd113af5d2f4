"""The dense mechanism, which draws noise for every cell and publishes the cells above the threshold.

Its releases are distributed like those of sparse rounds, which draw only a few cells.
Papers: [ARNP Lemma 5.3, Alg. 3, Lemma 5.4, Lemma A.1, Lemma A.2].
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from sparsehist.errors import InputError, read_each
from sparsehist.noise.family import DenseFamily, Family, NoiseArray
from sparsehist.privacy.levels import Level, as_level
from sparsehist.typing import ArrayLike, BoolArray, Generator, float_array, secret


@secret
class DenseReleases(NamedTuple):
    """The noise of every cell in each release, in counts, and whether the cell was published.

    Both arrays have shape (releases, cells). Noise is secret: subtracting it from published values gives true counts.
    """

    noise: NoiseArray
    published: BoolArray


def release_dense(
    family: Family,
    counts: ArrayLike,
    levels: Sequence[Level],
    thresholds: Sequence[float],
    *,
    rng: Generator,
) -> DenseReleases:
    """Draw lossless releases of a dense histogram at several levels, one after another.

    Args:
        family: Noise family.
        counts: True counts; shape (d,). Secret.
        levels: Levels in the order of release, sorted or not; releases at the same level share their noise.
        thresholds: Effective threshold of each level, in counts. A cell is published if count + noise exceeds it.
        rng: Randomness.

    Returns:
        The noise of all d cells, and whether they are published, for each release.

    Raises:
        InputError: If levels and thresholds differ in number.

    Example:
        >>> from sparsehist import entropy, noise
        >>> drawn = release_dense(noise.Gaussian(), [0, 50], [0.1, 0.2], [9.0, 9.0], rng=entropy.seeded(1))
        >>> drawn.published.shape
        (2, 2)

    Source: [ARNP Alg. 4, Alg. 5].
    """
    if len(levels) != len(thresholds):
        raise InputError("give one threshold per level")
    true_counts = float_array("counts", counts)
    paths: dict[Fraction, NoiseArray] = {}
    exact = read_each("levels", list(levels), as_level, "a level")
    for level in exact:
        paths[level] = noise_at_level(family, level, paths, true_counts.size, rng=rng)
    noise = np.stack([paths[level] for level in exact])
    return DenseReleases(noise, noise > float_array("thresholds", thresholds)[:, None] - true_counts)


def noise_at_level(
    family: DenseFamily, level: Fraction, neighbours: dict[Fraction, NoiseArray], size: int, *, rng: Generator
) -> NoiseArray:
    """Return the noise at `level` if it is in `neighbours`; otherwise, draw it given the noise in `neighbours`."""
    if level in neighbours:
        return neighbours[level]
    coarser = max((known for known in neighbours if known < level), default=None)
    finer = min((known for known in neighbours if known > level), default=None)
    if coarser is not None and finer is not None:
        return family.between(neighbours[coarser], coarser, neighbours[finer], finer, level, rng=rng)
    if finer is not None:
        return family.coarsen(neighbours[finer], finer, level, rng=rng)
    if coarser is not None:
        return family.refine(neighbours[coarser], coarser, level, rng=rng)
    return family.sample(size, level, rng=rng)
