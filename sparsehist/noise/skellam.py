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
    """Skellam noise, the difference of two Poisson(1/level) numbers: Rényi-DP.

    Symmetric, of variance 2/level. It is not (sensitivity**2 / (2 variance))-zCDP, as a Gaussian of that variance is:
    that is false at orders near 1. So no rho is given.

    Args:
        sensitivity: Number of keys a unit may touch, each by at most 1 count; a positive integer. It enters the
            guarantee, not the law.

    Example:
        >>> Skellam().std("0.02")
        10.0

    Source: Agarwal, Kairouz and Liu 2021 for the guarantee; the steps are our own derivation.
    """

    def std(self, level: Level) -> float:
        return math.sqrt(2.0 * float(poisson_mean(level)))

    def statement(self, level: Level) -> str:
        epsilon = guarantee.epsilon(1e-9, level, self.sensitivity)
        return (
            f"({epsilon:.4g}, 1e-9)-differential privacy for units of up to {self.sensitivity} keys, from Rényi "
            f"bounds (Skellam noise of variance {level_text(2 / as_level(level))}; no zCDP)"
        )

    def _law(self, mean: float) -> IntegerLaw:
        return skellam_law(mean)
