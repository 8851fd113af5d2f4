"""The (epsilon, delta) of several noise paths together: the best of what is proved for their noise.

Every route below is a valid bound, so the smallest epsilon is one too:

- pure DP adds up; Gaussian noise adds up as rho and is one Gaussian mechanism of the sum, exactly;
- pure and Gaussian paths together: epsilon-DP is at worst a coin of randomised response, whose loss is +-epsilon,
  and the sum of the losses of coins and Gaussian noise is known (exact k-fold composition is its special case);
- everything with a rho adds up as zCDP, and with Skellam noise as Rényi-DP, of which zCDP is alpha * rho;
- Poisson noise has no Rényi bound: its (epsilon, delta) is added to that of the rest, delta being shared
  out so that the epsilons add up to little.

delta_infinity is taken off delta first.

Source: Dong, Roth and Su 2022, Theorem 3.2 and Corollary 3.3; Zhu, Dong and Wang 2022, Theorem 10; Kairouz, Oh and
Viswanath 2015; Canonne, Kamath and Steinke 2020, Proposition 12; Bun and Steinke 2016, Lemma 8.2 (delta_infinity).
Numerical gap: answers are rounded up by 1e-12 of themselves, those with Poisson noise of several keys by what the
bound on its delta is above it, which is 1e-3 of it at most.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np

from sparsehist.errors import DeclarationError
from sparsehist.privacy import gaussian, poisson, pure, skellam, zcdp
from sparsehist.privacy.composition import GAUSSIAN, POISSON, PURE, SKELLAM, ZCDP, Cost, Part, as_rho
from sparsehist.privacy.special_functions import ndtr
from sparsehist.typing import FloatArray

_UP = 1.0 + 1e-12
# The plain sum of pure levels is exact and holds at delta 0: less than this share of it, or the sum.
_WORTH_IT = 0.999
_ORDERS = [*map(float, range(2, 257)), *(float(1 << k) for k in range(9, 24))]
_LITTLE = 1e-2


def guarantee(cost: Cost, delta: float) -> float:
    """The smallest epsilon shown with which what was released is (epsilon, delta)-DP; infinite where none is shown.

    delta is at least 0 and below 1; anything else raises DeclarationError.

    Example:
        >>> from sparsehist.privacy import path_cost, total_cost
        >>> half = path_cost("rho", Fraction(1, 2), law="gaussian")
        >>> guarantee(total_cost([half, half]), 1e-6) < 2 * guarantee(half, 1e-6)
        True
    """
    if isinstance(delta, bool) or not isinstance(delta, int | float) or not 0 <= delta < 1:
        raise DeclarationError(f"delta must be at least 0 and below 1, got {delta!r}")
    parts = tuple(sorted(cost.parts))
    if not parts:
        return 0.0
    left = delta - cost.delta_infinity
    return _of_parts(parts, left) if left >= 0 else math.inf


@lru_cache(maxsize=4096)
def _of_parts(parts: tuple[Part, ...], delta: float) -> float:
    """An epsilon for exact draws of these laws."""
    convolved = [part for part in parts if part.law == POISSON]
    rest = tuple(part for part in parts if part.law != POISSON)
    if not convolved:
        return _with_divergence(rest, delta)
    if delta == 0:
        return math.inf
    return _shared_out(rest, convolved, delta)


def _with_divergence(parts: tuple[Part, ...], delta: float) -> float:
    """Pure, zCDP and Skellam parts."""
    if any(part.law not in (GAUSSIAN, ZCDP, PURE, SKELLAM) for part in parts):
        return math.inf
    coins = [part.level for part in parts if part.law == PURE]
    added = _float_above(sum(coins, Fraction(0)))
    others = [part for part in parts if part.law != PURE]
    if not others and (delta == 0 or len(coins) < 2):
        return added
    if delta <= 0:
        return math.inf
    rho = sum((part.level for part in others if part.law != SKELLAM), Fraction(0))
    with_coins = rho + sum(map(as_rho, coins), Fraction(0))
    if any(part.law == SKELLAM for part in others):
        noise = [part for part in others if part.law == SKELLAM]
        return min(_by_order(rho, noise, delta) + added, _by_order(with_coins, noise, delta))
    found = [zcdp.epsilon(delta, with_coins) * _UP, zcdp.epsilon(delta, rho) * _UP + added]
    if all(part.law == GAUSSIAN for part in others):
        found.append(gaussian.epsilon(delta, rho) * _UP + added if others else added)
        if coins:
            found.append(_with_coins(coins, rho, delta, min(found)))
    best = min(found)
    return best if others or best < _WORTH_IT * added else added


def _by_order(rho: Fraction, noise: Sequence[Part], delta: float) -> float:
    """Rényi-DP of integer orders: alpha * rho and the bounds of Skellam noise."""
    orders = np.array(_ORDERS)
    divergence = orders * float(rho)
    for part in noise:
        divergence = divergence + _skellam_curve(part)
    epsilon = divergence + np.log1p(-1.0 / orders) - np.log(delta * orders) / (orders - 1.0)
    return max(0.0, float(epsilon.min())) * _UP


@lru_cache(maxsize=256)
def _skellam_curve(part: Part) -> FloatArray:
    return skellam.renyi_curve(np.array(_ORDERS), part.level, part.keys)


def _with_coins(coins: Sequence[Fraction], rho: Fraction, delta: float, high: float) -> float:
    """Coins of randomised response and one Gaussian mechanism: the exact sum of their losses."""
    if rho == 0 and len(set(coins)) == 1:
        return min(high, pure.epsilon(delta, coins[0], len(coins)) * _UP)
    loss, weight = pure.losses(coins)
    mu = math.sqrt(2.0 * float(rho))

    def enough(epsilon: float) -> bool:
        return float(weight @ _stick(epsilon - loss, mu)) * (1.0 + 1e-11) <= delta

    low = 0.0
    if enough(low):
        return 0.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _stick(epsilon: FloatArray, mu: float) -> FloatArray:
    """delta of Gaussian noise at any epsilon, negative ones included, above it by the rounding of its terms."""
    if mu == 0:
        return np.maximum(0.0, -np.expm1(np.minimum(epsilon, 0.0)))
    first = ndtr(mu / 2.0 - epsilon / mu)
    second = np.exp(np.minimum(epsilon, 700.0)) * ndtr(-mu / 2.0 - epsilon / mu)
    return np.asarray(np.maximum(0.0, first - second) + 1e-14 * (first + second))


def _shared_out(rest: tuple[Part, ...], convolved: Sequence[Part], delta: float) -> float:
    """Poisson paths beside others: delta in equal shares, then in shares that suit the slopes, whichever is better.

    An epsilon that falls like -b ln delta is served best by shares proportional to b.
    """
    terms: list[tuple[Part, ...]] = [*([rest] if rest else []), *((part,) for part in convolved)]
    if len(terms) == 1:
        return _term(terms[0], delta)
    shares = np.full(len(terms), 1.0 / len(terms))
    best = math.inf
    for _ in range(2):
        at = np.array([_term(term, delta * share) for term, share in zip(terms, shares, strict=True)])
        best = min(best, math.fsum(at) * _UP)
        finer = np.array([_term(term, delta * share / 2.0) for term, share in zip(terms, shares, strict=True)])
        # Poisson noise of a small mean has no epsilon below some delta: it gets nearly all.
        finite = np.isfinite(finer)
        slopes = finer - at if finite.all() else np.where(finite, _LITTLE, 1.0)
        if slopes.sum() <= 0:
            break
        shares = np.maximum(slopes / slopes.sum(), 1e-6)
        shares = shares / shares.sum() * (1.0 - 1e-12)
    return best


def _term(parts: tuple[Part, ...], delta: float) -> float:
    return _poisson_epsilon(parts[0], delta) if parts[0].law == POISSON else _with_divergence(parts, delta)


@lru_cache(maxsize=1024)
def _poisson_epsilon(part: Part, delta: float) -> float:
    """The smallest epsilon of Poisson noise at a delta that is shown; infinite where there is none."""
    try:
        return poisson.epsilon(delta, part.level, part.keys) * _UP
    except DeclarationError:  # an output that only one world can give is likelier than that
        return math.inf


def _float_above(value: Fraction) -> float:
    """The smallest double that is not below."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)
