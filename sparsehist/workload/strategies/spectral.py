"""The spectral strategy for prefix sums or ranges of one column; R and R⁻¹ are applied in time O(n log n).

R is K^½ with scaled columns, for K = W^½ + c·I with a number c >= 0. W is AᵀA for all prefix sums or all ranges.
Multiplying R by an orthogonal matrix does not change the distribution of releases, so we may choose
R·x = κ^½ ∘ S(x/d) and R⁻¹·z = d ∘ Sᵀ(z/κ^½). Here S is a fast orthogonal transform, κ contains the eigenvalues of K,
d is the column scaling, and ∘ multiplies vectors entry by entry. Bounds: docs/mathematics.md, "Workloads".
"""

from __future__ import annotations

import math
from functools import cached_property
from itertools import pairwise

import numpy as np

from sparsehist.errors import DeclarationError, shown
from sparsehist.typing import ArrayLike, FloatArray, IntArray
from sparsehist.workload.queries.ranges import Prefix
from sparsehist.workload.queries.workload import Workload
from sparsehist.workload.sensitivity import LARGEST_GRAM, ROUND_UP, l1_of_columns, squared_l2_of_gram
from sparsehist.workload.strategies.spectral_kernels import PrefixKernel, RangesKernel
from sparsehist.workload.strategies.strategy import Invertible, along

_WRITTEN_OUT = 256  # largest number of cells for which RᵀR is computed to make the sensitivity bound 1 % tighter
_RANK_GROUPS = 256


class Spectral(Invertible):
    """A strategy for prefix sums and ranges whose error is within a few per cent of the smallest possible error.

    The module docstring defines K = W^½ + c·I, the column scaling d, and W = AᵀA. If the workload is `Prefix`, A is
    all prefix sums, and otherwise all ranges. `blend` is c, divided by a lower bound on the singular values of A.
    `window` is the number of entries of K on each side of the diagonal that are summed to get d². If units have
    several cells, both parameters can reduce the error.
    """

    word = "spectral"
    one_column = True

    def __init__(self, workload: Workload, *, blend: float = 0, window: int = 0) -> None:
        super().__init__(workload)
        if not (math.isfinite(blend) and 0 <= blend <= 2**31):
            raise DeclarationError(f"blend must be a number from 0 to 2**31, got {shown(blend)}")
        if isinstance(window, bool) or not isinstance(window, int) or not 0 <= window < workload.n_cells:
            raise DeclarationError(f"window must be a whole number below the number of cells, got {shown(window)}")
        self.blend, self.window = blend, window
        self.kernel = (PrefixKernel if isinstance(workload, Prefix) else RangesKernel)(workload.n_cells)
        self._added = blend * self.kernel.unit

    @property
    def name(self) -> str:
        blend = int(self.blend) if self.blend == int(self.blend) else self.blend
        given = [f"blend={blend!r}"] if self.blend else []
        given += [f"window={self.window}"] if self.window else []
        return f"{self.word}({', '.join(given)})" if given else self.word

    @cached_property
    def _spectrum(self) -> FloatArray:
        """The eigenvalues κ of K = W^½ + c·I; shape (cells,)."""
        return self.kernel.singular_values + self._added

    @cached_property
    def _table(self) -> FloatArray:
        """The table that defines W^½ (see `spectral_kernels`). With c added at index 0, it defines K = W^½ + c·I."""
        return self.kernel.table(self.kernel.singular_values)

    @cached_property
    def _inverse_table(self) -> FloatArray:
        return self.kernel.table(1 / self._spectrum)

    @cached_property
    def _scales(self) -> FloatArray:
        """The numbers d by which columns of R are divided, so that the largest column norm is 1; shape (cells,)."""
        kernel, reach, table = self.kernel, self.window, self._table
        # d² is a sum of entries of K near the diagonal. Outside its borders, W^½ is reflected to keep d² smooth.
        around = np.concatenate([table[1 : reach + 1][::-1], table, -kernel.sign * table[1 : reach + 1]])
        sums = np.concatenate([np.zeros(1), np.cumsum(around)])
        windows = sums[2 * reach + 1 :] - sums[: sums.size - 2 * reach - 1]
        squares = kernel.diagonal(windows) + self._added
        return np.asarray(np.sqrt(squares * np.max((kernel.diagonal(table) + self._added) / squares)))

    def apply(self, x: ArrayLike) -> FloatArray:
        values = np.asarray(x, np.float64)
        scaled = values / along(self._scales, values)
        return along(np.sqrt(self._spectrum), values) * self.kernel.transform(scaled)

    def to_cells(self, z: FloatArray) -> FloatArray:
        return self.kernel.transform_back(z / along(np.sqrt(self._spectrum), z)) * along(self._scales, z)

    def to_cells_transposed(self, a: FloatArray) -> FloatArray:
        return self.kernel.transform(a * along(self._scales, a)) / along(np.sqrt(self._spectrum), a)

    def l2(self, max_keys: int) -> float:
        n, keys = self.kernel.n, min(max_keys, self.kernel.n)
        if keys == 1:
            return ROUND_UP
        i, shift, squares = np.arange(n), self.kernel.shift, self._scales**2
        sums = np.concatenate([np.zeros(1), np.cumsum(self._table)])
        bound = 0.0
        for first, end in pairwise(np.unique(np.linspace(0, keys, _RANK_GROUPS + 1).astype(np.int64)).tolist()):
            # If a unit has cell i and at least `first` cells before i, it has at most keys - 1 - first cells after i.
            before, behind = np.minimum(end - 1, i), np.minimum(keys - 1 - first, n - 1 - i)
            toeplitz = sums[before + 1] + sums[behind + 1] - sums[1] + self._added
            hankel = sums[2 * i + behind + shift + 1] - sums[2 * i - before + shift]
            windows = (toeplitz + self.kernel.sign * hankel) / squares
            bound += (end - first) * float(windows[first : n - keys + end].max())
        bound = min(bound, keys**2) * ROUND_UP
        if n <= _WRITTEN_OUT:
            rows = self.apply(np.eye(n))
            bound = min(bound, squared_l2_of_gram(rows.T @ rows, keys))
        return math.sqrt(bound)

    def l1(self, max_keys: int) -> float:
        n, keys = self.kernel.n, min(max_keys, self.kernel.n)
        if n <= LARGEST_GRAM:
            return l1_of_columns(self.apply(np.eye(n)), keys)
        return keys * float(np.sqrt(2 * self._spectrum / n).sum() / self._scales.min()) * ROUND_UP

    def gram_row(self, max_keys: int) -> FloatArray:
        """Return bounds as `Strategy.gram_row` does. For many cells, use the maximum of each diagonal of RᵀR."""
        n, keys, d = self.kernel.n, min(max_keys, self.kernel.n), self._scales
        if n <= LARGEST_GRAM:
            return super().gram_row(keys)
        falls = [np.max(self.kernel.diagonal(self._table, k) / (d[: n - k] * d[k:])) for k in range(1, keys)]
        own = np.max((self.kernel.diagonal(self._table) + self._added) / d**2)
        return np.concatenate([[own], np.repeat(falls, 2)])[:keys] * ROUND_UP

    def largest_eigenvalue(self) -> float:
        return float(self._spectrum.max() / self._scales.min() ** 2) * ROUND_UP

    @cached_property
    def prefix_variances(self) -> FloatArray:
        """The variances of prefix sums: cumulative sums of d_i² K⁻¹[i, i] + 2 Σ_{j < i} d_i d_j K⁻¹[i, j] over i."""
        d, table = self._scales, self._inverse_table
        return np.asarray(np.cumsum(d * (2 * self.kernel.sums_before(table, d) + d * self.kernel.diagonal(table))))

    def range_variances(self, low: IntArray, high: IntArray) -> FloatArray:
        variances, first = np.empty(low.size), low == 0
        single = (low == high) & ~first
        rest = ~(first | single)
        if first.any():
            variances[first] = self.prefix_variances[high[first]]
        if single.any():
            variances[single] = (self._scales**2 * self.kernel.diagonal(self._inverse_table))[low[single]]
        variances[rest] = super().range_variances(low[rest], high[rest])
        return variances
