"""Passes over words that each hold the code of a unit above the code of a key, 32 bits each.

Memory that a process touches for the first time costs more than the arithmetic done in it (measured: 16 ns a
word against 2 ns), so the passes go block by block and write into what is there already.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

CODE_BITS = 32
BLOCK = 1 << 18
SORTED_AT_ONCE = 1 << 22


class CodedPairs:
    """Words that grow at the end; memory is taken as it is filled. Secret."""

    def __init__(self, expected: int) -> None:
        self._room: NDArray[np.uint64] = np.empty(expected, dtype=np.uint64)
        self._size = 0

    def __repr__(self) -> str:
        return "CodedPairs()"

    def append(self, units: NDArray[np.uint32], keys: NDArray[np.uint32]) -> None:
        """Add a word for each row."""
        size = self._size + units.size
        if size > self._room.size:
            room = np.empty(size + size // 2, dtype=np.uint64)
            room[: self._size] = self.array()
            self._room = room
        part = self._room[self._size : size]
        part[:] = units
        part <<= np.uint64(CODE_BITS)
        part |= keys
        self._size = size

    def array(self) -> NDArray[np.uint64]:
        """All words so far, in their own memory: not to be kept when more come."""
        return self._room[: self._size]


def first_of_runs(ordered: NDArray[np.generic]) -> NDArray[np.bool_]:
    """Mark the first of each run of equal values."""
    first = np.empty(ordered.size, dtype=bool)
    first[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return first


def distinct(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Sort words and leave each once; the result lies in the memory of the argument."""
    cuts = [int(cut) for cut in np.linspace(0, words.size, words.size // SORTED_AT_ONCE + 2)]
    # Parts, each above the one before, so that there is never a second copy of all.
    if len(cuts) > 2:
        words.partition(cuts[1:-1])
    end = 0
    for low, high in pairwise(cuts):
        # Polars sorts 64-bit words in a third of the time of numpy; with several threads it takes more of it in all.
        ordered = pl.Series(words[low:high]).sort(multithreaded=False).to_numpy()
        for block in _blocks(ordered.size):
            first = first_of_runs(ordered[max(block.start - 1, 0) : block.stop])[1 if block.start else 0 :]
            if not block.start and end:
                first[0] = ordered[0] != words[end - 1]
            kept = ordered[block][first]
            words[end : end + kept.size] = kept
            end += kept.size
    return words[:end]


def low_codes(words: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """Take the lower code of each word: that of the key."""
    return words.astype(np.uint32)


def key_totals(words: NDArray[np.uint64], size: int) -> NDArray[np.int64]:
    """Count the words of each key code from 0 to size − 1."""
    totals = np.zeros(size, dtype=np.int64)
    # Every block adds an array of `size`, so blocks are not much smaller than that.
    for block in _blocks(words.size, max(BLOCK, size // 2)):
        totals += np.bincount(low_codes(words[block]), minlength=size)
    return totals


def unit_starts(words: NDArray[np.uint64]) -> NDArray[np.intp]:
    """Find where the pairs of each unit begin."""
    shift = np.uint64(CODE_BITS)
    starts = [np.zeros(min(words.size, 1), dtype=np.intp)]
    for block in _blocks(words.size):
        units = words[max(block.start - 1, 0) : block.stop] >> shift
        starts.append(np.flatnonzero(units[1:] != units[:-1]) + max(block.start, 1))
    return np.concatenate(starts)


def _blocks(size: int, length: int = BLOCK) -> Iterator[slice]:
    for start in range(0, size, length):
        yield slice(start, min(start + length, size))
