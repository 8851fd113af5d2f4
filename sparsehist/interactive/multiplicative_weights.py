"""Private multiplicative weights: adaptive counting queries over the cells of a closed domain.

A public hypothesis answers a query if its answer is accurate enough; a sparse vector checks this. Otherwise the query
is measured with noise, and the hypothesis is updated: at most k times, for any number of queries.

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
# Share of the uniform hypothesis when a release gives the first one: updates multiply, so no cell may be 0.
_UNIFORM = 1 / 16
# Share of an update's cost that is spent on comparisons; the rest is spent on the answer.
_WATCH = Fraction(4, 5)


@dataclass(frozen=True)
class WeightedAnswer:
    """The answer to one query; everything is public.

    Attributes:
        value: The answer, in counts.
        error: Bound on the error, in counts; it fails with a probability of at most `Weighing.failure`.
        fresh: Whether it was measured, so that the hypothesis was updated.
        updates_left: Number of fresh answers that are left.
    """

    value: float
    error: float
    fresh: bool
    updates_left: int


@dataclass(frozen=True)
class Weighing:
    """The public parameters of a session; `start` returns its first state.

    Args:
        cells: Size of the domain; from 2 to 10**7.
        mass: Sum of all counts, public or released before; None if it is still to be measured.
        level: Cost of the whole session.
        accuracy: Largest error to be reached, as a share of the mass: 4 alpha.
        sensitivity: Largest change of a query by one unit: max_keys.
        most_updates: k; by default as many as alpha can need.
        started: Whether the first hypothesis is made from a release instead of uniform.
        currency: Unit of the level: "epsilon" (pure DP) or "rho" (zCDP).
        measured: Whether the mass is measured, at the level of the comparisons until one update.

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
            message = f"accuracy {self.accuracy} needs no update over {self.cells} cells: ask for a smaller one"
            raise DeclarationError(message)

    @property
    def alpha(self) -> Fraction:
        """A quarter of the accuracy."""
        return at_least_zero(self.accuracy, "accuracy") / 4

    @property
    def error(self) -> float:
        """The bound on errors: 4 alpha N, in counts."""
        return 4 * float(self.alpha) * present(self.mass)

    @property
    def updates(self) -> int:
        """k, the largest number of queries that are measured."""
        if self.most_updates is not None:
            return self.most_updates
        least_share = self.cells / (_UNIFORM if self.started else 1.0)
        return int(math.log(least_share) / (8 * float(self.alpha) ** 2))

    @property
    def levels(self) -> tuple[Fraction, Fraction]:
        """(eps_T, eps_A): epsilon of all comparisons up to one update, and of the answer measured in that update."""
        return self._each * _WATCH, self._each * (1 - _WATCH)

    @cached_property
    def _each(self) -> Fraction:
        """The epsilon of one update: the largest for which all updates together cost at most the level."""
        level = as_level(self.level)
        if self.currency == PURE:
            return level / (self.updates + (_WATCH if self.measured else 0))
        low = high = float(level) / (self.updates + 1)  # rho <= epsilon here, so rho is a lower limit of the search
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
        """The cost of the session in pure DP: k (eps_T + eps_A), plus eps_T if the mass is measured."""
        return self._each * (self.updates + (_WATCH if self.measured else 0))

    @property
    def rho(self) -> float:
        """The cost of the session in zCDP: k (eps_T tanh(eps_T/2) + eps_A tanh(eps_A/2)), plus the mass."""
        return float(self._rho(self._each))

    @property
    def threshold(self) -> int:
        """The threshold of comparisons: 3 alpha N, rounded up."""
        return math.ceil(3 * self.alpha * present(self.mass))

    def noise(self, scale: int) -> DiscreteLaplace:
        """Return noise with scale `scale * sensitivity / level`, in counts."""
        return DiscreteLaplace(sensitivity=scale * self.sensitivity)

    def start(self, counts: ArrayLike, release: ArrayLike | None = None, *, rng: Generator) -> MultiplicativeWeights:
        """Begin a session, which spends the level.

        Args:
            counts: True counts of all cells, whole numbers; shape (cells,). Secret.
            release: Noisy counts of all cells, already public, if `started`; shape (cells,).
            rng: Randomness; from `sparsehist.entropy` outside tests.

        Raises:
            DataError: If counts or release do not fit the domain.
            DeclarationError: If the mass is unknown, or a release is given although not `started`.
        """
        if self.mass is None or self.started != (release is not None):
            raise DeclarationError("a session needs its mass, and a release to start from only if started=True")
        first, given = first_guess(self, release), np.asarray(counts)
        if given.shape != (self.cells,) or given.dtype.kind not in "iuf":
            raise DataError(f"counts are numbers, one per cell: {self.cells}")
        true = given.astype(np.float64)  # every sum is exact
        if not (true.min() >= 0 and bool((true == np.rint(true)).all()) and true.sum() < 2.0**40):
            raise DataError("counts are whole numbers of at least 0, below 2**40 in all")
        state = MultiplicativeWeights(self, true, first, np.zeros(self.cells), self.updates, 0.0)
        return replace(state, threshold_noise=state._noise(2, 0, rng=rng))  # noqa: SLF001 - the state's maker

    def failure(self, queries: int) -> float:
        """Bound the probability that, of this number of answers, any has an error above `error`.

        The bound holds while updates are left, for the declared mass. Each of the two integer noises
        differs from a coupled Laplace variable by at most one count, so two counts of the error are set aside.
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
    """Make the first hypothesis, as shares: uniform, or 15/16 of public noisy counts and 1/16 of uniform."""
    uniform = np.full(session.cells, 1.0 / session.cells)
    if release is None:
        return uniform
    noisy = np.asarray(release, np.float64)
    if noisy.shape != uniform.shape or not bool(np.isfinite(noisy).all()) or not noisy.max() > 0:
        raise DataError(f"the release to start from needs one finite number per cell, {session.cells}, some above 0")
    positive = np.maximum(noisy, 0.0)
    return np.asarray(_UNIFORM * uniform + (1 - _UNIFORM) * positive / positive.sum())


def verdict(
    guess: float, truth: float, threshold: float, noise: Callable[[], float]
) -> Literal["high", "low"] | None:
    """Decide whether a guess is too high or too low, by noisy integers; None if it is accurate enough."""
    if guess >= threshold + truth - noise():
        return "high"
    return "low" if guess <= truth + noise() - threshold else None


def pull(query: FloatArray, *, high: bool) -> FloatArray:
    """Return the cells that an update makes smaller: those of the query, or of its complement; shape (cells,)."""
    return query if high else 1.0 - query


def updated(first: FloatArray, pulls: FloatArray, step: float) -> FloatArray:
    """Compute the hypothesis after all updates: normalised y_i e^(-step r_i), with r the sum of pulls; (cells,)."""
    moved = first * np.exp((pulls - pulls.min()) * -step)
    return np.asarray(moved / moved.sum())


@dataclass(frozen=True, repr=False, eq=False)
class MultiplicativeWeights:
    """A session of queries over all cells, made by `Weighing.start`. It contains true counts, so it is secret.

    The session costs its level, whatever is asked. No ledger records that cost; `Series.interactive` opens
    sessions that the ledger records. Each answer comes with the next state: save that first, then send the answer. If
    two copies of a state are used, the cost is more than the level.

    Attributes:
        parameters: As declared; public.
        counts: True counts; shape (cells,). Secret.
        first: The first hypothesis, as shares; shape (cells,).
        pulls: Sum of the pulls of all updates; shape (cells,).
        updates_left: Number of fresh answers that are left.
        threshold_noise: In counts. Secret.

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
        """Answer the sum of the counts of the cells where a predicate holds; return the next state and the answer.

        Args:
            predicate: A bool for each cell; shape (cells,). Public.
            rng: Randomness; from `sparsehist.entropy` outside tests.

        Raises:
            BudgetExceededError: If all updates are used up.
            DataError: If the predicate does not fit the domain.
        """
        about, asked = self.parameters, np.asarray(predicate)
        if asked.shape != (about.cells,) or asked.dtype != np.bool_:
            raise DataError(f"a query is a predicate, one bool per cell: {about.cells}")
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
        """The current estimate of all cells, in counts; shape (cells,). Public."""
        return self._shares * present(self.parameters.mass)

    @cached_property
    def _shares(self) -> FloatArray:
        return updated(self.first, self.pulls, 8 * float(self.parameters.alpha))

    def to_bytes(self) -> bytes:
        """Return the state as bytes; secret."""
        about = asdict(self.parameters)
        exact = {name: str(Fraction(str(about[name]))) for name in ("level", "accuracy")}
        header = {"parameters": about | exact, "state": [self.updates_left, self.threshold_noise]}
        return pack("MultiplicativeWeights", header, [self.counts, self.first, self.pulls])

    @classmethod
    def from_bytes(cls, content: bytes) -> MultiplicativeWeights:
        """Read the result of `to_bytes`; InputError for other bytes, StoreDamagedError if they were altered."""
        header, (counts, first, pulls) = unpack("MultiplicativeWeights", content)
        return cls(Weighing(**header["parameters"]), counts, first, pulls, *header["state"])

    def __repr__(self) -> str:
        return f"MultiplicativeWeights({self.parameters}, updates_left={self.updates_left})"

    def _noise(self, scale: int, which: int, *, rng: Generator) -> float:
        """Draw noise, in counts, at the level of comparisons (`which` 0) or of answers; see `Weighing.noise`."""
        about = self.parameters
        return float(about.noise(scale).sample(1, about.levels[which], rng=rng)[0])
