"""Conversions between zero-concentrated DP and (epsilon, delta)-DP, at the best order of the Rényi divergence.

By the Rényi divergence of order t + 1, a rho-zCDP release is (epsilon, delta(t))-DP for every t > 0, where

    ln delta(t) = t ((t + 1) rho - epsilon) - t ln(1 + 1/t) - ln(1 + t).

At the best t, (2t + 1) rho - epsilon = ln(1 + 1/t) and t**2 rho + ln(1 + t) = -ln delta, which is monotone in t.
Gaussian noise guarantees more than its rho: see `sparsehist.privacy.gaussian`. Numerical gap: a relative 1e-9.

Source: Canonne, Kamath and Steinke 2020, Proposition 12. Papers: [ARNP Def. D.2]; [Interactive Lemma 5].
"""

from __future__ import annotations

import math
from collections.abc import Callable

from sparsehist.privacy.levels import Level, at_least_zero, probability, root

_FARTHEST = 700.0  # the Rényi order minus 1 is searched from e**-700 to e**700, a range that doubles can hold


def delta(epsilon: Level, rho: Level) -> float:
    """Return the smallest delta for which every rho-zCDP release is provably (epsilon, delta)-DP.

    Example:
        >>> delta(1.0, 0.1)
        0.0089332457...
    """
    asked, spent = float(at_least_zero(epsilon, "epsilon")), float(at_least_zero(rho, "rho"))
    return math.exp(least_log_delta(asked, spent)) if spent > 0 else 0.0


def epsilon(delta: Level, rho: Level) -> float:
    """Return the smallest epsilon for which every rho-zCDP release is provably (epsilon, delta)-DP.

    Example:
        >>> epsilon(1e-6, 0.1)
        2.1419389283...
    """
    target, spent = probability(delta), float(at_least_zero(rho, "rho"))
    return max(0.0, epsilon_at(best_order(target, spent), target, spent)) if spent > 0 else 0.0


def largest_rho(epsilon: Level, delta: Level) -> float:
    """Return the largest rho for which rho-zCDP provably implies (epsilon, delta)-DP.

    Example:
        >>> largest_rho(1.0, 1e-6)
        0.0243559703...
    """
    wanted, asked = -math.log(probability(delta)), float(at_least_zero(epsilon, "epsilon"))
    t = _root(lambda t: t / (2.0 + 1.0 / t) * (asked + _log_inverse(t)) + math.log1p(t) - wanted)
    return max(0.0, (asked + _log_inverse(t) - (wanted - math.log1p(t)) / t) / (1.0 + t))


def from_pure(epsilon: Level) -> float:
    """Return the smallest rho for which epsilon-DP implies rho-zCDP: epsilon * tanh(epsilon / 2).

    Example:
        >>> from_pure(1.0)
        0.4621171572...

    Source: our own derivation. For randomised response, Rényi divergence / order is largest at order 1.
    """
    value = float(at_least_zero(epsilon, "epsilon"))
    return value * math.tanh(value / 2.0)


def least_log_delta(epsilon: float, rho: float, to_try: Callable[[float], list[float]] = lambda t: [t]) -> float:
    """Return ln of the smallest delta below 1 that follows from rho-zCDP at this epsilon, or 0 if none does.

    From the best real t = Rényi order - 1, `to_try` computes the values of t to try, such as the integers next to it.
    """
    best = _root(lambda t: (2.0 * t + 1.0) * rho - epsilon - _log_inverse(t))
    found = [t * ((t + 1.0) * rho - epsilon) - t * _log_inverse(t) - math.log1p(t) for t in to_try(best)]
    return min(0.0, *found)


def best_order(delta: float, rho: float) -> float:
    """Return the t = order - 1 for which `epsilon_at` is smallest at this delta."""
    return _root(lambda t: t * (t * rho) + math.log1p(t) + math.log(delta))


def epsilon_at(t: float, delta: float, rho: float) -> float:
    """Return the epsilon that follows from rho-zCDP at this delta, by the Rényi divergence of order 1 + t."""
    return (1.0 + t) * rho - _log_inverse(t) - (math.log(delta) + math.log1p(t)) / t


def _root(rising: Callable[[float], float]) -> float:
    """Return the zero of an increasing function of t > 0, found by a search over ln t."""
    if rising(math.exp(-_FARTHEST)) >= 0.0:
        return math.exp(-_FARTHEST)
    return math.exp(root(lambda place: rising(math.exp(place)), -_FARTHEST, _FARTHEST))


def _log_inverse(t: float) -> float:
    return math.log1p(t) - math.log(t) if t < 1.0 else math.log1p(1.0 / t)
