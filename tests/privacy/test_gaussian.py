"""Tests that the conversions of Gaussian noise between rho, epsilon and delta have a relative error below 1e-11."""

from __future__ import annotations

import math

import pytest
from mpmath import mp, mpf

from sparsehist.privacy import gaussian
from tests.privacy import oracle_conversions as oracle

EPSILONS = [1e-4, 0.01, 0.3, 1.0, 3.0, 10.0, 50.0]
DELTAS = [1e-300, 1e-200, 1e-60, 1e-20, 1e-12, 1e-6, 1e-3, 0.05, 0.3, 0.5]
CLOSE = 1e-11


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_conversions_agree_over_the_whole_range(epsilon: float) -> None:
    """The delta, the epsilon and the largest allowed rho of Gaussian noise agree with the published formula."""
    for delta in DELTAS:
        rho = gaussian.largest_rho(epsilon, delta)
        with mp.workdps(80 + max(0, int(-math.log10(rho)))):

            def off(at: float, noise: float, delta: float = delta) -> mpf:
                return oracle.gaussian_delta(at, noise) / oracle.number(delta) - 1

            assert oracle.apart(rho, oracle.solved(lambda value: off(epsilon, value), rho)) < CLOSE
            assert oracle.apart(gaussian.delta(epsilon, rho), oracle.gaussian_delta(epsilon, rho)) < CLOSE
            back = gaussian.epsilon(delta, rho)
            if back == 0.0:
                assert oracle.gaussian_delta(0, rho) <= delta
            else:
                assert oracle.apart(back, oracle.solved(lambda value, rho=rho: off(value, rho), back)) < CLOSE


@pytest.mark.parametrize("rho", [1e-12, 1e-3, 1.0, 1e3, 1e6])
def test_small_and_huge_rho_keep_their_digits(rho: float) -> None:
    """The delta of Gaussian noise is accurate for rho from 1e-12 to 1e6, at epsilons near the mean privacy loss."""
    for share in (0.0, 0.1, 1.0, 3.0, 20.0):
        epsilon = share * math.sqrt(2 * rho) + (rho if share > 1 else 0.0)
        with mp.workdps(160):
            exact = oracle.gaussian_delta(epsilon, rho)
            assert oracle.apart(gaussian.delta(epsilon, rho), exact) < CLOSE


@pytest.mark.parametrize(("epsilon", "rho"), [(0.1, 4), (1, 9), (2, 8)])
def test_a_delta_that_is_no_small_tail_is_that_of_the_two_normal_laws(epsilon, rho):
    """If epsilon is far below rho, the delta of Gaussian noise agrees with its formula, computed with 30 digits."""
    with mp.workdps(30):
        mu = mp.sqrt(2 * rho)
        x = mp.mpf(epsilon) / mu - mu / 2
        exact = float(mp.ncdf(-x) - mp.exp(epsilon) * mp.ncdf(-x - mu))
    assert gaussian.delta(epsilon, rho) == pytest.approx(exact, rel=1e-9)
