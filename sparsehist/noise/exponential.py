"""Exponential noise, which is never negative and therefore has no privacy guarantee.

The density is level * e**(-level x) on x >= 0. Noise at a coarse level is noise at a fine level plus an independent
increment, which is 0 with probability (coarse level) / (fine level) and otherwise distributed as the coarse noise.

Papers: [ARNP Def. F.6].
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from sparsehist.errors import DeclarationError, shown
from sparsehist.noise.family import JumpFamily
from sparsehist.privacy.levels import Level, as_level, level_float
from sparsehist.typing import ArrayLike, FloatArray, Generator, float_array, float_entries, whole_number


@dataclass(frozen=True)
class Exponential(JumpFamily):
    """Exponential noise of mean 1 / level. Multiple releases are lossless, but have no privacy guarantee.

    Noise is never negative, so a published value rules out all larger counts. So `statement` always raises an error.

    Example:
        >>> Exponential().std(4)
        0.25

    Source: see `JumpFamily` for `coarsen` and `between`. By Bayes' rule, finer noise is the minimum of coarse noise
    and an independent exponential variate whose rate is the difference between the levels.
    """

    power: ClassVar[int] = 1

    def std(self, level: Level) -> float:
        return 1.0 / level_float(as_level(level))

    def mean(self, level: Level) -> float:
        return self.std(level)

    def statement(self, level: Level) -> str:
        raise DeclarationError(
            "exponential noise has no privacy guarantee: it is never negative, so an output rules out all larger "
            f"counts; use Laplace, discrete Laplace or Gaussian noise; got level {shown(level)}"
        )

    def _sampled(self, size: int, level: Level, *, rng: Generator) -> FloatArray:
        return rng.standard_exponential(size) * self.std(level)

    def _refined(self, coarse: FloatArray, known: Fraction, target: Fraction, *, rng: Generator) -> FloatArray:
        return np.minimum(coarse, rng.standard_exponential(coarse.shape[-1]) / level_float(target - known))

    def log_tail(self, threshold: ArrayLike, level: Level) -> FloatArray:
        return np.asarray(-np.maximum(float_array("threshold", threshold), 0.0) / self.std(level))

    def log_cdf(self, threshold: ArrayLike, level: Level) -> FloatArray:
        with np.errstate(divide="ignore"):
            # For P[Z <= threshold] near 0, log(-expm1(log_tail)) is accurate; near 1, log1p(-exp(log_tail)) is.
            log_tail = self.log_tail(threshold, level)
            return np.asarray(np.where(log_tail > -0.7, np.log(-np.expm1(log_tail)), np.log1p(-np.exp(log_tail))))

    def inverse_log_tail(self, log_probability: ArrayLike, level: Level) -> FloatArray:
        return np.asarray(-float_array("log_probability", log_probability) * self.std(level))

    def sample_tail(self, size: int, threshold: ArrayLike, level: Level, *, rng: Generator) -> FloatArray:
        least = float_entries("threshold", threshold, whole_number("size", size))
        values = np.maximum(least, 0.0) + self.sample(size, level, rng=rng)
        return np.asarray(np.maximum(values, np.nextafter(least, np.inf)))
