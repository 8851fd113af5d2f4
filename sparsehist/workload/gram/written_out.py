"""Gram matrices small enough to be written out: AᵀA of a workload, and what l cells of a unit add up to under one."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from sparsehist.errors import DeclarationError
from sparsehist.typing import FloatArray, IntArray
from sparsehist.workload.queries.linear_queries import Workload
from sparsehist.workload.queries.rows_of_ranges import RangeRows

LARGEST_GRAM = 1024
"""Cells; beyond it, a matrix of cells by cells is not written out."""

_BLOCK = 32
# A share of entries that are not 0, up to which a matrix is multiplied as a sparse one; and entries of a dense block.
_SPARSE, _ENTRIES_AT_ONCE = 0.05, 2**18
_ROUNDING, _LAST_DIGIT = 1e-12, 2.0**-52
_FEW_SETS = 20_000


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
    matrix = getattr(workload, "matrix", None)
    if matrix is not None:
        return _gram_of_matrix(matrix)
    cells = np.eye(n)
    blocks = [
        workload.apply_transposed(workload.apply(cells[:, start : start + _BLOCK])) for start in range(0, n, _BLOCK)
    ]
    gram = np.concatenate(blocks, axis=1)
    return (gram + gram.T) / 2.0


def _gram_of_matrix(matrix: Any) -> FloatArray:
    """Of a sparse matrix, by some rows at a time: dense, or as they are where few entries are not 0."""
    rows, cells = matrix.shape
    gram = np.zeros((cells, cells))
    if matrix.nnz < _SPARSE * rows * cells:
        entries = matrix.astype(np.float64)
        gram += (entries.T @ entries).toarray()
    else:
        step = max(1, _ENTRIES_AT_ONCE // cells)
        for start in range(0, rows, step):
            block = np.asarray(matrix[start : start + step].toarray(), np.float64)
            gram += block.T @ block
    return (gram + gram.T) / 2.0


def _gram_of_ranges(workload: RangeRows) -> FloatArray:
    """Two cells i <= j are in as many ranges as begin at i or before and end at j or behind."""
    n = workload.n
    low, high = workload.bounds()
    begun = np.bincount(low * n + high, minlength=n * n).reshape(n, n).cumsum(axis=0)
    both = np.triu(begun[:, ::-1].cumsum(axis=1)[:, ::-1]).astype(np.float64)
    return both + np.triu(both, 1).T


def largest_sum(gram: FloatArray, n_cells: int, eigen: tuple[FloatArray, FloatArray] | None = None) -> Sums:
    """Bound max 1ᵀ_S G 1_S over sets S of at most `n_cells` cells.

    A set that holds i gets from row i at most G_ii and the l - 1 largest positive entries beside it; the l largest
    of these numbers bound the whole. So does Σ λ_i·t_i over the eigenvectors u_i, where t_i = (u_iᵀ·1_S)² is at most
    the square of what l entries of one sign come to, and Σ t_i <= l: the largest eigenvalues are given as much as
    they take. And so does the square of the sum of the l largest column norms. From below: runs of cells, and the
    cells that matter most to one of them, each improved by taking the l largest entries of G·1_S for S, which never
    makes the sum smaller as G has no negative eigenvalue.

    Args:
        gram: RᵀR; shape (cells, cells).
        n_cells: l >= 1, as many cells as one unit touches.
        eigen: Eigenvalues, growing, and vectors of G, where they are known: all that are not 0.

    Example:
        >>> largest_sum(np.array([[1.0, 0.5], [0.5, 1.0]]), 2)
        Sums(upper=3.0..., lower=3.0)
    """
    cells = min(n_cells, len(gram))
    diagonal, rows = np.diag(gram), row_sums(gram, cells)
    values, vectors = np.linalg.eigh(gram) if eigen is None else eigen
    upper = _upper_sum(gram, cells, rows, values, vectors)
    weights = vectors[:, -1] * np.sign(vectors[:, -1].sum() or 1.0)
    starts = (gram[:, _best_run(gram, cells)].sum(axis=1), gram[:, int(np.argmax(rows))], weights)
    lower = max(_climb(gram, start, cells) for start in starts)
    return Sums(upper, min(max(lower, float(diagonal.max())), upper))


def largest_of_all_sets(gram: FloatArray, keys: int) -> float:
    """The greatest 1ᵀ_S G 1_S over all sets of `keys` cells, by trying each, or what it leaves out; for few."""
    left_out = 2 * keys > len(gram)
    chosen = len(gram) - keys if left_out else keys
    sets = np.array(list(combinations(range(len(gram)), chosen)), np.int64)
    totals = np.zeros(len(sets))
    for a in range(chosen):
        for b in range(chosen):
            totals += gram[sets[:, a], sets[:, b]]
    if left_out:
        totals += gram.sum() - (gram.sum(axis=0) + gram.sum(axis=1))[sets].sum(axis=1)
    return float(np.max(totals))


def _upper_sum(gram: FloatArray, cells: int, rows: FloatArray, values: FloatArray, vectors: FloatArray) -> float:
    """The upper bound of `largest_sum`."""
    diagonal = np.diag(gram)
    closer = min(float(_sum_of_largest(rows, cells)), _by_eigenvectors(gram, cells, values, vectors))
    sizes = range(1 if (gram < 0.0).any() else cells, cells + 1)  # where columns cancel, fewer may come to more
    if sum(math.comb(len(gram), size) for size in sizes) <= _FEW_SETS:
        closer = min(closer, max(largest_of_all_sets(gram, size) for size in sizes))
    upper = min(closer * (1.0 + _ROUNDING), float(_sum_of_largest(np.sqrt(diagonal), cells)) ** 2)
    return min(upper, bound_of_gram(gram, cells))


def _by_eigenvectors(gram: FloatArray, cells: int, values: FloatArray, vectors: FloatArray) -> float:
    """The greatest Σ λ_i·t_i that the entries of eigenvectors leave possible.

    With 1_S = ½ + z, z of entries ±½, the norm of the sum is also at most that of all columns, halved, and that of z.
    """
    values = np.maximum(values, 0.0)
    bound = float(values @ shared_out(squares_within(vectors, cells), cells))
    if 3 * cells <= len(gram):
        return bound
    signs = float(values @ shared_out(np.square(np.abs(vectors).sum(axis=0)), len(gram)))
    # Where columns cancel, what is left of the sum is rounding, whose root is not small.
    lost = len(gram) * _LAST_DIGIT * float(np.sqrt(np.maximum(np.diag(gram), 0.0)).sum()) ** 2
    return min(bound, (math.sqrt(max(0.0, float(gram.sum())) + lost) + math.sqrt(signs)) ** 2 / 4.0)


def squares_within(vectors: FloatArray, cells: int) -> FloatArray:
    """How much (uᵀ·1_S)² can be at most for sets of so many cells, for each column u; shape (vectors,)."""
    reached = [_sum_of_largest(np.maximum(sign * vectors.T, 0.0), cells) for sign in (1.0, -1.0)]
    most: FloatArray = (np.maximum(*reached) * (1.0 + _ROUNDING)) ** 2
    return most


def shared_out(most: FloatArray, total: float) -> FloatArray:
    """A total given from the last to the first, to each as much as it takes."""
    left = total - np.append(np.cumsum(most[::-1])[:-1][::-1], 0.0)
    return np.clip(left, 0.0, most)


def row_sums(gram: FloatArray, cells: int) -> FloatArray:
    """What each cell can add with others beside it: its diagonal entry and the largest ones of its row; (cells,)."""
    beside = np.maximum(gram, 0.0)
    np.fill_diagonal(beside, 0.0)
    rows: FloatArray = np.diag(gram) + _sum_of_largest(beside, cells - 1)
    return rows


def bound_of_gram(gram: FloatArray, keys: int) -> float:
    """An upper bound of 1ᵀ_S G 1_S over all sets of `keys` cells, for any G; tight where rows fall monotonically.

    Args:
        gram: G; shape (cells, cells).
        keys: At most the number of cells.
    """
    cells = len(gram)
    beside = np.maximum(gram, 0.0)
    left_side = np.tril(np.maximum.accumulate(np.tril(beside, -1), axis=1), -1)
    right_side = np.triu(np.maximum.accumulate(np.triu(beside, 1)[:, ::-1], axis=1)[:, ::-1], 1)
    rows = left_side + right_side + np.diag(np.diag(gram))
    sums = np.zeros((cells, cells + 1))
    np.cumsum(rows, axis=1, out=sums[:, 1:])
    total = 0.0
    for left in range(keys):
        right = keys - 1 - left
        i = np.arange(left, cells - right)
        total += float(np.max(sums[i, i + right + 1] - sums[i, i - left]))
    return total * (1 + _ROUNDING)


def upper_sums(gram: FloatArray, most: int, largest_eigenvalue: float) -> FloatArray:
    """Upper bounds as in `largest_sum` for sets of 1, 2, …, `most` cells, at most all; at the cost of a few."""
    diagonal = np.diag(gram)
    beside = np.maximum(gram, 0.0)
    np.fill_diagonal(beside, 0.0)
    sorted_rows = np.cumsum(-np.sort(-beside, axis=1)[:, : most - 1], axis=1)
    rows = np.concatenate([np.zeros((len(gram), 1)), sorted_rows], axis=1) + diagonal[:, np.newaxis]
    norms = np.cumsum(np.sort(np.sqrt(diagonal))[::-1])[:most] ** 2
    by_rows = np.array([_sum_of_largest(rows[:, number - 1], number) for number in range(1, most + 1)])
    bounds = np.minimum(np.minimum(by_rows, norms), largest_eigenvalue * np.arange(1, most + 1))
    return np.asarray(bounds * (1.0 + _ROUNDING))


def _sum_of_largest(values: FloatArray, number: int) -> FloatArray:
    """Sum of the largest entries along the last axis."""
    if number == 0:
        return np.zeros(values.shape[:-1])
    largest = np.partition(values, values.shape[-1] - number, axis=-1)[..., values.shape[-1] - number :]
    total: FloatArray = largest.sum(axis=-1)
    return total


def _best_run(gram: FloatArray, cells: int) -> IntArray:
    """The run of adjacent cells of the largest sum."""
    sums = np.zeros((len(gram) + 1, len(gram) + 1))
    sums[1:, 1:] = gram.cumsum(axis=0).cumsum(axis=1)
    low = np.arange(len(gram) - cells + 1)
    high = low + cells
    runs = sums[high, high] - sums[low, high] - sums[high, low] + sums[low, low]
    return np.arange(cells) + int(np.argmax(runs))


def _climb(gram: FloatArray, gain: FloatArray, cells: int) -> float:
    """Begin with the cells of the largest gain, and improve the set until it stays; the sum it reaches."""
    reached = 0.0  # of no cells; where columns cancel, rounding makes sums negative
    while True:
        chosen = np.argpartition(-gain, cells - 1)[:cells]
        found = float(gram[np.ix_(chosen, chosen)].sum())
        if not found > reached * (1.0 + _ROUNDING):  # so that what overflows to no number ends it, too
            return max(reached, found)
        reached, gain = found, gram[:, chosen].sum(axis=1)
