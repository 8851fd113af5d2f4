"""Compute the joint (epsilon, delta) of several noise paths, by the best proven bound for their noise.

Pure-DP releases cost at most the sum of their epsilons. Gaussian releases cost as much as one with the sum of their
rhos. If there are both, each pure-DP release costs at most as much as randomised response with its epsilon. Rhos of
other zCDP releases are added up. With Skellam noise, Rényi divergences are added up. Delta is divided into equal
parts: one for each Poisson path, and one for all other paths together.

Source: Dong, Roth and Su 2022, Theorem 3.2 and Corollary 3.3; Zhu, Dong and Wang 2022, Theorem 10; Kairouz, Oh and
Viswanath 2015; Canonne, Kamath and Steinke 2020, Proposition 12; Bun and Steinke 2016, Lemma 8.2 (delta_infinity).
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from functools import lru_cache

import numpy as np

from sparsehist.errors import DeclarationError, shown
from sparsehist.privacy import gaussian, poisson, pure, skellam, zcdp
from sparsehist.privacy.composition import GAUSSIAN, POISSON, PURE, SKELLAM, ZCDP, Cost, Part, as_rho
from sparsehist.privacy.levels import root
from sparsehist.typing import FloatArray

# Pure-DP releases cost the sum of their epsilons, unless a bound that needs delta is below this fraction of the sum.
_WORTH_IT = 0.999
_ORDERS = np.array([*map(float, range(2, 257)), *(float(1 << k) for k in range(9, 24))])


def guarantee(cost: Cost, delta: float) -> float:
    """Return the smallest epsilon for which all releases are proven (epsilon, delta)-DP, or infinity.

    The delta_infinity of the cost is subtracted from `delta` first. Raise DeclarationError unless 0 <= delta < 1.
    """
    if isinstance(delta, bool) or not isinstance(delta, int | float) or not 0 <= delta < 1:
        raise DeclarationError(f"delta must be at least 0 and below 1, got {shown(delta)}")
    parts = tuple(sorted(cost.parts))
    left = delta - cost.delta_infinity
    if not parts:
        return 0.0
    return _of_parts(parts, left) if left >= 0 else math.inf


@lru_cache(maxsize=4096)
def _of_parts(parts: tuple[Part, ...], delta: float) -> float:
    alone = [part for part in parts if part.law == POISSON]
    rest = tuple(part for part in parts if part.law != POISSON)
    share = delta / (len(alone) + bool(rest))
    return sum(_poisson_epsilon(part, share) for part in alone) + (_with_divergence(rest, share) if rest else 0.0)


def _poisson_epsilon(part: Part, delta: float) -> float:
    try:
        return poisson.epsilon(delta, part.level)
    except DeclarationError:  # no epsilon suffices for this level and delta
        return math.inf


def _with_divergence(parts: tuple[Part, ...], delta: float) -> float:
    if any(part.law not in (GAUSSIAN, ZCDP, PURE, SKELLAM) for part in parts):
        return math.inf
    coins = Counter(part.level for part in parts if part.law == PURE)
    added = float(sum((level * times for level, times in coins.items()), Fraction(0)))
    others = [part for part in parts if part.law != PURE]
    if not others and (delta == 0 or coins.total() < 2):
        return added
    if delta < 1e-300:
        return math.inf
    noise = [part for part in others if part.law == SKELLAM]
    rho = sum((part.level for part in others if part.law != SKELLAM), Fraction(0))
    with_coins = rho + sum((times * as_rho(level) for level, times in coins.items()), Fraction(0))
    if noise:
        return min(_by_order(rho, noise, delta) + added, _by_order(with_coins, noise, delta))
    found = [zcdp.epsilon(delta, with_coins), zcdp.epsilon(delta, rho) + added]
    if all(part.law == GAUSSIAN for part in others):
        found.append(gaussian.epsilon(delta, rho) + added)
        if coins:
            found.append(_with_coins(coins, rho, delta, min(found)))
    best = min(found)
    return best if others or best < _WORTH_IT * added else added


def _by_order(rho: Fraction, noise: list[Part], delta: float) -> float:
    """Return the joint epsilon of rho-zCDP releases and Skellam releases, by Rényi divergences of integer orders."""
    divergence = _ORDERS * float(rho)
    for part in noise:
        divergence = divergence + skellam.renyi_curve(_ORDERS, part.level, part.keys)
    epsilon = divergence + np.log1p(-1.0 / _ORDERS) - np.log(delta * _ORDERS) / (_ORDERS - 1.0)
    return max(0.0, float(epsilon.min()))


def _with_coins(coins: Counter[Fraction], rho: Fraction, delta: float, high: float) -> float:
    """Return the joint epsilon of Gaussian noise and randomised responses, coins[e] of which have the epsilon e."""
    if rho == 0 and len(coins) == 1 and coins.total() <= pure.MOST_RELEASES:
        ((level, times),) = coins.items()
        return min(high, pure.epsilon(delta, level, times))
    loss, weight = pure.losses(coins)
    mu = math.sqrt(2.0 * float(rho))

    def excess(epsilon: float) -> float:
        return float(weight @ _stick(epsilon - loss, mu)) - delta

    if excess(0.0) <= 0.0:
        return 0.0
    return root(excess, 0.0, high) if excess(high) < 0.0 else high


def _stick(epsilon: FloatArray, mu: float) -> FloatArray:
    """Return the delta of mu-GDP noise for each entry of `epsilon`, which may be negative."""
    from scipy.special import log_ndtr

    if mu == 0:
        return np.maximum(0.0, -np.expm1(np.minimum(epsilon, 0.0)))
    first, second = log_ndtr(mu / 2.0 - epsilon / mu), epsilon + log_ndtr(-mu / 2.0 - epsilon / mu)
    return np.asarray(np.exp(first) * -np.expm1(np.minimum(second - first, 0.0)))
