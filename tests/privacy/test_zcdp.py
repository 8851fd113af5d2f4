"""zCDP to (epsilon, delta) and back: the best order, to a relative 1e-9."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp

from sparsehist.privacy import zcdp
from tests.privacy import oracle_conversions as oracle

EPSILONS = [1e-4, 0.01, 1.0, 50.0]
DELTAS = [1e-300, 1e-30, 1e-6, 0.05, 0.5]
CLOSE = 1e-9


def check(epsilon: float, delta: float) -> None:
    """One target: its rho, and from that rho either of the two again, against a search over the orders."""
    rho = zcdp.largest_rho(epsilon, delta)
    with mp.workdps(50):
        assert oracle.apart(rho, oracle.zcdp_rho(epsilon, delta)) < CLOSE
        assert oracle.apart(zcdp.delta(epsilon, rho), oracle.zcdp_delta(epsilon, rho)) < CLOSE
        assert oracle.apart(zcdp.epsilon(delta, rho), oracle.zcdp_epsilon(delta, rho)) < CLOSE


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_conversions_agree_over_the_whole_range(epsilon: float) -> None:
    """rho, delta and epsilon from one another, from 1e-4 to 50 and from 1e-300 to a half."""
    for delta in DELTAS:
        check(epsilon, delta)


def test_pure_dp_is_concentrated_by_its_hyperbolic_tangent() -> None:
    """epsilon tanh(epsilon/2): half its square for small ones, itself for large ones, and between."""
    for epsilon in (1e-6, 0.01, 1.0, 50.0):
        with mp.workdps(40):
            assert oracle.apart(zcdp.from_pure(epsilon), epsilon * mp.tanh(mp.mpf(epsilon) / 2)) < CLOSE


POSITIVE = st.floats(-12, 6).map(lambda power: 10.0**power)


@given(epsilon=st.one_of(st.just(0.0), POSITIVE), rho=POSITIVE, power=st.floats(-300, -1e-9), step=st.floats(1e-9, 3))
def test_every_answer_is_finite_and_monotone(epsilon: float, rho: float, power: float, step: float) -> None:
    """delta falls with epsilon and rises with rho; epsilon falls with delta, rises with rho; rho rises with both."""
    delta = 10.0**power
    more = min(delta * (1 + step), 1 - 1e-9)
    here = zcdp.delta(epsilon, rho)
    assert 0.0 <= zcdp.delta(epsilon * (1 + step), rho) <= here * (1 + 1e-9)
    assert here <= zcdp.delta(epsilon, rho * (1 + step)) * (1 + 1e-9) <= 1.0 + 1e-9
    at = zcdp.epsilon(delta, rho)
    assert 0.0 <= at <= zcdp.epsilon(delta, rho * (1 + step)) * (1 + 1e-9) < math.inf
    largest = zcdp.largest_rho(epsilon, delta)
    assert 0.0 <= largest <= zcdp.largest_rho(epsilon * (1 + step), delta) * (1 + 1e-9) < math.inf
    if more > delta:
        assert zcdp.epsilon(more, rho) <= at * (1 + 1e-9)
        assert zcdp.largest_rho(epsilon, more) >= largest * (1 - 1e-9)
