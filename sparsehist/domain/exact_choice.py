"""Choices with exact rational probabilities, without a float.

A uniform real number is revealed 64 bits at a time. The first word settles all but about one draw in 2**60;
those few go on with further words in Python integers until they are settled too.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from sparsehist.typing import BoolArray, IndexArray, WordArray

_WORD = 64


@dataclass(frozen=True)
class ExactChoice:
    """A distribution on 0 … m−1 with probabilities weight / total, ready to be drawn from.

    Attributes:
        starts: Sum of the weights before each outcome; never decreasing, the first is 0.
        total: Sum of all weights.
        words: First word of starts / total; shape (m,), uint64.
        inexact: Where further words of starts / total are not all zero; shape (m,).
    """

    starts: tuple[int, ...]
    total: int
    words: WordArray
    inexact: BoolArray

    @classmethod
    def of(cls, weights: Sequence[int]) -> ExactChoice:
        """Prepare the choice among integer weights, at least one of them positive."""
        last = max(outcome for outcome, weight in enumerate(weights) if weight)
        ends = list(accumulate(weights[: last + 1]))
        starts, total = (0, *ends[:-1]), ends[-1]
        scaled = [divmod(start << _WORD, total) for start in starts]
        return cls(
            starts=starts,
            total=total,
            words=np.array([word for word, _ in scaled], dtype=np.uint64),
            inexact=np.array([rest != 0 for _, rest in scaled], dtype=np.bool_),
        )

    def draw(self, size: int, *, rng: np.random.Generator) -> IndexArray:
        """Draw outcomes; shape (size,)."""
        if len(self.starts) == 1:
            return np.zeros(size, dtype=np.intp)
        words = _random_words(size, rng=rng)
        outcomes = np.searchsorted(self.words, words, side="right") - 1
        undecided = self.inexact[outcomes] & (self.words[outcomes] == words)
        for position in np.flatnonzero(undecided):
            outcomes[position] = self._refine(int(words[position]), rng=rng)
        return outcomes

    def _refine(self, word: int, *, rng: np.random.Generator) -> int:
        """Reveal further words of one uniform number until it lies within one outcome."""
        revealed, bits = word, _WORD
        while True:
            revealed = (revealed << _WORD) | int(_random_words(1, rng=rng)[0])
            bits += _WORD
            lowest = bisect_right(self.starts, (revealed * self.total) >> bits) - 1
            highest = bisect_right(self.starts, ((revealed + 1) * self.total - 1) >> bits) - 1
            if lowest == highest:
                return lowest


def _random_words(size: int, *, rng: np.random.Generator) -> WordArray:
    return rng.integers(0, 2**_WORD - 1, size=size, dtype=np.uint64, endpoint=True)
