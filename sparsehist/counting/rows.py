"""Rows of a log as words, grouped by unit: each group is counted alone, within a cache.

Rows stay in memory as long as they fit; what comes later waits in files.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import numpy as np

from sparsehist.typing import AnyArray, IndexArray, WordArray, secret

GROUP_BITS = 8
BLOCK = 1 << 18  # rows grouped at a time, within the cache of a core


@secret
class _Block(NamedTuple):
    """Columns of some rows, or where in the files these begin; and where each group of units ends."""

    columns: Sequence[AnyArray | int]
    ends: list[int]


class Rows:
    """Words of units and keys, and numbers beside them, row by row. Several threads may add at once. Secret.

    Args:
        directory: A private directory for rows that memory has no room for.
        memory: Bytes of rows that stay in memory.
        beside: Number of columns besides units and keys.
    """

    def __init__(self, directory: Path, memory: int, beside: int = 0) -> None:
        self._files = [directory / f"column-{number}" for number in range(2 + beside)]
        self._dtypes: list[np.dtype] = [*[np.dtype(np.uint64)] * 2, *[np.dtype(np.int32)] * beside]
        self._room = memory
        self._blocks: list[_Block] = []
        self._lock = Lock()

    def __repr__(self) -> str:
        return "Rows()"

    def __len__(self) -> int:
        return sum(block.ends[-1] for block in self._blocks)

    def add(self, units: WordArray, keys: AnyArray, *beside: AnyArray) -> None:
        """Add a batch of rows; all of shape (n,)."""
        for start in range(0, keys.size, BLOCK):
            own = slice(start, start + BLOCK)
            order, ends = by_first_bits(units[own], GROUP_BITS)
            columns = [np.take(column[own], order, mode="clip") for column in (units, keys, *beside)]
            with self._lock:
                self._dtypes = [column.dtype for column in columns]
                self._room -= sum(column.nbytes for column in columns)
                self._blocks.append(_Block(columns if self._room >= 0 else self._write(columns), ends))

    def group(self, number: int, bits: int) -> list[AnyArray]:
        """Return the columns of the rows whose units begin with `number`, written in some bits."""
        first, last = (place << GROUP_BITS - bits for place in (number, number + 1))
        parts = [(block.columns, slice(block.ends[first], block.ends[last])) for block in self._blocks]
        return [
            np.concatenate([self._part(at, columns[at], rows) for columns, rows in parts])
            for at in range(len(self._files))
        ]

    def _write(self, columns: Sequence[AnyArray]) -> list[int]:
        offsets = []
        for path, column in zip(self._files, columns, strict=True):
            with path.open("ab") as file:
                offsets.append(file.tell())
                file.write(column.data)
        return offsets

    def _part(self, at: int, column: AnyArray | int, rows: slice) -> AnyArray:
        if not isinstance(column, int):
            return column[rows]
        dtype = self._dtypes[at]
        offset = column + rows.start * dtype.itemsize
        return np.fromfile(self._files[at], dtype, count=rows.stop - rows.start, offset=offset)


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
