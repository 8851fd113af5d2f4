"""Rényi bounds of Skellam noise, and what they give as (epsilon, delta).

A unit of l keys moves l counts by 1 each: sensitivities l in L1 and sqrt(l) in L2. Both bounds below hold for
integer orders; which is smaller depends on the variance. That the noise were (1/(2 variance))-zCDP per key, as
Gaussian noise of that variance is, is false, though not by much: it fails at orders near 1, where at variance 2
and order 1.2 the divergence of one key is 0.30248 and that would promise 0.3.
"""

from __future__ import annotations

import math

from scipy.special import i0e, i1e

from sparsehist.errors import DeclarationError
from sparsehist.privacy.levels import Level, as_level

# Beyond this the ratio of the Bessel functions is taken from its expansion: the difference from 1 would cancel.
_EXPAND_FROM = 1e3
_ORDERS: list[int] = [*range(2, 257), *(1 << k for k in range(9, 24))]


def renyi(alpha: int, level: Level, keys: int = 1) -> float:
    """An upper bound on the Rényi divergence of order `alpha` between neighbours.

    Args:
        alpha: The order; an integer, at least 2.
        level: 1/mean of each of the two Poisson parts; positive.
        keys: Keys of a unit, each moved by 1 count.

    Returns:
        The smaller of two bounds, in nats.

    Raises:
        DeclarationError: If the order is no integer from 2 on, or keys is below 1.

    Example:
        >>> renyi(2, "0.02") < 0.0103
        True

    Source: Agarwal, Kairouz and Liu 2021, Theorem 3.5, with the variance 2/level; the other bound is
    alpha * keys * ln(I0/I1) of the variance.
    """
    if isinstance(alpha, bool) or alpha != int(alpha) or alpha < 2:
        raise DeclarationError(
            f"the Rényi bound of Skellam noise is proved for integer orders from 2 on, got {alpha!r}"
        )
    if keys < 1:
        raise DeclarationError(f"keys must be at least 1, got {keys!r}")
    variance = float(2 / as_level(level))
    like_gaussian = alpha * keys / (2.0 * variance)
    excess = min(((2 * alpha - 1) * keys + 6 * keys) / (4.0 * variance**2), 3.0 * keys / (2.0 * variance))
    return min(like_gaussian + excess, alpha * keys * _log_bessel_ratio(variance))


def epsilon(delta: float, level: Level, keys: int = 1) -> float:
    """An epsilon with which the release is (epsilon, delta)-DP, from the best order.

    Args:
        delta: In (0, 1).
        level: 1/mean of each of the two Poisson parts; positive.
        keys: Keys of a unit, each moved by 1 count.

    Raises:
        DeclarationError: If delta is not strictly between 0 and 1.

    Source: Canonne, Kamath and Steinke 2020, Proposition 12.
    """
    if not 0 < delta < 1:
        raise DeclarationError(f"delta must lie strictly between 0 and 1, got {delta!r}")
    best = min(
        renyi(alpha, level, keys) + math.log1p(-1.0 / alpha) - math.log(delta * alpha) / (alpha - 1)
        for alpha in _ORDERS
    )
    return max(best, 0.0)


def delta(epsilon: float, level: Level, keys: int = 1) -> float:
    """A delta with which the release is (epsilon, delta)-DP, from the best order; at most 1.

    Raises:
        DeclarationError: If epsilon is negative or not finite.

    Source: Canonne, Kamath and Steinke 2020, Proposition 12, read the other way.
    """
    if not (math.isfinite(epsilon) and epsilon >= 0):
        raise DeclarationError(f"epsilon must be at least 0 and finite, got {epsilon!r}")
    best = min(
        (alpha - 1) * (renyi(alpha, level, keys) - epsilon) + alpha * math.log1p(-1.0 / alpha) - math.log(alpha - 1)
        for alpha in _ORDERS
    )
    return math.exp(min(best, 0.0))


def zcdp(level: Level, keys: int = 1) -> float:
    """Refuse: no rho is proved for Skellam noise.

    Raises:
        DeclarationError: Always, with the reason.
    """
    raise DeclarationError(
        f"Skellam noise at level {level} for {keys} keys has no zCDP guarantee: at orders near 1 its Rényi "
        "divergence is larger than that of a Gaussian of its variance; ask for renyi(alpha, level, keys) or "
        "epsilon(delta, level, keys)"
    )


def _log_bessel_ratio(variance: float) -> float:
    """ln(I0(variance) / I1(variance)), to rounding."""
    if variance < _EXPAND_FROM:
        return math.log(float(i0e(variance) / i1e(variance)))
    x = 1.0 / variance
    return -math.log1p(-x * (1 / 2 + x * (1 / 8 + x * (1 / 8 + x * (25 / 128 + x * 13 / 32)))))
