"""Tests of the statistical tests: p-values are uniform under the law, and relevant errors are rejected."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy import special

from sparsehist.entropy import seeded
from tests import stats

REPEATS = 2000
PMF = np.array([0.3, 0.25, 0.15, 0.1, 0.08, 0.06, 0.03, 0.02, 0.01])
# Brownian motion at times 1, 2, 4: what three releases of one cell look like.
PATH_COVARIANCE = np.minimum.outer([1.0, 2.0, 4.0], [1.0, 2.0, 4.0])


def _path(size, *, rng, scale=1.0):
    return np.cumsum(scale * rng.standard_normal((size, 3)) * np.sqrt([1.0, 1.0, 2.0]), axis=1)


def _p_values_under_the_law(test):
    """Draw REPEATS p-values of one test from samples that follow the law it tests."""
    rng = seeded(20)
    draws = {
        "g_test": lambda: stats.g_test(rng.multinomial(2000, PMF), PMF),
        "chi_square": lambda: stats.chi_square(rng.multinomial(20_000, PMF), PMF),
        "ks_test": lambda: stats.ks_test(rng.standard_normal(200), special.ndtr),
        "mean_test": lambda: stats.mean_test(rng.standard_normal(50), 0.0, 1.0),
        "uniform_cube_test": lambda: stats.uniform_cube_test(rng.random((2000, 2)), 5),
        "two_sample_counts": lambda: stats.two_sample_counts(rng.multinomial(2000, PMF), rng.multinomial(3000, PMF)),
        "two_sample_outcomes": lambda: stats.two_sample_outcomes(
            rng.integers(0, 3, (600, 2)), rng.integers(0, 3, (900, 2))
        ),
    }
    return np.array([draws[test]() for _ in range(REPEATS)])


@pytest.mark.parametrize(
    "test",
    [
        "g_test",
        "chi_square",
        "ks_test",
        "mean_test",
        "uniform_cube_test",
        "two_sample_counts",
        "two_sample_outcomes",
    ],
)
def test_p_values_are_uniform_when_the_law_holds(test):
    """Under the law tested, p-values spread evenly over the unit interval (a bias of 0.1 is seen)."""
    stats.assert_consistent(stats.ks_test(_p_values_under_the_law(test), lambda p: p), f"the p-value of {test}")


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
    """Tests of counts, or with several statistics, may be conservative: P[p <= t] is at most t."""
    rng = seeded(21)
    p_values = np.array([p_value(rng) for _ in range(400)])
    for level in (0.2, 0.05):
        stats.assert_consistent(float(special.bdtrc(np.sum(p_values <= level) - 1, 400, level)))


# --- how small an error is caught: each line is a negative control at a stated size -----------------------


@pytest.mark.parametrize("scale", [0.95, 1.05])
def test_a_scale_off_by_five_per_cent_is_caught_by_kolmogorov_smirnov(scale):
    """200,000 draws show a scale that is 5 % off (smallest detectable: 4.1 %)."""
    assert stats.smallest_detectable_scale(200_000) < 0.05
    stats.assert_detected(stats.ks_test(scale * seeded(1).standard_normal(200_000), special.ndtr))


@pytest.mark.parametrize("scale", [0.95, 1.05])
def test_a_scale_off_by_five_per_cent_is_caught_in_the_second_moment(scale):
    """20,000 draws show a scale that is 5 % off in their squares, which have mean 1 and variance 2."""
    squares = (scale * seeded(2).standard_normal(20_000)) ** 2
    assert np.sqrt(2.0) * stats.smallest_detectable_shift(20_000) < 1.0 - 0.95**2
    stats.assert_detected(stats.mean_test(squares, 1.0, 2.0))


@pytest.mark.parametrize("scale", [0.95, 1.05])
def test_a_scale_off_by_five_per_cent_is_caught_in_cells(scale):
    """A G-test on 20 cells of 50,000 draws catches a scale that is 5 % off, with probability above 0.99."""
    edges = special.ndtri(np.arange(1, 20) / 20)
    wrong = np.diff(special.ndtr(np.concatenate([[-np.inf], edges, [np.inf]]) / scale))
    observed = np.bincount(np.searchsorted(edges, scale * seeded(3).standard_normal(50_000)), minlength=20)
    assert stats.g_test_power(50_000, np.full(20, 0.05), wrong) > 0.99
    stats.assert_detected(stats.g_test(observed, np.full(20, 0.05)))
    stats.assert_detected(stats.chi_square(observed, np.full(20, 0.05)))


def test_a_shifted_mean_is_caught():
    """A shift of 5 % of the standard deviation shows in 40,000 draws (smallest detectable: 4.2 %)."""
    assert stats.smallest_detectable_shift(40_000) < 0.05
    shifted = 0.05 + seeded(4).standard_normal(40_000)
    stats.assert_detected(stats.mean_test(shifted, 0.0, 1.0))


def test_a_wrong_rate_is_caught():
    """A rate of 0.001 that is 10 % off shows in ten million trials (smallest detectable: 8.4 %)."""
    trials, rate = 10_000_000, 1e-3
    assert stats.smallest_detectable_rate(trials, rate) < 0.1
    stats.assert_detected(stats.binomial_test(int(seeded(5).binomial(trials, 1.1 * rate)), trials, rate))


@pytest.mark.parametrize("scale", [0.95, 1.05])
def test_a_wrong_scale_of_a_path_is_caught(scale):
    """The joint test of 50,000 paths catches a scale that is 5 % off, and lets the right one pass."""
    stats.assert_detected(stats.gaussian_vector_test(_path(50_000, rng=seeded(6), scale=scale), PATH_COVARIANCE))
    stats.assert_consistent(stats.gaussian_vector_test(_path(50_000, rng=seeded(6)), PATH_COVARIANCE))


def test_an_independent_redraw_of_one_release_is_caught():
    """A release drawn afresh has the right margins, passes tests of them, and fails the joint ones."""
    rng = seeded(7)
    path = _path(20_000, rng=rng)
    path[:, 1] = np.sqrt(2.0) * rng.standard_normal(20_000)
    stats.assert_consistent(stats.ks_test(path[:, 1] / np.sqrt(2.0), special.ndtr))
    stats.assert_detected(stats.gaussian_vector_test(path, PATH_COVARIANCE))
    stats.assert_detected(stats.two_sample_vectors(path, _path(20_000, rng=rng)))
    rounded, right = np.round(path), np.round(_path(20_000, rng=rng))
    stats.assert_detected(stats.two_sample_outcomes(rounded.astype(int), right.astype(int)))


def test_a_wrong_scale_between_two_samples_of_paths_is_caught():
    """Two samples of 100,000 paths tell a scale that is 5 % off, and pass when both are right."""
    rng = seeded(8)
    right = _path(100_000, rng=rng)
    stats.assert_detected(stats.two_sample_vectors(_path(100_000, rng=rng, scale=1.05), right))
    stats.assert_consistent(stats.two_sample_vectors(_path(100_000, rng=rng), right))


# --- far in the tail, where a share lies --------------------------------------------------------------


@pytest.mark.parametrize(
    ("successes", "trials", "probability"),
    [
        (40, 1000, 0.01),
        (0, 10**6, 3e-5),
        (500, 10**9, 1e-6),
        (10**6 - 50, 10**6, 0.9999),
        (700, 1000, 0.5),
        (1000, 1000, 0.98),
    ],
)
def test_binomial_tails_are_right_however_small(successes, trials, probability):
    """The exact test agrees with the sum of forty-digit terms to nine digits."""
    with mpmath.workdps(40):
        p = mpmath.mpf(probability)
        if successes > trials * probability:
            tail = mpmath.betainc(successes, trials - successes + 1, 0, p, regularized=True)
        else:
            tail = mpmath.betainc(trials - successes, successes + 1, 0, 1 - p, regularized=True)
    assert stats.binomial_test(successes, trials, probability) == pytest.approx(float(2 * tail), rel=1e-9)


def test_binomial_tails_hold_beyond_the_integers_of_a_float():
    """With 10**18 trials at 10**-16 the tail is that of a Poisson law of mean 100."""
    exact = float(2 * mpmath.gammainc(160, 0, 100, regularized=True))
    assert stats.binomial_test(160, 10**18, 1e-16) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("seen", [30, 40])
def test_the_g_statistic_stays_honest_in_a_cell_of_ten(seen):
    """Where one cell expected to hold ten holds far more, the p-value is never below half the exact one."""
    total = 100_000
    exact = stats.binomial_test(seen, total, 10 / total)
    assert 0.5 * exact < stats.g_test([seen, total - seen], [10 / total, 1 - 10 / total]) < 10 * exact


def test_what_cannot_be_tested_is_refused():
    """A missing tail, unlike shapes and samples too small to fill two cells are errors, never a p-value."""
    with pytest.raises(ValueError, match="tail is missing"):
        stats.g_test([50, 50], [0.5, 0.4])
    with pytest.raises(ValueError, match="shape"):
        stats.g_test([50, 50], [0.5, 0.25, 0.25])
    with pytest.raises(ValueError, match="too few"):
        stats.g_test([5, 5], [0.5, 0.5])
    with pytest.raises(ValueError, match="too few"):
        stats.two_sample_counts([5, 5], [5, 5])


def test_an_impossible_outcome_is_rejected():
    """What has probability 0 and was seen gives p = 0, in a pooled cell too."""
    assert stats.g_test([100, 100, 1], [0.5, 0.5, 0.0]) == 0.0
    assert stats.g_test([100, 100, 0], [0.5, 0.5, 0.0]) > 0.1


# --- the level and its shares ---------------------------------------------------------------------------


def test_the_shares_add_up_to_the_level_of_the_suite():
    """All declared p-values together spend the level of the suite and no more."""
    assert stats.SUITE_LEVEL == 1e-6
    assert pytest.approx(stats.SUITE_LEVEL) == stats.SHARE * stats.P_VALUES


def test_a_p_value_below_its_share_fails_and_is_counted():
    """The gate lets a share pass, refuses less and NaN, and counts each p-value once."""
    before = stats.asked()
    stats.assert_consistent(stats.SHARE)
    for refused in (stats.SHARE / 2, float("nan")):
        with pytest.raises(AssertionError, match="does not follow"):
            stats.assert_consistent(refused)
    assert stats.asked() == before + 3
    with pytest.raises(AssertionError, match="not noticed"):
        stats.assert_detected(stats.SHARE)
