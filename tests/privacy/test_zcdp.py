"""zCDP to (epsilon, delta) and back: the best order, to a relative 1e-9."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp

from sparsehist.errors import DeclarationError
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


def test_an_event_apart_takes_its_share_of_delta() -> None:
    """delta is delta_infinity and the rest of the one that rho gives; the inverses undo it."""
    slack, rho = 1e-7, 0.3
    together = zcdp.delta(3.0, rho, slack)
    assert together == pytest.approx(slack + (1 - slack) * zcdp.delta(3.0, rho), rel=1e-12)
    assert zcdp.epsilon(together, rho, slack) == pytest.approx(3.0, rel=1e-9)
    assert zcdp.largest_rho(3.0, together, slack) == pytest.approx(rho, rel=1e-9)
    assert zcdp.epsilon(1e-6, rho, 1e-7) > zcdp.epsilon(1e-6, rho)
    assert zcdp.delta(1.0, 0.0, slack) == slack
    with pytest.raises(DeclarationError, match="1e-07"):
        zcdp.epsilon(1e-7, rho, slack)
    with pytest.raises(DeclarationError, match="below 1"):
        zcdp.delta(1.0, rho, 1.0)


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
