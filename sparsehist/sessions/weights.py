"""Private multiplicative weights as an object that holds the counts and draws its noise."""

from __future__ import annotations

import threading
from fractions import Fraction

import numpy as np

from sparsehist.errors import BudgetExceededError, present
from sparsehist.interactive.multiplicative_weights import (
    Weighing,
    WeightedAnswer,
    Weights,
    first_guess,
    pull,
    read_counts,
    read_weights,
    updated,
    verdict,
)
from sparsehist.interactive.noise_supply import NoiseSupply
from sparsehist.privacy.exact_numbers import Number
from sparsehist.privacy.levels import Level, as_level, level_text
from sparsehist.sessions.own_process import OwnProcess, drawn
from sparsehist.typing import ArrayLike, FloatArray


class MultiplicativeWeights(OwnProcess):
    """Answer linear queries over all cells of a closed domain as they come to mind, within one level for all.

    The session costs `level` (pure epsilon) when it is made, whatever is asked. It lives in memory only; the ledger
    of a store knows nothing of it. `Series.interactive` is the one that a store keeps.

    Args:
        counts: True counts of all cells; shape (cells,), at most 10**7. Secret.
        start: Noisy counts that are public already, such as the values of a release; free, and better than nothing.

    The other parameters are those of `sparsehist.interactive.Weighing`.

    Raises:
        DeclarationError: If a parameter is not what it should be.
        DataError: If counts or start do not suit the domain.

    Example:
        >>> counts = np.zeros(64, np.int64)
        >>> counts[:8] = 100_000
        >>> session = MultiplicativeWeights(counts, mass=800_000, level=1, accuracy=0.2)
        >>> answer = session.ask(np.arange(64) < 8)
        >>> answer.fresh, abs(answer.value - 800_000) < session.parameters.error
        (True, True)

    Source: Hardt and Rothblum 2010; see `sparsehist.interactive.multiplicative_weights`.
    """

    __slots__ = (
        "_counts",
        "_first",
        "_hypothesis",
        "_left",
        "_lock",
        "_pulls",
        "_supplies",
        "_threshold",
        "parameters",
    )

    def __init__(
        self,
        counts: ArrayLike,
        mass: int,
        level: Level,
        accuracy: Number,
        sensitivity: int = 1,
        most_updates: int | None = None,
        start: ArrayLike | None = None,
        weight_step: Number = 1,
    ) -> None:
        super().__init__()
        cells = int(np.asarray(counts).size)
        self.parameters = Weighing(
            cells, mass, level, accuracy, sensitivity, most_updates, start is not None, weight_step
        )
        self._counts = read_counts(self.parameters, counts)
        self._first = self._hypothesis = first_guess(self.parameters, start)
        self._pulls = np.zeros(cells)
        self._left = self.parameters.updates
        self._lock = threading.Lock()
        watch, answer = self.parameters.levels
        self._supplies = (
            NoiseSupply(self.parameters.noise(2), watch),
            NoiseSupply(self.parameters.noise(4), watch),
            NoiseSupply(self.parameters.noise(1), answer),
        )
        self._threshold = self._fresh_threshold()

    def ask(self, weights: Weights) -> WeightedAnswer:
        """The weighted number of units: the sum of weight times count over all cells.

        Args:
            weights: Of each cell, in [0, 1]: bool for a predicate; shape (cells,). Public.

        Returns:
            Value, error and whether it is fresh.

        Raises:
            BudgetExceededError: If all updates are used up.
            DataError: If the weights do not suit the domain.
            StoreError: In a forked process.
        """
        parameters = self.parameters
        query = read_weights(parameters, weights)
        with self._lock:
            self.require_own_process()
            if not self._left:
                raise BudgetExceededError(
                    f"all {parameters.updates} updates are used up, and with them the level of "
                    f"{level_text(self.level)}; the hypothesis stays readable"
                )
            guess = present(parameters.mass) * float(query @ self._hypothesis)
            truth = float(query @ self._counts)
            found = verdict(guess, truth, self._threshold, lambda: self._noise(1))
            if found is None:
                return WeightedAnswer(guess, parameters.error, fresh=False, updates_left=self._left)
            self._left -= 1  # first: an interrupt may not leave an update that nobody paid for
            value = truth + self._noise(2)
            self._pulls += pull(query, found)
            self._hypothesis = updated(self._first, self._pulls, 8 * float(parameters.alpha))
            self._threshold = self._fresh_threshold()
            return WeightedAnswer(value, parameters.error, fresh=True, updates_left=self._left)

    @property
    def level(self) -> Fraction:
        """epsilon of the whole session."""
        return as_level(self.parameters.level)

    @property
    def hypothesis(self) -> FloatArray:
        """The cells as the answers so far have them, in counts; public, a copy."""
        return self._hypothesis * present(self.parameters.mass)

    def __repr__(self) -> str:
        shown = self.parameters
        return (
            f"MultiplicativeWeights(cells={shown.cells}, mass={shown.mass}, level={level_text(self.level)}, "
            f"error={shown.error:g}, updates_left={self._left})"
        )

    def _fresh_threshold(self) -> float:
        return float(self.parameters.threshold) + self._noise(0)

    def _noise(self, which: int) -> float:
        """Of the threshold, of a check, of an answer; in counts."""
        return drawn(self._supplies[which]) * float(self.parameters.step)
