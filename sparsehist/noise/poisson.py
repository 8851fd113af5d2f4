"""Poisson noise on the integers, under (epsilon, delta)-differential privacy.

Law: Z(level) ~ Poisson(1/level), a Poisson process read at time 1/level: coarser noise is later, increments
are independent Poisson, and an earlier state given a later one is a binomial thinning.

Papers: [ARNP Thm E.1].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np

from sparsehist.errors import DeclarationError, LevelError
from sparsehist.noise.binomial_poisson import binomial, poisson
from sparsehist.noise.family import Bridged, Three
from sparsehist.noise.integer_tails import (
    binomial_quantile,
    draw_uniforms,
    in_order_of,
    inverse_log_tail,
    log_upper_tail,
)
from sparsehist.privacy import poisson as guarantee
from sparsehist.privacy.levels import Level, as_level, compared, level_text, quotient
from sparsehist.privacy.special_functions import gammainc, gammaincc, ndtri_exp
from sparsehist.typing import ArrayLike, FloatArray, Generator, IntArray

# Beyond this a count of noise times 2**-53 is no longer small beside 1, and tails lose digits.
LARGEST_MEAN = Fraction(2**32)
# Below this the incomplete gamma functions lose digits to underflow.
_UNDERFLOW = 1e-280
# Noise beyond this is as good as impossible for any mean allowed; it keeps infinities out of the integrals.
FARTHEST = 2.0**50


@dataclass(frozen=True)
class ProcessNoise(Bridged):
    """Noise made of Poisson processes read at time 1/level; the number of keys enters the guarantee, not the law."""

    sensitivity: int = 1
    integer: ClassVar[bool] = True

    @classmethod
    def for_histogram(cls, max_keys: int) -> Self:
        """The noise of a histogram to which a unit adds at most 1 in each of `max_keys` cells."""
        return cls(sensitivity=max_keys)

    def __post_init__(self) -> None:
        if isinstance(self.sensitivity, bool) or self.sensitivity != int(self.sensitivity) or self.sensitivity < 1:
            raise DeclarationError(f"sensitivity must be a number of keys, at least 1, got {self.sensitivity!r}")

    def inverse_log_tail(self, log_probability: ArrayLike, level: Level) -> IntArray:
        """The integer x with P[Z > x] <= v < P[Z >= x], for ln v = log_probability at most 0; int64."""
        return inverse_log_tail(
            np.asarray(log_probability, np.float64),
            lambda x: self.log_tail(x, level),
            lambda x: self.log_cdf(x, level),
            lambda log_v: self._guess(-ndtri_exp(log_v), level),
        )

    def _guess(self, score: FloatArray, level: Level) -> FloatArray:
        """About the quantile of a normal score."""
        raise NotImplementedError


@dataclass(frozen=True)
class Poisson(ProcessNoise):
    """Poisson noise of mean 1/level: (epsilon, delta)-DP, with delta from `delta`, and never any zCDP.

    The noise is never negative and its mean is 1/level: a published count is count + noise, **not centred**.
    Subtract `mean(level)`, a public number, to centre it. One output of 0 rules the larger of two neighbouring
    counts out, so that Rényi divergence is infinite and no rho can be given.

    `sample`, `coarsen`, `refine` and `between` draw within 2**-44 of their laws in total variation; means and shares
    are rational and enter exactly. `carry` inverts distribution functions to some 1e-13.

    Args:
        sensitivity: Number of keys a unit may touch, each by at most 1 count; a positive integer. It enters
            the guarantee, not the law.

    Raises:
        DeclarationError: If the sensitivity is no positive integer.

    Example:
        >>> family = Poisson()
        >>> family.std("0.01"), family.mean("0.01")
        (10.0, 100.0)
        >>> round(family.delta("0.01", 0.5) * 1e7, 4)
        3.5685

    Source: [ARNP Lemma E.4] for the steps; the guarantee is our own, 3 to 7 times below [ARNP Lemma E.2, Lemma E.3].
    """

    def mean(self, level: Level) -> float:
        """Mean of the noise, in counts: 1 / level. Subtract it from a published count to centre that."""
        return float(poisson_mean(level))

    def std(self, level: Level) -> float:
        """Standard deviation of the noise, in counts: sqrt(1 / level)."""
        return math.sqrt(self.mean(level))

    def delta(self, level: Level, epsilon: float) -> float:
        """A delta with which one release at `level` is (epsilon, delta)-DP for `sensitivity` keys.

        The smallest one for one key, else a close upper bound: `sparsehist.privacy.poisson.delta`.
        """
        return guarantee.delta(level, epsilon, self.sensitivity)

    def statement(self, level: Level) -> str:
        # With half a per cent on top, writing three digits rounds no delta down.
        delta = 1.005 * guarantee.delta(level, 1.0, self.sensitivity)
        return (
            f"(1, {max(delta, 1e-300):.3g})-differential privacy for units of up to {self.sensitivity} keys "
            f"(Poisson noise of mean {level_text(1 / as_level(level))}, not centred; no zCDP at any rho)"
        )

    def sample(self, size: int, level: Level, *, rng: Generator) -> IntArray:
        return poisson(poisson_mean(level), size, rng=rng)

    def _bridge(self, size: int, fine: Fraction, coarse: Fraction, *, rng: Generator) -> IntArray:
        """The events in between."""
        return poisson(poisson_mean(coarse) - poisson_mean(fine), size, rng=rng)

    def _refined(self, coarse: IntArray, known: Fraction, target: Fraction, *, rng: Generator) -> IntArray:
        """Each event came as early as that or not."""
        return thinned(coarse, poisson_mean(target) / poisson_mean(known), rng=rng)

    def _inserted(self, coarse: IntArray, fine: IntArray, levels: Three, *, rng: Generator) -> IntArray:
        """Each event between them came before that time or after."""
        return fine + thinned(coarse - fine, share_between(levels), rng=rng)

    def _refined_in_order(self, values: IntArray, known: Fraction, target: Fraction, *, rng: Generator) -> IntArray:
        """By one uniform per column."""
        kept, dropped = kept_and_dropped(known, target)
        uniforms = draw_uniforms(values.shape[-1], rng=rng)
        return in_order_of(values, binomial_quantile(values, kept, dropped, uniforms))

    def tail(self, threshold: ArrayLike, level: Level) -> FloatArray:
        least = np.floor(np.asarray(threshold, np.float64)) + 1.0
        return np.asarray(np.where(least <= 0, 1.0, gammainc(np.maximum(least, 1.0), self.mean(level))))

    def log_tail(self, threshold: ArrayLike, level: Level) -> FloatArray:
        mean = self.mean(level)
        least = np.clip(np.floor(np.asarray(threshold, np.float64)) + 1.0, 0.0, FARTHEST)
        above, up_to = self.tail(threshold, level), gammaincc(np.maximum(least, 1.0), mean)
        with np.errstate(divide="ignore"):
            result = np.where(least <= 0, 0.0, np.where(above > 0.5, np.log1p(-up_to), np.log(above)))
        far = above < _UNDERFLOW
        result[far] = log_upper_tail(least[far], mean, 0.0)
        return np.asarray(result)

    def log_cdf(self, threshold: ArrayLike, level: Level) -> FloatArray:
        """ln P[Z <= threshold]; accurate in both tails, at any distance; -inf below 0."""
        mean = self.mean(level)
        most = np.minimum(np.floor(np.asarray(threshold, np.float64)), FARTHEST)
        inside = np.maximum(most, 0.0)
        up_to, above = gammaincc(inside + 1.0, mean), gammainc(inside + 1.0, mean)
        with np.errstate(divide="ignore"):
            result = np.where(up_to > 0.5, np.log1p(-above), np.log(up_to))
        far = (up_to < _UNDERFLOW) & (most > 0)
        result[far] = log_upper_tail(-most[far], 0.0, mean)
        return np.asarray(np.where(most < 0, -np.inf, np.where(most == 0, -mean, result)))

    def _guess(self, score: FloatArray, level: Level) -> FloatArray:
        mean = self.mean(level)
        return np.asarray(np.maximum(mean + score * math.sqrt(mean) + (score * score - 1.0) / 6.0, 0.0))


def poisson_mean(level: Level) -> Fraction:
    """The mean 1/level, exactly; refused where doubles no longer tell the counts apart well enough."""
    mean = 1 / as_level(level)
    if mean > LARGEST_MEAN:
        raise LevelError(f"level must be at least 1/{LARGEST_MEAN} for Poisson and Skellam noise, got {level!r}")
    return mean


def share_between(levels: Three) -> Fraction:
    """The share of the time between two levels that has passed at the middle one, counted from the finer."""
    late, now, early = map(poisson_mean, levels)
    return (now - early) / (late - early)


def kept_and_dropped(coarse: Fraction, fine: Fraction) -> tuple[float, float]:
    """P[an event of the coarser noise is one of the finer too] and its complement, each rounded only once."""
    return quotient(coarse, fine), compared(fine, coarse) / (fine.numerator * coarse.denominator)


def thinned(events: IntArray, kept: Fraction, *, rng: Generator) -> IntArray:
    """Keep each of the events with this probability."""
    return binomial(events, kept, rng=rng)
