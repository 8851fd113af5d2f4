"""The queries of a workload measured as they are: R = A."""

from __future__ import annotations

import math

import numpy as np

from sparsehist.errors import DeclarationError
from sparsehist.typing import ArrayLike, FloatArray
from sparsehist.workload.queries.marginals import Marginals
from sparsehist.workload.queries.matrix import Matrix
from sparsehist.workload.queries.products import Union
from sparsehist.workload.queries.ranges import RangeRows, Total
from sparsehist.workload.queries.workload import Workload
from sparsehist.workload.sensitivity import LARGEST_GRAM, ROUND_UP, TableGram, gram_of, largest, squared_l2_of_gram
from sparsehist.workload.strategies.strategy import Strategy


class Direct(Strategy):
    """Noise on every answer by itself: best for few queries that overlap little, such as the total."""

    word = "direct"
    terms = 1

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        if not has_known_columns(workload):
            raise DeclarationError(f"the columns of {workload.describe()} are not known: name another strategy")
        self.integral = workload.integral

    @property
    def n_noise(self) -> int:
        return self.workload.n_queries

    def apply(self, x: ArrayLike) -> FloatArray:
        return self.workload.apply(x)

    def noise_answers(self, z: FloatArray) -> FloatArray:
        return z

    def l2(self, max_keys: int) -> float:
        """From AᵀA where there are few cells, otherwise the sum of the largest column norms."""
        keys = min(max_keys, self.workload.n_cells)
        if isinstance(self.workload, Marginals):
            return math.sqrt(_table_gram(self.workload).squared_l2(keys))
        if not isinstance(self.workload, Total) and self.workload.n_cells <= LARGEST_GRAM:
            return math.sqrt(squared_l2_of_gram(gram_of(self.workload), keys))
        return _sum_of_largest(self.workload, 2, keys)

    def l1(self, max_keys: int) -> float:
        """The sum of the largest column norms; exact where no entry is negative."""
        return _sum_of_largest(self.workload, 1, min(max_keys, self.workload.n_cells))

    def variance(self) -> FloatArray:
        return np.ones(self.workload.n_queries)

    def mean_variance(self) -> float:
        return 1.0

    def gram_row(self, max_keys: int) -> FloatArray:
        if isinstance(self.workload, Total):
            return np.ones(max_keys)
        if isinstance(self.workload, Marginals):
            return _table_gram(self.workload).row(max_keys)
        return super().gram_row(max_keys)


def has_known_columns(workload: Workload) -> bool:
    """Whether the norms of the columns of A are known without writing A out."""
    if isinstance(workload, Union):
        return all(map(has_known_columns, workload.parts))
    return workload.explicit and isinstance(workload, RangeRows | Matrix | Marginals)


def _sum_of_largest(workload: Workload, power: int, keys: int) -> float:
    """Sum of the largest column norms: roots of the sums of |A_ij|^power over the rows."""
    if isinstance(workload, Total | Marginals):
        rows = len(workload.marginals) if isinstance(workload, Marginals) else 1
        return float(keys * rows ** (1 / power))
    bound = float(largest(_column_sums(workload, power) ** (1 / power), keys).sum())
    return bound if workload.integral and power == 1 else bound * ROUND_UP


def _column_sums(workload: Workload, power: int) -> FloatArray:
    if isinstance(workload, Union):
        return np.asarray(sum(_column_sums(part, power) for part in workload.parts), np.float64)
    if isinstance(workload, Matrix):
        return np.asarray((abs(workload.matrix) ** power).sum(axis=0), np.float64).reshape(-1)
    return workload.apply_transposed(np.ones(workload.n_queries))


def _table_gram(workload: Marginals) -> TableGram:
    return TableGram(
        workload.columns, workload.marginals, np.ones(len(workload.marginals)), np.zeros(len(workload.columns))
    )
