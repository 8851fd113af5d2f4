"""Tests that real-valued noise drawn given the noise at other levels has its exact conditional distribution."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sparsehist import entropy
from sparsehist.noise import Gaussian, Laplace
from tests.stats import assert_consistent, g_test, ks_test

# With 200,000 draws, a scale that is 4 % off and an atom whose probability is 2 % off are detected.
DRAWS = 200_000


def test_between_equals_its_limits_when_the_levels_nearly_meet() -> None:
    """Gaussian noise inserted at a level just above the coarse level is close to the coarse noise.

    The two levels are equal as doubles. Nevertheless, the weights of coarse and fine noise must be accurate.
    """
    rng, family = entropy.seeded(24), Gaussian(sensitivity=math.sqrt(20))
    coarse, fine = family.sample(1000, "0.1", rng=rng), np.zeros(1000)
    near = family.between(coarse, "0.1", fine, "0.3", "0.1000000000000000000001", rng=rng)
    assert np.allclose(near, coarse, atol=1e-8)


def test_between_has_the_reference_weights() -> None:
    """Laplace noise inserted between two levels equals the coarse or the fine noise with the exact probabilities."""
    fine = np.zeros(1_000_000)
    drawn = Laplace().between(fine + 1.5, "0.5", fine, 2, 1, rng=entropy.seeded(104))
    counts = [np.count_nonzero(drawn == 0), np.count_nonzero(drawn == 1.5)]
    law = [0.2, 0.18894662109640588286, 0.61105337890359411714]
    assert_consistent(g_test([*counts, drawn.size - sum(counts)], law))


def kernel_cdf(y: np.ndarray, x: np.ndarray, a: float, b: float) -> tuple[np.ndarray, np.ndarray]:
    """Return P[fine noise < y] and P[fine noise <= y] of Laplace noise, given the coarse noise x.

    The coarse noise has the decay rate `a`, and the fine noise has the decay rate `b`.
    """
    sign = np.where(x >= 0, 1.0, -1.0)
    u, m = y * sign, np.abs(x)
    after = np.exp(-(b - a) * m) * np.exp(-(a + b) * np.maximum(u - m, 0)) * (b - a) / (2 * b)
    inner = (a + b) / (2 * b) * np.exp(-(b - a) * np.clip(u, 0, m))
    before = 1 - (b - a) / (2 * b) * np.exp((a + b) * np.minimum(u, 0))
    up_to = 1 - np.where(u < 0, before, np.where(u < m, inner, after))
    below = np.where(u == m, up_to - a / b * np.exp(-(b - a) * m), up_to)
    return np.where(sign > 0, below, 1 - up_to), np.where(sign > 0, up_to, 1 - below)


@pytest.mark.parametrize("start", [-7.0, -0.3, 0.0, 1e-9, 2.5])
def test_refine_and_carry_have_the_law_of_the_kernel(start: float) -> None:
    """Refined or carried Laplace noise follows its exact conditional distribution, given the coarse noise."""
    family = Laplace(sensitivity=2.0)
    rng, x = entropy.seeded(105), np.full(DRAWS, start)
    for drawn in (family.refine(x, "0.4", 1, rng=rng), family.carry(np.stack([x, x]), "0.4", 1, rng=rng)[1]):
        below, up_to = kernel_cdf(drawn, x, 0.2, 0.5)
        assert_consistent(ks_test(below + (up_to - below) * rng.random(DRAWS), lambda u: u))
