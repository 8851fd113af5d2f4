"""Tests that zCDP converts to (epsilon, delta) and back at the best Rényi order, accurate to nine digits."""

from __future__ import annotations

import pytest
from mpmath import mp

from sparsehist.privacy import zcdp
from tests.privacy import oracle_conversions as oracle

EPSILONS = [1e-4, 0.01, 1.0, 50.0]
DELTAS = [1e-300, 1e-30, 1e-6, 0.05, 0.5]
CLOSE = 1e-9


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_conversions_agree_over_the_whole_range(epsilon: float) -> None:
    """The rho, delta and epsilon of zCDP agree with a search over all Rényi orders."""
    for delta in DELTAS:
        rho = zcdp.largest_rho(epsilon, delta)
        with mp.workdps(50):
            assert oracle.apart(rho, oracle.zcdp_rho(epsilon, delta)) < CLOSE
            assert oracle.apart(zcdp.delta(epsilon, rho), oracle.zcdp_delta(epsilon, rho)) < CLOSE
            assert oracle.apart(zcdp.epsilon(delta, rho), oracle.zcdp_epsilon(delta, rho)) < CLOSE


def test_pure_dp_is_concentrated_by_its_hyperbolic_tangent() -> None:
    """The zCDP cost of an epsilon-DP release is rho = epsilon * tanh(epsilon/2), to a relative error of 1e-9."""
    for epsilon in (1e-6, 0.01, 1.0, 50.0):
        with mp.workdps(40):
            assert oracle.apart(zcdp.from_pure(epsilon), epsilon * mp.tanh(mp.mpf(epsilon) / 2)) < CLOSE
