"""The exact (epsilon, delta) of Gaussian noise: twelve digits, both ways, everywhere."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp
from scipy import special

from sparsehist.errors import DeclarationError
from sparsehist.privacy import gaussian, special_functions, zcdp
from sparsehist.privacy.special_functions import mills_ratio, normal_cdf
from tests.privacy import oracle_conversions as oracle

EPSILONS = [1e-6, 1e-4, 0.01, 0.3, 1.0, 3.0, 10.0, 50.0]
DELTAS = [1e-300, 1e-200, 1e-60, 1e-20, 1e-12, 1e-6, 1e-3, 0.05, 0.3, 0.5]
TWELVE = 5e-13


def check(epsilon: float, delta: float) -> None:
    """One target: its rho, and from that rho either of the two again, against the printed formula."""
    rho = gaussian.largest_rho(epsilon, delta)
    with mp.workdps(80 + max(0, int(-math.log10(rho)))):
        exact = oracle.solved(lambda value: oracle.gaussian_delta(epsilon, value) / oracle.number(delta) - 1, rho)
        assert oracle.apart(rho, exact) < TWELVE
        assert oracle.apart(gaussian.mu(epsilon, delta), mp.sqrt(2 * exact)) < TWELVE
        assert oracle.apart(gaussian.delta(epsilon, rho), oracle.gaussian_delta(epsilon, rho)) < TWELVE
        back = gaussian.epsilon(delta, rho)
        if back == 0.0:
            assert oracle.gaussian_delta(0, rho) <= delta
        else:
            at = oracle.solved(lambda value: oracle.gaussian_delta(value, rho) / oracle.number(delta) - 1, back)
            assert oracle.apart(back, at) < TWELVE


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_twelve_digits_over_the_whole_range(epsilon: float) -> None:
    """rho, mu, delta and epsilon from one another, from 1e-6 to 50 and from 1e-300 to a half."""
    for delta in DELTAS:
        check(epsilon, delta)


@pytest.mark.slow
def test_twelve_digits_on_a_dense_grid() -> None:
    """The same on 900 points, and on 300 above a half."""
    epsilons = [10 ** (-6 + 7.69 * step / 19) for step in range(20)]
    deltas = [10 ** (-300 * (1 - step / 44) - 0.30103) for step in range(45)]
    for epsilon, delta in itertools.product(epsilons, [*deltas, *(1 - 0.5 * 0.3**step for step in range(1, 16))]):
        check(epsilon, delta)


@pytest.mark.parametrize("rho", [1e-60, 1e-30, 1e-12, 1e-3, 1.0, 1e3, 1e6])
def test_tiny_and_huge_rho_keep_their_digits(rho: float) -> None:
    """mu from 1e-30 to 1e3, at an epsilon in the middle of its loss."""
    for share in (0.0, 0.1, 1.0, 3.0, 20.0):
        epsilon = share * math.sqrt(2 * rho) + (rho if share > 1 else 0.0)
        with mp.workdps(160):
            exact = oracle.gaussian_delta(epsilon, rho)
            assert oracle.apart(gaussian.delta(epsilon, rho), exact) < TWELVE


def test_an_epsilon_that_delta_barely_depends_on_has_its_digits() -> None:
    """At rho 0.9, a delta one part in a million below that of epsilon 0."""
    rho = 0.9
    for share in (1e-3, 1e-6, 1e-10):
        delta = gaussian.delta(0.0, rho) * (1 - share)
        with mp.workdps(60):
            epsilon = gaussian.epsilon(delta, rho)
            exact = oracle.solved(
                lambda value, delta=delta: oracle.gaussian_delta(value, rho) - oracle.number(delta), epsilon
            )
            assert oracle.apart(epsilon, exact) < TWELVE


POSITIVE = st.floats(-40, 6).map(lambda power: 10.0**power)


@given(epsilon=st.one_of(st.just(0.0), POSITIVE), rho=POSITIVE, step=st.floats(1e-9, 3))
def test_delta_is_a_probability_that_falls_with_epsilon_and_rises_with_rho(
    epsilon: float, rho: float, step: float
) -> None:
    """No NaN, no overflow, and never above what zCDP alone promises, up to rounding."""
    delta = gaussian.delta(epsilon, rho)
    assert 0.0 <= delta <= 1.0
    assert gaussian.delta(epsilon * (1 + step), rho) <= delta * (1 + 1e-13)
    assert gaussian.delta(epsilon, rho * (1 + step)) >= delta * (1 - 1e-13)
    assert delta <= zcdp.delta(epsilon, rho) * (1 + 1e-13)


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
    assert gaussian.epsilon(delta, rho * (1 + step)) >= at * (1 - 1e-12)
    largest = gaussian.largest_rho(epsilon, delta)
    assert 0.0 < largest < math.inf
    assert gaussian.largest_rho(epsilon * (1 + step), delta) >= largest * (1 - 1e-12)
    if more > delta:
        assert gaussian.epsilon(more, rho) <= at * (1 + 1e-12)
        assert gaussian.largest_rho(epsilon, more) >= largest * (1 - 1e-12)


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


def test_the_mills_ratio_of_one_number_is_that_of_scipy():
    """What needs no scipy agrees with it, on both sides of the change of method and far in the tail."""
    x = np.concatenate([np.linspace(-6.0, 45.0, 2001), np.geomspace(45.0, 1e8, 200)])
    ours = np.array([mills_ratio(value) for value in x.tolist()])
    assert np.abs(ours / (math.sqrt(math.pi / 2) * special.erfcx(x / math.sqrt(2))) - 1).max() < 1e-14
    near = np.linspace(-8.0, 8.0, 1001)
    assert np.abs([normal_cdf(value) for value in near.tolist()] / special.ndtr(near) - 1).max() < 2e-14


def test_logarithms_of_a_few_numbers_are_those_of_many():
    """Few numbers take another way than many: both agree, and the inverse is one, in both tails."""
    x = np.concatenate([-np.geomspace(1e-3, 1e6, 400), np.linspace(-3, 30, 400), np.linspace(-40, -35, 400)])
    ours = special_functions.log_ndtr(x)
    assert np.abs(ours / special.log_ndtr(x) - 1)[x < 6].max() < 1e-13
    assert np.abs(ours - special.log_ndtr(x))[x > 0].max() < 2e-16
    assert np.isnan(special_functions.log_ndtr(math.nan)) and special_functions.log_ndtr(math.inf) == 0.0
    y = np.concatenate([-np.geomspace(1e-12, 1e12, 400), [-math.log(2.0)]])
    inverse = np.array([special_functions.ndtri_exp(value) for value in y.tolist()])
    assert np.abs(special.log_ndtr(inverse) / y - 1)[y > -1e300].max() < 1e-11
    assert np.abs(inverse - special.ndtri_exp(y)).max() < 1e-9 * np.abs(inverse).max()
    ends = [special_functions.ndtri_exp(end) for end in (-math.inf, 0.0)]
    assert ends == [-math.inf, math.inf] and special_functions.log_ndtr(-math.inf) == -math.inf
