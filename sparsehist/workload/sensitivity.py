"""Compute upper bounds on the sensitivity: how much a unit with at most l cells can change R·x in L2 or L1 norm.

The cells S of a unit add a vector of squared L2 norm Σ_{i, j ∈ S} G[i, j] to R·x, for G = RᵀR. Bounds are rounded up.

Source: docs/mathematics.md, "Workloads".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from sparsehist.errors import DeclarationError
from sparsehist.typing import FloatArray
from sparsehist.workload.queries.matrix import Matrix
from sparsehist.workload.queries.ranges import RangeRows
from sparsehist.workload.queries.workload import Workload

LARGEST_GRAM = 1024
"""Largest number of cells for which a Gram matrix (cells by cells) is computed."""

# Bounds are multiplied by this factor, which exceeds 1 by far more than the relative error of sums in this module.
ROUND_UP = 1.0 + 1e-9
_MOST_PATTERNS = 2**12
_BLOCK = 32


def gram_of(workload: Workload) -> FloatArray:
    """Return the Gram matrix AᵀA; shape (cells, cells). Raise an error if there are more than 1,024 cells."""
    n = workload.n_cells
    if n > LARGEST_GRAM:
        raise DeclarationError(f"the workload has too many cells for a Gram matrix: {n}, limit {LARGEST_GRAM}")
    if isinstance(workload, RangeRows):
        # A range contains both cells i <= j if it begins at or before i and ends at or after j.
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
    """Return the `number` largest values along the last axis, or all if there are fewer, in decreasing order."""
    kept = min(number, values.shape[-1])
    return -np.sort(-np.partition(values, -kept, axis=-1)[..., -kept:], axis=-1)


def squared_l2_of_gram(gram: FloatArray, max_keys: int) -> float:
    """Return the smallest of three bounds on the squared L2 sensitivity, given G = RᵀR and `max_keys`."""
    rows = largest(np.maximum(gram, 0.0), max_keys).sum(axis=1)
    norms = largest(np.sqrt(np.maximum(np.diag(gram), 0.0)), max_keys)
    eigenvalue = np.linalg.eigvalsh(gram)[-1] if max_keys > 1 else np.inf
    return float(min(largest(rows, max_keys).sum(), norms.sum() ** 2, max_keys * eigenvalue)) * ROUND_UP


def squared_l2_of_tables(
    sizes: Sequence[int], subsets: Sequence[tuple[int, ...]], parts: FloatArray, ratios: FloatArray, keys: int
) -> float:
    """Bound the squared L2 sensitivity if G[x, x'] depends only on the columns in which the cells x and x' differ.

    Let x_i be the value of cell x in column i. Then G[x, x'] = Σ_C f_C Π_{i ∈ C, x_i ≠ x'_i} r_i is a sum over sets C
    of columns, given as `subsets`. `parts` contains f_C >= 0 for each set C, and `ratios` contains r_i, from -1 to 0.
    The bound assumes that a unit's cells form as many pairs (x, x') with large G[x, x'] as the domain allows.

    Source: Lindsey 1964 for the number of pairs that differ in one column only.
    """
    wide = [column for column, size in enumerate(sizes) if size > 1]
    # factors[C, i] is r_i if the set C contains column i, and otherwise 1.
    factors = np.ones((len(subsets), len(sizes)))
    for row, subset in enumerate(subsets):
        factors[row, list(subset)] = ratios[list(subset)]
    longest = 1
    while longest < len(wide) and sum(math.comb(len(wide), k) for k in range(longest + 2)) <= _MOST_PATTERNS:
        longest += 1
    patterns = []
    for length in range(1, min(longest, len(wide)) + 1):
        for pattern in combinations(wide, length):
            value = float(parts @ factors[:, pattern].prod(axis=1))
            patterns.append((value, math.prod(sizes[column] - 1 for column in pattern), length))
    # If cells x and x' differ in column i and perhaps others, |G[x, x']| <= Σ_C |factors[C, i]|·f_C, as |r_i| <= 1.
    if longest < len(wide):
        most = float((parts @ np.abs(factors[:, wide])).max())
        patterns.append((most, math.prod(sizes), longest + 1))
    in_one_column, left, total = 2 * _digit_sum(sizes, keys), keys * (keys - 1), keys * float(parts.sum())
    for value, others, columns in sorted(patterns, reverse=True):
        pairs = min(left, keys * min(keys - 1, others), in_one_column if columns == 1 else left)
        in_one_column -= pairs if columns == 1 else 0
        left -= pairs
        total += pairs * max(value, 0.0)
    return total * ROUND_UP


def _digit_sum(sizes: Sequence[int], max_keys: int) -> int:
    """Return how many pairs of cells, at most, differ in exactly one column, among `max_keys` distinct cells."""
    rest, total = np.arange(max_keys), 0
    for size in sorted(sizes, reverse=True):
        base = min(size, max_keys)  # fits an int64
        total += int((rest % base).sum())
        rest //= base
    return total


def products_of_rows(rows: Sequence[FloatArray], max_keys: int) -> FloatArray:
    """Return bounds on the largest entries of a row of G1 ⊗ G2 ⊗ …, given such bounds for each factor in `rows`."""
    best = np.ones(1)
    for row in rows:
        best = largest(np.outer(best, row[:max_keys]).reshape(-1), max_keys)
    return best


def worst_row(gram: FloatArray, max_keys: int) -> FloatArray:
    """Return a vector v such that any k entries of a row of `|G|` sum to at most v[0] + … + v[k - 1], for every k."""
    sums = np.cumsum(largest(np.abs(gram), max_keys), axis=1).max(axis=0)
    return np.diff(sums, prepend=0.0)


def l1_of_columns(matrix: Any, max_keys: int) -> float:
    """Bound the L1 sensitivity by the sum of the `max_keys` largest L1 norms of columns of R; exact if R >= 0."""
    return float(largest(np.abs(matrix).sum(axis=0), max_keys).sum()) * ROUND_UP
