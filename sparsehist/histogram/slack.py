"""The numerical slack of a release: how far its law may be from the stated one, because computers use doubles.

It is a total variation distance, as far as the data of one unit can change it, and depends on public numbers only.
It adds over releases. docs/promises.md says what it means, docs/mathematics.md where the terms come from, and the
tests compare it with 40 digits for every family.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

from sparsehist.errors import read_each
from sparsehist.privacy.levels import Level, as_level

# Total variation by which the number of candidates of a group may miss its binomial law.
_OF_CANDIDATES = 1e-12
_LAST_DIGIT = 2.0**-52
_NEAR = Fraction(1, 10**5)


def numerical_slack(numbers: int, std: float, step: float, *, near: int = 0, terms: int = 1) -> float:
    """Bound the total variation by which one release may miss its law.

    Args:
        numbers: Noisy numbers that depend on one unit.
        std: Standard deviation of their noise, in counts.
        step: Step of the grid they are rounded to, in counts; 1 for integer noise.
        near: Earlier points of the path whose level is nearly this one (`count_near`).
        terms: How many independent numbers each noise is a sum of.

    Example:
        >>> numerical_slack(numbers=20, std=10.0, step=0.5) < 2.1e-11
        True
    """
    of_noise = 4 * _LAST_DIGIT * (1 + math.log2(terms)) * (1 + std / step) * (1 + near)
    return min(1.0, numbers * (_OF_CANDIDATES + of_noise))


def count_near(past: Iterable[Level], level: Level) -> int:
    """Count the earlier levels within a relative 1e-5 of a level: their rounding errors are seen once more."""
    exact = as_level(level)
    return sum(abs(at - exact) <= _NEAR * exact for at in read_each("levels", list(past), as_level, "a level"))
