"""What noise paths cost together, reckoned by other means than the package's: to hold its ledger against."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

DELTA = 1e-6
PURE = ("laplace", "discrete_laplace")


@dataclass
class Path:
    """One noise path of the ledger kept beside."""

    family: str
    levels: list[Fraction] = field(default_factory=list)
    slack: float = 0.0

    @property
    def finest(self) -> Fraction:
        return max(self.levels, default=Fraction(0))


def text(level: Fraction) -> str:
    """As the ledger writes it."""
    return str(level) if level.denominator in (1, 3) else str(float(level))


def rho_of(paths: list[Path]) -> Fraction:
    """Each as zCDP, added up."""
    return sum(
        (
            Fraction(float(path.finest) * math.tanh(float(path.finest) / 2)) if path.family in PURE else path.finest
            for path in paths
        ),
        Fraction(0),
    )


def own_epsilon(path: Path) -> float:
    """About what one path alone costs."""
    return float(path.finest) * (1 - 2e-6) - 2e-6 if path.family in PURE else gaussian_epsilon([path])


def rho_epsilon(paths: list[Path]) -> float:
    """zCDP to (epsilon, delta) by a fine grid of orders."""
    rho = float(rho_of(paths))
    order = np.exp(np.linspace(-9, 12, 4_001))
    epsilon = float(np.min((1 + order) * rho - np.log1p(1 / order) - (math.log(DELTA) + np.log1p(order)) / order))
    return epsilon * (1 + 1e-5)


def gaussian_delta(rho: Fraction, epsilon: Fraction) -> float:
    """The textbook formula."""
    mu, at = math.sqrt(2 * float(rho)), float(epsilon)
    return float(ndtr(-at / mu + mu / 2) - math.exp(at) * ndtr(-at / mu - mu / 2))


def gaussian_epsilon(paths: list[Path]) -> float:
    """The textbook formula, solved for epsilon."""
    rho = float(rho_of(paths))
    if rho == 0:
        return 0.0
    mu = math.sqrt(2 * rho)

    def excess(epsilon):
        return ndtr(-epsilon / mu + mu / 2) - np.exp(epsilon) * ndtr(-epsilon / mu - mu / 2) - DELTA

    ends = np.linspace(0, 40, 4001)
    enough = np.flatnonzero(excess(ends) <= 0)
    if not enough.size or enough[0] == 0:
        return 0.0 if enough.size else math.inf
    return float(brentq(excess, ends[enough[0] - 1], ends[enough[0]], xtol=1e-13, rtol=1e-13))
