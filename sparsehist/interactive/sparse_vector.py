"""The sparse vector technique on integers: decide which counts reach a threshold; only those cost privacy.

The threshold has noise of scale sensitivity / eps_1, drawn again after each trigger. Each query has noise of scale 2
* sensitivity / eps_2, or sensitivity / eps_2 if queries are monotone. "Above" means at least. Without noise on the
threshold, twelve answers would cost 3.0 instead of the promised 1.

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

# eps_1 : eps_2 = 1 : 2^(2/3) minimises the variance of threshold minus query noise; 1 : 1 if monotone.
_SHARE = Fraction("0.3865")


@dataclass(frozen=True)
class SparseVector:
    """The public parameters of a sparse vector; `start` returns its first state.

    Args:
        threshold: A whole number, in counts.
        level: epsilon of all answers together.
        sensitivity: Largest change of a query result by one unit: a whole number.
        triggers: Number of answers "above" until the sparse vector is used up.
        split: Share of the level for the threshold, strictly between 0 and 1; by default the best one.
        monotone: Whether adding a unit changes all queries in one direction, as it does plain counts; False for
            two-sided checks.

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
        """The share of the level for the threshold."""
        if self.split is None:
            return Fraction(1, 2) if self.monotone else _SHARE
        return as_level(self.split)

    @property
    def levels(self) -> tuple[Fraction, Fraction]:
        """eps_1 and eps_2 of one trigger; together level / triggers."""
        each = as_level(self.level) / self.triggers
        return each * self.share, each * (1 - self.share)

    def start(self, *, rng: Generator) -> AboveThreshold:
        """Draw the noise of the threshold, which spends the level."""
        return AboveThreshold(self, self.triggers, self._noisy_threshold(rng=rng))

    def _noisy_threshold(self, *, rng: Generator) -> int:
        noise = DiscreteLaplace(sensitivity=self.sensitivity).sample(1, self.levels[0], rng=rng)
        return self.threshold + int(noise[0])


@dataclass(frozen=True, repr=False)
class AboveThreshold:
    """The state of a sparse vector, made by `SparseVector.start`.

    All answers together are `level`-DP, for any number of queries, chosen adaptively. Each answer comes
    with the next state: save that first, then send the answer. Two copies of a state cost more than the level.

    Attributes:
        parameters: As declared; public.
        triggers_left: Number of answers "above" that are left; public.
        noisy_threshold: Secret.
    """

    parameters: SparseVector
    triggers_left: int
    noisy_threshold: int

    def ask(self, value: int, *, rng: Generator) -> tuple[AboveThreshold, bool]:
        """Return the next state, and whether a count (secret) is at least the threshold, both with noise.

        Raises:
            BudgetExceededError: If all triggers are used up.
            DataError: If the value is not a whole number.
        """
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise DataError("only whole numbers are compared; round the value, and include that in the sensitivity")
        about = self.parameters
        if not self.triggers_left:
            raise BudgetExceededError(f"all {about.triggers} triggers are used up; a new state costs the level again")
        spread = about.sensitivity if about.monotone else 2 * about.sensitivity
        noise = DiscreteLaplace(sensitivity=spread).sample(1, about.levels[1], rng=rng)
        if int(value) + int(noise[0]) < self.noisy_threshold:
            return self, False
        return AboveThreshold(about, self.triggers_left - 1, about._noisy_threshold(rng=rng)), True  # noqa: SLF001

    def to_bytes(self) -> bytes:
        """Return the state as bytes; secret."""
        about = self.parameters
        declared = asdict(about) | {"level": str(as_level(about.level)), "split": str(about.share)}
        return pack("AboveThreshold", {"parameters": declared, "state": [self.triggers_left, self.noisy_threshold]})

    @classmethod
    def from_bytes(cls, content: bytes) -> AboveThreshold:
        """Read the result of `to_bytes`; InputError for other bytes, StoreDamagedError if they were altered."""
        header, _ = unpack("AboveThreshold", content)
        return cls(SparseVector(**header["parameters"]), *header["state"])

    def __repr__(self) -> str:
        return f"AboveThreshold({self.parameters}, triggers_left={self.triggers_left})"
