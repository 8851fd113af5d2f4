from __future__ import annotations

import numpy as np
import pytest

from sparsehist.entropy import seeded
from sparsehist.errors import DeclarationError
from sparsehist.workload import Prefix, Ranges, lower_bound, strategy_named
from sparsehist.workload.gram.causal_sums import causal_sums
from sparsehist.workload.gram.spectral_kernels import PrefixKernel, RangesKernel, quick_length
from sparsehist.workload.strategies.spectral import Spectral


def _gram(kind, n):
    i = np.arange(n)
    if kind is PrefixKernel:
        return n - np.maximum.outer(i, i).astype(float)
    return (np.minimum.outer(i, i) + 1.0) * (n - np.maximum.outer(i, i))


@pytest.mark.parametrize("kind", [PrefixKernel, RangesKernel])
@pytest.mark.parametrize("blend", [0.0, 2.5])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 8, 33])
def test_transform_and_tables_are_those_of_the_matrix(kind, blend, n):
    """Singular vectors and values, the entries of K and of its inverse are those that dense algebra finds."""
    kernel, W, i = kind(n, blend), _gram(kind, n), np.arange(n)
    transform = kernel.transform(np.eye(n))
    np.testing.assert_allclose(transform.T @ transform, np.eye(n), atol=1e-12)
    np.testing.assert_allclose(kernel.transform_back(transform), np.eye(n), atol=1e-12)
    np.testing.assert_allclose(transform.T @ np.diag(kernel.singular_values**2) @ transform, W, atol=1e-9)
    values, vectors = np.linalg.eigh(W)
    root = vectors * (np.sqrt(values) + blend * kernel.unit) @ vectors.T
    np.testing.assert_allclose(kernel.diagonal(), np.diag(root), rtol=1e-11)
    for tau, wanted in ((kernel.table.__getitem__, root), (kernel.inverse_entries(), np.linalg.inv(root))):
        entries = tau(np.abs(i[:, None] - i)) + kernel.sign * tau(i[:, None] + i + kernel.shift)
        np.testing.assert_allclose(entries, wanted, atol=1e-10 * np.abs(wanted).max())


@pytest.mark.parametrize("kind", [PrefixKernel, RangesKernel])
@pytest.mark.parametrize(("n", "length"), [(1, 1), (5, 5), (300, 311), (2000, 2000), (5000, 5100)])
@pytest.mark.parametrize("blend", [0.0, 1.5])
def test_causal_sums_are_those_of_the_matrix(kind, n, length, blend):
    """Interpolated sums over the cells before each cell agree with the matrix to eleven digits."""
    kernel, i = kind(length, blend), np.arange(n)
    tau = kernel.inverse_entries()
    matrix = tau(np.abs(i[:, None] - i)) + kernel.sign * tau(i[:, None] + i + kernel.shift)
    weights = kernel.scales[:n]
    wanted = np.tril(matrix, -1) @ weights
    sums = causal_sums(kernel, tau, weights, i, plain=64)
    np.testing.assert_allclose(sums, wanted, atol=1e-11 * np.abs(matrix @ weights).max())


@pytest.mark.parametrize(
    ("workload", "strategy", "ratio"),
    [
        (Ranges(64), "spectral", 1.022),
        (Ranges(256), "spectral", 1.018),
        (Ranges(1024), "spectral", 1.013),
        (Prefix(256), "spectral", 1.047),
        (Prefix(1024), "spectral", 1.035),
        (Prefix(256), "square_root", 1.166),
        (Prefix(1024), "square_root", 1.142),
        (Prefix(256), "square_root(scaled=True)", 1.071),
        (Prefix(1024), "square_root(scaled=True)", 1.057),
        (Prefix(256), "tree", 5.900),
        (Prefix(1024), "tree", 6.498),
    ],
    ids=str,
)
def test_errors_are_the_published_ones(workload, strategy, ratio):
    """At one cell a unit, errors over the singular-value bound are the reference values to their last digit."""
    made = strategy_named(strategy, workload)
    error = made.sensitivity(1).l2 ** 2 * made.mean_variance()
    assert error / lower_bound(workload).mean_squared_error == pytest.approx(ratio, abs=5.1e-4)


@pytest.mark.parametrize("exponent", [8, 9, 11, 13, *(pytest.param(big, marks=pytest.mark.slow) for big in (16, 20))])
def test_the_spectral_strategy_is_within_its_targets(exponent):
    """From n = 256 to 2**20, prefix sums come within 5 % of the bound and all ranges within 2 %."""
    for workload, target in ((Prefix(2**exponent), 1.05), (Ranges(2**exponent), 1.02)):
        bound = lower_bound(workload).mean_squared_error
        assert 1 <= Spectral(workload).mean_variance() / bound <= target


@pytest.mark.parametrize("kind", [PrefixKernel, RangesKernel])
def test_a_long_transform_has_a_quick_length(kind):
    """Awkward lengths are passed over, at the cost of few cells."""
    for n in (5000, 2**20, 10**7, 10**7 + 19):
        length = quick_length(kind, n)
        rest = 2 * length + 1 if kind is PrefixKernel else length + 1
        for prime in (2, 3, 5, 7, 11):
            while rest % prime == 0:
                rest //= prime
        assert rest == 1 and n <= length <= 1.02 * n


@pytest.mark.parametrize("parameters", [{}, {"blend": 3}, {"window": 2, "blend": 0.5}, {"length": 50}])
@pytest.mark.parametrize("workload", [Prefix(40), Ranges(40)], ids=str)
def test_every_variant_factors_the_workload(workload, parameters):
    """With any blend, window and length R⁻¹·R is the identity, and the name says which it is."""
    strategy = Spectral(workload, **parameters)
    strategy.check(rng=seeded(1))
    again = strategy_named(strategy.name, workload)
    assert again.name == strategy.name
    z = seeded(2).standard_normal(strategy.n_noise)
    np.testing.assert_array_equal(again.to_state(z), strategy.to_state(z))
    columns = np.sum(strategy.apply(np.eye(40)) ** 2, axis=0)
    assert columns.max() <= 1 + 1e-12


@pytest.mark.parametrize(
    "parameters", [{"blend": -1}, {"blend": np.nan}, {"window": 40}, {"window": 0.5}, {"length": 39}]
)
def test_parameters_out_of_range_are_refused(parameters):
    """A blend, window or length that makes no strategy is an error."""
    with pytest.raises(DeclarationError):
        Spectral(Prefix(40), **parameters)


def test_a_long_column_is_checked_too():
    """Beyond what is checked whole, a transform that is off at its length is refused."""
    strategy = Spectral(Ranges(2**17))
    strategy.check(rng=seeded(1))
    right = strategy.kernel.transform
    strategy.kernel.transform = lambda x: right(x) * (1 + 1e-8)
    with pytest.raises(DeclarationError, match="transform of length"):
        strategy.check(rng=seeded(1))
