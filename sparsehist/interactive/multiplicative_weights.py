"""Private multiplicative weights: answer adaptive counting queries over the cells of a closed domain.

The hypothesis is a public estimate of all counts. A query is answered from the hypothesis if the sparse vector
technique finds this answer accurate enough. Otherwise, the query is measured with noise, and the hypothesis is
updated. The number of updates is limited.

Source: Hardt and Rothblum 2010; [Interactive section 3], whose threshold has no noise and is replaced by a sparse
vector. Our own: with step eta = 8 alpha, an update by a query with an error of 2 alpha lowers the relative entropy by
at least 16 alpha^2 - eta^2/8 = 8 alpha^2. Papers: [Interactive Claim 1, Thm 2].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np

from sparsehist.dense.state_bytes import pack, unpack
from sparsehist.errors import BudgetExceededError, DataError, DeclarationError, present, shown
from sparsehist.noise.discrete_laplace import DiscreteLaplace
from sparsehist.privacy.composition import PURE, ZCDP, as_rho
from sparsehist.privacy.levels import Level, as_level, at_least_zero, root, rounded_down
from sparsehist.typing import ArrayLike, FloatArray, Generator

MOST_CELLS = 10**7
# Weight of the uniform distribution if the first hypothesis is made from a release. It makes every estimate positive.
# Otherwise, an estimate of 0 would always stay 0, because updates multiply estimates by factors.
_UNIFORM = 1 / 16
# Share of the epsilon per update that is used for comparisons. The rest is used for the measured answer.
_WATCH = Fraction(4, 5)


@dataclass(frozen=True)
class WeightedAnswer:
    """The answer to one query. All fields are public.

    Attributes:
        value: The answer, in counts.
        error: Bound on the error, in counts; it is exceeded with a probability of at most `Weighing.failure`.
        fresh: Whether the answer was measured, and the hypothesis updated.
        updates_left: Number of answers that can still be measured.
    """

    value: float
    error: float
    fresh: bool
    updates_left: int


@dataclass(frozen=True)
class Weighing:
    """The public parameters of a session that answers adaptively chosen queries. `start` begins the session.

    Args:
        cells: Size of the domain; from 2 to 10**7.
        mass: Sum of all counts, public or already released. If `measured`, it may be None until `start` is called.
        level: Cost of the whole session.
        accuracy: Bound on the error of answers, as a fraction of the mass. The property `alpha` is a quarter of it.
        sensitivity: The most that one unit can change a true answer; for a series, this is max_keys.
        most_updates: Largest number of updates; by default the number that may be needed for the accuracy.
        started: Whether the first hypothesis is made from a release. Otherwise it is uniform.
        currency: Unit of the level: "epsilon" (pure DP) or "rho" (zCDP).
        measured: Whether the mass is measured, which costs as much as the comparisons before one update.

    Raises:
        DeclarationError: If a parameter is wrong.

    Example:
        >>> session = Weighing(cells=1024, mass=10**6, level=1, accuracy=0.2)
        >>> session.updates, round(session.error)
        (346, 200000)
    """

    cells: int
    mass: int | None
    level: Level
    accuracy: Level
    sensitivity: int = 1
    most_updates: int | None = None
    started: bool = False
    currency: str = PURE
    measured: bool = False

    def __post_init__(self) -> None:
        most = {"cells": MOST_CELLS, "mass": 2**40, "sensitivity": 2**20, "most_updates": 10**9}
        for name, limit in most.items():
            value, least = getattr(self, name), 2 if name == "cells" else 1
            if value is None and (name == "most_updates" or (name == "mass" and self.measured)):
                continue
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= limit:
                raise DeclarationError(f"{name} must be a whole number from {least} to {limit}, got {shown(value)}")
        as_level(self.level)
        if self.currency not in (PURE, ZCDP):
            raise DeclarationError(f"currency must be {PURE!r} or {ZCDP!r}, got {shown(self.currency)}")
        if not 0 < self.alpha < Fraction(1, 8):
            raise DeclarationError(f"accuracy must lie strictly between 0 and 1/2, got {shown(self.accuracy)}")
        if self.updates < 1:
            message = f"choose a smaller accuracy: no update is needed for {self.accuracy} with {self.cells} cells"
            raise DeclarationError(message)

    @property
    def alpha(self) -> Fraction:
        """A quarter of the accuracy."""
        return at_least_zero(self.accuracy, "accuracy") / 4

    @property
    def error(self) -> float:
        """Bound on the error of answers, in counts: the accuracy times the mass."""
        return 4 * float(self.alpha) * present(self.mass)

    @property
    def updates(self) -> int:
        """Largest number of updates, each of which measures one query."""
        if self.most_updates is not None:
            return self.most_updates
        least_share = self.cells / (_UNIFORM if self.started else 1.0)
        return int(math.log(least_share) / (8 * float(self.alpha) ** 2))

    @property
    def levels(self) -> tuple[Fraction, Fraction]:
        """Two epsilons: one for all comparisons before an update, one for the answer that the update measures."""
        return self._each * _WATCH, self._each * (1 - _WATCH)

    @cached_property
    def _each(self) -> Fraction:
        """Largest epsilon that each update with its comparisons may have, given the level of the whole session."""
        level = as_level(self.level)
        if self.currency == PURE:
            return level / (self.updates + (_WATCH if self.measured else 0))
        low = high = float(level) / (self.updates + 1)  # begin the search at an epsilon that is small enough
        while self._rho(Fraction(high)) <= level:
            high *= 2
        found = rounded_down(Fraction(root(lambda each: float(self._rho(Fraction(each)) - level), low, high)))
        while self._rho(found) > level:
            found = rounded_down(found * (1 - Fraction(1, 10**12)))
        return found

    def _rho(self, each: Fraction) -> Fraction:
        watch, answer = as_rho(each * _WATCH), as_rho(each * (1 - _WATCH))
        return self.updates * (watch + answer) + (watch if self.measured else 0)

    @property
    def epsilon(self) -> Fraction:
        """Epsilon of the session: `updates` times the sum of `levels`, plus `levels[0]` if the mass is measured."""
        return self._each * (self.updates + (_WATCH if self.measured else 0))

    @property
    def rho(self) -> float:
        """Rho of the session: like `epsilon`, but each epsilon e in the sum is converted to rho, e * tanh(e / 2)."""
        return float(self._rho(self._each))

    @property
    def threshold(self) -> int:
        """Threshold of the comparisons, in counts: three quarters of the accuracy times the mass, rounded up."""
        return math.ceil(3 * self.alpha * present(self.mass))

    def noise(self, scale: int) -> DiscreteLaplace:
        """Return discrete Laplace noise whose scale at a level, in counts, is `scale * sensitivity / level`."""
        return DiscreteLaplace(sensitivity=scale * self.sensitivity)

    def start(self, counts: ArrayLike, release: ArrayLike | None = None, *, rng: Generator) -> MultiplicativeWeights:
        """Start a session. This already costs the level of the whole session, even if no query follows.

        Args:
            counts: True counts of all cells, non-negative integers; shape (cells,). Secret.
            release: Public noisy counts of all cells, required if `started`; shape (cells,).
            rng: Randomness; from `sparsehist.entropy` outside tests.

        Raises:
            DataError: If counts or release do not fit the domain.
            DeclarationError: If the mass is unknown, or if a release is given but not declared, or vice versa.
        """
        if self.mass is None or self.started != (release is not None):
            raise DeclarationError("declare mass= before start(); give start() a release exactly if started=True")
        first, given = first_guess(self, release), np.asarray(counts)
        if given.shape != (self.cells,) or given.dtype.kind not in "iuf":
            raise DataError(f"counts must be numbers, one for each cell; the number of cells is {self.cells}")
        true = given.astype(np.float64)  # doubles add integers exactly if their sum is below 2**40
        if not (true.min() >= 0 and bool((true == np.rint(true)).all()) and true.sum() < 2.0**40):
            raise DataError("counts must be non-negative integers with a sum below 2**40")
        state = MultiplicativeWeights(self, true, first, np.zeros(self.cells), self.updates, 0.0)
        return replace(state, threshold_noise=state._noise(2, 0, rng=rng))  # noqa: SLF001  made here

    def failure(self, queries: int) -> float:
        """Bound the probability that at least one of the answers to this many queries is off by more than `error`.

        The bound holds if the declared mass is correct and not all updates are used up. Noise is rounded to
        integers, which can add up to 2 counts to the error of a comparison. The bound takes this into account.
        """
        watch, answer = map(float, self.levels)
        wide, narrow, fresh = 4 * self.sensitivity / watch, 2 * self.sensitivity / watch, self.sensitivity / answer
        room = self.error / 4 - 2
        if room <= 0:
            return 1.0
        above = wide**2 * math.exp(-room / wide) - narrow**2 * math.exp(-room / narrow)
        above /= 2 * (wide**2 - narrow**2)
        return min(1.0, 2 * queries * above + self.updates * math.exp(-4 * room / fresh))


def first_guess(session: Weighing, release: ArrayLike | None = None) -> FloatArray:
    """Return the first hypothesis, in shares of the mass: uniform, or 15/16 of a release plus 1/16 uniform."""
    uniform = np.full(session.cells, 1.0 / session.cells)
    if release is None:
        return uniform
    noisy = np.asarray(release, np.float64)
    if noisy.shape != uniform.shape or not bool(np.isfinite(noisy).all()) or not noisy.max() > 0:
        raise DataError(f"a release needs {session.cells} finite numbers (one per cell), at least one positive")
    positive = np.maximum(noisy, 0.0)
    return np.asarray(_UNIFORM * uniform + (1 - _UNIFORM) * positive / positive.sum())


def verdict(
    guess: float, truth: float, threshold: float, noise: Callable[[], float]
) -> Literal["high", "low"] | None:
    """Return "high" or "low" if `guess` plus noise is above or below `truth` by at least `threshold`, else None."""
    if guess >= threshold + truth - noise():
        return "high"
    return "low" if guess <= truth + noise() - threshold else None


def pull(query: FloatArray, *, high: bool) -> FloatArray:
    """Return 1 for cells whose estimates decrease (the query's cells if `high`, else all others), 0 for the rest."""
    return query if high else 1.0 - query


def updated(first: FloatArray, pulls: FloatArray, step: float) -> FloatArray:
    """Return the hypothesis after all updates: y e^(-step r), normalised, with y = `first` and r = `pulls`."""
    moved = first * np.exp((pulls - pulls.min()) * -step)
    return np.asarray(moved / moved.sum())


@dataclass(frozen=True, repr=False, eq=False)
class MultiplicativeWeights:
    """The state of a session of queries, made by `Weighing.start`. It contains true counts, so it is secret.

    The session costs its level, whatever is asked. The ledger records this cost only if the session was started with
    `Series.interactive`. `ask` returns the next state and an answer: save the state first, then send the answer.
    Using the same state twice costs more than the level.

    Attributes:
        parameters: The declared parameters; public.
        counts: True counts of all cells; shape (cells,). Secret.
        first: The first hypothesis, as shares of the mass; shape (cells,).
        pulls: Number of updates that decreased each cell; shape (cells,).
        updates_left: Number of answers that can still be measured.
        threshold_noise: Noise of the threshold, in counts. Secret.

    Example:
        >>> from sparsehist import entropy
        >>> rng, counts = entropy.generator(), np.repeat([100_000, 0], [8, 56])
        >>> session = Weighing(cells=64, mass=800_000, level=1, accuracy=0.2).start(counts, rng=rng)
        >>> session, answer = session.ask(np.arange(64) < 8, rng=rng)
        >>> answer.fresh, abs(answer.value - 800_000) < session.parameters.error
        (True, True)
    """

    parameters: Weighing
    counts: FloatArray
    first: FloatArray
    pulls: FloatArray
    updates_left: int
    threshold_noise: float

    def ask(self, predicate: ArrayLike, *, rng: Generator) -> tuple[MultiplicativeWeights, WeightedAnswer]:
        """Answer a query for the sum of the counts where a predicate is true. Return the next state and the answer.

        Args:
            predicate: A bool for each cell; shape (cells,). Public.
            rng: Randomness; from `sparsehist.entropy` outside tests.

        Raises:
            BudgetExceededError: If all updates are used up.
            DataError: If the predicate does not fit the domain.
        """
        about, asked = self.parameters, np.asarray(predicate)
        if asked.shape != (about.cells,) or asked.dtype != np.bool_:
            raise DataError(f"a predicate must have one bool for each cell; the number of cells is {about.cells}")
        if not self.updates_left:
            raise BudgetExceededError(f"all {about.updates} updates are used up; the hypothesis can still be read")
        query = asked.astype(np.float64)
        guess, truth = present(about.mass) * float(query @ self._shares), float(query @ self.counts)
        found = verdict(guess, truth, about.threshold + self.threshold_noise, lambda: self._noise(4, 0, rng=rng))
        if found is None:
            return self, WeightedAnswer(guess, about.error, fresh=False, updates_left=self.updates_left)
        left, pulls = self.updates_left - 1, self.pulls + pull(query, high=found == "high")
        answer = WeightedAnswer(truth + self._noise(1, 1, rng=rng), about.error, fresh=True, updates_left=left)
        noise = self._noise(2, 0, rng=rng)
        return replace(self, pulls=pulls, updates_left=left, threshold_noise=noise), answer

    @property
    def hypothesis(self) -> FloatArray:
        """The current estimates of the counts of all cells; shape (cells,). Public."""
        return self._shares * present(self.parameters.mass)

    @cached_property
    def _shares(self) -> FloatArray:
        return updated(self.first, self.pulls, 8 * float(self.parameters.alpha))

    def to_bytes(self) -> bytes:
        """Return the state as bytes, which are secret."""
        about = asdict(self.parameters)
        exact = {name: str(Fraction(str(about[name]))) for name in ("level", "accuracy")}
        header = {"parameters": about | exact, "state": [self.updates_left, self.threshold_noise]}
        return pack("MultiplicativeWeights", header, [self.counts, self.first, self.pulls])

    @classmethod
    def from_bytes(cls, content: bytes) -> MultiplicativeWeights:
        """Restore a state. Raise StoreDamagedError if the bytes were altered, InputError if they are not a state."""
        header, (counts, first, pulls) = unpack("MultiplicativeWeights", content)
        return cls(Weighing(**header["parameters"]), counts, first, pulls, *header["state"])

    def __repr__(self) -> str:
        return f"MultiplicativeWeights({self.parameters}, updates_left={self.updates_left})"

    def _noise(self, scale: int, which: int, *, rng: Generator) -> float:
        """Draw noise, in counts, for comparisons (`which` is 0) or measured answers (`which` is 1)."""
        about = self.parameters
        return float(about.noise(scale).sample(1, about.levels[which], rng=rng)[0])
