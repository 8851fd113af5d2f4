"""Exponential noise: a building block, with no privacy of its own.

Law: Z(level) has density level * e**(-level x) on x >= 0. The coarser noise is the finer plus a bridge that is
0 with probability level_coarse / level_fine and otherwise coarse noise itself, from which every step follows.

Papers: [ARNP Def. F.6, Claim F.7].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sparsehist.errors import DeclarationError
from sparsehist.noise.family import coarser, finer, inside
from sparsehist.privacy.levels import Level, as_level, level_float
from sparsehist.typing import ArrayLike, FloatArray, Generator


@dataclass(frozen=True)
class Exponential:
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

    integer: ClassVar[bool] = False
    monotone: ClassVar[bool] = True

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
            f"exponential noise has no privacy guarantee at any level (asked for level {level}): it is never "
            "negative, so an output below a count rules that count out; use Laplace, discrete Laplace or Gaussian"
        )

    def sample(self, size: int, level: Level, *, rng: Generator) -> FloatArray:
        """Draw fresh noise, in counts; shape (size,), float64."""
        return rng.standard_exponential(size) * self.std(level)

    def coarsen(self, fine: FloatArray, fine_level: Level, level: Level, *, rng: Generator) -> FloatArray:
        """Draw the noise of a coarser release given that of a finer one: equal with chance level / fine_level."""
        coarser(level, fine_level)
        return fine + self._bridge(len(fine), fine_level, level, rng=rng)

    def refine(self, coarse: FloatArray, coarse_level: Level, level: Level, *, rng: Generator) -> FloatArray:
        """Draw the noise of a finer release given that of a coarser one: an exponential, cut at the coarse noise."""
        finer(level, coarse_level)
        return np.minimum(coarse, self._cut(len(coarse), coarse_level, level, rng=rng))

    def between(
        self,
        coarse: FloatArray,
        coarse_level: Level,
        fine: FloatArray,
        fine_level: Level,
        level: Level,
        *,
        rng: Generator,
    ) -> FloatArray:
        """Draw the noise between two given ones.

        Where they differ it is the fine noise with probability (m - c)/(f - c), and else the fine noise plus an
        exponential cut at the coarse one.
        """
        left, target, right = inside(coarse_level, level, fine_level)
        stays = rng.random(len(fine)) < float((target - left) / (right - left))
        moved = np.minimum(coarse, fine + self._cut(len(fine), left, target, rng=rng))
        return np.where(stays, fine, moved)

    def carry(self, values: FloatArray, start: Level, end: Level, *, rng: Generator) -> FloatArray:
        """Coarsen or refine several rows with one draw a column; shape (rows, n). No order is reversed."""
        known, target = as_level(start), as_level(end)
        if target == known:
            return values
        if target < known:
            return values + self._bridge(values.shape[-1], known, target, rng=rng)
        return np.minimum(values, self._cut(values.shape[-1], known, target, rng=rng))

    def tail(self, threshold: ArrayLike, level: Level) -> FloatArray:
        """P[Z > threshold]; `threshold` in counts, any shape."""
        return np.asarray(np.exp(self.log_tail(threshold, level)))

    def log_tail(self, threshold: ArrayLike, level: Level) -> FloatArray:
        """ln P[Z > threshold]."""
        return np.asarray(-np.maximum(np.asarray(threshold, np.float64), 0.0) / self.std(level))

    def log_cdf(self, threshold: ArrayLike, level: Level) -> FloatArray:
        """ln P[Z <= threshold]; -inf below 0."""
        with np.errstate(divide="ignore"):
            # The first form is right where the probability is small, the second where it is near 1.
            log_tail = self.log_tail(threshold, level)
            return np.asarray(np.where(log_tail > -0.7, np.log(-np.expm1(log_tail)), np.log1p(-np.exp(log_tail))))

    def inverse_log_tail(self, log_probability: ArrayLike, level: Level) -> FloatArray:
        """The threshold t >= 0 with ln P[Z > t] = log_probability (at most 0), in counts."""
        return np.asarray(np.negative(log_probability) * self.std(level))

    def sample_tail(self, size: int, threshold: ArrayLike, level: Level, *, rng: Generator) -> FloatArray:
        """Draw Z given Z > threshold (a scalar or shape (size,)); shape (size,)."""
        least = np.asarray(threshold, np.float64)
        values = np.maximum(least, 0.0) + self.sample(size, level, rng=rng)
        return np.maximum(values, np.nextafter(least, np.inf))

    def _bridge(self, size: int, fine: Level, coarse: Level, *, rng: Generator) -> FloatArray:
        bridge = self.sample(size, coarse, rng=rng)
        bridge[rng.random(size) < float(as_level(coarse) / as_level(fine))] = 0.0
        return bridge

    @staticmethod
    def _cut(size: int, coarse: Level, fine: Level, *, rng: Generator) -> FloatArray:
        return rng.standard_exponential(size) / level_float(as_level(fine) - as_level(coarse))
