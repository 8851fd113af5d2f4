"""Orders of large arrays, found by sorting words that end in a position.

Sorting 64-bit words takes a fraction of the time in which an order is found, and words that end in their position say
which order it was. Passes over arrays go block by block, into memory that is there: what is held at once is the
arrays, the words and their positions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias, TypeVar

import numpy as np

from sparsehist.typing import AnyArray, NDArray, WordArray

WORD_BITS = 64
_BLOCK = 1 << 18
Positions: TypeAlias = "NDArray[np.uint32 | np.uint64]"
Number = TypeVar("Number", bound="np.generic")


def sort_with_positions(values: WordArray, *, in_place: bool = False) -> tuple[WordArray, Positions]:
    """Sort values, of any 64 bits; returns them and where each stood, equal ones in the order they stand in.

    Args:
        values: Shape (n,).
        in_place: Whether their memory may be written to, where that saves some.
    """
    spare = WORD_BITS - max(int(values.max(initial=0)).bit_length(), 1)
    bits = _position_bits(len(values))
    words = np.left_shift(values, np.uint64(spare), out=values if in_place and spare >= bits else None)
    positions = _sort_words(words)
    if spare >= bits:
        words >>= np.uint64(spare)
        return words, positions
    ordered = take(values, positions, out=words)
    # What the words had no room for is put right by exchanges: of hashes, hardly any agree in so many bits.
    while (higher := np.flatnonzero(ordered[1:] < ordered[:-1])).size:
        higher = higher[np.diff(higher, prepend=-2) > 1]
        for array in (ordered, positions):
            array[higher], array[higher + 1] = array[higher + 1], array[higher]
    return ordered, positions


def random_order(size: int, *, rng: np.random.Generator) -> Positions:
    """Positions from 0 to size − 1 in uniformly random order.

    Random words are sorted. Where they agree in all bits but those of the position, further words, no two of them
    equal, are drawn for these positions alone: any order of them is as likely as any other. (A shuffle of many
    positions would wait for memory at each of them.)
    """
    words = rng.integers(0, 2**WORD_BITS, size=size, dtype=np.uint64)
    positions = _sort_words(words)
    words >>= np.uint64(_position_bits(size))
    equal = words[1:] == words[:-1]
    if equal.any():
        follows = np.concatenate([[False], equal])
        tied = np.flatnonzero(follows | np.concatenate([equal, [False]]))
        run = np.cumsum(~follows[tied])
        while True:
            more = rng.integers(0, 2**WORD_BITS, size=tied.size, dtype=np.uint64)
            order = np.lexsort((more, run))
            if not ((np.diff(run[order]) == 0) & (np.diff(more[order]) == 0)).any():
                break
        positions[tied] = positions[tied][order]
    return positions


def take(values: AnyArray, positions: Positions, out: NDArray[Number]) -> NDArray[Number]:
    """Take values by position, into an array of n."""
    for block in _blocks(len(positions)):
        out[block] = values[positions[block]]
    return out


def _sort_words(words: WordArray) -> Positions:
    """Sort words whose lowest bits are replaced by their positions, in place; returns the positions."""
    positions = np.empty(len(words), dtype=_width(len(words)))
    mask = np.uint64((1 << _position_bits(len(words))) - 1)
    words &= ~mask
    for block in _blocks(len(words)):
        words[block] |= np.arange(block.start, block.stop, dtype=np.uint64)
    words.sort()
    for block in _blocks(len(words)):
        positions[block] = words[block] & mask
    return positions


def _blocks(size: int) -> Iterator[slice]:
    for start in range(0, size, _BLOCK):
        yield slice(start, min(start + _BLOCK, size))


def _position_bits(size: int) -> int:
    return max(size - 1, 0).bit_length()


def _width(size: int) -> type[np.uint32 | np.uint64]:
    return np.uint32 if size <= 1 << 32 else np.uint64
