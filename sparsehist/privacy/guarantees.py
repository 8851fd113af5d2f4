"""`EpsilonDelta`: a pair (epsilon, delta), which can stand for the largest level that gives this guarantee.

(epsilon, delta)-DP does not imply zCDP, because an event of probability delta may reveal everything.
So conversions start from zCDP, pure DP or a noise family: see `zcdp`, `pure`, `gaussian`, `poisson` and `skellam`.

Papers: [ARNP Def. D.1]; [KHP Def. 2, Def. 12]; [Interactive Def. 3].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from sparsehist.errors import DeclarationError, LevelError, shown
from sparsehist.privacy import gaussian, zcdp
from sparsehist.privacy.levels import Level, as_level, at_least_zero, level_or_zero, level_text


@dataclass(frozen=True, init=False)
class EpsilonDelta:
    """A guarantee of (epsilon, delta)-DP for a single pair (epsilon, delta).

    Attributes:
        epsilon: An exact number of at least 0.
        delta: An exact number from 0 (pure DP) to 1 (no guarantee).

    Example:
        >>> goal = EpsilonDelta(1, 1e-6)
        >>> print(goal, "follows from", f"{goal.largest_rho():.6f}-zCDP")
        (1, 1e-06)-DP follows from 0.024356-zCDP
    """

    epsilon: Fraction
    delta: Fraction

    def __init__(self, epsilon: Level, delta: Level) -> None:
        object.__setattr__(self, "epsilon", level_or_zero(epsilon, "epsilon"))
        exact = at_least_zero(delta, "delta")
        if exact > 1:
            raise DeclarationError(f"delta must be a probability from 0 to 1, got {shown(delta)}")
        object.__setattr__(self, "delta", exact)

    @property
    def text(self) -> str:
        """The pair as a string that `parse` accepts, such as "epsilon_delta(1, 0.000001)"."""
        epsilon, delta = (level_text(value) if value else "0" for value in (self.epsilon, self.delta))
        return f"epsilon_delta({epsilon}, {delta})"

    @property
    def in_words(self) -> str:
        """The pair as a human-readable string, such as "epsilon 1 at delta 1e-06"."""
        return f"epsilon {level_text(self.epsilon)} at delta {float(self.delta):g}"

    @classmethod
    def parse(cls, text: str) -> EpsilonDelta:
        """Parse a string such as "epsilon_delta(1, 1e-6)". Raise LevelError for other strings."""
        name, _, rest = text.strip().partition("(")
        epsilon, _, delta = rest.removesuffix(")").partition(",")
        if name.strip().lower() != "epsilon_delta" or not rest.endswith(")") or not delta.strip():
            raise LevelError(f"write a pair (epsilon, delta) as epsilon_delta(1, 1e-6), got {shown(text)}")
        return cls(epsilon.strip(), delta.strip())

    def largest_rho(self) -> float:
        """Return the largest rho for which rho-zCDP implies this guarantee; see `zcdp.largest_rho`."""
        return zcdp.largest_rho(self.epsilon, self.delta)

    def largest_mu(self) -> float:
        """Return the largest mu = sensitivity / standard deviation for which Gaussian noise gives this guarantee."""
        return math.sqrt(2.0 * gaussian.largest_rho(self.epsilon, self.delta))

    def __str__(self) -> str:
        return f"({level_text(self.epsilon)}, {float(self.delta):g})-DP"


def level_or_goal(value: Level | EpsilonDelta) -> Fraction | EpsilonDelta:
    """Parse a level or a pair (epsilon, delta), which stands for the largest level that gives this guarantee."""
    if isinstance(value, str) and value.strip().lower().startswith("epsilon_delta"):
        value = EpsilonDelta.parse(value)
    if not isinstance(value, EpsilonDelta):
        return as_level(value)
    if value.epsilon == 0 or value.delta == 1:
        raise LevelError(f"epsilon must be positive, and delta below 1, got {value}")
    return value
