"""The residual basis: the strategy with the smallest mean variance for marginals of any number of columns.

For a set C of columns, y_C is the marginal over C, and the residual P_C y_C is y_C with its mean subtracted along
each column. The strategy adds noise of standard deviation σ_C to P_C y_C, for every subset C of the columns of a
requested marginal. A marginal over B is the sum of the residuals of all subsets C of B, each divided evenly among the
values of the columns in B that are not in C. See docs/mathematics.md, "Workloads".

Source: Xiao, He, Zhang and Kifer 2023 (ResidualPlanner), with centred independent noise of the same distribution.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain, combinations

import numpy as np
from scipy import sparse

from sparsehist.errors import DeclarationError
from sparsehist.typing import ArrayLike, FloatArray
from sparsehist.workload.queries.marginals import Marginals, Subset
from sparsehist.workload.queries.workload import Workload
from sparsehist.workload.sensitivity import ROUND_UP, squared_l2_of_tables
from sparsehist.workload.strategies.strategy import Strategy


def variances_of(sizes: Sequence[int], marginals: Sequence[Subset]) -> tuple[list[Subset], sparse.csr_array]:
    """Return the residuals' column sets C, and the variance that each residual adds to each marginal if σ_C = 1."""
    inside = [list(_subsets_of(sizes, marginal)) for marginal in marginals]
    subsets = sorted({subset for listed in inside for subset in listed}, key=lambda subset: (len(subset), subset))
    place = {subset: at for at, subset in enumerate(subsets)}
    # The variance is a product with one factor for each column of the marginal. For a column of n values, the factor
    # is (n - 1)/n if the residual contains the column, and otherwise 1/n².
    spread = [math.prod(1.0 / sizes[column] ** 2 for column in marginal) for marginal in marginals]
    gain = {subset: float(math.prod(sizes[column] * (sizes[column] - 1) for column in subset)) for subset in subsets}
    rows = [row for row, listed in enumerate(inside) for _ in listed]
    found = [subset for listed in inside for subset in listed]
    values = [spread[row] * gain[subset] for row, subset in zip(rows, found, strict=True)]
    entries = (values, (rows, [place[subset] for subset in found]))
    return subsets, sparse.csr_array(entries, shape=(len(marginals), len(subsets)))


def _subsets_of(sizes: Sequence[int], marginal: Subset) -> Iterator[Subset]:
    """Yield the column sets of a marginal's residuals: all subsets of its columns with two or more values."""
    wide = [column for column in marginal if sizes[column] > 1]
    return chain.from_iterable(combinations(wide, length) for length in range(len(wide) + 1))


class ResidualBasis(Strategy):
    """Independent noise on the residuals of all marginals: the factorization with the smallest mean variance."""

    word = "residual"

    def __init__(self, workload: Workload) -> None:
        if not isinstance(workload, Marginals):
            raise DeclarationError(f"the strategy {self.word} measures marginals, not {workload.describe()}")
        super().__init__(workload)
        self._asked, self._sizes = workload, workload.columns
        self._subsets, self._variances = variances_of(self._sizes, workload.marginals)
        self._costs = np.array([math.prod(1.0 - 1.0 / self._sizes[i] for i in subset) for subset in self._subsets])
        gains = self._variances.T @ np.array(workload.sizes, np.float64)
        self._squares = np.sqrt(self._costs / gains) * np.sqrt(self._costs * gains).sum()
        self._scales = np.sqrt(self._squares)

    @property
    def n_noise(self) -> int:
        return sum(math.prod(self._sizes[column] for column in subset) for subset in self._subsets)

    def l2(self, max_keys: int) -> float:
        keys = min(max_keys, self.workload.n_cells)
        ratios = np.array([-1.0 / max(size - 1, 1) for size in self._sizes])
        bound = squared_l2_of_tables(self._sizes, self._subsets, self._costs / self._squares, ratios, keys)
        return math.sqrt(min(bound, keys * self.largest_eigenvalue()))

    def l1(self, max_keys: int) -> float:
        held = np.array([2.0 ** len(subset) for subset in self._subsets])
        return min(max_keys, self.workload.n_cells) * float((held * self._costs / self._scales).sum()) * ROUND_UP

    def largest_eigenvalue(self) -> float:
        logs = np.array([math.log(size) for size in self._sizes])
        inside = np.array([sum(logs[column] for column in subset) for subset in self._subsets])
        largest = float(np.max(logs.sum() - inside - np.log(self._squares)))
        return math.exp(largest) * ROUND_UP if largest < 700.0 else math.inf

    def apply(self, x: ArrayLike) -> FloatArray:
        return self._centred(self._everything.apply(x), 1.0 / self._scales)

    def variance(self) -> FloatArray:
        return np.repeat(self._variances @ self._squares, self._asked.sizes)

    def mean_variance(self) -> float:
        return float(np.average(self._variances @ self._squares, weights=self._asked.sizes))

    @cached_property
    def _everything(self) -> Marginals:
        """The marginals over the column sets of all residuals; residuals are computed from these marginals."""
        return Marginals(self._sizes, [list(subset) for subset in self._subsets])

    def _centred(self, rows: FloatArray, scales: FloatArray) -> FloatArray:
        centred = []
        for subset, table, scale in zip(self._subsets, self._everything.split(rows), scales, strict=True):
            for axis in range(len(subset)):
                table = table - table.mean(axis=axis, keepdims=True)  # noqa: PLW2901
            centred.append((scale * table).reshape(-1, *rows.shape[1:]))
        return np.concatenate(centred)

    def noise_answers(self, z: FloatArray) -> FloatArray:
        parts = dict(zip(self._subsets, self._everything.split(self._centred(z, self._scales)), strict=True))
        rebuilt = []
        for marginal, size in zip(self._asked.marginals, self._asked.sizes, strict=True):
            table = np.zeros((*(self._sizes[column] for column in marginal), *z.shape[1:]))
            for subset in _subsets_of(self._sizes, marginal):
                absent = tuple(axis for axis, column in enumerate(marginal) if column not in subset)
                spread = math.prod(self._sizes[marginal[axis]] for axis in absent)
                table += np.expand_dims(parts[subset], absent) / spread
            rebuilt.append(table.reshape(size, *z.shape[1:]))
        return np.concatenate(rebuilt)
