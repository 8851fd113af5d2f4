"""Draw one of finitely many cells with exactly given real probabilities, at a few nanoseconds per draw.

A `Real` is a rational function of exponentials e^-q with rational q >= 0, written as a formula; `enclose(bits)`
bounds it between two multiples of 2^-bits. No float takes part, and every rounding goes outwards, so a bound is
a proof. By Lindemann's theorem such a number is transcendental unless it is constant in disguise: its binary
digits are decided by enough bits, and `leading_bits` finds how many are enough.

A uniform real number U is revealed a piece at a time and compared with the cumulative probabilities, which are
real numbers known to any number of bits. The first 16 bits are looked up in a guide, which settles all but a
few per cent; for those, 64 bits are searched among the cumulative probabilities to 64 bits, which settles all
but about one in 2**50; for those, 64 further bits at a time are compared in Python integers until the cell is
certain. So the law is exactly the one asked for: no probability is ever rounded, no float takes part.

Source: our own derivation; the idea of settling a comparison by revealing both numbers bit by bit is von Neumann's.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Literal, NamedTuple, Protocol, TypeAlias

import numpy as np

from sparsehist.errors import promise
from sparsehist.privacy.exact_numbers import MANY_DIGITS, as_decimal
from sparsehist.typing import Generator, NDArray, WordArray

Operation = Literal["+", "-", "*", "/"]

# Carried beyond the bits wanted, so that a second, longer attempt is needed only once in about 2^40.
_GUARD = 64
# What is still undecided here is a dyadic constant in disguise, or differs from one by less than 2**-16,000.
_MOST_BITS = 1 << 14


class Enclosure(NamedTuple):
    """A number at least 0 that lies in [low, high] / 2**bits."""

    low: int
    high: int
    bits: int

    def plus(self, other: Enclosure) -> Enclosure:
        """Enclose the sum."""
        return Enclosure(self.low + other.low, self.high + other.high, self.bits)

    def minus(self, other: Enclosure) -> Enclosure:
        """Enclose the difference, known to be at least 0."""
        return Enclosure(max(self.low - other.high, 0), self.high - other.low, self.bits)

    def times(self, other: Enclosure) -> Enclosure:
        """Enclose the product."""
        bits = self.bits
        return Enclosure((self.low * other.low) >> bits, -((-self.high * other.high) >> bits), bits)

    def over(self, other: Enclosure) -> Enclosure:
        """Enclose the quotient; raises `Undecided` when the divisor may be 0 at this precision."""
        if not other.low:
            raise Undecided
        bits = self.bits
        return Enclosure((self.low << bits) // other.high, -((-self.high << bits) // other.low), bits)


class Undecided(ArithmeticError):  # noqa: N818 - a request for more bits, and mostly granted
    """More bits are needed."""


class Real:
    """A real number at least 0 as a formula; equal formulas are equal and hash alike."""

    def enclose(self, bits: int) -> Enclosure:
        """Bound the number to about 2**-bits."""
        raise NotImplementedError

    def __add__(self, other: Real) -> Real:
        return Combination("+", self, other)

    def __sub__(self, other: Real) -> Real:
        return Combination("-", self, other)

    def __mul__(self, other: Real) -> Real:
        return Combination("*", self, other)

    def __truediv__(self, other: Real) -> Real:
        return Combination("/", self, other)


@dataclass(frozen=True)
class ExponentialDecay(Real):
    """e^-exponent, for a rational exponent at least 0.

    Example:
        >>> e = ExponentialDecay(Fraction(1)).enclose(200)
        >>> e.high - e.low <= 2, round(e.low / 2**200, 6)
        (True, 0.367879)
    """

    exponent: Fraction

    def __post_init__(self) -> None:
        """Growth is not needed anywhere, and the bound below is proved for decay."""
        promise(self.exponent >= 0, "an exponential that grows")

    def enclose(self, bits: int) -> Enclosure:
        return _exponential(self.exponent, bits)


@dataclass(frozen=True)
class Combination(Real):
    """Sum, difference, product or quotient of two numbers; a difference has to be at least 0."""

    operation: Operation
    left: Real
    right: Real

    def enclose(self, bits: int) -> Enclosure:
        left, right = self.left.enclose(bits), self.right.enclose(bits)
        match self.operation:
            case "+":
                return left.plus(right)
            case "-":
                return left.minus(right)
            case "*":
                return left.times(right)
            case "/":
                return left.over(right)


ONE = ExponentialDecay(Fraction(0))


@lru_cache(maxsize=256)
def _exponential(exponent: Fraction, bits: int) -> Enclosure:
    """By `decimal`, whose quotients and exponentials are rounded correctly.

    With three digits more than the bits have, all roundings together (of the exponent q too, as q e^-q is below 1)
    come to less than a tenth of 2**-bits.
    """
    if not exponent:
        return Enclosure(1 << bits, 1 << bits, bits)
    with localcontext(MANY_DIGITS) as context:
        context.prec = math.ceil(bits * math.log10(2)) + 3
        scaled = (-as_decimal(exponent)).exp() * (1 << bits)
        tenth = Decimal("0.1")
        return Enclosure(max(math.floor(scaled - tenth), 0), math.ceil(scaled + tenth), bits)


def leading_bits(bounds: Callable[[int], Sequence[Enclosure]], bits: int) -> list[int]:
    """floor(2**bits * number), exactly, of numbers in (0, 1), none of them dyadic, which `bounds` encloses.

    Raises:
        Undecided: If 16,384 bits do not decide them.
    """
    working = bits + _GUARD
    while working <= max(_MOST_BITS, 4 * bits):
        decided = _floors(bounds, bits, working)
        if decided is not None:
            return decided
        working *= 2
    raise Undecided("a probability lies too near a dyadic number, or the levels it comes from too near each other")


def _floors(bounds: Callable[[int], Sequence[Enclosure]], bits: int, working: int) -> list[int] | None:
    """The floors, or None if these working bits leave one open."""
    try:
        enclosures = bounds(working)
    except Undecided:
        return None
    extra, most = working - bits, (1 << bits) - 1
    floors = []
    for enclosure in enclosures:
        # The number itself is below 1, whatever its bound says.
        low, high = min(enclosure.low >> extra, most), min(enclosure.high >> extra, most)
        if low != high:
            return None
        floors.append(low)
    return floors


CellArray: TypeAlias = "NDArray[np.int16]"

_PIECE = 16
_MOST_CELLS = 2**15 - 1
UNSETTLED = -(2**15)
"""What a guide holds where its bits do not settle the cell."""


class CellProbabilities(Protocol):
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

    cells: CellProbabilities
    reading: Reading
    words: WordArray = field(repr=False)
    guide: CellArray = field(repr=False)

    @classmethod
    def of(cls, cells: CellProbabilities) -> Table:
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


def random_words(size: int, *, rng: Generator) -> WordArray:
    """Uniform 64-bit words, straight from the stream of any bit generator."""
    return rng.integers(0, 2**64 - 1, size, dtype=np.uint64, endpoint=True)


@lru_cache(maxsize=64)
def _table(cells: CellProbabilities, reading: Reading) -> Table:
    words = np.array(_leading_bits(cells, reading.word_bits), dtype=np.uint64)
    promise(words.size < _MOST_CELLS, "a table of more cells than its numbers can name")
    first_pieces = (words >> np.uint64(reading.word_bits - reading.guide_bits)).astype(np.int64)
    guide = np.searchsorted(first_pieces, np.arange(1 << reading.guide_bits), side="right").astype(np.int16)
    guide[first_pieces] = UNSETTLED
    return Table(cells, reading, words, guide)


@lru_cache(maxsize=64)
def _leading_bits(cells: CellProbabilities, bits: int) -> list[int]:
    return leading_bits(cells.cumulative, bits)
