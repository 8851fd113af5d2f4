"""Rows of a log as numbers, grouped by unit; each group fits the cache of a core."""

from __future__ import annotations

from pathlib import Path
from threading import Lock

import numpy as np

from sparsehist.typing import AnyArray, IndexArray, WordArray

GROUP_BITS = 8
BLOCK = 1 << 18  # rows grouped at a time, within the cache of a core


class Rows:
    """Rows: words of units and keys, and further numbers. Adding is thread-safe. Secret.

    Args:
        directory: A private directory for rows that do not fit in memory.
        memory: Bytes of rows that stay in memory.
    """

    def __init__(self, directory: Path, memory: int) -> None:
        self._file, self._room, self._lock = directory / "rows", memory, Lock()
        # Columns of batches of rows, in memory or mapped from the file; and the end of each group of units.
        self._blocks: list[tuple[list[AnyArray], list[int]]] = []

    def __len__(self) -> int:
        return sum(ends[-1] for _, ends in self._blocks)

    def add(self, *columns: AnyArray) -> None:
        """Add a batch of rows: words of units, words of keys, other numbers; all of shape (n,)."""
        for start in range(0, columns[0].size, BLOCK):
            own = slice(start, start + BLOCK)
            order, ends = by_first_bits(columns[0][own], GROUP_BITS)
            grouped = [np.take(column[own], order, mode="clip") for column in columns]
            with self._lock:
                self._room -= sum(column.nbytes for column in grouped)
                self._blocks.append((grouped if self._room >= 0 else self._written(grouped), ends))

    def group(self, number: int, bits: int) -> list[AnyArray]:
        """Return the columns of the rows whose unit words begin with the `bits` bits of `number`."""
        first, last = (place << GROUP_BITS - bits for place in (number, number + 1))
        parts = [[column[ends[first] : ends[last]] for column in columns] for columns, ends in self._blocks]
        return [np.concatenate(column) for column in zip(*parts, strict=True)]

    def clear(self) -> None:
        """Discard all rows."""
        self._blocks.clear()

    def _written(self, columns: list[AnyArray]) -> list[AnyArray]:
        """Write columns to the file, and return them memory-mapped."""
        mapped: list[AnyArray] = []
        for column in columns:
            with self._file.open("ab") as file:
                offset = file.tell()
                file.write(column.data)
            mapped.append(np.memmap(self._file, column.dtype, "r", offset, column.shape))
        return mapped


def by_first_bits(words: WordArray, bits: int) -> tuple[IndexArray, list[int]]:
    """Group words by their first bits, at most 8; return positions in a stable order, and the groups' bounds."""
    part = (words >> np.uint64(64 - bits)).astype(np.uint8)
    order = np.argsort(part, kind="stable")  # a radix sort: the numbers have 8 bits
    ends = np.cumsum(np.bincount(part, minlength=1 << bits))
    return order, [0, *ends.tolist()]
