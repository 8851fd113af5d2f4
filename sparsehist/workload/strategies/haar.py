"""The Haar wavelet on one column: the total, and at every node of a binary tree its left half minus its right half.

Rows are ±1, columns have norm √(1 + log₂ length). For a set S with c_v cells in the node v, the squares of all
differences and of the total add up to 2|S| + Σ c_v² over the nodes between root and leaves, since
(a − b)² = 2a² + 2b² − (a + b)²; the first |S| cells reach the greatest value on all levels at once, so the
sensitivity is exact.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from sparsehist.typing import ArrayLike, FloatArray, IntArray
from sparsehist.workload.queries.linear_queries import Workload
from sparsehist.workload.strategies.hierarchical import squares_in_runs
from sparsehist.workload.strategies.invertible import Invertible
from sparsehist.workload.strategies.strategy import Sensitivity, along


class Haar(Invertible):
    """The Haar wavelet, on the first n cells of a column of the next power of two.

    Source: Xiao, Wang and Gehrke 2010, without their weights.
    """

    word = "haar"
    one_column = True
    integral = True
    overlapping = True  # the node where two cells part takes 1 away, the total gives it back

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._depth = (workload.n_cells - 1).bit_length()

    @property
    def n_noise(self) -> int:
        return 1 << self._depth

    def sensitivity(self, max_keys: int) -> Sensitivity:
        """Exact, by squares of runs, for a full tree of cells."""
        keys = min(max_keys, self.workload.n_cells)
        inner = sum(squares_in_runs(keys, 2**level) for level in range(1, self._depth))
        square = inner + 2 * keys if self._depth else keys**2
        return Sensitivity(square**0.5, square**0.5)

    def l1_sensitivity(self, max_keys: int) -> float:
        """Exact for a full tree of cells."""
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

    def solve(self, z: FloatArray) -> FloatArray:
        sums = z[:1]
        for level in range(self._depth):
            differences = z[2**level : 2 ** (level + 1)]
            halves = np.empty((2 * len(sums), *z.shape[1:]))
            halves[::2], halves[1::2] = (sums + differences) / 2, (sums - differences) / 2
            sums = halves
        return sums[: self.workload.n_cells]

    def roundings(self) -> float:
        """One addition a level; halving is exact, and halves what came from above."""
        return 4.0

    def cell_variance(self) -> float:
        """At most this: that of sums is (v + 1)/4 below a node of v."""
        return 0.5 if self._depth else 1.0

    def solve_transposed(self, a: FloatArray) -> FloatArray:
        """The rows of R are orthogonal, so R⁻¹ is Rᵀ with columns divided by the sizes of the nodes."""
        sizes = np.concatenate([[1.0], *(np.full(2**level, 2.0**level) for level in range(self._depth))])
        image = self.apply(a)
        return image * along(sizes / self.n_noise, image)

    def prefix_variances(self) -> FloatArray:
        return self.range_variances(np.zeros(self.workload.n_cells, np.int64), np.arange(self.workload.n_cells))

    def range_variances(self, low: IntArray, high: IntArray) -> FloatArray:
        """On each level, only the nodes that hold an end of the range without being inside it contribute."""
        start, end = low, high + 1
        variances = ((end - start) / self.n_noise) ** 2
        for level in range(1, self._depth + 1):
            size = 2**level
            from_start, from_end = (np.minimum(at % size, size - at % size) / size for at in (start, end))
            same = start // size == end // size
            variances = variances + np.where(same, (from_end - from_start) ** 2, from_start**2 + from_end**2)
        return variances


@lru_cache(maxsize=64)
def _largest_differences(depth: int, keys: int) -> int:
    """The largest total and sum of |left - right| over all nodes of a full binary tree, over sets of cells.

    From the leaves up: the most that c cells below a node of height h can come to is the most, over all ways of
    sharing them between its halves, of what the halves come to plus their difference.
    """
    best, numbers = np.zeros(min(keys, 1) + 1, np.int64), np.arange(keys + 1)
    for height in range(1, depth + 1):
        most = min(keys, 2**height)
        following, less = np.full(most + 1, -1, np.int64), best - numbers[: best.size]
        for left in range(best.size):
            end = min(left, most - left, best.size - 1) + 1
            reached = following[left : left + end]
            np.maximum(reached, less[:end] + (best[left] + left), out=reached)
        best = following
    return int(np.max(best + np.arange(best.size)))
