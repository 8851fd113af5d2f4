"""The cost of an open domain: the probability that any release publishes a key that only one unit has.

Suppose that a unit has l keys that no other unit has, and adds r parts to the count of each. With noise Z, a release
publishes at least one of these keys with probability 1 - P[Z <= threshold - r]**l. Add up this probability over all
release points (step and level). The sum for the worst r and l bounds delta of all releases, even at adaptive levels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from sparsehist.errors import DeclarationError, shown
from sparsehist.histogram.grid import effective_threshold, published_step
from sparsehist.noise.family import Family

Point = tuple[int, Fraction]  # a release point: a step (0 for a series without steps) and a level


def exposure(family: Family, level: Fraction, threshold: float, touched: Sequence[tuple[int, int]]) -> list[Fraction]:
    """Return the probabilities that a release publishes at least one of l keys that only one unit has.

    There is one probability for each pair (r, l) in `touched`: the unit adds r parts to the count of each of l keys.
    """
    added, keys = np.array(touched, np.float64).T
    hidden = keys * family.log_cdf(threshold - added, level)
    return [Fraction(probability) for probability in np.abs(np.expm1(hidden)).tolist()]


@dataclass(frozen=True)
class OpenBudget:
    """The delta of an open domain, and how much of it past releases have used.

    For each release point and each pair (r, l) in `touched`, `spent` is the probability that a release at this point
    publishes at least one of l keys that only one unit has (see `exposure`). Releases at the same point share their
    noise, so only the lowest threshold at a point matters. The probabilities are added exactly.
    """

    delta: Fraction
    touched: Sequence[tuple[int, int]]  # see `exposure`
    spent: Mapping[Point, Sequence[Fraction]] = field(default_factory=dict)

    @property
    def delta_infinity(self) -> Fraction:
        """The delta used so far: a bound on the probability that releases published a key that only one unit has."""
        return max(self._exposure_sums())

    @property
    def remaining(self) -> float:
        """The delta that remains for later releases, rounded down to a double."""
        left = self.delta - self.delta_infinity
        rounded = float(left)
        return rounded if Fraction(rounded) <= left else math.nextafter(rounded, -math.inf)

    def after(self, point: Point, family: Family, threshold: float) -> OpenBudget:
        """Return the budget after one more release at `point`, with this effective threshold."""
        exposed = exposure(family, point[1], threshold, self.touched)
        known = self.spent.get(point, exposed)
        return replace(self, spent={**self.spent, point: list(map(max, known, exposed))})

    def added(self, point: Point, family: Family, threshold: float) -> Fraction:
        """Return how much a release at `point`, with this effective threshold, would add to `delta_infinity`."""
        return self.after(point, family, threshold).delta_infinity - self.delta_infinity

    def lowest_threshold(self, point: Point, family: Family, delta: float) -> float:
        """Return the lowest threshold on the grid at which a release adds at most `delta` to `delta_infinity`.

        Raise DeclarationError unless `delta` is above 0 and at most `remaining`.
        """
        if not 0 < Fraction(delta) <= self.delta - self.delta_infinity:
            raise DeclarationError(f"delta must be above 0 and at most {shown(self.remaining)}, got {shown(delta)}")
        limit, level = self.delta_infinity + Fraction(delta), point[1]
        here = self.spent.get(point, [Fraction(0)] * len(self.touched))
        step = published_step(family, level)

        def alone(pair: tuple[int, int], allowed: Fraction) -> float:
            """Return the threshold at which `exposure` returns the probability `allowed` for this pair (r, l)."""
            added, keys = pair
            chance = -math.expm1(math.log1p(-min(float(allowed), 1 - 2.0**-53)) / keys)
            return added + float(family.inverse_log_tail(math.log(chance), level))

        rooms = (limit - total + own for total, own in zip(self._exposure_sums(), here, strict=True))
        place = math.floor(max(map(alone, self.touched, rooms)) / step) - 2
        while self.after(point, family, effective_threshold(place * step, step)).delta_infinity > limit:
            place += 1
        return place * step

    def _exposure_sums(self) -> list[Fraction]:
        start = [Fraction(0)] * len(self.touched)
        return [sum(terms, Fraction(0)) for terms in zip(start, *self.spent.values(), strict=True)]
