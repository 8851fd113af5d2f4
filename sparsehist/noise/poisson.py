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
from sparsehist.noise.binomial_poisson import binomial, count_slack, poisson
from sparsehist.noise.family import coarser, finer, inside
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
class Poisson:
    """Poisson noise of mean 1/level: (epsilon, delta)-DP, with delta from `delta`, and never any zCDP.

    The noise is never negative and its mean is 1/level: a published count is count + noise, **not centred**.
    Subtract `mean(level)`, a public number, to centre it. One output of 0 rules the larger of two neighbouring
    counts out, so that Rényi divergence is infinite and no rho can be given.

    Each number that `sample`, `coarsen`, `refine` or `between` draws is within `draw_slack` of its law in total
    variation; means and shares are rational and enter exactly. `carry` inverts distribution functions to some 1e-13.

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

    sensitivity: int = 1
    integer: ClassVar[bool] = True
    monotone: ClassVar[bool] = True

    @classmethod
    def for_histogram(cls, max_keys: int) -> Self:
        """The noise of a histogram to which a unit adds at most 1 in each of `max_keys` cells."""
        return cls(sensitivity=max_keys)

    def __post_init__(self) -> None:
        """Refuse a wrong number of keys."""
        if isinstance(self.sensitivity, bool) or self.sensitivity != int(self.sensitivity) or self.sensitivity < 1:
            raise DeclarationError(f"sensitivity must be a number of keys, at least 1, got {self.sensitivity!r}")

    def mean(self, level: Level) -> float:
        """Mean of the noise, in counts: 1 / level. Subtract it from a published count to centre that."""
        return float(poisson_mean(level))

    def std(self, level: Level) -> float:
        """Standard deviation of the noise, in counts: sqrt(1 / level)."""
        return math.sqrt(self.mean(level))

    def draw_slack(self, level: Level) -> float:
        """Total variation of one number drawn by `sample`, `coarsen`, `refine` or `between` from its law, at most.

        Args:
            level: The coarsest that takes part.
        """
        return count_slack(self.mean(level))

    def delta(self, level: Level, epsilon: float) -> float:
        """A delta with which one release at `level` is (epsilon, delta)-DP for `sensitivity` keys.

        The smallest one for one key, else a close upper bound: `sparsehist.privacy.poisson.delta`.
        """
        return guarantee.delta(level, epsilon, self.sensitivity)

    def delta_is_bound(self, level: Level) -> bool:
        """Whether `delta` is an upper bound at this level, and not exact to 12 digits."""
        return not guarantee.is_exact(level, self.sensitivity)

    def statement(self, level: Level) -> str:
        """The guarantee of one release, in words."""
        # With half a per cent on top, writing three digits rounds no delta down.
        delta = 1.005 * guarantee.delta(level, 1.0, self.sensitivity)
        bound = ", an upper bound," if self.delta_is_bound(level) else ""
        return (
            f"(1, {max(delta, 1e-300):.3g})-differential privacy{bound} for units of up to {self.sensitivity} keys "
            f"(Poisson noise of mean {level_text(1 / as_level(level))}, not centred; no zCDP at any rho)"
        )

    def sample(self, size: int, level: Level, *, rng: Generator) -> IntArray:
        """Draw fresh noise, in counts; shape (size,), int64."""
        return poisson(poisson_mean(level), size, rng=rng)

    def coarsen(self, fine: IntArray, fine_level: Level, level: Level, *, rng: Generator) -> IntArray:
        """Draw the noise of a coarser release given that of a finer one: add the events in between."""
        coarser(level, fine_level)
        return fine + poisson(poisson_mean(level) - poisson_mean(fine_level), len(fine), rng=rng)

    def refine(self, coarse: IntArray, coarse_level: Level, level: Level, *, rng: Generator) -> IntArray:
        """Draw the noise of a finer release given that of a coarser one: each event came as early as that or not."""
        finer(level, coarse_level)
        return thinned(coarse, poisson_mean(level) / poisson_mean(coarse_level), rng=rng)

    def between(
        self,
        coarse: IntArray,
        coarse_level: Level,
        fine: IntArray,
        fine_level: Level,
        level: Level,
        *,
        rng: Generator,
    ) -> IntArray:
        """Draw the noise between two given ones: each event between them came before that time or after."""
        return fine + thinned(coarse - fine, share_between(coarse_level, fine_level, level), rng=rng)

    def carry(self, values: IntArray, start: Level, end: Level, *, rng: Generator) -> IntArray:
        """Coarsen or refine several rows with one uniform a column; shape (rows, n). No order is reversed."""
        known, target = as_level(start), as_level(end)
        if not (order := compared(target, known)):
            return values
        n = values.shape[-1]
        if order < 0:
            return values + poisson(poisson_mean(target) - poisson_mean(known), n, rng=rng)
        kept, dropped = quotient(known, target), order / (target.numerator * known.denominator)
        return in_order_of(values, binomial_quantile(values, kept, dropped, draw_uniforms(n, rng=rng)))

    def tail(self, threshold: ArrayLike, level: Level) -> FloatArray:
        """P[Z > threshold]; `threshold` in counts, any shape."""
        least = np.floor(np.asarray(threshold, np.float64)) + 1.0
        return np.asarray(np.where(least <= 0, 1.0, gammainc(np.maximum(least, 1.0), self.mean(level))))

    def log_tail(self, threshold: ArrayLike, level: Level) -> FloatArray:
        """ln P[Z > threshold]; accurate in both tails, at any distance."""
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

    def inverse_log_tail(self, log_probability: ArrayLike, level: Level) -> IntArray:
        """The integer x with P[Z > x] <= v < P[Z >= x], for ln v = log_probability at most 0; int64."""
        mean = self.mean(level)

        def guess(log_v: FloatArray) -> FloatArray:
            score = -ndtri_exp(log_v)
            return np.asarray(np.maximum(mean + score * math.sqrt(mean) + (score * score - 1.0) / 6.0, 0.0))

        return inverse_log_tail(
            np.asarray(log_probability, np.float64),
            lambda x: self.log_tail(x, level),
            lambda x: self.log_cdf(x, level),
            guess,
        )

    def sample_tail(self, size: int, threshold: ArrayLike, level: Level, *, rng: Generator) -> IntArray:
        """Draw Z given Z > threshold (a scalar or shape (size,)); shape (size,), int64."""
        log_uniform = np.negative(rng.standard_exponential(size))
        values = self.inverse_log_tail(self.log_tail(threshold, level) + log_uniform, level)
        return np.maximum(values, np.floor(np.asarray(threshold, np.float64)).astype(np.int64) + 1)


def poisson_mean(level: Level) -> Fraction:
    """The mean 1/level, exactly; refused where doubles no longer tell the counts apart well enough."""
    mean = 1 / as_level(level)
    if mean > LARGEST_MEAN:
        raise LevelError(f"level must be at least 1/{LARGEST_MEAN} for Poisson and Skellam noise, got {level!r}")
    return mean


def share_between(coarse_level: Level, fine_level: Level, level: Level) -> Fraction:
    """The share of the time between two levels that has passed at `level`, counted from the finer."""
    inside(coarse_level, level, fine_level)
    early, late = poisson_mean(fine_level), poisson_mean(coarse_level)
    return (poisson_mean(level) - early) / (late - early)


def thinned(events: IntArray, kept: Fraction, *, rng: Generator) -> IntArray:
    """Keep each of the events with this probability."""
    return binomial(events, kept, rng=rng)
