"""Products of workloads and of strategies: the same as the written-out Kronecker products, and priced for l cells."""

from __future__ import annotations

import math
from functools import reduce
from itertools import combinations

import numpy as np
import pytest

from sparsehist import entropy
from sparsehist.errors import DeclarationError
from sparsehist.workload import Cells, Identity, Kronecker, Marginals, MatrixWorkload, Prefix, Ranges, Total, Workload
from sparsehist.workload.strategies.direct_marginals import DirectMarginals
from sparsehist.workload.strategies.invertible import IdentityStrategy
from sparsehist.workload.strategies.kronecker_strategy import KroneckerStrategy
from sparsehist.workload.strategies.optimised import Optimised
from sparsehist.workload.strategies.residual_basis import ResidualBasis
from tests.workload.test_optimised import brute_force

SIGNED = MatrixWorkload([[1, -1, 0], [0, 1, -2], [1, 1, 1]])
PRODUCTS = [
    ((Prefix(4), Identity(3)), (Optimised, IdentityStrategy)),
    ((Prefix(4), Prefix(3)), (Optimised, Optimised)),
    ((Ranges(3), Prefix(2), Identity(2)), (Optimised, IdentityStrategy, Optimised)),
    ((Marginals((2, 2), 1), Prefix(3)), (ResidualBasis, Optimised)),
    ((Prefix(3), Marginals((2, 2), 1)), (Optimised, DirectMarginals)),
    ((SIGNED, Total(2), SIGNED), (Optimised, Optimised, Optimised)),
]


def made(case):
    """The product strategy of a case."""
    factors, kinds = case
    product = Kronecker(*factors)
    return KroneckerStrategy(product, [kind(factor) for kind, factor in zip(kinds, product.listed, strict=True)])


@pytest.mark.parametrize("case", PRODUCTS, ids=lambda case: str(Kronecker(*case[0])))
def test_products_are_kronecker_products(case):
    """A, its transpose, R and L act as the written-out products; L·R = A; variances are those of L."""
    strategy = made(case)
    product = strategy.workload
    A = product.apply(np.eye(product.n_cells))
    factors = [factor.apply(np.eye(factor.n_cells)) for factor in product.listed]
    np.testing.assert_allclose(A, reduce(np.kron, factors), atol=1e-12)
    np.testing.assert_allclose(product.apply_transposed(np.eye(product.n_queries)), A.T, atol=1e-12)
    np.testing.assert_allclose(product.row_squares(), np.sum(A**2, axis=1))
    L, R = strategy.noise_answers(np.eye(strategy.n_noise)), strategy.apply(np.eye(product.n_cells))
    np.testing.assert_allclose(L @ R, A, atol=1e-9)
    np.testing.assert_allclose(np.sum(L**2, axis=1), strategy.query_variance(), atol=1e-9)
    assert strategy.mean_variance() == pytest.approx(strategy.query_variance().mean())
    state = strategy.to_state(np.eye(strategy.n_noise))
    assert state.shape[0] == strategy.state_size
    np.testing.assert_allclose(strategy.state_answers(state), L, atol=1e-9)
    strategy.check(rng=entropy.seeded(1))


@pytest.mark.parametrize("case", PRODUCTS, ids=lambda case: str(Kronecker(*case[0])))
def test_the_price_holds_for_every_unit(case):
    """Brute force over all sets of cells stays within the stated L2 and L1; one cell is priced exactly."""
    strategy = made(case)
    R = strategy.apply(np.eye(strategy.workload.n_cells))
    largest = 0.0
    for n_cells in range(1, 5):
        stated = strategy.sensitivity(n_cells)
        largest = max(largest, math.sqrt(brute_force(R.T @ R, n_cells)))
        assert stated.l2_lower <= largest * (1 + 1e-9)
        assert largest <= stated.l2 * (1 + 1e-9)
        sets = np.array(list(combinations(range(R.shape[1]), n_cells)))
        assert np.abs(R[:, sets].sum(axis=2)).sum(axis=0).max() <= strategy.l1_sensitivity(n_cells) * (1 + 1e-9)
        if n_cells == 1:
            assert stated.l2 == pytest.approx(largest) == pytest.approx(stated.l2_lower)


def test_many_cells_are_priced_well_below_the_worst():
    """300 cells of prefix sums by categories: both bounds within 6 %, far below 300 times one cell."""
    product = Kronecker(Prefix(2000), Prefix(64))
    strategy = KroneckerStrategy(product, [IdentityStrategy(product.parts[0]), Optimised(product.parts[1])])
    stated = strategy.sensitivity(300)
    assert 0.94 * stated.l2 < stated.l2_lower <= stated.l2 < 150


def test_answers_are_exact_and_totals_are_summed_first():
    """Integers come back for integral workloads, also where a column under a total has 2**31 values."""
    rng = entropy.seeded(2)
    n = 500
    cells = Cells(
        (4, 2**31, 3), (rng.integers(0, 4, n), np.arange(n) * 4_000_000, rng.integers(0, 3, n)), rng.integers(1, 9, n)
    )
    answers = Kronecker(Prefix(4), Total(2**31), Identity(3)).answers(cells)
    assert answers.dtype == np.int64
    table = np.zeros((4, 3), np.int64)
    np.add.at(table, (cells.coordinates[0], cells.coordinates[2]), cells.counts)
    assert np.array_equal(answers, np.cumsum(table, axis=0).reshape(-1))
    everything = Kronecker(Total(4), Total(2**31), Total(3)).answers(cells)
    assert everything.tolist() == [cells.counts.sum()]


def test_queries_say_values_where_they_can_and_ranges_elsewhere():
    """Identity and total give values of columns; ranges their ends; rows run fastest in the last factor."""
    described = Kronecker(Identity(2), Total(9), Identity(3)).queries()
    assert {name: numbers.tolist() for name, numbers in described.items()} == {
        "column_0": [0, 0, 0, 1, 1, 1],
        "column_1": [-1] * 6,
        "column_2": [0, 1, 2, 0, 1, 2],
    }
    product = Kronecker(Ranges(2), Prefix(2))
    described = product.queries()
    assert set(described) == {"low_0", "high_0", "low_1", "high_1"}
    for row, weights in enumerate(product.apply(np.eye(4)).reshape(-1, 2, 2)):
        low, high = ([int(described[f"{end}_{i}"][row]) for i in (0, 1)] for end in ("low", "high"))
        inside = np.zeros((2, 2))
        inside[low[0] : high[0] + 1, low[1] : high[1] + 1] = 1
        assert np.array_equal(weights, inside)


@pytest.mark.parametrize(
    "text",
    [
        "kronecker(prefix(4), identity(3))",
        "kronecker(ranges(4), union(total(3), identity(3)))",
        "kronecker(prefix(), marginals((2, 3), k=1), total())",
    ],
)
def test_the_text_comes_back(text):
    """A product is read back from its text, sizes known or not, and takes those left open from a domain."""
    workload = Workload.parse(text)
    assert str(workload) == text
    if "()" in text:
        filled = workload.for_domain((7, 2, 3, 9))
        assert filled.columns == (7, 2, 3, 9)
        assert filled.for_domain((7, 2, 3, 9)) == filled


def test_a_factor_may_name_its_columns():
    """Marginals by name of the columns that are theirs."""
    named = Kronecker(Marginals([["day"], []]), Total()).of_series(["day", "country"], [])
    assert named.for_domain((3, 2)) == Kronecker(Marginals((3,), [[0], []]), Total(2))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (Kronecker, "asks nothing"),
        (lambda: Kronecker(Prefix(3), 4), "made of workloads"),
        (lambda: Kronecker(Prefix(2**20), Prefix(2**20)), "too many"),
        (lambda: Kronecker(Ranges(5000), Prefix(2)), "not listed"),
        (lambda: Kronecker(Prefix(3), Total(2)).for_domain((3, 3)), "got"),
        (lambda: Kronecker(Prefix(), Total(2)).for_domain((3, 2, 2)), "2 columns, the domain has 3"),
        (lambda: Kronecker(Prefix(), Prefix()).for_domain((3,)), "2 columns, the domain has 1"),
        (lambda: KroneckerStrategy(Prefix(3), [IdentityStrategy(Prefix(3))]), "product of workloads"),
        (lambda: KroneckerStrategy(Kronecker(Prefix(3), Prefix(2)), [IdentityStrategy(Prefix(3))]), "one strategy"),
    ],
)
def test_bad_input_is_refused(make, message):
    """Before anything is drawn, with what would be right."""
    with pytest.raises(DeclarationError, match=message):
        make()
