"""Tests of `total_cost`, which adds up the privacy costs of noise paths."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

import pytest

from sparsehist.privacy import path_cost, total_cost
from sparsehist.privacy.composition import as_rho, shared_by_one_person

HALF, TENTH = Fraction(1, 2), Fraction(1, 10)


def test_one_currency_adds_exactly() -> None:
    """Costs of 0.5 and 0.1 in one currency, rho or epsilon, add up to exactly 3/5."""
    for currency in ("rho", "epsilon"):
        total = total_cost([path_cost(currency, HALF), path_cost(currency, TENTH), path_cost(currency, None)])
        assert (total.currency, total.amount) == (currency, Fraction(3, 5))


def test_pure_and_concentrated_costs_add_as_rho() -> None:
    """If costs in epsilon and in rho are added, a cost of epsilon counts as a rho of epsilon * tanh(epsilon/2)."""
    total = total_cost([path_cost("rho", HALF), path_cost("epsilon", Fraction(1))])
    assert total.currency == "rho"
    assert total.amount is None
    assert total.rho == pytest.approx(0.5 + math.tanh(0.5))
    for epsilon in (0.1, 1.0, 40.0):  # never rounded down
        exact = epsilon * math.tanh(epsilon / 2)
        assert exact <= as_rho(Fraction(str(epsilon))) <= exact * (1 + 1e-15)


def test_a_guarantee_without_rho_is_never_added() -> None:
    """If a noise path with releases has no zCDP guarantee, then `rho` and `amount` of the total cost are None."""
    total = total_cost([path_cost("rho", HALF), path_cost("none", TENTH)])
    assert (total.currency, total.amount, total.rho) == ("none", None, None)
    assert total_cost([path_cost("rho", HALF), path_cost("none", None)]).amount == HALF
    assert total_cost([]).amount == 0


def test_the_delta_of_open_domains_adds_up():
    """The probabilities that an open domain publishes a key of only one unit add up over series."""
    apart = [path_cost("rho", Fraction(1, 2), delta_infinity=delta) for delta in (1e-6, 2e-6)]
    assert total_cost(apart).delta_infinity == pytest.approx(3e-6, rel=1e-12)


@pytest.mark.parametrize("disjoint", [[], ["ab"], ["ab", "bc"], ["abc"], ["ab", "cd"], ["abcd"]])
def test_one_person_is_in_any_largest_set_without_two_disjoint_populations(disjoint: list[str]) -> None:
    """The largest sets of populations that one person can belong to agree with a brute-force search."""
    pairs = [set(pair) for declared in disjoint for pair in combinations(declared, 2)]
    sets = [set(some) for size in range(5) for some in combinations("abcd", size)]
    possible = [some for some in sets if not any(pair <= some for pair in pairs)]
    largest = [tuple(sorted(some)) for some in possible if not any(some < other for other in possible)]
    assert shared_by_one_person("abcd", {frozenset(each) for each in disjoint}) == sorted(largest)
