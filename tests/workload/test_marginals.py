"""Tests of marginals: their sums are exact, and their noise has the exact covariance."""

from __future__ import annotations

import numpy as np
import pytest

from sparsehist import entropy
from sparsehist.workload import Cells, Kronecker, Marginals, Prefix, Total, strategy_named
from tests import stats

SMALL = [
    Marginals((2, 3, 4), 2),
    Marginals((2, 3, 4), up_to=2),
    Marginals((2, 2, 2), 2),
    Marginals((3, 1, 4), 2),
    Marginals((3, 2), [[0], []]),
    Marginals((3, 3, 2), [[0], [1, 2], [0, 2]]),
    Marginals((4, 3), up_to=2),
]


def drawn_cells(shape, n, *, seed, most=9):
    """Return random cells with positive counts in a domain of any size; all cells are different."""
    rng = entropy.seeded(seed)
    drawn = np.unique(np.stack([rng.integers(0, size, n) for size in shape]), axis=1)
    return Cells(shape, tuple(drawn), rng.integers(1, most, drawn.shape[1]))


@pytest.mark.parametrize("workload", SMALL, ids=str)
def test_answers_are_the_sums_over_all_other_columns(workload):
    """Each answer of a marginal is the sum of the counts of the cells that its query describes."""
    cells = drawn_cells(workload.columns, 12, seed=1)
    dense, queries = cells.dense(), workload.queries()
    assert set(queries) == {f"column_{i}" for i in range(len(workload.columns))}
    answers = workload.answers(cells)
    assert answers.dtype == np.int64
    for row in range(workload.n_queries):
        values = [int(queries[f"column_{i}"][row]) for i in range(len(workload.columns))]
        assert answers[row] == dense[tuple(slice(None) if value < 0 else value for value in values)].sum()
    assert np.array_equal(workload.apply(dense.reshape(-1)), answers)
    A = workload.apply(np.eye(workload.n_cells))
    assert np.array_equal(A.T, workload.apply_transposed(np.eye(workload.n_queries)))


def test_sums_beyond_float64_are_exact():
    """Marginals add up counts exactly, even if a sum is too large to be exact in float64."""
    counts = np.array([2**61 + 1, 2**61 + 3, 1], np.int64)
    cells = Cells((2, 2), (np.array([0, 0, 1]), np.array([0, 1, 0])), counts)
    assert Marginals((2, 2), 1).answers(cells).tolist() == [2**62 + 4, 1, 2**61 + 2, 2**61 + 3]


def test_a_domain_too_large_to_write_down_has_marginals():
    """Marginals of pairs of 30 columns have exact answers and noise, although the domain has 10**20 cells."""
    workload = Marginals((5,) * 20 + (4,) * 10, 2)
    assert workload.n_cells == 10**20 and len(workload.marginals) == 435
    cells = drawn_cells(workload.columns, 1000, seed=3)
    answers = workload.answers(cells)
    assert {piece.sum() for piece in workload.split(answers)} == {cells.counts.sum()}
    residual, direct = strategy_named("residual", workload), strategy_named("direct", workload)
    tables = Marginals(workload.columns, [list(subset) for subset in residual._subsets])
    image = residual._centred(tables.answers(cells).astype(float), 1.0 / residual._scales)
    np.testing.assert_allclose(residual.noise_answers(image), answers, atol=1e-6)
    assert residual.l2(20) < 20 and residual.mean_variance() < direct.l2(1) ** 2 * direct.mean_variance()


def test_the_noise_of_marginals_has_the_stated_law_and_agrees_with_itself():
    """Noise of marginals has covariance L·Lᵀ. Summed over a column, a table's noise is that of the smaller table."""
    made = strategy_named("residual", Marginals((2, 3), up_to=2))
    L = made.noise_answers(np.eye(made.n_noise))
    draws = made.noise_answers(entropy.seeded(7).standard_normal((made.n_noise, 40_000)))
    total, first, second, both = made.workload.split(draws)
    np.testing.assert_allclose(both.sum(axis=1), first, atol=1e-9)
    np.testing.assert_allclose(both.sum(axis=0), second, atol=1e-9)
    np.testing.assert_allclose(first.sum(axis=0), total, atol=1e-9)
    cells = slice(-6, None)  # the six answers of the finest marginal determine all other answers
    sample, wanted = draws[cells].T, (L @ L.T)[cells, cells]
    stats.assert_consistent(stats.gaussian_vector_test(sample, wanted), "noise of a marginal")
    stats.assert_detected(stats.gaussian_vector_test(1.05 * sample, wanted), "noise 5 % too large")
    stats.assert_detected(
        stats.gaussian_vector_test(entropy.seeded(8).permuted(sample, axis=0), wanted), "independent noise"
    )


def test_names_and_sizes_are_filled_in():
    """`for_domain` replaces the column names in marginals by numbers and fills in sizes, even inside products."""
    names, sizes = ("country", "day", "device"), (5, 12, 3)

    def filled(*arguments, **named):
        return Marginals(*arguments, **named).for_domain(sizes, dict.fromkeys(names))

    assert filled([["day", "country"], ["device"], []]).marginals == ((0, 1), (2,), ())
    named = Kronecker(Marginals([["day"], []]), Total()).for_domain((3, 2), {"day": None, "country": None})
    assert named == Kronecker(Marginals((3,), [[0], []]), Total(2))
    assert Kronecker(Prefix(), Marginals((2, 3), 1), Total()).for_domain((7, 2, 3, 9)).columns == (7, 2, 3, 9)
    assert filled(k=2).marginals == ((0, 1), (0, 2), (1, 2))
    assert filled([[0], [2]]).marginals == ((0,), (2,))
    assert Marginals((5, 12), 1).for_domain((5, 12)).columns == (5, 12)
