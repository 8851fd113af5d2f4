"""One round of a sparse histogram as a pure function: state in, noise out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from numpy.random import Generator
from numpy.typing import ArrayLike

from sparsehist.histogram.binomial import IntArray
from sparsehist.histogram.dense import noise_at_level
from sparsehist.histogram.exceeding import NewlyTracked, draw_exceeding
from sparsehist.noise.family import Family, NoiseArray
from sparsehist.privacy.levels import as_level


class Round(NamedTuple):
    """Noise drawn by one round. Secret.

    Attributes:
        tracked: Noise at the new level of the cells tracked before; shape (t,).
        new: The cells that become tracked.
    """

    tracked: NoiseArray
    new: NewlyTracked

    def __repr__(self) -> str:
        return "Round()"


def draw_round(
    family: Family,
    past: Sequence[tuple[Fraction, float]],
    level: Fraction,
    threshold: float,
    *,
    neighbours: Mapping[Fraction, NoiseArray],
    n_tracked: int,
    n_untracked: Sequence[int] | IntArray,
    counts: ArrayLike,
    rng: Generator,
) -> Round:
    """Draw one round.

    Args:
        family: The noise.
        past: (level, effective threshold) of every past release of the path.
        level: The new level, exact; may be a past one.
        threshold: Effective threshold.
        neighbours: Noise of the tracked cells, shape (t,), at `level` itself if it was spent before, else at
            the next coarser and the next finer level that were.
        n_tracked: t.
        n_untracked: Cells never drawn, one entry a group; Python integers of any size.
        counts: True count of each group.
        rng: Randomness.

    Returns:
        Noise at the new level of tracked cells, and the cells that become tracked with their whole paths.
    """
    known = {as_level(at): noise for at, noise in neighbours.items()}
    tracked = known.get(level)
    if tracked is None:
        tracked = noise_at_level(family, level, known, n_tracked, rng=rng)
    return Round(tracked, draw_exceeding(family, past, level, threshold, n_untracked, count=counts, rng=rng))
