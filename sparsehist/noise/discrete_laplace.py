"""Discrete Laplace noise: exact draws of integer noise that gives pure differential privacy.

P[Z = x] is proportional to a^|x|, where a = e^(-epsilon / sensitivity). The variance is v = 2a/(1-a)^2, and the
characteristic function is 1 / (1 + v (1 - cos t)). So coarse noise is fine noise plus an independent increment, which
is 0 with probability v_fine / v_coarse and otherwise distributed as coarse noise.

Source: Inusah and Kozubowski 2006 (the distribution); Ghosh, Roughgarden and Sundararajan 2009 (its privacy); refine
and between follow by Bayes' rule (our own derivation, after [KHP Alg. 1]). Papers: [ARNP Def. D.5, Lemma D.6].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np

from sparsehist.errors import LevelError, shown
from sparsehist.noise.exact_draws import Interval, Tail, Uniforms, chunks, decay, draw, fair_coins
from sparsehist.noise.family import Family, Norm, Three, checked_sensitivity
from sparsehist.privacy.levels import Level, as_level, level_text
from sparsehist.typing import ArrayLike, FloatArray, Generator, IntArray, float_array, float_entries, whole_number

_SLOWEST = Fraction(1, 2**40)  # smallest epsilon / sensitivity; at this rate, P[noise > 2**62] < e^-4,000,000


@dataclass(frozen=True)
class DiscreteLaplace(Family):
    """Discrete Laplace noise for integer vectors: a release at level epsilon satisfies epsilon-DP.

    Draws are exact at every rational level: no probability is rounded. Only clipping to [-2**62, 2**62] changes a
    draw, with a probability below e^-4,000,000. Releases of sparse histograms also use tail probabilities, which are
    rounded to doubles, so these releases state a slack.

    Args:
        sensitivity: L1 sensitivity of the counts: an integer, a fraction, or a float (read as its shortest decimal).

    Raises:
        DeclarationError: If the sensitivity is not positive and finite.

    Example:
        >>> from sparsehist import entropy
        >>> noise = DiscreteLaplace(sensitivity=1)
        >>> fine = noise.sample(5, "1/2", rng=entropy.seeded(1))
        >>> coarse = noise.coarsen(fine, "1/2", "1/10", rng=entropy.seeded(2))
        >>> fine.dtype == coarse.dtype == np.int64
        True
    """

    sensitivity: Level = 1
    integer: ClassVar[bool] = True
    norm: ClassVar[Norm | None] = "l1"
    currency: ClassVar[str] = "epsilon"

    def __post_init__(self) -> None:
        checked_sensitivity(self.sensitivity)

    def rate(self, level: Level) -> Fraction:
        """Return epsilon / sensitivity. Raise LevelError if the level is too low for 64-bit integer noise."""
        rate = as_level(level) / as_level(self.sensitivity)
        if rate < _SLOWEST:
            least = float(_SLOWEST * as_level(self.sensitivity))
            raise LevelError(f"discrete Laplace noise needs a level of at least {least:.1e}, got {shown(level)}")
        return rate

    def std(self, level: Level) -> float:
        rate = float(self.rate(level))
        return math.sqrt(2) * math.exp(-rate / 2) / -math.expm1(-rate)

    def statement(self, level: Level) -> str:
        epsilon = as_level(level)
        rho = float(epsilon) * math.tanh(float(epsilon) / 2)
        return f"{level_text(epsilon)}-DP (pure differential privacy, exactly, on integers); implies {rho:.6g}-zCDP"

    def _sampled(self, size: int, level: Level, *, rng: Generator) -> IntArray:
        return _signed(_size(self.rate(level)), size, rng=rng)

    def _increment(self, size: int, fine: Fraction, coarse: Fraction, *, rng: Generator) -> IntArray:
        return _signed(_bridge_size(self.rate(fine), self.rate(coarse)), size, rng=rng)

    def _refined(self, coarse: IntArray, known: Fraction, target: Fraction, *, rng: Generator) -> IntArray:
        step = _refining(self.rate(known), self.rate(target))
        noise = np.array(coarse, np.int64)
        for part in chunks(noise.shape[-1]):
            uniforms = Uniforms(part.stop - part.start, rng=rng)
            for row in np.atleast_2d(noise):
                row[part] = _refined(row[part], *step, uniforms)
        return noise

    def _bridge(self, coarse: IntArray, fine: IntArray, levels: Three, *, rng: Generator) -> IntArray:
        left, middle, right = map(self.rate, levels)
        chances, step = _moving(left, middle, right), _refining(left, middle)
        noise = np.array(fine, np.int64)
        for part in chunks(noise.size):
            distance = coarse[part].astype(np.int64) - noise[part]
            if_apart, if_together = map(Uniforms(distance.size, rng=rng).coins, chances)
            where = np.flatnonzero(np.where(distance == 0, if_together, if_apart))
            noise[part][where] += _refined(distance[where], *step, Uniforms(where.size, rng=rng))
        return noise

    def log_tail(self, threshold: ArrayLike, level: Level) -> FloatArray:
        rate = float(self.rate(level))
        whole = np.floor(float_array("threshold", threshold))
        log_norm = math.log1p(math.exp(-rate))
        above = -(np.maximum(whole, -1) + 1) * rate - log_norm
        below = np.log1p(-np.exp(np.minimum(whole, -1) * rate - log_norm))
        return np.asarray(np.where(whole >= -1, above, below))

    def log_cdf(self, threshold: ArrayLike, level: Level) -> FloatArray:
        return self.log_tail(-np.floor(float_array("threshold", threshold)) - 1, level)

    def inverse_log_tail(self, log_probability: ArrayLike, level: Level) -> IntArray:
        rate = float(self.rate(level))
        log_upper = float_array("log_probability", log_probability)
        log_norm = math.log1p(math.exp(-rate))
        with np.errstate(divide="ignore"):
            log_lower = np.log(-np.expm1(log_upper))
        above = np.ceil((-log_norm - log_upper) / rate) - 1
        below = -np.floor((-log_norm - log_lower) / rate)
        return _clipped(np.where(log_upper <= -log_norm, above, below))

    def sample_tail(self, size: int, threshold: ArrayLike, level: Level, *, rng: Generator) -> IntArray:
        size = whole_number("size", size)
        least = _clipped(np.floor(float_entries("threshold", threshold, size))) + 1
        # Noise above a threshold >= 0 is the first integer above the threshold, plus a geometric number.
        # For a threshold below 0, draw noise until it exceeds the threshold, as at least half of the draws do.
        noise = np.maximum(least, 0) + draw(_geometric(self.rate(level)), size, rng=rng)
        pending = np.flatnonzero(least < 0)
        while pending.size:
            noise[pending] = self.sample(pending.size, level, rng=rng)
            pending = pending[noise[pending] < least[pending]]
        return noise


@lru_cache(maxsize=256)
def _size(rate: Fraction) -> Tail:
    """Return the distribution of |Z| for noise Z: P[|Z| > k] = 2 a^(k+1) / (1 + a), where a = e^-rate."""
    return Tail(lambda: 2 * decay(rate) / (1 + decay(rate)), rate)


@lru_cache(maxsize=256)
def _geometric(rate: Fraction) -> Tail:
    return Tail(lambda: decay(rate), rate)


@lru_cache(maxsize=256)
def _bridge_size(fine: Fraction, coarse: Fraction) -> Tail:
    """Return the distribution of |coarse noise - fine noise|, the size of the increment that coarsening adds."""
    return Tail(lambda: (1 - _stay(fine, coarse)) * 2 * decay(coarse) / (1 + decay(coarse)), coarse)


def _stay(fine: Fraction, coarse: Fraction) -> Interval:
    """Return the probability that coarsening adds no increment: variance of fine noise / variance of coarse noise."""
    return decay(fine - coarse) * ((1 - decay(coarse)) / (1 - decay(fine))) ** 2


@lru_cache(maxsize=256)
def _refining(coarse: Fraction, fine: Fraction) -> tuple[Tail, Tail]:
    """Return the tail probabilities of fine noise y inside and outside [0, x], given coarse noise x >= 0.

    Let a = e^-rate at each level, r = a_fine / a_coarse, q = P[y < 0]. Inside, P[y > k] = (1 - q) r^(k+1), for
    0 <= k < x. Outside, P[y < -k] = q (a_fine a_coarse)^k and P[y > x + k] = r^x P[y < -k], for k >= 0.
    """

    def below() -> Interval:
        joint, square = decay(coarse + fine), decay(2 * fine)
        return (joint - square) / (1 - square)

    def inside() -> Interval:
        return (1 - decay(coarse + fine)) / (1 - decay(2 * fine)) * decay(fine - coarse)

    return Tail(inside, fine - coarse), Tail(below, coarse + fine, fine - coarse)


def _refined(coarse: IntArray, inside: Tail, outside: Tail, uniforms: Uniforms) -> IntArray:
    """Draw fine noise given `coarse`, by inversion. For fixed uniforms, larger `coarse` never gives smaller noise."""
    flipped, size = coarse < 0, np.abs(coarse)
    drawn = uniforms.count(inside, flipped=flipped, most=size)
    past = np.flatnonzero(drawn == size)
    drawn[past] += uniforms.count(outside, at=past, flipped=flipped[past], power=size[past])
    behind = np.flatnonzero(drawn == 0)
    drawn[behind] -= uniforms.count(outside, at=behind, flipped=~flipped[behind])
    return np.where(flipped, -drawn, drawn)


@lru_cache(maxsize=256)
def _moving(coarse: Fraction, middle: Fraction, fine: Fraction) -> tuple[Tail, Tail]:
    """Return P[middle noise = fine noise + an increment] in two cases: coarse and fine noise differ, or are equal."""

    def if_apart() -> Interval:
        return (1 - _stay(fine, middle)) / (1 - _stay(fine, coarse))

    def if_together() -> Interval:
        at_zero, stay = (1 - decay(coarse)) / (1 + decay(coarse)), _stay(fine, coarse)
        return (1 - _stay(fine, middle)) * at_zero / (stay + (1 - stay) * at_zero)

    return Tail(if_apart), Tail(if_together)


def _signed(size_law: Tail, size: int, *, rng: Generator) -> IntArray:
    noise = np.empty(size, np.int64)
    for part in chunks(size):
        sizes = draw(size_law, part.stop - part.start, rng=rng)
        noise[part] = np.where(fair_coins(sizes.size, rng=rng), -sizes, sizes)
    return noise


def _clipped(whole: FloatArray) -> IntArray:
    return np.clip(whole, -(2.0**62), 2.0**62).astype(np.int64)
