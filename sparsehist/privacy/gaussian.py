"""Exact conversions between the rho of Gaussian noise and (epsilon, delta)-DP.

Let mu = sqrt(2 rho), x = epsilon/mu - mu/2, and let M(x) = Phi(-x) / phi(x) be the Mills ratio. Then

    delta = Phi(-x) - e**epsilon Phi(-x - mu) = phi(x) (M(x) - M(x + mu)),
    M(x) = integral of exp(-x t - t**2/2) over t > 0, so
    M(x) - M(x + mu) = integral of exp(-x t - t**2/2) (1 - exp(-mu t)), without cancellation.

The formulas hold for one Gaussian release, the finest release of a path and, with the sum of rhos, for several paths.
Numerical gap: a relative 1e-12 from rho = 1e-12 on, tested against mpmath and dp-accounting.

Source: Balle and Wang 2018, Theorem 8; Dong, Roth and Su 2022, Corollary 2.13. It replaces [KHP Thm 13], which is
proved for epsilon below 1 and fails above 8.4 at delta = 1e-5, and so the levels of [KHP Thm 14].
"""

from __future__ import annotations

import math

import numpy as np

from sparsehist.privacy import zcdp
from sparsehist.privacy.levels import Level, at_least_zero, probability, root

_LEAST = 1e-300  # the smallest rho that a search tries
# Double exponential quadrature on the half line, for integrands that decay like exp(-t) (Takahasi and Mori 1974).
_STEP = 1 / 16
_PLACES = _STEP * np.arange(-4 * 16, 5 * 16)
_NODES = np.exp(_PLACES - np.exp(-_PLACES))
_WEIGHTS = _STEP * _NODES * (1.0 + np.exp(-_PLACES))


def delta(epsilon: Level, rho: Level) -> float:
    """Return the smallest delta for which Gaussian noise of this rho is (epsilon, delta)-DP.

    Example:
        >>> delta(1.0, 0.5)
        0.1269367375...
    """
    return _delta(float(at_least_zero(epsilon, "epsilon")), float(at_least_zero(rho, "rho")))


def epsilon(delta: Level, rho: Level) -> float:
    """Return the smallest epsilon >= 0 for which Gaussian noise of this rho is (epsilon, delta)-DP.

    Example:
        >>> epsilon(1e-6, 0.1)
        1.9945269006...
    """
    target, spent = probability(delta), float(at_least_zero(rho, "rho"))
    if _delta(0.0, spent) <= target:
        return 0.0
    high = zcdp.epsilon(target, spent) * (1 + 1e-9)  # an upper bound on epsilon, from zCDP
    return root(lambda value: _log(_delta(value, spent)) - math.log(target), 0.0, high)


def largest_rho(epsilon: Level, delta: Level) -> float:
    """Return the largest rho for which Gaussian noise is (epsilon, delta)-DP.

    At this rho, the standard deviation sensitivity / sqrt(2 rho) is the smallest that gives the guarantee.

    Example:
        >>> largest_rho(1.0, 1e-6)
        0.0280144819...
    """
    asked, target = float(at_least_zero(epsilon, "epsilon")), probability(delta)
    low = math.log(max(zcdp.largest_rho(asked, target), _LEAST)) - 1e-9
    if _delta(asked, math.exp(low)) > target:
        return 0.0
    high = low + 1.0
    while _delta(asked, math.exp(high)) < target:
        high += 1.0
    return math.exp(root(lambda value: _log(_delta(asked, math.exp(value))) - math.log(target), low, high))


def _delta(epsilon: float, rho: float) -> float:
    if rho == 0:
        return 0.0
    mu = math.sqrt(2.0 * rho)
    x = epsilon / mu - mu / 2.0
    density = math.exp(-((epsilon - rho) ** 2) / (4.0 * rho)) / math.sqrt(2.0 * math.pi)
    if x < -1.0:  # for such x, delta is not small, so the subtraction loses no precision
        return math.erfc(x / math.sqrt(2.0)) / 2.0 - density * _mills_ratio(x + mu)
    return density * _mills_ratio(x, mu)


def _mills_ratio(x: float, mu: float = math.inf) -> float:
    """Return M(x) - M(x + mu) for x >= -1, where M(x) = Phi(-x) / phi(x) is the Mills ratio; M(infinity) is 0."""
    scale = max(x, 1.0)
    t = _NODES / scale
    return float(_WEIGHTS @ (np.exp(-x * t - t * t / 2.0) * -np.expm1(-mu * t))) / scale


def _log(value: float) -> float:
    return math.log(max(value, 5e-324))
