"""Coins of exactly rational odds, many at once."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from sparsehist.errors import promise
from sparsehist.typing import BoolArray, Generator, NDArray

# A coin is decided by its first 62 bits but for one in 2**62; for that one, 62 more at a time.
_BITS = 62


class Coins:
    """A few coins of rational odds; flipping compares random words with integers, and no float takes part.

    Example:
        >>> from sparsehist import entropy
        >>> coins = Coins([Fraction(0), Fraction(1)])
        >>> coins.flip(np.array([0, 1, 1, 0]), rng=entropy.seeded(1)).tolist()
        [False, True, True, False]
    """

    def __init__(self, chances: Sequence[Fraction]) -> None:
        promise(all(0 <= chance <= 1 for chance in chances), "a chance that is no probability")
        self._chances = tuple(chances)
        self._limits = np.array([int(chance * 2**_BITS) for chance in chances], np.int64)

    def flip(self, which: NDArray[np.integer], *, rng: Generator) -> BoolArray:
        """Flip coin number `which[i]` for every i; any shape."""
        words = rng.integers(0, 2**_BITS, which.shape)
        limits = self._limits.take(which)
        shown: BoolArray = words < limits
        undecided = words == limits
        if undecided.any():
            for place in np.argwhere(undecided).tolist():
                shown[tuple(place)] = self._settle(self._chances[int(which[tuple(place)])], rng=rng)
        return shown

    @staticmethod
    def _settle(chance: Fraction, *, rng: Generator) -> bool:
        """Go on where the first word equals that of the chance."""
        rest = chance
        while rest := rest * 2**_BITS - int(rest * 2**_BITS):
            word, limit = int(rng.integers(0, 2**_BITS)), int(rest * 2**_BITS)
            if word != limit:
                return word < limit
        return False
