"""The sparse vector technique as an object that holds its noise."""

from __future__ import annotations

import threading
from fractions import Fraction

import numpy as np

from sparsehist.errors import BudgetExceededError, DataError
from sparsehist.interactive.noise_supply import NoiseSupply
from sparsehist.interactive.sparse_vector import SparseVector
from sparsehist.privacy.levels import Level, as_level, level_text
from sparsehist.sessions.own_process import OwnProcess, drawn


class AboveThreshold(OwnProcess):
    """Say of one count after the other whether it is at least a threshold; only the triggers cost.

    The whole is `level`-DP, however many questions are answered "no", and however they are chosen. It costs that
    when it is made. The object holds its threshold noise: it is secret, lives in memory only, and is used up after
    the last trigger.

    The parameters are those of `sparsehist.interactive.SparseVector`.

    Raises:
        DeclarationError: If a parameter is not what it should be.

    Example:
        >>> watch = AboveThreshold(threshold=1000, level=1, monotone=True)
        >>> watch.ask(3), watch.ask(5_000)
        (False, True)
        >>> watch.triggers_left
        0

    Source: Lyu, Su and Li 2017, Algorithm 1, with fresh threshold noise after each trigger; see
    `sparsehist.interactive.sparse_vector`.
    """

    __slots__ = ("_left", "_lock", "_parameters", "_queries", "_threshold", "_threshold_noise")

    def __init__(
        self,
        threshold: int,
        level: Level,
        sensitivity: int = 1,
        triggers: int = 1,
        split: Level | tuple[Level, Level] | None = None,
        *,
        monotone: bool = False,
    ) -> None:
        super().__init__()
        self._parameters = SparseVector(threshold, level, sensitivity, triggers, split, monotone)
        self._left = triggers
        self._lock = threading.Lock()
        first, second = self._parameters.levels
        self._threshold_noise = NoiseSupply(self._parameters.threshold_noise, first)
        self._queries = NoiseSupply(self._parameters.query_noise, second)
        self._threshold = threshold + drawn(self._threshold_noise)

    def ask(self, value: int) -> bool:
        """Whether a count is at least the threshold, both with their noise.

        Args:
            value: A whole number. Secret.

        Raises:
            BudgetExceededError: If all triggers are used up.
            DataError: If it is not a whole number.
            StoreError: In a forked process.
        """
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise DataError("only whole numbers are compared; round the value, and count that in the sensitivity")
        with self._lock:
            self.require_own_process()
            if not self._left:
                raise BudgetExceededError(
                    f"all {self._parameters.triggers} triggers are used up, and with them the level of "
                    f"{level_text(as_level(self._parameters.level))}; a new AboveThreshold costs its level again"
                )
            above = int(value) + drawn(self._queries) >= self._threshold
            if above:
                self._left -= 1
                self._threshold = self._parameters.threshold + drawn(self._threshold_noise)
            return above

    @property
    def level(self) -> Fraction:
        """epsilon of the whole."""
        return as_level(self._parameters.level)

    @property
    def triggers_left(self) -> int:
        """How many more answers "yes" there can be."""
        return self._left

    def __repr__(self) -> str:
        shown = self._parameters
        return (
            f"AboveThreshold(threshold={shown.threshold}, level={level_text(self.level)}, "
            f"sensitivity={shown.sensitivity}, triggers_left={self._left}, monotone={shown.monotone})"
        )
