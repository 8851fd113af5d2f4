"""Bounds on the Rényi divergence of Skellam noise, and their conversion to (epsilon, delta)-DP.

A unit with l keys changes l counts by 1 each, and the noise has the variance v = 2/level. Let I0 and I1 be Bessel
functions. For an integer order a >= 2, the divergence between neighbours is at most each of these functions of a:

    a l ln(I0(v) / I1(v)),    a l (v + 1) / (2 v**2) + 5 l / (4 v**2),    a l / (2 v) + 3 l / (2 v).

For each of these bounds, slope * a + offset, delta at epsilon is that of slope-zCDP at epsilon - offset. As ln delta
is convex in a, the best integer order is next to the best real order. (1/(2v))-zCDP per key does not hold: the
inequality is false at orders near 1.

Source: Agarwal, Kairouz and Liu 2021, Theorem 3.5; the first line is our own derivation (docs/mathematics.md);
Canonne, Kamath and Steinke 2020, Proposition 12.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from sparsehist.errors import DeclarationError, shown
from sparsehist.privacy import zcdp
from sparsehist.privacy.levels import Level, as_level, at_least_zero, probability
from sparsehist.typing import FloatArray

_EXPAND_FROM = 1e3  # from this variance v on, use a power series, because I0(v)/I1(v) is too close to 1 for doubles


def renyi(alpha: int, level: Level, keys: int = 1) -> float:
    """Return an upper bound, in nats, on the Rényi divergence between neighbours, for an integer order >= 2.

    Example:
        >>> renyi(2, "0.02") < 0.0103
        True
    """
    if isinstance(alpha, bool) or alpha != int(alpha) or alpha < 2:
        raise DeclarationError(f"the Rényi bound needs integer orders of 2 or more, got {shown(alpha)}")
    return float(renyi_curve(np.array([float(alpha)]), level, keys)[0])


def renyi_curve(alphas: FloatArray, level: Level, keys: int = 1) -> FloatArray:
    """Return the bounds of `renyi` for an array of integer orders; shape (n,)."""
    slopes, offsets = np.array(_lines(level, keys)).T
    return np.asarray(np.min(np.outer(alphas, slopes) + offsets, axis=1))


def epsilon(delta: Level, level: Level, keys: int = 1) -> float:
    """Return the smallest epsilon for which Rényi bounds of integer orders prove (epsilon, delta)-DP.

    Example:
        >>> epsilon(1e-6, "0.01", 20)
        1.4736654976...
    """
    target = probability(delta)
    lines = _lines(level, keys)
    best = [(slope, offset, t) for slope, offset in lines for t in _integers(zcdp.best_order(target, slope))]
    return max(0.0, min(zcdp.epsilon_at(t, target, slope) + offset for slope, offset, t in best))


def delta(epsilon: Level, level: Level, keys: int = 1) -> float:
    """Return the smallest delta for which Rényi bounds of integer orders prove (epsilon, delta)-DP.

    Example:
        >>> delta(2.0, "0.01", 20)
        1.0599984...e-10
    """
    asked = float(at_least_zero(epsilon, "epsilon"))
    lines = _lines(level, keys)
    return math.exp(min(zcdp.least_log_delta(asked - offset, slope, _integers) for slope, offset in lines))


def _lines(level: Level, keys: int) -> list[tuple[float, float]]:
    """Return the slope and offset of each of the three bounds on the divergence, as linear functions of the order."""
    if keys < 1:
        raise DeclarationError(f"keys must be at least 1, got {shown(keys)}")
    variance = float(2 / as_level(level))
    return [
        (keys * _log_bessel_ratio(variance), 0.0),
        (keys * (1.0 + 1.0 / variance) / (2.0 * variance), 5.0 * keys / (4.0 * variance**2)),
        (keys / (2.0 * variance), 3.0 * keys / (2.0 * variance)),
    ]


def _integers(best: float) -> list[float]:
    """Return the two integers to try for t = Rényi order - 1, if the best real t is `best`; both are at least 1."""
    below = float(max(1, math.floor(best)))
    return [below, below + 1.0]


@lru_cache(maxsize=1024)
def _log_bessel_ratio(variance: float) -> float:
    from scipy.special import i0e, i1e

    if variance < _EXPAND_FROM:
        return math.log(float(i0e(variance)) / float(i1e(variance)))
    x = 1.0 / variance
    series = 1 / 2 + x * (1 / 8 + x * (1 / 8 + x * (25 / 128 + x * (13 / 32 + x * 1073 / 1024))))
    return -math.log1p(-x * series)
