"""Compute thresholds, expected numbers of false keys, and the probability that a key with a given count is published.

All functions use public parameters only. The distribution of a release does not depend on earlier releases, so the
results hold for every release of a series with the given level and threshold.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from decimal import Decimal

import numpy as np

from sparsehist.errors import ThresholdError, shown
from sparsehist.histogram.grid import effective_threshold, published_step
from sparsehist.noise.family import Family
from sparsehist.privacy.levels import Level
from sparsehist.typing import ArrayLike, FloatArray, float_entries

# `mean_error` averages over this many quantiles of the noise. The relative error of its result is about 1e-4.
_NODES = 1 << 14
_MOST_COUNT = 1 << 60


def expected_false_keys(family: Family, level: Level, threshold: float, domain_size: int) -> float:
    """Return the expected number of empty cells that a release publishes: domain_size * P[Z > threshold].

    `threshold` is the effective threshold, in counts. The result is infinite if it is too large for a double.
    """
    log_expected = math.log(domain_size) + float(family.log_tail(float_entries("threshold", threshold, 1)[0], level))
    return math.exp(log_expected) if log_expected < 700 else math.inf


def threshold_for_false_keys(family: Family, level: Level, domain_size: int, false_keys: float) -> float:
    """Return the lowest threshold on the grid, in counts, for which at most `false_keys` false keys are expected.

    Raises:
        ThresholdError: Unless `false_keys` is above 0 and below `domain_size`.

    Example:
        >>> from sparsehist.noise import Gaussian
        >>> threshold_for_false_keys(Gaussian(), 0.5, 10**9, 1.0)
        6.0
    """
    if not (math.isfinite(false_keys) and false_keys > 0):
        raise ThresholdError(f"false_keys must be positive and finite, got {shown(false_keys)}")
    if false_keys >= domain_size:
        raise ThresholdError(
            f"false_keys must be below the domain's size {Decimal(domain_size):.3g}, got {shown(false_keys)}; "
            "to publish every cell, give threshold= instead"
        )
    log_share = math.log(false_keys) - math.log(domain_size)
    step = published_step(family, level)
    threshold = step * (math.ceil(float(family.inverse_log_tail(log_share, level)) / step - 0.5))
    while log_share < float(family.log_tail(effective_threshold(threshold, step), level)):
        threshold += step  # Rounding may have made the threshold too low, so increase it until it is high enough.
    return threshold


def publication_probability(family: Family, level: Level, threshold: float, counts: ArrayLike) -> FloatArray:
    """Return for each count the probability that its key is published: P[count + Z > effective threshold]."""
    return np.exp(family.log_tail(threshold - np.asarray(counts, np.float64), level))


def least_count(family: Family, level: Level, threshold: float, probability: float) -> int:
    """Return the smallest true count (0 or more) that is published with at least this probability."""
    least = math.log(probability)
    counts = range(_MOST_COUNT)
    return bisect_left(counts, 1, key=lambda count: float(family.log_tail(threshold - count, level)) >= least)


def mean_error(family: Family, level: Level, threshold: float, count: int) -> float:
    """Return the mean absolute error of a published count, E[|Z - E[Z]| given count + Z > threshold]."""
    shares = (np.arange(_NODES) + 0.5) / _NODES
    log_published = family.log_tail(threshold - count, level)
    noise = family.inverse_log_tail(np.log(shares) + log_published, level)
    return float(np.abs(noise - family.mean(level)).mean())
