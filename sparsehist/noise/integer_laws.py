"""Tables of integer distributions: Poisson, Skellam, binomial, and the distribution of a summand given the sum.

A table is computed from the ratios of adjacent probabilities, whose logarithms are added up outwards from the mode.
Each tail is added up from its far end, so that its relative error is small. To draw an integer, a uniform number u
is looked up in the lower tail if u <= 1/2, otherwise 1 - u in the upper tail. All distributions are log-concave.

Source: our own derivation (docs/mathematics.md, Poisson and Skellam).
"""

from __future__ import annotations

import math
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from sparsehist.errors import DataError
from sparsehist.typing import ArrayLike, BoolArray, FloatArray, Generator, IntArray, secret

LARGEST_MEAN = 2**24  # the largest mean of a distribution whose table is cached
# Cached tables leave out a probability of about e**-6000. This is negligible even for a domain of e**5000 cells, such
# as all UTF-8 strings of up to 1000 bytes. Other tables leave out a probability of about e**-45.
_FARTHEST, _FAR = 6000.0, 45.0
# Means below this number are replaced by it, and so are distances of uniform numbers from 0 or 1.
_TINY = 1e-290
_LN2 = math.log(2.0)
# Tails below e**-600 are added up as logarithms, because doubles underflow near e**-745.
_UNDERFLOW = 600.0


@secret
class Uniforms(NamedTuple):
    """Uniform numbers u. To keep tails accurate, `distance` is 1 - u where `upper` is true, and u elsewhere."""

    upper: BoolArray  # shape (n,)
    distance: FloatArray  # shape (n,)


def draw_uniforms(size: int, *, rng: Generator) -> Uniforms:
    """Draw `size` independent uniform numbers on (0, 1)."""
    return Uniforms(rng.random(size) < 0.5, 0.5 * np.exp(-rng.standard_exponential(size)))


class IntegerLaw:
    """A distribution on the integers from `first` to `last`; `logs` are logarithms of unnormalised probabilities."""

    def __init__(self, first: int, logs: FloatArray) -> None:
        masses = np.exp(logs - logs.max())
        masses /= masses.sum()
        self.first, self.logs = first, logs
        # Entry i of `_up_to` is P[Z <= x], and entry i of `_above` is P[Z > x], for x = first - 1 + i.
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
        logs = self.logs - self.logs.max()
        logs -= math.log(np.exp(logs).sum())
        with np.errstate(divide="ignore"):
            log_above, log_up_to = np.log(self._above), np.log(self._up_to)
        falling, rising = (np.flatnonzero(each < -_UNDERFLOW) for each in (log_above[:-1], log_up_to[1:]))
        if falling.size:
            log_above[falling] = np.logaddexp.accumulate(logs[::-1])[::-1][falling]
        if rising.size:
            log_up_to[rising + 1] = np.logaddexp.accumulate(logs)[rising]
        return log_above, log_up_to

    def log_tails(self, threshold: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return ln P[Z > threshold] and ln P[Z <= threshold], for thresholds of any shape. ln 0 is -inf."""
        whole = np.clip(np.floor(np.asarray(threshold, np.float64)), self.first - 1, self.last)
        place = whole.astype(np.int64) - (self.first - 1)
        log_above, log_up_to = (each[place] for each in self._log_tails)
        with np.errstate(divide="ignore"):
            above = np.where(log_above > -_LN2, np.log1p(-self._up_to[place]), log_above)
            return above, np.where(log_up_to > -_LN2, np.log1p(-self._above[place]), log_up_to)

    def inverse_log_tail(self, log_probability: FloatArray) -> IntArray:
        """Return the smallest integer x with ln P[Z > x] <= p, for each number p in the array `log_probability`."""
        upper = log_probability <= -_LN2
        with np.errstate(divide="ignore"):
            log_rest = np.log(-np.expm1(log_probability))
        above, up_to = self._log_tails
        place = np.where(upper, np.searchsorted(-above, -log_probability), np.searchsorted(up_to, log_rest))
        return np.clip(place, 1, self.logs.size) + (self.first - 1)


def _reach(variance: float, exponent: float) -> int:
    """Return r with P[|X - E[X]| > r] < 2 e**-exponent for a draw X of this variance (Bernstein's inequality)."""
    return math.ceil(exponent / 3 + math.sqrt((exponent / 3) ** 2 + 2 * exponent * variance))


def _from_ratios(first: int, mode: int, log_ratios: FloatArray) -> IntegerLaw:
    """Return the distribution with probabilities f(k), given ln(f(k) / f(k - 1)) for k = first + 1, first + 2, …."""
    below, above = log_ratios[: mode - first], log_ratios[mode - first :]
    return IntegerLaw(first, np.concatenate([-np.cumsum(below[::-1])[::-1], [0.0], np.cumsum(above)]))


@lru_cache(maxsize=8)
def poisson_law(mean: float) -> IntegerLaw:
    """Return the Poisson distribution for a mean of at most `LARGEST_MEAN`. Tiny means are raised to 1e-290."""
    mean = max(mean, _TINY)
    reach, mode = _reach(mean, _FARTHEST), math.floor(mean)
    first = max(0, mode - reach)
    return _from_ratios(first, mode, np.log(mean / np.arange(first + 1.0, mode + reach + 1.0)))


@lru_cache(maxsize=8)
def skellam_law(mean: float) -> IntegerLaw:
    """Return the distribution of the difference of two independent Poisson(mean) numbers.

    Ratios of adjacent probabilities are r(k) = I_k / I_(k-1), with Bessel functions I_k at 2 * mean. Compute
    1 / r(k) = k / mean + r(k + 1) from large to small k, starting from a lower bound on r [Amos 1974, eq. 11].
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
    """Return Binomial(trials, success) for success <= 1/2, leaving out tails of probability below 2 e**-45."""
    mean = trials * success
    reach, mode = _reach(mean * (1.0 - success), _FAR), math.floor(mean)
    first, last = max(0, mode - reach), min(trials, mode + reach)
    k = np.arange(first + 1.0, last + 1.0)
    return _from_ratios(first, mode, np.log((trials + 1.0 - k) / k * (success / (1.0 - success))))


def poisson(mean: float, size: int, *, rng: Generator) -> IntArray:
    """Draw `size` Poisson numbers with any mean below 2**62. For a large mean, each is the sum of several draws."""
    parts = max(1, math.ceil(mean / LARGEST_MEAN))
    law = poisson_law(mean / parts)
    return sum((law.quantile(draw_uniforms(size, rng=rng)) for _ in range(parts)), np.zeros(size, np.int64))


def part_quantile(
    sums: IntArray, part: IntegerLaw, rest: IntegerLaw, means: tuple[float, float], uniforms: Uniforms
) -> IntArray:
    """Return the quantiles of X at the numbers in `uniforms`, given each sum X + Y.

    X and Y are independent, with the distributions `part` and `rest`. If they are Poisson, they have the two `means`.
    If they are Skellam, X is the difference of two Poisson numbers of mean means[0], and Y of two of mean means[1].
    `sums` has shape (n,) or (rows, n); rows use the same uniform numbers. In a column, larger sums never give smaller
    quantiles (Efron 1965), as rounding errors are corrected. Raise DataError if the tables of X and Y omit a sum.
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
    """Return the distribution of X given X + Y = total, leaving out tails of probability below 2 e**-45.

    X has variance at most s (1 - s) (|total| + 2 * sum(means)), with s = means[0] / sum(means); see `part_quantile`.
    """
    both = max(means[0] + means[1], _TINY)
    share = means[0] / both
    reach = _reach(share * (means[1] / both) * (abs(total) + 2.0 * both), _FAR)
    centre = round(share * total)
    low = max(part.first, total - rest.last, centre - reach)
    high = min(part.last, total - rest.first, centre + reach)
    if low > high:
        raise DataError("noise is too far from its mean for the given level; pass the level at which it was drawn")
    of_rest = rest.logs[total - high - rest.first : total - low - rest.first + 1]
    return IntegerLaw(low, part.logs[low - part.first : high - part.first + 1] + of_rest[::-1])


def _in_order_of(values: IntArray, carried: IntArray) -> IntArray:
    """Undo rounding errors in `carried`: raise entries until each column is ordered like that column of `values`."""
    order = np.argsort(values, axis=0, kind="stable")
    ordered = np.maximum.accumulate(np.take_along_axis(carried, order, axis=0), axis=0)
    result = np.empty_like(carried)
    np.put_along_axis(result, order, ordered, axis=0)
    return result
