"""What is left of the delta of an open domain: a budget that halves for ever without running out.

Sums are exact (fractions of doubles), and what is left is computed from itself, never as the difference of two
deltas that agree in most of their digits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sparsehist.histogram.grid import effective_threshold, published_step
from sparsehist.noise.family import Family
from sparsehist.open_domain.never_exceeds import (
    Past,
    delta_of,
    first_exceedance,
    first_exceedances,
    probability_for,
    threshold_for_exceedance,
)
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


@dataclass(frozen=True)
class OpenBudgets:
    """The delta of an open domain for units of every kind: a release keeps to it for each of them.

    A unit adds the same to each of its keys, and what it adds decides how many keys it may have. For the most and the
    least that a unit may add, probabilities are those of the whole history; in between, where there may be many and
    which hardly ever decide, upper bounds: those of the history at the level of each release alone.

    Attributes:
        family: The noise.
        past: Releases so far, from coarse to fine.
        kinds: What a unit adds to a key, and the budget of such units.
    """

    family: Family
    past: Past
    kinds: tuple[tuple[int, OpenBudget], ...]

    @classmethod
    def of(
        cls,
        family: Family,
        past: Past,
        delta: float,
        touched: Sequence[tuple[int, int]],
        spent: float | None = None,
    ) -> OpenBudgets:
        """What the releases of a path, (level, effective threshold) each, have left of the delta of a series.

        `touched` is what a unit may add to each of its keys, with the most keys it may then have; falling. `spent` is
        their delta_infinity, where it is known; it says all there is to know if units are of one kind.

        Example:
            >>> from sparsehist.noise import Gaussian
            >>> OpenBudgets.of(Gaussian(), [(0.5, 6.0)], 1e-6, [(1, 1)]).remaining < 1e-6 - 2.8e-7
            True
        """
        ordered = coarse_to_fine(past)
        if spent is not None and len(touched) == 1:
            ((count, keys),) = touched
            return cls(family, ordered, ((count, OpenBudget(delta, keys, (probability_for(spent, keys),))),))
        kinds = []
        for place, (count, keys) in enumerate(touched):
            if 0 < place < len(touched) - 1:
                terms = [
                    first_exceedance(
                        family, _of_level(ordered[:i], as_level(level)), as_level(level), bound, count=count
                    )
                    for i, (level, bound) in enumerate(ordered)
                ]
            else:
                terms = first_exceedances(family, ordered, count=count)
            kinds.append((count, OpenBudget(delta, keys, tuple(terms))))
        return cls(family, ordered, tuple(kinds))

    @property
    def delta(self) -> float:
        """Declared for the series."""
        return self.kinds[0][1].delta

    @property
    def delta_spent(self) -> float:
        """delta_infinity of the units for which it is largest."""
        return max(budget.delta_spent for _, budget in self.kinds)

    @property
    def remaining(self) -> float:
        """What later releases may add to it for units of every kind."""
        return min(budget.remaining for _, budget in self.kinds)

    def threshold(self, level: Level, delta: float) -> float | None:
        """The lowest threshold to declare for a release that adds at most `delta` for units of every kind.

        None where there is none.
        """
        allowed = [budget.allowance(delta) for _, budget in self.kinds]
        if not min(allowed) > 0:
            return None
        return max(
            threshold_for_exceedance(self.family, self._past(place, level), level, probability, count=count)
            for place, ((count, _), probability) in enumerate(zip(self.kinds, allowed, strict=True))
        )

    def exceedances(self, level: Level, threshold: float) -> list[float]:
        """For each kind, P[a key is first published by a release with this declared threshold]."""
        at = as_level(level)
        bound = effective_threshold(threshold, published_step(self.family, at))
        return [
            first_exceedance(self.family, self._past(place, at), at, bound, count=count)
            for place, (count, _) in enumerate(self.kinds)
        ]

    def hold(self, exceeds: Sequence[float]) -> bool:
        """Whether a release may spend these probabilities."""
        return all(budget.holds(p) for (_, budget), p in zip(self.kinds, exceeds, strict=True))

    def added(self, exceeds: Sequence[float]) -> float:
        """What a release that spends these probabilities adds to delta_infinity, at most."""
        return max(budget.added(p) for (_, budget), p in zip(self.kinds, exceeds, strict=True))

    def after(self, exceeds: Sequence[float]) -> OpenBudgets:
        """The budgets once a release has spent these probabilities; they know no more of it."""
        kinds = ((count, budget.after(p)) for (count, budget), p in zip(self.kinds, exceeds, strict=True))
        return OpenBudgets(self.family, self.past, tuple(kinds))

    def _past(self, place: int, level: Level) -> tuple[tuple[Fraction, float], ...]:
        if 0 < place < len(self.kinds) - 1:
            return _of_level(self.past, as_level(level))
        return tuple((as_level(at), bound) for at, bound in self.past)


def _of_level(past: Past, level: Fraction) -> tuple[tuple[Fraction, float], ...]:
    return tuple((level, bound) for at, bound in past if as_level(at) == level)


def coarse_to_fine(past: Past) -> Past:
    """In the order in which one pass gives all terms; their sum is that of any order."""
    return sorted(past, key=lambda release: as_level(release[0]))
