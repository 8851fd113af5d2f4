"""Numerically optimised strategies: optimal for one cell, priced for several, right for every matrix."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from sparsehist import entropy
from sparsehist.errors import DeclarationError
from sparsehist.workload import Identity, MatrixWorkload, Prefix, Ranges, Total
from sparsehist.workload.gram.written_out import _by_eigenvectors, gram_of, largest_sum
from sparsehist.workload.queries.marginals import Marginals
from sparsehist.workload.strategies.optimised import Optimised, one_cell_optimum

DEFICIENT = MatrixWorkload([[1, 1, 0, 0], [0, 0, 1, 0], [1, 1, 1, 0]])  # two cells alike, one not asked about


def brute_force(gram, n_cells):
    """The largest sum of a Gram matrix over sets of so many cells."""
    chosen = np.array(list(combinations(range(len(gram)), n_cells)))
    return max(gram[chosen[:, :, None], chosen[:, None, :]].sum(axis=(1, 2)))


@pytest.mark.parametrize(
    ("workload", "ratio"), [(Ranges(64), 1.0220), (Prefix(64), 1.0594), (Prefix(128), 1.0508), (Identity(5), 1.0)]
)
def test_one_cell_is_served_at_the_certified_optimum(workload, ratio):
    """Variance times cost meets the bound from below that no factorization passes, at the known ratio to ‖A‖_*²/n."""
    made, optimum = Optimised(workload), one_cell_optimum(gram_of(workload))
    error = made.mean_variance() * workload.n_queries * made.sensitivity(1).l2 ** 2
    assert optimum.lower_bound * (1 - 1e-9) <= error <= optimum.lower_bound * (1 + 1e-5)
    singular_values = np.sqrt(np.maximum(np.linalg.eigvalsh(gram_of(workload)), 0.0)).sum() ** 2 / workload.n_cells
    assert error / singular_values == pytest.approx(ratio, abs=1e-4)


def test_no_random_strategy_is_better_for_one_cell():
    """Neither steps away from the optimum nor strategies at random have a smaller error."""
    rng = entropy.seeded(1)
    gram = gram_of(Ranges(6))
    bound = one_cell_optimum(gram).lower_bound
    best = Optimised(Ranges(6)).apply(np.eye(6))
    for size in (0.01, 0.1, 1.0, 10.0):
        for _ in range(50):
            R = best + size * rng.standard_normal((6, 6))
            assert np.trace(np.linalg.solve(R.T @ R, gram)) * np.max(np.sum(R**2, axis=0)) >= bound * (1 - 1e-9)


@pytest.mark.parametrize(
    "workload",
    [Prefix(7), Ranges(6), Ranges(6, [(0, 3), (2, 5)]), Total(4), DEFICIENT, Marginals((2, 3), 1), Identity(3)],
    ids=str,
)
@pytest.mark.parametrize(("power", "share"), [(50, 0), (70, 40), (20, 100), (30, 0)])
def test_the_strategy_factors_the_workload(workload, power, share):
    """L·R = A, with and without a left inverse of R; variances are the diagonal of L·Lᵀ; cells of queries suffice."""
    made = Optimised(workload, power, share)
    A, L = workload.apply(np.eye(workload.n_cells)), made.noise_answers(np.eye(made.n_noise))
    np.testing.assert_allclose(L @ made.apply(np.eye(workload.n_cells)), A, atol=1e-9)
    np.testing.assert_allclose(np.sum(L**2, axis=1), made.query_variance(), atol=1e-10)
    assert made.mean_variance() == pytest.approx(made.query_variance().mean())
    np.testing.assert_allclose(workload.apply(made.to_cells(np.eye(made.n_noise))), L, atol=1e-12)
    assert made.to_state(np.zeros(made.n_noise)).shape == (made.state_size,)
    made.check(rng=entropy.seeded(2))
    assert made.range_variance(0, 1) == pytest.approx(np.sum(made.to_cells(np.eye(made.n_noise))[:2].sum(0) ** 2))


def test_the_price_holds_for_every_unit():
    """Brute force over all sets of cells stays below the stated L2 and L1, and reaches what is said to be reached."""
    for workload in (Prefix(9), Ranges(9), Marginals((3, 4), 1), DEFICIENT):
        made = Optimised.for_unit(workload, 3)
        R = made.apply(np.eye(workload.n_cells))
        for n_cells in (1, 2, 3, 4):
            stated, largest = made.sensitivity(n_cells), math.sqrt(brute_force(R.T @ R, n_cells))
            assert 0.96 * stated.l2 <= stated.l2_lower <= largest * (1 + 1e-9)
            assert largest <= stated.l2 * (1 + 1e-12)
            sets, l1 = combinations(range(workload.n_cells), n_cells), made.l1_sensitivity(n_cells)
            assert max(np.abs(R[:, list(cells)].sum(axis=1)).sum() for cells in sets) <= l1 * (1 + 1e-12)


def test_bounds_of_dense_matrices_hold():
    """For positive semidefinite matrices with entries of both signs, from both sides."""
    rng = entropy.seeded(3)
    for _ in range(30):
        R = rng.standard_normal((4, 9)) + rng.exponential(size=(4, 1))
        gram = R.T @ R
        for n_cells in (1, 2, 4, 9):
            sums = largest_sum(gram, n_cells)
            largest = max(brute_force(gram, size) for size in range(1, n_cells + 1))
            assert sums.lower * (1 - 1e-12) <= largest <= sums.upper * (1 + 1e-12)


def test_eigenvectors_bound_what_cells_add_up_to():
    """From above for every number of cells, below l times the largest eigenvalue, far where one is large."""
    rng, gained = entropy.seeded(4), []
    for _ in range(60):
        R = rng.standard_normal((8, 8)) + rng.choice([0.0, 1.0, 3.0])
        gram = R.T @ R
        largest = 0.0
        for n_cells in range(1, 9):
            largest = max(largest, brute_force(gram, n_cells))
            values, vectors = np.linalg.eigh(gram)
            bound, plain = _by_eigenvectors(gram, n_cells, values, vectors), n_cells * values[-1]
            assert largest * (1 - 1e-12) <= bound <= plain * (1 + 1e-12)
            gained.append(plain / bound)
    assert max(gained) > 1.5


def test_cells_that_cancel_end_the_search():
    """Where columns cancel but for rounding, the sum of both is negative: the better set is one cell."""
    for rounding in (0.0, 1e-16, 1e-15, 1e-14):
        found = largest_sum(np.array([[1.0, -1.0], [-1.0, 1.0 - rounding]]), 2)
        assert 1.0 <= found.lower <= found.upper


@pytest.mark.parametrize(("workload", "max_keys"), [(Prefix(64), 5), (Prefix(64), 20), (Ranges(32), 5)])
def test_several_cells_are_served_better_by_a_mixture(workload, max_keys):
    """At the certified price of several cells the choice beats the optimum for one cell and plain cells."""

    def error(made):
        return made.mean_variance() * made.sensitivity(max_keys).l2 ** 2

    chosen = Optimised.for_unit(workload, max_keys)
    assert error(chosen) < 0.9 * min(error(Optimised(workload)), error(Optimised(workload, 50, 100)))
    again = Optimised(workload, chosen.power, chosen.share)
    assert again.name == chosen.name
    assert np.array_equal(again.apply(np.eye(workload.n_cells)), chosen.apply(np.eye(workload.n_cells)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Optimised(Prefix(513)), "513 cells"),
        (lambda: Optimised(Prefix(3), power=101), "percentage"),
        (lambda: Optimised(Prefix(3), share=0.5), "percentage"),
        (lambda: Optimised(MatrixWorkload([[0, 0]])), "asks nothing"),
        (lambda: gram_of(Prefix(1025)), "1025 by 1025"),
    ],
)
def test_bad_input_is_refused(make, message):
    """Before anything is computed, with what would be right."""
    with pytest.raises(DeclarationError, match=message):
        make()


@pytest.mark.parametrize(
    "workload", [Prefix(17), Ranges(17), Ranges(9, [(0, 8), (3, 5), (3, 5), (8, 8)]), Identity(5), Total(6)], ids=str
)
def test_the_gram_matrix_of_ranges_is_that_of_their_rows(workload):
    """Counting ranges gives AᵀA as multiplying the rows does."""
    rows = workload.apply(np.eye(workload.n))
    np.testing.assert_array_equal(gram_of(workload), rows.T @ rows)
