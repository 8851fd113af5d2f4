"""The spectral strategy for one column: R = (W^½ + c·I)^½ with columns scaled, in O(n log n).

W = AᵀA for prefix sums or for all ranges. Any orthogonal matrix on the left of R gives the same law, so R is taken as
K^½ in the coordinates of the transform: R·x = κ^½ ∘ S(x/d) with κ the spectrum of K = W^½ + c·I and d the scaling,
and R⁻¹·z = d ∘ Sᵀ(z/κ^½): one transform for the noise of all queries.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from sparsehist.errors import DeclarationError, shown
from sparsehist.typing import ArrayLike, FloatArray, IntArray
from sparsehist.workload.queries.ranges import Prefix
from sparsehist.workload.queries.workload import Workload
from sparsehist.workload.sensitivity import (
    LARGEST_GRAM,
    ROUND_UP,
    l1_of_columns,
    squared_l2_by_rank,
    squared_l2_of_gram,
)
from sparsehist.workload.strategies.inverse import Invertible
from sparsehist.workload.strategies.spectral_kernels import PrefixKernel, RangesKernel, sums_before
from sparsehist.workload.strategies.strategy import along

# Up to so many cells the Gram matrix is written out, as its own bounds are a per cent closer.
_WRITTEN_OUT = 256


class Spectral(Invertible):
    """The strategy that is within a few per cent of the best there is for prefix sums and ranges.

    Mean squared error at one cell per unit, over the singular-value bound, which no factorization beats: all ranges
    1.018 at n = 256 and 1.013 at 1024; prefix sums 1.047 and 1.035; closer to 1 for greater n. With blend 0 and d²
    the diagonal of K it is made for one cell per unit. Units of many cells add up where K is smooth; then some
    identity in K costs less than it gains, and d² is the sum of K over a window about the diagonal.

    Args:
        workload: On one column. Prefix sums are served by their own spectrum, everything else by that of all ranges.
        blend: c in units of the least singular value; not negative.
        window: Cells on either side of the diagonal over which d² is summed; about half of the cells of a unit.

    Source: docs/mathematics.md, "Workloads".
    """

    word = "spectral"
    one_column = True

    def __init__(self, workload: Workload, *, blend: float = 0, window: int = 0) -> None:
        super().__init__(workload)
        if not (math.isfinite(blend) and 0 <= blend <= 2**31):
            raise DeclarationError(f"blend is a number from 0 to 2**31, got {shown(blend)}")
        if isinstance(window, bool) or not isinstance(window, int) or not 0 <= window < workload.n_cells:
            raise DeclarationError(f"window is a number of cells from 0 to n − 1, got {shown(window)}")
        self.blend, self.window = blend, window
        self.kernel = (PrefixKernel if isinstance(workload, Prefix) else RangesKernel)(workload.n_cells)

    @property
    def name(self) -> str:
        blend = int(self.blend) if self.blend == int(self.blend) else self.blend
        given = [f"blend={blend!r}"] if self.blend else []
        given += [f"window={self.window}"] if self.window else []
        return f"{self.word}({', '.join(given)})" if given else self.word

    @cached_property
    def _spectrum(self) -> FloatArray:
        """Of K; shape (cells,)."""
        return self.kernel.singular_values + self.blend * self.kernel.unit

    @cached_property
    def _table(self) -> FloatArray:
        """τ of K."""
        table = self.kernel.table(self.kernel.singular_values, 0.0)
        table[0] += self.blend * self.kernel.unit
        return table

    @cached_property
    def _inverse_table(self) -> FloatArray:
        """τ of K⁻¹."""
        return self.kernel.table(1 / self._spectrum, 1 / (self.kernel.unit * (1 + self.blend)))

    def _diagonal(self, table: FloatArray, apart: int = 0) -> FloatArray:
        """K[i, i + apart]; shape (cells - apart,)."""
        return np.asarray(
            table[apart] + self.kernel.sign * table[apart + self.kernel.shift :: 2][: self.n_noise - apart]
        )

    @cached_property
    def _scales(self) -> FloatArray:
        """d, so that the largest column norm is 1; shape (cells,).

        Beyond the ends W^½ continues as its own reflection, so that d² is as smooth as K.
        """
        kernel, reach, added = self.kernel, self.window, self.blend * self.kernel.unit
        plain = self._table.copy()
        plain[0] -= added
        around = np.concatenate([plain[1 : reach + 1][::-1], plain, -kernel.sign * plain[1 : reach + 1]])
        sums = np.concatenate([np.zeros(1), np.cumsum(around)])
        windows = sums[2 * reach + 1 :] - sums[: sums.size - 2 * reach - 1]
        squares = windows[0] + added + kernel.sign * windows[kernel.shift :: 2][: kernel.n]
        return np.asarray(np.sqrt(squares * np.max(self._diagonal(self._table) / squares)))

    def apply(self, x: ArrayLike) -> FloatArray:
        values = np.asarray(x, np.float64)
        scaled = values / along(self._scales, values)
        return along(np.sqrt(self._spectrum), values) * self.kernel.transform(scaled)

    def to_cells(self, z: FloatArray) -> FloatArray:
        return self.kernel.transform_back(z / along(np.sqrt(self._spectrum), z)) * along(self._scales, z)

    def to_cells_transposed(self, a: FloatArray) -> FloatArray:
        return self.kernel.transform(a * along(self._scales, a)) / along(np.sqrt(self._spectrum), a)

    def l2(self, max_keys: int) -> float:
        """By windows of the table, as K's rows fall away from the diagonal; of few cells also from RᵀR.

        1ᵀ_S RᵀR 1_S is the sum of K[i, j]/(d_i d_j), at most that of K[i, j]/d_i².
        """
        n, keys = self.kernel.n, min(max_keys, self.kernel.n)
        if keys == 1:
            return ROUND_UP
        i, shift, squares = np.arange(n), self.kernel.shift, self._scales**2
        sums = np.concatenate([np.zeros(1), np.cumsum(self._table)])

        def rows(left: int, right: int) -> FloatArray:
            before, behind = np.minimum(left, i), np.minimum(right, n - 1 - i)
            toeplitz = sums[before + 1] + sums[behind + 1] - sums[1]
            hankel = sums[2 * i + behind + shift + 1] - sums[2 * i - before + shift]
            return np.asarray((toeplitz + self.kernel.sign * hankel) / squares)

        bound = min(squared_l2_by_rank(rows, n, keys), keys**2 * ROUND_UP)
        if n <= _WRITTEN_OUT:
            written_out = self.apply(np.eye(n))
            bound = min(bound, squared_l2_of_gram(written_out.T @ written_out, keys))
        return math.sqrt(bound)

    def l1(self, max_keys: int) -> float:
        """By the norms of columns; of many cells by a bound of theirs, as entries of the transform are <= √(2/n)."""
        n, keys = self.kernel.n, min(max_keys, self.kernel.n)
        if n <= LARGEST_GRAM:
            return l1_of_columns(self.apply(np.eye(n)), keys)
        return keys * float(np.sqrt(2 * self._spectrum / n).sum() / self._scales.min()) * ROUND_UP

    def gram_row(self, max_keys: int) -> FloatArray:
        """For many cells by distance: entries of RᵀR at most so many cells apart, which fall."""
        n, keys = self.kernel.n, min(max_keys, self.kernel.n)
        if n <= LARGEST_GRAM:
            return super().gram_row(keys)
        d = self._scales
        falls = [np.max(self._diagonal(self._table, k) / (d[: n - k] * d[k:])) for k in range(keys)]
        return np.repeat(falls, 2)[1:][:keys] * ROUND_UP

    def largest_eigenvalue(self) -> float:
        """K is at most its largest eigenvalue, and RᵀR at most that over the least d²."""
        return float(self._spectrum.max() / self._scales.min() ** 2) * ROUND_UP

    @cached_property
    def _prefix_variances(self) -> FloatArray:
        """Running sums of 2 d_i Σ_{j < i} K⁻¹[i, j]·d_j + d_i² K⁻¹[i, i]."""
        d, table = self._scales, self._inverse_table
        return np.asarray(np.cumsum(d * (2 * sums_before(self.kernel, table, d) + d * self._diagonal(table))))

    def prefix_variances(self) -> FloatArray:
        return self._prefix_variances

    def range_variances(self, low: IntArray, high: IntArray) -> FloatArray:
        """Prefix sums and single cells from the table; a transform for each other range."""
        variances, first = np.empty(low.size), low == 0
        single = (low == high) & ~first
        rest = ~(first | single)
        if first.any():
            variances[first] = self.prefix_variances()[high[first]]
        if single.any():
            variances[single] = (self._scales**2 * self._diagonal(self._inverse_table))[low[single]]
        variances[rest] = super().range_variances(low[rest], high[rest])
        return variances
