from __future__ import annotations

import numpy as np
import pytest

from sparsehist.entropy import seeded
from sparsehist.errors import DeclarationError
from sparsehist.workload import (
    Identity,
    Kronecker,
    Marginals,
    Matrix,
    Prefix,
    Ranges,
    Total,
    Union,
    lower_bound,
    strategy_named,
)
from sparsehist.workload.sensitivity import gram_of
from sparsehist.workload.strategies.optimised import Optimised, one_cell_optimum
from tests.cases import slow

NAMES = [
    *("spectral", "spectral(blend=2)", "spectral(window=1, blend=1)", "identity", "square_root", "direct"),
    *("square_root(scaled=True)", "haar", "optimised", "optimised(share=20)"),
]
SIZES = (1, 2, 3, 5, 8, 9)


def _served(name, n):
    """Yield the strategy called `name` for several workloads of `n` cells, except those that it cannot answer."""
    rows = Matrix(seeded(n).integers(-1, 2, (4, n)) + 5 * np.eye(4, n))
    lists = (Ranges(n, [(0, 0), (n // 2, n - 1), (0, n - 1)]), Total(n), Identity(n), Union(Total(n), Identity(n)))
    for workload in (Prefix(n), Ranges(n), *lists, rows):
        try:
            yield strategy_named(name, workload)
        except DeclarationError:
            assert name == "direct" or "window" in name


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n", SIZES)
def test_a_strategy_factors_its_workload(name, n):
    """The matrices L and R of a strategy multiply to its workload A, and its stated variances are exact."""
    for strategy in _served(name, n):
        check_factorization(strategy)


def check_factorization(strategy, tolerance=1e-9):
    """Check that L·R equals the workload and that the stated variances are those of L."""
    workload, unit = strategy.workload, np.eye(strategy.n_noise)
    A, L, R = (
        workload.apply(np.eye(workload.n_cells)),
        strategy.noise_answers(unit),
        strategy.apply(np.eye(workload.n_cells)),
    )
    norms = np.maximum(np.linalg.norm(A, axis=1, keepdims=True), 1e-300)
    np.testing.assert_allclose(L @ R / norms, A / norms, atol=tolerance)
    variances = np.sum(L**2, axis=1)
    assert strategy.mean_variance() == pytest.approx(variances.mean())
    if strategy.invertible:
        np.testing.assert_allclose(strategy.to_cells(R), np.eye(workload.n_cells), atol=tolerance)
    if workload.explicit:
        np.testing.assert_allclose(strategy.variance(), variances, rtol=1e-8, atol=1e-12)
    else:
        low, high = np.triu_indices(workload.n_cells)
        np.testing.assert_allclose(strategy.range_variances(low, high), variances)


MADE_OF_OTHERS = [
    (Kronecker(Prefix(4), Identity(3)), "kronecker(optimised, identity)"),
    (Kronecker(Ranges(3), Prefix(2), Identity(2)), "kronecker(spectral, identity, haar)"),
    (Kronecker(Marginals((2, 2), 1), Prefix(3)), "kronecker(residual, spectral)"),
    (Kronecker(Prefix(3), Marginals((2, 2), 1)), "kronecker(optimised, direct)"),
    (Union(Prefix(5), Identity(5)), "union(optimised, identity)"),
    (Union(Marginals((2, 3), 1), Marginals((2, 3), 2)), "union(residual, direct)"),
    (Union(Total(4), Prefix(4), Identity(4)), "union(direct, optimised, identity)"),
    *((Marginals(sizes, up_to=2), name) for sizes in ((2, 3, 4), (3, 1, 4)) for name in ("residual", "direct")),
    (Marginals((3, 3, 2), [[0], [1, 2], [0, 2]]), "residual"),
    (Marginals((2, 3), 1), "optimised"),
    (Matrix([[1, 1, 0, 0], [0, 0, 1, 0], [1, 1, 1, 0]]), "optimised"),  # columns 0 and 1 are equal; column 3 is 0
    (Matrix(np.vstack([np.full(8, 1e8), np.eye(8)])), "optimised"),
]


@pytest.mark.parametrize(("workload", "name"), MADE_OF_OTHERS, ids=lambda part: str(part)[:40])
def test_strategies_of_several_columns_factor_their_workload(workload, name):
    """For products, unions and marginals, L·R equals the workload, and the stated variances are exact."""
    check_factorization(strategy_named(name, workload))


def test_a_wrong_factorization_is_noticed():
    """Negative control: the check of a factorization detects cell noise that is off by 1e-5, and wrong variances."""
    strategy = strategy_named("spectral", Prefix(30))
    right = strategy.to_cells
    strategy.to_cells = lambda z: right(z) * (1 + 1e-5)
    with pytest.raises(AssertionError):
        check_factorization(strategy)
    strategy.to_cells, strategy.variance = right, strategy_named("haar", Prefix(30)).variance
    with pytest.raises(AssertionError):
        check_factorization(strategy)


@pytest.mark.parametrize("shares", range(3))
def test_no_other_shares_of_a_union_are_better(shares):
    """With one cell per privacy unit, random weights of a union give no smaller error than the chosen weights."""
    workload, name = [case for case in MADE_OF_OTHERS if case[1].startswith("union")][shares]
    strategy = strategy_named(name, workload)
    assert strategy.l2(1) == pytest.approx(1.0)
    prices = np.array([part.l2(1) for part in strategy.strategies])
    variances = np.array([part.mean_variance() * part.workload.n_queries for part in strategy.strategies])
    for drawn in seeded(2).dirichlet(np.ones(len(prices)), 200):
        other = float(np.sum(variances * prices**2 / drawn)) / workload.n_queries
        assert strategy.mean_variance() <= other * (1 + 1e-9)


@pytest.mark.parametrize(
    ("workload", "strategy", "ratio"),
    [
        (Ranges(64), "spectral", 1.022),
        slow(Ranges(1024), "spectral", 1.013),
        (Prefix(256), "spectral", 1.047),
        (Prefix(1024), "square_root", 1.142),
        (Prefix(256), "square_root(scaled=True)", 1.071),
        (Ranges(64), "optimised", 1.022),
        (Prefix(128), "optimised", 1.051),
        (Marginals((3, 4, 5), 2), "residual", 1.0),
    ],
    ids=str,
)
def test_errors_are_the_published_ones(workload, strategy, ratio):
    """With one cell per privacy unit, the error divided by its singular-value bound equals a reference value."""
    made = strategy_named(strategy, workload)
    values = (
        np.linalg.svd(workload.apply(np.eye(workload.n_cells)), compute_uv=False)
        if workload.n_queries < 2000
        else None
    )
    bound = lower_bound(workload) if values is None else values.sum() ** 2 / workload.n_cells / workload.n_queries
    assert lower_bound(workload) == pytest.approx(bound)
    assert made.l2(1) ** 2 * made.mean_variance() / bound == pytest.approx(ratio, abs=5.1e-4)


@pytest.mark.parametrize("exponent", [8, 11, 13, slow(16), slow(20)])
def test_the_spectral_strategy_is_within_its_targets(exponent):
    """For 256 to 2**20 cells, spectral error is at most 5 % (prefix sums) or 2 % (ranges) above its lower bound."""
    for workload, target in ((Prefix(2**exponent), 1.05), (Ranges(2**exponent), 1.02)):
        assert 1 <= strategy_named("spectral", workload).mean_variance() / lower_bound(workload) <= target


def test_no_random_strategy_is_better_than_the_optimum():
    """With one cell per privacy unit, no small or large random change improves the optimised strategy."""
    rng, gram = seeded(1), gram_of(Ranges(6))
    bound, best = one_cell_optimum(gram)[1], strategy_named("optimised", Ranges(6)).apply(np.eye(6))
    for size in (0.01, 0.1, 1.0, 10.0):
        for _ in range(50):
            R = best + size * rng.standard_normal((6, 6))
            assert np.trace(np.linalg.solve(R.T @ R, gram)) * np.max(np.sum(R**2, axis=0)) >= bound * (1 - 1e-9)


@pytest.mark.parametrize(("workload", "max_keys"), [(Prefix(64), 5), (Prefix(64), 20), (Ranges(32), 5)])
def test_several_cells_are_served_better_by_a_mixture(workload, max_keys):
    """With several cells per unit, mixing the one-cell optimum with noise on every cell is better than either."""

    def error(made):
        return made.mean_variance() * made.l2(max_keys) ** 2

    chosen = Optimised.for_unit(workload, max_keys)
    assert error(chosen) < 0.9 * min(error(Optimised(workload)), error(Optimised(workload, 100)))
    again = strategy_named(chosen.name, workload)
    assert np.array_equal(again.apply(np.eye(workload.n_cells)), chosen.apply(np.eye(workload.n_cells)))
