"""Compute the exact (epsilon, delta) of one Gaussian release over an open domain, to check the stated guarantee.

A privacy unit has l keys, of which j are keys of no other unit. Each of these j keys is published with probability
q. The counts of the other l - j keys change by 1, which the noise hides; G(epsilon) is the delta of the Gaussian
mechanism for these l - j keys. For removing the unit, the exact delta is the largest value, over all j, of
1 - (1-q)**j + (1-q)**j G(epsilon - j ln(1-q)). For adding the unit, it is the largest value of
G(epsilon + j ln(1-q)).

Source: Wilkins, Kifer, Zhang and Karrer 2024, Exact Privacy Analysis of the Gaussian Sparse Histogram Mechanism. The
formula is derived independently here.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr

from sparsehist.typing import FloatArray


def sparse_gaussian_delta(epsilon: float, rho: float, max_keys: int, exceeds: float) -> float:
    """Return the smallest delta for which one release is (epsilon, delta)-DP, to a relative error of 1e-9.

    `rho` is the cost of the noise for `max_keys` keys, and `exceeds` the probability that a key of only one privacy
    unit is published.
    """
    new = np.arange(max_keys + 1.0)
    mu = np.sqrt(2 * rho * (1 - new / max_keys))
    log_hidden = new * math.log1p(-exceeds)
    betrayed = -np.expm1(log_hidden)
    removed = betrayed + np.exp(log_hidden) * _gaussian(epsilon - log_hidden, mu)
    added = _gaussian(epsilon + log_hidden, mu)
    return float(max(removed.max(), added.max()))


def _gaussian(epsilon: FloatArray, mu: FloatArray) -> FloatArray:
    """Return delta between N(0, 1) and N(mu, 1); epsilon may be negative."""
    result = np.maximum(0.0, -np.expm1(epsilon))  # both distributions are equal if mu is 0
    apart = mu > 0
    above = log_ndtr(-epsilon[apart] / mu[apart] + mu[apart] / 2)
    below = epsilon[apart] + log_ndtr(-epsilon[apart] / mu[apart] - mu[apart] / 2)
    result[apart] = np.exp(above) * -np.expm1(np.minimum(below - above, 0.0))
    return np.asarray(result)
