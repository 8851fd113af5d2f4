"""The base classes of strategies: factorizations A = L·R of a workload, released as A·x + L·Z.

Z is noise with one entry per row of R, scaled to the sensitivity of R·x. Releases at several levels are functions of
releases of R·x at these levels, so together they cost as much as the finest, for every L: docs/mathematics.md,
"Workloads".

Source: [ARNP Lemma 5.1], without its unnecessary condition that L has a left inverse.
"""

from __future__ import annotations

import abc
from functools import cached_property
from typing import ClassVar

import numpy as np

from sparsehist.errors import DeclarationError
from sparsehist.typing import ArrayLike, FloatArray, IntArray
from sparsehist.workload.queries.products import Union
from sparsehist.workload.queries.ranges import LARGEST_LISTED, RangeRows, Ranges
from sparsehist.workload.queries.workload import Workload
from sparsehist.workload.sensitivity import LARGEST_GRAM, worst_row

_NUMBERS_AT_ONCE = 2**22


class Strategy(abc.ABC):
    """A factorization A = L·R of a workload. Immutable; all parameters are public."""

    word: ClassVar[str]
    """The name in the textual form."""

    invertible: bool = False
    """Whether R has a left inverse. Then R⁻¹·Z, one number per cell, is enough for every query: L·Z = A·(R⁻¹·Z)."""

    integral: bool = False
    """Whether every entry of R is an integer, as integer noise needs."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload

    @property
    def name(self) -> str:
        """The textual form, such as ``spectral(blend=4)``."""
        return self.word

    @property
    @abc.abstractmethod
    def n_noise(self) -> int:
        """Number of rows of R and of entries of Z."""

    @abc.abstractmethod
    def apply(self, x: ArrayLike) -> FloatArray:
        """Return R·x; shape (cells,) or (cells, m) to (n_noise,) or (n_noise, m)."""

    def to_cells(self, z: FloatArray) -> FloatArray:  # noqa: ARG002  for invertible strategies
        """Return R⁻¹·z if `invertible`; shape (n_noise,) or (n_noise, m) to (cells,) or (cells, m)."""
        raise DeclarationError(f"the strategy {self.name} has no left inverse: it answers the listed queries only")

    @abc.abstractmethod
    def noise_answers(self, z: FloatArray) -> FloatArray:
        """Return L·z for listed queries; shape (n_noise,) or (n_noise, m) to (queries,) or (queries, m)."""

    @abc.abstractmethod
    def l2(self, max_keys: int) -> float:
        """Return a bound on the L2 change of R·x by a unit with at most `max_keys` cells, each counted once."""

    @abc.abstractmethod
    def l1(self, max_keys: int) -> float:
        """Return this bound in L1, for noise with a pure guarantee."""

    @abc.abstractmethod
    def variance(self) -> FloatArray:
        """Return the variance of each listed query for Z of variance 1: the diagonal of L·Lᵀ; shape (queries,)."""

    def mean_variance(self) -> float:
        """Return the mean variance of all queries, listed or not."""
        return float(self.variance().mean())

    def range_variances(self, low: IntArray, high: IntArray) -> FloatArray:  # noqa: ARG002  for one column
        """Return the variance of sums of cells low, …, high of one column, for Z of variance 1; shape (queries,)."""
        raise DeclarationError(f"the strategy {self.name} answers the listed queries only")

    def cell_variance(self) -> float:
        """Return the mean variance of R⁻¹·Z over the cells, for Z of variance 1, if `invertible`."""
        cells = np.arange(self.workload.n_cells)
        return float(self.range_variances(cells, cells).mean())

    def gram_row(self, max_keys: int) -> FloatArray:
        """Return entries of which the k largest sum up to at least the k largest of any row of abs(RᵀR)."""
        if self.workload.n_cells > LARGEST_GRAM:
            return np.full(max_keys, self.l2(1) ** 2)
        rows = self.apply(np.eye(self.workload.n_cells))
        return worst_row(rows.T @ rows, max_keys)

    def largest_eigenvalue(self) -> float:
        """Return an upper bound on the largest eigenvalue of RᵀR; it may be infinite."""
        if self.workload.n_cells > LARGEST_GRAM:
            return float("inf")
        return float(np.linalg.norm(self.apply(np.eye(self.workload.n_cells)), 2)) ** 2

    def __repr__(self) -> str:
        return f"<strategy {self.name} for {self.workload.describe()}>"


class Invertible(Strategy):
    """A strategy R with a left inverse R⁺: L = A·R⁺ for every workload A on the same cells."""

    invertible = True

    one_column: bool = False
    """Whether it can only answer workloads on one column."""

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        if self.one_column and len(workload.columns) != 1:
            raise DeclarationError(f"{self.word} serves one column, {workload.describe()} has several")

    @property
    def n_noise(self) -> int:
        return self.workload.n_cells

    @abc.abstractmethod
    def to_cells_transposed(self, a: FloatArray) -> FloatArray:
        """Return (R⁺)ᵀ·a; shape (cells,) or (cells, m) to (n_noise,) or (n_noise, m)."""

    def noise_answers(self, z: FloatArray) -> FloatArray:
        return self.workload.apply(self.to_cells(z))

    def variance(self) -> FloatArray:
        return self._variance_of(self.workload)

    def _variance_of(self, workload: Workload) -> FloatArray:
        if isinstance(workload, Union):
            return np.concatenate([self._variance_of(part) for part in workload.parts])
        if isinstance(workload, RangeRows):
            return self.range_variances(*workload.bounds())
        queries, step = workload.n_queries, max(1, _NUMBERS_AT_ONCE // max(workload.shape))
        variances = np.empty(queries)
        for first in range(0, queries, step):
            chosen = np.eye(queries, min(step, queries - first), -first)
            rows = self.to_cells_transposed(workload.apply_transposed(chosen))
            variances[first : first + step] = np.sum(rows**2, axis=0)
        return variances

    def mean_variance(self) -> float:
        if not (isinstance(self.workload, Ranges) and not self.workload.explicit):
            return super().mean_variance()
        # Differences of n + 1 prefix sums P: ½ Σ_{a, b} Var(P_a − P_b) = (n + 1) Σ Var P_a − Var Σ P_a.
        n = self.workload.n
        ramp = self.to_cells_transposed(np.arange(n, 0.0, -1.0))
        return 2 * ((n + 1) * float(self.prefix_variances.sum()) - float(ramp @ ramp)) / (n * (n + 1))

    @cached_property
    def prefix_variances(self) -> FloatArray:
        """Return the variances of the sums of the first 1, 2, …, n cells; shape (cells,)."""
        n = self.workload.n_cells
        return self.range_variances(np.zeros(n, np.int64), np.arange(n))

    def range_variances(self, low: IntArray, high: IntArray) -> FloatArray:
        n = self.workload.n_cells
        if n <= LARGEST_LISTED and low.size >= n:  # from the covariance of all prefix sums
            sums = np.zeros((n + 1, self.n_noise))
            np.cumsum(self.to_cells(np.eye(self.n_noise)), axis=0, out=sums[1:])
            covariance = sums @ sums.T
            own = np.diag(covariance)
            return np.asarray(own[high + 1] + own[low] - 2 * covariance[high + 1, low])
        step = max(1, _NUMBERS_AT_ONCE // n)
        variances, cells = np.empty(low.size), np.arange(n)[:, np.newaxis]
        for first in range(0, low.size, step):
            part = slice(first, first + step)
            rows = ((low[part] <= cells) & (cells <= high[part])).astype(np.float64)
            variances[part] = np.sum(self.to_cells_transposed(rows) ** 2, axis=0)
        return variances


def along(factor: FloatArray, values: FloatArray) -> FloatArray:
    """Return one factor per row in a shape that multiplies values with or without columns."""
    return factor if values.ndim == 1 else factor[:, np.newaxis]
