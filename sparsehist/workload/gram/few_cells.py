"""The greatest of what few cells of one unit move marginals by: all sets of cells that differ are tried.

What l cells move marginals by depends, column by column, only on which of the cells agree there: on a partition of
the cells for each column. As the cells have no order, of one column only one partition of each kind has to be tried,
of the others all. Sets of cells are partitions that never have two cells together in all columns. What is maximised
is a sum of terms that each look at the partitions of a few columns: the L1 norm of a residual, or a part of the sum
of a Gram matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np

from sparsehist.typing import FloatArray, IntArray

Term = Callable[[tuple[int, ...], Sequence[IntArray], int], FloatArray]
"""Of columns A, their partitions of shape (partitions, cells), and l: an array with one axis for each of A."""

_MOST_CELLS, _MOST_COLUMNS = 8, 10
_COMBINATIONS = 2**20
"""Of partitions: six cells in three columns, five in four. A tenth of a second."""
_NUMBERS = 2**20
"""In the table of one term: of residuals, a hundredth of a second."""


def greatest(sizes: Sequence[int], subsets: Sequence[tuple[int, ...]], term: Term, n_cells: int) -> float:
    """The greatest Σ_A term(A) over sets of at most so many cells; infinite where these are too many to be tried.

    Args:
        sizes: Number of values of each column; together at least as many cells as a unit has.
        subsets: The sets A of columns.
        term: What is added up.
        n_cells: l >= 1.

    Example:
        >>> greatest((5, 5), [()], lambda columns, parts, cells: np.float64(cells), 3)
        3.0
    """
    best = -math.inf
    if n_cells > _MOST_CELLS or len(sizes) > _MOST_COLUMNS:
        return math.inf
    for cells in range(n_cells, 0, -1):
        parts = [partitions(cells, size) for size in sizes]
        largest = max(range(len(parts)), key=lambda column: len(parts[column]))
        parts[largest] = _kinds(parts[largest])
        rooms = [math.prod(len(parts[column]) * (int(parts[column].max()) + 2) for column in one) for one in subsets]
        if math.prod(map(len, parts)) > _COMBINATIONS or max(rooms) > _NUMBERS:
            return math.inf
        pairs = np.array(list(combinations(range(cells), 2)), np.int64).reshape(-1, 2)
        together = np.full((), 2 ** len(pairs) - 1, np.int64)
        for part in parts:
            alike = part[:, pairs[:, 0]] == part[:, pairs[:, 1]]
            together = together[..., np.newaxis] & (alike @ 2 ** np.arange(len(pairs), dtype=np.int64))
        terms = {}
        for one in subsets:
            others = tuple(column for column in range(len(sizes)) if column not in one)
            terms[one] = np.expand_dims(term(one, [parts[column] for column in one], cells), others)
        best = max(best, float(np.where(together == 0, _added(terms, len(sizes)), -np.inf).max()))
    return best


def _added(terms: dict[tuple[int, ...], FloatArray], n_columns: int) -> FloatArray:
    """The sum of terms by their columns, those with the same later columns first: few are as large as the whole."""
    for column in range(n_columns):
        merged: dict[tuple[int, ...], FloatArray] = {}
        for one, value in terms.items():
            later = tuple(other for other in one if other > column)
            merged[later] = merged[later] + value if later in merged else value
        terms = merged
    return terms[()]


def merge_unused(
    sizes: Sequence[int], subsets: Sequence[tuple[int, ...]]
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...], list[int]]:
    """Drop columns of one value, and make one, the last, of those in no subset: cells look the same there.

    Returns:
        Sizes, subsets in new numbers, and the old numbers of the columns that are used.
    """
    used = sorted({column for subset in subsets for column in subset if sizes[column] > 1})
    number = {column: place for place, column in enumerate(used)}
    unused = math.prod(size for column, size in enumerate(sizes) if column not in number)
    merged = (*(sizes[column] for column in used), *([unused] if unused > 1 else []))
    return merged, tuple(tuple(number[i] for i in subset if i in number) for subset in subsets), used


def partitions(cells: int, most: int) -> IntArray:
    """All partitions of some cells into at most so many blocks; the block of each cell, numbered as they appear.

    Example:
        >>> partitions(3, 2).tolist()
        [[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1]]
    """
    made = np.zeros((1, 1), np.int64)
    for _ in range(1, cells):
        options = np.minimum(made.max(axis=1) + 2, min(most, cells))
        before = np.repeat(np.arange(len(made)), options)
        block = np.arange(before.size) - np.repeat(np.cumsum(options) - options, options)
        made = np.concatenate([made[before], block[:, np.newaxis]], axis=1)
    return made


def _kinds(parts: IntArray) -> IntArray:
    """One partition of each kind: of the same sizes of blocks."""
    sizes = np.sort((parts[:, :, np.newaxis] == np.arange(parts.shape[1])).sum(axis=1), axis=1)
    return parts[np.unique(sizes, axis=0, return_index=True)[1]]


def sums_of_products(factors: Sequence[FloatArray]) -> FloatArray:
    """Σ_f Π_i factors[i][…, f], over all choices of a row of each: an axis for each factor."""
    first = factors[0]
    for factor in factors[1:-1]:
        first = (first[:, np.newaxis] * factor).reshape(-1, factor.shape[1])
    made: FloatArray = first @ factors[-1].T if len(factors) > 1 else first.sum(axis=1)
    return made.reshape([len(factor) for factor in factors])


def norms_of_residual(sizes: Sequence[int], parts: Sequence[IntArray]) -> FloatArray:
    """The L1 norm of the residual of some columns, at each choice of their partitions.

    Args:
        sizes: Number of values of each of these columns.
        parts: Their partitions; each of shape (partitions, cells).
    """
    lengths: list[int] = []
    inside = []
    for part in parts:
        blocks = np.arange(int(part.max()) + 1)
        lengths += [len(part), blocks.size]
        inside.append((part[:, np.newaxis, :] == blocks[:, np.newaxis]).reshape(-1, part.shape[1]).astype(np.float64))
    table = sums_of_products(inside).reshape(lengths)
    for axis, size in enumerate(sizes):
        # One more value stands for all those that no cell has.
        mean = table.sum(axis=2 * axis + 1, keepdims=True) / size
        table = np.concatenate([table - mean, -mean], axis=2 * axis + 1)
    norm = np.abs(table)
    for axis, size in reversed(list(enumerate(sizes))):
        used = norm.shape[2 * axis + 1] - 1
        norm = np.moveaxis(norm, 2 * axis + 1, -1) @ np.append(np.ones(used), float(size - used))
    return norm
