"""Real numbers known to as many bits as asked for, in integers only.

A `Real` is a rational function of exponentials e^-q with rational q >= 0, written as a formula; `enclose(bits)`
bounds it between two multiples of 2^-bits. No float takes part, and every rounding goes outwards, so a bound is
a proof. By Lindemann's theorem such a number is transcendental unless it is constant in disguise: its binary
digits are decided by enough bits, and `leading_bits` finds how many are enough.

Source: our own derivation; the idea of settling a comparison by revealing both numbers bit by bit is von Neumann's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal, NamedTuple

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

    def rounded(self, bits: int) -> Enclosure:
        """The same with fewer bits, rounded outwards."""
        fewer = self.bits - bits
        return Enclosure(self.low >> fewer, -((-self.high) >> fewer), bits)


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
class Exponential(Real):
    """e^-exponent, for a rational exponent at least 0.

    Example:
        >>> e = Exponential(Fraction(1)).enclose(200)
        >>> e.high - e.low <= 2, round(e.low / 2**200, 6)
        (True, 0.367879)
    """

    exponent: Fraction

    def __post_init__(self) -> None:
        """Growth is not needed anywhere, and the series below is proved for decay."""
        assert self.exponent >= 0

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


ONE = Exponential(Fraction(0))


@lru_cache(maxsize=256)
def _exponential(exponent: Fraction, bits: int) -> Enclosure:
    """Sum the series of e^x for x = exponent / 2**halvings <= 1/2, square as often, and invert."""
    if not exponent:
        return Enclosure(1 << bits, 1 << bits, bits)
    halvings = max((exponent.numerator // exponent.denominator).bit_length() + 1, 0)
    working = bits + halvings + 16
    shrunk = exponent / 2**halvings
    low = (shrunk.numerator << working) // shrunk.denominator
    argument = Enclosure(low, low + 1, working)
    term = total = Enclosure(1 << working, 1 << working, working)
    n = 0
    while term.low:
        n += 1
        product = term.times(argument)
        term = Enclosure(product.low // n, -(-product.high // n), working)
        total = total.plus(term)
    # The terms left out fall by half or more each, so together they are at most the last one taken.
    total = Enclosure(total.low, total.high + term.high, working)
    decay = Enclosure(1 << working, 1 << working, working).over(total)
    for _ in range(halvings):
        decay = decay.times(decay)
    return decay.rounded(bits)


def leading_bits(bounds: Callable[[int], Sequence[Enclosure]], bits: int) -> list[int]:
    """The first `bits` binary digits of numbers strictly between 0 and 1, none of them dyadic.

    Args:
        bounds: Encloses all the numbers, given a precision in bits.
        bits: Digits wanted.

    Returns:
        floor(2**bits * number) of each, exactly.

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
