"""Exact composition of pure DP: twelve digits for one release and for a million."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp

from sparsehist.errors import DeclarationError
from sparsehist.privacy import gaussian, pure
from tests.privacy import oracle_conversions as oracle

TWELVE = 5e-13


def check(each: float, times: int) -> None:
    """One number of releases: delta at several epsilons and epsilon at several deltas."""
    with mp.workdps(60):
        for share in (0.0, 1e-6, 0.1, 0.5, 0.9, 1 - 1e-6):
            epsilon = share * times * each
            exact = oracle.pure_delta(epsilon, each, times)
            if exact > 1e-300:
                assert oracle.apart(pure.delta(epsilon, each, times), exact) < TWELVE
        for delta in (1e-300, 1e-30, 1e-6, 0.01, 0.5):
            at = pure.epsilon(delta, each, times)
            if at == 0.0:
                assert oracle.pure_delta(0, each, times) <= delta
            elif at < times * each * (1 - 1e-9):
                exact = oracle.solved(
                    lambda value, delta=delta: oracle.pure_delta(value, each, times) / delta - 1, at
                )
                assert oracle.apart(at, exact) < TWELVE
            else:
                assert oracle.pure_delta(at * (1 - 1e-6), each, times) > delta


@pytest.mark.parametrize("each", [1e-6, 0.01, 1.0, 50.0])
@pytest.mark.parametrize("times", [1, 2, 7, 60])
def test_twelve_digits_over_the_whole_range(each: float, times: int) -> None:
    """delta and epsilon from one another, from 1e-6 to 50 each and from 1e-300 to a half, against the printed sum."""
    check(each, times)


@pytest.mark.slow
@pytest.mark.parametrize("times", [3, 20, 300, 1000])
def test_twelve_digits_on_a_dense_grid(times: int) -> None:
    """The same for more of each."""
    for step in range(24):
        check(10 ** (-6 + 7.69 * step / 23), times)


def test_a_thousand_releases_have_the_reference_value() -> None:
    """k = 1000, epsilon 1/20, together 7.5: the decimal 0.05 is not quite the number."""
    assert pure.delta(7.5, Fraction(1, 20), 1000) == pytest.approx(9.7683797028869858238e-6, rel=1e-15)


def test_a_million_releases_are_a_gaussian_but_for_what_a_million_leaves() -> None:
    """Their loss is nearly normal: mu = 2 sqrt(k) sinh(e/2)/cosh(e/2), and delta agrees to three digits."""
    each, times = 1e-3, 10**6
    mu = 2 * math.sqrt(times) * math.tanh(each / 2)
    for epsilon in (0.0, 0.5, 3.0):
        assert pure.delta(epsilon, each, times) == pytest.approx(gaussian.delta(epsilon, mu**2 / 2), rel=1e-4)
    assert pure.epsilon(pure.delta(3.0, each, times), each, times) == pytest.approx(3.0, rel=1e-13)


@given(
    each=st.floats(-30, 3).map(lambda power: 10.0**power),
    times=st.integers(1, 3000),
    share=st.floats(0, 1),
    step=st.floats(1e-9, 1),
    power=st.floats(-300, -1e-9),
)
def test_every_answer_is_finite_and_monotone(
    each: float, times: int, share: float, step: float, power: float
) -> None:
    """delta falls with epsilon and rises with each release and each epsilon; epsilon falls with delta."""
    epsilon, delta = share * each * times, 10.0**power
    here = pure.delta(epsilon, each, times)
    assert 0.0 <= pure.delta(epsilon * (1 + step), each, times) <= here <= 1.0
    assert here <= pure.delta(epsilon, each, times + 1) * (1 + 1e-15)
    assert here <= pure.delta(epsilon, each * (1 + step), times)
    at = pure.epsilon(delta, each, times)
    assert 0.0 <= pure.epsilon(min(delta * (1 + step), 1 - 1e-9), each, times) <= at * (1 + 1e-15) or delta > 0.9
    assert at <= each * times * (1 + 1e-15)


def test_what_cannot_be_composed_is_refused() -> None:
    """No release at all, a part of one, more than can be summed."""
    for times in (0, 2.5, 10**9, True):
        with pytest.raises(DeclarationError, match="times"):
            pure.delta(1.0, 0.1, times)
    assert pure.epsilon(1e-6, 0, 10) == 0.0
    assert pure.delta(0.0, 0, 10) == 0.0
