"""Binomial and Poisson numbers with a proven distance from their laws.

numpy's are not exact: its binomial ends in a wrong Stirling correction (1e-4 in total variation at a mean of 300),
its Poisson loses 1e-5 at means near 2**32. Here small variances invert the distribution function and all others
accept what `sparsehist.noise.staircase` proposes, by the saddle-point form of the mass function, which loses no
digits at any size. Trials may be any integers, and what is held is a few arrays as long as the draws.

Source: Loader 2000, "Fast and accurate computation of binomial probabilities", for the mass function.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple, TypeVar

import numpy as np

from sparsehist.errors import InputError
from sparsehist.noise.staircase import LEAST_VARIANCE, propose, rows_and_widths, staircases
from sparsehist.privacy.poisson_pmf import saddle_point, stirling_error
from sparsehist.typing import ArrayLike, BoolArray, FloatArray, Generator, IndexArray, IntArray, NDArray, secret

_Scalar = TypeVar("_Scalar", bound="np.generic")

# Draws made at once, so that what they need stays in the processor's cache.
_CHUNK = 1 << 14
# The few draws that are left fill arrays of this size with steps or tries: below it time is that of the calls.
_AT_ONCE = 1 << 10
_FEWEST_STEPS, _MOST_TRIES = 4, 16
# Means from here on would not leave room for the digits after the point.
_LARGEST_MEAN = 2.0**50
_MOST_TRIALS = 2.0**900
# Of means below 32 less than 2**-200 lies beyond.
_FARTHEST = 180


@secret
class Number(NamedTuple):
    """Numbers as the nearest doubles and what these leave, so that 106 bits are known of each; shape (g,)."""

    high: FloatArray
    low: FloatArray

    def without(self, left_out: BoolArray) -> Number:
        """The same with 0 where `left_out` says so."""
        return Number(np.where(left_out, 0.0, self.high), np.where(left_out, 0.0, self.low))

    def at(self, position: int) -> int:
        """One of the numbers, if it is an integer below 2**106."""
        return int(self.high[position]) + int(self.low[position])


def as_number(values: ArrayLike | Sequence[int] | Fraction) -> Number:
    """Read integers of any size, fractions or doubles; shape (g,), or (1,) for a single number."""
    if isinstance(values, Fraction):
        nearest = float(values)
        return Number(np.array([nearest]), np.array([float(values - Fraction(nearest))]))
    array = np.atleast_1d(np.asarray(values))
    try:
        high = np.asarray(array, np.float64)
    except OverflowError:
        raise InputError("a number must be below 2**1024") from None
    low = np.zeros(high.shape)
    if array.dtype.kind in "iuO":
        for i in np.flatnonzero(np.abs(high) >= 2.0**53).tolist():
            low[i] = float(int(array[i]) - int(high[i]))
    return Number(high, low)


def count_slack(expected: float) -> float:
    """Total variation between one draw and its law, at most: 2**-44 up to a mean of 2**30.

    `expected` is the mean of the number drawn (of successes or of failures, whichever are rarer). The probability is
    what was passed, exactly: its own rounding is no part of this. With u = 2**-53, and elementary functions right to
    a unit in the last place:

    - *variance below 16*: n ln(1 - p), at most 45, is off by 3 u of itself, which multiplies all masses alike
      (137 u); p / (1 - p) and n + 1 by 6 u, which moves a mean of at most 32 (19 u); each mass by three roundings for
      each one before it, twice where n is small (128 u); and the uniform numbers and the sums compared with them are
      rounded to u, some 60 sums that matter (75 u).
    - *others*: a proposal is off by width * 2**-64 of itself, less than sqrt(expected) * 2**-64; what accepts it
      compares multiples of u (2 u) with a mass that is off by a relative error; a law is off by the mean of those.
      Where deviances D are series, that is (8 + 10 D) u, and D has mean 1/2; else it is 95 D u, where D is above
      .0267 times the mean, or below a value of 16 at most 45 u for each of two deviances (110 u).

    So 384 u is more than all of it. The tests compute the law of what is drawn and compare.
    """
    return 384.0 * 2.0**-53 + 2.0**-64 * math.sqrt(expected)


def binomial(
    trials: ArrayLike | Number, probability: ArrayLike | Fraction, size: int | None = None, *, rng: Generator
) -> IntArray:
    """Draw Binomial(n, p) for many n, or many (n, p), at once, each within `count_slack` of its law; int64.

    One number for each law, or `size` of one law. Trials are whole, at least 0 and of any size; a fraction is taken
    exactly. Of p near 1 a double knows 1 - p exactly, but no better: where that matters, draw the failures. Refused
    where n p (1 - p) or what is returned would be too large for 64 bits.
    """
    n = trials if isinstance(trials, Number) else as_number(trials)
    p = as_number(probability)
    if not np.all((p.high >= 0.0) & (p.high <= 1.0)):
        raise InputError("a probability lies in [0, 1]")
    flip = p.high > 0.5
    if flip.any():
        # Exact, as p is at least one half.
        rarer = 1.0 - p.high
        p = Number(np.where(flip, rarer - p.low, p.high), np.where(flip, (rarer - (rarer - p.low)) - p.low, p.low))
    drawn = _rarer(n, p, size, rng=rng)
    if not flip.any():
        return drawn
    trials_high, trials_low = np.where(flip, n.high, 0.0), np.where(flip, n.low, 0.0)
    if trials_high.max(initial=0.0) >= 2.0**62:
        raise InputError("more successes than 64 bits can count; draw the failures")
    return np.where(flip, trials_high.astype(np.int64) + trials_low.astype(np.int64) - drawn, drawn)


def poisson(mean: ArrayLike | Fraction | Number, size: int | None = None, *, rng: Generator) -> IntArray:
    """Draw Poisson numbers, one for each mean or `size` of one, each within `count_slack` of its law; int64.

    A mean is at most 2**50; a fraction is taken exactly.
    """
    mu = mean if isinstance(mean, Number) else as_number(mean)
    return _draw(_Laws(*mu, np.zeros(1), np.zeros(1)), mu.high.size if size is None else size, rng=rng)


@secret
class _Laws(NamedTuple):
    """Laws with p <= 1/2; entries of shape (g,), or (1,) where all draws share one.

    Attributes:
        mean: n p, or the mean of a Poisson law, to a double.
        low: What that leaves, but for the rounding of n * p below.
        n: Trials, to a double; 0 for Poisson.
        p: Probability; 0 for Poisson.
    """

    mean: FloatArray
    low: FloatArray
    n: FloatArray
    p: FloatArray

    def take(self, which: IntArray | slice) -> _Laws:
        """Those of some draws."""
        return _Laws(*(_of(field, which) for field in self))


def _of(field: NDArray[_Scalar], which: IndexArray | BoolArray | slice) -> NDArray[_Scalar]:
    """What belongs to some draws; what all share stays as it is."""
    return field if field.size == 1 else field[which]


def _rarer(n: Number, p: Number, size: int | None, *, rng: Generator) -> IntArray:
    """Draw with p at most one half."""
    if not np.all((n.high >= 0.0) & (n.high <= _MOST_TRIALS)):
        raise InputError("a number of trials must be at least 0, and at most 2**900")
    mean = n.high * p.high
    laws = _Laws(mean, n.low * p.high + n.high * p.low, n.high, p.high)
    return _draw(laws, mean.size if size is None else size, rng=rng)


def _draw(laws: _Laws, size: int, *, rng: Generator) -> IntArray:
    if not np.all((laws.mean >= 0.0) & (laws.mean <= _LARGEST_MEAN)):
        raise InputError("a mean must be at least 0, and at most 2**50")
    result = np.empty(size, np.int64)
    for begin in range(0, size, _CHUNK):
        part = slice(begin, min(begin + _CHUNK, size))
        mine, length = laws.take(part), part.stop - begin
        small = mine.mean * (1.0 - mine.p) < LEAST_VARIANCE
        if small.all():
            result[part] = _inverted(mine, length, rng=rng)
        elif not small.any():
            result[part] = _accepted(mine, length, rng=rng)
        else:
            for where, draw in ((np.flatnonzero(small), _inverted), (np.flatnonzero(~small), _accepted)):
                result[begin + where] = draw(mine.take(where), where.size, rng=rng)
    return result


def _inverted(laws: _Laws, size: int, *, rng: Generator) -> IntArray:
    """Add up masses until they exceed a uniform number."""
    mean, _, n, p = laws
    poisson_only = not n.any()
    # f(k+1) / f(k) = rise / (k+1) - fall
    fall = p / (1.0 - p)
    rise = mean if poisson_only else (n + 1.0) * fall
    mass = np.exp(-mean) if poisson_only else np.exp(n * np.log1p(-p))
    uniform, result = rng.random(size), np.zeros(size, np.int64)
    pending = np.flatnonzero(uniform >= mass)
    uniform, rise, fall, mass = uniform[pending], _of(rise, pending), _of(fall, pending), _of(mass, pending)
    reached, k = mass, 0
    while pending.size and k < _FARTHEST:
        # The few that are left take many steps at once.
        steps = min(max(_AT_ONCE // pending.size, _FEWEST_STEPS), _FARTHEST - k)
        ahead = np.arange(k + 1.0, k + steps + 1.0)[:, np.newaxis]
        masses = mass * np.multiply.accumulate(rise / ahead - fall)
        sums = reached + np.add.accumulate(masses)
        passed = uniform >= sums
        result[pending] = k + 1 + np.add.reduce(passed, dtype=np.int64)
        over, k = np.flatnonzero(passed[-1]), k + steps
        pending, uniform = pending[over], uniform[over]
        rise, fall, mass, reached = (_of(field, over) for field in (rise, fall, masses[-1], sums[-1]))
    # A mass that should end at n may end at a rounding error.
    return result if poisson_only else np.minimum(result, np.minimum(n, _FARTHEST).astype(np.int64))


def _accepted(laws: _Laws, size: int, *, rng: Generator) -> IntArray:
    """Accept what lies under the staircase with the probability that is right there."""
    tables, (mean, low, n, p) = staircases(), laws
    rows, widths = rows_and_widths(mean * (1.0 - p))
    mode = np.floor(mean + p)
    past_mean = (mode - mean) - (low + product_error(n, p, mean) if n.any() else low)
    result, pending = np.empty(size, np.int64), np.arange(size)
    while pending.size:
        # The few that are left try many times at once; of each the first that is accepted counts.
        tries = min(max(_AT_ONCE // pending.size, 1), _MOST_TRIES)
        of = np.repeat(pending, tries) if tries > 1 else pending
        cells, step = propose(_of(rows, of), _of(widths, of), of.size, rng=rng)
        uniform = rng.random(of.size)
        taken = uniform <= tables.surely[cells]
        unsure = np.flatnonzero(~taken)
        asked = of[unsure]
        mass = _masses(step[unsure], *(_of(field, asked) for field in (mode, past_mean, mean, n)))
        taken[unsure] = uniform[unsure] * tables.heights[cells[unsure]] <= mass
        if tries > 1:
            each = taken.reshape(pending.size, tries)
            taken, first = np.logical_or.reduce(each, axis=1), each.argmax(axis=1)
            step = step.reshape(each.shape)[np.arange(pending.size), first]
        done = pending[taken]
        result[done] = step[taken] + _of(mode, done).astype(np.int64)
        pending = pending[~taken]
    return result


def _masses(step: IntArray, mode: FloatArray, past_mean: FloatArray, mean: FloatArray, n: FloatArray) -> FloatArray:
    """`_mass`, once for each number and not for each draw where many share one law."""
    least, most = int(step.min(initial=0)), int(step.max(initial=0))
    if mean.size > 1 or most - least >= step.size:
        return _mass(step, mode, past_mean, mean, n)
    return _mass(np.arange(least, most + 1), mode, past_mean, mean, n)[step - least]


def _mass(step: IntArray, mode: FloatArray, past_mean: FloatArray, mean: FloatArray, n: FloatArray) -> FloatArray:
    """f(mode + step) * sqrt(2 pi variance)."""
    value, distance = mode + step, step + past_mean
    if not n.any():
        return np.where(value >= 0.0, np.exp(-saddle_point(np.maximum(value, 0.0), mean, distance)), 0.0)
    both = np.stack([value, n - value])
    possible = np.minimum(*both) >= 0.0
    np.maximum(both, 0.0, out=both)
    parts = saddle_point(both, np.stack([mean, n - mean]), np.stack([distance, -distance]))
    return np.where(possible, np.exp(stirling_error(n) - parts[0] - parts[1]), 0.0)


def product_error(a: FloatArray, b: FloatArray, product: FloatArray) -> FloatArray:
    """What rounding took from a * b, exactly (Veltkamp and Dekker)."""
    # Scaled, so that splitting does not overflow.
    small, split = a * 2.0**-100, 2.0**27 + 1.0
    a_high, b_high = (small * split) - ((small * split) - small), (b * split) - ((b * split) - b)
    a_low, b_low = small - a_high, b - b_high
    left = ((a_high * b_high - product * 2.0**-100) + a_high * b_low + a_low * b_high) + a_low * b_low
    return np.asarray(left * 2.0**100)
