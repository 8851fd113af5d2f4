"""Coarser releases from a published one: the law, alone and together, without the truth."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sparsehist import entropy
from sparsehist.dense import clip_negative, tighten
from sparsehist.dense.multiple_release import MultipleRelease
from sparsehist.errors import CapExceededError, DataError, InputError, LevelOrderError
from sparsehist.noise import Gaussian
from sparsehist.noise.discrete_laplace import DiscreteLaplace
from sparsehist.noise.laplace import Laplace
from sparsehist.noise.poisson import Poisson
from sparsehist.noise.skellam import Skellam
from tests.dense.laws import joint_p_value
from tests.stats import assert_consistent, assert_detected, binomial_test, gaussian_vector_test

# 200,000 draws see a scale 4 % off.
SIZE = 200_000
TRUTH = np.arange(SIZE) % 1009


def test_a_bought_gaussian_release_and_what_is_made_of_it_are_one_path():
    """The bought release and two coarser ones made by the reseller are normal with covariance 1/(2 max)."""
    bought = MultipleRelease(Gaussian(), TRUTH, step=2.0**-12).release(2)
    reseller = MultipleRelease.from_release(bought)
    releases = [reseller.release("0.25"), reseller.release(1), bought]
    rho = np.array([0.25, 1, 2])
    law = 1 / (2 * np.maximum.outer(rho, rho))
    noise = np.column_stack([release.values - TRUTH for release in releases])
    assert_consistent(gaussian_vector_test(noise, law))
    noise[:, 0] = tighten(bought.values, Gaussian(), 2, "0.25", rng=entropy.seeded(7201)) - TRUTH
    assert_detected(gaussian_vector_test(noise, law), "two coarser releases that know nothing of each other")


@pytest.mark.parametrize(
    ("family", "low", "high"), [(DiscreteLaplace(sensitivity=1), -9, 9), (Poisson(), 0, 16), (Skellam(), -9, 9)]
)
def test_tightened_integers_have_the_exact_joint_law(family, low, high):
    """The pair of bought and tightened values follows the joint pmf, and stays integer."""
    bought = MultipleRelease(family, TRUTH).release(1)
    coarser = tighten(bought.values, family, 1, "1/3", rng=entropy.seeded(7202))
    assert coarser.dtype == np.int64
    noise = [bought.values - TRUTH, coarser - TRUTH]
    assert_consistent(joint_p_value(family, [Fraction(1), Fraction(1, 3)], noise, low, high), type(family).__name__)


def test_tightened_laplace_stays_still_as_often_as_the_path():
    """With probability (coarse/fine)**2 a value is passed on as it was, up to the coarser grid."""
    bought = MultipleRelease(Laplace(), TRUTH, step=0.5**12).release(2)
    reseller = MultipleRelease.from_release(bought)
    coarser = reseller.release(1)
    assert coarser.metadata["grid"] == bought.metadata["grid"]
    still = int((coarser.values == bought.values).sum())
    assert_consistent(binomial_test(still, SIZE, 0.25 + 0.75 * 0.5 * 0.5**12))


def test_a_reseller_serves_the_bought_release_unchanged_and_nothing_finer():
    """The new object is sealed at the level that was bought; the grid of a coarser level is its own."""
    for family in (Gaussian(), Laplace(), DiscreteLaplace(sensitivity=1)):
        bought = MultipleRelease(family, TRUTH, cap=4).release(1)
        reseller = MultipleRelease.from_release(bought)
        assert reseller.sealed
        assert np.array_equal(reseller.release(1).values, bought.values)
        with pytest.raises(CapExceededError):
            reseller.release(2)
        coarse = reseller.release("0.01")
        assert np.array_equal(coarse.values, reseller.release("0.01").values)
        steps = coarse.values / coarse.metadata["grid"]
        assert np.array_equal(steps, np.rint(steps))
        if not family.integer:
            assert coarse.metadata["grid"] > bought.metadata["grid"]


def test_what_cannot_be_tightened_is_refused():
    """Finer levels, values that are no release, and releases that were post-processed."""
    rng, values = entropy.seeded(7203), np.array([1.5, 2.0])
    for level in (1, 2):
        with pytest.raises(LevelOrderError, match="coarser"):
            tighten(values, Gaussian(), 1, level, rng=rng)
    for bad in ([], [[1.0]], [float("nan")], ["a"]):
        with pytest.raises(DataError):
            tighten(bad, Gaussian(), 1, "0.5", rng=rng)
    with pytest.raises(DataError, match="whole"):
        tighten(values, DiscreteLaplace(sensitivity=1), 1, "0.5", rng=rng)
    processed = MultipleRelease(Gaussian(), TRUTH).release(1).process(clip_negative())
    with pytest.raises(InputError, match="post-processed"):
        MultipleRelease.from_release(processed)
