"""Private multiplicative weights: linear queries over the cells of a closed domain, as they come to mind.

A public hypothesis y answers every query that it answers well enough; a sparse vector watches whether it does.
Only where it does not is the truth asked, and the hypothesis is moved towards it; that happens at most k times
however many queries are asked. In counts, for neighbours that differ by a unit, which moves a query by at most
`sensitivity`.

Where it loses: on workloads that can be listed. On 2,000 ranges the largest error of a spectral workload is below a
thousandth of this one's; it is for predicates that nobody can list beforehand.

Source: Hardt and Rothblum 2010; [Interactive section 3], whose checker has a threshold without noise and is replaced
by a sparse vector. Step and number of updates are our own derivation: with step eta = 8 alpha an update of a query
that is off by 2 alpha lowers the relative entropy by at least 16 alpha^2 - eta^2/8 = 8 alpha^2.

Papers: [Interactive Claim 1, Thm 2].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np

from sparsehist.errors import DataError, DeclarationError, present
from sparsehist.noise.discrete_laplace import DiscreteLaplace
from sparsehist.privacy.composition import PURE, ZCDP, as_rho
from sparsehist.privacy.crossing import crossing
from sparsehist.privacy.exact_numbers import Number, at_least_zero, rounded_down
from sparsehist.privacy.levels import Level, as_level
from sparsehist.typing import ArrayLike, FloatArray

Weights = ArrayLike
"""Of each cell, in [0, 1]: bool for predicates, multiples of `weight_step` otherwise; shape (cells,)."""

MOST_CELLS = 10**7
# Of a hypothesis that begins from a release: no cell may have a share of 0, or updates would never reach it.
_UNIFORM = 1 / 16
# Of what an update costs, four fifths watch and one fifth answers: both errors are then far inside the bound.
_WATCH = Fraction(4, 5)


@dataclass(frozen=True)
class WeightedAnswer:
    """The answer to one query; all of it is public.

    Attributes:
        value: In counts.
        error: How far off it may be, in counts, but for the probability the session states.
        fresh: Whether it was measured (and the hypothesis moved) rather than read off the hypothesis.
        updates_left: How many more fresh answers there can be.
    """

    value: float
    error: float
    fresh: bool
    updates_left: int


@dataclass(frozen=True)
class Weighing:
    """The public parameters of a session.

    Args:
        cells: Size of the domain; from 2 to 10**7.
        mass: Sum of all counts, public or released before; None where it is yet to be measured.
        level: Of the whole session.
        accuracy: Largest error wanted, as a share of the mass: 4 alpha.
        sensitivity: How far one unit moves a query: max_keys.
        most_updates: k; by default what alpha needs.
        started: Whether the hypothesis begins from a release rather than from nothing.
        weight_step: A power of two of at most 1 of which all weights are multiples; 1 for predicates.
        currency: What the level is: "epsilon" (pure DP) or "rho" (zCDP).
        measured: Whether the mass is measured at a part of the level, as much as watches one update.

    Raises:
        DeclarationError: If a parameter is not what it should be.

    Example:
        >>> session = Weighing(cells=1024, mass=10**6, level=1, accuracy=0.2)
        >>> session.updates, round(session.error)
        (346, 200000)
    """

    cells: int
    mass: int | None
    level: Level
    accuracy: Number
    sensitivity: int = 1
    most_updates: int | None = None
    started: bool = False
    weight_step: Number = 1
    currency: str = PURE
    measured: bool = False

    def __post_init__(self) -> None:
        whole = {"cells": (2, MOST_CELLS), "mass": (1, 2**40), "sensitivity": (1, 2**20)}
        optional = {"most_updates": (1, 10**9)} | ({"mass": whole.pop("mass")} if self.measured else {})
        whole |= {name: limits for name, limits in optional.items() if getattr(self, name) is not None}
        for name, (least, most) in whole.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise DeclarationError(f"{name} must be a whole number from {least} to {most}, got {value!r}")
        as_level(self.level)
        if self.currency not in (PURE, ZCDP):
            raise DeclarationError(f"currency must be {PURE!r} or {ZCDP!r}, got {self.currency!r}")
        if not 0 < self.alpha < Fraction(1, 8):
            raise DeclarationError(f"accuracy must lie strictly between 0 and 1/2, got {self.accuracy!r}")
        if not 2**-12 <= self.step <= 1 or math.frexp(float(self.step))[0] != 0.5:
            raise DeclarationError(f"weight_step must be a power of two from 2**-12 to 1, got {self.weight_step!r}")
        if self.updates < 1:
            raise DeclarationError(
                f"accuracy {self.accuracy!r} is so wide that no update is ever needed over {self.cells} cells; ask "
                "for a smaller one"
            )

    @property
    def alpha(self) -> Fraction:
        """A quarter of the accuracy."""
        return at_least_zero(self.accuracy, "accuracy") / 4

    @property
    def step(self) -> Fraction:
        """The grid of weights, so of answers and of noise."""
        return at_least_zero(self.weight_step, "weight_step")

    @property
    def error(self) -> float:
        """4 alpha N, in counts."""
        return 4 * float(self.alpha) * present(self.mass)

    @property
    def updates(self) -> int:
        """k: at most so many queries are answered from the truth."""
        if self.most_updates is not None:
            return self.most_updates
        least_share = self.cells / (_UNIFORM if self.started else 1.0)
        return int(math.log(least_share) / (8 * float(self.alpha) ** 2))

    @property
    def levels(self) -> tuple[Fraction, Fraction]:
        """eps_T, which watches until one update, and eps_A, which answers at it."""
        return self._each * _WATCH, self._each * (1 - _WATCH)

    @cached_property
    def _each(self) -> Fraction:
        """The epsilon of one update: the level over all of them, or in rho the largest that keeps to it, rounded."""
        level = as_level(self.level)
        if self.currency == PURE:
            return level / (self.updates + (_WATCH if self.measured else 0))
        low = high = float(level) / (self.updates + 1)  # an epsilon is never less than its rho
        while self._rho(Fraction(high)) <= level:
            high *= 2
        found = rounded_down(Fraction(crossing(lambda each: float(self._rho(Fraction(each)) - level), low, high)))
        while self._rho(found) > level:
            found = rounded_down(found * (1 - Fraction(1, 10**12)))
        return found

    def _rho(self, each: Fraction) -> Fraction:
        watch, answer = as_rho(each * _WATCH), as_rho(each * (1 - _WATCH))
        return self.updates * (watch + answer) + (watch if self.measured else 0)

    @property
    def epsilon(self) -> Fraction:
        """The session as pure DP: k (eps_T + eps_A), and eps_T more where the mass is measured."""
        return self._each * (self.updates + (_WATCH if self.measured else 0))

    @property
    def rho(self) -> float:
        """The session as zCDP: k (eps_T tanh(eps_T/2) + eps_A tanh(eps_A/2)), and so on."""
        return float(self._rho(self._each))

    @property
    def threshold(self) -> Fraction:
        """3 alpha N, on the grid."""
        return math.ceil(3 * self.alpha * present(self.mass) / self.step) * self.step

    def noise(self, scale: int) -> DiscreteLaplace:
        """Noise in steps of the grid, of scale * sensitivity / level counts."""
        return DiscreteLaplace(sensitivity=Fraction(scale * self.sensitivity) / self.step)

    def failure(self, queries: int) -> float:
        """Bound on the probability that any of so many answers is off by more than `error`.

        It holds while updates are left, for the mass as declared. On the grid each noise is within one step of a real
        Laplace variable that goes with it, hence the two steps taken off.
        """
        watch, answer = map(float, self.levels)
        wide, narrow, fresh = 4 * self.sensitivity / watch, 2 * self.sensitivity / watch, self.sensitivity / answer
        room = self.error / 4 - 2 * float(self.step)
        if room <= 0:
            return 1.0
        above = wide**2 * math.exp(-room / wide) - narrow**2 * math.exp(-room / narrow)
        above /= 2 * (wide**2 - narrow**2)
        return min(1.0, 2 * queries * above + self.updates * math.exp(-4 * room / fresh))


def first_guess(session: Weighing, release: ArrayLike | None = None) -> FloatArray:
    """The hypothesis to begin with, as shares: uniform, or but for a sixteenth from public noisy counts of all cells.

    Raises:
        DataError: If the release is of another shape, or holds nothing above 0.
    """
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
    """Whether a guess is too high or too low, as far as noise lets on; None where it is near enough.

    Truth and threshold, which has its noise, are on the grid and secret; `noise` draws that of a check, once or
    twice.
    """
    # Truth, noise and threshold lie on one grid, so the comparison with the real guess is exact.
    if guess >= threshold + truth - noise():
        return "high"
    return "low" if guess <= truth + noise() - threshold else None


def pull(query: FloatArray, found: Literal["high", "low"]) -> FloatArray:
    """Where an update moves the hypothesis away from: the query, or all the rest. Shape (cells,)."""
    return query if found == "high" else 1.0 - query


def updated(first: FloatArray, pulls: FloatArray, step: float) -> FloatArray:
    """The hypothesis after any number of updates: y_i e^(-step r_i), with r their pulls added up, and shares again.

    From the sum, the same numbers come out of a session that went on and of one that is read back from its updates.
    The step is eta = 8 alpha; all arrays have shape (cells,).
    """
    moved: FloatArray = (pulls - pulls.min()) * -step
    np.exp(moved, out=moved)
    moved *= first
    moved /= moved.sum()
    return moved


def read_weights(session: Weighing, weights: Weights) -> FloatArray:
    """Check the weights of a query: of the session's cells, in [0, 1] and on its grid; shape (cells,)."""
    given = np.asarray(weights)
    if given.shape != (session.cells,):
        raise DataError(f"a query has one weight per cell, {session.cells}, got shape {given.shape}")
    read = given.astype(np.float64)
    if given.dtype == np.bool_:
        return read
    scaled = read / float(session.step)
    if not (read.min() >= 0.0 and read.max() <= 1.0 and bool((scaled == np.rint(scaled)).all())):
        raise DataError(f"weights lie in [0, 1] and are multiples of weight_step, {session.weight_step}")
    return read


def read_counts(session: Weighing, counts: ArrayLike) -> FloatArray:
    """Check true counts; whole doubles, of which every weighted sum is exact. Shape (cells,). Secret."""
    given = np.asarray(counts)
    if given.shape != (session.cells,) or given.dtype.kind not in "iuf":
        raise DataError(f"counts are numbers, one per cell: {session.cells}")
    read = given.astype(np.float64)
    if not (read.min() >= 0 and bool((read == np.rint(read)).all()) and read.sum() < 2.0**40):
        raise DataError("counts are whole numbers of at least 0, below 2**40 in all")
    return read
