"""What is left of the delta of an open domain: a budget that halves for ever without running out.

Sums are exact (fractions of doubles), and what is left is computed from itself, never as the difference of two
deltas that agree in most of their digits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from sparsehist.histogram.grid import effective_threshold, grid_step
from sparsehist.histogram.never_exceeds import (
    Past,
    delta_of,
    first_exceedance,
    first_exceedances,
    probability_for,
)
from sparsehist.noise.family import Family
from sparsehist.privacy.levels import Level, as_level

# Of every delta this share is kept back for the error of the probabilities, which is some 1e-12.
KEPT_BACK = 1e-11


@dataclass(frozen=True)
class OpenBudget:
    """The delta of an open domain and what releases have spent of it. Public parameters only.

    Attributes:
        delta: Declared for the series.
        max_keys: Keys a unit may touch.
        spent: For each release, the probability that a key of count 1 is published in it for the first time.

    Example:
        >>> budget = OpenBudget(1e-6, 20, ())
        >>> budget.after(budget.allowance(budget.remaining / 2)).remaining / budget.remaining
        0.5
    """

    delta: float
    max_keys: int
    spent: tuple[float, ...]

    @property
    def delta_spent(self) -> float:
        """delta_infinity: the probability that any of a unit's own new keys was published in any release."""
        return delta_of(float(sum(map(Fraction, self.spent))), self.max_keys)

    @property
    def remaining(self) -> float:
        """What later releases may add to delta_infinity."""
        return (1 - self._limit) * math.expm1(self.max_keys * math.log1p(float(self._left) / (1 - self._capacity)))

    def after(self, probability: float) -> OpenBudget:
        """The budget once a release has spent this probability."""
        return OpenBudget(self.delta, self.max_keys, (*self.spent, probability))

    def holds(self, probability: float) -> bool:
        """Whether a release may spend this probability."""
        return Fraction(probability) <= self._left

    def added(self, probability: float) -> float:
        """What a release that spends this probability adds to delta_infinity."""
        before = float(sum(map(Fraction, self.spent)))
        if before + probability >= 1:
            return 1 - self.delta_spent
        return math.exp(self.max_keys * math.log1p(-before)) * delta_of(probability / (1 - before), self.max_keys)

    def allowance(self, delta: float) -> float:
        """The probability that a release may spend so as to add `delta`, at most what remains."""
        rest = max(0.0, self.remaining - delta)
        kept = (1 - self._capacity) * math.expm1(math.log1p(rest / (1 - self._limit)) / self.max_keys)
        return max(0.0, float(self._left - Fraction(kept)))

    @property
    def _limit(self) -> float:
        return self.delta * (1 - KEPT_BACK)

    @property
    def _capacity(self) -> float:
        return probability_for(self._limit, self.max_keys)

    @property
    def _left(self) -> Fraction:
        return Fraction(self._capacity) - sum(map(Fraction, self.spent))


def open_budget(family: Family, past: Past, delta: float, max_keys: int, spent: float | None = None) -> OpenBudget:
    """What the releases of a path have left of a delta.

    Args:
        family: The noise, with the sensitivity that max_keys implies.
        past: (level, effective threshold) of every release; of one level in the order they were made.
        delta: Declared for the series.
        max_keys: Keys a unit may touch.
        spent: Their delta_infinity, where it is known.

    Example:
        >>> from sparsehist.noise import Gaussian
        >>> open_budget(Gaussian(), [(0.5, 6.0)], 1e-6, 1).remaining < 1e-6 - 2.8e-7
        True
    """
    if spent is not None:
        return OpenBudget(delta, max_keys, (probability_for(spent, max_keys),))
    return OpenBudget(delta, max_keys, tuple(first_exceedances(family, coarse_to_fine(past))))


def coarse_to_fine(past: Past) -> Past:
    """In the order in which one pass gives all terms; their sum is that of any order."""
    return sorted(past, key=lambda release: as_level(release[0]))


def exceedance_at(family: Family, past: Past, level: Level, threshold: float) -> float:
    """P[a key of count 1 is first published by a release with this declared threshold]."""
    known = tuple((as_level(at), bound) for at, bound in past)
    step = 1.0 if family.integer else grid_step(family.std(level))
    return first_exceedance(family, known, as_level(level), effective_threshold(threshold, step))
