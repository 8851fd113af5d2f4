"""Compare privacy conversions with dp-accounting and OpenDP, which compute them by other methods."""

from __future__ import annotations

import warnings
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from sparsehist.privacy import gaussian, poisson, pure, skellam, zcdp

with warnings.catch_warnings():
    # Warnings that these libraries raise are ignored.
    warnings.simplefilter("ignore")
    dp_accounting = pytest.importorskip("dp_accounting")
    opendp = pytest.importorskip("opendp.prelude")
    from dp_accounting import rdp
    from dp_accounting.pld import common, privacy_loss_distribution, privacy_loss_mechanism

EPSILONS = [1e-6, 0.1, 1.0, 5.0, 20.0]
DELTAS = [1e-50, 1e-12, 1e-6, 0.01]


def test_gaussian_delta_agrees_with_dp_accounting() -> None:
    """The delta of Gaussian noise agrees with dp-accounting, which computes it from a privacy loss distribution."""
    loss = privacy_loss_mechanism.GaussianPrivacyLoss(standard_deviation=1.0)
    for epsilon in EPSILONS:
        assert gaussian.delta(epsilon, 0.5) == pytest.approx(loss.get_delta_for_epsilon(epsilon), rel=1e-9)


def test_gaussian_epsilon_and_noise_agree_with_dp_accounting() -> None:
    """The epsilon and the largest rho of Gaussian noise agree with dp-accounting to nine digits."""
    for delta in DELTAS:
        assert gaussian.epsilon(delta, 0.5) == pytest.approx(dp_accounting.get_epsilon_gaussian(1.0, delta), rel=1e-9)
        sigma = dp_accounting.get_sigma_gaussian(1.0, delta)
        assert gaussian.largest_rho(1.0, delta) == pytest.approx(1 / (2 * sigma**2), rel=1e-9)


@pytest.fixture(scope="module")
def profile() -> object:
    """Return OpenDP's (epsilon, delta) curve of Gaussian noise at rho 1/8; OpenDP derives the curve from zCDP."""
    opendp.enable_features("contrib")
    space = opendp.vector_domain(opendp.atom_domain(T=float, nan=False)), opendp.l2_distance(T=float)
    return opendp.c.make_zCDP_to_approxDP(opendp.m.make_gaussian(*space, scale=1.0)).map(0.5)


def test_zcdp_agrees_with_opendp(profile: object) -> None:
    """Delta as a function of epsilon, and epsilon as a function of delta, agree with OpenDP for 1/8-zCDP."""
    for epsilon in (0.1, 1.0, 5.0):
        assert zcdp.delta(epsilon, 0.125) == pytest.approx(profile.delta(epsilon), rel=1e-9)
    for delta in DELTAS:
        assert zcdp.epsilon(delta, 0.125) == pytest.approx(profile.epsilon(delta), rel=1e-9)


def test_composition_of_pure_dp_agrees_with_dp_accounting() -> None:
    """Delta and epsilon of a hundred pure releases agree with dp-accounting, whose FFT errors are about 1e-15."""
    one = common.DifferentialPrivacyParameters(0.05, 0.0)
    each = privacy_loss_distribution.from_privacy_parameters(one, value_discretization_interval=0.05)
    together = each.self_compose(100)
    for epsilon in (0.5, 1.0, 2.0):
        assert pure.delta(epsilon, 0.05, 100) == pytest.approx(
            together.get_delta_for_epsilon(epsilon), rel=1e-9, abs=1e-13
        )
    assert pure.epsilon(1e-6, 0.05, 100) == pytest.approx(together.get_epsilon_for_delta(1e-6), rel=1e-8)


def test_poisson_lies_between_the_estimates_of_dp_accounting() -> None:
    """The delta of Poisson noise lies between the optimistic and the pessimistic estimate of dp-accounting."""
    k = np.arange(300)
    lower = {int(at): float(value) for at, value in zip(k, stats.poisson.logpmf(k, 100.0), strict=True)}
    upper = {at + 1: value for at, value in lower.items()}
    bounds = []
    for pessimistic in (False, True):
        loss = privacy_loss_distribution.from_two_probability_mass_functions(
            lower, upper, pessimistic_estimate=pessimistic, value_discretization_interval=1e-4, symmetric=False
        )
        bounds.append(loss.get_delta_for_epsilon(0.7))
    # Under `upper`, output 0 has probability zero, so with `upper` as the denominator, the privacy loss is infinite.
    assert bounds[0] <= poisson.delta(0.7, "0.01") * (1 + 1e-9)
    assert poisson.delta(0.7, "0.01") <= bounds[1] * (1 + 1e-9)
    assert bounds[1] < bounds[0] * 1.1


def test_skellam_agrees_with_dp_accounting_on_the_same_orders() -> None:
    """Skellam epsilons equal those of dp-accounting if both use the same orders and Rényi divergences."""
    orders = list(range(2, 400))
    for mean, keys in ((50, 1), (500, 20)):
        level = Fraction(1, mean)
        divergences = [skellam.renyi(order, level, keys) for order in orders]
        for delta in (1e-12, 1e-6):
            theirs, best = rdp.rdp_privacy_accountant.compute_epsilon(orders, divergences, delta)
            assert best < orders[-1]
            assert skellam.epsilon(delta, level, keys) == pytest.approx(theirs, rel=1e-9)
        theirs, _ = rdp.rdp_privacy_accountant.compute_delta(orders, divergences, 1.0)
        assert skellam.delta(1.0, level, keys) == pytest.approx(theirs, rel=1e-9)
