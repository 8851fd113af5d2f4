"""Skellam noise on the integers, under Rényi differential privacy.

Law: Z(level) = P - D with P and D independent Poisson processes read at time 1/level. The difference has
independent increments of its own, so it is a Markov chain in the level and one integer a cell is the whole
state: whoever refines draws the two parts again given their difference, and thins them. Given Z at some levels,
the parts kept from an earlier step would carry no information that the steps below could use.

Parts: for independent Poisson(mean) parts P and D with P - D = z >= 0, the smaller part D has probabilities
proportional to mean**(2k + z) / (k! (k + z)!): a Bessel law, log-concave. As z grows by one D falls and P = D + z
rises, in the order of likelihood ratios; so at one shared uniform the quantile of D never rises and that of P
never falls with z, whatever its sign. Thinning both parts at shared uniforms keeps that order, which makes a
monotone step of the difference out of three quantiles that are easy to get.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sparsehist.noise.binomial_poisson import Number, as_number, poisson, product_error
from sparsehist.noise.family import Three
from sparsehist.noise.integer_tails import (
    Uniforms,
    binomial_quantile,
    draw_uniforms,
    in_order_of,
    log_upper_tail,
)
from sparsehist.noise.poisson import (
    FARTHEST,
    ProcessNoise,
    kept_and_dropped,
    poisson_mean,
    share_between,
    thinned,
)
from sparsehist.privacy import skellam as guarantee
from sparsehist.privacy.levels import Level, as_level, level_text
from sparsehist.privacy.poisson_pmf import saddle_point
from sparsehist.typing import ArrayLike, BoolArray, FloatArray, Generator, IntArray

# Standard deviations, and units on top, that a table reaches from the mode: e**-45 of the mass lies beyond.
_REACH, _REACH_UNITS = 9.5, 40.0
_MOST_ENTRIES = 1 << 22


@dataclass(frozen=True)
class Skellam(ProcessNoise):
    """Skellam noise, the difference of two Poisson(1/level) numbers: Rényi-DP, with its bound from `renyi`.

    Symmetric, of variance 2/level. That it were (sensitivity**2 / (2 variance))-zCDP, as a Gaussian of that
    variance is, is false at orders near 1. No rho is given; `epsilon` converts the Rényi bound to
    (epsilon, delta).

    `sample`, `coarsen`, `refine` and `between` draw within 2**-42 of their laws in total variation. `carry` inverts
    distribution functions to some 1e-13; refining costs a table of about 13 / sqrt(level) entries for each different
    value that is carried.

    Args:
        sensitivity: Number of keys a unit may touch, each by at most 1 count; a positive integer. It enters
            the guarantee, not the law.

    Raises:
        DeclarationError: If the sensitivity is no positive integer.

    Example:
        >>> Skellam().std("0.02")
        10.0

    Source: Agarwal, Kairouz and Liu 2021 for the guarantee; Amos 1974, eq. (11), for the ratio of Bessel functions
    that bounds the variance of a part; the steps are our own derivation.
    """

    def std(self, level: Level) -> float:
        """Standard deviation of the noise, in counts: sqrt(2 / level)."""
        return math.sqrt(2.0 * float(poisson_mean(level)))

    def renyi(self, level: Level, alpha: int) -> float:
        """Upper bound on the Rényi divergence of order `alpha` of one release, for `sensitivity` keys."""
        return guarantee.renyi(alpha, level, self.sensitivity)

    def epsilon(self, level: Level, delta: float) -> float:
        """An epsilon with which one release is (epsilon, delta)-DP, by the best order."""
        return guarantee.epsilon(delta, level, self.sensitivity)

    def statement(self, level: Level) -> str:
        return (
            f"({self.epsilon(level, 1e-9):.4g}, 1e-9)-differential privacy for units of up to {self.sensitivity} "
            f"keys, from Rényi bounds (Skellam noise of variance {level_text(2 / as_level(level))}; no zCDP)"
        )

    def sample(self, size: int, level: Level, *, rng: Generator) -> IntArray:
        return _increments(size, poisson_mean(level), rng=rng)

    def _bridge(self, size: int, fine: Fraction, coarse: Fraction, *, rng: Generator) -> IntArray:
        return _increments(size, poisson_mean(coarse) - poisson_mean(fine), rng=rng)

    def _refined(self, coarse: IntArray, known: Fraction, target: Fraction, *, rng: Generator) -> IntArray:
        """The parts, thinned."""
        added, taken = draw_parts(np.asarray(coarse), poisson_mean(known), rng=rng)
        kept = poisson_mean(target) / poisson_mean(known)
        return thinned(added, kept, rng=rng) - thinned(taken, kept, rng=rng)

    def _inserted(self, coarse: IntArray, fine: IntArray, levels: Three, *, rng: Generator) -> IntArray:
        """The parts of the increment, thinned."""
        passed = share_between(levels)
        added, taken = draw_parts(coarse - fine, poisson_mean(levels[0]) - poisson_mean(levels[2]), rng=rng)
        return fine + thinned(added, passed, rng=rng) - thinned(taken, passed, rng=rng)

    def _refined_in_order(self, values: IntArray, known: Fraction, target: Fraction, *, rng: Generator) -> IntArray:
        """By three uniforms per column, one for the parts and one for thinning each of them; see the module."""
        kept, dropped = kept_and_dropped(known, target)
        n = values.shape[-1]
        added, taken = parts_quantile(values, float(poisson_mean(known)), draw_uniforms(n, rng=rng))
        carried = binomial_quantile(added, kept, dropped, draw_uniforms(n, rng=rng))
        carried -= binomial_quantile(taken, kept, dropped, draw_uniforms(n, rng=rng))
        return in_order_of(values, carried)

    def log_tail(self, threshold: ArrayLike, level: Level) -> FloatArray:
        mean = float(poisson_mean(level))
        least = np.clip(np.floor(np.asarray(threshold, np.float64)) + 1.0, -FARTHEST, FARTHEST)
        upper = log_upper_tail(np.where(least > 0, least, 1.0 - least), mean, mean)
        return np.asarray(np.where(least > 0, upper, np.log1p(-np.exp(upper))))

    def log_cdf(self, threshold: ArrayLike, level: Level) -> FloatArray:
        return self.log_tail(-np.floor(np.asarray(threshold, np.float64)) - 1.0, level)

    def _guess(self, score: FloatArray, level: Level) -> FloatArray:
        return np.asarray(score * self.std(level))


def _increments(size: int, mean: Fraction, *, rng: Generator) -> IntArray:
    return poisson(mean, size, rng=rng) - poisson(mean, size, rng=rng)


def draw_parts(difference: IntArray, mean: Fraction, *, rng: Generator) -> tuple[IntArray, IntArray]:
    """Draw (P, D) given any differences P - D, shape (n,), for independent Poisson(mean) parts.

    With a (a + z) = mean**2 the law of the smaller part D is that of a Poisson(a) number, weighted with the mass of
    Poisson(a + z) at D + z. Over the largest such mass this is a probability, of .7 or more on average.
    """
    size = np.abs(difference)
    lower = _smaller_mean(size, as_number(mean))
    smaller = np.empty_like(size)
    pending = np.arange(size.size)
    while pending.size:
        proposed_mean = Number(lower.high[pending], lower.low[pending])
        trial = poisson(proposed_mean, rng=rng)
        taken = rng.random(pending.size) <= accepted_share(trial, size[pending], proposed_mean)
        smaller[pending[taken]] = trial[taken]
        pending = pending[~taken]
    return smaller + np.maximum(difference, 0), smaller + np.maximum(-difference, 0)


def accepted_share(trial: IntArray, size: IntArray, mean: Number) -> FloatArray:
    """The mass of Poisson(mean + size) at trial + size over its largest; shape (n,)."""
    above = mean.high + size
    # Where rounding moves the mean across an integer, both neighbours have the largest mass.
    top = np.floor(above)
    largest = saddle_point(top, above, (top - size) - mean.high - mean.low)
    return np.exp(largest - saddle_point((trial + size).astype(np.float64), above, (trial - mean.high) - mean.low))


def _smaller_mean(size: IntArray, mean: Number) -> Number:
    """The a with a (a + size) = mean**2: a double, and by one step of Newton's method what it leaves."""
    root = 2.0 * mean.high * mean.high / (size + np.hypot(size, 2.0 * mean.high))
    above = root + size
    dropped = (size - (above - (above - size))) + (root - (above - size))
    square, product = mean.high * mean.high, root * above
    left = (square - product) + product_error(mean.high, mean.high, square) - product_error(root, above, product)
    left += 2.0 * mean.high * mean.low - root * dropped
    return Number(root, np.asarray(left / (root + above)))


def parts_quantile(difference: IntArray, mean: float, uniforms: Uniforms) -> tuple[IntArray, IntArray]:
    """(P, D) given P - D, shape (rows, n), by the inverse distribution function of D at one uniform per column.

    Down a column, a larger difference has no smaller P and no larger D. Tables are summed to some 1e-13, and end
    where less than 1e-19 is left.
    """
    size = np.abs(difference).reshape(-1)
    upper = np.broadcast_to(uniforms.upper, difference.shape).reshape(-1)
    distance = np.broadcast_to(uniforms.distance, difference.shape).reshape(-1)
    known, of = np.unique(size, return_inverse=True)
    deviation = np.sqrt(_variance_bound(known, mean))
    reach = int(np.ceil(_REACH * deviation.max() + _REACH_UNITS)) if known.size else 1
    order, smaller = np.argsort(of, kind="stable"), np.empty(size.size, np.int64)
    block = max(1, _MOST_ENTRIES // (2 * reach + 1))
    for begin in range(0, known.size, block):
        sizes = known[begin : begin + block]
        first, up_to, above = _tables(sizes, mean, reach)
        at = order[np.searchsorted(of[order], begin) : np.searchsorted(of[order], begin + sizes.size)]
        row = of[at] - begin
        smaller[at] = first[row] + _look_up(up_to, above, row, upper[at], distance[at])
    least = smaller.reshape(difference.shape)
    return least + np.maximum(difference, 0), least + np.maximum(-difference, 0)


def _tables(size: IntArray, mean: float, reach: int) -> tuple[IntArray, FloatArray, FloatArray]:
    """Distribution and survival functions of the smaller part from `first` on; one row for each difference."""
    first = np.maximum(_mode(size, mean) - reach, 0)
    k = first[:, np.newaxis] + np.arange(2 * reach + 1)
    steps = 2.0 * np.log(mean) - np.log(k[:, 1:]) - np.log(k[:, 1:] + size[:, np.newaxis])
    logs = np.concatenate([np.zeros((size.size, 1)), np.cumsum(steps, axis=1)], axis=1)
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    from_here = np.cumsum(weights[:, ::-1], axis=1)[:, ::-1]
    return first, np.cumsum(weights, axis=1), from_here - weights


def _look_up(up_to: FloatArray, above: FloatArray, row: IntArray, upper: BoolArray, distance: FloatArray) -> IntArray:
    """The least column at which the distribution function reaches each uniform, or the last."""
    low, high = np.full(row.size, -1), np.full(row.size, up_to.shape[1] - 1)
    while np.any(high - low > 1):
        middle = (low + high) // 2
        asked = np.maximum(middle, 0)
        reached = np.where(upper, above[row, asked] <= distance, up_to[row, asked] >= distance)
        open_still = high - low > 1
        high = np.where(open_still & reached, middle, high)
        low = np.where(open_still & ~reached, middle, low)
    return high


def _mode(size: IntArray, mean: float) -> IntArray:
    """The largest k with k (k + size) <= mean**2, to rounding."""
    return np.floor(2.0 * mean * mean / (size + np.hypot(size, 2.0 * mean))).astype(np.int64)


def _variance_bound(size: IntArray, mean: float) -> FloatArray:
    """An upper bound, tight for large and for small differences, on the variance of the smaller part.

    As E[D (D + z)] = mean**2, the variance is mean**2 - z e - e**2 with e the mean of D, which Amos bounds from
    below; written so that nothing cancels.
    """
    root = np.hypot(2.0 * mean, size + 1.5)
    whole = size + 0.5 + root
    square = mean * mean
    bound = square / whole * (0.5 + (3.0 * size + 2.25) / (root + size) + 2.0 * square / ((root + size) * whole))
    return np.asarray(bound)
