"""Strategies whose R has a left inverse: one number per cell is kept, and every query is a sum of those."""

from __future__ import annotations

import abc

import numpy as np

from sparsehist.errors import DeclarationError
from sparsehist.typing import ArrayLike, FloatArray, IntArray
from sparsehist.workload.gram.panels import on_panels
from sparsehist.workload.gram.profiles import Profile
from sparsehist.workload.queries.linear_queries import Workload
from sparsehist.workload.queries.rows_of_ranges import Prefix, Ranges
from sparsehist.workload.strategies.strategy import Kept, Sensitivity, Strategy

_NUMBERS_AT_ONCE = 2**22
# Below this size, variances are taken row by row.
_ROW_BY_ROW = 1024


class Invertible(Strategy):
    """A strategy R with a left inverse R⁺: L = A·R⁺ for every workload A on the same cells.

    A subclass gives R, R⁺ and its transpose on arrays of shape (cells,) or (cells, m); what is known in closed form
    about variances replaces the general way here, which is one transposed inverse a query.
    """

    keeps: Kept = "cells"

    one_column: bool = False
    """Whether it serves workloads on one column alone."""

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        if self.one_column and len(workload.columns) != 1:
            raise DeclarationError(f"{self.word} serves one column, {workload.describe()} has several")

    @abc.abstractmethod
    def apply(self, x: ArrayLike) -> FloatArray:
        """R·x."""

    @abc.abstractmethod
    def solve(self, z: FloatArray) -> FloatArray:
        """R⁺·z; shape (n_noise,) to (cells,), or with columns."""

    @abc.abstractmethod
    def solve_transposed(self, a: FloatArray) -> FloatArray:
        """The transpose of R⁺ on a; shape (cells,) to (n_noise,), or with columns."""

    def to_cells(self, z: FloatArray) -> FloatArray:
        return self.solve(z)

    def query_variance(self) -> FloatArray:
        if isinstance(self.workload, Prefix):
            return self.prefix_variances()
        described = self.workload.queries()
        if described is None:
            raise DeclarationError(f"{self.workload.describe()} lists no queries; ask for the variance of one")
        if set(described) != {"low", "high"}:
            return self._variances_of_rows()
        low, high = described["low"], described["high"]
        variances = np.empty(low.size)
        first, single = low == 0, (low == high) & (low > 0)
        if first.any():
            variances[first] = self.prefix_variances()[high[first]]
        if single.any():
            variances[single] = self.cell_variances()[low[single]]
        rest = ~(first | single)
        if rest.any():
            variances[rest] = self.range_variances(low[rest], high[rest])
        return variances

    def range_variance(self, low: int, high: int) -> float:
        cells = self.workload.n_cells
        if not 0 <= low <= high < cells:
            raise DeclarationError(f"({low}, {high}) is not a range: 0 <= low <= high < n, and n is {cells}")
        return float(self.range_variances(np.array([low]), np.array([high]))[0])

    def mean_variance(self) -> float:
        """Mean over all queries.

        Of all ranges, the differences of n + 1 prefix sums P: ½Σ_{a, b} Var(P_a − P_b) = (n + 1)ΣVar P_a − Var ΣP_a.
        """
        if not (isinstance(self.workload, Ranges) and not self.workload.explicit):
            return super().mean_variance()
        n = self.workload.n
        ramp = self.solve_transposed(np.arange(n, 0.0, -1.0))
        return 2 * ((n + 1) * float(self.prefix_variances().sum()) - float(ramp @ ramp)) / (n * (n + 1))

    def prefix_variances(self) -> FloatArray:
        """Variance of the sums of the first 1, 2, …, n cells; shape (cells,)."""
        n = self.workload.n_cells
        if n <= _ROW_BY_ROW:
            return self.range_variances(np.zeros(n, np.int64), np.arange(n))
        return on_panels(n, lambda high: self.range_variances(np.zeros_like(high), high))

    def cell_variances(self) -> FloatArray:
        """Variance of every cell by itself; shape (cells,)."""
        cells = np.arange(self.workload.n_cells)
        return self.range_variances(cells, cells)

    def cell_variance(self) -> float:
        return float(self.cell_variances().mean())

    def range_variances(self, low: IntArray, high: IntArray) -> FloatArray:
        """Variance of the sums of cells low, …, high; shape (queries,)."""
        n = self.workload.n_cells
        step = max(1, _NUMBERS_AT_ONCE // n)
        variances = np.empty(low.size)
        for first in range(0, low.size, step):
            part = slice(first, first + step)
            cells = np.arange(n)[:, np.newaxis]
            rows = ((low[part] <= cells) & (cells <= high[part])).astype(np.float64)
            variances[part] = np.sum(self.solve_transposed(rows) ** 2, axis=0)
        return variances

    def _variances_of_rows(self) -> FloatArray:
        squares = [np.sum(self.solve_transposed(rows) ** 2, axis=0) for rows in self.workload.row_blocks()]
        return np.concatenate(squares)


class IdentityStrategy(Invertible):
    """Noise on every cell by itself; its columns are orthogonal, so the sensitivity is √l exactly."""

    word = "identity"
    integral = True
    alone = True
    overlapping = True

    @property
    def n_noise(self) -> int:
        return self.workload.n_cells

    def sensitivity(self, max_keys: int) -> Sensitivity:
        keys = min(max_keys, self.workload.n_cells)
        return Sensitivity(keys**0.5, keys**0.5)

    def l1_sensitivity(self, max_keys: int) -> float:
        return float(min(max_keys, self.workload.n_cells))

    def profile(self, max_keys: int) -> Profile:
        norms = np.sqrt(np.arange(1.0, min(max_keys, self.workload.n_cells) + 1))
        return Profile(norms, norms, norms, 1.0)

    def apply(self, x: ArrayLike) -> FloatArray:
        return np.array(x, np.float64)

    def solve(self, z: FloatArray) -> FloatArray:
        return z

    def roundings(self) -> float:
        return 0.0

    def cell_variance(self) -> float:
        return 1.0

    def solve_transposed(self, a: FloatArray) -> FloatArray:
        return a

    def query_variance(self) -> FloatArray:
        return self.workload.row_squares()

    def mean_variance(self) -> float:
        if isinstance(self.workload, Ranges) and not self.workload.explicit:
            return (self.workload.n + 2) / 3
        return float(self.workload.row_squares().mean())

    def range_variances(self, low: IntArray, high: IntArray) -> FloatArray:
        return (high - low + 1).astype(np.float64)

    def prefix_variances(self) -> FloatArray:
        return np.arange(1.0, self.workload.n_cells + 1)
