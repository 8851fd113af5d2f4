from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import sparse

import sparsehist as sh
from sparsehist.entropy import seeded
from sparsehist.workload import Cells, Marginals, Matrix

MATRIX = np.array([[1, 0, -1, 2], [0, 3, 0, 0], [1, 1, 1, 1]])
WORKLOADS = [
    (sh.workload.Prefix(4), np.tril(np.ones((4, 4)))),
    (sh.workload.Identity(4), np.eye(4)),
    (sh.workload.Total(4), np.ones((1, 4))),
    (sh.workload.Ranges(3), [[1, 0, 0], [1, 1, 0], [1, 1, 1], [0, 1, 0], [0, 1, 1], [0, 0, 1]]),
    (sh.workload.Ranges(4, [(1, 2), (0, 3), (3, 3)]), [[0, 1, 1, 0], [1, 1, 1, 1], [0, 0, 0, 1]]),
    (Matrix(MATRIX), MATRIX),
    (Matrix(sparse.coo_matrix(MATRIX)), MATRIX),
    (Matrix(0.5 * MATRIX), 0.5 * MATRIX),
    (sh.workload.Union(sh.workload.Total(), sh.workload.Identity(4)), np.vstack([np.ones((1, 4)), np.eye(4)])),
    (sh.workload.Union(sh.workload.Prefix(4), Matrix(MATRIX)), np.vstack([np.tril(np.ones((4, 4))), MATRIX])),
]


@pytest.mark.parametrize(("workload", "matrix"), WORKLOADS, ids=lambda value: str(value)[:24])
def test_a_workload_is_its_matrix(workload, matrix):
    """A workload agrees with its explicit matrix when it is applied, transposed, or answered on counts."""
    matrix, rng = np.asarray(matrix, float), seeded(1)
    x, y = rng.standard_normal((workload.n_cells, 3)), rng.standard_normal((workload.n_queries, 2))
    assert workload.shape == matrix.shape
    np.testing.assert_allclose(workload.apply(x), matrix @ x)
    np.testing.assert_allclose(workload.apply(x[:, 0]), matrix @ x[:, 0])
    np.testing.assert_allclose(workload.apply_transposed(y), matrix.T @ y)
    np.testing.assert_allclose(workload.apply_transposed(y[:, 0]), matrix.T @ y[:, 0])
    np.testing.assert_allclose(workload.row_squares(), np.sum(matrix**2, axis=1))
    cells = Cells((workload.n_cells,), (np.array([2, 0]),), np.array([7, 5]))
    answers = workload.answers(cells)
    np.testing.assert_array_equal(answers, matrix[:, 2] * 7 + matrix[:, 0] * 5)
    assert answers.dtype == (np.int64 if workload.integral else np.float64)
    if workload.explicit:
        assert {len(column) for column in workload.queries().values()} == {len(matrix)}


@pytest.mark.parametrize("workload", [workload for workload, _ in WORKLOADS], ids=lambda value: str(value)[:24])
def test_the_text_of_a_workload_is_read_back(workload):
    """The text and the pickle of a workload both read back as an equal workload."""
    assert pickle.loads(pickle.dumps(workload)) == workload
    back = sh.workload.Workload.parse(str(workload))
    assert back == workload and hash(back) == hash(workload) and back.integral == workload.integral
    x = np.arange(workload.n_cells) ** 2.0
    np.testing.assert_array_equal(back.apply(x), workload.apply(x))


@pytest.mark.parametrize(
    "text",
    [
        "kronecker(prefix(4), identity(3))",
        "kronecker(ranges(4), union(total(3), identity(3)))",
        "kronecker(prefix(), marginals((2, 3), k=1), total())",
        *(str(each) for each in (Marginals(k=2), Marginals(up_to=3), Marginals([["country"], ["day's"], []]))),
        *(str(each) for each in (Marginals((5,), 1), Marginals((5, 10**69), [[0], []]), Marginals((5, 12), up_to=2))),
    ],
)
def test_texts_of_several_columns_are_read_back(text):
    """The texts of products and marginals read back as equal workloads, even if sizes are left out."""
    assert str(sh.workload.Workload.parse(text)) == text


def test_a_large_matrix_is_read_back_to_the_last_bit():
    """The text of a large matrix reads back with all weights, bit for bit; `describe` returns a shortened text."""
    weights = seeded(4).standard_normal((300, 500)) * (seeded(5).random((300, 500)) < 0.1) * 1e30
    back = sh.workload.Workload.parse(str(Matrix(weights)))
    assert (back.matrix.toarray() == weights).all() and len(back.describe()) == 120


def test_a_size_left_out_is_that_of_the_domain():
    """A workload that is declared without a size takes its size from the domain."""
    assert sh.workload.Prefix().for_domain((7,)) == sh.workload.Prefix(7)
    assert sh.workload.Ranges([(0, 6)]).for_domain((7,)) == sh.workload.Ranges(7, [(0, 6)])
    assert sh.workload.Union(sh.workload.Total(), sh.workload.Prefix()).for_domain((7,)).shape == (8, 7)
