from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import sparse

import sparsehist as sh
from sparsehist.entropy import seeded
from sparsehist.errors import DeclarationError
from sparsehist.workload import Cells, Matrix

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
    """Applied, transposed, on counts and row by row, a workload is the matrix it stands for."""
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
    """Reading the text of a workload gives an equal workload."""
    assert pickle.loads(pickle.dumps(workload)) == workload
    back = sh.workload.Workload.parse(str(workload))
    assert back == workload and hash(back) == hash(workload) and back.integral == workload.integral
    x = np.arange(workload.n_cells) ** 2.0
    np.testing.assert_array_equal(back.apply(x), workload.apply(x))


def test_a_large_matrix_is_read_back_to_the_last_bit():
    """Weights of any size and sparse rows; what is cut for display is the text alone."""
    weights = seeded(4).standard_normal((300, 500)) * (seeded(5).random((300, 500)) < 0.1) * 1e30
    back = sh.workload.Workload.parse(str(Matrix(weights)))
    assert (back.matrix.toarray() == weights).all() and len(back.describe()) == 120


def test_a_size_left_out_is_that_of_the_domain():
    """Without a size a workload takes it from the domain, and refuses another."""
    assert sh.workload.Prefix().for_domain((7,)) == sh.workload.Prefix(7)
    assert sh.workload.Ranges(ranges=[(0, 6)]).for_domain((7,)) == sh.workload.Ranges(7, [(0, 6)])
    assert sh.workload.Ranges([(0, 6)]).for_domain((7,)) == sh.workload.Ranges(7, [(0, 6)])
    assert sh.workload.Union(sh.workload.Total(), sh.workload.Prefix()).for_domain((7,)).shape == (8, 7)
    with pytest.raises(DeclarationError, match="not a range"):
        sh.workload.Ranges(ranges=[(0, 7)]).for_domain((7,))
    with pytest.raises(DeclarationError, match="asks about columns"):
        sh.workload.Prefix(8).for_domain((7,))
    with pytest.raises(DeclarationError, match="declare a series over integers"):
        sh.workload.Prefix().for_domain((10**69,))
    with pytest.raises(DeclarationError, match="takes its size"):
        sh.workload.Prefix().shape  # noqa: B018 - the access is the test


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Matrix([[1.0, np.nan]]), "NaN"),
        (lambda: Matrix([[1e-9, 1e200]]), "largest entry"),
        (lambda: Matrix(sparse.csr_matrix([[np.inf, 1.0]])), "infinity"),
        (lambda: Matrix(np.zeros((0, 4))), "at least one query"),
        (lambda: Matrix(np.zeros(3)), "queries by cells"),
        (lambda: Matrix([[1, 2], [3]]), "rows of one length"),
        (lambda: Matrix("3; 0:1 3:1"), "cell:weight"),
        (lambda: Matrix(np.ones((1001, 1000))), "at most 1000000 entries"),
        (lambda: Matrix([["a"]]), "real matrix"),
        (lambda: sh.workload.Prefix(0), "number of cells"),
        (lambda: sh.workload.Ranges(4, []), "at least one query"),
        (lambda: sh.workload.Ranges(4, [(2, 1)]), "not a range"),
        (lambda: sh.workload.Ranges(4, [(0, 4)]), "not a range"),
        (lambda: sh.workload.Ranges(4, [(0.5, 2)]), "pairs of integers"),
        (sh.workload.Union, "at least one query"),
        (lambda: sh.workload.Union(sh.workload.Ranges(4)), "not a list"),
        (lambda: sh.workload.Union(sh.workload.Prefix(4), sh.workload.Prefix(5)), "one domain"),
        (lambda: sh.workload.Prefix(4).apply(np.zeros(5)), "does not fit"),
        (lambda: sh.workload.Workload.parse("prefix(4"), "cannot read"),
        (lambda: sh.workload.Workload.parse("suffix(4)"), "no workload 'suffix'"),
        (lambda: sh.workload.Workload.parse("prefix(__import__('os'))"), "no workload"),
        (lambda: sh.workload.Workload.parse("4"), "is no workload"),
        (lambda: sh.workload.Ranges(10**6).apply(np.zeros(10**6)), "not listed"),
    ],
)
def test_what_is_no_workload_is_refused(build, message):
    """Bad matrices, sizes, ranges and texts are errors that say what would be right."""
    with pytest.raises(DeclarationError, match=message):
        build()


def test_nothing_secret_is_printed():
    """Counts and their number do not show in what prints cells."""
    cells = Cells((1000,), (np.array([123]),), np.array([98765]))
    assert "98765" not in repr(cells) and "123" not in repr(cells)
