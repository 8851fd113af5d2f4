"""The sparse vector technique: answer whether counts reach a threshold. Only positive answers cost privacy.

A trigger is a positive answer, and costs eps_1 + eps_2. The noise of the threshold has scale sensitivity / eps_1 and
is drawn again after each trigger. The noise of a query has scale 2 * sensitivity / eps_2, or half of this scale if
queries are monotone. Without threshold noise, negative answers would cost privacy too.

Source: Dwork, Naor, Reingold, Rothblum and Vadhan 2009; Lyu, Su and Li 2017, Algorithm 1, with fresh threshold noise
after each trigger; it replaces the noisy checker of [Interactive section 3]. Papers: [Interactive section 1].
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction

import numpy as np

from sparsehist.dense.state_bytes import pack, unpack
from sparsehist.errors import BudgetExceededError, DataError, DeclarationError, shown
from sparsehist.noise.discrete_laplace import DiscreteLaplace
from sparsehist.privacy.levels import Level, as_level
from sparsehist.typing import Generator

# Default share of the level for threshold noise. 1 / (1 + 2^(2/3)) minimises the noise variance of a comparison.
_SHARE = Fraction("0.3865")


@dataclass(frozen=True)
class SparseVector:
    """The public parameters of the sparse vector technique. `start` draws noise and returns the first state.

    Args:
        threshold: The threshold in counts, a whole number.
        level: Epsilon of all answers together.
        sensitivity: The most that one unit can change the result of a query; a whole number.
        triggers: Number of positive answers after which no more queries are answered.
        split: Share of the level for the threshold noise; by default the share with the smallest variance.
        monotone: Whether adding a unit never changes two queries in opposite directions, as for plain counts.

    Raises:
        DeclarationError: If a parameter is wrong.

    Example:
        >>> from sparsehist import entropy
        >>> rng = entropy.generator()
        >>> watch = SparseVector(threshold=1000, level=1, monotone=True).start(rng=rng)
        >>> watch, first = watch.ask(3, rng=rng)
        >>> watch, second = watch.ask(5_000, rng=rng)
        >>> first, second, watch.triggers_left
        (False, True, 0)
    """

    threshold: int
    level: Level
    sensitivity: int = 1
    triggers: int = 1
    split: Level | None = None
    monotone: bool = False

    def __post_init__(self) -> None:
        for name, least in (("threshold", -(2**62)), ("sensitivity", 1), ("triggers", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise DeclarationError(f"{name} must be a whole number of at least {least}, got {shown(value)}")
        as_level(self.level)
        if not 0 < self.share < 1:
            raise DeclarationError(f"split must lie strictly between 0 and 1, got {shown(self.split)}")

    @property
    def share(self) -> Fraction:
        """Share of the level that goes to the noise of the threshold."""
        if self.split is None:
            return Fraction(1, 2) if self.monotone else _SHARE
        return as_level(self.split)

    @property
    def levels(self) -> tuple[Fraction, Fraction]:
        """Epsilon of threshold noise and of query noise for one positive answer. The sum is level / triggers."""
        each = as_level(self.level) / self.triggers
        return each * self.share, each * (1 - self.share)

    def start(self, *, rng: Generator) -> AboveThreshold:
        """Draw threshold noise and return the first state. This costs the whole level, even if no query follows."""
        return AboveThreshold(self, self.triggers, self._noisy_threshold(rng=rng))

    def _noisy_threshold(self, *, rng: Generator) -> int:
        noise = DiscreteLaplace(sensitivity=self.sensitivity).sample(1, self.levels[0], rng=rng)
        return self.threshold + int(noise[0])


@dataclass(frozen=True, repr=False)
class AboveThreshold:
    """The state of a run of the sparse vector technique, made by `SparseVector.start`.

    All answers together are `level`-DP, for any number of adaptively chosen queries. `ask` returns the next state and
    an answer: save the state first, then send the answer. Using the same state twice costs more than the level.

    Attributes:
        parameters: The declared parameters; public.
        triggers_left: Number of positive answers that are left; public.
        noisy_threshold: The threshold plus its current noise, in counts. Secret.
    """

    parameters: SparseVector
    triggers_left: int
    noisy_threshold: int

    def ask(self, value: int, *, rng: Generator) -> tuple[AboveThreshold, bool]:
        """Return the next state, and whether a secret count plus noise is at least the noisy threshold.

        Raises:
            BudgetExceededError: If `triggers` positive answers were already given.
            DataError: If the value is not a whole number.
        """
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise DataError("the value must be a whole number: round it, and include the rounding in the sensitivity")
        about = self.parameters
        if not self.triggers_left:
            raise BudgetExceededError(f"all {about.triggers} positive answers were given; begin again with start()")
        spread = about.sensitivity if about.monotone else 2 * about.sensitivity
        noise = DiscreteLaplace(sensitivity=spread).sample(1, about.levels[1], rng=rng)
        if int(value) + int(noise[0]) < self.noisy_threshold:
            return self, False
        return AboveThreshold(about, self.triggers_left - 1, about._noisy_threshold(rng=rng)), True  # noqa: SLF001

    def to_bytes(self) -> bytes:
        """Return the state as bytes, which are secret."""
        about = self.parameters
        declared = asdict(about) | {"level": str(as_level(about.level)), "split": str(about.share)}
        return pack("AboveThreshold", {"parameters": declared, "state": [self.triggers_left, self.noisy_threshold]})

    @classmethod
    def from_bytes(cls, content: bytes) -> AboveThreshold:
        """Restore a state. Raise StoreDamagedError if the bytes were altered, InputError if they are not a state."""
        header, _ = unpack("AboveThreshold", content)
        return cls(SparseVector(**header["parameters"]), *header["state"])

    def __repr__(self) -> str:
        return f"AboveThreshold({self.parameters}, triggers_left={self.triggers_left})"
