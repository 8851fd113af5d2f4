"""The exact (epsilon, delta) of one Gaussian release over an open domain, to hold the stated guarantee against.

A unit touches l keys. Of j of them it may be the only unit; with its rows gone these are gone, and each of them was
published with probability q. The other l - j have counts as high as one likes, so that no threshold hides their
change by 1. If none of the j is published, which has probability (1 - q)**j, what is left is Gaussian noise with
rho (l - j)/l, seen with that weight; if one is, the unit is betrayed. So for a given j

    delta = 1 - (1-q)**j + (1-q)**j * G(epsilon - j ln(1-q))    with the unit's rows against without,
    delta = G(epsilon + j ln(1-q))                              without against with,

where G(epsilon) is the delta of the Gaussian mechanism for l - j keys, and the exact delta is the largest of them.
The stated guarantee, 1-(1-q)**l-approximate rho-zCDP, pays for l new keys and for l old ones at once; that, and what
zCDP loses against the Gaussian mechanism it describes, is the gap. At delta = 1e-6, rho = 0.5 and delta_infinity =
5e-7 the exact epsilon is 4.887; approximate zCDP gives 5.361 (9.7 per cent more), of which the sum of both parts with
the exact Gaussian delta explains 2.9 per cent. At delta_infinity = 1e-7 these are 7.3 and 0.5 per cent.

Source: Wilkins, Kifer, Zhang and Karrer 2024, Exact Privacy Analysis of the Gaussian Sparse Histogram Mechanism;
derived anew here.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr

from sparsehist.typing import FloatArray


def sparse_gaussian_delta(epsilon: float, rho: float, max_keys: int, exceeds: float) -> float:
    """The smallest delta with which one release is (epsilon, delta)-DP, to a relative error of about 1e-9.

    `rho` is that of the noise for `max_keys` keys; `exceeds` the probability that a key which only that unit has is
    published.
    """
    new = np.arange(max_keys + 1.0)
    mu = np.sqrt(2 * rho * (1 - new / max_keys))
    log_hidden = new * math.log1p(-exceeds)
    betrayed = -np.expm1(log_hidden)
    removed = betrayed + np.exp(log_hidden) * _gaussian(epsilon - log_hidden, mu)
    added = _gaussian(epsilon + log_hidden, mu)
    return float(max(removed.max(), added.max()))


def _gaussian(epsilon: FloatArray, mu: FloatArray) -> FloatArray:
    """Delta of two normals mu apart; epsilon may be negative."""
    result = np.maximum(0.0, -np.expm1(epsilon))  # mu = 0: one law
    apart = mu > 0
    above = log_ndtr(-epsilon[apart] / mu[apart] + mu[apart] / 2)
    below = epsilon[apart] + log_ndtr(-epsilon[apart] / mu[apart] - mu[apart] / 2)
    result[apart] = np.exp(above) * -np.expm1(np.minimum(below - above, 0.0))
    return np.asarray(result)
