"""Sums over the cells before a cell, c_i = Σ_{j < i} M[i, j]·w_j, for M = K⁻¹ of a spectral kernel.

The variances of prefix sums are running sums of these. M[i, j] is a Toeplitz and a Hankel part, each as smooth as the
distance from its singular place, and so are the weights: so c_i is a sum of a function of j that is smooth but for
both ends of 0, …, i − 1. It is summed on panels that double away from both ends, by a rule of a few nodes: a sum of
any length costs a few hundred terms. Numerical gap: below 1e-11 (the tests compare with the matrix).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from sparsehist.typing import FloatArray, IntArray
from sparsehist.workload.gram.panels import chebyshev_nodes
from sparsehist.workload.gram.spectral_kernels import Entries, SpectralKernel

# Panels of fewer cells are summed one by one.
_SHORT = 32
# Of longer panels the moments come from the series of Euler and Maclaurin, of shorter ones from their cells.
_LONG = 2048


def causal_sums(
    kernel: SpectralKernel, entries: Entries, weights: FloatArray, cells: IntArray, *, plain: int
) -> FloatArray:
    """Σ_{j < i} M[i, j]·w_j for some cells i.

    Args:
        kernel: Of at least n cells.
        entries: Its `inverse_entries()`.
        weights: w; shape (n,), smooth but within `plain` cells of the ends.
        cells: i; shape (m,).
        plain: Cells at both ends that are summed one by one.

    Returns:
        Shape (m,).
    """
    sums = np.empty(cells.size)
    for place, i in enumerate(cells.tolist()):
        j, rule = rule_of_sum(i, plain)
        row = entries(i - j) + kernel.sign * entries(i + j + kernel.shift)
        sums[place] = rule @ (row * weights[j])
    return sums


def inverse_diagonal(kernel: SpectralKernel, entries: Entries, cells: IntArray) -> FloatArray:
    """M[i, i] for some cells."""
    return np.asarray(entries(np.zeros(1, np.int64)) + kernel.sign * entries(2 * cells + kernel.shift))


def rule_of_sum(count: int, plain: int) -> tuple[IntArray, FloatArray]:
    """Places j and their weights, so that sums over 0, …, count − 1 of functions smooth but at the ends are kept."""
    places, rules, first = [np.arange(min(plain, count))], [np.ones(min(plain, count))], min(plain, count)
    while count - first > plain:
        size = 1 << (min(first, (count - first) // 2).bit_length() - 1)
        if size < _SHORT:
            break
        nodes, rule = _panel(size)
        places.append(first + nodes)
        rules.append(rule)
        first += size
    return np.concatenate([*places, np.arange(first, count)]), np.concatenate([*rules, np.ones(count - first)])


@lru_cache(maxsize=64)
def _panel(size: int) -> tuple[IntArray, FloatArray]:
    """Nodes in 0, …, size − 1 and weights that sum polynomials of less than their number of degrees exactly."""
    nodes = chebyshev_nodes(size)
    at_nodes = np.polynomial.chebyshev.chebvander((2 * nodes + 1) / size - 1, nodes.size - 1)
    return nodes, np.asarray(np.linalg.solve(at_nodes.T, _moments(size, nodes.size)), np.float64)


def _moments(size: int, number: int) -> FloatArray:
    """Σ_j T_k at the middles of `size` equal parts of [−1, 1], for the first Chebyshev polynomials."""
    if size <= _LONG:
        middles = (2 * np.arange(size) + 1) / size - 1
        return np.asarray(np.polynomial.chebyshev.chebvander(middles, number - 1).sum(axis=0))
    k, step = np.arange(number, dtype=np.float64), 2 / size
    with np.errstate(divide="ignore"):
        integral = np.where(k == 1, 0.0, 2 / (1 - k**2))
    first, third = 2 * k**2, 2 * k**2 * (k**2 - 1) * (k**2 - 4) / 15
    series = integral - step**2 / 24 * first + 7 * step**4 / 5760 * third
    return np.asarray(np.where(k % 2 == 0, series / step, 0.0))
