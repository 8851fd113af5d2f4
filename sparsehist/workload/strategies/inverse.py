"""Strategies whose R has a left inverse: one number per cell is kept, and every query is a sum of those."""

from __future__ import annotations

import abc

import numpy as np

from sparsehist.errors import DeclarationError
from sparsehist.typing import ArrayLike, FloatArray, IntArray
from sparsehist.workload.queries.ranges import LARGEST_LISTED, Prefix, Ranges
from sparsehist.workload.queries.workload import Workload
from sparsehist.workload.strategies.strategy import Strategy

_NUMBERS_AT_ONCE = 2**22


class Invertible(Strategy):
    """A strategy R with a left inverse R⁺: L = A·R⁺ for every workload A on the same cells.

    A subclass gives R, R⁺ and its transpose; variances that have a quicker form replace those here, which take one
    transposed inverse per query.
    """

    invertible = True

    one_column: bool = False
    """Whether it serves only workloads on one column."""

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        if self.one_column and len(workload.columns) != 1:
            raise DeclarationError(f"{self.word} serves one column, {workload.describe()} has several")

    @property
    def n_noise(self) -> int:
        return self.workload.n_cells

    @abc.abstractmethod
    def to_cells(self, z: FloatArray) -> FloatArray:
        """R⁺·z."""

    @abc.abstractmethod
    def to_cells_transposed(self, a: FloatArray) -> FloatArray:
        """The transpose of R⁺ on a; shape (cells,) or (cells, m) to (n_noise,) or (n_noise, m)."""

    def variance(self) -> FloatArray:
        if isinstance(self.workload, Prefix):
            return self.prefix_variances()
        described = self.workload.queries()
        if described is None:
            raise DeclarationError(f"{self.workload.describe()} lists no queries; ask for the variance of one")
        if set(described) == {"low", "high"}:
            return self.range_variances(described["low"], described["high"])
        squares = [np.sum(self.to_cells_transposed(rows) ** 2, axis=0) for rows in self.workload.row_blocks()]
        return np.concatenate(squares)

    def mean_variance(self) -> float:
        """Mean over all queries.

        All ranges are the differences of n + 1 prefix sums P, and ½ Σ_{a, b} Var(P_a − P_b) = (n + 1) Σ Var P_a −
        Var Σ P_a.
        """
        if not (isinstance(self.workload, Ranges) and not self.workload.explicit):
            return super().mean_variance()
        n = self.workload.n
        ramp = self.to_cells_transposed(np.arange(n, 0.0, -1.0))
        return 2 * ((n + 1) * float(self.prefix_variances().sum()) - float(ramp @ ramp)) / (n * (n + 1))

    def prefix_variances(self) -> FloatArray:
        """Variance of the sums of the first 1, 2, …, n cells; shape (cells,)."""
        n = self.workload.n_cells
        return self.range_variances(np.zeros(n, np.int64), np.arange(n))

    def range_variances(self, low: IntArray, high: IntArray) -> FloatArray:
        """Variance of the sums of cells low, …, high; shape (queries,).

        Of many ranges of few cells, from the covariance of all prefix sums.
        """
        n = self.workload.n_cells
        if n <= LARGEST_LISTED and low.size > n:
            sums = np.zeros((n + 1, self.n_noise))
            np.cumsum(self.to_cells(np.eye(self.n_noise)), axis=0, out=sums[1:])
            covariance = sums @ sums.T
            own = np.diag(covariance)
            return np.asarray(own[high + 1] + own[low] - 2 * covariance[high + 1, low])
        step = max(1, _NUMBERS_AT_ONCE // n)
        variances = np.empty(low.size)
        for first in range(0, low.size, step):
            part = slice(first, first + step)
            cells = np.arange(n)[:, np.newaxis]
            rows = ((low[part] <= cells) & (cells <= high[part])).astype(np.float64)
            variances[part] = np.sum(self.to_cells_transposed(rows) ** 2, axis=0)
        return variances


class IdentityStrategy(Invertible):
    """Noise on every cell by itself; its columns are orthogonal, so the sensitivity is √l exactly."""

    word = "identity"
    integral = True
    terms = 1

    def apply(self, x: ArrayLike) -> FloatArray:
        return np.array(x, np.float64)

    def to_cells(self, z: FloatArray) -> FloatArray:
        return z

    def to_cells_transposed(self, a: FloatArray) -> FloatArray:
        return a

    def l2(self, max_keys: int) -> float:
        return float(min(max_keys, self.workload.n_cells) ** 0.5)

    def l1(self, max_keys: int) -> float:
        return float(min(max_keys, self.workload.n_cells))

    def variance(self) -> FloatArray:
        return self.workload.row_squares()

    def mean_variance(self) -> float:
        if isinstance(self.workload, Ranges) and not self.workload.explicit:
            return (self.workload.n + 2) / 3
        return float(self.workload.row_squares().mean())

    def range_variances(self, low: IntArray, high: IntArray) -> FloatArray:
        return (high - low + 1).astype(np.float64)

    def gram_row(self, max_keys: int) -> FloatArray:  # noqa: ARG002
        return np.ones(1)

    def largest_eigenvalue(self) -> float:
        return 1.0
