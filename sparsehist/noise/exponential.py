"""Exponential noise: a building block, with no privacy of its own.

Law: Z(level) has density level * e**(-level x) on x >= 0. Coarse noise is fine noise plus a bridge, which is 0 with
probability level_coarse / level_fine and otherwise has the coarse law. Every step follows from this.

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
    """Exponential noise of mean 1 / level: lossless in any order, but without any privacy guarantee.

    An output below the larger of two neighbouring counts has probability 0 under that count, so every guarantee is
    refused. Draws are numpy's exponentials in doubles; noise that is equal at two levels is equal to the last bit.

    Example:
        >>> Exponential().std(4)
        0.25

    Source: `JumpFamily`; refine by Bayes' rule on its bridge.
    """

    power: ClassVar[int] = 1

    def std(self, level: Level) -> float:
        return 1.0 / level_float(as_level(level))

    def mean(self, level: Level) -> float:
        return self.std(level)

    def statement(self, level: Level) -> str:
        raise DeclarationError(
            f"exponential noise has no privacy guarantee at any level (asked for level {shown(level)}): it is never "
            "negative, so an output below a count rules that count out; use Laplace, discrete Laplace or Gaussian"
        )

    def _sampled(self, size: int, level: Level, *, rng: Generator) -> FloatArray:
        return rng.standard_exponential(size) * self.std(level)

    def _refined(self, coarse: FloatArray, known: Fraction, target: Fraction, *, rng: Generator) -> FloatArray:
        """Return the smaller of an exponential draw and the coarse noise."""
        return np.minimum(coarse, rng.standard_exponential(coarse.shape[-1]) / level_float(target - known))

    def log_tail(self, threshold: ArrayLike, level: Level) -> FloatArray:
        return np.asarray(-np.maximum(float_array("threshold", threshold), 0.0) / self.std(level))

    def log_cdf(self, threshold: ArrayLike, level: Level) -> FloatArray:
        with np.errstate(divide="ignore"):
            # The first form is accurate for small probabilities, the second near 1.
            log_tail = self.log_tail(threshold, level)
            return np.asarray(np.where(log_tail > -0.7, np.log(-np.expm1(log_tail)), np.log1p(-np.exp(log_tail))))

    def inverse_log_tail(self, log_probability: ArrayLike, level: Level) -> FloatArray:
        return np.asarray(-float_array("log_probability", log_probability) * self.std(level))

    def sample_tail(self, size: int, threshold: ArrayLike, level: Level, *, rng: Generator) -> FloatArray:
        least = float_entries("threshold", threshold, whole_number("size", size))
        values = np.maximum(least, 0.0) + self.sample(size, level, rng=rng)
        return np.asarray(np.maximum(values, np.nextafter(least, np.inf)))
