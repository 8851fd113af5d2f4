"""Gram matrices small enough to be written out: AᵀA of a workload, and what l cells of a unit add up to under one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsehist.errors import DeclarationError
from sparsehist.workload.base import FloatArray, Workload
from sparsehist.workload.rows_of_ranges import RangeRows

LARGEST_GRAM = 1024
"""Cells; beyond it, a matrix of cells by cells is not written out."""

_BLOCK = 32
_ROUNDING = 1e-12


class Sums(NamedTuple):
    """Largest 1ᵀ_S G 1_S over sets of l cells: certified from above, attained by a set from below."""

    upper: float
    lower: float


def gram_of(workload: Workload) -> FloatArray:
    """AᵀA; shape (cells, cells).

    Raises:
        DeclarationError: If there are more than 1,024 cells.

    Example:
        >>> gram_of(Workload.parse("prefix(3)"))
        array([[3., 2., 1.],
               [2., 2., 1.],
               [1., 1., 1.]])
    """
    n = workload.n_cells
    if n > LARGEST_GRAM:
        raise DeclarationError(f"a matrix of {n} by {n} cells is not written out; at most {LARGEST_GRAM} are")
    if isinstance(workload, RangeRows):
        return _gram_of_ranges(workload)
    cells = np.eye(n)
    blocks = [
        workload.apply_transposed(workload.apply(cells[:, start : start + _BLOCK])) for start in range(0, n, _BLOCK)
    ]
    gram = np.concatenate(blocks, axis=1)
    return (gram + gram.T) / 2.0


def _gram_of_ranges(workload: RangeRows) -> FloatArray:
    """Two cells i <= j are in as many ranges as begin at i or before and end at j or behind."""
    n = workload.n
    low, high = workload.bounds()
    begun = np.bincount(low * n + high, minlength=n * n).reshape(n, n).cumsum(axis=0)
    both = np.triu(begun[:, ::-1].cumsum(axis=1)[:, ::-1]).astype(np.float64)
    return both + np.triu(both, 1).T


def largest_sum(gram: FloatArray, n_cells: int) -> Sums:
    """Bound max 1ᵀ_S G 1_S over sets S of at most `n_cells` cells.

    A set that holds i gets from row i at most G_ii and the l - 1 largest positive entries beside it; the l largest
    of these numbers bound the whole. So does l times the largest eigenvalue, and the square of the sum of the l
    largest column norms. From below: runs of cells, and the cells that matter most to one of them, each improved by
    taking the l largest entries of G·1_S for S, which never makes the sum smaller as G has no negative eigenvalue.

    Args:
        gram: RᵀR; shape (cells, cells).
        n_cells: l >= 1, as many cells as one unit touches.

    Example:
        >>> largest_sum(np.array([[1.0, 0.5], [0.5, 1.0]]), 2)
        Sums(upper=3.0..., lower=3.0)
    """
    cells = min(n_cells, len(gram))
    diagonal = np.diag(gram)
    beside = np.maximum(gram, 0.0)
    np.fill_diagonal(beside, 0.0)
    rows = diagonal + _sum_of_largest(beside, cells - 1)
    closer = min(float(_sum_of_largest(rows, cells)), cells * float(np.linalg.eigvalsh(gram)[-1]))
    upper = min(closer * (1.0 + _ROUNDING), float(_sum_of_largest(np.sqrt(diagonal), cells)) ** 2)
    lower = max(_climb(gram, start, cells) for start in (_best_run(gram, cells), int(np.argmax(rows)), None))
    return Sums(upper, min(max(lower, float(diagonal.max())), upper))


def upper_sums(gram: FloatArray, n_cells: int) -> FloatArray:
    """The upper bounds of `largest_sum` for sets of 1, 2, …, `n_cells` cells, at the cost of a few."""
    most = min(n_cells, len(gram))
    diagonal = np.diag(gram)
    beside = np.maximum(gram, 0.0)
    np.fill_diagonal(beside, 0.0)
    sorted_rows = np.cumsum(-np.sort(-beside, axis=1)[:, : most - 1], axis=1)
    rows = np.concatenate([np.zeros((len(gram), 1)), sorted_rows], axis=1) + diagonal[:, np.newaxis]
    norms = np.cumsum(np.sort(np.sqrt(diagonal))[::-1])[:most] ** 2
    by_rows = np.array([_sum_of_largest(rows[:, number - 1], number) for number in range(1, most + 1)])
    largest_eigenvalue = float(np.linalg.eigvalsh(gram)[-1])
    bounds = np.minimum(np.minimum(by_rows, norms), largest_eigenvalue * np.arange(1, most + 1))
    return np.append(bounds, np.full(n_cells - most, bounds[-1])) * (1.0 + _ROUNDING)


def largest_l1(columns: FloatArray, n_cells: int) -> float:
    """Bound the L1 norm of the sum of at most `n_cells` columns of R by that of its largest ones."""
    largest = _sum_of_largest(np.abs(columns).sum(axis=0), min(n_cells, columns.shape[1]))
    return float(largest) * (1.0 + _ROUNDING)


def _sum_of_largest(values: FloatArray, number: int) -> FloatArray:
    """Sum of the largest entries along the last axis."""
    if number == 0:
        return np.zeros(values.shape[:-1])
    largest = np.partition(values, values.shape[-1] - number, axis=-1)[..., values.shape[-1] - number :]
    total: FloatArray = largest.sum(axis=-1)
    return total


def _best_run(gram: FloatArray, cells: int) -> NDArray[np.int64]:
    """The run of adjacent cells of the largest sum."""
    sums = np.zeros((len(gram) + 1, len(gram) + 1))
    sums[1:, 1:] = gram.cumsum(axis=0).cumsum(axis=1)
    low = np.arange(len(gram) - cells + 1)
    high = low + cells
    runs = sums[high, high] - sums[low, high] - sums[high, low] + sums[low, low]
    return np.arange(cells) + int(np.argmax(runs))


def _climb(gram: FloatArray, start: NDArray[np.int64] | int | None, cells: int) -> float:
    """Improve a set, or the cells next to one, until it stays; the sum it reaches."""
    if start is None:
        weights = np.linalg.eigh(gram)[1][:, -1]
        gain = weights * np.sign(weights.sum() or 1.0)
    else:
        gain = gram[:, start] if isinstance(start, int) else gram[:, start].sum(axis=1)
    reached = 0.0  # of no cells; where columns cancel, rounding makes sums negative
    while True:
        chosen = np.argpartition(-gain, cells - 1)[:cells]
        found = float(gram[np.ix_(chosen, chosen)].sum())
        if found <= reached * (1.0 + _ROUNDING):
            return max(found, reached)
        reached, gain = found, gram[:, chosen].sum(axis=1)
