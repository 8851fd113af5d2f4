"""Tests that every privacy conversion gives finite and monotone results and refuses invalid parameters."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsehist.errors import DeclarationError
from sparsehist.privacy import gaussian, poisson, pure, skellam, zcdp


def powers(low: float, high: float):
    """Return a hypothesis strategy for numbers from 10**low to 10**high whose logarithms are uniform."""
    return st.floats(low, high).map(lambda power: 10.0**power)


STEP = st.floats(1e-9, 3)
RHO = st.builds(lambda rho, step: [(rho,), (rho * (1 + step),)], powers(-12, 6), STEP)
# For each guarantee: its conversions, and a hypothesis strategy for lists of costs that begin with the smallest one.
LAWS = {
    "gaussian": (gaussian, RHO),
    "zcdp": (zcdp, RHO),
    "pure": (
        pure,
        st.builds(
            lambda each, times, step: [(each, times), (each, times + 1), (each * (1 + step), times)],
            powers(-9, 3), st.integers(1, 3000), STEP,
        ),
    ),
    "skellam": (
        skellam,
        st.builds(
            lambda mean, keys: [(1 / mean, keys), (1 / mean, keys + 1)],
            powers(-3, 9).map(lambda mean: Fraction(mean).limit_denominator(10**6)), st.integers(1, 50),
        ),
    ),
}  # fmt: skip
ROUNDING = 1 + 1e-9


@pytest.mark.parametrize("law", LAWS)
@given(data=st.data(), power=st.floats(-300, -1e-9), step=STEP)
def test_every_answer_is_finite_and_monotone(law: str, data: st.DataObject, power: float, step: float) -> None:
    """Delta falls with epsilon and rises with the privacy cost, epsilon falls with delta, and both stay in range."""
    conversions, costs = LAWS[law]
    cost, *larger = data.draw(costs)
    whole = cost[0] * cost[1] if law == "pure" else 1.0
    asked, delta = whole * data.draw(st.one_of(st.just(0.0), powers(-6, 1.7))), 10.0**power
    here, at = conversions.delta(asked, *cost), conversions.epsilon(delta, *cost)
    assert 0.0 <= conversions.delta(asked * (1 + step), *cost) <= here * ROUNDING <= ROUNDING**2
    more = min(delta * (1 + step), 1 - 1e-9)
    # Near delta = 1, epsilon depends on the last digits of delta and need not be monotone.
    sharp = delta <= 0.9 or law in {"gaussian", "zcdp"}
    if sharp and more > delta:
        assert 0.0 <= conversions.epsilon(more, *cost) <= at * ROUNDING + 1e-12
    for each in larger:
        assert here <= conversions.delta(asked, *each) * ROUNDING <= ROUNDING**2
        assert not sharp or at <= conversions.epsilon(delta, *each) * ROUNDING + 1e-12 < math.inf
    if law == "pure":
        assert at <= whole * ROUNDING
    if law == "gaussian":
        assert here <= zcdp.delta(asked, *cost) * ROUNDING


@pytest.mark.parametrize("law", ["gaussian", "zcdp"])
@given(epsilon=powers(-6, 1.7), power=st.floats(-300, -1e-9), step=STEP)
def test_the_largest_rho_rises_with_epsilon_and_delta(law: str, epsilon: float, power: float, step: float) -> None:
    """The largest rho that implies (epsilon, delta) is positive and finite, and rises with epsilon and with delta."""
    largest_rho, delta = LAWS[law][0].largest_rho, 10.0**power
    largest = largest_rho(epsilon, delta)
    assert 0.0 < largest <= largest_rho(epsilon * (1 + step), delta) * ROUNDING + 1e-12 < math.inf
    assert largest <= largest_rho(epsilon, min(delta * (1 + step), 1 - 1e-9)) * ROUNDING + 1e-12 or delta > 1 - 1e-9


@pytest.mark.parametrize("wrong", [-1.0, math.nan, math.inf, True, "one"])
@pytest.mark.parametrize("law", [gaussian, zcdp, pure, skellam, poisson], ids=lambda law: law.__name__)
def test_what_is_no_parameter_is_refused_with_its_value(law: object, wrong: object) -> None:
    """Negative, infinite, boolean, text and NaN parameters are refused, and the error quotes the value."""
    cost = (0.1, 3) if law is pure else (0.1,)
    for refused in (
        lambda: law.delta(wrong, *cost), lambda: law.delta(1.0, wrong, *cost[1:]), lambda: law.epsilon(wrong, *cost)
    ):  # fmt: skip
        with pytest.raises(DeclarationError, match=str(wrong)):
            refused()
