"""Gaussian noise over steps and levels, for the cells of a running series.

A release point (t, ρ) is the release of step t at level ρ. The noise at points (t, ρ) and (t', ρ') has the covariance
C[t, t'] / (2 max(ρ, ρ')), where C is the covariance matrix of the noise of all steps at level 1/2. So releases of
all steps and levels, in any order, share one noise path, and together cost only as much as the finest level.

Source: our own derivation (docs/mathematics.md, running counts).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from sparsehist.errors import DeclarationError, LevelError
from sparsehist.noise.gaussian import Gaussian
from sparsehist.privacy.levels import level_text
from sparsehist.typing import FloatArray, Generator, IntArray

# The smallest allowed relative distance between levels: noise at closer levels would lose too much precision.
LEAST_GAP = Fraction(1, 10**6)


class Point(NamedTuple):
    """A release point: a step, counted from 0, and an exact level."""

    step: int
    level: Fraction


class StepNoise:
    """Gaussian noise of one cell over steps and levels; at level 1/2, its covariance over steps is `covariance`.

    Raise DeclarationError if `covariance` is not a covariance matrix or has a negative entry.
    """

    def __init__(self, covariance: FloatArray) -> None:
        matrix = np.array(covariance, np.float64)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.array_equal(matrix, matrix.T):
            raise DeclarationError(f"a covariance over steps must be square and symmetric, got shape {matrix.shape}")
        if not (np.isfinite(matrix).all() and (np.diag(matrix) > 0).all()):
            raise DeclarationError("every step must have noise with a positive, finite variance")
        if matrix.min() < 0:
            raise DeclarationError(
                "the noise of two steps has a negative covariance, so the noise of untracked cells could not be "
                "drawn later; give each sliding window, and each difference of running counts, its own noise path"
            )
        self._covariance = matrix
        self._covariance.flags.writeable = False

    def at(self, step: int) -> Gaussian:
        """Return the Gaussian noise family for one step."""
        return Gaussian(math.sqrt(self._covariance[step, step]))

    def ratios(self, points: Sequence[Point], new: Point) -> FloatArray:
        """Return Cov[Z(point), Z(new)] / Var[Z(new)] for each of `points`; Z is noise. No ratio is negative."""
        levels = np.array([float(min(new.level / point.level, Fraction(1))) for point in points])
        steps = [point.step for point in points]
        return np.asarray(self._covariance[steps, new.step] / self._covariance[new.step, new.step] * levels)

    def factor(self, points: Sequence[Point]) -> Factor:
        """Return a triangular factor of the covariance matrix of the noise at distinct points; see `Factor`."""
        order = sorted(range(len(points)), key=lambda i: (points[i].level, points[i].step))
        _check_levels([points[i].level for i in order])
        steps = sorted({point.step for point in points})
        place = {step: i for i, step in enumerate(steps)}
        grown = self._covariance[np.ix_(steps, steps)]
        unknown = np.zeros_like(grown)
        parts = np.empty((len(points), len(steps)))
        reached = Fraction(0)
        for row, i in enumerate(order):
            step, level = place[points[i].step], points[i].level
            if level > reached:
                unknown += float((level - reached) / 2) * grown
                reached = level
            part = unknown[step] / math.sqrt(unknown[step, step])
            unknown -= np.multiply.outer(part, part)
            unknown[step] = unknown[:, step] = 0.0
            parts[row] = part
        rows = parts[:, [place[points[i].step] for i in order]].T
        levels = np.array([float(points[i].level) for i in order])
        return Factor(np.array(order, np.int64), np.tril(rows) / levels[:, np.newaxis])


class Factor(NamedTuple):
    """A factor of the covariance matrix of the noise at m points: noise[order] = triangle @ standard normals.

    `order` sorts the points by ascending level, then step; shape (m,). `triangle` has shape (m, m).
    """

    order: IntArray
    triangle: FloatArray

    def draw(self, size: int, *, rng: Generator) -> FloatArray:
        """Draw fresh noise at all points; shape (m, size)."""
        noise = np.empty((self.order.size, size))
        noise[self.order] = self.triangle @ rng.standard_normal((self.order.size, size))
        return noise

    def given(self, point: int, known: FloatArray, *, rng: Generator) -> FloatArray:
        """Draw noise at `point`, shape (size,), given the noise `known` at all other points, shape (m - 1, size)."""
        weights, std = self.weights(point)
        return np.asarray(weights @ known + std * rng.standard_normal(known.shape[1]))

    def weights(self, point: int) -> tuple[FloatArray, float]:
        """Return the normal distribution of the noise at `point`, given the noise at all other points.

        The conditional mean is a weighted sum of the noise at the other points. Return the weights, shape (m - 1,),
        and the standard deviation. Both are computed from a column of the precision matrix.
        """
        from scipy.linalg import solve_triangular  # imported here because it is slow to import and rarely needed

        at = int(np.flatnonzero(self.order == point)[0])
        unit = np.zeros(self.order.size)
        unit[at] = 1.0
        column = solve_triangular(self.triangle, unit, lower=True)
        precision = float(column @ column)
        by_place = np.empty(self.order.size)
        by_place[self.order] = solve_triangular(self.triangle, column, lower=True, trans="T") / -precision
        return np.delete(by_place, point), 1 / math.sqrt(precision)


def _check_levels(levels: Sequence[Fraction]) -> None:
    for coarse, fine in itertools.pairwise(levels):
        if coarse < fine < coarse * (1 + LEAST_GAP):
            raise LevelError(
                "two levels of a running series differ by less than one part in a million: use the earlier level "
                f"again, or choose one farther from it; got {level_text(coarse)} and {level_text(fine)}"
            )
