"""How many strings there are of each length, and at which number each begins.

Every character has a cost from 1 to 4: its UTF-8 bytes where bytes are bounded, 1 where characters are. With
a_c characters of cost c there are W(r) = Σ_c a_c·W(r − c) strings of length r, W(0) = 1. Strings are numbered
by length, then by their first character, and so on.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate

import numpy as np

from sparsehist.domain.exact_choice import ExactChoice
from sparsehist.typing import IntArray

GREATEST_COST = 4


@dataclass(frozen=True)
class StringCounts:
    """The strings of length 1 to `longest`.

    Attributes:
        characters: Number of characters of cost 0 (none), 1, … 4.
        longest: Greatest length.
    """

    characters: tuple[int, ...]
    longest: int

    @cached_property
    def of_length(self) -> list[int]:
        """W(0), …, W(longest)."""
        counts = [1]
        for length in range(1, self.longest + 1):
            counts.append(sum(self._blocks(counts, length)))
        return counts

    @cached_property
    def size(self) -> int:
        return sum(self.of_length) - 1

    @cached_property
    def first_character(self) -> list[int]:
        """Position of the first character of each cost among all, sorted by cost."""
        return [0, *accumulate(self.characters)][: GREATEST_COST + 1]

    @cached_property
    def length_choice(self) -> ExactChoice:
        """The length of a uniform string."""
        return ExactChoice.of([0, *self.of_length[1:]])

    @lru_cache(maxsize=8192)  # noqa: B019 – the records themselves are kept by `string_counts`
    def cost_choice(self, remaining: int) -> ExactChoice:
        """The cost of the next character of a uniform string with this length still to come."""
        return ExactChoice.of(self._blocks(self.of_length, remaining))

    @cached_property
    def first_number(self) -> IntArray:
        """Number of the first string of length 0 (none), 1, …, longest; for sizes below 2**63."""
        return np.array([0, *accumulate(self.of_length[1:], initial=0)][: self.longest + 1], dtype=np.int64)

    @cached_property
    def counts(self) -> IntArray:
        """W as an array; for sizes below 2**63."""
        return np.array(self.of_length, dtype=np.int64)

    @cached_property
    def before(self) -> IntArray:
        """Strings of length r whose first cost is below c; shape (longest + 1, 5), sizes below 2**63."""
        rows = [
            [0, *accumulate(self._blocks(self.of_length, r))][: GREATEST_COST + 1] for r in range(self.longest + 1)
        ]
        return np.array(rows, dtype=np.int64)

    def _blocks(self, counts: list[int], length: int) -> list[int]:
        """Strings of this length by the cost of their first character."""
        return [
            number * counts[length - cost] if 1 <= cost <= length else 0
            for cost, number in enumerate(self.characters)
        ]


@lru_cache(maxsize=16)
def string_counts(characters: tuple[int, ...], longest: int) -> StringCounts:
    """Count strings, once for each alphabet and bound."""
    return StringCounts(characters, longest)
