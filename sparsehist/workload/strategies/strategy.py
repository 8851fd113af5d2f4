"""The base classes of strategies: factorizations A = L·R of a workload, released as A·x + L·Z.

Z is noise with one entry per row of R, scaled to the sensitivity of R·x. Together, releases of R·x + Z at several
levels cost only as much as the finest one. Answers are computed from such releases, so they cost no more, whatever L
is: see docs/mathematics.md, "Workloads".

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
    """A factorization A = L·R of a workload A, to release A·x as L·(R·x + Z) with noise Z.

    Strategies are immutable, and all parameters are public.
    """

    word: ClassVar[str]
    """Name of the class in the textual form."""

    invertible: bool = False
    """Whether R has a left inverse. Then the noise R⁻¹·Z of the cells determines that of all queries, A·(R⁻¹·Z)."""

    integral: bool = False
    """Whether every entry of R is an integer, which integer noise needs."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload

    @property
    def name(self) -> str:
        """The name of the strategy with its parameters, such as ``spectral(blend=4)``."""
        return self.word

    @property
    @abc.abstractmethod
    def n_noise(self) -> int:
        """Number of rows of R, which is also the number of entries of Z."""

    @abc.abstractmethod
    def apply(self, x: ArrayLike) -> FloatArray:
        """Return R·x. Shape (cells,) or (cells, m) becomes (n_noise,) or (n_noise, m)."""

    def to_cells(self, z: FloatArray) -> FloatArray:  # noqa: ARG002  for invertible strategies
        """Return R⁻¹·z if R has a left inverse. Shape (n_noise,) or (n_noise, m) becomes (cells,) or (cells, m)."""
        raise DeclarationError(f"this strategy answers only the queries of its workload: {self.name}")

    @abc.abstractmethod
    def noise_answers(self, z: FloatArray) -> FloatArray:
        """Return L·z, the noise of answers. Shape (n_noise,) or (n_noise, m) becomes (queries,) or (queries, m)."""

    @abc.abstractmethod
    def l2(self, max_keys: int) -> float:
        """Return an upper bound on the L2 sensitivity of R·x for units with at most `max_keys` cells."""

    @abc.abstractmethod
    def l1(self, max_keys: int) -> float:
        """Return an upper bound on the L1 sensitivity of R·x for units with at most `max_keys` cells."""

    @abc.abstractmethod
    def variance(self) -> FloatArray:
        """Return the variance of each answer if Z has variance 1: the diagonal of L·Lᵀ; shape (queries,)."""

    def mean_variance(self) -> float:
        """Return the mean variance of all answers if Z has variance 1. The workload does not need to be listed."""
        return float(self.variance().mean())

    def range_variances(self, low: IntArray, high: IntArray) -> FloatArray:  # noqa: ARG002  for one column
        """Return the variances of the sums over cells low, …, high of one column, if Z has variance 1."""
        raise DeclarationError(f"this strategy answers only the queries of its workload: {self.name}")

    def cell_variance(self) -> float:
        """Return the variance of R⁻¹·Z, averaged over cells, if Z has variance 1. R must have a left inverse."""
        cells = np.arange(self.workload.n_cells)
        return float(self.range_variances(cells, cells).mean())

    def gram_row(self, max_keys: int) -> FloatArray:
        """Return a vector whose k largest entries sum to at least the sum of any k entries of any row of `|RᵀR|`."""
        if self.workload.n_cells > LARGEST_GRAM:
            return np.full(max_keys, self.l2(1) ** 2)
        rows = self.apply(np.eye(self.workload.n_cells))
        return worst_row(rows.T @ rows, max_keys)

    def largest_eigenvalue(self) -> float:
        """Return an upper bound on the largest eigenvalue of RᵀR. The bound may be infinite."""
        if self.workload.n_cells > LARGEST_GRAM:
            return float("inf")
        return float(np.linalg.norm(self.apply(np.eye(self.workload.n_cells)), 2)) ** 2

    def __repr__(self) -> str:
        return f"<strategy {self.name} for {self.workload.describe()}>"


class Invertible(Strategy):
    """A strategy whose matrix R has a left inverse R⁺, so that L = A·R⁺ for every workload A on the same cells."""

    invertible = True

    one_column: bool = False
    """Whether the strategy can only answer workloads on one column."""

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        if self.one_column and len(workload.columns) != 1:
            raise DeclarationError(f"{self.word} needs a workload on one column, got {workload.describe()}")

    @property
    def n_noise(self) -> int:
        return self.workload.n_cells

    @abc.abstractmethod
    def to_cells_transposed(self, a: FloatArray) -> FloatArray:
        """Return (R⁺)ᵀ·a. Shape (cells,) or (cells, m) becomes (n_noise,) or (n_noise, m)."""

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
        # Ranges are differences P_b − P_a of prefix sums; their variances sum to (n + 1) Σ_a Var P_a − Var Σ_a P_a.
        n = self.workload.n
        ramp = self.to_cells_transposed(np.arange(n, 0.0, -1.0))
        return 2 * ((n + 1) * float(self.prefix_variances.sum()) - float(ramp @ ramp)) / (n * (n + 1))

    @cached_property
    def prefix_variances(self) -> FloatArray:
        """Return the variances of the sums of the first 1, 2, …, n cells, if Z has variance 1; shape (cells,)."""
        n = self.workload.n_cells
        return self.range_variances(np.zeros(n, np.int64), np.arange(n))

    def range_variances(self, low: IntArray, high: IntArray) -> FloatArray:
        n = self.workload.n_cells
        if n <= LARGEST_LISTED and low.size >= n:  # for many ranges, use the covariance of all prefix sums
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
    """Reshape a vector of n factors so that it multiplies the rows of `values`, an array of shape (n,) or (n, m)."""
    return factor if values.ndim == 1 else factor[:, np.newaxis]
