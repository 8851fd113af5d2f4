"""Tests that the Rényi bound of Skellam noise is valid, and is the smaller of two published bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.special import ive, logsumexp

from sparsehist.errors import DeclarationError
from sparsehist.privacy import skellam
from sparsehist.privacy.skellam import delta, epsilon, renyi
from tests.privacy import oracle_conversions as oracle


def exact_renyi(alpha: float, variance: float) -> float:
    """Return the exact Rényi divergence of Skellam noise on one key, as a sum over outputs."""
    reach = int(14 * variance**0.5 + 40 + 8 * alpha)
    k = np.arange(-reach, reach + 1)
    with np.errstate(divide="ignore"):
        here, shifted = np.log(ive(np.abs(k), variance)), np.log(ive(np.abs(k - 1), variance))
    kept = np.isfinite(here) & np.isfinite(shifted)
    return float(logsumexp(alpha * here[kept] + (1 - alpha) * shifted[kept]) / (alpha - 1))


@pytest.mark.parametrize("variance", [0.5, 2, 10, 100, 1000])
@pytest.mark.parametrize("alpha", [2, 3, 8, 30])
def test_the_bound_lies_above_the_exact_divergence(variance: float, alpha: int) -> None:
    """The Rényi bound of Skellam noise is not below the exact divergence, for one key and for twenty keys."""
    for keys in (1, 20):
        assert renyi(alpha, 2 / variance, keys) >= keys * exact_renyi(alpha, variance) * (1 - 1e-9)


@pytest.mark.parametrize(
    ("alpha", "mean", "keys"), [(2, "1/2", 1), (30, "1/2", 1), (2, "50", 20), (8, "5", 3), (60, "50", 20)]
)
def test_the_bound_is_the_smaller_of_the_two(alpha: int, mean: str, keys: int) -> None:
    """The Rényi bound of Skellam noise equals the smaller of the two published bounds, whichever it is."""
    level = 1 / Fraction(mean)
    with mp.workdps(40):
        assert oracle.apart(renyi(alpha, level, keys), oracle.skellam_divergence(alpha, level, keys)) < 1e-12


@pytest.mark.parametrize("variance", [1e-5, 0.3, 1.0, 1.5, 10.0, 300.0, 999.9, 1000.0, 1e4, 1e8])
def test_the_ratio_of_bessel_functions_is_exact(variance: float) -> None:
    """The computed logarithm of the Bessel ratio I0/I1 is accurate to 1e-12 for small and large variances."""
    with mp.workdps(40):
        exact = mp.log(mp.besseli(0, variance) / mp.besseli(1, variance))
        assert oracle.apart(skellam._log_bessel_ratio(variance), exact) < 1e-12


@pytest.mark.parametrize(
    ("mean", "keys"), [(Fraction(1, 50), 1), (Fraction(1), 5), (Fraction(50), 20), (Fraction(5000), 1)]
)
def test_the_best_order(mean: Fraction, keys: int) -> None:
    """No Rényi order up to 300 gives Skellam noise a smaller epsilon than the chosen order, down to delta 1e-300."""
    level = 1 / mean
    with mp.workdps(40):
        lines = [oracle.skellam_divergence(order, level, keys) for order in range(2, 301)]

        def best(function: Callable[[int, mpf], mpf]) -> mpf:
            return min(function(order, divergence) for order, divergence in enumerate(lines, start=2))

        for target in (0.5, 1e-6, 1e-60, 1e-300):
            log_target = mp.log(mpf(target))
            exact = best(lambda a, d, goal=log_target: d + mp.log1p(-mpf(1) / a) - (goal + mp.log(a)) / (a - 1))
            at = epsilon(target, level, keys)
            # The chosen order is at least as good as orders 2 to 300; if it is one of these, it is the best of them.
            assert at <= max(exact, 0) * (1 + mpf(10) ** -9)
            if at > 0 and target >= 1e-60 and mean < 5000:
                assert oracle.apart(at, exact) < 1e-9
            if at > 0:
                assert delta(at, level, keys) == pytest.approx(target, rel=1e-9 * (1 - math.log(target)))


def test_epsilon_and_delta_are_inverse_and_above_the_exact_delta() -> None:
    """Skellam epsilon and delta are inverse to each other, and delta is not below the exact delta for one key."""
    for target in (1e-4, 1e-9):
        at = epsilon(target, "0.01", 4)
        assert delta(at, "0.01", 4) == pytest.approx(target, rel=1e-12)
    k = np.arange(-400, 401)
    here, shifted = ive(np.abs(k), 200.0), ive(np.abs(k - 1), 200.0)
    for asked in (0.1, 0.3):
        assert delta(asked, "0.01") >= float(np.maximum(here - math.exp(asked) * shifted, 0).sum())


@pytest.mark.parametrize("alpha", [1, 1.5, 2.5])
def test_orders_that_cannot_be_are_refused(alpha: float) -> None:
    """Rényi orders of Skellam noise must be integers of at least 2, because the bound is proved only for those."""
    with pytest.raises(DeclarationError, match="integer orders"):
        renyi(alpha, "0.01")
