"""Skellam noise on the integers, under Rényi differential privacy.

Law: Z(level) = P - D, with independent Poisson processes P and D at time 1/level. The difference has independent
increments, so it is a Markov chain in the level, and one integer per cell is the whole state.
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

    Symmetric, with variance 2/level. Unlike Gaussian noise of this variance, it is not (sensitivity**2 / (2
    variance))-zCDP: the bound fails at orders near 1. So there is no rho.

    Args:
        sensitivity: Number of keys that a unit may touch, each by at most 1 count; a positive integer. It enters the
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
