"""`Optimised`: a numerically optimised factorization of a small workload.

For a unit of one cell, tr(AᵀA X⁻¹) is minimised over X = RᵀR with diagonal 1. With V = diag(v) the solution is
X = V^-½ (V^½ AᵀA V^½)^½ V^-½ at the fixed point v = diag((V^½ AᵀA V^½)^½), found in a fixed number of steps. For a
unit of l cells X is the best mixture (1 - t)·Y + t·I, where Y has the power 0.8 in place of ½ and columns of norm 1.

Source: the fixed point is that of Denisov, McMahan, Rush, Smith and Thakurta 2022; steps and mixtures are ours.
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
"""Most cells; the time of a step grows with their cube."""

_STEPS = 40
_SHARES = (0, 5, 10, 20, 30, 40, 50, 60, 70, 80, 85, 90, 95, 97, 100)
# With power 0.8, errors are within 1 % of those of the best power, for 5 to 60 cells per unit.
_POWER = 0.8
# Relative to the largest: smaller eigenvalues of AᵀA are rounding errors; no query depends on their vectors.
_RANK = 1e-11
# Share of the identity in every X; it adds 0.01 % to a standard deviation.
_LEAST_SHARE = 2e-4
# Least weight, relative to the largest: the weights of redundant cells tend to 0.
_LEAST_WEIGHT = 1e-8


class Optimised(Invertible):
    """A numerically optimised strategy for at most 512 cells.

    `share` is the weight t of the identity in the mixture, in percent; 0 is best for units of one cell.
    """

    word = "optimised"

    def __init__(self, workload: Workload, share: int = 0) -> None:
        if workload.n_cells > LARGEST:
            raise DeclarationError(
                f"{workload.describe()} has {workload.n_cells} cells; optimised() takes at most {LARGEST}"
            )
        if type(share) is not int or not 0 <= share <= 100:
            raise DeclarationError(f"optimised(share=…) is a whole percentage up to 100, got {shown(share)}")
        super().__init__(workload)
        self.share = share
        self._overlap = _mixture(_decomposed(workload), share)
        values, vectors = np.linalg.eigh(self._overlap)
        root = np.sqrt(values)
        self._strategy = (vectors * root) @ vectors.T
        self._inverse = (vectors / root) @ vectors.T

    @classmethod
    def for_unit(cls, workload: Workload, max_keys: int) -> Optimised:
        """Choose the share for units of at most `max_keys` cells, by predicted error."""
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
    """Find the weights v of the best X for units of one cell, given AᵀA; 0 for cells that no query counts.

    Also return T²/Σv, a lower bound on the sum of variances, where T is the trace of the root.
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
    """AᵀA, the diagonal of V^½, and the eigenvectors and eigenvalues of V^½ AᵀA V^½.

    Eigenvalues are scaled so that the largest is 1; those as small as rounding errors are set to 0.
    """

    gram: FloatArray
    root: FloatArray
    values: FloatArray
    vectors: FloatArray


@lru_cache(maxsize=16)
def _decomposed(workload: Workload) -> _Decomposed:
    gram = gram_of(workload)
    if not gram.any():
        raise DeclarationError(f"{workload.describe()} asks nothing: every entry of its matrix is 0")
    root = np.sqrt(one_cell_optimum(gram)[0])
    values, vectors = np.linalg.eigh(gram * np.outer(root, root))
    return _Decomposed(gram, root, np.where(values > _RANK * values[-1], values / values[-1], 0.0), vectors)


def _mixture(about: _Decomposed, share: int) -> FloatArray:
    """Return the matrix X for t in percent; its diagonal is at most 1."""
    used = about.root > 0.0
    scale = np.where(used, about.root, 1.0)
    raised = np.where(about.values > 0.0, np.maximum(about.values, _RANK) ** (_POWER if share else 0.5), 0.0)
    overlap = (about.vectors * raised) @ about.vectors.T / np.outer(scale, scale)
    norms = np.sqrt(np.where(used & (np.diag(overlap) > 0.0), np.diag(overlap), 1.0))
    if share == 0 and np.count_nonzero(about.values) < np.count_nonzero(used):
        # Scaling single columns would change the row space, which must contain that of the workload.
        norms = np.full_like(norms, norms[used].max())
    part = max(share / 100.0, _LEAST_SHARE)
    mixed: FloatArray = (1.0 - part) * overlap / np.outer(norms, norms) + part * np.eye(len(norms))
    return mixed
