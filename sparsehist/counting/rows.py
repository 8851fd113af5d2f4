"""Rows of a log as numbers, grouped by unit; each group fits the cache of a core."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock

import numpy as np

from sparsehist.typing import AnyArray, IndexArray

GROUP_BITS = 8
BLOCK = 1 << 18  # rows grouped at a time, within the cache of a core


class Rows:
    """Rows: words of units and keys, and further numbers. Adding is thread-safe. Secret.

    Args:
        directory: Directory of temporary files for rows that do not fit in memory.
        memory: Bytes of rows that stay in memory.
    """

    def __init__(self, directory: Path, memory: int) -> None:
        self._directory, self._free, self._lock = directory, memory, Lock()
        # Columns of blocks of rows, in memory or mapped from files; and where the groups of units begin and end.
        self._blocks: list[tuple[list[AnyArray], IndexArray]] = []

    def __len__(self) -> int:
        return sum(int(bounds[-1]) for _, bounds in self._blocks)

    def add(self, *columns: AnyArray) -> None:
        """Add a batch of rows: words of units, words of keys, other numbers; all of shape (n,)."""
        for start in range(0, max(columns[0].size, 1), BLOCK):
            block = [column[start : start + BLOCK] for column in columns]
            group = (block[0] >> np.uint64(64 - GROUP_BITS)).astype(np.uint8)
            order = np.argsort(group, kind="stable")  # a radix sort: the numbers have 8 bits
            bounds = np.append(0, np.cumsum(np.bincount(group, minlength=1 << GROUP_BITS)))
            block = [np.take(column, order, mode="clip") for column in block]
            with self._lock:
                self._free -= sum(column.nbytes for column in block)
                on_disk = self._free < 0 and group.size > 0
            block = [self._written(column) for column in block] if on_disk else block
            self._blocks.append((block, bounds))

    def group(self, number: int, bits: int) -> list[AnyArray]:
        """Return the columns of the rows whose unit words begin with the `bits` bits of `number`."""
        first, last = (end << GROUP_BITS - bits for end in (number, number + 1))
        parts = [[column[bounds[first] : bounds[last]] for column in block] for block, bounds in self._blocks]
        return [np.concatenate(column) for column in zip(*parts, strict=True)]

    def clear(self) -> None:
        """Discard all rows."""
        self._blocks.clear()

    def _written(self, column: AnyArray) -> AnyArray:
        """Write a column to a file without a name, and return it memory-mapped."""
        with TemporaryFile(dir=self._directory) as file:
            column.tofile(file)
            return np.memmap(file, column.dtype, "r", shape=column.shape)
