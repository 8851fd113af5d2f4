"""Strategies that add independent noise to every query, or to every cell."""

from __future__ import annotations

import math

import numpy as np

from sparsehist.errors import DeclarationError
from sparsehist.typing import ArrayLike, FloatArray, IntArray, float_array
from sparsehist.workload.queries.marginals import Marginals
from sparsehist.workload.queries.matrix import Matrix
from sparsehist.workload.queries.products import Union
from sparsehist.workload.queries.ranges import RangeRows, Ranges, Total
from sparsehist.workload.queries.workload import Workload
from sparsehist.workload.sensitivity import LARGEST_GRAM, ROUND_UP, gram_of, largest, squared_l2_of_gram
from sparsehist.workload.strategies.strategy import Invertible, Strategy


class Direct(Strategy):
    """Independent noise on every answer (R = A), which is best for a few queries that overlap little."""

    word = "direct"

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        if not has_known_columns(workload):
            raise DeclarationError(f"use a different strategy: column norms are unknown for {workload.describe()}")
        self.integral = workload.integral

    @property
    def n_noise(self) -> int:
        return self.workload.n_queries

    def apply(self, x: ArrayLike) -> FloatArray:
        return self.workload.apply(x)

    def noise_answers(self, z: FloatArray) -> FloatArray:
        return z

    def l2(self, max_keys: int) -> float:
        workload, keys = self.workload, min(max_keys, self.workload.n_cells)
        if isinstance(workload, Total | Marginals) or workload.n_cells > LARGEST_GRAM:
            return _sum_of_largest(workload, 2, keys)
        return math.sqrt(squared_l2_of_gram(gram_of(workload), keys))

    def l1(self, max_keys: int) -> float:
        return _sum_of_largest(self.workload, 1, min(max_keys, self.workload.n_cells))

    def variance(self) -> FloatArray:
        return np.ones(self.workload.n_queries)


def has_known_columns(workload: Workload) -> bool:
    """Return whether the norms of the columns of A can be computed without building the whole matrix."""
    if isinstance(workload, Union):
        return all(map(has_known_columns, workload.parts))
    return workload.explicit and isinstance(workload, RangeRows | Matrix | Marginals)


def _sum_of_largest(workload: Workload, power: int, max_keys: int) -> float:
    """Return the sum of the `max_keys` largest column norms of A: L1 norms if `power` is 1, L2 norms if it is 2."""
    if isinstance(workload, Total | Marginals):
        rows = len(workload.marginals) if isinstance(workload, Marginals) else 1
        return float(max_keys * rows ** (1 / power))
    bound = float(largest(_column_sums(workload, power) ** (1 / power), max_keys).sum())
    return bound if workload.integral and power == 1 else bound * ROUND_UP


def _column_sums(workload: Workload, power: int) -> FloatArray:
    if isinstance(workload, Union):
        return np.asarray(sum(_column_sums(part, power) for part in workload.parts), np.float64)
    if isinstance(workload, Matrix):
        return np.asarray((abs(workload.matrix) ** power).sum(axis=0), np.float64).reshape(-1)
    return workload.apply_transposed(np.ones(workload.n_queries))


class IdentityStrategy(Invertible):
    """Independent noise on every cell (R = I). The L2 sensitivity is exactly √l for units with l cells."""

    word = "identity"
    integral = True

    def apply(self, x: ArrayLike) -> FloatArray:
        return float_array("the array", x).copy()

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
        return super(Invertible, self).mean_variance()

    def range_variances(self, low: IntArray, high: IntArray) -> FloatArray:
        return (high - low + 1).astype(np.float64)

    def gram_row(self, max_keys: int) -> FloatArray:  # noqa: ARG002
        return np.ones(1)

    def largest_eigenvalue(self) -> float:
        return 1.0
