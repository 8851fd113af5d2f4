"""The best factorization of a small workload, found numerically.

For a unit of one cell: minimise tr(AᵀA X⁻¹) over X = RᵀR with diagonal 1, a convex problem. With V = diag(v) its
solution is X = V^-½ (V^½ AᵀA V^½)^½ V^-½ at the fixed point v = diag((V^½ AᵀA V^½)^½), and every v > 0 bounds the
optimum from below by T²/Σv, T the trace of that root; v = 1 gives the bound ‖A‖_*²/n of the singular values. Steps go
twice as far as to the image of v, which halves their number: where AᵀA is diagonal that is one step. Their number is
fixed, so that the strategy is the same wherever it is computed again from its name.

For a unit of l cells the columns of X should overlap less. X is sought among mixtures (1 - t)·X_p + t·I, where X_p
has the power p in the place of ½, columns scaled to 1. At l = 20 and n = 128 prefix sums that lowers the error, as
priced by the certified bound, from 13.3 to 8.1 times l·‖A‖_*²/n; a descent over all X, which no name could carry,
gets to 7.7.

Source: the fixed point is that of Denisov, McMahan, Rush, Smith and Thakurta 2022 (its bound from below follows from
the dual problem); the steps and the mixtures are ours.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sparsehist.errors import DeclarationError
from sparsehist.typing import ArrayLike, FloatArray
from sparsehist.workload.gram.profiles import Profile, profile_of_gram
from sparsehist.workload.gram.signed_columns import largest_l1
from sparsehist.workload.gram.written_out import gram_of, largest_sum
from sparsehist.workload.queries.linear_queries import Workload
from sparsehist.workload.strategies.strategy import Kept, Sensitivity, Strategy

LARGEST = 512
"""Cells; a step takes a time that grows with their cube."""

_STEPS = 40
_POWERS = (20, 30, 40, 50, 60, 70, 80, 100)
_SHARES = (0, 5, 10, 20, 30, 40, 50, 60, 70, 80, 85, 90, 95, 97, 100)

_RANK = 1e-11
"""Eigenvalues of AᵀA below this share of the largest are rounding: their vectors are asked by no query."""

_MISSED = 1e-9
"""A query may lie outside of what is measured by this share of its norm: rounding."""

_TOO_UNEVEN = (
    "queries differ too much in size for an optimised strategy: the smaller ones would be lost in rounding; take "
    "another strategy, or ask them apart"
)
_BLOCK = 32

_LEAST = 1e-8
"""Weights stay above this share of the largest: those of cells that others cover tend to 0, where they are lost."""


class Optimum(NamedTuple):
    """The fixed point: weights v, shape (cells,), 0 for cells that no query counts; and what it proves.

    No factorization with columns of norm at most 1 has a sum of variances below `lower_bound`.
    """

    weights: FloatArray
    lower_bound: float


def one_cell_optimum(gram: FloatArray, *, steps: int = _STEPS) -> Optimum:
    """Find the weights whose X is best for a unit of one cell, given AᵀA; each step is an eigendecomposition.

    Example:
        >>> round(one_cell_optimum(np.diag([4.0, 1.0])).lower_bound, 12)
        5.0
    """
    used = np.diag(gram) > 0.0
    inner = gram[np.ix_(used, used)]
    weights, best = np.ones(len(inner)), 0.0
    for step in range(steps):
        root = np.sqrt(weights)
        values, vectors = np.linalg.eigh(inner * np.outer(root, root))
        spread = np.sqrt(np.where(values > _RANK * values[-1], values, 0.0))
        image = (vectors * vectors) @ spread
        best = max(best, float(spread.sum()) ** 2 / float(weights.sum()))
        image = np.maximum(image, _LEAST * image.max())
        weights = image if step == 0 else image * (image / weights)
    everywhere = np.zeros(len(gram))
    everywhere[used] = weights
    return Optimum(everywhere, best)


class Optimised(Strategy):
    """A numerically optimised strategy for a workload of at most 512 cells, for units of one cell or of several.

    Args:
        workload: Any, with its columns known.
        power: p in percent; 50 is the optimum for a unit of one cell.
        share: t in percent, the part of X that asks every cell by itself.

    Raises:
        DeclarationError: If there are more cells, a parameter is not a percentage, A is 0, or queries differ so
            much in size that some would be lost in rounding.
    """

    word = "optimised"

    def __init__(self, workload: Workload, power: int = 50, share: int = 0) -> None:
        if workload.n_cells > LARGEST:
            raise DeclarationError(
                f"{workload.describe()} has {workload.n_cells} cells; a numerical optimum is sought up to {LARGEST}"
            )
        for word, value, most in (("power", power, 100), ("share", share, 100)):
            if type(value) is not int or not 0 <= value <= most:
                raise DeclarationError(f"optimised({word}=…) is a whole percentage up to {most}, got {value!r}")
        super().__init__(workload)
        self.power, self.share = power, share
        self._gram = gram_of(workload)
        if not self._gram.any():
            raise DeclarationError(f"{workload.describe()} asks nothing: every entry of its matrix is 0")
        overlap = _mixture(_powers(self._gram, one_cell_optimum(self._gram).weights), power, share)
        values, vectors = np.linalg.eigh(overlap)
        kept = values > _RANK * values[-1]
        _require_all_asked(workload, vectors[:, ~kept])
        self._eigen = values[kept], vectors[:, kept]
        root = np.sqrt(values[kept])
        self._strategy = (vectors[:, kept] * root) @ vectors[:, kept].T
        self._inverse = (vectors[:, kept] / root) @ vectors[:, kept].T
        self.keeps: Kept = "cells" if kept.all() else "noise"

    @classmethod
    def for_unit(cls, workload: Workload, max_keys: int) -> Optimised:
        """Choose power and share for units of at most so many cells, by predicted error at the certified bound."""
        if max_keys == 1 or workload.n_cells > LARGEST:
            return cls(workload)
        gram = gram_of(workload)
        if not gram.any():
            return cls(workload)  # which says so
        family = _powers(gram, one_cell_optimum(gram).weights)

        def error(power: int, share: int) -> float:
            overlap = _mixture(family, power, share)
            return _total_variance(gram, overlap) * largest_sum(overlap, max_keys).upper

        # along each parameter in turn: its best value moves little with the other
        power, share = 60, 0
        for _ in range(2):
            share = min((error(power, part), part) for part in _SHARES)[1]
            power = min((error(candidate, share), candidate) for candidate in _POWERS)[1]
        return cls(workload, power, share)

    @property
    def name(self) -> str:
        if (self.power, self.share) == (50, 0):
            return self.word
        return f"{self.word}(power={self.power}, share={self.share})"

    @property
    def n_noise(self) -> int:
        return len(self._strategy)

    def sensitivity(self, max_keys: int) -> Sensitivity:
        sums = largest_sum(self._strategy.T @ self._strategy, max_keys, self._eigen)
        return Sensitivity(math.sqrt(sums.upper), math.sqrt(sums.lower))

    def profile(self, max_keys: int) -> Profile:
        return profile_of_gram(self._strategy.T @ self._strategy, max_keys)

    def l1_sensitivity(self, max_keys: int) -> float:
        return largest_l1(self._strategy, max_keys)

    def apply(self, x: ArrayLike) -> FloatArray:
        image: FloatArray = self._strategy @ self.workload.columns_of(x, self.n_noise)
        return image

    def to_cells(self, z: FloatArray) -> FloatArray:
        # Without a left inverse this is one of many vectors of cells, all with the same answers to the workload.
        return np.asarray(self._inverse @ z)

    def roundings(self) -> float:
        """A row adds up as many products as there are entries of Z, in any order."""
        return self.n_noise * float(np.abs(self._inverse).sum(axis=1).mean()) / math.sqrt(self.cell_variance())

    def answer_roundings(self) -> float:
        return self._by_way_of_cells()

    def cell_variance(self) -> float:
        return float(np.mean(np.sum(self._inverse**2, axis=1)))

    def query_variance(self) -> FloatArray:
        pieces = range(0, self.n_noise, _BLOCK)
        squares = [np.sum(self.workload.apply(self._inverse[:, at : at + _BLOCK]) ** 2, axis=1) for at in pieces]
        total: FloatArray = np.sum(squares, axis=0)
        return total

    def range_variance(self, low: int, high: int) -> float:
        return float(np.sum(self._inverse[:, low : high + 1].sum(axis=1) ** 2))

    def mean_variance(self) -> float:
        return float(np.sum(self._inverse * (self._gram @ self._inverse))) / self.workload.n_queries


def _require_all_asked(workload: Workload, left_out: FloatArray) -> None:
    """Refuse to leave out a direction that some query asks about: what it says there would carry no noise."""
    missed = np.zeros(workload.n_queries)
    for at in range(0, left_out.shape[1], _BLOCK):
        missed += np.sum(workload.apply(left_out[:, at : at + _BLOCK]) ** 2, axis=1)
    if left_out.size and np.any(missed > _MISSED**2 * workload.row_squares()):
        raise DeclarationError(f"{workload.describe()}: {_TOO_UNEVEN}")


class _Family(NamedTuple):
    """V^½ AᵀA V^½ by its eigenvalues, as shares of the largest, and vectors; and the roots of v."""

    values: FloatArray
    vectors: FloatArray
    root: FloatArray


def _powers(gram: FloatArray, weights: FloatArray) -> _Family:
    root = np.sqrt(weights)
    values, vectors = np.linalg.eigh(gram * np.outer(root, root))
    shares = values / values[-1]
    return _Family(np.where(shares > _RANK, shares, 0.0), vectors, root)


def _mixture(family: _Family, power: int, share: int) -> FloatArray:
    """(1 - t)·X_p + t·I on the cells that some query counts; diagonal entries are at most 1."""
    used = family.root > 0.0
    scale = np.where(used, family.root, 1.0)
    raised = np.where(family.values > 0.0, family.values, 1.0) ** (power / 100.0) * (family.values > 0.0)
    overlap = (family.vectors * raised) @ family.vectors.T / np.outer(scale, scale)
    norms = np.sqrt(np.where(used, np.diag(overlap), 1.0))
    if share == 0 and np.count_nonzero(family.values) < np.count_nonzero(used):
        # Columns scaled one by one would no longer span what the workload asks about.
        norms = np.full_like(norms, norms[used].max())
    if not norms.all():
        raise DeclarationError(_TOO_UNEVEN)
    part = share / 100.0
    mixed: FloatArray = (1.0 - part) * overlap / np.outer(norms, norms) + part * np.diag(used.astype(np.float64))
    return np.where(np.outer(used, used), mixed, 0.0)


def _total_variance(gram: FloatArray, overlap: FloatArray) -> float:
    values, vectors = np.linalg.eigh(overlap)
    kept = values > _RANK * values[-1]
    return float(np.sum(np.sum(vectors[:, kept] * (gram @ vectors[:, kept]), axis=0) / values[kept]))
