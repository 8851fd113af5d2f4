"""Guarantees as values, and what each of them implies in the words of another.

    from              rho-zCDP     (epsilon, delta)-DP
    Epsilon           rho()        delta(epsilon), epsilon(delta), of many releases too
    Mu                rho()        delta(epsilon), epsilon(delta), exact
    Rho               itself       delta(epsilon), epsilon(delta), the best that follows
    EpsilonDelta      no           itself; largest_rho() and largest_mu() imply it

An (epsilon, delta) implies no rho and no mu: an event of probability delta may tell everything. A rho implies no mu:
its orders above 1 say nothing of the mass where the loss is negative; Gaussian noise at that level and nothing else
has `Mu.of_gaussian(rho)`. What several releases cost together is said by `sparsehist.privacy.composition`.

Papers: [ARNP Def. D.1, Def. D.2]; [KHP Def. 2, Def. 12]; [Interactive Def. 3].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from sparsehist.errors import DeclarationError, LevelError, shown
from sparsehist.privacy import gaussian, pure, zcdp
from sparsehist.privacy.exact_numbers import Number, exactly
from sparsehist.privacy.levels import Level, as_level, level_or_zero, level_text

_SMALLEST = Fraction(1, 10**400)
# An event that nearly always happens leaves no guarantee to speak of.
_MOST_APART = Fraction(1, 2)


@dataclass(frozen=True, init=False)
class Epsilon:
    """epsilon-DP, also called pure.

    Attributes:
        value: epsilon, exact; at least 0.

    Example:
        >>> print(Epsilon("0.5"), "implies", Epsilon("0.5").rho())
        0.5-DP implies 0.12245933120185...-zCDP
    """

    value: Fraction

    def __init__(self, value: Level) -> None:
        object.__setattr__(self, "value", _amount(value, "epsilon"))

    def delta(self, epsilon: Number, times: int = 1) -> float:
        """The smallest delta for a smaller epsilon, of `times` such releases together: `pure.delta`."""
        return pure.delta(epsilon, self.value, times)

    def epsilon(self, delta: Number, times: int = 1) -> float:
        """The smallest epsilon for a delta, of `times` such releases together: `pure.epsilon`."""
        return pure.epsilon(delta, self.value, times)

    def rho(self) -> Rho:
        """What it implies in zCDP: epsilon * tanh(epsilon / 2)."""
        return Rho(zcdp.from_pure(self.value))

    def __str__(self) -> str:
        return f"{level_text(self.value)}-DP"


@dataclass(frozen=True, init=False)
class Mu:
    """mu-Gaussian DP: no easier to tell neighbours apart than two normal laws of variance 1, mu apart.

    Attributes:
        value: mu, exact; at least 0.

    Example:
        >>> print(Mu(1), "implies", Mu(1).rho())
        1-GDP implies 0.5-zCDP
        >>> Mu(1).delta(1.0)
        0.126936737506...
    """

    value: Fraction

    def __init__(self, value: Level) -> None:
        object.__setattr__(self, "value", _amount(value, "mu"))

    @classmethod
    def of_gaussian(cls, rho: Level) -> Mu:
        """What Gaussian noise at a level of rho has, to a rounding: sqrt(2 rho)."""
        return cls(math.sqrt(2.0 * float(_amount(rho, "rho"))))

    def delta(self, epsilon: Number) -> float:
        """The smallest delta for an epsilon: `gaussian.delta`."""
        return gaussian.delta(epsilon, self.value**2 / 2)

    def epsilon(self, delta: Number) -> float:
        """The smallest epsilon for a delta: `gaussian.epsilon`."""
        return gaussian.epsilon(delta, self.value**2 / 2)

    def rho(self) -> Rho:
        """What it implies in zCDP: mu**2 / 2."""
        return Rho(self.value**2 / 2)

    def __str__(self) -> str:
        return f"{level_text(self.value)}-GDP"


@dataclass(frozen=True, init=False)
class Rho:
    """rho-zero-concentrated DP, perhaps but for an event of a small probability (approximate zCDP).

    Attributes:
        value: rho, exact; at least 0.
        delta_infinity: Probability of that event; from 0 to 1/2.

    Example:
        >>> print(Rho("0.1"), "and", Rho("0.1", "1e-9"))
        0.1-zCDP and 1e-09-approximate 0.1-zCDP
        >>> Rho("0.1").epsilon(1e-6)
        2.14193892838...
    """

    value: Fraction
    delta_infinity: Fraction = Fraction(0)

    def __init__(self, value: Level, delta_infinity: Level = 0) -> None:
        object.__setattr__(self, "value", _amount(value, "rho"))
        object.__setattr__(self, "delta_infinity", _chance(delta_infinity, "delta_infinity", _MOST_APART))

    def delta(self, epsilon: Number) -> float:
        """The smallest delta for an epsilon that follows from it: `zcdp.delta`."""
        return zcdp.delta(epsilon, self.value, self.delta_infinity)

    def epsilon(self, delta: Number) -> float:
        """The smallest epsilon for a delta that follows from it: `zcdp.epsilon`."""
        return zcdp.epsilon(delta, self.value, self.delta_infinity)

    def __str__(self) -> str:
        but = f"{float(self.delta_infinity):g}-approximate " if self.delta_infinity else ""
        return f"{but}{level_text(self.value)}-zCDP"


@dataclass(frozen=True, init=False)
class EpsilonDelta:
    """(epsilon, delta)-DP at one epsilon and one delta.

    Attributes:
        epsilon: Exact; at least 0.
        delta: Exact; from 0 to 1, where it says nothing.

    Example:
        >>> goal = EpsilonDelta(1, 1e-6)
        >>> print(goal, "follows from", f"{goal.largest_rho():.6f}-zCDP")
        (1, 1e-06)-DP follows from 0.024356-zCDP
    """

    epsilon: Fraction
    delta: Fraction

    def __init__(self, epsilon: Level, delta: Level) -> None:
        object.__setattr__(self, "epsilon", _amount(epsilon, "epsilon"))
        object.__setattr__(self, "delta", _chance(delta, "delta", 1))

    @property
    def text(self) -> str:
        """As `parse` reads it back: "epsilon_delta(1, 0.000001)"."""
        epsilon, delta = (level_text(value) if value else "0" for value in (self.epsilon, self.delta))
        return f"epsilon_delta({epsilon}, {delta})"

    @property
    def in_words(self) -> str:
        """As it is told to people: "epsilon 1 at delta 1e-06"."""
        return f"epsilon {level_text(self.epsilon)} at delta {float(self.delta):g}"

    @classmethod
    def parse(cls, text: str) -> EpsilonDelta:
        """Read "epsilon_delta(1, 1e-6)".

        Raises:
            LevelError: If it is not written like that.

        Example:
            >>> EpsilonDelta.parse("epsilon_delta(1, 1e-6)") == EpsilonDelta(1, "1e-6")
            True
        """
        name, _, rest = text.strip().partition("(")
        epsilon, _, delta = rest.removesuffix(")").partition(",")
        if name.strip().lower() != "epsilon_delta" or not rest.endswith(")") or not delta.strip():
            raise LevelError(f"an (epsilon, delta) is written epsilon_delta(1, 1e-6), got {shown(text)}")
        return cls(epsilon.strip(), delta.strip())

    def largest_rho(self, delta_infinity: Number = 0) -> float:
        """The largest rho that implies it, with an event of probability delta_infinity apart: `zcdp.largest_rho`."""
        return zcdp.largest_rho(self.epsilon, self.delta, delta_infinity)

    def largest_mu(self) -> float:
        """The largest mu that implies it: `gaussian.mu`."""
        return gaussian.mu(self.epsilon, self.delta)

    def __str__(self) -> str:
        return f"({level_text(self.epsilon)}, {float(self.delta):g})-DP"


def level_or_goal(value: Level | EpsilonDelta) -> Fraction | EpsilonDelta:
    """Read a level, or an (epsilon, delta) that stands for the largest level that keeps to it.

    Example:
        >>> level_or_goal("0.5"), str(level_or_goal("epsilon_delta(1, 1e-6)"))
        (Fraction(1, 2), '(1, 1e-06)-DP')
    """
    if isinstance(value, str) and value.strip().lower().startswith("epsilon_delta"):
        value = EpsilonDelta.parse(value)
    if not isinstance(value, EpsilonDelta):
        return as_level(value)
    if value.epsilon == 0 or value.delta == 1:
        raise LevelError(f"{value} stands for no level: epsilon must be positive, and delta below 1")
    return value


def _amount(value: Level, name: str) -> Fraction:
    """A level, or 0."""
    try:
        return level_or_zero(value)
    except LevelError:
        raise DeclarationError(f"{name} must be 0, or a number from 1e-60 to 1e60, got {shown(value)}") from None


def _chance(value: Level, name: str, most: Fraction | int) -> Fraction:
    """A probability up to `most`, perhaps 0, and perhaps far smaller than a level may be."""
    try:
        exact = exactly(value)
    except (ArithmeticError, ValueError):
        exact = Fraction(-1)
    if not 0 <= exact <= most or 0 < exact < _SMALLEST:
        raise DeclarationError(f"{name} must be a probability from 0 to {float(most):g}, got {shown(value)}")
    return exact
