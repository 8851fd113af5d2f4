"""The grid to which published noise is rounded, and the numerical slack of a release.

The store keeps unrounded noise, and count + round(noise) is published. The step of the grid is a power of two of at
most 1, and depends only on the standard deviation of the noise. So the possible published values are the same for
every count. A rounded noisy count is above the threshold if and only if noise > effective_threshold - count.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

import numpy as np

from sparsehist.errors import read_each
from sparsehist.noise.family import Family
from sparsehist.privacy.levels import Level, as_level
from sparsehist.typing import FloatArray, float_entries, noise_array

# Rounding to steps of 2**-4 standard deviations adds under 0.04 % to the variance; random rounding would add 0.08 %.
_BITS_BELOW_STD = 4
_OF_CANDIDATES = 1e-12  # bound on the total variation error of the numbers that `binomial` draws
_LAST_DIGIT = 2.0**-52
_NEAR = Fraction(1, 10**5)


def grid_step(std: float) -> float:
    """Return the grid step, in counts, for noise of this standard deviation: min(1, 2**(floor(log2(std)) - 4))."""
    exponent = math.frexp(std)[1] - 1
    return min(1.0, math.ldexp(1.0, exponent - _BITS_BELOW_STD))


def published_step(family: Family, level: Level) -> float:
    """Return the step of the grid to which noise published at this level is rounded; 1 for integer noise."""
    return 1.0 if family.integer else grid_step(family.std(level))


def round_to_grid(noise: FloatArray, step: float) -> FloatArray:
    """Round noise exactly to the nearest multiple of `step`, a power of two. Ties are rounded down.

    If t is a multiple of `step`, then round_to_grid(z, step) > t exactly when z > t + step / 2.
    """
    units = noise_array("noise", noise) / float_entries("step", step, 1)[0]
    rounded = np.rint(units)
    rounded -= units == rounded - 0.5
    rounded *= step
    return np.asarray(rounded)


def effective_threshold(threshold: float, step: float) -> float:
    """Return the effective threshold: noisy counts exceed it exactly when their rounded values exceed `threshold`.

    The result is (floor(threshold / step) + 1/2) * step, in counts. For integer noise, the step is 1.
    """
    return (math.floor(threshold / step) + 0.5) * step


def numerical_slack(numbers: int, std: float, step: float, *, near: int = 0, terms: int = 1) -> float:
    """Bound the total variation distance between a release, computed in doubles, and its exact distribution.

    The bound covers only errors that can depend on the data of one unit. It needs only public numbers as input. The
    bounds of several releases add up. docs/promises.md explains the bound; docs/mathematics.md has a proof.

    Args:
        numbers: How many noisy numbers depend on one unit.
        std: Standard deviation of their noise, in counts.
        step: Step of the grid to which the noise is rounded, in counts; 1 for integer noise.
        near: Number of earlier releases on the noise path at nearly the same level (see `count_near`).
        terms: Number of independent random numbers that are added up to the noise of one value.

    Example:
        >>> numerical_slack(numbers=20, std=10.0, step=0.5) < 2.1e-11
        True
    """
    of_noise = 4 * _LAST_DIGIT * (1 + math.log2(terms)) * (1 + std / step) * (1 + near)
    return min(1.0, numbers * (_OF_CANDIDATES + of_noise))


def count_near(past: Iterable[Level], level: Level) -> int:
    """Return how many earlier levels differ from `level` by at most 0.001 %. Each such level increases the slack."""
    exact = as_level(level)
    return sum(abs(at - exact) <= _NEAR * exact for at in read_each("levels", list(past), as_level, "a level"))
