"""Tests that a Laplace noise path has the correct jumps and joint distribution, even after it is extended."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from sparsehist import entropy
from sparsehist.dense import LaplacePath, sample_laplace_path
from sparsehist.dense.laplace_path import Jumps
from sparsehist.errors import DeclarationError, LevelOrderError
from sparsehist.noise.laplace import Laplace
from tests.noise.laws import joint_p_value
from tests.stats import assert_consistent, assert_detected, g_test, ks_test

# With 100,000 paths, a distribution function that is off by 0.01 is detected.
SIZE = 100_000
SENSITIVITY = 3.0
LEVELS = ("3", "1.3", "0.8", "0.2")


def p_value(noise):
    """Return the p-value of a test that noise at several levels has its exact joint distribution."""
    return joint_p_value(Laplace(SENSITIVITY), {Fraction(level): column for level, column in noise.items()})


WAYS = ("whole", "extended both ways", "extended twice to finer")


@pytest.fixture(scope="module")
def paths():
    """Return Laplace noise paths over levels 0.2 to 3, drawn at once or by extending shorter paths."""
    whole = sample_laplace_path(SIZE, "0.2", 3, sensitivity=SENSITIVITY, rng=entropy.seeded(8002))
    middle = sample_laplace_path(SIZE, "0.5", 1, sensitivity=SENSITIVITY, rng=entropy.seeded(8003))
    both = middle.extend(3, rng=entropy.seeded(8004)).extend("0.2", rng=entropy.seeded(8005))
    low = sample_laplace_path(SIZE, "0.2", "0.201", sensitivity=SENSITIVITY, rng=entropy.seeded(8006))
    finer = low.extend(2, rng=entropy.seeded(8007)).extend(3, rng=entropy.seeded(8008))
    return dict(zip(WAYS, (whole, both, finer), strict=True))


@pytest.mark.parametrize("how", WAYS)
def test_a_path_has_the_joint_law_at_any_levels(paths, how):
    """The joint distribution of a Laplace path at four levels is exact.

    This includes the probability that the noise is equal at two of the levels.
    """
    assert_consistent(p_value({level: paths[how].evaluate(level) for level in LEVELS}), how)


@pytest.mark.parametrize("how", WAYS)
def test_jumps_are_those_of_a_compound_poisson_process(paths, how):
    """The numbers, levels and sizes of a Laplace path's jumps are those of a compound Poisson process."""
    path = paths[how]
    coordinate, levels, sizes = path.jumps()
    mean = 2 * math.log(15)
    numbers = np.bincount(np.bincount(coordinate, minlength=SIZE), minlength=31)[:31]
    law = stats.poisson(mean)
    observed = [*numbers, SIZE - numbers.sum()]
    assert_consistent(g_test(observed, [*law.pmf(np.arange(31)), law.sf(30)]), f"{how}: number")
    assert_consistent(ks_test(levels, lambda x: np.log(x / 0.2) / math.log(15)), f"{how}: levels")
    assert_consistent(ks_test(sizes * levels / SENSITIVITY, stats.laplace.cdf), f"{how}: sizes")


def test_wrong_paths_are_seen(paths):
    """Negative control: three kinds of wrong noise paths are detected.

    The first kind has, at one level, the noise of a different path. The second has a scale that is 5 % too large. In
    the third, half of the coordinates have no jump between two levels.
    """
    noise = {level: paths["whole"].evaluate(level) for level in LEVELS}
    other = paths["extended both ways"].evaluate("1.3")
    assert_detected(p_value(noise | {"1.3": other}), "another path")
    assert_detected(p_value({level: 1.05 * column for level, column in noise.items()}), "a scale")
    coins = entropy.seeded(8009).random(SIZE) < 0.5
    assert_detected(p_value(noise | {"1.3": np.where(coins, noise["1.3"], noise["3"])}), "fewer jumps")


def test_the_family_takes_the_steps_of_the_path(paths):
    """`coarsen`, `refine` and `between` of the Laplace family preserve the joint distribution of a noise path."""
    family, rng, path = Laplace(sensitivity=SENSITIVITY), entropy.seeded(8010), paths["whole"]
    middle = path.evaluate(1)
    steps = {3: family.refine(middle, 1, 3, rng=rng), 1: middle, "0.2": family.coarsen(middle, 1, "0.2", rng=rng)}
    assert_consistent(p_value(steps), "refine and coarsen")
    fine, coarse = path.evaluate(2), path.evaluate("0.5")
    between = family.between(coarse, "0.5", fine, 2, 1, rng=rng)
    assert_consistent(p_value({2: fine, 1: between, "0.5": coarse}), "between")


def test_a_path_stands_still_between_its_jumps(paths):
    """A Laplace path changes only at its jumps, and each time by the size of the jump."""
    path = paths["whole"]
    coordinate, levels, sizes = path.jumps()
    assert ((levels >= 0.2) & (levels < 3)).all()
    assert (np.diff(coordinate) >= 0).all()
    fine, there = path.evaluate(3), path.evaluate("0.9")
    past = levels >= 0.9
    assert np.allclose(fine + np.bincount(coordinate[past], sizes[past], SIZE), there, atol=1e-9)
    unmoved = np.bincount(coordinate[past], minlength=SIZE) == 0
    assert np.array_equal(there[unmoved], fine[unmoved])


def test_extending_leaves_the_old_part_alone():
    """After a Laplace path is extended, its values and jumps at the old levels are exactly the same as before."""
    old = sample_laplace_path(1000, "0.5", 2, rng=entropy.seeded(8011))
    new = old.extend(20, rng=entropy.seeded(8012)).extend("0.01", rng=entropy.seeded(8013))
    for level in ("0.5", "0.77", "1.5", 2):
        assert np.array_equal(new.evaluate(level), old.evaluate(level))
    coordinate, levels, _ = new.jumps()
    kept = (levels >= 0.5) & (levels < 2)
    for here, there in zip((coordinate, levels), old.jumps(), strict=False):
        assert np.array_equal(here[kept], there)


def test_a_path_that_touches_zero_goes_on():
    """From the value 0, a Laplace path can jump up or down, and all jumps are finite."""
    still = Jumps(np.empty(0, np.int64), np.empty(0), np.empty(0))
    path = LaplacePath(1.0, Fraction(1), Fraction(2), np.array([0.0, -0.0, 1e-300, -1e-290]), still)
    ends = np.concatenate([path.extend(10**9, rng=entropy.seeded(seed)).jumps()[2] for seed in range(9000, 9050)])
    assert np.isfinite(ends).all()
    assert (ends > 0).any() and (ends < 0).any()


def test_levels_outside_the_interval_and_bad_declarations_are_refused():
    """A Laplace path refuses levels outside its interval, and sampling a path refuses invalid parameters."""
    path, rng = sample_laplace_path(2, 1, 2, rng=entropy.seeded(8016)), entropy.seeded(8017)
    for level in ("0.99", "2.01"):
        with pytest.raises(LevelOrderError, match="extend"):
            path.evaluate(level)
    with pytest.raises(LevelOrderError, match="already covers"):
        path.extend("1.5", rng=rng)
    for wrong in ((0, 1, 2, 1.0), (1, 2, 1, 1.0), (1, 1, 1, 1.0), (1, 1, 2, 0.0), (1, 1, 2, math.nan)):
        with pytest.raises(DeclarationError):
            sample_laplace_path(*wrong[:3], sensitivity=wrong[3], rng=rng)
