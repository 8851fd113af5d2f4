"""What several releases cost together.

Releases on one noise path are functions of the finest of them, so the path costs that one. Paths have
independent noise, so their costs add, and so do those of series over the same people: exactly where they are
in one currency, as rho where each has one, and not at all where one of them has none (Poisson, Skellam).

Source: Bun and Steinke 2016, Lemma 1.7 (composition) and Proposition 1.4 (post-processing); epsilon-DP implies
epsilon * tanh(epsilon / 2)-zCDP, our own derivation from randomised response; Andersson et al., Definition
1.2 (lossless multiple release).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

ZCDP, PURE, NOT_ADDITIVE = "rho", "epsilon", "none"


@dataclass(frozen=True)
class Cost:
    """What something costs.

    Attributes:
        currency: "rho" (zCDP), "epsilon" (pure DP), or "none": a guarantee this version cannot add up.
        amount: Exact, in that currency; None for "none" and for sums over two currencies.
        rho: As zCDP; None where the guarantee implies none.
    """

    currency: str
    amount: Fraction | None
    rho: float | None


def path_cost(currency: str, finest: Fraction | None) -> Cost:
    """Cost of one noise path whose finest level is given, None where nothing was released.

    Example:
        >>> round(path_cost("epsilon", Fraction(1)).rho, 12)
        0.46211715726
    """
    if finest is None:
        return Cost(ZCDP if currency == NOT_ADDITIVE else currency, Fraction(0), 0.0)
    if currency == ZCDP:
        return Cost(ZCDP, finest, float(finest))
    if currency == PURE:
        return Cost(PURE, finest, float(finest) * math.tanh(float(finest) / 2))
    return Cost(NOT_ADDITIVE, None, None)


def total_cost(costs: Iterable[Cost]) -> Cost:
    """Cost of independent paths, or of series over the same people: the sum.

    Example:
        >>> total_cost([path_cost("rho", Fraction(1, 2)), path_cost("rho", Fraction(1, 10))]).amount
        Fraction(3, 5)
        >>> total_cost([path_cost("rho", Fraction(1, 2)), path_cost("none", Fraction(1, 10))]).currency
        'none'
    """
    spent = [cost for cost in costs if cost.amount != 0]
    if any(cost.rho is None for cost in spent):
        return Cost(NOT_ADDITIVE, None, None)
    currencies = {cost.currency for cost in spent}
    rho = math.fsum(cost.rho for cost in spent if cost.rho is not None)
    if len(currencies) > 1:
        return Cost(ZCDP, None, rho)
    currency = currencies.pop() if currencies else ZCDP
    return Cost(currency, _sum(spent), float(_sum(spent)) if currency == ZCDP else rho)


def _sum(costs: Sequence[Cost]) -> Fraction:
    return sum((cost.amount for cost in costs if cost.amount is not None), Fraction(0))
