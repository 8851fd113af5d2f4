"""Rows of a log as words, grouped by unit: each group is counted alone, within a cache.

Rows stay in memory as long as they fit; what comes later waits in files.
"""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import NamedTuple

import numpy as np

from sparsehist.typing import AnyArray, IndexArray, WordArray, secret

GROUP_BITS = 8
BLOCK = 1 << 18  # rows grouped at a time, within the cache of a core


@secret
class _Block(NamedTuple):
    """Columns of some rows, in memory or mapped from a file; and where each group of units ends."""

    columns: list[AnyArray]
    ends: list[int]


class Rows:
    """Words of units and keys, and numbers beside them, row by row. Several threads may add at once. Secret.

    Args:
        directory: A private directory for rows that memory has no room for.
        memory: Bytes of rows that stay in memory.
    """

    def __init__(self, directory: Path, memory: int) -> None:
        self._file, self._room = directory / "rows", memory
        self._blocks: list[_Block] = []
        self._lock = Lock()

    def __repr__(self) -> str:
        return "Rows()"

    def __len__(self) -> int:
        return sum(block.ends[-1] for block in self._blocks)

    def add(self, *columns: AnyArray) -> None:
        """Add a batch of rows: words of units, words of keys, other numbers; all of shape (n,)."""
        for start in range(0, columns[0].size, BLOCK):
            own = slice(start, start + BLOCK)
            order, ends = by_first_bits(columns[0][own], GROUP_BITS)
            grouped = [np.take(column[own], order, mode="clip") for column in columns]
            with self._lock:
                self._room -= sum(column.nbytes for column in grouped)
                self._blocks.append(_Block(grouped if self._room >= 0 else self._written(grouped), ends))

    def group(self, number: int, bits: int) -> list[AnyArray]:
        """Return the columns of the rows whose unit hashes begin with the `bits` bits of `number`."""
        first, last = (place << GROUP_BITS - bits for place in (number, number + 1))
        parts = [(block.columns, slice(block.ends[first], block.ends[last])) for block in self._blocks]
        return [
            np.concatenate([columns[at][rows] for columns, rows in parts])
            for at in range(len(self._blocks[0].columns))
        ]

    def clear(self) -> None:
        """Forget all rows."""
        self._blocks.clear()

    def _written(self, columns: list[AnyArray]) -> list[AnyArray]:
        """Write columns to the file, and map them from there."""
        mapped: list[AnyArray] = []
        for column in columns:
            with self._file.open("ab") as file:
                offset = file.tell()
                file.write(column.data)
            mapped.append(np.memmap(self._file, column.dtype, "r", offset, column.shape))
        return mapped


def by_first_bits(words: WordArray, bits: int) -> tuple[IndexArray, list[int]]:
    """Group words by their first bits, in a stable order.

    Args:
        words: Shape (n,).
        bits: From 1 to 8.

    Returns:
        Positions of the words in their new order, shape (n,); and 2**bits + 1 offsets, between which the groups lie.
    """
    part = (words >> np.uint64(64 - bits)).astype(np.uint8)
    order = np.argsort(part, kind="stable")  # a radix sort: the numbers have 8 bits
    ends = np.cumsum(np.bincount(part, minlength=1 << bits))
    return order, [0, *ends.tolist()]
