"""Tails of integer laws and their inverses: to any distance, for any mean, in logarithms.

P[Z >= n] is the integral of e**(K(w) - n w) / (1 - e**-w) over the line Re w = s, for any s > 0, with K the
cumulant generating function. On the line through the saddle point nothing cancels, and the trapezoidal rule
with N nodes on the circle sums the tilted tail at n + jN: its error falls faster than any power, so some
sixty nodes give 14 digits whether the mean is 1 or a billion, and the answer comes as a logarithm.

A distribution function is inverted by a good guess and a search that the function itself ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sparsehist.privacy.special_functions import betainc, ndtri
from sparsehist.typing import ArrayLike, BoolArray, FloatArray, Generator, IndexArray, IntArray, secret

# ln of the probability nearest to 1 that is told from 1: some 37 standard deviations below the mean.
_NEAREST_TO_ONE = -1e-300
_LN2 = math.log(2.0)


@secret
class Uniforms(NamedTuple):
    """Uniforms on (0, 1) by their distance to the nearer end (1 where `upper`), to reach both tails; shape (n,)."""

    upper: BoolArray
    distance: FloatArray


def draw_uniforms(size: int, *, rng: Generator) -> Uniforms:
    """Draw independent uniforms."""
    return Uniforms(rng.random(size) < 0.5, 0.5 * np.exp(-rng.standard_exponential(size)))


def normal_scores(uniforms: Uniforms) -> FloatArray:
    """The normal quantile of each uniform."""
    scores = ndtri(uniforms.distance)
    return np.asarray(np.where(uniforms.upper, -scores, scores))


def least_integers(reached: Callable[[IntArray, IndexArray], BoolArray], guess: IntArray) -> IntArray:
    """The least integer at which each of several conditions, true from some integer on, holds.

    `reached` is asked integers and the positions they are for. A guess right or one off costs two or three calls.
    """
    high = guess.copy()
    every = np.arange(guess.size)
    holds = reached(high, every)
    low = np.where(holds, high - 1, high)
    high = np.where(holds, high, high + 1)
    pending, step = every, 1
    while pending.size:
        down = holds[pending]
        below = reached(np.where(down, low[pending], high[pending]), pending)
        again = np.where(down, below, ~below)
        pending, down = pending[again], down[again]
        step *= 2
        edge_down, edge_up = low[pending], high[pending]
        high[pending] = np.where(down, edge_down, edge_up + step)
        low[pending] = np.where(down, edge_down - step, edge_up)
    pending = np.flatnonzero(high - low > 1)
    while pending.size:
        middle = low[pending] + (high[pending] - low[pending]) // 2
        holds = reached(middle, pending)
        high[pending] = np.where(holds, middle, high[pending])
        low[pending] = np.where(holds, low[pending], middle)
        pending = pending[high[pending] - low[pending] > 1]
    return high


def inverse_log_tail(
    log_probability: FloatArray,
    log_tail: Callable[[IntArray], FloatArray],
    log_cdf: Callable[[IntArray], FloatArray],
    guess: Callable[[FloatArray], FloatArray],
) -> IntArray:
    """The integers x with P[Z > x] <= v < P[Z >= x], given ln v and an approximate guess.

    Beyond 1 - 1e-300, v is read as that. -E for a standard exponential E gives the law of Z.
    """
    log_v = np.minimum(np.asarray(log_probability, np.float64), _NEAREST_TO_ONE)
    flat = log_v.reshape(-1)
    result = np.empty(flat.size, np.int64)
    upper = flat <= -_LN2
    with np.errstate(divide="ignore"):
        other = np.log(-np.expm1(flat[~upper]))
    start = np.rint(guess(flat)).astype(np.int64)
    result[upper] = _inverse(flat[upper], log_tail, start[upper], falling=True)
    result[~upper] = _inverse(other, log_cdf, start[~upper], falling=False)
    return result.reshape(log_v.shape)


def _inverse(
    target: FloatArray, function: Callable[[IntArray], FloatArray], start: IntArray, *, falling: bool
) -> IntArray:
    """The least x with function(x) <= target (falling) or >= target, from a table where that is less work."""
    sign = -1.0 if falling else 1.0
    if not target.size:
        return np.empty(0, np.int64)
    ends = np.array([np.argmin(sign * target), np.argmax(sign * target)])
    outer = least_integers(lambda x, at: sign * function(x) >= sign * target[ends[at]], start[ends])
    if outer[1] - outer[0] < 2 * target.size:
        table = np.maximum.accumulate(sign * function(np.arange(outer[0], outer[1] + 1)))
        found = outer[0] + np.searchsorted(table, sign * target, side="left")
        return np.asarray(np.minimum(found, outer[1]), np.int64)
    return least_integers(lambda x, at: sign * function(x) >= sign * target[at], start)


def binomial_quantile(trials: IntArray, success: float, failure: float, uniforms: Uniforms) -> IntArray:
    """The quantile of trials, shape (..., n), at one uniform per column, to the rounding of the incomplete beta.

    `failure` is 1 - success, given so that it need not be subtracted.
    """
    shape = trials.shape
    n = trials.reshape(-1)
    upper = np.broadcast_to(uniforms.upper, shape).reshape(-1)
    distance = np.broadcast_to(uniforms.distance, shape).reshape(-1)
    score = np.broadcast_to(normal_scores(uniforms), shape).reshape(-1)
    skew = (failure - success) * (score * score - 1.0) / 6.0
    guess = n * success + score * np.sqrt(n * (success * failure)) + skew

    def reached(x: IntArray, at: IndexArray) -> BoolArray:
        inside = np.clip(x, 0, n[at] - 1)
        inside = np.maximum(inside, 0)
        rest = np.maximum(n[at] - inside, 1)
        above = betainc(inside + 1.0, rest, success)
        up_to = betainc(rest, inside + 1.0, failure)
        holds = np.where(upper[at], above <= distance[at], up_to >= distance[at])
        return np.asarray((x >= n[at]) | ((x >= 0) & holds))

    return least_integers(reached, np.clip(np.rint(guess), 0, n).astype(np.int64)).reshape(shape)


def in_order_of(values: IntArray, carried: IntArray) -> IntArray:
    """`carried` with what rounding may have put out of the order of `values`, column by column, put right.

    Shapes (rows, n). Quantiles at one uniform keep their order but for a uniform within rounding of a step.
    """
    order = np.argsort(values, axis=0, kind="stable")
    ordered = np.maximum.accumulate(np.take_along_axis(carried, order, axis=0), axis=0)
    result = np.empty_like(carried)
    np.put_along_axis(result, order, ordered, axis=0)
    return result


# e**-40 = 4e-18 of the integral is left out or folded over.
_DROP = 40.0
_BLOCK = 1 << 12


def log_upper_tail(least: ArrayLike, up: float, down: float) -> FloatArray:
    """ln P[U - D >= least] for independent U ~ Poisson(up), D ~ Poisson(down).

    In the upper tail (least is at least up - down, and not 0), to a relative 1e-13 of the probability for means up to
    1e6 (growing with their root).

    Example:
        >>> abs(float(log_upper_tail(1, 1e-3, 0.0)) - math.log(-math.expm1(-1e-3))) < 1e-12
        True
    """
    n = np.asarray(least, np.float64)
    flat, result = n.reshape(-1), np.empty(n.size)
    for begin in range(0, flat.size, _BLOCK):
        result[begin : begin + _BLOCK] = _on_the_saddle(flat[begin : begin + _BLOCK], up, down)
    return result.reshape(n.shape)


def _on_the_saddle(n: FloatArray, up: float, down: float) -> FloatArray:
    variance = np.sqrt(n * n + 4.0 * up * down)
    without_pole = np.sign(n) * np.log((np.abs(n) + variance) / (2.0 * np.where(n > 0, up, down)))
    s = (without_pole + np.sqrt(without_pole**2 + 4.0 / variance)) / 2.0
    rising, falling = up * np.exp(s), down * np.exp(-s)
    variance = rising + falling
    exponent = up * _exp_less_line(s) + down * _exp_less_line(-s) - (n - up + down) * s
    nodes = np.maximum((_DROP - exponent) / s, 9.0 * np.sqrt(variance) + 60.0)
    nodes = 2.0 * np.ceil(nodes / 2.0) + 1.0  # odd: then no node lies opposite to the saddle
    step = 2.0 * math.pi / nodes
    widest = 2.0 * np.arcsin(np.sqrt(np.minimum(1.0, _DROP / (2.0 * variance))))
    count = int(np.max(np.minimum(np.ceil(widest / step), (nodes - 1.0) / 2.0))) + 1
    angle = step[:, np.newaxis] * np.arange(count)
    size = np.exp(-2.0 * variance[:, np.newaxis] * np.sin(angle / 2.0) ** 2)
    turn = (rising - falling)[:, np.newaxis] * np.sin(angle) - n[:, np.newaxis] * angle
    with_pole = -np.expm1(-s[:, np.newaxis] - 1j * angle)
    terms = size * (np.exp(1j * turn) / with_pole).real
    terms[angle > math.pi] = 0.0
    total = (terms[:, 0] + 2.0 * terms[:, 1:].sum(axis=1)) / nodes
    return np.asarray(exponent + np.log(total))


def _exp_less_line(s: FloatArray) -> FloatArray:
    """e**s - 1 - s, without cancellation."""
    series = np.zeros_like(s)
    for term in range(16, 1, -1):
        series = (series + 1.0) * s / term
    return np.where(np.abs(s) < 0.5, series * s, np.expm1(s) - s)
