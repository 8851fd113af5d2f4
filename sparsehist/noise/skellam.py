"""Skellam noise on the integers, under Rényi differential privacy.

Law: Z(level) = P - D with P and D independent Poisson processes read at time 1/level. The difference has independent
increments of its own, so it is a Markov chain in the level, and one integer a cell is the whole state.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sparsehist.noise.integer_laws import IntegerLaw, skellam_law
from sparsehist.noise.poisson import ProcessNoise, poisson_mean
from sparsehist.privacy import skellam as guarantee
from sparsehist.privacy.levels import Level, as_level, level_text


@dataclass(frozen=True)
class Skellam(ProcessNoise):
    """Skellam noise, the difference of two Poisson(1/level) numbers: Rényi-DP, with its bound from `renyi`.

    Symmetric, of variance 2/level. That it were (sensitivity**2 / (2 variance))-zCDP, as a Gaussian of that
    variance is, is false at orders near 1. No rho is given; `epsilon` converts the Rényi bound to
    (epsilon, delta).

    Args:
        sensitivity: Number of keys a unit may touch, each by at most 1 count; a positive integer. It enters
            the guarantee, not the law.

    Raises:
        DeclarationError: If the sensitivity is no positive integer.

    Example:
        >>> Skellam().std("0.02")
        10.0

    Source: Agarwal, Kairouz and Liu 2021 for the guarantee; the steps are our own derivation.
    """

    def std(self, level: Level) -> float:
        """Standard deviation of the noise, in counts: sqrt(2 / level)."""
        return math.sqrt(2.0 * float(poisson_mean(level)))

    def renyi(self, level: Level, alpha: int) -> float:
        """Upper bound on the Rényi divergence of order `alpha` of one release, for `sensitivity` keys."""
        return guarantee.renyi(alpha, level, self.sensitivity)

    def epsilon(self, level: Level, delta: float) -> float:
        """An epsilon with which one release is (epsilon, delta)-DP, by the best order."""
        return guarantee.epsilon(delta, level, self.sensitivity)

    def statement(self, level: Level) -> str:
        return (
            f"({self.epsilon(level, 1e-9):.4g}, 1e-9)-differential privacy for units of up to {self.sensitivity} "
            f"keys, from Rényi bounds (Skellam noise of variance {level_text(2 / as_level(level))}; no zCDP)"
        )

    def _law(self, mean: float) -> IntegerLaw:
        return skellam_law(mean)
