"""The Poisson probability to full precision however large its mean: Loader's saddle-point form.

Source: Loader 2000, "Fast and accurate computation of binomial probabilities".
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from sparsehist.typing import ArrayLike, FloatArray

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_SERIES_FROM = 16


def log_poisson_pmf(value: ArrayLike, mean: ArrayLike) -> FloatArray:
    """ln of e**-mean * mean**value / value!, with an absolute error near 1e-15 times max(1, its size).

    The terms of size value * ln(mean) of the textbook form, which cancel, are never made.

    Example:
        >>> round(float(log_poisson_pmf(3, 2.0)), 12) == round(math.log(8 / 6) - 2, 12)
        True
    """
    k, mu = np.broadcast_arrays(np.asarray(value, np.float64), np.asarray(mean, np.float64))
    whole, means = np.maximum(k, 0.0).reshape(-1), mu.reshape(-1)
    log_mass = -saddle_point(whole, means, whole - means) - 0.5 * np.log(means) - _HALF_LOG_2PI
    return np.where(k >= 0, log_mass.reshape(k.shape), -np.inf)


def saddle_point(value: FloatArray, mean: FloatArray, distance: FloatArray) -> FloatArray:
    """-ln of a Poisson mass times sqrt(2 pi mean): deviance, Stirling's error and half the logarithm of value / mean.

    `distance` is value - mean to all its digits.
    """
    ratio = distance / (value + mean)
    square = ratio * ratio
    # ln(value/mean) = 2 ratio (1 + series); the series ends where square**10 / 21 is below 2**-60 of it.
    series = square * (1.0 / 19.0)
    for term in range(17, 2, -2):
        series += 1.0 / term
        series *= square
    result: FloatArray = (2.0 * value + 1.0) * series
    result += distance
    result += 1.0
    result *= ratio
    result += stirling_error(np.maximum(value, _SERIES_FROM))
    apart = np.nonzero((value < _SERIES_FROM) | (square > 1.0 / 64.0))
    if apart[0].size:
        few, average = value[apart], np.broadcast_to(mean, value.shape)[apart]
        direct = (few + 0.5) * np.log(np.maximum(few, 1.0) / average) - distance[apart]
        small = np.minimum(few, _SERIES_FROM).astype(np.intp)
        direct += np.where(few < _SERIES_FROM, _small_errors()[small], stirling_error(np.maximum(few, _SERIES_FROM)))
        result[apart] = np.where(few == 0.0, average - 0.5 * np.log(average) - _HALF_LOG_2PI, direct)
    return result


def stirling_error(value: FloatArray) -> FloatArray:
    """ln value! less Stirling's formula for it, for values from 16 on: the first term left out is below 2e-16."""
    inverse = 1.0 / value
    square = inverse * inverse
    series: FloatArray = square * (1.0 / 1188.0)
    for coefficient in (-1.0 / 1680.0, 1.0 / 1260.0, -1.0 / 360.0):
        series += coefficient
        series *= square
    series += 1.0 / 12.0
    series *= inverse
    return series


@cache
def _small_errors() -> FloatArray:
    """Stirling's errors of 0 (which belongs to another formula) to 16, downwards from the series."""
    k, j = np.arange(1.0, _SERIES_FROM)[:, np.newaxis], np.arange(1.0, 20.0)
    # (k + 1/2) ln(1 + 1/k) - 1, without cancellation.
    falls = np.sum(1.0 / ((2.0 * j + 1.0) * (2.0 * k + 1.0) ** (2.0 * j)), axis=1)
    last = stirling_error(np.array([float(_SERIES_FROM)]))
    return np.concatenate([[0.0], last + np.cumsum(falls[::-1])[::-1], last])
