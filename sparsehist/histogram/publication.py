"""What a single release does to a key of a given count: published or not, and how far off. Public numbers only.

The law of a release does not depend on what was released before (it is that of a single release), so these hold
for every release of a series at that level and threshold.
"""

from __future__ import annotations

import math

import numpy as np

from sparsehist.noise.family import Family
from sparsehist.privacy.levels import Level
from sparsehist.typing import ArrayLike, FloatArray

# Midpoints of the quantile function: the mean of |Z| is off by about 1e-4 of itself.
_NODES = 1 << 14


def publication_probability(family: Family, level: Level, threshold: float, counts: ArrayLike) -> FloatArray:
    """P[count + Z > threshold], with which keys of true counts are published; the threshold is the effective one.

    Example:
        >>> from sparsehist.noise import Gaussian
        >>> publication_probability(Gaussian(), 0.5, 6.0, [6, 9]).round(5).tolist()
        [0.5, 0.99865]
    """
    return np.exp(family.log_tail(threshold - np.asarray(counts, np.float64), level))


def least_count(family: Family, level: Level, threshold: float, probability: float) -> int:
    """The smallest true count, at least 0, that is published with at least this probability.

    Example:
        >>> from sparsehist.noise import Gaussian
        >>> least_count(Gaussian(), 0.5, 6.0, 0.95)
        8
    """
    log_probability = math.log(probability)

    def published(count: int) -> bool:
        return float(family.log_tail(threshold - count, level)) >= log_probability

    count = max(0, math.ceil(threshold - float(family.inverse_log_tail(log_probability, level))))
    while count > 0 and published(count - 1):  # the inverse is rounded, and that of an integer family a step off
        count -= 1
    while not published(count):
        count += 1
    return count


def mean_error(family: Family, level: Level, threshold: float, count: int) -> float:
    """E[|Z - mean| given count + Z > threshold], in counts: how far off a published noisy count is on average.

    To about 1e-4 of itself.

    Example:
        >>> from sparsehist.noise import Gaussian
        >>> round(mean_error(Gaussian(), 0.5, -100.0, 5), 3)  # all are published: the mean of |Z|
        0.798
    """
    shares = (np.arange(_NODES) + 0.5) / _NODES
    log_published = family.log_tail(threshold - count, level)
    noise = family.inverse_log_tail(np.log(shares) + log_published, level)
    return float(np.abs(noise - family.mean(level)).mean())
