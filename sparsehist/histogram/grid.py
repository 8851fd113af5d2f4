"""The grid on which noise is published.

The real path stays in the state; what leaves is count + round(noise). The step is a power of two that
depends on the standard deviation alone and divides 1, so a count of c and one of c + 1 have supports that are
shifts of one another, and "rounded noisy count above the threshold" is the same event as "noise above
effective_threshold - count".
"""

from __future__ import annotations

import math

import numpy as np

from sparsehist.noise.family import Family
from sparsehist.privacy.levels import Level
from sparsehist.typing import FloatArray, float_entries, noise_array

# Rounding to 2**-4 of the standard deviation adds less than 4e-4 of the variance, and rounding at random twice that.
_BITS_BELOW_STD = 4


def grid_step(std: float) -> float:
    """The step of the grid, in counts: min(1, 2**(floor(log2(std)) - 4)).

    Example:
        >>> grid_step(10.0)
        0.5
    """
    exponent = math.frexp(std)[1] - 1
    return min(1.0, math.ldexp(1.0, exponent - _BITS_BELOW_STD))


def published_step(family: Family, level: Level) -> float:
    """The step of the grid on which the noise of a family is published at a level; 1 for integer noise."""
    return 1.0 if family.integer else grid_step(family.std(level))


def round_to_grid(noise: FloatArray, step: float) -> FloatArray:
    """Round noise to the nearest multiple of `step`, a power of two, halves down, exactly; any shape.

    round_to_grid(z) > t for a multiple t exactly when z > t + step / 2.
    """
    units = noise_array("noise", noise) / float_entries("step", step, 1)[0]
    rounded = np.rint(units)
    rounded -= units == rounded - 0.5
    rounded *= step
    return np.asarray(rounded)


def effective_threshold(threshold: float, step: float) -> float:
    """The bound t with: rounded noisy count > threshold exactly when noise > t - count.

    It is (floor(threshold / step) + 1/2) * step, in counts. Integer noise takes step = 1.
    """
    return (math.floor(threshold / step) + 0.5) * step
