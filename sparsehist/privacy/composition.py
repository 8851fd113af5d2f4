"""What several releases cost together.

Releases on one noise path are functions of the finest of them, so the path costs that one. Paths have
independent noise, so their costs add, and so do those of series over the same people: exactly where they are
in one currency, as rho where each has one. What they give together as (epsilon, delta), Poisson and Skellam
noise included, is computed from their parts by `sparsehist.privacy.epsilon_delta`.

People in disjoint populations bear the cost of one of them: of the worst set of populations one person may
be in.

Source: Bun and Steinke 2016, Lemma 1.7 (composition) and Proposition 1.4 (post-processing); epsilon-DP implies
epsilon * tanh(epsilon / 2)-zCDP, our own derivation from randomised response; [ARNP Def. 3.4] (a path
costs its finest release), [ARNP Cor. 4.6] (and so does whatever is made of its releases).

Papers: [ARNP Lemma D.3]; [KHP Prop. 4].
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

ZCDP, PURE, NOT_ADDITIVE = "rho", "epsilon", "none"
GAUSSIAN, POISSON, SKELLAM = "gaussian", "poisson", "skellam"
# A person is counted in every set of populations not declared disjoint; beyond so many sets the plain sum is
# taken instead, which is never less.
_MOST_SETS = 10_000


@dataclass(frozen=True, order=True)
class Part:
    """The finest release of one noise path.

    Attributes:
        law: "gaussian", "poisson", "skellam"; "rho" or "epsilon" for other noise with such a guarantee; "none".
        level: Exact.
        keys: Keys of a unit; Poisson and Skellam noise do not know them by themselves.
    """

    law: str
    level: Fraction
    keys: int = 1


@dataclass(frozen=True)
class Cost:
    """What something costs.

    Attributes:
        currency: "rho" (zCDP), "epsilon" (pure DP), or "none": a guarantee that is neither.
        amount: Exact, in that currency; None for "none" and for sums over two currencies.
        rho: As zCDP; None where the guarantee implies none.
        delta_infinity: Probability that a key of an open domain gives its owner away; adds up.
        parts: What was released, for the sum as (epsilon, delta).
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
    """Cost of one noise path whose finest level is given, None where nothing was released.

    Args:
        currency: "rho", "epsilon" or "none": what the level is.
        finest: The largest level released.
        law: Of the noise, where more is known than the currency says: "gaussian", "poisson" or "skellam".
        keys: Keys of a unit.
        delta_infinity: Joint for all releases of the path.

    Example:
        >>> round(path_cost("epsilon", Fraction(1)).rho, 12)
        0.46211715726
    """
    if finest is None:
        return Cost(ZCDP if currency == NOT_ADDITIVE else currency, Fraction(0), 0.0)
    parts = (Part(law or currency, finest, keys),)
    if currency == ZCDP:
        return Cost(ZCDP, finest, float(finest), delta_infinity, parts)
    if currency == PURE:
        return Cost(PURE, finest, float(as_rho(finest)), delta_infinity, parts)
    return Cost(NOT_ADDITIVE, None, None, delta_infinity, parts)


def as_rho(epsilon: Fraction) -> Fraction:
    """A rho that every epsilon-DP release has; epsilon * tanh(epsilon / 2), above by a few units in the last place.

    Example:
        >>> 0 < as_rho(Fraction(2)) - 2 * Fraction(math.tanh(1.0)) < Fraction(1, 10**15)
        True
    """
    value = float(epsilon)
    return Fraction(value * math.tanh(value / 2)) * (1 + Fraction(1, 2**51))


def total_cost(costs: Iterable[Cost]) -> Cost:
    """Cost of independent paths, or of series over the same people: the sum.

    Example:
        >>> total_cost([path_cost("rho", Fraction(1, 2)), path_cost("rho", Fraction(1, 10))]).amount
        Fraction(3, 5)
        >>> total_cost([path_cost("rho", Fraction(1, 2)), path_cost("none", Fraction(1, 10))]).currency
        'none'
    """
    every = list(costs)
    spent = [cost for cost in every if cost.amount != 0]
    currencies = {cost.currency for cost in spent}
    parts = tuple(sorted(part for cost in every for part in cost.parts))
    added = (min(1.0, math.fsum(cost.delta_infinity for cost in every)), parts)
    if any(cost.rho is None for cost in spent):
        return Cost(NOT_ADDITIVE, None, None, *added)
    rho = math.fsum(cost.rho for cost in spent if cost.rho is not None)
    if len(currencies) > 1:
        return Cost(ZCDP, None, rho, *added)
    currency = currencies.pop() if currencies else ZCDP
    amounts = [cost.amount for cost in spent]
    if any(amount is None for amount in amounts):
        return Cost(currency, None, rho, *added)
    amount = sum((amount for amount in amounts if amount is not None), Fraction(0))
    return Cost(currency, amount, float(amount) if currency == ZCDP else rho, *added)


def shared_by_one_person(populations: Sequence[str], disjoint: Collection[frozenset[str]]) -> list[tuple[str, ...]]:
    """The largest sets of populations that one person may be in: every maximal one without two declared disjoint.

    Example:
        >>> shared_by_one_person(["a", "b", "c"], [frozenset("ab")])
        [('a', 'c'), ('b', 'c')]

    Source: Bron and Kerbosch 1973, Algorithm 457, with pivots.
    """
    together: Mapping[str, set[str]] = {
        one: {
            other
            for other in populations
            if other != one and not any({one, other} <= declared for declared in disjoint)
        }
        for one in populations
    }
    found: list[tuple[str, ...]] = []

    def extend(chosen: frozenset[str], possible: set[str], seen: set[str]) -> None:
        if len(found) > _MOST_SETS:
            return
        if not possible and not seen:
            found.append(tuple(sorted(chosen)))
            return
        pivot = max(sorted(possible | seen), key=lambda one: len(together[one] & possible))
        for one in sorted(possible - together[pivot]):
            extend(chosen | {one}, possible & together[one], seen & together[one])
            possible = possible - {one}
            seen = seen | {one}

    extend(frozenset(), set(populations), set())
    return sorted(found) if len(found) <= _MOST_SETS else [tuple(sorted(populations))]
