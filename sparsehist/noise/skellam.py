"""Skellam noise: integer noise that gives Rényi differential privacy.

Noise at a level is P - D, where P and D are independent Poisson processes at time 1/level. The difference has
independent increments, so it is a Markov chain in the level, and P and D need not be stored separately.
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
    """Skellam noise, the difference of two independent Poisson(1/level) numbers: it gives Rényi-DP.

    The noise is symmetric, with variance 2/level. No zCDP is claimed, because the rho of Gaussian noise with the same
    variance is too small for Skellam noise: it does not bound Rényi divergences of orders near 1.

    Args:
        sensitivity: The most keys that a unit counts towards; a positive integer. It affects only the guarantee.

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
