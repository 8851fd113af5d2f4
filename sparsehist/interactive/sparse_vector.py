"""The sparse vector technique on integers: which of many counts reach a threshold, at the price of those that do.

Threshold noise of scale sensitivity / eps_1 is drawn once, and afresh after each trigger; each query has noise of
scale 2 * sensitivity / eps_2, or sensitivity / eps_2 where all queries move one way. "Above" means at least.

The threshold needs its noise: without it, answers below are not free, and twelve of them cost 3.0 where 1 is
promised.

Source: Dwork, Naor, Reingold, Rothblum and Vadhan 2009; Lyu, Su and Li 2017, Algorithm 1; on integers the proof is
the same, as all shifts are whole numbers. It stands in for the noisy checker of [Interactive section 3].

Papers: [Interactive section 1].
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sparsehist.errors import DeclarationError
from sparsehist.noise.discrete_laplace import DiscreteLaplace
from sparsehist.privacy.levels import Level, as_level

# eps_1 : eps_2 = 1 : 2^(2/3) spreads the difference of both noises least; 1 : 1 where queries move one way.
_SHARE = Fraction("0.3865")


@dataclass(frozen=True)
class SparseVector:
    """The public parameters of a sparse vector.

    Args:
        threshold: A whole number, in counts.
        level: epsilon of the whole.
        sensitivity: How far one unit moves any one query: a whole number.
        triggers: Answers "above" before it is used up.
        split: Share of the level that goes to the threshold, strictly between 0 and 1, or the pair (eps_1, eps_2) in
            any proportion; by default the best one.
        monotone: Whether all queries move one way when a unit is added, as plain counts do; never for checks on
            two sides.

    Raises:
        DeclarationError: If a parameter is not what it should be.
    """

    threshold: int
    level: Level
    sensitivity: int = 1
    triggers: int = 1
    split: Level | tuple[Level, Level] | None = None
    monotone: bool = False

    def __post_init__(self) -> None:
        for name, least in (("threshold", None), ("sensitivity", 1), ("triggers", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or (least is not None and value < least):
                wanted = "a whole number" if least is None else f"a whole number of at least {least}"
                raise DeclarationError(f"{name} must be {wanted}, got {value!r}")
        as_level(self.level)
        if not 0 < self.share < 1:
            raise DeclarationError(f"split must lie strictly between 0 and 1, or be two levels, got {self.split!r}")

    @property
    def share(self) -> Fraction:
        """The share of the level that goes to the threshold."""
        if self.split is None:
            return Fraction(1, 2) if self.monotone else _SHARE
        if isinstance(self.split, tuple | list):
            first, second = map(as_level, self.split)
            return first / (first + second)
        return as_level(self.split)

    @property
    def levels(self) -> tuple[Fraction, Fraction]:
        """eps_1 and eps_2 of one trigger; together level / triggers."""
        each = as_level(self.level) / self.triggers
        return each * self.share, each * (1 - self.share)

    @property
    def threshold_noise(self) -> DiscreteLaplace:
        """Of the threshold, at level eps_1."""
        return DiscreteLaplace(sensitivity=self.sensitivity)

    @property
    def query_noise(self) -> DiscreteLaplace:
        """Of a query, at level eps_2."""
        return DiscreteLaplace(sensitivity=self.sensitivity if self.monotone else 2 * self.sensitivity)
