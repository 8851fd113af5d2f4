"""Draw one of finitely many cells with exactly given real probabilities, at a few nanoseconds a draw.

A uniform real number U is revealed a piece at a time and compared with the cumulative probabilities, which are
real numbers known to any number of bits. The first 16 bits are looked up in a guide, which settles all but a
few per cent; for those, 64 bits are searched among the cumulative probabilities to 64 bits, which settles all
but about one in 2**50; for those, 64 further bits at a time are compared in Python integers until the cell is
certain. So the law is exactly the one asked for: no probability is ever rounded, no float takes part.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from sparsehist.noise.exact import Enclosure, leading_bits

IntArray = NDArray[np.int64]
CellArray = NDArray[np.int16]

_PIECE = 16
_MOST_CELLS = np.iinfo(np.int16).max
UNSETTLED = np.iinfo(np.int16).min
"""What a guide holds where its bits do not settle the cell."""


class Cells(Protocol):
    """The cells of a table: hashable, so that tables are made once."""

    def __hash__(self) -> int:
        """Equal cells are one table."""

    def cumulative(self, bits: int) -> Sequence[Enclosure]:
        """Enclose the probability of cells 0 … i, for every i but the last; never decreasing, in (0, 1)."""


@dataclass(frozen=True)
class Reading:
    """How many bits are read in the first two stages; less than the default only in tests of the later stages."""

    guide_bits: int = 16
    word_bits: int = 64


READING = Reading()


@dataclass(frozen=True, eq=False)
class Table:
    """Cumulative probabilities to `guide_bits` and `word_bits`, ready to be searched. Public parameters only."""

    cells: Cells
    reading: Reading
    words: NDArray[np.uint64] = field(repr=False)
    guide: CellArray = field(repr=False)

    @classmethod
    def of(cls, cells: Cells) -> Table:
        """Prepare the cells, or find them prepared."""
        return _table(cells, READING)

    def guided(self, values: CellArray) -> CellArray:
        """The guide, holding a value of each cell in place of its number."""
        looked_up = values[np.maximum(self.guide, 0)]
        return np.where(self.guide == UNSETTLED, np.int16(UNSETTLED), looked_up)

    def draw(self, size: int, *, rng: Generator) -> CellArray:
        """Draw cells; shape (size,), int16."""
        return self.cells_of(self.pieces(size, rng=rng), rng=rng)

    def pieces(self, size: int, *, rng: Generator) -> NDArray[np.uint16]:
        """The first bits of `size` uniform numbers: where to look in the guide."""
        pieces = random_words(-(-size * _PIECE // 64), rng=rng).view(np.uint16)[:size]
        unread = _PIECE - self.reading.guide_bits
        return pieces >> np.uint16(unread) if unread else pieces

    def cells_of(self, pieces: NDArray[np.uint16], *, rng: Generator) -> CellArray:
        """Draw the cells of uniform numbers that begin with these pieces; shape (n,)."""
        cells = self.guide.take(pieces)
        open_still = np.flatnonzero(cells == UNSETTLED)
        cells[open_still] = self._settle(pieces[open_still], rng=rng)
        return cells

    def _settle(self, pieces: NDArray[np.uint16], *, rng: Generator) -> CellArray:
        fresh = self.reading.word_bits - self.reading.guide_bits
        words = random_words(pieces.size, rng=rng) >> np.uint64(64 - fresh)
        words |= pieces.astype(np.uint64) << np.uint64(fresh)
        cells = np.searchsorted(self.words, words, side="right")
        # A word that equals the one before its cell lies on the boundary itself: on which side is open.
        touching = np.flatnonzero((cells > 0) & (self.words[np.maximum(cells, 1) - 1] == words))
        for position in touching.tolist():
            cells[position] = self._settle_one(int(words[position]), rng=rng)
        return cells.astype(np.int16)

    def _settle_one(self, word: int, *, rng: Generator) -> int:
        bits = self.reading.word_bits
        while True:
            bits += 64
            word = word << 64 | int(random_words(1, rng=rng)[0])
            cumulative = _leading_bits(self.cells, bits)
            if bisect_left(cumulative, word) == (cell := bisect_right(cumulative, word)):
                return cell


def random_words(size: int, *, rng: Generator) -> NDArray[np.uint64]:
    """Uniform 64-bit words, straight from the stream of any bit generator."""
    return rng.integers(0, 2**64 - 1, size, dtype=np.uint64, endpoint=True)


@lru_cache(maxsize=64)
def _table(cells: Cells, reading: Reading) -> Table:
    words = np.array(_leading_bits(cells, reading.word_bits), dtype=np.uint64)
    assert words.size < _MOST_CELLS
    first_pieces = (words >> np.uint64(reading.word_bits - reading.guide_bits)).astype(np.int64)
    guide = np.searchsorted(first_pieces, np.arange(1 << reading.guide_bits), side="right").astype(np.int16)
    guide[first_pieces] = UNSETTLED
    return Table(cells, reading, words, guide)


@lru_cache(maxsize=64)
def _leading_bits(cells: Cells, bits: int) -> list[int]:
    return leading_bits(cells.cumulative, bits)
