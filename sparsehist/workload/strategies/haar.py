"""The Haar wavelet: the total and, for each node of a tree over the cells, left child's sum minus right child's sum.

If the number of cells is a power of two, the bound on the sensitivity is exact; see docs/mathematics.md, "Workloads".
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from sparsehist.typing import ArrayLike, FloatArray, IntArray
from sparsehist.workload.queries.workload import Workload
from sparsehist.workload.strategies.strategy import Invertible, along


class Haar(Invertible):
    """The Haar wavelet on a column, which is padded with empty cells to a power of two.

    Source: Xiao, Wang and Gehrke 2010, but without weights, so that all rows of R get equal noise.
    """

    word = "haar"
    one_column = True
    integral = True

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._depth = (workload.n_cells - 1).bit_length()

    @property
    def n_noise(self) -> int:
        return 1 << self._depth

    def l2(self, max_keys: int) -> float:
        keys = min(max_keys, self.workload.n_cells)
        if not self._depth:
            return float(keys)
        runs = [divmod(keys, 2**level) for level in range(1, self._depth)]
        shared = sum(full * 4**level + rest**2 for level, (full, rest) in enumerate(runs, start=1))
        return float((shared + 2 * keys) ** 0.5)

    def l1(self, max_keys: int) -> float:
        return float(_largest_differences(self._depth, min(max_keys, self.workload.n_cells)))

    def apply(self, x: ArrayLike) -> FloatArray:
        values = np.asarray(x, np.float64)
        sums = np.zeros((self.n_noise, *values.shape[1:]))
        sums[: len(values)] = values
        parts = []
        for _ in range(self._depth):
            parts.append(sums[::2] - sums[1::2])
            sums = sums[::2] + sums[1::2]
        return np.concatenate([sums, *parts[::-1]])

    def to_cells(self, z: FloatArray) -> FloatArray:
        sums = z[:1]
        for level in range(self._depth):
            differences = z[2**level : 2 ** (level + 1)]
            halves = np.empty((2 * len(sums), *z.shape[1:]))
            halves[::2], halves[1::2] = (sums + differences) / 2, (sums - differences) / 2
            sums = halves
        return sums[: self.workload.n_cells]

    def to_cells_transposed(self, a: FloatArray) -> FloatArray:
        """Return (R⁻¹)ᵀ·a. The rows of R are orthogonal, so this is R·a divided by the squared norms of the rows."""
        sizes = np.concatenate([np.ones(1), np.repeat(2.0 ** np.arange(self._depth), 2 ** np.arange(self._depth))])
        image = self.apply(a)
        return image * along(sizes / self.n_noise, image)

    def largest_eigenvalue(self) -> float:
        return float(self.n_noise)

    def range_variances(self, low: IntArray, high: IntArray) -> FloatArray:
        start, end = low, high + 1
        variances = ((end - start) / self.n_noise) ** 2
        for level in range(1, self._depth + 1):
            size = 2**level
            from_start, from_end = (np.minimum(at % size, size - at % size) / size for at in (start, end))
            same = start // size == end // size
            variances = variances + np.where(same, (from_end - from_start) ** 2, from_start**2 + from_end**2)
        return variances


@lru_cache(maxsize=64)
def _largest_differences(depth: int, max_keys: int) -> int:
    """Return the L1 sensitivity: the largest L1 norm of R·x if x is 1 in up to `max_keys` cells and 0 elsewhere."""
    best, numbers = np.zeros(min(max_keys, 1) + 1, np.int64), np.arange(max_keys + 1)
    # best[c] is the largest L1 norm of the differences of all nodes of a subtree in which the unit has c cells.
    for height in range(1, depth + 1):
        most = min(max_keys, 2**height)
        following, less = np.full(most + 1, -1, np.int64), best - numbers[: best.size]
        for left in range(best.size):
            end = min(left, most - left, best.size - 1) + 1
            reached = following[left : left + end]
            np.maximum(reached, less[:end] + (best[left] + left), out=reached)
        best = following
    return int(np.max(best + np.arange(best.size)))
