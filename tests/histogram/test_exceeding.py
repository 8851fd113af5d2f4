"""Tests of `draw_exceeding`, which draws the cells that exceed a threshold, and their noise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sparsehist import entropy
from sparsehist.errors import InputError, LevelError, ThresholdError
from sparsehist.histogram import draw_exceeding
from sparsehist.noise import Gaussian
from tests.cases import quick
from tests.histogram.exact_exceedances import exceedance
from tests.stats import assert_consistent, assert_detected, binomial_test, mean_test, poisson_test

UNIT = Gaussian(sensitivity=1.0)


def rate(past: list, level: str, threshold: float, sensitivity: float = 1.0, count: int = 0) -> float:
    """Return the exact probability that a noisy count exceeds `threshold` after exceeding no past threshold."""
    bounds = [(known, tau - count) for known, tau in past]
    return exceedance(Gaussian(sensitivity=sensitivity), bounds, level, threshold - count)


def in_stds(t: float, levels: list[float]) -> list[tuple[float, float]]:
    """Return (level, threshold) pairs; each threshold is `t` standard deviations of the noise at its level."""
    return [(level, t * UNIT.std(level)) for level in levels]


def test_mean_and_variance_at_the_new_level_are_the_reference() -> None:
    """The mean and variance of the noise of newly exceeding cells agree with values computed to 20 digits.

    Negative control: the mean that results from [ARNP Alg. 6] is detected as wrong.
    """
    past, sigma = in_stds(3, [0.1, 0.2]), UNIT.std(0.4)
    drawn = draw_exceeding(UNIT, past, 0.4, 3 * sigma, round(400_000 / 0.00108), rng=entropy.seeded(12))
    z = drawn.values / sigma
    mean, variance = 3.2568427478742748627, 0.056830465081983539043
    assert_consistent(mean_test(z, mean, variance))
    assert_detected(mean_test(z, 3.158, variance), "the mean of the paper's algorithm")
    # The test of the variance uses the empirical variance of the squared deviations, whose error is about 1 %.
    assert_consistent(mean_test((z - mean) ** 2, variance, float(np.var((z - mean) ** 2))))


# The test cases have levels out of order, unequal thresholds, several sensitivities, positive counts and rare events.
# Fields of a test case: sensitivity, past releases, level, threshold, count, and reference probability or None.
SCENES = {
    "one past level": (1.0, in_stds(3, [0.1]), 0.2, 3 * UNIT.std(0.2), 0, 0.0011133465022460848028),
    "two past levels": (1.0, in_stds(3, [0.1, 0.2]), 0.4, 3 * UNIT.std(0.4), 0, 0.0010829580920688728603),
    "far out": (1.0, in_stds(5, [0.1, 0.2]), 0.4, 5 * UNIT.std(0.4), 0, 2.7700608763713825662e-7),
    "unequal thresholds": (1.0, [(0.1, 10.0), (0.2, 8.0)], 0.4, 5.0, 0, 3.818693700135563521e-6),
    "coarsest last": (1.0, [("0.4", 4.0), ("0.2", 7.0)], "0.1", 8.0, 0, None),
    "between": (1.0, [("0.4", 3.5), ("0.1", 7.0)], "0.2", 5.0, 0, None),
    "between two close ones": (2.0, [("0.1", 14.0), ("0.11", 13.5)], "0.105", 13.0, 0, None),
    "finest after scrambled": (math.sqrt(20), [("1/3", 17.0), ("0.05", 50.0), ("0.1", 31.0)], "1", 10.0, 0, None),
    "again, lower threshold": (1.0, [("0.2", 5.0), ("0.1", 7.0)], "0.2", 4.0, 0, None),
    "again, higher threshold": (1.0, [("0.2", 5.0), ("0.1", 7.0)], "0.2", 6.0, 0, None),
    "count 7": (1.0, [("0.1", 14.0), ("0.4", 11.0)], "0.2", 12.0, 7, None),
    "count above an old threshold": (1.0, [("0.1", 9.0), ("0.4", 11.0)], "0.2", 12.0, 11, None),
    "drawn explicitly": (1.0, [("0.1", 11.0), ("0.4", 14.0)], "0.2", 11.0, 13, None),
    "p near 1e-12": (1.0, [("0.1", 18.0), ("0.2", 12.0)], "0.4", 8.0, 0, None),
    "p near 1e-19": (1.0, [("0.2", 14.0), ("0.1", 20.0)], "0.4", 10.0, 0, None),
}


@pytest.mark.parametrize("scene", quick([name for name in SCENES if name != "count above an old threshold"], SCENES))
def test_rates_in_any_order_agree_with_quadrature(scene: str) -> None:
    """The number of exceeding cells agrees with its exact probability. An excess of 2 % would be detected."""
    sensitivity, past, level, threshold, count, reference = SCENES[scene]
    p = rate(past, level, threshold, sensitivity, count)
    if reference:
        assert p == pytest.approx(reference, rel=1e-8)
    n = round(400_000 / p) if p > 0 else 10**9
    drawn = draw_exceeding(Gaussian(sensitivity), past, level, threshold, n, count=count, rng=entropy.seeded(13))
    q = int(drawn.exceeds.sum())
    assert_consistent(poisson_test(q, n * p) if p < 1e-3 else binomial_test(q, n, p))
    if p > 0:
        assert_detected(poisson_test(q, n * p * 1.02), "a rate 2 % too high")
    assert ((drawn.values > threshold - count) == drawn.exceeds).all()
    assert len(drawn.values) == (n if scene == "drawn explicitly" else q)
    assert (drawn.paths <= np.array([tau for _, tau in past]) - count).all()


def test_a_group_with_no_cells_and_no_groups_at_all_are_fine() -> None:
    """Without groups, or with a group without cells, `draw_exceeding` returns empty arrays of the correct shape."""
    assert draw_exceeding(UNIT, [(0.1, 5.0)], 0.2, 4.0, 0, rng=entropy.seeded(1)).paths.shape == (0, 1)
    assert draw_exceeding(UNIT, [], 0.2, 4.0, [], count=[], rng=entropy.seeded(1)).values.shape == (0,)
    empty_and_rare = draw_exceeding(UNIT, [(0.1, 5.0)], 0.2, 40.0, [7, 0], count=[0, 12], rng=entropy.seeded(1))
    assert empty_and_rare.values.size == 0


@pytest.mark.parametrize(
    ("past", "level", "threshold", "sizes", "counts", "error"),
    [
        ([], 0.2, 4.0, [-1], 0, InputError),
        ([], 0.2, 4.0, [1, 2], [0, 0, 0], InputError),
        # The cell with count 12 has a history of probability 0.001. A series draws such cells explicitly.
        ([(0.1, 5.0)], 0.2, 40.0, [7, 1], [0, 12], InputError),
        ([], 0.0, 4.0, 5, 0, LevelError),
        ([], 0.2, 0.0, 10**12, 0, ThresholdError),
    ],
)
def test_bad_input_is_refused(past, level, threshold, sizes, counts, error) -> None:
    """`draw_exceeding` refuses invalid group sizes, rare histories, level 0, and a draw of too many cells."""
    with pytest.raises(error):
        draw_exceeding(UNIT, past, level, threshold, sizes, count=counts, rng=entropy.seeded(1))
