"""The exact (epsilon, delta) of Gaussian noise: to a relative 1e-11, both ways."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp

from sparsehist.errors import DeclarationError
from sparsehist.privacy import gaussian, zcdp
from tests.privacy import oracle_conversions as oracle

EPSILONS = [1e-4, 0.01, 0.3, 1.0, 3.0, 10.0, 50.0]
DELTAS = [1e-300, 1e-200, 1e-60, 1e-20, 1e-12, 1e-6, 1e-3, 0.05, 0.3, 0.5]
CLOSE = 1e-11


def check(epsilon: float, delta: float) -> None:
    """Check one target: compute rho, and from it epsilon and delta again, against the printed formula."""
    rho = gaussian.largest_rho(epsilon, delta)
    with mp.workdps(80 + max(0, int(-math.log10(rho)))):
        exact = oracle.solved(lambda value: oracle.gaussian_delta(epsilon, value) / oracle.number(delta) - 1, rho)
        assert oracle.apart(rho, exact) < CLOSE
        assert oracle.apart(gaussian.delta(epsilon, rho), oracle.gaussian_delta(epsilon, rho)) < CLOSE
        back = gaussian.epsilon(delta, rho)
        if back == 0.0:
            assert oracle.gaussian_delta(0, rho) <= delta
        else:
            at = oracle.solved(lambda value: oracle.gaussian_delta(value, rho) / oracle.number(delta) - 1, back)
            assert oracle.apart(back, at) < CLOSE


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_conversions_agree_over_the_whole_range(epsilon: float) -> None:
    """rho, delta and epsilon from one another, from 1e-4 to 50 and from 1e-300 to a half."""
    for delta in DELTAS:
        check(epsilon, delta)


@pytest.mark.parametrize("rho", [1e-12, 1e-3, 1.0, 1e3, 1e6])
def test_small_and_huge_rho_keep_their_digits(rho: float) -> None:
    """mu from 1e-6 to 1e3, at an epsilon in the middle of its loss."""
    for share in (0.0, 0.1, 1.0, 3.0, 20.0):
        epsilon = share * math.sqrt(2 * rho) + (rho if share > 1 else 0.0)
        with mp.workdps(160):
            exact = oracle.gaussian_delta(epsilon, rho)
            assert oracle.apart(gaussian.delta(epsilon, rho), exact) < CLOSE


POSITIVE = st.floats(-10, 6).map(lambda power: 10.0**power)


@given(epsilon=st.one_of(st.just(0.0), POSITIVE), rho=POSITIVE, step=st.floats(1e-9, 3))
def test_delta_is_a_probability_that_falls_with_epsilon_and_rises_with_rho(
    epsilon: float, rho: float, step: float
) -> None:
    """No NaN, no overflow, and never above what zCDP alone promises, up to rounding."""
    delta = gaussian.delta(epsilon, rho)
    assert 0.0 <= delta <= 1.0
    assert gaussian.delta(epsilon * (1 + step), rho) <= delta * (1 + 1e-9)
    assert gaussian.delta(epsilon, rho * (1 + step)) >= delta * (1 - 1e-9)
    assert delta <= zcdp.delta(epsilon, rho) * (1 + 1e-9)


@given(
    power=st.floats(-300, -1e-9),
    epsilon=st.floats(-6, 1.7).map(lambda value: 10.0**value),
    rho=POSITIVE,
    step=st.floats(1e-9, 3),
)
def test_the_inverses_are_finite_and_monotone(power: float, epsilon: float, rho: float, step: float) -> None:
    """epsilon falls with delta and rises with rho; rho rises with both."""
    delta = 10.0**power
    more = min(delta * (1 + step), 1 - 1e-9)
    at = gaussian.epsilon(delta, rho)
    assert 0.0 <= at < math.inf
    assert gaussian.epsilon(delta, rho * (1 + step)) >= at * (1 - 1e-9) - 1e-12
    largest = gaussian.largest_rho(epsilon, delta)
    assert 0.0 < largest < math.inf
    assert gaussian.largest_rho(epsilon * (1 + step), delta) >= largest * (1 - 1e-9) - 1e-12
    if more > delta:
        assert gaussian.epsilon(more, rho) <= at * (1 + 1e-9) + 1e-12
        assert gaussian.largest_rho(epsilon, more) >= largest * (1 - 1e-9) - 1e-12


def test_nothing_released_costs_nothing() -> None:
    """rho 0."""
    assert gaussian.delta(0.0, 0) == 0.0
    assert gaussian.epsilon(1e-9, Fraction(0)) == 0.0


@pytest.mark.parametrize("wrong", [-1.0, math.nan, math.inf, True, "one"])
def test_what_is_no_parameter_is_refused_with_its_value(wrong: object) -> None:
    """Negative, not a number, infinite, a truth value, a text."""
    for call in (
        lambda: gaussian.delta(wrong, 1.0),
        lambda: gaussian.delta(1.0, wrong),
        lambda: gaussian.epsilon(wrong, 1.0),
        lambda: gaussian.largest_rho(1.0, wrong),
    ):
        with pytest.raises(DeclarationError, match=str(wrong)):
            call()


@pytest.mark.parametrize(("epsilon", "rho"), [(0.1, 4), (1, 9), (2, 8)])
def test_a_delta_that_is_no_small_tail_is_that_of_the_two_normal_laws(epsilon, rho):
    """Where epsilon is far below rho, by 30 digits of Phi(-x) - e**epsilon Phi(-x - mu)."""
    with mp.workdps(30):
        mu = mp.sqrt(2 * rho)
        x = mp.mpf(epsilon) / mu - mu / 2
        exact = float(mp.ncdf(-x) - mp.exp(epsilon) * mp.ncdf(-x - mu))
    assert gaussian.delta(epsilon, rho) == pytest.approx(exact, rel=1e-9)
