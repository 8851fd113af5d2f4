"""Store the rows of a log as numbers, grouped by unit, in memory or in temporary files."""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from typing import IO, Any

import numpy as np

from sparsehist.typing import AnyArray, IndexArray, NDArray

GROUP_BITS = 8  # number of bits of the group of a row; all rows of a unit are in the same group


class _OnDisk:
    """A column that is appended to a file. It is not memory-mapped, since each mapping would need a descriptor."""

    def __init__(self, file: IO[bytes], column: AnyArray) -> None:
        self._file, self._start, self._dtype = file, file.seek(0, os.SEEK_END), column.dtype
        column.tofile(file)

    def __getitem__(self, rows: slice) -> AnyArray:
        size = self._dtype.itemsize
        content = os.pread(self._file.fileno(), size * (rows.stop - rows.start), self._start + size * rows.start)
        return np.frombuffer(content, self._dtype)


class Rows:
    """The rows of a log as integers: words for unit and key, and each measured value as a number of steps. Secret.

    A word is an integer of at most 64 bits that identifies a unit or key (`words.py`). `add` is thread-safe.

    Args:
        directory: Directory for temporary files with the rows that do not fit in memory.
        memory: Largest number of bytes of rows that stay in memory.
    """

    def __init__(self, directory: Path, memory: int) -> None:
        self._free, self._lock = memory, Lock()
        self._file = TemporaryFile(dir=directory)  # noqa: SIM115  it stays open while the rows are in use
        weakref.finalize(self, self._file.close)
        # For each block: its columns, in memory or on disk, and the position where each group of units begins.
        self._blocks: list[tuple[list[Any], IndexArray]] = []

    def __len__(self) -> int:
        return sum(int(bounds[-1]) for _, bounds in self._blocks)

    def add(self, group: NDArray[np.uint8], *columns: AnyArray) -> None:
        """Add a batch of n rows: the group of each row, and the columns of the batch. Each array has shape (n,)."""
        order = np.argsort(group, kind="stable")  # radix sort
        bounds = np.append(0, np.cumsum(np.bincount(group, minlength=1 << GROUP_BITS)))
        block: list[Any] = [np.take(column, order, mode="clip") for column in columns]
        with self._lock:
            self._free -= sum(column.nbytes for column in block)
            if self._free < 0 and group.size:
                block = [_OnDisk(self._file, column) for column in block]
        self._blocks.append((block, bounds))

    def group(self, number: int, bits: int) -> list[AnyArray]:
        """Return the columns of the rows for which the leading `bits` bits of the group equal `number`."""
        first, last = (end << GROUP_BITS - bits for end in (number, number + 1))
        parts = [[column[bounds[first] : bounds[last]] for column in block] for block, bounds in self._blocks]
        return [np.concatenate(column) for column in zip(*parts, strict=True)]
