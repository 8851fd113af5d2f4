"""The laws of Gaussian noise: joint over levels in any order, and the tails."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import permutations

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsehist import entropy
from sparsehist.errors import DeclarationError
from sparsehist.noise import Gaussian, family_named
from tests.noise.orders import in_order
from tests.stats import assert_consistent, assert_detected, gaussian_vector_test

FAMILY = Gaussian(sensitivity=math.sqrt(20))
LEVELS = [Fraction(1, 20), Fraction(1, 10), Fraction(1, 3), Fraction(2)]
# 200,000 draws see a scale that is 4 % off and a correlation that is 2 % off.
DRAWS = 200_000
# Of noise at two levels: sensitivity**2 / (2 max).
COVARIANCE = 10 / np.maximum.outer(np.array(LEVELS, float), np.array(LEVELS, float))


@pytest.mark.parametrize("order", list(permutations(LEVELS))[::3])
def test_releases_in_any_order_have_the_law_of_one_brownian_path(order: tuple[Fraction, ...]) -> None:
    """Whatever the order, noise at four levels is normal with covariance sensitivity**2/(2 max)."""
    assert_consistent(gaussian_vector_test(in_order(FAMILY, order, DRAWS, 21), COVARIANCE))


def test_wrong_joint_laws_are_rejected() -> None:
    """A scale 5 % off and one level drawn again on its own are both seen."""
    drawn = in_order(FAMILY, LEVELS, DRAWS, 22)
    assert_detected(gaussian_vector_test(drawn * 1.05, COVARIANCE), "a scale 5 % off")
    drawn[:, 1] = FAMILY.sample(DRAWS, LEVELS[1], rng=entropy.seeded(23))
    assert_detected(gaussian_vector_test(drawn, COVARIANCE), "one level drawn independently")


def test_between_equals_its_limits_when_the_levels_nearly_meet() -> None:
    """A level a hair above the coarse one has almost the coarse noise: nothing cancels."""
    rng = entropy.seeded(24)
    coarse, fine = FAMILY.sample(1000, "0.1", rng=rng), np.zeros(1000)
    near = FAMILY.between(coarse, "0.1", fine, "0.3", "0.1000000000000000000001", rng=rng)
    assert np.allclose(near, coarse, atol=1e-8)


def test_the_tail_agrees_with_thirty_digits() -> None:
    """tail, log_tail and log_cdf against mpmath, from far below zero to far above."""
    with mpmath.workdps(30):
        for t in (-12.0, -1.0, 0.0, 0.3, 4.0, 30.0, 200.0):
            z = mpmath.mpf(t * FAMILY.std("0.1")) / mpmath.mpf(FAMILY.std("0.1"))
            exact = mpmath.log(mpmath.ncdf(-z)) if z > -5 else mpmath.log1p(-mpmath.ncdf(z))
            got = float(FAMILY.log_tail(t * FAMILY.std("0.1"), "0.1"))
            assert got == pytest.approx(float(exact), rel=1e-13)
            assert float(FAMILY.log_cdf(-t * FAMILY.std("0.1"), "0.1")) == pytest.approx(float(exact), rel=1e-13)


@given(st.floats(-600.0, -1e-9))
def test_inverse_log_tail_inverts_log_tail(log_probability: float) -> None:
    """The inverse is right to rounding, over all tails."""
    t = FAMILY.inverse_log_tail(log_probability, 1)
    assert float(FAMILY.log_tail(t, 1)) == pytest.approx(log_probability, rel=1e-9)


def test_a_family_is_named_with_the_sensitivity_of_max_keys() -> None:
    """sqrt(max_keys), and a clear error for a family that is not there."""
    assert family_named("gaussian", 20) == FAMILY
    with pytest.raises(DeclarationError, match="'cauchy'"):
        family_named("cauchy", 1)
    with pytest.raises(DeclarationError):
        Gaussian(sensitivity=0.0)
