"""The rows of a log in memory, parted by their units, so that each part is counted alone and within a cache."""

from __future__ import annotations

import numpy as np

from sparsehist.counting.contract import Codes32
from sparsehist.counting.in_memory.codes import by_first_bits
from sparsehist.typing import WordArray

PART_BITS = 8
BLOCK = 1 << 18  # rows put in order at a time, within the cache of a core


class PartedRows:
    """Numbers of units and codes of keys, row by row. May be added to by several threads at once. Secret."""

    def __init__(self) -> None:
        # Rows in the order of the first bits of their units, and where those of each part begin and end.
        self._blocks: list[tuple[WordArray, Codes32, list[int]]] = []

    def __repr__(self) -> str:
        return "PartedRows()"

    def __len__(self) -> int:
        return sum(codes.size for _, codes, _ in self._blocks)

    def add(self, units: WordArray, codes: Codes32) -> None:
        """Add a batch of rows.

        Args:
            units: Number of the unit of each row; shape (n,).
            codes: Code of its key; shape (n,).
        """
        for start in range(0, codes.size, BLOCK):
            block = slice(start, start + BLOCK)
            order, ends = by_first_bits(units[block], PART_BITS)
            self._blocks.append((units[block][order], codes[block][order], ends))

    def part(self, number: int, bits: int) -> tuple[WordArray, Codes32]:
        """Bring the rows whose units begin with a number of so many bits, `PART_BITS` at most, together."""
        first, last = (place << PART_BITS - bits for place in (number, number + 1))
        own = [(units, codes, slice(ends[first], ends[last])) for units, codes, ends in self._blocks]
        return np.concatenate([units[at] for units, _, at in own]), np.concatenate(
            [codes[at] for _, codes, at in own]
        )
