"""Tests that the statistical tests have uniform p-values under a true hypothesis and detect relevant errors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from sparsehist.entropy import seeded
from tests import stats

PMF = np.array([0.3, 0.25, 0.15, 0.1, 0.08, 0.06, 0.03, 0.02, 0.01])
# Covariance of Brownian motion at times 1, 2 and 4, which models the noise of one cell at three levels.
PATH_COVARIANCE = np.minimum.outer([1.0, 2.0, 4.0], [1.0, 2.0, 4.0])


def _path(size, *, rng, scale=1.0):
    return np.cumsum(scale * rng.standard_normal((size, 3)) * np.sqrt([1.0, 1.0, 2.0]), axis=1)


@pytest.mark.parametrize(
    "p_value",
    [
        lambda rng: stats.g_test(rng.multinomial(2000, PMF), PMF),
        lambda rng: stats.ks_test(rng.standard_normal(200), special.ndtr),
        lambda rng: stats.mean_test(rng.standard_normal(50), 0.0, 1.0),
        lambda rng: stats.uniform_cube_test(rng.random((2000, 2)), 5),
        lambda rng: stats.two_sample_counts(rng.multinomial(2000, PMF), rng.multinomial(3000, PMF)),
        lambda rng: stats.two_sample_outcomes(rng.integers(0, 3, (600, 2)), rng.integers(0, 3, (900, 2))),
    ],
    ids=["g_test", "ks_test", "mean_test", "uniform_cube_test", "two_sample_counts", "two_sample_outcomes"],
)
def test_p_values_are_uniform_when_the_law_holds(p_value):
    """If the hypothesis is true, p-values are uniform. With 2,000 of them, a CDF that is off by 0.1 is detected."""
    rng = seeded(20)
    stats.assert_consistent(stats.ks_test([p_value(rng) for _ in range(2000)], lambda p: p))


@pytest.mark.parametrize(
    "p_value",
    [
        lambda rng: stats.two_sample_vectors(_path(300, rng=rng), _path(300, rng=rng)),
        lambda rng: stats.gaussian_vector_test(_path(1000, rng=rng), PATH_COVARIANCE),
        lambda rng: stats.binomial_test(int(rng.binomial(1000, 0.01)), 1000, 0.01),
        lambda rng: stats.poisson_test(int(rng.poisson(10.0)), 10.0),
    ],
    ids=["two_sample_vectors", "gaussian_vector_test", "binomial_test", "poisson_test"],
)
def test_p_values_are_never_too_small_when_the_law_holds(p_value):
    """Under a true hypothesis, the p-value of a conservative test is at most t with probability at most t.

    The p-values of conservative tests are not uniform, because these tests count discrete outcomes or combine several
    p-values.
    """
    rng = seeded(21)
    p_values = np.array([p_value(rng) for _ in range(400)])
    for level in (0.2, 0.05):
        stats.assert_consistent(float(special.bdtrc(np.sum(p_values <= level) - 1, 400, level)))


@pytest.mark.parametrize("scale", [0.95, 1.05])
def test_a_scale_off_by_five_per_cent_is_rejected(scale):
    """Negative control: a scale that is 5 % off is rejected. Tests of vectors accept the correct scale."""
    stats.assert_detected(stats.ks_test(scale * seeded(1).standard_normal(200_000), special.ndtr))
    squares = (scale * seeded(2).standard_normal(20_000)) ** 2
    stats.assert_detected(stats.mean_test(squares, 1.0, 2.0))
    edges = special.ndtri(np.arange(1, 20) / 20)
    cells = np.searchsorted(edges, scale * seeded(3).standard_normal(50_000))
    stats.assert_detected(stats.g_test(np.bincount(cells, minlength=20), np.full(20, 0.05)))
    wrong, right = _path(100_000, rng=seeded(6), scale=scale), _path(100_000, rng=seeded(8))
    stats.assert_detected(stats.gaussian_vector_test(wrong, PATH_COVARIANCE))
    stats.assert_consistent(stats.gaussian_vector_test(right, PATH_COVARIANCE))
    stats.assert_detected(stats.two_sample_vectors(wrong, right))
    stats.assert_consistent(stats.two_sample_vectors(_path(100_000, rng=seeded(6)), right))


def test_a_wrong_mean_or_rate_is_rejected():
    """Negative control: a mean that is 0.05 standard deviations off and a rate that is 10 % off are rejected."""
    stats.assert_detected(stats.mean_test(0.05 + seeded(4).standard_normal(40_000), 0.0, 1.0))
    trials, rate = 10_000_000, 1e-3
    stats.assert_detected(stats.binomial_test(int(seeded(5).binomial(trials, 1.1 * rate)), trials, rate))


def test_an_independent_redraw_of_one_release_is_rejected():
    """Negative control: joint tests reject an independently redrawn release whose own distribution is correct."""
    rng = seeded(7)
    path = _path(20_000, rng=rng)
    path[:, 1] = np.sqrt(2.0) * rng.standard_normal(20_000)
    stats.assert_consistent(stats.ks_test(path[:, 1] / np.sqrt(2.0), special.ndtr))
    stats.assert_detected(stats.gaussian_vector_test(path, PATH_COVARIANCE))
    stats.assert_detected(stats.two_sample_vectors(path, _path(20_000, rng=rng)))
    rounded, right = np.round(path), np.round(_path(20_000, rng=rng))
    stats.assert_detected(stats.two_sample_outcomes(rounded.astype(int), right.astype(int)))


def test_an_impossible_outcome_is_rejected():
    """A sample that contains an outcome of probability 0 has the p-value 0."""
    assert stats.g_test([100, 100, 1], [0.5, 0.5, 0.0]) == 0.0
    assert stats.g_test([100, 100, 0], [0.5, 0.5, 0.0]) > 0.1


def test_a_p_value_below_its_share_fails_and_is_counted():
    """`assert_consistent` fails if a p-value is NaN or below its share of the error probability.

    `assert_consistent` also counts p-values, because each share is valid only for the declared number of p-values.
    """
    assert stats.SUITE_LEVEL == 1e-6
    assert pytest.approx(stats.SUITE_LEVEL) == stats.SHARE * stats.P_VALUES
    before = stats.asked()
    stats.assert_consistent(stats.SHARE)
    for refused in (stats.SHARE / 2, float("nan")):
        with pytest.raises(AssertionError, match="does not follow"):
            stats.assert_consistent(refused)
    assert stats.asked() == before + 3
    with pytest.raises(AssertionError, match="not detected"):
        stats.assert_detected(stats.SHARE)
