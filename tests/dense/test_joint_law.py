"""Releases in any order, before and after sealing, have the joint law of one noise path."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from sparsehist.dense.multiple_release import MultipleRelease
from sparsehist.noise import Gaussian
from sparsehist.noise.discrete_laplace import DiscreteLaplace
from sparsehist.noise.laplace import Laplace
from sparsehist.noise.poisson import Poisson
from sparsehist.noise.skellam import Skellam
from tests.dense.laws import joint_p_value
from tests.stats import assert_consistent, assert_detected, binomial_test, gaussian_vector_test, ks_test

SENSITIVITY = math.sqrt(5)
LEVELS = [Fraction(1, 10), Fraction(1, 3), Fraction(1), Fraction(2)]
ORDER = [Fraction(1, 3), Fraction(1), Fraction(1, 10), Fraction(2)]
# 200,000 draws see a scale 4 % off, a correlation 2 % off.
SIZE = 200_000
TRUTH = np.arange(SIZE) % 9973


def noise_at(family, order, *, seal_before: int | None, cap="2"):
    """Release in the given order, sealing before one of the releases; the noise by level."""
    vector = MultipleRelease(family, TRUTH, cap=cap)
    noise = {}
    for i, level in enumerate(order):
        if i == seal_before:
            vector.seal()
        noise[level] = vector.release(level).values - TRUTH
    return noise


def covariance():
    """Cov(Z(a), Z(b)) = sensitivity**2 / (2 max(a, b))."""
    rho = np.array([float(level) for level in LEVELS])
    return SENSITIVITY**2 / (2 * np.maximum.outer(rho, rho))


@pytest.mark.parametrize("seal_before", [None, 0, 2, 3])
def test_gaussian_releases_are_one_brownian_path(seal_before):
    """Four levels in scrambled order are normal with covariance 1/(2 max), wherever sealing came in between."""
    noise = noise_at(Gaussian(sensitivity=SENSITIVITY), ORDER, seal_before=seal_before)
    assert_consistent(gaussian_vector_test(np.column_stack([noise[x] for x in LEVELS]), covariance()))


def test_an_independent_redraw_would_be_seen():
    """The same test rejects one level taken from another vector."""
    noise = noise_at(Gaussian(sensitivity=SENSITIVITY), ORDER, seal_before=2)
    noise[Fraction(1, 3)] = noise_at(Gaussian(sensitivity=SENSITIVITY), [Fraction(1, 3)], seal_before=None)[
        Fraction(1, 3)
    ]
    sample = np.column_stack([noise[x] for x in LEVELS])
    assert_detected(gaussian_vector_test(sample, covariance()), "a level of another path")


@pytest.mark.parametrize("seal_before", [None, 0, 1, 2])
@pytest.mark.parametrize(
    ("family", "low", "high"), [(DiscreteLaplace(sensitivity=1), -9, 9), (Poisson(), 0, 18), (Skellam(), -9, 9)]
)
def test_integer_releases_have_the_exact_joint_law(family, low, high, seal_before):
    """Three levels in scrambled order follow the full joint pmf, wherever sealing came in between."""
    fine_to_coarse = [Fraction(1), Fraction(1, 2), Fraction(1, 4)]
    noise = noise_at(family, [Fraction(1, 2), Fraction(1), Fraction(1, 4)], seal_before=seal_before, cap=1)
    columns = [noise[level] for level in fine_to_coarse]
    assert all(column.dtype == np.int64 for column in columns)
    assert_consistent(joint_p_value(family, fine_to_coarse, columns, low, high), type(family).__name__)
    columns[1] = noise_at(family, [Fraction(1, 2)], seal_before=None, cap=1)[Fraction(1, 2)]
    assert_detected(joint_p_value(family, fine_to_coarse, columns, low, high), "a level of another path")


@pytest.mark.parametrize("seal_before", [None, 0, 2, 3])
def test_laplace_releases_have_the_law_and_the_stillness_of_one_path(seal_before):
    """Each level is Laplace; neighbours agree with probability (coarse/fine)**2 and else differ by a coarse draw."""
    # Half of the levels are inserted between others; one grid lets equal noise be seen as equal values.
    vector = MultipleRelease(Laplace(), TRUTH, cap=2, step=2.0**-12)
    noise = {}
    for i, level in enumerate(ORDER):
        if i == seal_before:
            vector.seal()
        noise[level] = vector.release(level).values - TRUTH
    for level in LEVELS:
        assert_consistent(ks_test(noise[level], lambda x, b=float(level): laplace_cdf(x, b)), f"level {level}")
    for coarse, fine in pairwise(LEVELS):
        jump = noise[coarse] - noise[fine]
        still = float((coarse / fine) ** 2)
        # A jump of the coarse law is rounded away with a probability of about the step times its density at 0.
        unseen = (1 - still) * float(coarse) / 2 * 2.0**-12
        assert_consistent(binomial_test(int((jump == 0).sum()), SIZE, still + unseen), f"stillness {coarse}, {fine}")
        moved = jump[jump != 0]
        assert_consistent(ks_test(moved, lambda x, b=float(coarse): laplace_cdf(x, b)), f"jump {coarse}, {fine}")
        # The jump does not depend on the finer noise.
        quartile = noise[fine][jump != 0] > math.log(2) / float(fine)
        assert_consistent(ks_test(moved[quartile], lambda x, b=float(coarse): laplace_cdf(x, b)))


def laplace_cdf(x, rate):
    """Of density proportional to exp(-rate |x|)."""
    return np.where(x < 0, 0.5 * np.exp(rate * np.minimum(x, 0)), 1 - 0.5 * np.exp(-rate * np.maximum(x, 0)))
