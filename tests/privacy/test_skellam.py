"""Rényi bounds of Skellam noise: above the exact divergence, and the smaller of two."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import i0, i1, ive, logsumexp

from sparsehist.errors import DeclarationError
from sparsehist.privacy import skellam
from sparsehist.privacy.skellam import delta, epsilon, renyi, zcdp


def exact_renyi(alpha: float, variance: float) -> float:
    """The divergence of one key, summed over its outputs."""
    reach = int(14 * variance**0.5 + 40 + 8 * alpha)
    k = np.arange(-reach, reach + 1)
    with np.errstate(divide="ignore"):
        here, shifted = np.log(ive(np.abs(k), variance)), np.log(ive(np.abs(k - 1), variance))
    kept = np.isfinite(here) & np.isfinite(shifted)
    return float(logsumexp(alpha * here[kept] + (1 - alpha) * shifted[kept]) / (alpha - 1))


@pytest.mark.parametrize("variance", [0.5, 2, 10, 100, 1000])
@pytest.mark.parametrize("alpha", [2, 3, 8, 30])
def test_the_bound_lies_above_the_exact_divergence(variance: float, alpha: int) -> None:
    """For one key and, as divergences of independent keys add, for twenty."""
    for keys in (1, 20):
        assert renyi(alpha, 2 / variance, keys) >= keys * exact_renyi(alpha, variance) * (1 - 1e-9)


def test_the_bound_is_the_smaller_of_the_two() -> None:
    """Each of the two is the smaller one somewhere, by its formula."""
    for alpha, mean, keys in ((2, 0.5, 1), (30, 0.5, 1), (2, 50, 20), (8, 5, 3), (60, 50, 20)):
        mu = 2 * mean
        first = alpha * keys / (2 * mu) + min(((2 * alpha - 1) * keys + 6 * keys) / (4 * mu**2), 3 * keys / (2 * mu))
        second = alpha * keys * math.log(i0(mu) / i1(mu))
        assert renyi(alpha, f"1/{mean}" if mean >= 1 else 1 / mean, keys) == pytest.approx(
            min(first, second), rel=1e-12
        )
    assert renyi(2, 2, 1) == pytest.approx(2 * math.log(i0(1) / i1(1)), rel=1e-12)
    assert renyi(30, 2, 1) == pytest.approx(30 / 2 + 3 / 2, rel=1e-12)


def test_a_gaussian_of_its_variance_is_more_private_at_orders_near_one() -> None:
    """The claim of (1/(2 variance))-zCDP is false, so that no rho is given."""
    assert exact_renyi(1.2, 2.0) > 1.2 / (2 * 2.0) * 1.008
    with pytest.raises(DeclarationError, match="no zCDP"):
        zcdp("0.02", 3)


def test_the_expansion_meets_the_bessel_functions() -> None:
    """ln(I0/I1) from its expansion continues the ratio itself."""
    inside, beyond = skellam._log_bessel_ratio(1e3 * (1 - 1e-12)), skellam._log_bessel_ratio(1e3)
    assert inside == pytest.approx(beyond, rel=1e-11)


def test_epsilon_and_delta_are_inverse_and_above_the_exact_delta() -> None:
    """The conversion is its own inverse, and not below the hockey-stick divergence of one key."""
    for target in (1e-4, 1e-9):
        at = epsilon(target, "0.01", 4)
        assert delta(at, "0.01", 4) == pytest.approx(target, rel=1e-6)
    k = np.arange(-400, 401)
    here, shifted = ive(np.abs(k), 200.0), ive(np.abs(k - 1), 200.0)
    for asked in (0.1, 0.3):
        assert delta(asked, "0.01") >= float(np.maximum(here - math.exp(asked) * shifted, 0).sum())


def test_orders_and_parameters_that_cannot_be_are_refused() -> None:
    """The bound is proved for integer orders from 2 on."""
    for alpha in (1, 1.5, 2.5):
        with pytest.raises(DeclarationError, match="integer orders"):
            renyi(alpha, "0.01")
    with pytest.raises(DeclarationError):
        renyi(2, "0.01", 0)
    with pytest.raises(DeclarationError):
        epsilon(0.0, "0.01")
    with pytest.raises(DeclarationError):
        delta(-1.0, "0.01")
