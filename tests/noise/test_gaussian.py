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
from sparsehist.histogram.dense import noise_at_level
from sparsehist.noise import Family, Gaussian, family_named
from tests.stats import assert_consistent, assert_detected, gaussian_vector_test, ks_test

FAMILY = Gaussian(sensitivity=math.sqrt(20))
LEVELS = [Fraction(1, 20), Fraction(1, 10), Fraction(1, 3), Fraction(2)]
# 200,000 draws see a scale that is 4 % off and a correlation that is 2 % off.
DRAWS = 200_000


def covariance(levels: list[Fraction], sensitivity: float) -> np.ndarray:
    """Cov(Z(a), Z(b)) = sensitivity**2 / (2 max(a, b))."""
    rho = np.array([float(level) for level in levels])
    return sensitivity**2 / (2 * np.maximum.outer(rho, rho))


def paths(order: tuple[Fraction, ...], seed: int) -> np.ndarray:
    """Draw noise at all levels in the given order; shape (draws, levels)."""
    rng, known = entropy.seeded(seed), {}
    for level in order:
        known[level] = noise_at_level(FAMILY, level, known, DRAWS, rng=rng)
    return np.column_stack([known[level] for level in LEVELS])


@pytest.mark.parametrize("order", list(permutations(LEVELS))[::3])
def test_releases_in_any_order_have_the_law_of_one_brownian_path(order: tuple[Fraction, ...]) -> None:
    """Whatever the order, noise at four levels is normal with covariance sensitivity**2/(2 max)."""
    assert_consistent(gaussian_vector_test(paths(order, 21), covariance(LEVELS, FAMILY.sensitivity)))


def test_wrong_joint_laws_are_rejected() -> None:
    """A scale 5 % off and one level drawn again on its own are both seen."""
    drawn, law = paths(tuple(LEVELS), 22), covariance(LEVELS, FAMILY.sensitivity)
    assert_detected(gaussian_vector_test(drawn * 1.05, law), "a scale 5 % off")
    drawn[:, 1] = FAMILY.sample(DRAWS, LEVELS[1], rng=entropy.seeded(23))
    assert_detected(gaussian_vector_test(drawn, law), "one level drawn independently")


def test_between_equals_its_limits_when_the_levels_nearly_meet() -> None:
    """A level a hair above the coarse one has almost the coarse noise: nothing cancels."""
    rng = entropy.seeded(24)
    coarse, fine = FAMILY.sample(1000, "0.1", rng=rng), np.zeros(1000)
    near = FAMILY.between(coarse, "0.1", fine, "0.3", "0.1000000000000000000001", rng=rng)
    assert np.allclose(near, coarse, atol=1e-8)


def test_carry_keeps_every_order() -> None:
    """Shared randomness never lets a lower row overtake a higher one, coarsening or refining."""
    rng = entropy.seeded(25)
    low = FAMILY.sample(10_000, "0.1", rng=rng)
    pair = np.stack([low, np.nextafter(low, np.inf)])
    for target in ("0.03", "0.7"):
        carried = FAMILY.carry(pair, "0.1", target, rng=rng)
        assert (carried[1] >= carried[0]).all()


def test_the_tail_agrees_with_thirty_digits() -> None:
    """tail, log_tail and log_cdf against mpmath, from far below zero to far above."""
    with mpmath.workdps(30):
        for t in (-12.0, -1.0, 0.0, 0.3, 4.0, 30.0, 200.0):
            z = mpmath.mpf(t * FAMILY.std("0.1")) / mpmath.mpf(FAMILY.std("0.1"))
            exact = mpmath.log(mpmath.ncdf(-z)) if z > -5 else mpmath.log1p(-mpmath.ncdf(z))
            got = float(FAMILY.log_tail(t * FAMILY.std("0.1"), "0.1"))
            assert got == pytest.approx(float(exact), rel=1e-13)
            assert float(FAMILY.log_cdf(-t * FAMILY.std("0.1"), "0.1")) == pytest.approx(float(exact), rel=1e-13)


def test_draws_above_a_threshold_have_the_truncated_law() -> None:
    """sample_tail: always above, and uniform after its own distribution function, around zero and far out."""
    for threshold in (-20.0, 3.0, 8.0, 60.0):
        z = FAMILY.sample_tail(DRAWS, threshold, "0.1", rng=entropy.seeded(26))
        assert (z > threshold).all()
        share = np.exp(FAMILY.log_tail(z, "0.1") - FAMILY.log_tail(threshold, "0.1"))
        assert_consistent(ks_test(share, lambda u: u))


@given(st.floats(-600.0, -1e-9))
def test_inverse_log_tail_inverts_log_tail(log_probability: float) -> None:
    """The inverse is right to rounding, over all tails."""
    t = FAMILY.inverse_log_tail(log_probability, 1)
    assert float(FAMILY.log_tail(t, 1)) == pytest.approx(log_probability, rel=1e-9)


def test_a_family_is_named_with_the_sensitivity_of_max_keys() -> None:
    """sqrt(max_keys), and a clear error for a family that is not there."""
    assert family_named("gaussian", 20) == FAMILY
    assert isinstance(FAMILY, Family)
    with pytest.raises(DeclarationError, match="'cauchy'"):
        family_named("cauchy", 1)
    with pytest.raises(DeclarationError):
        Gaussian(sensitivity=0.0)
