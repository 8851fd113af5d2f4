"""Upper bounds of how far a unit of at most l cells moves the measured queries R·x, in L2 and in L1.

With the Gram matrix G = RᵀR, a set S of cells moves R·x by 1ᵀ_S G 1_S in squared L2. Row i of G adds at most T_l(i),
the sum of its l largest positive entries, so the sum of the l largest T_l(i) bounds all sets; so does l times the
largest eigenvalue of G. The functions here take G as it is known: written out, as rows that are the same for all
cells up to their order, as entries that fall away from the diagonal, or factor by factor. All bounds are rounded up.
Derivations: docs/mathematics.md, "Workloads".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import numpy as np

from sparsehist.errors import DeclarationError
from sparsehist.typing import FloatArray
from sparsehist.workload.queries.matrix import Matrix
from sparsehist.workload.queries.ranges import RangeRows
from sparsehist.workload.queries.workload import Workload

LARGEST_GRAM = 1024
"""Cells; beyond it, a matrix of cells by cells is not written out."""

# Relative; far above what sums of so many terms lose.
ROUND_UP = 1.0 + 1e-9
_RANK_GROUPS = 256
_MOST_PATTERNS = 2**12
_BLOCK = 32


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
        # Cells i <= j are both in the ranges that begin at i or before and end at j or after.
        low, high = workload.bounds()
        begun = np.bincount(low * n + high, minlength=n * n).reshape(n, n).cumsum(axis=0)
        both = np.triu(begun[:, ::-1].cumsum(axis=1)[:, ::-1]).astype(np.float64)
        return both + np.triu(both, 1).T
    if isinstance(workload, Matrix):
        return np.asarray((workload.matrix.T @ workload.matrix).toarray(), np.float64)
    cells = np.eye(n)
    blocks = [workload.apply_transposed(workload.apply(cells[:, at : at + _BLOCK])) for at in range(0, n, _BLOCK)]
    gram = np.concatenate(blocks, axis=1)
    return (gram + gram.T) / 2.0


def largest(values: FloatArray, number: int) -> FloatArray:
    """The largest values along the last axis, at most `number` of them, falling."""
    kept = min(number, values.shape[-1])
    return -np.sort(-np.partition(values, values.shape[-1] - kept, axis=-1)[..., values.shape[-1] - kept :], axis=-1)


def squared_l2_of_gram(gram: FloatArray, keys: int) -> float:
    """Bound 1ᵀ_S G 1_S over sets of at most `keys` cells, for G written out; shape (cells, cells).

    Example:
        >>> round(squared_l2_of_gram(np.array([[1.0, 0.5], [0.5, 1.0]]), 2), 6)
        3.0
    """
    rows = largest(np.maximum(gram, 0.0), keys).sum(axis=1)
    norms = largest(np.sqrt(np.maximum(np.diag(gram), 0.0)), keys)
    eigenvalue = np.linalg.eigvalsh(gram)[-1] if keys > 1 else np.inf
    return float(min(largest(rows, keys).sum(), norms.sum() ** 2, keys * eigenvalue)) * ROUND_UP


def squared_l2_by_rank(rows: Callable[[int, int], FloatArray], cells: int, keys: int) -> float:
    """Bound 1ᵀ_S Q 1_S over sets of at most `keys` cells, for Q >= 0 whose rows fall away from the diagonal.

    A cell of S with `a` members on its left has at most the entries from i - a to i + l - 1 - a in its row. For each
    rank a that is largest over the cells i; ranks beyond 256 are taken in groups.

    Args:
        rows: From (left, right) to the sums of Q over i - left, …, i + right, clipped at both ends, for every cell
            i; shape (cells,).
        cells: Size of Q.
        keys: l, at most `cells`.
    """
    edges = np.unique(np.linspace(0, keys, _RANK_GROUPS + 1).astype(np.int64)).tolist()
    total = 0.0
    for first, end in pairwise(edges):
        here = rows(end - 1, keys - 1 - first)[first : cells - keys + end]
        total += (end - first) * float(here.max())
    return total * ROUND_UP


class TableGram(NamedTuple):
    """The Gram matrix of a strategy that measures tables of marginals.

    It depends only on the columns in which two cells differ:

    G(x, x') = Σ_A f_A Π_{i ∈ A, x_i ≠ x'_i} r_i over subsets A of the columns.

    Attributes:
        sizes: n_i, number of values of each column.
        subsets: A, each a tuple of column numbers.
        parts: f_A >= 0; shape (subsets,).
        ratios: r_i in [-1, 0]; shape (columns,).
    """

    sizes: tuple[int, ...]
    subsets: Sequence[tuple[int, ...]]
    parts: FloatArray
    ratios: FloatArray

    def squared_l2(self, keys: int) -> float:
        """Bound 1ᵀ_S G 1_S over sets of at most `keys` cells, by giving pairs of cells to the largest patterns first.

        Of l cells each has at most so many others at a pattern as there are, and at most e(l) pairs differ in one
        column only: e(l) is the sum of the digits of the first l cells, the largest column last.

        Source: Lindsey 1964 for e(l).
        """
        whole, patterns = self._patterns()
        in_one_column, left, total = 2 * _digit_sum(self.sizes, keys), keys * (keys - 1), keys * whole
        for value, others, columns in sorted(patterns, reverse=True):
            pairs = min(left, keys * min(keys - 1, others), in_one_column if columns == 1 else left)
            in_one_column -= pairs if columns == 1 else 0
            left -= pairs
            total += pairs * max(value, 0.0)
        return total * ROUND_UP

    def row(self, keys: int) -> FloatArray:
        """The `keys` largest entries of a row in absolute value, falling; shape (at most keys,)."""
        whole, patterns = self._patterns()
        ordered = sorted(((abs(value), others) for value, others, _ in patterns), reverse=True)
        entries = [np.full(min(keys, others), value) for value, others in ordered]
        return np.concatenate([[whole], *entries])[:keys]

    def _patterns(self) -> tuple[float, list[tuple[float, int, int]]]:
        """G(x, x), and for each pattern its value, the number of other cells at it, and its number of columns.

        Of more columns than can be listed only one is looked at, and its value is a bound.
        """
        wide = [i for i, size in enumerate(self.sizes) if size > 1]
        place = {column: i for i, column in enumerate(wide)}
        held = np.zeros((len(self.subsets), len(wide)), bool)
        pairs = [(row, place[i]) for row, subset in enumerate(self.subsets) for i in subset if i in place]
        held[tuple(np.array(pairs, np.int64).reshape(-1, 2).T)] = True
        ratios, longest = self.ratios[wide], 1
        while longest < len(wide) and sum(math.comb(len(wide), k) for k in range(longest + 2)) <= _MOST_PATTERNS:
            longest += 1
        found = []
        for length in range(1, min(longest, len(wide)) + 1):
            for pattern in map(list, combinations(range(len(wide)), length)):
                value = float(self.parts @ np.where(held[:, pattern], ratios[pattern], 1.0).prod(axis=1))
                found.append((value, math.prod(self.sizes[wide[i]] - 1 for i in pattern), length))
        if longest < len(wide):
            most = max(float(self.parts @ np.where(held[:, i], -ratios[i], 1.0)) for i in range(len(wide)))
            found.append((most, math.prod(self.sizes), longest + 1))
        return float(self.parts.sum()), found


def _digit_sum(sizes: Sequence[int], keys: int) -> int:
    """Sum of the digits of 0, …, keys - 1, the largest of these sizes being the lowest base."""
    rest, total = np.arange(keys), 0
    for size in sorted(sizes, reverse=True):
        base = min(size, keys)  # so that it is an int64
        total += int((rest % base).sum())
        rest //= base
    return total


def products_of_rows(rows: Sequence[FloatArray], keys: int) -> FloatArray:
    """The `keys` largest entries of a row of G1 ⊗ G2 ⊗ …, from those of the factors' rows."""
    best = np.ones(1)
    for row in rows:
        best = largest(np.outer(best, row[:keys]).reshape(-1), keys)
    return best


def worst_row(gram: FloatArray, keys: int) -> FloatArray:
    """A row that the rows of |G| are below: the sums of its first 1, 2, … entries are the greatest of all rows.

    For sums of largest entries, also of products with other rows, it stands for any row (weak majorisation).
    """
    sums = np.cumsum(largest(np.abs(gram), keys), axis=1).max(axis=0)
    return np.diff(sums, prepend=0.0)


def l1_of_columns(matrix: Any, keys: int) -> float:
    """Bound the L1 norm of R·1_S by the sum of the largest column norms of R; exact where R >= 0."""
    return float(largest(np.abs(matrix).sum(axis=0), keys).sum()) * ROUND_UP
