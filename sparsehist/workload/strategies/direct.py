"""The queries of a workload measured as they are: R = A."""

from __future__ import annotations

import math

import numpy as np

from sparsehist.errors import DeclarationError
from sparsehist.typing import ArrayLike, FloatArray, Generator
from sparsehist.workload.gram.profiles import Profile, profile_of_gram
from sparsehist.workload.gram.signed_columns import largest_l1
from sparsehist.workload.gram.written_out import gram_of, largest_sum
from sparsehist.workload.queries.linear_queries import Workload
from sparsehist.workload.queries.rows_of_ranges import RangeRows, Total
from sparsehist.workload.queries.union import Union
from sparsehist.workload.strategies.strategy import Kept, Sensitivity, Strategy

# Of AᵀA all eigenvalues are taken.
_LARGEST_GRAM = 256
# Queries that are written out for all of so many cells.
_WRITTEN_OUT = 1024


class Direct(Strategy):
    """Noise on every answer by itself: best for few queries that overlap little, such as the total."""

    word = "direct"
    keeps: Kept = "noise"

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        if not workload.explicit:
            raise DeclarationError(f"{workload.describe()} lists no queries to be measured")
        self.integral = workload.integral

    @property
    def n_noise(self) -> int:
        return self.workload.n_queries

    def sensitivity(self, max_keys: int) -> Sensitivity:
        """For up to 256 cells from AᵀA; beyond by the largest columns of A."""
        keys = min(max_keys, self.workload.n_cells)
        if isinstance(self.workload, Total):  # of any number of cells
            return Sensitivity(float(keys), float(keys))
        if self.workload.n_cells <= _LARGEST_GRAM:
            bounds = largest_sum(_gram(self.workload), keys)
            return Sensitivity(bounds.upper**0.5, bounds.lower**0.5)
        squares, _ = _columns(self.workload)
        norms = np.sqrt(_largest(squares, keys))
        upper, lower = float(norms.sum()), float(norms[0])
        first = np.zeros(self.workload.n_cells)
        first[np.argsort(-squares, kind="stable")[:keys]] = 1.0
        lower = max(lower, float(np.linalg.norm(self.workload.apply(first))))
        return Sensitivity(upper, min(lower, upper))

    def profile(self, max_keys: int) -> Profile:
        keys = min(max_keys, self.workload.n_cells)
        if isinstance(self.workload, Total):
            norms = np.arange(1.0, keys + 1)
            return Profile(norms, norms, norms)
        if self.workload.n_cells <= _LARGEST_GRAM:
            return profile_of_gram(_gram(self.workload), keys)
        norms = np.cumsum(_largest(np.sqrt(_columns(self.workload)[0]), keys))
        return Profile(norms, norms, np.full(keys, norms[0]))

    def l1_sensitivity(self, max_keys: int) -> float:
        """By the largest columns of A, exact where no entry is negative; else for few cells and queries closer."""
        keys = min(max_keys, self.workload.n_cells)
        if isinstance(self.workload, Total):
            return float(keys)
        bound = float(_largest(_columns(self.workload)[1], keys).sum())
        written_out = self.workload.n_cells <= _LARGEST_GRAM and self.workload.n_queries <= _WRITTEN_OUT
        if keys > 1 and written_out and not self.workload.non_negative:
            bound = min(bound, largest_l1(self.workload.apply(np.eye(self.workload.n_cells)), keys))
        return float(math.floor(bound)) if self.integral else bound

    def apply(self, x: ArrayLike) -> FloatArray:
        return self.workload.apply(x)

    def noise_answers(self, z: ArrayLike) -> FloatArray:
        return np.asarray(z, np.float64)

    def roundings(self) -> float:
        return 0.0

    def query_variance(self) -> FloatArray:
        return np.ones(self.workload.n_queries)

    def mean_variance(self) -> float:
        return 1.0

    def check(self, *, rng: Generator, probes: int = 3) -> None:
        """R is A and L the identity: there is nothing to compare, on columns of any length."""


def _largest(values: FloatArray, number: int) -> FloatArray:
    """The largest values, falling; shape (number,)."""
    return -np.sort(np.partition(-values, number - 1)[:number])


def _gram(workload: Workload) -> FloatArray:
    """AᵀA, where the columns of A are known; shape (cells, cells)."""
    for part in workload.parts if isinstance(workload, Union) else (workload,):
        if not isinstance(part, RangeRows | Union) and getattr(part, "matrix", None) is None:
            _columns(part)  # which refuses
    return gram_of(workload)


def _columns(workload: Workload) -> tuple[FloatArray, FloatArray]:
    """Squared L2 and L1 norm of every column of A; shape (cells,) each."""
    if isinstance(workload, RangeRows):
        counts = workload.apply_transposed(np.ones(workload.n_queries))
        return counts, counts
    if isinstance(workload, Union):
        parts = [_columns(part) for part in workload.parts]
        return np.sum([squares for squares, _ in parts], axis=0), np.sum([sums for _, sums in parts], axis=0)
    matrix = getattr(workload, "matrix", None)
    if matrix is None:
        raise DeclarationError(f"the columns of {workload.describe()} are not known: name another strategy")
    squares = np.asarray(matrix.multiply(matrix).sum(axis=0), np.float64).reshape(-1)
    return squares, np.asarray(abs(matrix).sum(axis=0), np.float64).reshape(-1)
