"""Compute the joint cost of several releases.

All releases on a noise path could be generated from the finest one, so the path costs as much as that release. The
noise of different paths is independent, so their costs add up, even if the paths belong to different series over the
same people. Costs in one currency are added exactly; different currencies are converted to rho where possible.

Source: Bun and Steinke 2016, Lemma 1.7 and Proposition 1.4; epsilon-DP implies epsilon * tanh(epsilon / 2)-zCDP (our
own derivation); [ARNP Def. 3.4], [ARNP Cor. 4.6]. Papers: [ARNP Lemma D.3]; [KHP Prop. 4].
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

from sparsehist.privacy import zcdp

ZCDP, PURE, NOT_ADDITIVE = "rho", "epsilon", "none"
GAUSSIAN, POISSON, SKELLAM = "gaussian", "poisson", "skellam"
# If `shared_by_one_person` would return more sets, it returns the set of all populations: no set costs more.
_MOST_SETS = 1000


@dataclass(frozen=True, order=True)
class Part:
    """The finest release of a noise path, which determines the cost of the path.

    `law` is "gaussian", "poisson" or "skellam" for noise of these families. For other noise, it is the currency of
    `level`: "rho" or "epsilon". `keys` is the largest number of keys that a unit counts towards.
    """

    law: str
    level: Fraction
    keys: int = 1


@dataclass(frozen=True)
class Cost:
    """The cost of a path, a series or a population.

    Attributes:
        currency: "rho" (zCDP), "epsilon" (pure DP), or "none" for other guarantees.
        amount: The exact cost in this currency; None for "none" and for a sum of costs in two currencies.
        rho: The cost as rho of zCDP; None if the guarantee does not imply zCDP.
        delta_infinity: Bound on the probability that open domains publish a key that only one unit has.
        parts: The finest release of each path.
    """

    currency: str
    amount: Fraction | None
    rho: float | None
    delta_infinity: float = 0.0
    parts: tuple[Part, ...] = ()


def path_cost(
    currency: str,
    finest: Fraction | None,
    *,
    law: str | None = None,
    keys: int = 1,
    delta_infinity: float = 0.0,
) -> Cost:
    """Return the cost of a noise path. `finest` is its finest level, or None if nothing was released.

    `currency` is the currency of the level. `law` is "gaussian", "poisson" or "skellam" for noise of these families,
    otherwise None. A unit counts towards at most `keys` keys. `delta_infinity` covers all releases of the path.

    Example:
        >>> round(path_cost("epsilon", Fraction(1)).rho, 12)
        0.46211715726
    """
    if finest is None:
        return Cost(ZCDP if currency == NOT_ADDITIVE else currency, Fraction(0), 0.0)
    parts = (Part(law or currency, finest, keys),)
    if currency == NOT_ADDITIVE:
        return Cost(currency, None, None, delta_infinity, parts)
    rho = float(as_rho(finest) if currency == PURE else finest)
    return Cost(currency, finest, rho, delta_infinity, parts)


def as_rho(epsilon: Fraction) -> Fraction:
    """Return a rho for which every epsilon-DP release is rho-zCDP: epsilon * tanh(epsilon / 2), rounded up."""
    return Fraction(zcdp.from_pure(epsilon)) * (1 + Fraction(1, 2**51))


def total_cost(costs: Iterable[Cost]) -> Cost:
    """Return the total cost of independent noise paths, or of series over the same people.

    Example:
        >>> total_cost([path_cost("rho", Fraction(1, 2)), path_cost("rho", Fraction(1, 10))]).amount
        Fraction(3, 5)
        >>> total_cost([path_cost("rho", Fraction(1, 2)), path_cost("none", Fraction(1, 10))]).currency
        'none'
    """
    every = list(costs)
    spent = [cost for cost in every if cost.amount != 0]
    parts = tuple(sorted(part for cost in every for part in cost.parts))
    beside = (min(1.0, math.fsum(cost.delta_infinity for cost in every)), parts)
    if any(cost.rho is None for cost in spent):
        return Cost(NOT_ADDITIVE, None, None, *beside)
    rho = math.fsum(cost.rho for cost in spent if cost.rho is not None)
    currencies = {cost.currency for cost in spent} or {ZCDP}
    amounts = [cost.amount for cost in spent if cost.amount is not None]
    if len(currencies) > 1 or len(amounts) < len(spent):
        return Cost(ZCDP, None, rho, *beside)
    amount = sum(amounts, Fraction(0))
    currency = currencies.pop()
    return Cost(currency, amount, float(amount) if currency == ZCDP else rho, *beside)


def shared_by_one_person(populations: Sequence[str], disjoint: Collection[frozenset[str]]) -> list[tuple[str, ...]]:
    """Return the maximal sets of populations to which one person may belong: no two of them are declared disjoint."""
    whole = frozenset(populations)
    found = {whole}
    for pair in {frozenset(pair) for declared in disjoint for pair in combinations(declared & whole, 2)}:
        parts = {part for one in found for part in ([one - {name} for name in pair] if pair <= one else [one])}
        found = {one for one in parts if not any(one < other for other in parts)}
        if len(found) > _MOST_SETS:
            return [tuple(sorted(populations))]
    return sorted(tuple(sorted(one)) for one in found)
