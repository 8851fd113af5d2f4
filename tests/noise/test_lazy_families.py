"""What every family must do: published values of neighbouring counts are shifts, and steps check their levels."""

from __future__ import annotations

import numpy as np
import pytest

from sparsehist import entropy
from sparsehist.errors import LevelOrderError
from sparsehist.histogram.grid import grid_step, round_to_grid
from sparsehist.noise.discrete_laplace import DiscreteLaplace
from sparsehist.noise.exponential import Exponential
from sparsehist.noise.family import DenseFamily, Family
from sparsehist.noise.gaussian import Gaussian
from sparsehist.noise.laplace import Laplace
from sparsehist.noise.poisson import Poisson
from sparsehist.noise.randomised_response import RandomisedResponse
from sparsehist.noise.skellam import Skellam

FAMILIES = [Gaussian(2.0), Laplace(3.0), DiscreteLaplace(), Exponential(), Poisson(), Skellam()]


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
