"""Guarantees as values: what each implies, what it refuses, how it reads."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError
from fractions import Fraction

import pytest

import sparsehist as sh
from sparsehist.errors import DeclarationError, LevelError
from sparsehist.privacy import Epsilon, EpsilonDelta, Mu, Rho, gaussian, pure, zcdp
from sparsehist.privacy.guarantees import level_or_goal


def test_values_are_exact_frozen_and_equal_however_written() -> None:
    """0.1 is 1/10, in every one of them."""
    assert Rho(0.1) == Rho("1/10") == Rho(Fraction(1, 10))
    assert EpsilonDelta(1, 1e-6) == EpsilonDelta("1", "0.000001")
    assert len({Epsilon(0.1), Epsilon("0.1")}) == 1
    assert Mu(1) != Rho(1)
    with pytest.raises(FrozenInstanceError):
        Rho(0.1).value = Fraction(1)  # type: ignore[misc]


def test_each_says_what_it_implies() -> None:
    """The conversions are those of the modules, at the exact value."""
    assert Rho("0.1").epsilon(1e-6) == zcdp.epsilon(1e-6, Fraction(1, 10))
    assert Rho("0.1", "1e-9").delta(1.0) == zcdp.delta(1.0, Fraction(1, 10), Fraction(1, 10**9))
    assert Mu("0.5").delta(1.0) == gaussian.delta(1.0, Fraction(1, 8))
    assert Mu("0.5").epsilon(1e-6) == gaussian.epsilon(1e-6, 0.125)
    assert Mu("0.5").rho() == Rho("0.125")
    assert Epsilon(1).delta(0.5, times=3) == pure.delta(0.5, 1, 3)
    assert Epsilon(1).epsilon(1e-6, times=3) == pure.epsilon(1e-6, 1, 3)
    assert Epsilon(1).rho() == Rho(zcdp.from_pure(1))
    assert Mu.of_gaussian("0.5") == Mu(1)
    assert EpsilonDelta(1, 1e-6).largest_rho() == zcdp.largest_rho(1, 1e-6)
    assert EpsilonDelta(1, 1e-6).largest_mu() == pytest.approx(gaussian.mu(1, 1e-6), rel=1e-14)


def test_they_read_as_people_write_them() -> None:
    """The text of each."""
    texts = [str(value) for value in (Epsilon("0.5"), Mu(1), Rho("1/3"), Rho(1, "1e-9"), EpsilonDelta("0.5", 1e-300))]
    assert texts == ["0.5-DP", "1-GDP", "1/3-zCDP", "1e-09-approximate 1-zCDP", "(0.5, 1e-300)-DP"]


@pytest.mark.parametrize("wrong", [-1, math.nan, math.inf, "x", True, None, "1e99999999"])
def test_what_is_no_amount_is_refused(wrong: object) -> None:
    """By name and value; 0 is an amount."""
    for make, name in ((Rho, "rho"), (Mu, "mu"), (Epsilon, "epsilon")):
        assert make(0).value == 0
        with pytest.raises(DeclarationError, match=name):
            make(wrong)  # type: ignore[arg-type]
    with pytest.raises(DeclarationError, match="delta"):
        EpsilonDelta(1, wrong)  # type: ignore[arg-type]
    with pytest.raises(DeclarationError, match="delta"):
        EpsilonDelta(1, 1.5)
    with pytest.raises(DeclarationError, match="delta_infinity"):
        Rho(1, wrong)  # type: ignore[arg-type]


def test_the_names_are_public() -> None:
    """Everything listed is there, and imported no sooner than asked for."""
    for name in sh.privacy.__all__:
        assert getattr(sh.privacy, name) is not None
    with pytest.raises(AttributeError, match="nothing"):
        _ = sh.privacy.nothing


@pytest.mark.parametrize("text", ["epsilon_delta(0, 1e-6)", "epsilon_delta(1, 1)"])
def test_what_stands_for_no_level_says_why(text: str) -> None:
    """As text and as numbers alike: 0 is an epsilon, but no level keeps to it."""
    with pytest.raises(LevelError, match="stands for no level: epsilon must be positive, and delta below 1"):
        level_or_goal(text)


@pytest.mark.parametrize("delta", ["1/3", "1e-6", "1e-300", "0"])
def test_a_goal_is_read_back_from_its_text(delta):
    """Also where its delta is no decimal."""
    goal = EpsilonDelta("2/7", delta)
    assert EpsilonDelta.parse(goal.text) == goal
