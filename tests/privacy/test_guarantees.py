"""Guarantees as values: what each implies, what it refuses, how it reads."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp

import sparsehist as sh
from sparsehist.errors import DeclarationError, LevelError
from sparsehist.privacy import Epsilon, EpsilonDelta, Mu, Rho, gaussian, pure, zcdp
from sparsehist.privacy.guarantees import level_or_goal
from tests.privacy import oracle_conversions as oracle


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


def test_what_does_not_exist_is_refused_with_the_way_out() -> None:
    """No rho from (epsilon, delta), no mu from zCDP: and what to ask instead."""
    with pytest.raises(DeclarationError, match=r"\(1, 1e-06\)-DP implies no rho-zCDP.*largest_rho"):
        EpsilonDelta(1, 1e-6).rho()
    with pytest.raises(DeclarationError, match=r"implies no mu-GDP.*largest_mu"):
        EpsilonDelta(1, 1e-6).mu()
    with pytest.raises(DeclarationError, match=r"0\.1-zCDP implies no mu-GDP.*of_gaussian"):
        Rho("0.1").mu()
    with pytest.raises(DeclarationError, match="smaller delta"):
        EpsilonDelta(1, 1e-6).weakened(delta=1e-9)
    with pytest.raises(DeclarationError, match="not both"):
        EpsilonDelta(1, 1e-6).weakened(epsilon=1, delta=1e-3)


def test_sums_are_of_one_kind() -> None:
    """rho, epsilon and delta add, mu by squares; unlike kinds do not."""
    assert Rho("0.1", "1e-9") + Rho("0.2") == Rho("0.3", "1e-9")
    assert Epsilon("0.1") + Epsilon("0.2") == Epsilon("0.3")
    assert Mu(3) + Mu(4) == Mu(5)
    assert EpsilonDelta(1, "1e-6") + EpsilonDelta(2, "1e-6") == EpsilonDelta(3, "2e-6")
    for first, second in (
        (Rho(1), Mu(1)),
        (Epsilon(1), Rho(1)),
        (Mu(1), Epsilon(1)),
        (EpsilonDelta(1, 0), Epsilon(1)),
    ):
        with pytest.raises(TypeError):
            first + second  # type: ignore[operator]


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 0.5, 0.999, 1.0, 1.001, 5.0, 50.0])
def test_the_gaussian_that_a_pure_guarantee_implies_touches_it(epsilon: float) -> None:
    """To twelve digits; its delta is nowhere below, and equal at epsilon 0."""
    mu = Epsilon(epsilon).mu()
    with mp.workdps(80):
        corner = 1 / (1 + mp.exp(-mp.mpf(epsilon)))
        exact = oracle.solved(lambda value: mp.ncdf(value / 2) - corner, float(mu.value))
        assert oracle.apart(float(mu.value), exact) < 5e-13
    assert mu.delta(0.0) == pytest.approx(Epsilon(epsilon).delta(0.0), rel=1e-12)
    for share in (0.1, 0.5, 0.9, 1.5):
        assert mu.delta(share * epsilon) >= Epsilon(epsilon).delta(share * epsilon) * (1 - 1e-12)


@given(epsilon=st.floats(1e-3, 5), power=st.floats(-12, -1), share=st.floats(1e-3, 0.999))
def test_a_weaker_statement_follows_and_leads_back(epsilon: float, power: float, share: float) -> None:
    """At a smaller epsilon delta is larger; at that delta epsilon is that one again."""
    strong = EpsilonDelta(epsilon, 10.0**power)
    weak = strong.weakened(epsilon=share * epsilon)
    assert weak.epsilon < strong.epsilon
    assert weak.delta >= strong.delta
    again = strong.weakened(delta=weak.delta)
    assert float(again.epsilon) == pytest.approx(share * epsilon, rel=1e-9)
    assert strong.weakened(epsilon=2 * epsilon).delta == strong.delta


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
