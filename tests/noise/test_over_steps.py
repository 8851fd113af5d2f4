"""Tests that Gaussian noise over steps and levels has the exact covariance and conditional distributions."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from sparsehist import entropy
from sparsehist.errors import DeclarationError, LevelError
from sparsehist.histogram import numerical_slack
from sparsehist.noise.over_steps import LEAST_GAP, Point, StepNoise
from tests.noise.laws import prefix_covariance
from tests.stats import assert_consistent, assert_detected, gaussian_vector_test


def between(noise: np.ndarray, points: list[Point]) -> np.ndarray:
    """Return the exact covariance of noise at release points, which are pairs of step and level."""
    steps, levels = [point.step for point in points], np.array([float(point.level) for point in points])
    return noise[np.ix_(steps, steps)] / (2 * np.maximum.outer(levels, levels))


SCRAMBLED = [Point(step, Fraction(level)) for step, level in [(0, "0.2"), (3, "1"), (1, "0.2"), (0, "1"), (2, "0.5")]]


def test_draws_have_that_covariance_and_so_has_one_noise_given_the_others() -> None:
    """Noise at five release points has the exact covariance, even after three points are redrawn.

    Three of the five release points are redrawn, each given the other four. A scale that is 5 % off is detected.
    """
    noise, rng = StepNoise(prefix_covariance(5)), entropy.seeded(1)
    factor, wanted = noise.factor(SCRAMBLED), between(prefix_covariance(5), SCRAMBLED)
    drawn = factor.draw(40_000, rng=rng)
    assert_consistent(gaussian_vector_test(drawn.T, wanted), "noise at five points")
    for point in (0, 1, 4):
        drawn[point] = factor.given(point, np.delete(drawn, point, axis=0), rng=rng)
    assert_consistent(gaussian_vector_test(drawn.T, wanted), "noise of which three were drawn again")
    assert_detected(gaussian_vector_test(1.05 * drawn.T, wanted), "a scale 5 % off")


@pytest.mark.parametrize(("steps", "points"), [(5, 24), (30, 40), (365, 40)])
def test_conditional_laws_are_right_at_the_smallest_gap_of_levels(steps: int, points: int) -> None:
    """If levels are nearly equal, the distribution of the noise at one release point given the others is accurate.

    The error of the conditional mean is below the numerical slack, and the relative error of the standard deviation
    is below 1e-14. A computation from the covariance matrix in doubles would lose half of the digits.
    """
    matrix, rng = prefix_covariance(steps), entropy.seeded(steps)
    levels = [Fraction(1, 10) * (1 + LEAST_GAP) ** i for i in range(8)]
    chosen = rng.permutation(steps * len(levels))[:points]
    all_points = [Point(int(i) % steps, levels[int(i) // steps]) for i in chosen]
    factor = StepNoise(matrix).factor(all_points)
    for at in (0, 7):
        others = [point for i, point in enumerate(all_points) if i != at]
        with mpmath.workdps(60):
            known = exact(matrix, others, others)
            weights = mpmath.lu_solve(known, exact(matrix, others, [all_points[at]]))
            left = exact(matrix, [all_points[at]], [all_points[at]])[0, 0]
            std = mpmath.sqrt(left - (exact(matrix, [all_points[at]], others) * weights)[0, 0])
            found, found_std = factor.weights(at)
            off = mpmath.matrix(found.tolist()) - weights
            shift = mpmath.sqrt((off.T * known * off)[0, 0]) / std
        # If the mean is off by `shift` standard deviations, the total variation distance is at most 0.4 * shift.
        assert 0.4 * shift < numerical_slack(1, 1.0, 2.0**-4)
        assert abs(found_std / std - 1) < 1e-14


def exact(matrix: np.ndarray, rows: list[Point], columns: list[Point]) -> mpmath.matrix:
    """Return the covariance of noise between two lists of release points, in mpmath's working precision."""

    def entry(one: Point, other: Point) -> mpmath.mpf:
        level = max(one.level, other.level)
        return mpmath.mpf(float(matrix[one.step, other.step])) * level.denominator / (2 * level.numerator)

    return mpmath.matrix([[entry(one, other) for other in columns] for one in rows])


def test_what_is_no_covariance_and_levels_nearly_equal_are_refused() -> None:
    """Matrices that are not a covariance are refused, and so are levels with a relative difference below 1e-6."""
    for wrong in ([[1.0, 0.5]], [[1.0, 0.5], [0.4, 1.0]], [[0.0]], [[np.inf]]):
        with pytest.raises(DeclarationError):
            StepNoise(np.array(wrong))
    nearly = [Point(0, Fraction(1, 2)), Point(1, Fraction(1, 2) * (1 + Fraction(1, 10**7)))]
    with pytest.raises(LevelError, match="differ by less than one part in a million"):
        StepNoise(prefix_covariance(3)).factor(nearly)
