"""Exact coin flips with rational probabilities, many at once."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from sparsehist.errors import promise
from sparsehist.typing import BoolArray, Generator, NDArray

# 62 random bits decide a coin, except with probability 2**-62; then the next 62 bits do.
_BITS = 62


class Coins:
    """A few coins with rational probabilities; random words are compared with integers, without floats.

    Example:
        >>> from sparsehist import entropy
        >>> coins = Coins([Fraction(0), Fraction(1)])
        >>> coins.flip(np.array([0, 1, 1, 0]), rng=entropy.seeded(1)).tolist()
        [False, True, True, False]
    """

    def __init__(self, chances: Sequence[Fraction]) -> None:
        promise(all(0 <= chance <= 1 for chance in chances), "a probability outside [0, 1]")
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
        """Decide a flip whose first word equals that of the probability."""
        rest = chance
        while rest := rest * 2**_BITS - int(rest * 2**_BITS):
            word, limit = int(rng.integers(0, 2**_BITS)), int(rest * 2**_BITS)
            if word != limit:
                return word < limit
        return False
