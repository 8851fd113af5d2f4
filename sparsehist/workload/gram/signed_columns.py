"""What at most l columns of a matrix add up to in L1: certified bounds for matrices without structure, written out.

For matrices with negative entries, as where none is negative the l largest columns are exact. With x the indicator
of a set S of at most l columns and v = R·x:

- *Few sets* are all tried.
- *Pairs and triples.* x is the mean over the pairs in S of their sum, times |S|/2, and so on: ‖R·x‖ is at most the
  sum over the pairs of a set of the norms of their sums, over |S| - 1, or over its triples, over
  (|S| - 1)(|S| - 2)/2. Of each set such a sum is bounded from the largest terms that each of its columns, or pairs of
  columns, can be in. Exact for two cells and for three.
- *Squares.* For any b >= 0, Σ |v_i| <= b·|S| + Σ |u_i| with u = (R - b·I)·x where R is square, and for any α > 0
  Σ |u_i| <= (Σα·Σ u_i²/α_i)^½ by Cauchy and Schwarz. The second sum is a quadratic form in x, that of a matrix
  with eigenvalues λ_k and eigenvectors e_k: Σ λ_k·t_k, where Σ t_k <= l, and t_k = (e_kᵀ·x)² is at most the square
  of what l entries of e_k of one sign come to. What l cells have along the diagonal, b takes out as it is; of
  what is left only a root mean square is known. With x = ½ + z, z of entries ±½, the same holds for z: ‖R·x‖ is at
  most that of R·½ and that of R·z, with n in the place of l/½; better for more than half of the columns.

b and α come from a fixed number of steps of descent; any values prove a bound. Why none is within a few per cent
of the truth for every matrix: docs/mathematics.md, "Why not within 5 %". Derived here.
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np

from sparsehist.typing import FloatArray
from sparsehist.workload.gram.written_out import row_sums, shared_out, squares_within

_ROUNDING = 1e-12
_FEW_SETS, _FEW_SUMS = 20_000, 2**21
# Sums of two columns are listed for some 250 cells, of three for 64: 30 ms.
_MOST_SUMS = 2**24
_MOST_IN_TRIPLES = 12
# The steps of descent, fewer of more than 110 cells: 20 ms; and where they begin.
_STEPS, _EIGENVECTORS = 10, 2**24
_TAKEN, _LEAST = 0.85, 1e-6


def largest_l1(columns: FloatArray, n_cells: int) -> float:
    """Bound the L1 norm of the sum of at most `n_cells` columns of R.

    Args:
        columns: R; shape (rows, columns).
        n_cells: At least 1.

    Example:
        >>> round(largest_l1(np.array([[1.0, 1.0, -1.0], [1.0, -1.0, 0.0]]), 2), 9)
        2.0
    """
    number = min(n_cells, columns.shape[1])
    bound = l1_by_columns(columns, number)
    if number > 2 and bound > 0.0 and (columns < 0.0).any():
        cells = columns.shape[1]
        ways = [False, True] if 3 * number > cells else [False]
        if cells**3 > _EIGENVECTORS:  # each costs 30 ms: the better one by its number of entries
            ways = [2 * number > cells]
        bound = min(bound, *(_by_squares(columns, number, halves=halves) for halves in ways))
    return bound * (1.0 + _ROUNDING)


def l1_by_columns(columns: FloatArray, number: int) -> float:
    """Bound the same from the norms of columns, of sums of two and of three, or of all sets if they are few."""
    rows, cells = columns.shape
    bound = float(np.sort(np.abs(columns).sum(axis=0))[::-1][:number].sum())
    if number == 1 or not (columns < 0.0).any():
        return bound
    sets = sum(math.comb(cells, size) for size in range(1, number + 1))
    if sets <= _FEW_SETS and sets * rows <= _FEW_SUMS:
        return max(_of_all_sets(columns, size) for size in range(1, number + 1))
    if rows * cells**2 <= _MOST_SUMS:
        bound = min(bound, _by_pairs(columns, number))
    if rows * cells**3 <= _MOST_SUMS and 2 < number <= _MOST_IN_TRIPLES:
        bound = min(bound, _by_triples(columns, number))
    return bound * (1.0 + _ROUNDING)


def _of_all_sets(columns: FloatArray, size: int) -> float:
    sets = np.array(list(combinations(range(columns.shape[1]), size)), np.int64)
    chosen = np.zeros((columns.shape[1], len(sets)))
    chosen[sets.T, np.arange(len(sets))] = 1.0
    return float(np.abs(columns @ chosen).sum(axis=0).max())


def _pairs(columns: FloatArray) -> FloatArray:
    """Norms of the sums of two columns; 0 where they are one."""
    sums = np.zeros((columns.shape[1], columns.shape[1]))
    for row in columns:
        sums += np.abs(row[:, np.newaxis] + row)
    np.fill_diagonal(sums, 0.0)
    return sums


def _by_pairs(columns: FloatArray, number: int) -> float:
    """By pairs, for all sizes up to the number: where columns cancel, fewer of them may come to more."""
    largest = np.cumsum(-np.sort(-_pairs(columns), axis=1), axis=1)
    of_sizes = [float(_largest(largest[:, size - 2], size)) / (2.0 * (size - 1)) for size in range(2, number + 1)]
    return max(float(np.abs(columns).sum(axis=0).max()), *of_sizes)


def _by_triples(columns: FloatArray, number: int) -> float:
    """By triples, for all sizes from three."""
    cells = columns.shape[1]
    sums = np.zeros((cells, cells, cells))
    for first in range(cells - 2):
        others = columns[:, first + 1 :]
        two = (others + columns[:, first : first + 1])[:, :, np.newaxis] + others[:, np.newaxis]
        sums[first, first + 1 :, first + 1 :] = np.abs(two, out=two).sum(axis=0)
    i = np.arange(cells)
    sums[:, i, i] = 0.0
    sums += sums.transpose(1, 0, 2) + sums.transpose(1, 2, 0)
    with_two = np.cumsum(-np.sort(-sums, axis=2)[:, :, : number - 2], axis=2)
    of_sizes = [
        float(_largest(_largest(with_two[:, :, size - 3], size - 1), size)) / (3.0 * (size - 1) * (size - 2))
        for size in range(3, number + 1)
    ]
    return max(float(np.abs(columns).sum(axis=0).max()), float(_pairs(columns).max()), *of_sizes)


def _by_squares(columns: FloatArray, number: int, *, halves: bool) -> float:
    """By squares of R·x; or of R·z for sets of any size."""
    rows, cells = columns.shape
    identity = np.eye(rows, cells) * float(rows == cells)
    usual = max(0.0, float(np.median(np.diag(columns)))) if rows == cells else 0.0
    # z has entries ±½: signs, half of whose sums count
    share, entries = (0.5, float(cells)) if halves else (1.0, float(number))
    known = share * float(np.abs(columns.sum(axis=1)).sum()) if halves else 0.0
    norms = np.sqrt(np.square(columns).mean(axis=1))
    weights, taken, best = np.maximum(norms / norms.max(), _LEAST), _TAKEN * usual, math.inf
    for step in range(max(1, min(_STEPS, _EIGENVECTORS // cells**3))):
        left = columns - taken * identity
        gram = left.T @ (left / weights[:, np.newaxis])
        values, vectors = np.linalg.eigh(gram)
        most = np.square(np.abs(vectors).sum(axis=0)) if halves else squares_within(vectors, number)
        room = shared_out(most, entries)
        squares = float(np.maximum(values, 0.0) @ room)
        least = squares if halves else min(squares, float(_largest(row_sums(gram, number), number)))
        scale = share * math.sqrt(float(weights.sum()))
        best = min(best, known + share * taken * entries + scale * math.sqrt(least))
        if squares <= 0.0:
            break
        size = 1.0 / (1.0 + 0.3 * step)
        ahead = left @ vectors
        if usual:
            gain = scale * float(np.sum((ahead * vectors) @ room / weights)) / (math.sqrt(squares) * share * entries)
            taken = max(0.0, taken - 0.1 * size * usual * float(np.clip(1.0 - gain, -1.0, 1.0)))
        loads = np.square(ahead) @ room / weights * (rows / squares)
        weights = weights * np.exp(np.clip(0.15 * size * (loads - weights / weights.mean()), -0.3, 0.3))
    return best


def _largest(values: FloatArray, number: int) -> FloatArray:
    """Sum of the largest entries along the last axis."""
    number = min(number, values.shape[-1])
    return np.asarray(np.partition(values, -number, axis=-1)[..., -number:].sum(axis=-1))
