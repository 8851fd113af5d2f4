"""Compute confidence limits and estimates of true counts from noisy counts published above a threshold.

A count c is published as Y = c + noise, rounded to the grid, if Y > threshold. Each count c has a test that accepts
its published value with probability at least 1 - alpha. The limits for a value y enclose all counts whose test
accepts y. The estimate for y is the mean of all counts, weighted by their probability of being published as y.

Source: our own derivation, by inversion of tests (docs/mathematics.md, intervals).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from sparsehist.errors import DeclarationError, shown
from sparsehist.noise.family import Family, NoiseArray
from sparsehist.privacy.levels import Level, as_level
from sparsehist.typing import FloatArray, IndexArray

_CUT = 40.0  # estimates of counts ignore noise beyond this number of standard deviations
_MOST_COUNTS = 4000
_MOST_SOLVED = 2000
_NUMBERS_AT_ONCE = 2**20
# The probability that a count this many standard deviations above the threshold is not published is below e**-60.
_FAR = 80.0

Rising = Callable[[IndexArray, FloatArray], FloatArray]
"""A function of two arrays, row indices and counts, with one value for each row. It increases with the count."""


@dataclass(frozen=True)
class _Law:
    """A test for each true count, which rejects the noisy counts that are improbable for this true count."""

    family: Family
    level: Fraction
    effective_threshold: float
    step: float
    alpha: float

    def log_missed(self, counts: FloatArray) -> FloatArray:
        """Return ln u for each true count c: its test rejects y if P[c + Z >= y] or P[c + Z <= y] is at most u."""
        log_published = self.family.log_tail(self.effective_threshold - counts, self.level)
        log_hidden = self.family.log_cdf(self.effective_threshold - counts, self.level)
        both_sides = np.log((self.alpha + (1 - self.alpha) * np.exp(log_hidden)) / 2)
        return np.asarray(np.minimum(math.log(self.alpha) + log_published, both_sides))

    def above(self, noisy: FloatArray, counts: FloatArray) -> FloatArray:
        """Return ln(P[count + noise >= noisy] / u), with u as in `log_missed`: at most 0 if `noisy` is too high."""
        at_least = noisy - counts - self.step / 2
        return np.asarray(self.family.log_tail(at_least, self.level) - self.log_missed(counts))

    def below(self, noisy: FloatArray, counts: FloatArray) -> FloatArray:
        """Return ln(P[count + noise <= noisy] / u), with u as in `log_missed`: at most 0 if `noisy` is too low."""
        at_most = noisy - counts + self.step / 2
        return np.asarray(self.family.log_cdf(at_most, self.level) - self.log_missed(counts))

    def two_steps_below(self, value: float) -> float:
        return math.floor(value / self.step - 2) * self.step

    def quantile(self, log_tail: float) -> float:
        return float(self.family.inverse_log_tail(log_tail, self.level))


def count_limits(
    family: Family,
    level: Level,
    noisy_counts: NoiseArray,
    effective_threshold: float,
    step: float,
    *,
    alpha: float,
    least: float = 0.0,
) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper confidence limits for the true counts behind published noisy counts.

    True counts are at least `least`; limits are multiples of the grid `step`. The limits of a published count enclose
    its true count with a probability of at least 1 - alpha. This probability exceeds 1 - alpha by less than twice the
    probability of the value that is most often published for this true count.
    """
    if not 0 < alpha < 1:
        raise DeclarationError(f"alpha must lie strictly between 0 and 1, got {shown(alpha)}")
    law = _Law(family, as_level(level), effective_threshold, step, alpha)
    values, place = np.unique(np.asarray(noisy_counts, np.float64), return_inverse=True)
    # Far above the threshold, publication is almost certain, so limits have the same distances from all noisy counts.
    near = int(np.searchsorted(values, effective_threshold + _FAR * family.std(level) + abs(family.mean(level))))
    solved, beyond = values[: near + 1], values[near + 1 :]
    limits = []
    for found in (_lower(law, solved, least), _upper(law, solved, least)):
        shifted = beyond - solved[-1] + found[-1] if beyond.size else beyond
        limits.append(np.concatenate([found, shifted])[place])
    return limits[0], limits[1]


class Estimates(NamedTuple):
    """Estimates of true counts, and their root mean square errors under a uniform prior; shape (n,) each."""

    counts: FloatArray
    errors: FloatArray


def count_estimates(
    family: Family,
    level: Level,
    noisy_counts: NoiseArray,
    effective_threshold: float,
    step: float,
    *,
    least: float = 0.0,
) -> Estimates:
    """Estimate the true counts behind published noisy counts. Arguments are as in `count_limits`.

    Under a uniform prior on counts, no other estimate has a smaller mean squared error. Far above the threshold, the
    estimate is the noisy count minus the mean of the noise.
    """
    exact, spread = as_level(level), family.std(level)
    values, place = np.unique(np.asarray(noisy_counts, np.float64), return_inverse=True)
    far = effective_threshold + abs(family.mean(exact)) + _CUT * spread
    near = int(np.searchsorted(values, far))
    solved = values[np.unique(np.linspace(0, min(near, values.size - 1), _MOST_SOLVED).astype(np.int64))]
    counts = _counts_to_weigh(least, far - (_CUT + 20) * spread, max(far, solved[-1]) + _CUT * spread, spread)
    widths = np.gradient(counts) if counts.size > 1 else np.ones(1)
    log_published = family.log_tail(effective_threshold - counts, exact)
    shifts, errors = np.empty(solved.size), np.empty(solved.size)
    rows = max(1, _NUMBERS_AT_ONCE // counts.size)
    for first in range(0, solved.size, rows):
        part = slice(first, first + rows)
        noise = solved[part, np.newaxis] - counts
        likely = family.log_tail(noise - step / 2, exact)
        with np.errstate(divide="ignore", invalid="ignore"):
            likely = likely + np.log(-np.expm1(np.minimum(family.log_tail(noise + step / 2, exact) - likely, 0.0)))
        likely = np.where(np.isfinite(likely), likely, -np.inf) - log_published
        weights = np.exp(likely - likely.max(axis=1, keepdims=True)) * widths
        weights /= weights.sum(axis=1, keepdims=True)
        means = weights @ counts
        shifts[part] = means - solved[part]
        errors[part] = np.sqrt(np.sum(weights * (counts - means[:, np.newaxis]) ** 2, axis=1))
    found = values + np.interp(values, solved, shifts)
    return Estimates(found[place], np.interp(values, solved, errors)[place])


def _counts_to_weigh(least: float, low: float, top: float, spread: float) -> FloatArray:
    """Return the true counts to average over: all from `least` to `top`, or only some if there are over 4000."""
    if top - least <= _MOST_COUNTS:
        return np.arange(least, math.ceil(top) + 1)
    gap = spread / 8
    counts = np.arange(max(low, least), top + gap, gap)
    below = low - least
    if below > 0:
        counts = np.concatenate([low - np.geomspace(below, gap, 400), counts])
    return np.unique(np.round(counts)) if spread > 8 else counts


def _lower(law: _Law, noisy: FloatArray, least: float) -> FloatArray:
    """Return for each noisy count the smallest true count whose test does not reject the noisy count as too high."""
    result = np.full(noisy.size, least)
    # With noise Z, the test for a true count c rejects a noisy count y as too high only if P[c + Z >= y] is at most
    # alpha / (1 + alpha). Then y is above c + quantile, because P[Z > quantile] is at least alpha / (1 + alpha).
    quantile = law.two_steps_below(law.quantile(math.log(law.alpha / (1 + law.alpha))))
    rows = np.flatnonzero(law.above(noisy, result) <= 0)
    values = noisy[rows]
    result[rows] = _first(law.step, lambda at, counts: law.above(values[at], counts), result[rows], values - quantile)
    return result


def _upper(law: _Law, noisy: FloatArray, least: float) -> FloatArray:
    # If a true count c is published with probability p <= 1 / (1 + alpha), its test rejects no noisy count y as too
    # low: that would require P[c + Z <= y] <= alpha p, but P[c + Z <= y] > 1 - p >= alpha p for every published y.
    turn = law.two_steps_below(law.effective_threshold - law.quantile(-math.log1p(law.alpha)))
    result = np.full(noisy.size, max(turn, least))
    # If a true count c is published with probability above 1 / (1 + alpha), its test rejects y as too low if
    # P[c + Z <= y] <= alpha / 2. So it rejects every y below c + quantile, because P[Z <= quantile] <= alpha / 2.
    quantile = law.two_steps_below(law.quantile(math.log1p(-law.alpha / 2)))
    rows = np.flatnonzero(law.below(noisy, result) > 0)
    values = noisy[rows]
    top = np.maximum(values - quantile, result[rows] + law.step)
    result[rows] = _first(law.step, lambda at, counts: -law.below(values[at], counts), result[rows], top) - law.step
    return result


def _first(step: float, function: Rising, left: FloatArray, right: FloatArray) -> FloatArray:
    """Find, for each row, the first grid point from `left` to `right` where an increasing function is positive."""
    low, high, rows = left.copy(), right.copy(), np.arange(left.size)
    while rows.size:
        middle = np.floor((low[rows] + high[rows]) / 2 / step) * step
        between = (low[rows] < middle) & (middle < high[rows])
        rows, middle = rows[between], middle[between]
        positive = function(rows, middle) > 0
        high[rows[positive]], low[rows[~positive]] = middle[positive], middle[~positive]
    return high
