"""Tests that releases of one vector, in any order, have the joint distribution of one noise path."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sparsehist.dense.multiple_release import MultipleRelease
from sparsehist.noise import DiscreteLaplace, Gaussian, Laplace, Poisson, RandomisedResponse, Skellam
from tests.noise.laws import joint_p_value
from tests.stats import assert_consistent, assert_detected

# With 200,000 draws, a scale that is 4 % off and a correlation that is 2 % off are detected.
SIZE = 200_000
TRUTH = np.arange(SIZE) % 9973
REAL_ORDER = ("1/3", "1", "1/10", "2")
INTEGER_ORDER = ("1/2", "1", "1/4")


def noise_at(family, order, seal_before=None):
    """Release a vector at these levels in the given order, and return the noise by level.

    Before each release, the vector is stored as bytes and reloaded.
    """
    truth = TRUTH % family.modulus if family.modulus else TRUTH
    # The grid is the same at all levels, so Laplace noise that is equal at two levels is rounded to equal values.
    vector = MultipleRelease(family, truth, cap=2, step=None if family.integer else 2.0**-12)
    noise = {}
    for i, level in enumerate(map(Fraction, order)):
        if i == seal_before:
            vector.seal()
        vector = MultipleRelease.from_bytes(vector.to_bytes())
        values = vector.release(level).values
        assert values.dtype == (np.int64 if family.integer else np.float64)
        noise[level] = (values - truth) % family.modulus if family.modulus else values - truth
    return noise


def check(family, order, seal_before):
    """Check that the noise of releases in this order has its exact joint distribution.

    Negative control: if the noise at one level comes from another vector, the wrong distribution must be detected.
    """
    noise = noise_at(family, order, seal_before)
    assert_consistent(joint_p_value(family, noise), repr(family))
    assert_detected(joint_p_value(family, noise | noise_at(family, order[:1])), "a level of another path")


@pytest.mark.parametrize("seal_before", [None, 0, 2, 3])
def test_gaussian_releases_are_one_brownian_path(seal_before):
    """Gaussian releases have the exact joint distribution, no matter when `seal` erases the true vector."""
    check(Gaussian(sensitivity=math.sqrt(5)), REAL_ORDER, seal_before)


@pytest.mark.parametrize("seal_before", [None, 0, 2, 3])
def test_laplace_releases_have_the_law_and_the_stillness_of_one_path(seal_before):
    """The joint distribution of Laplace noise at four levels is exact.

    This includes the probability that the noise is equal at two of the levels.
    """
    check(Laplace(), REAL_ORDER, seal_before)


@pytest.mark.parametrize("seal_before", [None, 0, 1, 2])
@pytest.mark.parametrize("family", [DiscreteLaplace(), Poisson(), Skellam(), RandomisedResponse(5)], ids=repr)
def test_integer_releases_have_the_exact_joint_law(family, seal_before):
    """Integer releases have the exact joint distribution, no matter when `seal` erases the true vector."""
    check(family, INTEGER_ORDER, seal_before)
