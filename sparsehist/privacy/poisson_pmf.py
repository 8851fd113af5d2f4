"""The logarithm of the Poisson probability, to full precision however large its mean."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsehist.privacy.special_functions import gammaln

FloatArray = NDArray[np.float64]

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
# From here on five terms of Stirling's series leave less than 1e-16.
_STIRLING_FROM = 16.0


def log_poisson_pmf(value: ArrayLike, mean: ArrayLike) -> FloatArray:
    """ln of e**-mean * mean**value / value!.

    Args:
        value: At least 0 (-inf comes out below); need not be an integer, any shape.
        mean: Positive.

    Returns:
        The logarithm, with an absolute error near 1e-15 times max(1, its size): the terms of size
        value * ln(mean) of the textbook form, which cancel, are never made.

    Example:
        >>> round(float(log_poisson_pmf(3, 2.0)), 12) == round(math.log(8 / 6) - 2, 12)
        True

    Source: Loader 2000, "Fast and accurate computation of binomial probabilities".
    """
    k, mu = np.broadcast_arrays(np.asarray(value, np.float64), np.asarray(mean, np.float64))
    safe = np.where(k > 0, k, 1.0)
    body = -deviance(safe, mu) - 0.5 * np.log(safe) - _HALF_LOG_2PI - _stirling_error(safe)
    return np.where(k > 0, body, np.where(k == 0, -mu, -np.inf))


def deviance(value: FloatArray, mean: FloatArray) -> FloatArray:
    """value ln(value/mean) - value + mean, without cancellation; value positive."""
    ratio = (value - mean) / (value + mean)
    square = ratio * ratio
    series = np.zeros_like(ratio)
    for term in range(9, 0, -1):
        series = square * (series + 1.0 / (2 * term + 1))
    near = (value - mean) * ratio + 2.0 * value * ratio * series
    with np.errstate(over="ignore", divide="ignore"):
        far = value * np.log(value / mean) - value + mean
    return np.asarray(np.where(np.abs(ratio) < 0.1, near, far))


def _stirling_error(value: FloatArray) -> FloatArray:
    """ln value! less Stirling's formula for it; value positive."""
    large = np.maximum(value, _STIRLING_FROM)
    square = large * large
    series = (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / 1188 / square) / square) / square) / square) / large
    small = np.minimum(value, _STIRLING_FROM)
    direct = gammaln(small + 1.0) - (small + 0.5) * np.log(small) + small - _HALF_LOG_2PI
    return np.asarray(np.where(value >= _STIRLING_FROM, series, direct))
