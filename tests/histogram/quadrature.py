"""What the quadrature of `sparsehist.histogram.recursion` says about a cell of a series: a second route."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sparsehist.histogram.recursion import log_between, log_exceeding


def log_survival(times: Sequence[float], upper: Sequence[float]) -> float:
    """ln P(S_i <= upper_i for all i)."""
    return log_between(times, np.full(np.shape(upper), -math.inf), upper)


def exceed_probability(
    levels: Sequence[float],
    thresholds: Sequence[float],
    level: float,
    threshold: float,
    sensitivity: float,
    *,
    count: float = 0,
) -> float:
    """P[a cell exceeds the new threshold, given that it never exceeded an old one], for Gaussian noise.

    Levels in any order; one may occur again with another threshold, and the new one may stand anywhere among them.
    """
    # In units of sensitivity**2/2 times are levels, and the distance of two close ones is exact.
    scale = math.sqrt(2) / sensitivity
    times, place = np.unique(np.asarray(levels, dtype=np.float64), return_inverse=True)
    lowest = np.full(len(times), math.inf)
    np.minimum.at(lowest, place, np.asarray(thresholds, dtype=np.float64))
    upper = times * (lowest - count) * scale
    log_both = log_exceeding(times, upper, level, level * (threshold - count) * scale)
    return math.exp(min(0.0, log_both - log_survival(times, upper))) if log_both > -math.inf else 0.0
