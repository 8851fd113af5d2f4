"""Releases of a vector in any order, before and after sealing, have the joint distribution of one noise path."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sparsehist.dense.multiple_release import MultipleRelease
from sparsehist.noise import DiscreteLaplace, Gaussian, Laplace, Poisson, RandomisedResponse, Skellam
from tests.noise.laws import joint_p_value
from tests.stats import assert_consistent, assert_detected

# 200,000 draws detect a scale that is 4 % off and a correlation that is 2 % off.
SIZE = 200_000
TRUTH = np.arange(SIZE) % 9973
REAL_ORDER = ("1/3", "1", "1/10", "2")
INTEGER_ORDER = ("1/2", "1", "1/4")


def noise_at(family, order, seal_before=None):
    """Return the noise by level, released in this order, with a storage round trip before each release."""
    truth = TRUTH % family.modulus if family.modulus else TRUTH
    # On a fine grid, equal Laplace noise at two levels gives equal values.
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
    """Test that the noise has its exact joint distribution, and that noise from another vector is detected."""
    noise = noise_at(family, order, seal_before)
    assert_consistent(joint_p_value(family, noise), repr(family))
    assert_detected(joint_p_value(family, noise | noise_at(family, order[:1])), "a level of another path")


@pytest.mark.parametrize("seal_before", [None, 0, 2, 3])
def test_gaussian_releases_are_one_brownian_path(seal_before):
    """Gaussian releases at four levels have the exact joint distribution, whenever the vector is sealed."""
    check(Gaussian(sensitivity=math.sqrt(5)), REAL_ORDER, seal_before)


@pytest.mark.parametrize("seal_before", [None, 0, 2, 3])
def test_laplace_releases_have_the_law_and_the_stillness_of_one_path(seal_before):
    """Laplace releases at four levels have the exact joint distribution, including the chance of equal noise."""
    check(Laplace(), REAL_ORDER, seal_before)


@pytest.mark.parametrize("seal_before", [None, 0, 1, 2])
@pytest.mark.parametrize("family", [DiscreteLaplace(), Poisson(), Skellam(), RandomisedResponse(5)], ids=repr)
def test_integer_releases_have_the_exact_joint_law(family, seal_before):
    """Integer releases at three levels have the exact joint distribution, whenever the vector is sealed."""
    check(family, INTEGER_ORDER, seal_before)
