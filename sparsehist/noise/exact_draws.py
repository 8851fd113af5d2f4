"""Exact draws of integers with geometric tails, and exact coins.

One primitive serves all: of a uniform number U, the number N of all k >= 0 with U < weight * e**(-rate * k), so that
P[N > k] = weight * e**(-rate * k). Doubles give N from 64 bits of U. Where their rounding, or the bits of U that are
still unknown, could change N, interval arithmetic decides, with as many further random bits as that takes. So no
probability is ever rounded.

Source: our own derivation (docs/mathematics.md, exact draws).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from typing import Any, TypeAlias

import numpy as np

from sparsehist.errors import LevelError
from sparsehist.typing import BoolArray, Generator, IndexArray, IntArray, secret

Interval: TypeAlias = Any
"""A number of `mpmath` between its bounds `a` and `b`; only these are compared, as mpmath raises on an open case."""

MOST = 2**62
"""Larger numbers are returned as this one."""

# Draws made at once, so that what they need stays in the processor's cache.
_CHUNK = 1 << 14
_MOST_BITS = 1 << 14
# From this word on, the unknown bits change ln U by less than 2**-45.
_FEWEST = np.uint64(1 << 45)
# More than the error of the exponent below, in doubles: 2**-45 of U, and a few roundings of numbers below 14.
_ROOM = 2.0**-43
# Smaller rates are this one to a double. It serves comparisons with bounds only.
_SLOWEST = 1e-290


@cache
def _intervals() -> Any:
    """A context of our own: its precision is changed here only. Bounds hold at any precision."""
    from mpmath.ctx_iv import MPIntervalContext  # slow to import, and hardly ever needed

    return MPIntervalContext()


def enclose(weight: Callable[[], Interval], bits: int) -> Interval:
    """Bound a number by its formula, at a working precision of `bits`."""
    _intervals().prec = bits
    return weight()


def decay(exponent: Fraction) -> Interval:
    """Bound e**-exponent at the working precision."""
    return _intervals().exp(-_intervals().mpf(exponent.numerator) / exponent.denominator)


@dataclass(frozen=True)
class Tail:
    """The law P[N > k] = weight * e**(-shrink * power - rate * k), k = 0, 1, …; a power is given with each draw.

    Attributes:
        weight: Bounds the weight, in (0, 1], at the working precision.
        rate: Positive.
        shrink: At least 0.
    """

    weight: Callable[[], Interval]
    rate: Fraction = Fraction(1)
    shrink: Fraction = Fraction(0)

    @cached_property
    def log_weight(self) -> float:
        """The double nearest to ln weight, or one of its neighbours."""
        bits = 128
        while bits <= _MOST_BITS:
            weight = enclose(self.weight, bits)
            if weight.a > 0:
                logarithm = _intervals().log(weight)
                if logarithm.delta.b <= max(abs(float(logarithm.mid)) * 2.0**-60, 2.0**-70):
                    return float(logarithm.mid)
            bits *= 2
        raise LevelError(
            "levels lie too near each other: a probability of the step between them cannot be told from 0"
        )


@secret
class Uniforms:
    """Independent uniform numbers on (0, 1): 64 bits of each, and further bits of those that need them."""

    def __init__(self, size: int, *, rng: Generator) -> None:
        self._words = rng.integers(0, 2**64 - 1, size, dtype=np.uint64, endpoint=True)
        self._longer: dict[int, tuple[int, int]] = {}
        self._rng = rng

    def count(
        self,
        tail: Tail,
        *,
        at: IndexArray | slice = slice(None),
        flipped: BoolArray | bool = False,
        power: IntArray | int = 0,
        most: IntArray | int = MOST,
    ) -> IntArray:
        """Count, for some of the numbers U, the k >= 0 with U < weight * e**(-shrink * power - rate * k).

        Args:
            tail: The law.
            at: Which numbers; m of them.
            flipped: Where to take 1 - U for U; shape (m,).
            power: How often the weight is to shrink; shape (m,).
            most: Larger results are cut to this; shape (m,).

        Returns:
            Shape (m,); draws of the law, cut at `most`. Results for one U are consistent with one another.
        """
        words = self._words[at]
        words = np.where(flipped, ~words, words)
        rate, shrunk = max(float(tail.rate), _SLOWEST), float(tail.shrink) * np.asarray(power, np.float64)
        exponent = np.log((words + 0.5) * 2.0**-64)
        np.subtract(tail.log_weight - shrunk, exponent, out=exponent)
        steps = exponent / rate
        whole = np.floor(steps)
        result: IntArray = np.clip(whole + 1.0, 0.0, most).astype(np.int64)
        room = _ROOM * (1.0 + (abs(tail.log_weight) + float(np.max(shrunk, initial=0.0))) / 32.0)
        steps -= whole
        near = np.minimum(steps, 1.0 - steps) * rate <= room
        near &= (exponent >= -room) & (exponent <= rate * np.asarray(most, np.float64) + room)
        open_still = np.flatnonzero(near | (words < _FEWEST))
        if open_still.size:
            positions = np.arange(self._words.size)[at][open_still]
            columns = (np.broadcast_to(each, words.shape)[open_still] for each in (flipped, power, most))
            for i, position, flip, shrinks, bound in zip(open_still, positions, *columns, strict=True):
                guess = int(result[i])
                result[i] = self._settle(tail, guess, int(position), int(shrinks), int(bound), flip=bool(flip))
        return result

    def _settle(self, tail: Tail, guess: int, position: int, power: int, most: int, *, flip: bool) -> int:
        """Decide one count from bounds, beginning at a guess."""
        count, bits = guess, 64
        while True:
            word = self._leading(position, bits)
            word = (1 << bits) - 1 - word if flip else word
            weight = enclose(tail.weight, bits + 128)
            if word and weight.a > 0:
                uniform = _intervals().mpf([word, word + 1]) / (1 << bits)
                exponent = _intervals().log(weight) - _intervals().log(uniform) - _exact(tail.shrink) * power
                rate = _exact(tail.rate)
                while count < most and (exponent - rate * count).a > 0:
                    count += 1
                while count > 0 and (exponent - rate * (count - 1)).b < 0:
                    count -= 1
                reached = count == 0 or (exponent - rate * (count - 1)).a > 0
                if reached and (count == most or (exponent - rate * count).b < 0):
                    return count
            bits += 64

    def _leading(self, position: int, bits: int) -> int:
        """The first bits of one number, a multiple of 64 of them; drawn once."""
        word, known = self._longer.get(position) or (int(self._words[position]), 64)
        while known < bits:
            word, known = (
                word << 64 | int(self._rng.integers(0, 2**64 - 1, dtype=np.uint64, endpoint=True)),
                known + 64,
            )
        self._longer[position] = word, known
        return word >> (known - bits)


def _exact(number: Fraction) -> Interval:
    return _intervals().mpf(number.numerator) / number.denominator


def draw(tail: Tail, size: int, *, rng: Generator) -> IntArray:
    """Draw from the law, exactly; shape (size,)."""
    result = np.empty(size, np.int64)
    for begin in range(0, size, _CHUNK):
        part = result[begin : begin + _CHUNK]
        part[:] = Uniforms(part.size, rng=rng).count(tail)
    return result


def coins(chance: Tail, size: int, *, rng: Generator) -> BoolArray:
    """Draw coins that show true with a probability of exactly the tail's weight; shape (size,).

    Example:
        >>> from sparsehist import entropy
        >>> coins(Tail(lambda: decay(Fraction(9))), 4, rng=entropy.seeded(1)).tolist()
        [False, False, False, False]
    """
    return Uniforms(size, rng=rng).count(chance, most=1).astype(np.bool_)


def fair_coins(size: int, *, rng: Generator) -> BoolArray:
    """Draw fair coins, one random bit each; shape (size,)."""
    return np.unpackbits(np.frombuffer(rng.bytes((size + 7) // 8), np.uint8), count=size).view(np.bool_)
