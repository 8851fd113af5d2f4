"""Tests that products of workloads equal explicit Kronecker products."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

from sparsehist import entropy
from sparsehist.workload import Cells, Identity, Kronecker, Marginals, Matrix, Prefix, Ranges, Total

SIGNED = Matrix([[1, -1, 0], [0, 1, -2], [1, 1, 1]])
PRODUCTS = [
    (Prefix(4), Identity(3)),
    (Ranges(3), Prefix(2), Identity(2)),
    (Marginals((2, 2), 1), Prefix(3)),
    (SIGNED, Total(2), SIGNED),
]


@pytest.mark.parametrize("factors", PRODUCTS, ids=lambda factors: str(Kronecker(*factors)))
def test_products_are_kronecker_products(factors):
    """The matrix, transpose and row norms of a product workload equal those of the explicit Kronecker product."""
    product = Kronecker(*factors)
    A = product.apply(np.eye(product.n_cells))
    written_out = [factor.apply(np.eye(factor.n_cells)) for factor in product.parts]
    np.testing.assert_allclose(A, reduce(np.kron, written_out), atol=1e-12)
    np.testing.assert_allclose(product.apply_transposed(np.eye(product.n_queries)), A.T, atol=1e-12)
    np.testing.assert_allclose(product.row_squares(), np.sum(A**2, axis=1))


def test_answers_are_exact_and_totals_are_summed_first():
    """Products of workloads with integer weights give exact integer answers, even for a total over 2**31 values."""
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
    """Each query of a product is described by a value or a range in each column; the last column varies fastest."""
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
