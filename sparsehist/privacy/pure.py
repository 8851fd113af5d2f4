"""Exact composition of releases that are each epsilon-DP, or (epsilon_i, delta_i)-DP.

The worst case is binary randomised response, called a coin: its privacy loss is epsilon_i with probability
1 / (1 + e**-epsilon_i), otherwise -epsilon_i. Let P(L) be the probability that all losses add up to L. Then 1 - delta
is the product of all (1 - delta_i), times (1 - sum over L > epsilon of P(L) (1 - e**(epsilon - L))).

Source: Kairouz, Oh and Viswanath 2015, Theorem 3.3, optimal over all such releases; Murtagh and Vadhan 2016, Theorem
1.5. It replaces [Interactive Thm 4], whose printed delta is false. Numerical gap: a relative 1e-9. If there are more
than 2**20 sums, results are upper bounds, because epsilons are rounded up. Papers: [Interactive section 3].
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction

import numpy as np

from sparsehist.errors import DeclarationError, shown
from sparsehist.privacy.levels import Level, at_least_zero, probability
from sparsehist.typing import FloatArray

MOST_RELEASES = 10**5  # largest number of releases; for more, logarithms of binomial coefficients are inaccurate
_MOST_SUMS, _GRID_STEPS = 1 << 20, 1 << 16


def delta(epsilon: Level, each: Level, times: int = 1) -> float:
    """Return the smallest delta for which several pure-DP releases are together (epsilon, delta)-DP.

    `times` is the number of releases, and `each` is the epsilon of a single release.

    Example:
        >>> delta(7.5, 0.05, 1000)
        9.768379702...e-06
    """
    asked, rate = float(at_least_zero(epsilon, "epsilon")), at_least_zero(each, "each")
    return _delta(asked, losses({rate: _times(times)}))


def epsilon(delta: Level, each: Level, times: int = 1) -> float:
    """Return the smallest epsilon for which several pure-DP releases are together (epsilon, delta)-DP; see `delta`.

    Example:
        >>> epsilon(1e-6, 0.05, 1000)
        8.283573346...
    """
    return _epsilon(probability(delta), losses({at_least_zero(each, "each"): _times(times)}))


def delta_of(epsilon: Level, each: Iterable[tuple[Level, Level]]) -> float:
    """Return the smallest delta for which (epsilon_i, delta_i)-DP releases are together (epsilon, delta)-DP.

    `each` holds a pair (epsilon_i, delta_i) for each release; delta_i is 0 for pure DP.

    Example:
        >>> delta_of(2, [(0.1, 1e-6)] * 30)
        4.808167386...e-05
    """
    asked = float(at_least_zero(epsilon, "epsilon"))
    coins: Counter[Fraction] = Counter()
    log_kept = 0.0  # ln of the probability that none of the events of probability delta_i occurs
    for rate, apart in each:
        coins[at_least_zero(rate, "epsilon_i")] += 1
        chance = at_least_zero(apart, "delta_i")
        if chance > 1:
            raise DeclarationError(f"delta_i must be a probability, got {shown(apart)}")
        log_kept += math.log1p(-float(chance)) if chance < 1 else -math.inf
    rest = min(_delta(asked, losses(coins)), 1.0)
    return -math.expm1(log_kept + math.log1p(-rest)) if rest < 1.0 else 1.0


def losses(coins: Mapping[Fraction, int]) -> tuple[FloatArray, FloatArray]:
    """Return all sums of privacy losses of independent randomised responses, and their probabilities.

    `coins` maps each epsilon to the number of responses with this epsilon. Both results have shape (m,) for m sums of
    losses. If m would exceed 2**20, each epsilon is first rounded up to a grid, so that delta is an upper bound.
    """
    if math.prod(times + 1 for times in coins.values()) > _MOST_SUMS:
        step = sum((level * times for level, times in coins.items()), Fraction(0)) / _GRID_STEPS
        return _on_grid(coins, step)
    from scipy.special import gammaln

    loss: FloatArray = np.zeros(1)
    weight: FloatArray = np.ones(1)
    for level, times in coins.items():
        heads = np.arange(times + 1.0)
        log_weight = gammaln(times + 1) - gammaln(heads + 1) - gammaln(times - heads + 1)
        log_weight -= heads * math.log1p(math.exp(-float(level))) + (times - heads) * np.logaddexp(0.0, float(level))
        loss = np.add.outer(loss, (2 * heads - times) * float(level)).ravel()
        weight = np.multiply.outer(weight, np.exp(log_weight)).ravel()
    return loss, weight


def _on_grid(coins: Mapping[Fraction, int], step: Fraction) -> tuple[FloatArray, FloatArray]:
    """Compute the result of `losses` by convolution, with each epsilon rounded up to a multiple of `step`."""
    units: Counter[int] = Counter()
    for level, times in coins.items():
        units[math.ceil(level / step)] += times
    weight = np.ones(1)
    for apart, times in units.items():
        kept = 1.0 / (1.0 + math.exp(-apart * float(step)))
        for _ in range(times):
            flipped = np.concatenate([(1.0 - kept) * weight, np.zeros(2 * apart)])
            flipped[2 * apart :] += kept * weight
            weight = flipped
    width = len(weight) // 2
    return np.asarray(np.arange(-width, width + 1) * float(step), np.float64), weight


def _delta(epsilon: float, law: tuple[FloatArray, FloatArray]) -> float:
    loss, weight = law
    over = loss > epsilon
    return float(weight[over] @ -np.expm1(epsilon - loss[over]))


def _epsilon(delta: float, law: tuple[FloatArray, FloatArray]) -> float:
    """Return the smallest epsilon for `delta`. Between adjacent losses, delta is a linear function of e**epsilon."""
    order = np.argsort(-law[0])
    loss, weight = law[0][order], law[1][order]
    with np.errstate(divide="ignore"):
        above, log_theirs = np.cumsum(weight), np.logaddexp.accumulate(np.log(weight) - loss)
    place = int(np.argmax(above - np.exp(np.append(loss[1:], -np.inf) + log_theirs) > delta))
    return max(0.0, math.log(above[place] - delta) - float(log_theirs[place])) if above[place] > delta else 0.0


def _times(times: int) -> int:
    if isinstance(times, bool) or times != int(times) or not 1 <= times <= MOST_RELEASES:
        raise DeclarationError(f"times must be a whole number from 1 to {MOST_RELEASES}, got {shown(times)}")
    return int(times)
