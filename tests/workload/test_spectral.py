"""Tests that transforms and tables of the spectral strategy equal explicit matrices, for any number of cells."""

from __future__ import annotations

import numpy as np
import pytest

from sparsehist.workload import Prefix, Ranges
from sparsehist.workload.strategies.spectral import Spectral
from sparsehist.workload.strategies.spectral_kernels import PrefixKernel, RangesKernel


def _gram(kind, n):
    i = np.arange(n)
    if kind is PrefixKernel:
        return n - np.maximum.outer(i, i).astype(float)
    return (np.minimum.outer(i, i) + 1.0) * (n - np.maximum.outer(i, i))


def _matrix(kernel, table):
    i = np.arange(kernel.n)
    return table[np.abs(i[:, None] - i)] + kernel.sign * table[i[:, None] + i + kernel.shift]


@pytest.mark.parametrize("kind", [PrefixKernel, RangesKernel])
@pytest.mark.parametrize("blend", [0.0, 2.5])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 8, 33])
def test_transform_and_tables_are_those_of_the_matrix(kind, blend, n):
    """The spectral transform and tables agree with explicit singular vectors, matrix roots and inverses."""
    kernel, W = kind(n), _gram(kind, n)
    transform = kernel.transform(np.eye(n))
    np.testing.assert_allclose(transform.T @ transform, np.eye(n), atol=1e-12)
    np.testing.assert_allclose(kernel.transform_back(transform), np.eye(n), atol=1e-12)
    np.testing.assert_allclose(transform.T @ np.diag(kernel.singular_values**2) @ transform, W, atol=1e-9)
    values, vectors = np.linalg.eigh(W)
    root = vectors * (np.sqrt(values) + blend * kernel.unit) @ vectors.T
    spectrum = kernel.singular_values + blend * kernel.unit
    for found, wanted in ((spectrum, root), (1 / spectrum, np.linalg.inv(root))):
        np.testing.assert_allclose(_matrix(kernel, kernel.table(found)), wanted, atol=1e-10 * np.abs(wanted).max())


@pytest.mark.parametrize("workload", [Prefix(1201), Ranges(1201)], ids=str)
@pytest.mark.parametrize("parameters", [{}, {"blend": 3}, {"window": 20, "blend": 0.5}])
def test_variances_of_a_long_column_are_those_of_its_queries(workload, parameters):
    """The spectral variances of prefix sums and ranges on a long column agree with the explicit matrix."""
    strategy = Spectral(workload, **parameters)
    cells = strategy.to_cells(np.eye(1201))
    assert np.sum(strategy.apply(np.eye(1201)) ** 2, axis=0).max() == pytest.approx(1.0)
    sums = np.cumsum(cells, axis=0)
    np.testing.assert_allclose(strategy.prefix_variances, np.sum(sums**2, axis=1), rtol=1e-9)
    low, high = np.array([0, 0, 7, 700, 300]), np.array([0, 900, 7, 700, 1200])
    ranges = sums[high] - np.where(low[:, None] > 0, sums[low - 1], 0.0)
    np.testing.assert_allclose(strategy.range_variances(low, high), np.sum(ranges**2, axis=1), rtol=1e-9)
