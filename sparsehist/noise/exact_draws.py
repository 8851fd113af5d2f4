"""Draw integers with geometric tails, and biased coins, without rounding any probability.

A drawn integer N >= 0 has P[N > k] = weight * e**(-rate * k), for a weight in (0, 1] and a rate above 0. N is the
number of integers k >= 0 with U < weight * e**(-rate * k), where U is uniform on (0, 1). Usually N can be computed in
doubles from 64 bits of U. If rounding errors or further bits of U could change N, it is computed again in interval
arithmetic, with as many further bits of U as necessary.

Source: our own derivation (docs/mathematics.md, "Laplace, discrete Laplace, exponential").
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from typing import Any, TypeAlias

import numpy as np

from sparsehist.errors import LevelError
from sparsehist.typing import BoolArray, Generator, IndexArray, IntArray, secret

Interval: TypeAlias = Any
"""An `mpmath` interval with bounds `a` and `b`. Only bounds are compared: overlapping intervals raise an error."""

MOST = 2**62  # drawn integers above this number are replaced by it
_CHUNK = 1 << 14  # numbers are drawn in chunks of this size, so that temporary arrays fit in the CPU cache
_MOST_BITS = 1 << 14
# If the first 64 bits of a uniform number U, as an integer, are at least this value, they give ln U within 2**-45.
_FEWEST = np.uint64(1 << 45)
# Bound on the error of `exponent` in `Uniforms.count`: 2**-45, as only 64 bits of U are known, and rounding errors.
_ROOM = 2.0**-43
# In doubles, smaller rates are raised to this one, to avoid division by 0. Interval arithmetic uses the exact rates.
_SLOWEST = 1e-290


def chunks(size: int) -> Iterator[slice]:
    """Return slices that divide a vector of `size` entries into chunks that fit in the cache."""
    return (slice(begin, min(begin + _CHUNK, size)) for begin in range(0, size, _CHUNK))


@cache
def _intervals() -> Any:
    """Return an mpmath interval context for this module only, so changing the precision affects no other code."""
    from mpmath.ctx_iv import MPIntervalContext  # imported here because it is slow to import and rarely needed

    return MPIntervalContext()


def enclose(weight: Callable[[], Interval], bits: int) -> Interval:
    """Call the function `weight` at a precision of `bits` bits. The resulting interval contains the exact weight."""
    _intervals().prec = bits
    return weight()


def decay(exponent: Fraction) -> Interval:
    """Return an interval that contains e**-exponent, computed at the precision that `enclose` has set."""
    return _intervals().exp(-_exact(exponent))


def _exact(number: Fraction) -> Interval:
    return _intervals().mpf(number.numerator) / number.denominator


@dataclass(frozen=True)
class Tail:
    """The distribution of an integer N >= 0 with P[N > k] = weight * e**(-shrink * power - rate * k) for k >= 0.

    `weight()` returns an interval that contains the weight, which is in (0, 1]; rate > 0 and shrink >= 0. `power` may
    differ between draws, so it is an argument of `Uniforms.count` and not a field.
    """

    weight: Callable[[], Interval]
    rate: Fraction = Fraction(1)
    shrink: Fraction = Fraction(0)

    @cached_property
    def log_weight(self) -> float:
        """The logarithm of the weight, with a relative error below 2**-52 or an absolute error below 2**-70."""
        bits = 128
        while bits <= _MOST_BITS:
            weight = enclose(self.weight, bits)
            if weight.a > 0:
                logarithm = _intervals().log(weight)
                if logarithm.delta.b <= max(abs(float(logarithm.mid)) * 2.0**-60, 2.0**-70):
                    return float(logarithm.mid)
            bits *= 2
        raise LevelError("levels are too close: the probability that their noise differs is too small to compute")


@secret
class Uniforms:
    """Independent uniform numbers on (0, 1). Each has 64 bits, and gets more if 64 do not determine a draw."""

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
        """Return an integer with the distribution `tail` for each uniform number U that `at` selects.

        It is the number of integers k >= 0 with U < weight * e**(-shrink * power - rate * k), but at most `most`.
        Where `flipped` is true, 1 - U replaces U. The result and all array arguments have one entry per selected U.
        """
        words = self._words[at]
        words = np.where(flipped, ~words, words) if np.any(flipped) else words
        rate, shrunk = max(float(tail.rate), _SLOWEST), float(tail.shrink) * np.asarray(power, np.float64)
        exponent = (tail.log_weight - shrunk) - np.log((words + 0.5) * 2.0**-64)
        steps = exponent / rate
        result: IntArray = np.minimum(np.maximum(np.floor(steps) + 1.0, 0.0), most).astype(np.int64)
        room = _ROOM * (1.0 + (abs(tail.log_weight) + float(np.max(shrunk, initial=0.0))) / 32.0)
        steps -= np.rint(steps)
        unsure = np.flatnonzero((np.abs(steps) <= room / rate) | (words < _FEWEST))
        if unsure.size:
            flips, powers, limits = (np.broadcast_to(each, words.shape)[unsure] for each in (flipped, power, most))
            near = (exponent[unsure] >= -room) & (exponent[unsure] <= rate * limits + room)
            places = np.arange(self._words.size)[at][unsure]
            for j in np.flatnonzero(near | (words[unsure] < _FEWEST)).tolist():
                settling = (int(each[j]) for each in (result[unsure], places, powers, limits))
                result[unsure[j]] = self._settle(tail, *settling, flip=bool(flips[j]))
        return result

    def coins(self, chance: Tail) -> BoolArray:
        """Return a bool for each uniform number, True with the probability that is the weight of `chance`."""
        return self.count(chance, most=1).astype(np.bool_)

    def _settle(self, tail: Tail, guess: int, place: int, power: int, most: int, *, flip: bool) -> int:
        """Return the result of `count` for the uniform number at `place`. Draw more bits until it is certain."""
        count, bits = guess, 64
        while True:
            word = self._leading(place, bits)
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

    def _leading(self, place: int, bits: int) -> int:
        """Return the first `bits` bits of a uniform number. Draw and store missing bits, in multiples of 64."""
        word, known = self._longer.get(place) or (int(self._words[place]), 64)
        while known < bits:
            more = int(self._rng.integers(0, 2**64 - 1, dtype=np.uint64, endpoint=True))
            word, known = word << 64 | more, known + 64
        self._longer[place] = word, known
        return word >> (known - bits)


def draw(tail: Tail, size: int, *, most: int = MOST, rng: Generator) -> IntArray:
    """Draw `size` integers exactly from the distribution `tail`. Integers above `most` are replaced by `most`."""
    result = np.empty(size, np.int64)
    for part in chunks(size):
        result[part] = Uniforms(part.stop - part.start, rng=rng).count(tail, most=most)
    return result


def coins(chance: Tail, size: int, *, rng: Generator) -> BoolArray:
    """Draw `size` booleans, each True with exactly the probability that is the weight of `chance`."""
    return draw(chance, size, most=1, rng=rng).astype(np.bool_)


def fair_coins(size: int, *, rng: Generator) -> BoolArray:
    """Draw `size` fair coins, each from one random bit."""
    return np.unpackbits(np.frombuffer(rng.bytes((size + 7) // 8), np.uint8), count=size).view(np.bool_)
