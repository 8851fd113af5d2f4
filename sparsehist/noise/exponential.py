"""Exponential noise: a building block, with no privacy of its own.

Law: Z(level) has density level * e**(-level x) on x >= 0. The coarser noise is the finer plus a bridge that is
0 with probability level_coarse / level_fine and otherwise coarse noise itself, from which every step follows.

Papers: [ARNP Def. F.6, Claim F.7].
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sparsehist.errors import DeclarationError, shown
from sparsehist.noise.family import Family, Three
from sparsehist.privacy.levels import Level, as_level, level_float
from sparsehist.typing import ArrayLike, FloatArray, Generator, float_array, float_entries, whole_number


@dataclass(frozen=True)
class Exponential(Family):
    """Exponential noise of mean 1 / level: lossless in any order, and private for no one.

    Noise that is never negative gives a count away from above: an output below the larger of two neighbouring
    counts has probability 0 under one of them. So every guarantee is refused. Differences and sums of such
    paths are families of their own (the Laplace law is the difference of two).

    Exact in real arithmetic; the draws are numpy's ziggurat exponentials in doubles. Equal values at two levels
    are equal to the last bit.

    Example:
        >>> Exponential().std(4)
        0.25

    Source: [ARNP Claim F.7]; refine and between by Bayes' rule on it.
    """

    def std(self, level: Level) -> float:
        """Standard deviation, in counts: 1 / level."""
        return 1.0 / level_float(as_level(level))

    def mean(self, level: Level) -> float:
        """Mean, in counts: 1 / level."""
        return self.std(level)

    def statement(self, level: Level) -> str:
        """Refuse: there is no guarantee to state.

        Raises:
            DeclarationError: Always, with the reason.
        """
        raise DeclarationError(
            f"exponential noise has no privacy guarantee at any level (asked for level {shown(level)}): it is never "
            "negative, so an output below a count rules that count out; use Laplace, discrete Laplace or Gaussian"
        )

    def _sampled(self, size: int, level: Level, *, rng: Generator) -> FloatArray:
        return rng.standard_exponential(size) * self.std(level)

    def _bridge(self, size: int, fine: Fraction, coarse: Fraction, *, rng: Generator) -> FloatArray:
        """0 with chance coarse / fine, else coarse noise."""
        bridge = self.sample(size, coarse, rng=rng)
        bridge[rng.random(size) < float(coarse / fine)] = 0.0
        return bridge

    def _refined(self, coarse: FloatArray, known: Fraction, target: Fraction, *, rng: Generator) -> FloatArray:
        """An exponential, cut at the coarse noise."""
        return np.minimum(coarse, rng.standard_exponential(coarse.shape[-1]) / level_float(target - known))

    def _inserted(self, coarse: FloatArray, fine: FloatArray, levels: Three, *, rng: Generator) -> FloatArray:
        """Where they differ, the fine noise with probability (m - c)/(f - c), else that and a cut exponential."""
        left, target, right = levels
        stays = rng.random(len(fine)) < float((target - left) / (right - left))
        step = rng.standard_exponential(len(fine)) / level_float(target - left)
        return np.where(stays, fine, np.minimum(coarse, fine + step))

    def log_tail(self, threshold: ArrayLike, level: Level) -> FloatArray:
        return np.asarray(-np.maximum(float_array("threshold", threshold), 0.0) / self.std(level))

    def log_cdf(self, threshold: ArrayLike, level: Level) -> FloatArray:
        with np.errstate(divide="ignore"):
            # The first form is right where the probability is small, the second where it is near 1.
            log_tail = self.log_tail(threshold, level)
            return np.asarray(np.where(log_tail > -0.7, np.log(-np.expm1(log_tail)), np.log1p(-np.exp(log_tail))))

    def inverse_log_tail(self, log_probability: ArrayLike, level: Level) -> FloatArray:
        return np.asarray(-float_array("log_probability", log_probability) * self.std(level))

    def sample_tail(self, size: int, threshold: ArrayLike, level: Level, *, rng: Generator) -> FloatArray:
        least = float_entries("threshold", threshold, whole_number("size", size))
        values = np.maximum(least, 0.0) + self.sample(size, level, rng=rng)
        return np.asarray(np.maximum(values, np.nextafter(least, np.inf)))
