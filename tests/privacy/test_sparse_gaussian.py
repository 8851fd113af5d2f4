"""The exact trade-off of one release over an open domain, and the gap of what is stated."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ndtr

from sparsehist.noise import Gaussian
from sparsehist.privacy import gaussian, zcdp
from tests.privacy.exact_open_release import sparse_gaussian_delta

# max_keys, rho, threshold over its standard deviation.
CASES = [(1, 0.5, 5.0), (20, 0.1, 5.0), (20, 0.5, 6.0), (100, 1.0, 5.5), (20, 0.01, 4.0)]


@pytest.mark.parametrize(("max_keys", "rho", "deviations"), CASES)
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 3.0, 8.0])
def test_what_is_stated_is_never_less_than_the_exact_delta(
    max_keys: int, rho: float, deviations: float, epsilon: float
) -> None:
    """Approximate zCDP, converted, lies above the exact trade-off, and so does the sum of both exact parts."""
    noise = Gaussian(sensitivity=math.sqrt(max_keys))
    q = float(noise.tail(deviations * noise.std(rho), rho))
    exact = sparse_gaussian_delta(epsilon, rho, max_keys, q)
    shown = -math.expm1(max_keys * math.log1p(-q))
    parts = shown + (1 - shown) * gaussian.delta(epsilon, rho)
    assert max(shown, gaussian.delta(epsilon, rho)) * (1 - 1e-9) <= exact <= parts * (1 + 1e-9)
    assert parts <= (shown + (1 - shown) * zcdp.delta(epsilon, rho)) * (1 + 1e-9)


def test_the_formula_agrees_with_an_integral_for_two_keys() -> None:
    """The hockey stick of the outcomes: which keys are published, and their noisy counts on a fine grid."""
    epsilon, rho, threshold = 0.7, 0.4, 3.0
    std = Gaussian(sensitivity=math.sqrt(2)).std(rho)
    q = float(ndtr((1 - threshold) / std))
    edges = np.linspace(-12 * std, 12 * std, 200_001)
    with_it, without = np.diff(ndtr((edges - 1) / std)), np.diff(ndtr(edges / std))
    one_new = [
        # One old key of a count so high that it is always published, one new key: published or not.
        q + np.maximum(0, (1 - q) * with_it - math.exp(epsilon) * without).sum(),
        np.maximum(0, without - math.exp(epsilon) * (1 - q) * with_it).sum(),
    ]
    two_new = [
        1 - (1 - q) ** 2 + max(0.0, (1 - q) ** 2 - math.exp(epsilon)),
        max(0.0, 1 - math.exp(epsilon) * (1 - q) ** 2),
    ]
    two_old = gaussian.delta(epsilon, rho)
    expected = max(*one_new, *two_new, two_old)
    assert sparse_gaussian_delta(epsilon, rho, 2, q) == pytest.approx(expected, rel=1e-7)


def test_the_gap_is_the_one_that_is_stated() -> None:
    """At delta 1e-6 and rho 0.5, half of delta spent on new keys: 4.887 exactly, 5.361 as approximate zCDP."""
    delta, rho, new_keys = 1e-6, 0.5, 5e-7
    exact = brentq(lambda epsilon: math.log(sparse_gaussian_delta(epsilon, rho, 1, new_keys) / delta), 1.0, 9.0)
    stated = zcdp.epsilon((delta - new_keys) / (1 - new_keys), rho)
    assert exact == pytest.approx(4.887, abs=5e-4)
    assert stated == pytest.approx(5.361, abs=5e-4)
