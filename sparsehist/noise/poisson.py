"""Poisson noise, which gives (epsilon, delta)-DP, and the base class of Poisson and Skellam noise.

Noise at a level is the value, at time 1/level, of a process with independent increments. Smaller levels are later
times, so coarser noise is finer noise plus an independent increment. To refine noise, the finer noise is drawn
conditionally on the coarser noise.

Papers: [ARNP Thm E.1].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from sparsehist.errors import DeclarationError, LevelError, shown
from sparsehist.noise.family import Family, Three
from sparsehist.noise.integer_laws import (
    LARGEST_MEAN,
    IntegerLaw,
    Uniforms,
    draw_uniforms,
    part_quantile,
    poisson_law,
)
from sparsehist.privacy import poisson as guarantee
from sparsehist.privacy.levels import Level, as_level, level_text
from sparsehist.typing import ArrayLike, FloatArray, Generator, IntArray, float_array


@dataclass(frozen=True)
class ProcessNoise(Family):
    """Integer noise that is the value, at time 1/level, of a process with independent increments.

    `sensitivity`, the most keys that a unit counts towards, affects only the guarantee. Noise is drawn from tables of
    doubles, which leave out a probability of about e**-6000. The total variation error of draws is below 1e-13.
    """

    sensitivity: int = 1
    integer: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if isinstance(self.sensitivity, bool) or self.sensitivity != int(self.sensitivity) or self.sensitivity < 1:
            raise DeclarationError(f"sensitivity must be a whole number of at least 1, got {shown(self.sensitivity)}")

    def _law(self, mean: float) -> IntegerLaw:
        """Return the distribution of the process at time `mean`, and of its increments over a time of `mean`."""
        raise NotImplementedError

    def _at(self, level: Level) -> IntegerLaw:
        return self._law(float(poisson_mean(level)))

    def _sampled(self, size: int, level: Level, *, rng: Generator) -> IntArray:
        return self._at(level).quantile(draw_uniforms(size, rng=rng))

    def _increment(self, size: int, fine: Fraction, coarse: Fraction, *, rng: Generator) -> IntArray:
        return self._law(_mean_between(coarse, fine)).quantile(draw_uniforms(size, rng=rng))

    def _refined(self, coarse: IntArray, known: Fraction, target: Fraction, *, rng: Generator) -> IntArray:
        uniforms = draw_uniforms(coarse.shape[-1], rng=rng)
        return self._part(coarse, float(poisson_mean(target)), _mean_between(known, target), uniforms)

    def _bridge(self, coarse: IntArray, fine: IntArray, levels: Three, *, rng: Generator) -> IntArray:
        late, now, early = levels
        uniforms = draw_uniforms(len(fine), rng=rng)
        return fine + self._part(coarse - fine, _mean_between(now, early), _mean_between(late, now), uniforms)

    def _part(self, sums: IntArray, part: float, rest: float, uniforms: Uniforms) -> IntArray:
        return part_quantile(np.asarray(sums), self._law(part), self._law(rest), (part, rest), uniforms)

    def log_tail(self, threshold: ArrayLike, level: Level) -> FloatArray:
        return self._at(level).log_tails(float_array("threshold", threshold))[0]

    def log_cdf(self, threshold: ArrayLike, level: Level) -> FloatArray:
        return self._at(level).log_tails(float_array("threshold", threshold))[1]

    def inverse_log_tail(self, log_probability: ArrayLike, level: Level) -> IntArray:
        return self._at(level).inverse_log_tail(float_array("log_probability", log_probability))


def poisson_mean(level: Level) -> Fraction:
    """Return 1 / level, the mean of the Poisson numbers that form the noise. Raise LevelError if it exceeds 2**24."""
    mean = 1 / as_level(level)
    if mean > LARGEST_MEAN:
        raise LevelError(f"Poisson and Skellam noise need a level of at least 2**-24, got {shown(level)}")
    return mean


def _mean_between(coarse: Fraction, fine: Fraction) -> float:
    return float(poisson_mean(coarse) - poisson_mean(fine))


@dataclass(frozen=True)
class Poisson(ProcessNoise):
    """Poisson noise of mean 1/level, which gives (epsilon, delta)-DP if `max_keys` is 1, but no zCDP.

    Published counts are **not centred**: on average, they are too large by `mean(level)`, a public number. An output
    of 0 is possible for a count of 0 but not for a count of 1, so no rho-zCDP holds.

    Args:
        sensitivity: Must be 1, because a unit may have only one key. Otherwise, DeclarationError is raised.

    Example:
        >>> family = Poisson()
        >>> family.std("0.01"), family.mean("0.01")
        (10.0, 100.0)

    Source: [ARNP Lemma E.4] for coarsening and refining. The guarantee is our own derivation; its delta is 3 to 7
    times smaller than in [ARNP Lemma E.2, Lemma E.3].
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sensitivity != 1:
            raise DeclarationError(
                "Poisson noise needs max_keys=1: for units with several keys, its delta has no simple formula; "
                f"use noise='skellam', which is also integer noise, or noise='gaussian'; got {self.sensitivity} keys"
            )

    def mean(self, level: Level) -> float:
        return float(poisson_mean(level))

    def std(self, level: Level) -> float:
        return math.sqrt(self.mean(level))

    def statement(self, level: Level) -> str:
        # Raise delta by 0.5 %, so that rounding it to three digits cannot understate it.
        delta = 1.005 * guarantee.delta(1.0, level)
        return (
            f"(1, {max(delta, 1e-300):.3g})-differential privacy for units of one key "
            f"(Poisson noise of mean {level_text(1 / as_level(level))}, not centred; no zCDP at any rho)"
        )

    def _law(self, mean: float) -> IntegerLaw:
        return poisson_law(mean)
