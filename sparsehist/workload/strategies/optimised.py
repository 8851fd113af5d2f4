"""Provide `Optimised`, a numerically optimised factorization of a workload with few cells.

If units have one cell, X = RᵀR minimises tr(AᵀA X⁻¹) among matrices with diagonal 1. The minimum is attained at
X = V^-½ (V^½ AᵀA V^½)^½ V^-½, where V is diagonal and has the same diagonal v as (V^½ AᵀA V^½)^½. If units have
several cells, X is the best mixture (1 - t)·Y + t·I, where Y is V^-½ (V^½ AᵀA V^½)^0.8 V^-½, scaled to diagonal 1.

Source: the fixed point is from Denisov, McMahan, Rush, Smith and Thakurta 2022; iterations and mixtures are ours.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from sparsehist.errors import DeclarationError, shown
from sparsehist.typing import ArrayLike, FloatArray
from sparsehist.workload.queries.workload import Workload
from sparsehist.workload.sensitivity import gram_of, l1_of_columns, squared_l2_of_gram
from sparsehist.workload.strategies.strategy import Invertible

LARGEST = 512
"""Largest number of cells; the time of an iteration grows with its cube."""

_STEPS = 40  # number of iterations for computing the weights v (see the module docstring)
_SHARES = (0, 5, 10, 20, 30, 40, 50, 60, 70, 80, 85, 90, 95, 97, 100)
_POWER = 0.8  # exponent for units of several cells; for 5 to 60 cells, it is at most 1 % worse than the best exponent
_RANK = 1e-11  # eigenvalues below this fraction of the largest one are rounding errors and are treated as 0
# Smallest weight of the identity in RᵀR. This weight makes R invertible and increases standard deviations by 0.01 %.
_LEAST_SHARE = 2e-4
# Smallest weight in v (see the module docstring), as a share of the largest. Without it, some weights tend to 0.
_LEAST_WEIGHT = 1e-8


class Optimised(Invertible):
    """A numerically optimised strategy for at most 512 cells.

    `share` is the weight of the identity matrix in RᵀR, in percent; 0 is best if units have one cell.
    """

    word = "optimised"

    def __init__(self, workload: Workload, share: int = 0) -> None:
        if workload.n_cells > LARGEST:
            raise DeclarationError(
                f"the workload has too many cells for optimised(): {workload.describe()}, limit {LARGEST}"
            )
        if type(share) is not int or not 0 <= share <= 100:
            raise DeclarationError(f"the share must be a whole percentage from 0 to 100, got {shown(share)}")
        super().__init__(workload)
        self.share = share
        self._overlap = _mixture(_decomposed(workload), share)
        values, vectors = np.linalg.eigh(self._overlap)
        root = np.sqrt(values)
        self._strategy = (vectors * root) @ vectors.T
        self._inverse = (vectors / root) @ vectors.T

    @classmethod
    def for_unit(cls, workload: Workload, max_keys: int) -> Optimised:
        """Return the strategy with the best `share`: the one with the smallest predicted error for `max_keys`."""
        made = [cls(workload, share) for share in (_SHARES if max_keys > 1 else (0,))]
        return min(made, key=lambda one: one.mean_variance() * one.l2(max_keys) ** 2)

    @property
    def name(self) -> str:
        return f"{self.word}(share={self.share})" if self.share else self.word

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

    def mean_variance(self) -> float:
        gram = _decomposed(self.workload).gram
        return float(np.sum(self._inverse * (gram @ self._inverse))) / self.workload.n_queries


def one_cell_optimum(gram: FloatArray) -> tuple[FloatArray, float]:
    """Return the weights v (see the module docstring) for units of one cell. Cells that no query uses have weight 0.

    Also return a lower bound on the sum of variances: the squared trace of (V^½ AᵀA V^½)^½, divided by the sum of v.
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


class _Decomposed(NamedTuple):
    """The matrix AᵀA, the square roots of the weights v, and the eigendecomposition of V^½ AᵀA V^½ for V = diag(v).

    The module docstring defines v. Eigenvalues are relative to the largest; those that may be rounding errors are 0.
    """

    gram: FloatArray
    root: FloatArray
    values: FloatArray
    vectors: FloatArray


@lru_cache(maxsize=16)
def _decomposed(workload: Workload) -> _Decomposed:
    gram = gram_of(workload)
    if not gram.any():
        raise DeclarationError(f"every entry of the workload's matrix is 0: {workload.describe()}")
    root = np.sqrt(one_cell_optimum(gram)[0])
    values, vectors = np.linalg.eigh(gram * np.outer(root, root))
    return _Decomposed(gram, root, np.where(values > _RANK * values[-1], values / values[-1], 0.0), vectors)


def _mixture(about: _Decomposed, share: int) -> FloatArray:
    """Return the mixture X = RᵀR with a weight of `share` percent for the identity. Its diagonal is at most 1."""
    used = about.root > 0.0
    scale = np.where(used, about.root, 1.0)
    raised = np.where(about.values > 0.0, np.maximum(about.values, _RANK) ** (_POWER if share else 0.5), 0.0)
    overlap = (about.vectors * raised) @ about.vectors.T / np.outer(scale, scale)
    norms = np.sqrt(np.where(used & (np.diag(overlap) > 0.0), np.diag(overlap), 1.0))
    if share == 0 and np.count_nonzero(about.values) < np.count_nonzero(used):
        # Scale all columns of R equally. Otherwise, the row space of R might not contain the row space of A.
        norms = np.full_like(norms, norms[used].max())
    part = max(share / 100.0, _LEAST_SHARE)
    mixed: FloatArray = (1.0 - part) * overlap / np.outer(norms, norms) + part * np.eye(len(norms))
    return mixed
