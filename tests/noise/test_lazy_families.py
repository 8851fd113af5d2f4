"""Sparse releases under every family have the joint law of dense ones, and published values give no count away."""

from __future__ import annotations

import numpy as np
import pytest

from sparsehist import entropy
from sparsehist.errors import LevelOrderError
from sparsehist.histogram import DenseReleases, release_dense
from sparsehist.histogram.grid import grid_step, round_to_grid
from sparsehist.noise.discrete_laplace import DiscreteLaplace
from sparsehist.noise.exponential import Exponential
from sparsehist.noise.family import DenseFamily, Family
from sparsehist.noise.gaussian import Gaussian
from sparsehist.noise.laplace import Laplace
from sparsehist.noise.poisson import Poisson
from sparsehist.noise.randomised_response import RandomisedResponse
from sparsehist.noise.skellam import Skellam
from tests.histogram.sparse_simulation import hide_unpublished, independent_redraw, release_sparse
from tests.stats import assert_consistent, assert_detected, two_sample_outcomes, two_sample_vectors

# 60,000 cells of each count catch a relative error of 3 % in the commoner patterns of publication.
COUNTS = np.repeat([0, 2], 60_000)
# Scrambled order, one level twice with a lower threshold.
CASES = [
    (Laplace(1.5), ["1/2", "1/4", "2", "1/2"], [4.0, 7.0, 3.0, 3.25]),
    (DiscreteLaplace(2), ["2", "1/2", "1", "2"], [3.0, 6.0, 4.0, 2.0]),
    (Poisson(), ["1/4", "1/9", "1/2", "1/4"], [6.0, 12.0, 4.0, 5.0]),
    (Skellam(), ["1/4", "1/9", "1/2", "1/4"], [3.0, 5.0, 3.0, 2.0]),
]
FAMILIES = [Gaussian(2.0), Laplace(3.0), DiscreteLaplace(), Exponential(), Poisson(), Skellam()]


def p_values(first: DenseReleases, second: DenseReleases) -> list[float]:
    """Compare which releases a cell is in, and the whole paths, of empty cells and of others."""
    found = []
    for count in (0, 2):
        of = count == COUNTS
        weights = 2 ** np.arange(len(first.noise))
        seen = [weights @ each.published[:, of] for each in (first, second)]
        found.append(two_sample_outcomes(*seen))
        paths = [each.noise[:, of][:, mask > 0].T for each, mask in zip((first, second), seen, strict=True)]
        found.append(two_sample_vectors(*paths))
    return found


@pytest.mark.parametrize(("family", "levels", "thresholds"), CASES)
def test_sparse_releases_have_the_joint_law_of_dense_ones(
    family: Family, levels: list[str], thresholds: list[float]
) -> None:
    """Which releases a cell is in, and its noise at all of them, cannot be told apart; wrong samplers can."""
    dense = hide_unpublished(release_dense(family, COUNTS, levels, thresholds, rng=entropy.seeded(601)))
    sparse = release_sparse(family, COUNTS, levels, thresholds, rng=entropy.seeded(602))
    assert np.array_equal(sparse.noise[0], sparse.noise[3], equal_nan=True)
    for p_value in p_values(sparse, dense):
        assert_consistent(p_value, repr(family))
    rng = entropy.seeded(603)
    redrawn = release_sparse(family, COUNTS, levels, thresholds, rng=rng, tracked_noise=independent_redraw)
    assert_detected(min(p_values(redrawn, dense)), "an independent redraw")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("level", ["0.01", "1/3", "7"])
def test_supports_of_neighbouring_counts_are_shifts_of_one_another(family: Family, level: str) -> None:
    """What is published of c and of c + 1 differs by exactly 1 at the same noise, on one grid with c = 0."""
    noise = family.sample(20_000, level, rng=entropy.seeded(604)).astype(np.float64)
    step = 1.0 if family.integer else grid_step(family.std(level))
    assert 1.0 % step == 0.0
    for count in (0, 1, 12_345, 2**31):
        one, next_one = (c + round_to_grid(noise, step) for c in (count, count + 1))
        assert np.array_equal(next_one - one, np.ones(noise.size))
        assert np.array_equal((one / step) % 1.0, np.zeros(noise.size))


@pytest.mark.parametrize("family", [*FAMILIES, RandomisedResponse(5)])
def test_steps_refuse_levels_out_of_order(family: DenseFamily) -> None:
    """coarsen goes down, refine goes up, between stays inside; equal levels need no step."""
    z, rng = np.zeros(3, np.int64 if family.integer else np.float64), entropy.seeded(605)
    for call in (
        lambda: family.coarsen(z, "0.1", "1/10", rng=rng),
        lambda: family.coarsen(z, "0.1", "0.2", rng=rng),
        lambda: family.refine(z, "0.1", "1/10", rng=rng),
        lambda: family.refine(z, "0.1", "0.05", rng=rng),
        lambda: family.between(z, "0.1", z, "0.2", "1/5", rng=rng),
        lambda: family.between(z, "0.1", z, "0.2", "1/10", rng=rng),
    ):
        with pytest.raises(LevelOrderError):
            call()
    if isinstance(family, Family):
        assert np.array_equal(family.carry(z[np.newaxis], "0.1", "1/10", rng=rng)[0], z)
