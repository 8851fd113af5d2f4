"""What others published for the workloads of `workload_error.py`, computed: one cell per unit, Gaussian noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from itertools import combinations

import numpy as np

from sparsehist.workload import Kronecker, Prefix, Total, Union
from sparsehist.workload.strategies.toeplitz import SquareRoot

BOUND, LIMIT = 0.748, 0.7019
"""Of γ − ln(n)/π for prefix sums, γ the root of the mean squared error: the best published bound, and the least."""

_ENDS, _NODES = 64, 6
_STEPS = 300


def normalised_square_root(n: int) -> float:
    """Mean squared error of prefix sums under the square root with columns of norm 1.

    The variance of each of the first and last 64 sums, and of some between, by Gauss-Legendre nodes on panels that
    double: within 3e-7 of the mean of all up to 2**14.

    Source: Henzinger, Kalinin and Upadhyay 2025.
    """
    strategy = SquareRoot(Prefix(n), scaled=True)
    edges = [_ENDS]
    while 2 * edges[-1] < n // 2:
        edges.append(2 * edges[-1])
    nodes, widths = np.polynomial.legendre.leggauss(_NODES)
    places, weights = [np.arange(_ENDS, dtype=float)], [np.ones(_ENDS)]
    for low, high in zip(edges, [*edges[1:], n // 2], strict=True):
        places.append((low + high - 1 + nodes * (high - low)) / 2)
        weights.append(widths * (high - low) / 2)

    @cache
    def variance(row: int) -> float:
        query = np.zeros(n)
        query[: row + 1] = 1.0
        return float(np.sum(strategy.to_cells_transposed(query) ** 2))

    total = 0.0
    for place, weight in zip(np.concatenate(places), np.concatenate(weights), strict=True):
        for at in (place, n - 1 - place):
            below = math.floor(at)
            part = at - below
            total += weight * (variance(below) * (1 - part) + (variance(below + 1) * part if part else 0.0))
    return total / n * strategy.l2(1) ** 2


def prefix_marginals(sizes: Sequence[int], order: int) -> Union:
    """Prefix sums along the columns of every marginal of up to `order` columns."""
    subsets = _subsets(len(sizes), order)
    parts = [Kronecker(*(Prefix(n) if i in s else Total(n) for i, n in enumerate(sizes))) for s in subsets]
    return Union(*parts)


def planner_plus(sizes: Sequence[int], order: int) -> float:
    """Mean squared error of `prefix_marginals` under ResidualPlanner+, each column with the best strategy there is.

    The residual of a subset asks its columns centred, each by a strategy of its own, and sums over the others; the
    noise of the residuals is shared out for the least mean error in closed form, by Cauchy and Schwarz.

    Source: He, Xiao, Zhang and Kifer, ResidualPlanner+.
    """
    subsets = _subsets(len(sizes), order)
    centred, whole = {}, {}
    for n in set(sizes):
        asked = np.tril(np.ones((n, n)))
        inside = np.eye(n) - 1 / n
        centred[n] = _least_error(inside @ asked.T @ asked @ inside)
        whole[n] = float(np.sum(asked.mean(axis=1) ** 2))
    errors = [
        sum(
            math.prod((centred if i in residual else whole)[sizes[i]] for i in subset)
            for subset in subsets
            if set(residual) <= set(subset)
        )
        for residual in subsets
    ]
    queries = sum(math.prod(sizes[i] for i in subset) for subset in subsets)
    return sum(map(math.sqrt, errors)) ** 2 / queries


def _subsets(columns: int, order: int) -> list[tuple[int, ...]]:
    return [subset for length in range(order + 1) for subset in combinations(range(columns), length)]


def _least_error(gram: np.ndarray) -> float:
    """The least tr(gram·X⁺) over X of diagonal at most 1, by weights on the cells that make it equal on all."""
    weights = np.full(len(gram), 1 / len(gram))
    for _ in range(_STEPS):
        roots = np.sqrt(weights)
        values, vectors = np.linalg.eigh(roots[:, np.newaxis] * gram * roots)
        root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        weights = weights * np.sqrt(np.diag(root) / weights)
        weights /= weights.sum()
    found = root / np.outer(roots, roots)
    return float(np.trace(gram @ np.linalg.pinv(found / np.diag(found).max(), rcond=1e-9)))
