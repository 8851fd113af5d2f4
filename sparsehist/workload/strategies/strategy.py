"""What a strategy has to say about itself: a factorization A = L·R of a workload.

Released is A·x + L·Z, where Z is noise with one entry per row of R, scaled to the sensitivity of R·x. L need not
have a left inverse: releases at several levels cost what the finest costs whatever L is, because they are all
functions of the releases of R·x. They are even lossless whatever L is, which [ARNP Lemma 5.1] proves where L has a
left inverse: a coarser R·x + Z is a finer one plus independent noise W, so L times it is L times the finer one plus
L·W.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from sparsehist.errors import DeclarationError
from sparsehist.typing import ArrayLike, FloatArray, Generator
from sparsehist.workload.gram.profiles import (
    WRITTEN_OUT,
    Profile,
    as_reached,
    between,
    numbers_up_to,
    profile_of_gram,
)
from sparsehist.workload.queries.linear_queries import Workload

_LONG = 2**18

Kept = Literal["noise", "cells", "answers"]

_ROUNDING = 1e-8

LAST_DIGIT = 2.0**-53
"""A double is off by at most this, relative to what it stands for."""

OF_Z = 16.0
"""Mean error of an entry of Z, in last digits of its deviation: its draw, scaling, and the step from other levels."""


class Sensitivity(NamedTuple):
    """How far one unit with at most max_keys cells can move R·x, in L2.

    Attributes:
        l2: Certified upper bound; what noise is scaled to.
        l2_lower: Reached by some unit: how loose the bound can be at most.
    """

    l2: float
    l2_lower: float


class Strategy(abc.ABC):
    """A factorization A = L·R of a workload. Immutable; public parameters only; never writes a matrix out.

    For Gaussian noise what is kept of each level is a linear image of Z, named by `keeps`:

    - "noise": Z itself, `n_noise` numbers;
    - "cells": R⁻¹·Z, one number per cell, where R has an inverse on the left: then L·Z = A·(R⁻¹·Z), and every query
      of the workload is served without listing them;
    - "answers": L·Z, one number per query.

    For all other families Z itself is kept, as their steps between levels are not linear.

    Args:
        workload: A.

    A subclass defines `word`, `keeps`, `n_noise`, `sensitivity`, `l1_sensitivity`, `apply` (R·x), `query_variance`,
    `roundings` and either `to_cells` or `noise_answers`; where A is implicit also `range_variance`.
    """

    word: ClassVar[str]
    """The name in the textual form."""

    keeps: Kept = "noise"

    integral: bool = False
    """Whether every entry of R is an integer, so that integer families of noise have an integer sensitivity."""

    alone: bool = False
    """Whether R is the identity: cells that a unit does not touch then have the same noise in both logs."""

    overlapping: bool = False
    """Whether no two columns of R have a negative inner product."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload

    @property
    def name(self) -> str:
        """The textual form with parameters, such as ``hierarchical(branching=16)``; parses back."""
        return self.word

    @property
    @abc.abstractmethod
    def n_noise(self) -> int:
        """Number of rows of R: entries of Z."""

    @property
    def state_size(self) -> int:
        """Number of entries of a state under Gaussian noise."""
        sizes = {"noise": self.n_noise, "cells": self.workload.n_cells, "answers": self.workload.n_queries}
        return sizes[self.keeps]

    @abc.abstractmethod
    def sensitivity(self, max_keys: int) -> Sensitivity:
        """Bound how far a unit with at most `max_keys` cells, each counted once, moves R·x; finite and positive."""

    @abc.abstractmethod
    def l1_sensitivity(self, max_keys: int) -> float:
        """The same in L1: a certified upper bound, what noise of a pure guarantee is scaled to."""

    def profile(self, max_keys: int) -> Profile:
        """Bounds for 1, 2, …, max_keys cells in L2, at most all cells, at the cost of a few numbers of them.

        What a product of strategies asks its factors. Here each number is asked by itself, which is for strategies
        whose sensitivity costs nothing.
        """
        numbers = numbers_up_to(min(max_keys, self.workload.n_cells))
        found = [self.sensitivity(number) for number in numbers.tolist()]
        norms = between(numbers, [one.l2 for one in found])
        # under a matrix that is the square of the largest column norm everywhere
        majorant = norms if self.overlapping else norms[0] * np.arange(1, norms.size + 1)
        return Profile(norms, majorant, as_reached(numbers, [one.l2_lower for one in found]))

    def _profile_of_rows(self, max_keys: int) -> Profile | None:
        """The same from R written out, where there are few cells."""
        cells = self.workload.n_cells
        if cells > WRITTEN_OUT:
            return None
        rows = self.apply(np.eye(cells))
        return profile_of_gram(rows.T @ rows, max_keys)

    @abc.abstractmethod
    def apply(self, x: ArrayLike) -> FloatArray:
        """R·x; shape (cells,) or (cells, m) to (n_noise,) or (n_noise, m)."""

    def to_state(self, z: ArrayLike) -> FloatArray:
        """What is kept of Z under Gaussian noise, linear in Z; (n_noise,) to (state_size,), or with columns."""
        noise = np.asarray(z, np.float64)
        if self.keeps == "noise":
            return noise
        return self.to_cells(noise) if self.keeps == "cells" else self.noise_answers(noise)

    def state_answers(self, state: ArrayLike) -> FloatArray:
        """L·Z from a state under Gaussian noise, for workloads that list their queries; shape (queries,)."""
        kept = np.asarray(state, np.float64)
        if self.keeps == "noise":
            return self.noise_answers(kept)
        return self.workload.apply(kept) if self.keeps == "cells" else kept

    def to_cells(self, z: FloatArray) -> FloatArray:  # noqa: ARG002  for those that can
        """R⁻¹·Z where R has a left inverse; shape (cells,)."""
        raise DeclarationError(f"the strategy {self.name} has no left inverse: it answers the listed queries only")

    def noise_answers(self, z: ArrayLike) -> FloatArray:
        """L·Z, for workloads that list their queries; shape (n_noise,) to (queries,), or with columns."""
        return self.workload.apply(self.to_cells(np.asarray(z, np.float64)))

    @abc.abstractmethod
    def query_variance(self) -> FloatArray:
        """Variance of each listed query when the entries of Z have variance 1: the diagonal of L·Lᵀ."""

    def cell_variance(self) -> float:
        """Mean variance of R⁻¹·Z over the cells, or a bound, where `keeps` is "cells" and Z has variance 1."""
        raise DeclarationError(f"the strategy {self.name} keeps no number for each cell")

    def rounding(self, max_keys: int) -> float:
        """Bound how far computed noise is off, in `LAST_DIGIT` for Z of variance 1: the sum of mean absolute errors.

        It counts the numbers that are rounded first (R⁻¹·Z where that is kept, else L·Z), and of those the ones that
        a unit of at most `max_keys` cells can change.
        """
        if self.alone:
            return min(max_keys, self.workload.n_cells) * OF_Z
        if self.keeps == "cells":
            return self.workload.n_cells * math.sqrt(self.cell_variance()) * (OF_Z + self.roundings())
        return self.workload.n_queries * math.sqrt(self.mean_variance()) * (OF_Z + self.answer_roundings())

    @abc.abstractmethod
    def roundings(self) -> float:
        """The mean error of making R⁻¹·Z, or L·Z, from Z, in `LAST_DIGIT` of its deviation (root mean squares)."""

    def answer_roundings(self) -> float:
        """The mean error of making L·Z, as for `roundings`; also where it is made by way of R⁻¹·Z."""
        return self._by_way_of_cells() if self.keeps == "cells" else self.roundings()

    def _by_way_of_cells(self) -> float:
        """Of L·Z from R⁻¹·Z.

        A sum of k cells adds k errors of a last digit of what its terms add up to. By Cauchy and Schwarz the sum of
        |a_j| E|e_j| is at most |a| times the root of Σ (E|e_j|)² over all cells; over those of the sum where each
        has noise of its own.
        """
        squares, cells = self.workload.row_squares(), float(self.workload.n_cells)
        terms = squares if self.workload.integral else np.full(squares.shape, cells)  # at most
        sums = (terms + self.roundings()) * np.sqrt(squares * (terms if self.alone else cells))
        return float(sums.mean()) * math.sqrt(self.cell_variance() / self.mean_variance())

    def range_variance(self, low: int, high: int) -> float:
        """Variance of the sum of cells low, …, high of an implicit workload, for Z of variance 1."""
        raise DeclarationError(
            f"{self.workload.describe()} under {self.name} answers no ranges on demand ({low}, {high})"
        )

    def mean_variance(self) -> float:
        """Mean of the variance over all queries, listed or not, when the entries of Z have variance 1."""
        return float(self.query_variance().mean())

    def check(self, *, rng: Generator, probes: int = 3) -> None:
        """Compare L·(R·x) with A·x on random vectors, one for more than 2**18 cells.

        Raises:
            DeclarationError: If L·R is not A beyond rounding, in any query.
        """
        cells = self.workload.n_cells
        # A transform of a long column meets its rounding errors in one vector.
        x = rng.standard_normal((cells, probes if cells <= _LONG else 1))
        image = self.to_state(self.apply(x))
        # R⁻¹·R·x = x says it for any A.
        of_cells = self.keeps == "cells"
        given, wanted = (image, x) if of_cells else (self.state_answers(image), self.workload.apply(x))
        largest = max(float(np.abs(wanted).max()), 1e-300)
        scale = np.full((len(wanted), 1), largest)
        if not of_cells:
            # Query by query: beside queries of large entries, one that gets no noise at all would not be noticed.
            own = np.abs(wanted).max(axis=1, keepdims=True)
            own = np.maximum(own, 1e-4 * np.median(own))  # of many queries some are small at all probes by chance
            scale = np.where(own > 0, own, 1e-6 * largest)
        error = float((np.abs(given - wanted) / scale).max())
        if not error <= _ROUNDING:
            asked = self.workload.describe()
            raise DeclarationError(f"the strategy {self.name} does not factor {asked}: L·R is off A by {error:.1e}")

    def __repr__(self) -> str:
        return f"<strategy {self.name} for {self.workload.describe()}>"


class Combined(Strategy):
    """A strategy for each part of a workload made of several, its columns known."""

    def __init__(self, workload: Workload, strategies: Sequence[Strategy]) -> None:
        if [strategy.workload for strategy in strategies] != list(self.parts_of(workload)):
            raise DeclarationError(f"{workload.describe()} needs one strategy for each of its parts")
        super().__init__(workload)
        self.strategies = tuple(strategies)

    @staticmethod
    @abc.abstractmethod
    def parts_of(workload: Workload) -> Sequence[Workload]:
        """The parts of a workload of the kind this answers."""

    @property
    def name(self) -> str:
        return f"{self.word}({', '.join(strategy.name for strategy in self.strategies)})"

    def check(self, *, rng: Generator, probes: int = 3) -> None:
        """Compare L·(R·x) with A·x part by part."""
        for strategy in self.strategies:
            strategy.check(rng=rng, probes=probes)


def along(factor: FloatArray, values: FloatArray) -> FloatArray:
    """One factor a row, in a shape that multiplies values with columns or without."""
    return factor if values.ndim == 1 else factor[:, np.newaxis]
