"""Tests that the stated delta of an open domain is an upper bound on the exact delta, and close to it."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from sparsehist.errors import DeclarationError
from sparsehist.histogram.grid import effective_threshold, published_step
from sparsehist.histogram.open_domain import OpenBudget, exposure
from sparsehist.noise import DiscreteLaplace, Gaussian, Laplace, Poisson, Skellam
from tests.histogram.exact_exceedances import ever_exceeds, exceedance, first_exceedance, probability

FAMILIES: dict[str, tuple[Any, list[str]]] = {
    "gaussian": (Gaussian(), ["0.2", "0.05", "0.5", "0.1"]),
    "laplace": (Laplace(), ["1", "0.5", "2", "0.7"]),
    "discrete_laplace": (DiscreteLaplace(), ["1", "0.5", "2", "0.7"]),
    "poisson": (Poisson(), ["0.1", "0.05", "0.2", "0.07"]),
    "skellam": (Skellam(), ["0.1", "0.05", "0.2", "0.07"]),
}
STEP = 0
# Relative tolerance: larger for Laplace noise, because its exact probabilities are computed as sums over a grid.
SLACK = {"laplace": 1e-3}


def spend(family: Any, delta: str, levels: list[str], keys: int = 1) -> tuple[OpenBudget, list[tuple[str, float]]]:
    """Spend half of the remaining delta at each level; return what remains and (level, effective threshold) pairs."""
    budget, releases = OpenBudget(Fraction(delta), [(1, keys)]), []
    for level in levels:
        point = (STEP, Fraction(level))
        declared = budget.lowest_threshold(point, family, budget.remaining / 2)
        effective = effective_threshold(declared, published_step(family, level))
        budget = budget.after(point, family, effective)
        releases.append((level, effective))
    return budget, releases


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("delta", ["1e-6", pytest.param("1e-3", marks=pytest.mark.slow)])
def test_the_exact_probability_is_below_the_stated_delta_in_every_order_of_rounds(name: str, delta: str) -> None:
    """The stated delta of an open domain is 1 to 1.6 times the exact delta, in whatever order levels are released."""
    family, levels = FAMILIES[name]
    for order in itertools.permutations(levels):
        budget, releases = spend(family, delta, [*order, order[1]])
        exact = ever_exceeds(family, [(level, bound - 1) for level, bound in releases])
        stated = float(budget.delta_infinity)
        assert exact <= stated * (1 + SLACK.get(name, 1e-9))
        assert stated <= float(delta)
        assert stated < 1.6 * exact


@pytest.mark.parametrize("name", FAMILIES)
def test_the_stated_delta_is_the_same_in_every_order_for_the_same_thresholds(name: str) -> None:
    """The stated delta of an open domain does not depend on the order of the releases."""
    family, levels = FAMILIES[name]
    _, releases = spend(family, "1e-3", levels)
    releases.append((releases[0][0], releases[0][1] + 1))
    sums = set()
    for order in itertools.permutations(releases):
        budget = OpenBudget(Fraction("1e-2"), [(1, 2)])
        for level, bound in order:
            budget = budget.after((STEP, Fraction(level)), family, bound)
        sums.add(budget.delta_infinity)
    assert len(sums) == 1


def test_a_unit_with_several_keys_and_a_unit_that_adds_more_to_each() -> None:
    """The stated delta covers a unit that raises 20 counts by 1 each and a unit that raises two counts by 3 each."""
    family, kinds = Gaussian(), [(1, 20), (3, 2)]
    budget, releases = OpenBudget(Fraction("1e-4"), kinds), []
    for level in ("0.5", "0.1", "0.3"):
        point = (STEP, Fraction(level))
        declared = budget.lowest_threshold(point, family, budget.remaining / 2)
        releases.append((level, effective_threshold(declared, published_step(family, level))))
        budget = budget.after(point, family, releases[-1][1])
    exact = []
    for added, keys in kinds:
        shown = ever_exceeds(family, [(level, bound - added) for level, bound in releases])
        exact.append(1 - (1 - shown) ** keys)
    assert max(exact) <= budget.delta_infinity <= 1.4 * max(exact)


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_a_lowest_threshold_fits_and_the_next_lower_one_does_not(data: st.DataObject) -> None:
    """The lowest threshold keeps a release within its share of delta; a threshold one grid step lower does not."""
    family, levels = FAMILIES[data.draw(st.sampled_from(sorted(FAMILIES)))]
    keys = data.draw(st.sampled_from([1, 5, 300]))
    budget = OpenBudget(Fraction(data.draw(st.sampled_from(["1e-12", "1e-6", "0.3"]))), [(1, keys), (2, 1)])
    for level in data.draw(st.lists(st.sampled_from(levels), min_size=1, max_size=4)):
        point, step = (STEP, Fraction(level)), published_step(family, level)
        part = budget.remaining * data.draw(st.floats(1e-3, 1))
        declared = budget.lowest_threshold(point, family, part)
        assert budget.added(point, family, effective_threshold(declared, step)) <= Fraction(part)
        below = effective_threshold(declared - step, step)
        assert budget.added(point, family, below) > Fraction(part)
        budget = budget.after(point, family, effective_threshold(declared, step))
        assert budget.delta_infinity <= budget.delta
        assert budget.remaining <= budget.delta - budget.delta_infinity


@pytest.mark.parametrize("delta", [0.0, 2e-6])
def test_no_threshold_is_named_for_a_delta_that_does_not_remain(delta: float) -> None:
    """Computing a threshold for a delta of 0, or for a delta larger than what remains, is refused."""
    with pytest.raises(DeclarationError, match="at most 1e-06"):
        OpenBudget(Fraction("1e-6"), [(1, 1)]).lowest_threshold((STEP, Fraction(1)), Gaussian(), delta)


def test_the_exact_law_of_these_tests_is_right() -> None:
    """The functions that compute exact probabilities for these tests are correct.

    At one level, the probability that a cell exceeds its threshold is the tail probability of the noise. Given two
    earlier levels, it equals a value that was computed independently. The order of two levels does not matter.
    """
    family = Gaussian()
    assert exceedance(family, [], "0.2", 5.0) == pytest.approx(float(ndtr(-5 / family.std("0.2"))), rel=1e-11)
    past = [(level, 3 * family.std(level)) for level in ("0.1", "0.2")]
    assert exceedance(family, past, "0.4", 3 * family.std("0.4")) == pytest.approx(0.0010829580920688728603, rel=1e-9)
    for name, (other, levels) in FAMILIES.items():
        tail = float(other.tail(3.5, levels[0]))
        assert probability(other, {Fraction(levels[0]): (3.5, 1e9)}) == pytest.approx(tail, rel=SLACK.get(name, 1e-9))
        two = [(levels[0], 3.5), (levels[1], 4.5)]
        assert ever_exceeds(other, two) == pytest.approx(ever_exceeds(other, two[::-1]), rel=SLACK.get(name, 1e-9))
        assert first_exceedance(other, two[:1], levels[1], 4.5) < 0.95 * float(other.tail(4.5, levels[1]))


def test_the_exposure_of_one_release_is_that_of_the_family() -> None:
    """The probability that a release publishes a key of a single unit is accurate to 12 digits, even near 1e-197."""
    found = exposure(Gaussian(), Fraction("0.5"), 31.0, [(1, 1), (1, 20)])
    assert [float(each) for each in found] == pytest.approx(
        [4.906713927148187e-198, 9.813427854296374e-197], rel=1e-12
    )
