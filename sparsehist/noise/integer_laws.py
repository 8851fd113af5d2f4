"""Tables of log-concave laws on the integers: Poisson, Skellam, binomial, and a summand given the sum.

A table is computed from ratios of neighbouring masses, whose logarithms are summed outwards from the mode. Both tails
are summed from their far ends, so both have a small relative error. A draw searches a uniform number in the smaller
tail.

Source: our own derivation (docs/mathematics.md, Poisson and Skellam).
"""

from __future__ import annotations

import math
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from sparsehist.errors import DataError
from sparsehist.typing import ArrayLike, BoolArray, FloatArray, Generator, IntArray, secret

LARGEST_MEAN = 2**24
"""Means of laws whose tables are cached."""
# A table stops where less than e**-6000 of the mass is left (domains may have that many cells); for a single draw, at
# e**-45.
_FARTHEST, _FAR = 6000.0, 45.0
# Smaller means, and smaller distances of uniform numbers from 0 or 1, are replaced by this.
_TINY = 1e-290
_LN2 = math.log(2.0)
# e**-600 is a normal double, and so are the sums it is compared with.
_UNDERFLOW = 600.0


@secret
class Uniforms(NamedTuple):
    """Uniform numbers, as distances from 0, or from 1 if `upper`, to reach both tails; shape (n,)."""

    upper: BoolArray
    distance: FloatArray


def draw_uniforms(size: int, *, rng: Generator) -> Uniforms:
    """Draw independent uniform numbers."""
    return Uniforms(rng.random(size) < 0.5, 0.5 * np.exp(-rng.standard_exponential(size)))


class IntegerLaw:
    """A law on the integers from `first` on, given by the logarithms of its masses up to a constant."""

    def __init__(self, first: int, logs: FloatArray) -> None:
        masses = np.exp(logs - logs.max())
        masses /= masses.sum()
        self.first, self.logs = first, logs
        # P[Z <= x] and P[Z > x] for x from first - 1 on.
        self._up_to = np.concatenate([[0.0], np.minimum(np.cumsum(masses), 1.0)])
        self._above = np.concatenate([np.minimum(np.cumsum(masses[::-1]), 1.0)[::-1], [0.0]])

    @property
    def last(self) -> int:
        return self.first + self.logs.size - 1

    def quantile(self, uniforms: Uniforms) -> IntArray:
        """Return the least x with P[Z <= x] >= u, for each uniform number u; shape (n,), int64."""
        place = np.empty(uniforms.distance.shape, np.int64)
        distance = np.maximum(uniforms.distance, _TINY)
        lower = ~uniforms.upper
        place[lower] = np.searchsorted(self._up_to, distance[lower])
        place[uniforms.upper] = np.searchsorted(-self._above, -distance[uniforms.upper])
        return np.minimum(place, self.logs.size) + (self.first - 1)

    @cached_property
    def _log_tails(self) -> tuple[FloatArray, FloatArray]:
        """Return ln P[Z > x] and ln P[Z <= x], for x from first - 1 on."""
        logs = self.logs - self.logs.max()
        logs -= math.log(np.exp(logs).sum())
        with np.errstate(divide="ignore"):
            log_above, log_up_to = np.log(self._above), np.log(self._up_to)
        # Sum logarithms long before doubles underflow.
        falling, rising = (np.flatnonzero(each < -_UNDERFLOW) for each in (log_above[:-1], log_up_to[1:]))
        if falling.size:
            log_above[falling] = np.logaddexp.accumulate(logs[::-1])[::-1][falling]
        if rising.size:
            log_up_to[rising + 1] = np.logaddexp.accumulate(logs)[rising]
        return log_above, log_up_to

    def log_tails(self, threshold: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return ln P[Z > threshold] and ln P[Z <= threshold]; -inf beyond the table; any shape."""
        whole = np.clip(np.floor(np.asarray(threshold, np.float64)), self.first - 1, self.last)
        place = whole.astype(np.int64) - (self.first - 1)
        log_above, log_up_to = (each[place] for each in self._log_tails)
        with np.errstate(divide="ignore"):
            above = np.where(log_above > -_LN2, np.log1p(-self._up_to[place]), log_above)
            return above, np.where(log_up_to > -_LN2, np.log1p(-self._above[place]), log_up_to)

    def inverse_log_tail(self, log_probability: FloatArray) -> IntArray:
        """Return the integers x with P[Z > x] <= v < P[Z >= x], for ln v at most 0; any shape."""
        upper = log_probability <= -_LN2
        with np.errstate(divide="ignore"):
            log_rest = np.log(-np.expm1(log_probability))
        above, up_to = self._log_tails
        place = np.where(upper, np.searchsorted(-above, -log_probability), np.searchsorted(up_to, log_rest))
        return np.clip(place, 1, self.logs.size) + (self.first - 1)


def _reach(variance: float, exponent: float) -> int:
    """Return a distance from the mean that draws exceed with probability below 2 e**-exponent (Bernstein)."""
    return math.ceil(exponent / 3 + math.sqrt((exponent / 3) ** 2 + 2 * exponent * variance))


def _from_ratios(first: int, mode: int, log_ratios: FloatArray) -> IntegerLaw:
    """Return the law whose neighbouring masses have these log ratios, ln(f(k) / f(k - 1)) for k after the first."""
    below, above = log_ratios[: mode - first], log_ratios[mode - first :]
    return IntegerLaw(first, np.concatenate([-np.cumsum(below[::-1])[::-1], [0.0], np.cumsum(above)]))


@lru_cache(maxsize=8)
def poisson_law(mean: float) -> IntegerLaw:
    """Return the law Poisson(mean), for a mean of at most `LARGEST_MEAN`; the least mean is 1e-290."""
    mean = max(mean, _TINY)
    reach, mode = _reach(mean, _FARTHEST), math.floor(mean)
    first = max(0, mode - reach)
    return _from_ratios(first, mode, np.log(mean / np.arange(first + 1.0, mode + reach + 1.0)))


@lru_cache(maxsize=8)
def skellam_law(mean: float) -> IntegerLaw:
    """Return the law of the difference of two independent Poisson(mean) numbers; means as for `poisson_law`.

    The ratios of neighbouring masses are r(k) = I_k / I_(k-1) at 2 mean, by their recurrence 1 / r(k) = 2k / (2 mean)
    + r(k + 1). Backwards it contracts, so the error of its initial bound [Amos 1974, eq. 11] vanishes.
    """
    argument = 2.0 * max(mean, _TINY)
    reach = _reach(argument, _FARTHEST)
    ratio = argument / (reach + 0.5 + math.hypot(reach + 1.5, argument))
    ratios = []
    for k in range(reach, 0, -1):
        ratio = 1.0 / (2.0 * k / argument + ratio)
        ratios.append(ratio)
    logs = np.cumsum(np.log(ratios[::-1]))
    return IntegerLaw(-reach, np.concatenate([logs[::-1], [0.0], logs]))


def binomial_law(trials: float, success: float) -> IntegerLaw:
    """Tabulate the law Binomial(trials, success), success at most 1/2, as far from its mean as draws reach."""
    mean = trials * success
    reach, mode = _reach(mean * (1.0 - success), _FAR), math.floor(mean)
    first, last = max(0, mode - reach), min(trials, mode + reach)
    k = np.arange(first + 1.0, last + 1.0)
    return _from_ratios(first, mode, np.log((trials + 1.0 - k) / k * (success / (1.0 - success))))


def poisson(mean: float, size: int, *, rng: Generator) -> IntArray:
    """Draw Poisson numbers of any mean below 2**62; shape (size,). Large means are split into independent parts."""
    parts = max(1, math.ceil(mean / LARGEST_MEAN))
    law = poisson_law(mean / parts)
    return sum((law.quantile(draw_uniforms(size, rng=rng)) for _ in range(parts)), np.zeros(size, np.int64))


def part_quantile(
    sums: IntArray, part: IntegerLaw, rest: IntegerLaw, means: tuple[float, float], uniforms: Uniforms
) -> IntArray:
    """Return quantiles of X given X + Y, for independent X ~ part and Y ~ rest, at one uniform number per column.

    Both laws are Poisson, or both are Skellam, with these means. Sums have shape (n,) or (rows, n). The result
    increases with the sum (Efron 1965); this is restored after rounding errors. DataError if a sum has practically
    probability 0.
    """
    flat = np.asarray(sums, np.int64).reshape(-1)
    result = np.empty_like(flat)
    order = np.argsort(flat, kind="stable")
    ends = np.flatnonzero(np.diff(flat[order])) + 1
    for mine in np.split(order, ends) if flat.size else []:
        law, column = _part_given(int(flat[mine[0]]), part, rest, means), mine % sums.shape[-1]
        result[mine] = law.quantile(Uniforms(uniforms.upper[column], uniforms.distance[column]))
    return result.reshape(sums.shape) if sums.ndim == 1 else _in_order_of(sums, result.reshape(sums.shape))


def _part_given(total: int, part: IntegerLaw, rest: IntegerLaw, means: tuple[float, float]) -> IntegerLaw:
    """Return the law of X given X + Y = total, tabulated as far from its mean as draws reach.

    Its variance is at most share (1 - share) times the expected number of events, at most |total| + 2 (both means).
    """
    both = max(means[0] + means[1], _TINY)
    share = means[0] / both
    reach = _reach(share * (means[1] / both) * (abs(total) + 2.0 * both), _FAR)
    centre = round(share * total)
    low = max(part.first, total - rest.last, centre - reach)
    high = min(part.last, total - rest.first, centre + reach)
    if low > high:
        raise DataError("noise that is so far from its mean does not occur at this level")
    of_rest = rest.logs[total - high - rest.first : total - low - rest.first + 1]
    return IntegerLaw(low, part.logs[low - part.first : high - part.first + 1] + of_rest[::-1])


def _in_order_of(values: IntArray, carried: IntArray) -> IntArray:
    """Sort each column of `carried` in the order of the same column of `values`; shapes (rows, n)."""
    order = np.argsort(values, axis=0, kind="stable")
    ordered = np.maximum.accumulate(np.take_along_axis(carried, order, axis=0), axis=0)
    result = np.empty_like(carried)
    np.put_along_axis(result, order, ordered, axis=0)
    return result
