"""Compare the stated guarantee of a Gaussian release over an open domain with the exact guarantee."""

from __future__ import annotations

import math

import pytest
from scipy.optimize import brentq

from sparsehist.noise import Gaussian
from sparsehist.privacy import gaussian, zcdp
from tests.privacy.exact_open_release import sparse_gaussian_delta

# Fields of a case: max_keys, rho, and the threshold in standard deviations of the noise.
CASES = [(1, 0.5, 5.0), (20, 0.1, 5.0), (20, 0.5, 6.0), (100, 1.0, 5.5), (20, 0.01, 4.0)]


@pytest.mark.parametrize(("max_keys", "rho", "deviations"), CASES)
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 3.0, 8.0])
def test_what_is_stated_is_never_less_than_the_exact_delta(
    max_keys: int, rho: float, deviations: float, epsilon: float
) -> None:
    """For an open-domain release, the stated delta is never below the exact delta, for epsilons from 0 to 8."""
    noise = Gaussian(sensitivity=math.sqrt(max_keys))
    q = float(noise.tail(deviations * noise.std(rho), rho))
    exact = sparse_gaussian_delta(epsilon, rho, max_keys, q)
    shown = -math.expm1(max_keys * math.log1p(-q))
    parts = shown + (1 - shown) * gaussian.delta(epsilon, rho)
    assert max(shown, gaussian.delta(epsilon, rho)) * (1 - 1e-9) <= exact <= parts * (1 + 1e-9)
    assert parts <= (shown + (1 - shown) * zcdp.delta(epsilon, rho)) * (1 + 1e-9)


def test_the_gap_is_the_one_that_is_stated() -> None:
    """For a release over an open domain at rho 0.5 and delta 1e-6, the exact ε is 4.887, and the stated ε is 5.361.

    Half of the delta is for the publication of keys that only one unit has.
    """
    delta, rho, new_keys = 1e-6, 0.5, 5e-7
    exact = brentq(lambda epsilon: math.log(sparse_gaussian_delta(epsilon, rho, 1, new_keys) / delta), 1.0, 9.0)
    stated = zcdp.epsilon((delta - new_keys) / (1 - new_keys), rho)
    assert exact == pytest.approx(4.887, abs=5e-4)
    assert stated == pytest.approx(5.361, abs=5e-4)
