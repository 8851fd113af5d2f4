"""Tests that two releases of a vector cost as much as the finer one, and that independent noise would cost more."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

from sparsehist.dense.multiple_release import MultipleRelease
from sparsehist.noise import Gaussian
from sparsehist.noise.discrete_laplace import DiscreteLaplace
from sparsehist.noise.laplace import Laplace
from tests.stats import assert_consistent, assert_detected

SIZE = 400_000
BINS = 48


def pairs(family, count, coarse, fine, *, together, seal):
    """Release a vector of equal numbers at two levels; return the released values, of shape (SIZE, 2)."""
    vector = MultipleRelease(family, np.full(SIZE, count), cap=fine)
    coarse_values = vector.release(coarse).values
    if seal:
        vector.seal()
    fine_vector = vector if together else MultipleRelease(family, np.full(SIZE, count), cap=fine)
    return np.column_stack([coarse_values, fine_vector.release(fine).values])


def cells(values, edges):
    """Return, for each pair of values, the index of the grid square that contains it; `edges` divide both axes."""
    digits = [np.searchsorted(edges, column) for column in values.T]
    return digits[0] * (BINS + 1) + digits[1]


def exceedance(family, coarse, fine, epsilon, delta, *, together, seal=False):
    """Test P(S) - e**epsilon Q(S) <= delta for the worst set S of outcomes of two releases; return the p-value.

    P and Q are the joint distributions for the true values 0 and 1. One half of the draws is used to find S, the grid
    squares in which P exceeds e**epsilon Q. The other half estimates P(S) and Q(S), so that the estimates do not
    depend on the choice of S and the p-value is valid.
    """
    drawn = [pairs(family, count, coarse, fine, together=together, seal=seal) for count in (0, 1)]
    spread = 2.5 * family.std(fine)
    # The edges of the squares lie between the values to which releases are rounded, so no value is on an edge.
    edges = np.linspace(-spread, 1 + spread, BINS) + 2.0**-20
    indices = [cells(values, edges) for values in drawn]
    half, total = SIZE // 2, (BINS + 1) ** 2
    p, q = (np.bincount(index[:half], minlength=total) for index in indices)
    chosen = p > math.exp(epsilon) * q
    p_share, q_share = (float(chosen[index[half:]].mean()) for index in indices)
    factor = math.exp(epsilon)
    variance = (p_share * (1 - p_share) + factor**2 * q_share * (1 - q_share)) / half
    return float(special.ndtr((delta - (p_share - factor * q_share)) / math.sqrt(variance)))


def gaussian_delta(rho, epsilon):
    """Return the exact delta at `epsilon` of one Gaussian release at level `rho`."""
    mu = math.sqrt(2 * rho)
    at = epsilon / mu
    return float(special.ndtr(mu / 2 - at) - math.exp(epsilon) * special.ndtr(-mu / 2 - at))


@pytest.mark.parametrize("seal", [False, True])
def test_gaussian_pairs_cost_what_the_finer_costs(seal):
    """Two Gaussian releases of a vector cost no more delta than the finer one; independent noise would cost more."""
    coarse, fine, delta = "0.8", 1, gaussian_delta(1, 1.0)
    assert_consistent(exceedance(Gaussian(), coarse, fine, 1.0, delta, together=True, seal=seal))
    assert_detected(exceedance(Gaussian(), coarse, fine, 1.0, delta, together=False), "independent releases")


@pytest.mark.parametrize("seal", [False, True])
@pytest.mark.parametrize("family", [Laplace(), DiscreteLaplace(sensitivity=1)])
def test_laplace_pairs_are_epsilon_private(family, seal):
    """Two Laplace releases of a vector cost no more epsilon than the finer one; independent noise would."""
    assert_consistent(exceedance(family, "0.8", 1, 1.0, 0.0, together=True, seal=seal))
    assert_detected(exceedance(family, "0.8", 1, 1.0, 0.0, together=False), "independent releases")


def test_the_bound_is_reached():
    """Negative control: two Gaussian releases of one vector exceed a bound that is 10 % below their exact delta."""
    delta = gaussian_delta(1, 1.0)
    assert_detected(exceedance(Gaussian(), "0.8", 1, 1.0, 0.9 * delta, together=True), "a bound 10 % too small")
