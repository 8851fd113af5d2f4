"""Passes over sorted words that each hold the code of a unit above the code of a key.

Memory that a process touches for the first time costs more than the arithmetic done in it (measured: 12 ns a
word against 2 ns), so the passes go block by block and write into what is there already.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl
from numpy.typing import NDArray

BLOCK = 1 << 18


def first_of_runs(ordered: NDArray[np.generic]) -> NDArray[np.bool_]:
    """Mark the first of each run of equal values."""
    first = np.empty(ordered.size, dtype=bool)
    first[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return first


def distinct(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Sort words and leave each once; the result lies in the memory of the argument."""
    # Polars sorts 64-bit words in half the time of numpy.
    ordered = pl.Series(words).sort().to_numpy()
    end = 0
    for block in _blocks(ordered.size):
        first = first_of_runs(ordered[max(block.start - 1, 0) : block.stop])[1 if block.start else 0 :]
        kept = ordered[block][first]
        words[end : end + kept.size] = kept
        end += kept.size
    return words[:end]


def low_bits(words: NDArray[np.uint64], bits: int) -> NDArray[np.uint32]:
    """Take the lowest bits, at most 32 of them, without a copy of the words in 64 bits."""
    lowest = words.astype(np.uint32)
    if bits < 32:
        lowest &= np.uint32((1 << bits) - 1)
    return lowest


def key_totals(words: NDArray[np.uint64], key_bits: int, size: int) -> NDArray[np.int64]:
    """Count the words of each key code from 0 to size − 1."""
    totals = np.zeros(size, dtype=np.int64)
    # Every block adds an array of `size`, so blocks are no smaller than that.
    for block in _blocks(words.size, max(BLOCK, 2 * size)):
        totals += np.bincount(low_bits(words[block], key_bits), minlength=size)
    return totals


def unit_starts(words: NDArray[np.uint64], key_bits: int) -> NDArray[np.intp]:
    """Find where the pairs of each unit begin."""
    shift = np.uint64(key_bits)
    starts = [np.zeros(min(words.size, 1), dtype=np.intp)]
    for block in _blocks(words.size):
        units = words[max(block.start - 1, 0) : block.stop] >> shift
        starts.append(np.flatnonzero(units[1:] != units[:-1]) + max(block.start, 1))
    return np.concatenate(starts)


def _blocks(size: int, length: int = BLOCK) -> Iterator[slice]:
    for start in range(0, size, length):
        yield slice(start, min(start + length, size))
