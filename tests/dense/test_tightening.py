"""Tests that coarser releases made from a published release, without the true vector, are correctly distributed."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sparsehist import entropy
from sparsehist.dense import clip_negative, tighten
from sparsehist.dense.multiple_release import MultipleRelease
from sparsehist.errors import CapExceededError, DataError, InputError, LevelOrderError
from sparsehist.noise import DiscreteLaplace, Gaussian, Laplace, Poisson, Skellam
from tests.noise.laws import joint_p_value
from tests.stats import assert_consistent, assert_detected

# With 200,000 draws, a scale that is 4 % off is detected.
SIZE = 200_000
TRUTH = np.arange(SIZE) % 1009


@pytest.mark.parametrize(
    ("family", "coarser"),
    [
        (Gaussian(), ("0.25", 1)),
        (Laplace(), (1,)),
        *((each, ("1/3",)) for each in (DiscreteLaplace(), Poisson(), Skellam())),
    ],
    ids=lambda part: type(part).__name__,
)
def test_a_bought_release_and_what_is_made_of_it_are_one_path(family, coarser):
    """A release and coarser releases made from it have the joint distribution of one noise path."""
    bought = MultipleRelease(family, TRUTH, step=None if family.integer else 2.0**-12).release(2)
    reseller = MultipleRelease.from_release(bought)
    noise = {Fraction(level): reseller.release(level).values - TRUTH for level in coarser} | {
        Fraction(2): bought.values - TRUTH
    }
    assert_consistent(joint_p_value(family, noise), repr(family))
    if isinstance(family, Laplace):  # `tighten` rounds to another grid, which can make equal noise unequal
        return
    first = Fraction(coarser[0])
    tightened = tighten(bought.values, family, 2, first, rng=entropy.seeded(7202)) - TRUTH
    assert tightened.dtype == noise[first].dtype
    assert_consistent(joint_p_value(family, {first: tightened, Fraction(2): noise[Fraction(2)]}), "by tighten")
    if len(coarser) > 1:
        assert_detected(joint_p_value(family, noise | {first: tightened}), "coarser releases drawn apart")


def test_a_reseller_serves_the_bought_release_unchanged_and_nothing_finer():
    """A vector made from a release can repeat that release and make coarser releases, but refuses finer levels."""
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
    """Tightening is refused if the level is not coarser, or if the release is invalid or post-processed."""
    rng, values = entropy.seeded(7203), np.array([1.5, 2.0])
    for level in (1, 2):
        with pytest.raises(LevelOrderError, match="must be below level_have"):
            tighten(values, Gaussian(), 1, level, rng=rng)
    for bad in ([], [[1.0]], [float("nan")], ["a"]):
        with pytest.raises(DataError):
            tighten(bad, Gaussian(), 1, "0.5", rng=rng)
    with pytest.raises(DataError, match="whole"):
        tighten(values, DiscreteLaplace(sensitivity=1), 1, "0.5", rng=rng)
    processed = MultipleRelease(Gaussian(), TRUTH).release(1).process(clip_negative())
    with pytest.raises(InputError, match="post-processed"):
        MultipleRelease.from_release(processed)
