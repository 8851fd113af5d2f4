"""Gaussian noise, which gives zero-concentrated differential privacy (zCDP).

Noise at level rho is Z(rho), with the distribution N(0, sensitivity**2 / (2 rho)). Because rho * Z(rho) is a Brownian
motion in rho, noise at a new level is drawn as a Brownian increment or, between two levels, as a Brownian bridge.

Papers: [ARNP Lemma 3.1, Lemma 3.2, Lemma 3.3, Alg. 1, Cor. 3.5, Lemma D.4]; [KHP Thm 14].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np

from sparsehist.noise.family import Family, Norm, Three, checked_sensitivity
from sparsehist.privacy.levels import Level, as_level, compared, level_float, level_text, quotient
from sparsehist.typing import ArrayLike, FloatArray, Generator, float_array, float_entries, whole_number

_FAR = 0.7  # threshold, in standard deviations, where `sample_tail` accepts half of its normal or Rayleigh proposals


@dataclass(frozen=True)
class Gaussian(Family):
    """Gaussian noise: a release of a vector at level rho satisfies rho-zCDP.

    numpy draws standard normal doubles, which are multiplied by the standard deviation. Published values are rounded
    to a grid that does not depend on the data (`sparsehist.histogram.grid`), so their low-order bits reveal nothing.

    Args:
        sensitivity: L2 sensitivity of the vector of counts, in counts.

    Raises:
        DeclarationError: If the sensitivity is not positive and finite.

    Example:
        >>> Gaussian(sensitivity=1.0).std(0.5)
        1.0

    Source: Bun and Steinke 2016, Proposition 1.6; [ARNP Lemma 3.2] with the variance
    sensitivity**2/(2 rho), and their Algorithms 4 and 5 for the two adjacent levels.
    """

    sensitivity: float = 1.0
    scaled: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    norm: ClassVar[Norm | None] = "l2"
    currency: ClassVar[str] = "rho"

    def __post_init__(self) -> None:
        checked_sensitivity(self.sensitivity)

    def std(self, level: Level) -> float:
        return self.sensitivity / math.sqrt(2 * level_float(as_level(level)))

    def statement(self, level: Level) -> str:
        return f"{level_text(as_level(level))}-zCDP (zero-concentrated differential privacy)"

    def _sampled(self, size: int, level: Level, *, rng: Generator) -> FloatArray:
        return _scaled_normals(size, self.std(level), rng=rng)

    def _increment(self, size: int, fine: Fraction, coarse: Fraction, *, rng: Generator) -> FloatArray:
        """Draw coarse noise minus fine noise, of variance sensitivity**2 * (1/coarse - 1/fine) / 2; shape (size,)."""
        deviation = math.sqrt(compared(fine, coarse) / (2 * fine.numerator * coarse.numerator))
        return _scaled_normals(size, self.sensitivity * deviation, rng=rng)

    def _refined(self, coarse: FloatArray, known: Fraction, target: Fraction, *, rng: Generator) -> FloatArray:
        """Draw finer noise: add an increment to the Brownian motion rho * Z(rho), then divide by the finer rho."""
        change = compared(target, known) * target.denominator
        deviation = math.sqrt(change / (2 * target.numerator**2 * known.denominator))
        noise: FloatArray = quotient(known, target) * coarse
        noise += _scaled_normals(coarse.shape[-1], self.sensitivity * deviation, rng=rng)
        return noise

    def _bridge(self, coarse: FloatArray, fine: FloatArray, levels: Three, *, rng: Generator) -> FloatArray:
        weight_coarse, weight_fine, deviation = _weights(*levels)
        noise = _scaled_normals(len(fine), self.sensitivity * deviation, rng=rng)
        part = np.multiply(coarse, weight_coarse)
        noise += part
        np.multiply(fine, weight_fine, out=part)
        noise += part
        return noise

    def log_tail(self, threshold: ArrayLike, level: Level) -> FloatArray:
        from scipy.special import log_ndtr  # imported here, so that reading a store does not import scipy

        return np.asarray(log_ndtr(-float_array("threshold", threshold) / self.std(level)))

    def log_cdf(self, threshold: ArrayLike, level: Level) -> FloatArray:
        return self.log_tail(-float_array("threshold", threshold), level)

    def inverse_log_tail(self, log_probability: ArrayLike, level: Level) -> FloatArray:
        from scipy.special import ndtri_exp

        return np.asarray(-self.std(level) * ndtri_exp(float_array("log_probability", log_probability)))

    def sample_tail(self, size: int, threshold: ArrayLike, level: Level, *, rng: Generator) -> FloatArray:
        """Draw noise given that it exceeds `threshold`, by rejection sampling.

        For thresholds below 0.7 standard deviations, proposals are normal draws. For larger thresholds, proposals
        are draws from the tail of a Rayleigh distribution, accepted with probability threshold / draw.

        Source: Marsaglia 1964, Generating a variable from the tail of the normal distribution, Technometrics 6.
        """
        bound, std = float_entries("threshold", threshold, whole_number("size", size)), self.std(level)
        limit, values = bound / std, np.empty(size)
        near, far = np.flatnonzero(limit < _FAR), np.flatnonzero(limit >= _FAR)
        while near.size:
            normals = rng.standard_normal(near.size)
            values[near] = np.where(limit[near] > 0.0, np.abs(normals), normals)
            near = near[values[near] <= limit[near]]
        while far.size:
            low = limit[far]
            values[far] = low * np.sqrt(1.0 + 2.0 * rng.standard_exponential(far.size) / low / low)
            far = far[rng.random(far.size) * values[far] > low]
        values *= std
        # If rounding has produced a value that is not above the threshold, take the next double above the threshold.
        return np.maximum(values, np.nextafter(bound, np.inf))


@lru_cache(maxsize=256)
def _weights(left: Fraction, target: Fraction, right: Fraction) -> tuple[float, float, float]:
    """Return u, v, w: noise at `target` is u * coarse noise + v * fine noise + w * sensitivity * N(0, 1)."""
    span = target * (right - left)
    variance = (target - left) * (right - target) / (2 * target * span)
    return float(left * (right - target) / span), float(right * (target - left) / span), math.sqrt(variance)


def _scaled_normals(size: int, scale: float, *, rng: Generator) -> FloatArray:
    normals = rng.standard_normal(size)
    normals *= scale
    return normals
