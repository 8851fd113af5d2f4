"""The best factorization of a small workload, found numerically.

For a unit of one cell: minimise tr(AᵀA X⁻¹) over X = RᵀR with diagonal 1, a convex problem. With V = diag(v) its
solution is X = V^-½ (V^½ AᵀA V^½)^½ V^-½ at the fixed point v = diag((V^½ AᵀA V^½)^½). Steps go twice as far as to
the image of v, and their number is fixed, so that the strategy follows from its name.

For a unit of l cells the columns of X should overlap less. X is sought among mixtures (1 - t)·X_p + t·I, where X_p
has the power p in the place of ½, columns scaled to 1. A small part of I stays in any case, so that R is invertible.

Source: the fixed point is that of Denisov, McMahan, Rush, Smith and Thakurta 2022; steps and mixtures are ours.
"""

from __future__ import annotations

import numpy as np

from sparsehist.errors import DeclarationError, shown
from sparsehist.typing import ArrayLike, FloatArray, IntArray
from sparsehist.workload.queries.workload import Workload
from sparsehist.workload.sensitivity import gram_of, l1_of_columns, squared_l2_of_gram
from sparsehist.workload.strategies.inverse import Invertible

LARGEST = 512
"""Cells; a step takes a time that grows with their cube."""

_STEPS = 40
_POWERS = (20, 30, 40, 50, 60, 70, 80, 100)
_SHARES = (0, 5, 10, 20, 30, 40, 50, 60, 70, 80, 85, 90, 95, 97, 100)
# Eigenvalues of AᵀA below this share of the largest are rounding: no query asks for their vectors.
_RANK = 1e-11
# Part of the identity in every X: it adds a hundredth of a per cent to a standard deviation.
_LEAST_SHARE = 2e-4
# Weights stay above this share of the largest: those of cells that others cover tend to 0, where they are lost.
_LEAST_WEIGHT = 1e-8


class Optimised(Invertible):
    """A numerically optimised strategy for a workload of at most 512 cells, for units of one cell or of several.

    Args:
        workload: Any, with its columns known.
        power: p in percent; 50 is the optimum for a unit of one cell.
        share: t in percent, the part of X that asks every cell by itself.

    Raises:
        DeclarationError: If there are more cells, a parameter is not a percentage, or A is 0.
    """

    word = "optimised"

    def __init__(self, workload: Workload, power: int = 50, share: int = 0) -> None:
        if workload.n_cells > LARGEST:
            raise DeclarationError(
                f"{workload.describe()} has {workload.n_cells} cells; a numerical optimum is sought up to {LARGEST}"
            )
        for word, value in (("power", power), ("share", share)):
            if type(value) is not int or not 0 <= value <= 100:
                raise DeclarationError(f"optimised({word}=…) is a whole percentage up to 100, got {shown(value)}")
        super().__init__(workload)
        self.power, self.share = power, share
        self._gram = gram_of(workload)
        if not self._gram.any():
            raise DeclarationError(f"{workload.describe()} asks nothing: every entry of its matrix is 0")
        self._overlap = _Mixtures(self._gram).mixed(power, share)
        values, vectors = np.linalg.eigh(self._overlap)
        root = np.sqrt(values)
        self._strategy = (vectors * root) @ vectors.T
        self._inverse = (vectors / root) @ vectors.T

    @classmethod
    def for_unit(cls, workload: Workload, max_keys: int) -> Optimised:
        """Choose power and share for units of at most `max_keys` cells, by predicted error."""
        plain = cls(workload)
        if max_keys == 1:
            return plain
        gram, keys = plain._gram, min(max_keys, workload.n_cells)
        mixtures = _Mixtures(gram)

        def error(power: int, share: int) -> float:
            overlap = mixtures.mixed(power, share)
            return float(np.trace(np.linalg.solve(overlap, gram))) * squared_l2_of_gram(overlap, keys)

        # Along each parameter in turn: its best value moves little with the other.
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

    def apply(self, x: ArrayLike) -> FloatArray:
        return np.asarray(self._strategy @ self.workload.columns_of(x, self.n_noise))

    def to_cells(self, z: FloatArray) -> FloatArray:
        return np.asarray(self._inverse @ z)

    def to_cells_transposed(self, a: FloatArray) -> FloatArray:
        return np.asarray(self._inverse @ a)

    def l2(self, max_keys: int) -> float:
        return float(squared_l2_of_gram(self._overlap, min(max_keys, self.n_noise)) ** 0.5)

    def l1(self, max_keys: int) -> float:
        return l1_of_columns(self._strategy, min(max_keys, self.n_noise))

    def range_variances(self, low: IntArray, high: IntArray) -> FloatArray:
        sums = np.concatenate([np.zeros((1, self.n_noise)), np.cumsum(self._inverse, axis=0)])
        return np.asarray(np.sum((sums[high + 1] - sums[low]) ** 2, axis=1))

    def mean_variance(self) -> float:
        return float(np.sum(self._inverse * (self._gram @ self._inverse))) / self.workload.n_queries


def one_cell_optimum(gram: FloatArray) -> tuple[FloatArray, float]:
    """Find the weights whose X is best for a unit of one cell, given AᵀA; each step is an eigendecomposition.

    Returns:
        v, shape (cells,), 0 for cells that no query counts; and the bound T²/Σv that every v proves, T the trace of
        the root: no factorization with columns of norm at most 1 has a smaller sum of variances.

    Example:
        >>> round(one_cell_optimum(np.diag([4.0, 1.0]))[1], 12)
        5.0
    """
    used = np.diag(gram) > 0.0
    inner = gram[np.ix_(used, used)]
    weights, best = np.ones(len(inner)), 0.0
    for step in range(_STEPS):
        root = np.sqrt(weights)
        values, vectors = np.linalg.eigh(inner * np.outer(root, root))
        spread = np.sqrt(np.where(values > _RANK * values[-1], values, 0.0))
        image = (vectors * vectors) @ spread
        best = max(best, float(spread.sum()) ** 2 / float(weights.sum()))
        image = np.maximum(image, _LEAST_WEIGHT * image.max())
        weights = image if step == 0 else image * (image / weights)
    everywhere = np.zeros(len(gram))
    everywhere[used] = weights
    return everywhere, best


class _Mixtures:
    """The matrices (1 - t)·X_p + t·I of a workload, from V^½ AᵀA V^½ by its eigenvalues and vectors."""

    def __init__(self, gram: FloatArray) -> None:
        self._root = np.sqrt(one_cell_optimum(gram)[0])
        values, self._vectors = np.linalg.eigh(gram * np.outer(self._root, self._root))
        self._values = np.where(values > _RANK * values[-1], values / values[-1], 0.0)

    def mixed(self, power: int, share: int) -> FloatArray:
        """For p and t in percent; with a diagonal of at most 1."""
        used = self._root > 0.0
        scale = np.where(used, self._root, 1.0)
        raised = np.where(self._values > 0.0, np.maximum(self._values, _RANK) ** (power / 100.0), 0.0)
        overlap = (self._vectors * raised) @ self._vectors.T / np.outer(scale, scale)
        norms = np.sqrt(np.where(used & (np.diag(overlap) > 0.0), np.diag(overlap), 1.0))
        if share == 0 and np.count_nonzero(self._values) < np.count_nonzero(used):
            # Columns scaled one by one would no longer span what the workload asks about.
            norms = np.full_like(norms, norms[used].max())
        part = max(share / 100.0, _LEAST_SHARE)
        mixed: FloatArray = (1.0 - part) * overlap / np.outer(norms, norms) + part * np.eye(len(norms))
        return mixed
