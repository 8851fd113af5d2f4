"""Sums of resolvents of the matrices of spectral kernels, against dense algebra."""

import numpy as np
import pytest

from sparsehist.workload.gram.rank_bound import _squared_scales
from sparsehist.workload.gram.resolvents import ratios, resolvents
from sparsehist.workload.gram.spectral_kernels import PrefixKernel, RangesKernel


def tridiagonal(kind, n):
    """T: 2 along the diagonal, −1 beside it, and one corner of 1 for prefix sums."""
    matrix = 2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)
    matrix[0, 0] -= kind is PrefixKernel
    return matrix


def written_out(mixture, n):
    """Its matrix, from the table."""
    tau, i = mixture.entries(np.arange(2 * n + 2)), np.arange(n)
    return tau[np.abs(i[:, None] - i)] + mixture.sign * tau[i[:, None] + i + mixture.shift]


@pytest.mark.parametrize("kind", [PrefixKernel, RangesKernel])
@pytest.mark.parametrize(("power", "step", "margin"), [(1.0, 1.2, 1e4), (0.25, 3.0, 10.0), (0.75, 3.0, 10.0)])
@pytest.mark.parametrize("n", [1, 2, 7, 60])
def test_entries_and_sums_are_those_of_the_matrix(kind, power, step, margin, n):
    """Of the mixture itself, however far it is from a power: rows of windows, spectrum; a place off is noticed."""
    kernel = kind(n, 1.5)
    mixture, T, i = resolvents(kernel, power, step, margin), tridiagonal(kind, n), np.arange(n)
    inverses = np.linalg.inv(T + mixture.places[:, None, None] * np.eye(n))
    dense = np.tensordot(mixture.weights, inverses, 1) + mixture.identity * np.eye(n)
    np.testing.assert_allclose(written_out(mixture, n), dense, rtol=1e-11, atol=1e-13 * dense.max())
    off = mixture._replace(places=mixture.places * (1 + 1e-6))
    assert np.abs(written_out(off, n) / dense - 1).max() > 1e-9
    for left, right in ((0, 0), (0, n - 1), (n // 3, n // 2)):
        cells = i[(i >= left) & (i < n - right)]
        rows = mixture.rows(cells, cells, np.full(cells.shape, left), np.full(cells.shape, right))
        np.testing.assert_allclose(rows, [dense[k, k - left : k + right + 1].sum() for k in cells], rtol=1e-10)
    first, last = i[: n // 2 + 1], np.minimum(i[: n // 2 + 1] + 3, n - 1)
    blocks = mixture.rows(first, last, np.zeros_like(first), np.zeros_like(first))
    exact = np.array([np.diag(dense)[low : high + 1].max() for low, high in zip(first, last, strict=True)])
    assert np.all(blocks >= exact * (1 - 1e-10)) and np.all(blocks <= 1.2 * exact)
    values, vectors = np.linalg.eigh(T)
    np.testing.assert_allclose(vectors * mixture.at(values) @ vectors.T, dense, rtol=1e-9, atol=1e-12 * dense.max())


@pytest.mark.parametrize("kind", [PrefixKernel, RangesKernel])
@pytest.mark.parametrize("blend", [0.0, 0.3, 4.0])
def test_mixtures_are_near_the_powers_they_are_meant_for(kind, blend):
    """Ratios are taken at all frequencies, of the kernel over its mixture, and their sum is that over all of them."""
    kernel = kind(5000, blend)
    spectrum = np.sort(kernel.spectrum / (2 * kernel.unit))[::-1]
    values = (spectrum - blend / 2) ** -2.0
    for power, step, margin, near in ((1.0, 0.9, 1e6, 1e-8), (1.0, 1.2, 1e4, 1e-6), (0.25, 3.0, 10.0, 0.1)):
        mixture = resolvents(kernel, power, step, margin)
        every = spectrum / mixture.at(values)
        np.testing.assert_allclose(every, spectrum ** (1 - power), rtol=near)
        found, rule = ratios(kernel, mixture)
        assert found @ rule == pytest.approx(every.sum(), rel=1e-9)
        assert every.max() <= found.max() * (1 + 1e-6) and every.min() >= found.min() * (1 - 1e-6)


@pytest.mark.parametrize("kind", [PrefixKernel, RangesKernel])
@pytest.mark.parametrize(("n", "windows"), [(1, [0]), (2, [0, 1]), (50, [0, 1, 4, 49]), (5000, [0, 7, 900])])
def test_scales_are_those_of_the_table(kind, n, windows):
    """Squares of d to 1e-8, also at the ends, where cells are reflected."""
    for window in windows:
        kernel = kind(n, 1.5, window)
        found = 2 * kernel.unit * _squared_scales(kernel, np.arange(n))
        np.testing.assert_allclose(found, kernel.scales**2, rtol=1e-8)
