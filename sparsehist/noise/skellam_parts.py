"""The two Poisson parts of a Skellam state, given their difference.

For independent Poisson(mean) parts P and D with P - D = z >= 0, the smaller part D has probabilities
proportional to mean**(2k + z) / (k! (k + z)!): a Bessel law, log-concave. As z grows by one D falls and P = D + z
rises, in the order of likelihood ratios; so at one shared uniform the quantile of D never rises and that of P
never falls with z, whatever its sign. Thinning both parts at shared uniforms keeps that order, which makes a
monotone step of the difference out of three quantiles that are easy to get.

Source: our own derivation; Amos 1974, eq. (11), for the ratio of Bessel functions that bounds the variance.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from sparsehist.noise.binomial_poisson import Number, as_number, poisson, product_error, saddle_point
from sparsehist.noise.integer_quantile import Uniforms

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Standard deviations, and units on top, that a table reaches from the mode: e**-45 of the mass lies beyond.
_REACH, _REACH_UNITS = 9.5, 40.0
_MOST_ENTRIES = 1 << 22


def draw_parts(difference: IntArray, mean: Fraction, *, rng: Generator) -> tuple[IntArray, IntArray]:
    """Draw (P, D) given P - D, for independent Poisson(mean) parts.

    With a (a + z) = mean**2 the law of the smaller part D is that of a Poisson(a) number, weighted with the mass of
    Poisson(a + z) at D + z. Over the largest such mass this is a probability, of .7 or more on average.

    Args:
        difference: Any integers; shape (n,).
        mean: Of each part; positive.
        rng: Randomness.
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
    """(P, D) given P - D, by the inverse distribution function of D at shared uniforms.

    Args:
        difference: Any integers; shape (rows, n).
        mean: Of each part; positive.
        uniforms: One for each column.

    Returns:
        P and D; shape (rows, n). Down a column, a larger difference has no smaller P and no larger D. Tables are
        summed to some 1e-13, and end where less than 1e-19 is left.
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


def _look_up(
    up_to: FloatArray, above: FloatArray, row: IntArray, upper: NDArray[np.bool_], distance: FloatArray
) -> IntArray:
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
