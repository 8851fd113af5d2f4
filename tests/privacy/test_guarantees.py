"""Tests that `EpsilonDelta` converts to rho and mu, refuses invalid numbers, and can be parsed from its string."""

from __future__ import annotations

import math

import pytest

from sparsehist.errors import DeclarationError, LevelError
from sparsehist.privacy import EpsilonDelta, gaussian, zcdp
from sparsehist.privacy.guarantees import level_or_goal


def test_a_goal_says_what_implies_it():
    """An (epsilon, delta) goal converts to the largest rho and the largest mu that imply it."""
    goal = EpsilonDelta(1, 1e-6)
    assert goal == EpsilonDelta("1", "0.000001") and len({goal, EpsilonDelta("1", "1/1000000")}) == 1
    assert goal.largest_rho() == zcdp.largest_rho(1, 1e-6)
    assert goal.largest_mu() ** 2 / 2 == pytest.approx(gaussian.largest_rho(1, 1e-6), rel=1e-14)
    assert str(EpsilonDelta("0.5", 1e-300)) == "(0.5, 1e-300)-DP"


@pytest.mark.parametrize("wrong", [-1, math.nan, math.inf, "x", True, None, "1e99999999", [1]])
def test_what_is_no_amount_is_refused_by_name(wrong):
    """Negative, infinite and non-numeric parameters, and a delta above 1, are refused with the parameter name."""
    for given, name in (((wrong, 0), "epsilon"), ((0, wrong), "delta"), ((0, 1.5), "delta")):
        with pytest.raises(DeclarationError, match=name):
            EpsilonDelta(*given)


@pytest.mark.parametrize("text", ["epsilon_delta(0, 1e-6)", "epsilon_delta(1, 1)"])
def test_a_goal_that_no_level_keeps_to_is_no_level(text):
    """A goal with an epsilon of 0 or a delta of 1 is not accepted as a level, because no noise level matches it."""
    with pytest.raises(LevelError, match="epsilon must be positive, and delta below 1"):
        level_or_goal(text)


@pytest.mark.parametrize("delta", ["1/3", "1e-6", "1e-300", "0"])
def test_a_goal_is_read_back_from_its_text(delta):
    """The text of an (epsilon, delta) value reads back as an equal value, even if delta is a fraction."""
    goal = EpsilonDelta("2/7", delta)
    assert EpsilonDelta.parse(goal.text) == goal
