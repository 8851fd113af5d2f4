"""L1 bounds of matrices without structure against all sets of their columns."""

import numpy as np
import pytest

from sparsehist.entropy import seeded
from sparsehist.workload import MatrixWorkload, strategy_named
from sparsehist.workload.gram import signed_columns
from sparsehist.workload.gram.signed_columns import largest_l1
from sparsehist.workload.gram.written_out import largest_sum, row_sums, shared_out, squares_within


def by_size(R):
    """The greatest norm over sets of at most 1, 2, …, n columns: all subsets."""
    n = R.shape[1]
    sets = (np.arange(1, 2**n)[:, np.newaxis] >> np.arange(n)) & 1
    norms, sizes = np.abs(R @ sets.T).sum(axis=0), sets.sum(axis=1)
    return np.maximum.accumulate([norms[sizes == size].max() for size in range(1, n + 1)])


def matrices(rng):
    """Square and not, with heavy diagonals, rows of unlike sizes, signs, columns that cancel."""
    for rows, n in ((9, 9), (4, 10), (30, 8)):
        plain = rng.standard_normal((rows, n))
        yield plain
        yield plain * rng.exponential(size=(rows, 1)) ** 2
        yield np.sign(plain)
        yield np.concatenate([plain[:, : n // 2], -plain[:, : n - n // 2]], axis=1)
        yield plain + 3.0 * np.eye(rows, n)
    yield np.eye(6) - 1.0 / 6
    yield -np.eye(5)


BOUNDS = {
    "pairs": signed_columns._by_pairs,
    "triples": lambda R, keys: signed_columns._by_triples(R, max(keys, 3)),
    "squares": lambda R, keys: signed_columns._by_squares(R, keys, halves=False),
    "halves": lambda R, keys: signed_columns._by_squares(R, keys, halves=True),
    "least": largest_l1,
}


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("few", [True, False])
def test_no_set_of_columns_is_above_a_bound(name, few, monkeypatch):
    """For every number of columns; sets of fewer count, which in L1 may come to more."""
    if not few:
        monkeypatch.setattr(signed_columns, "_FEW_SETS", 0)
    for R in matrices(seeded(1)):
        largest = by_size(R)
        for keys in range(2, R.shape[1] + 1):
            assert largest[keys - 1] <= BOUNDS[name](R, keys) * (1 + 1e-12)


def test_small_matrices_are_exact():
    """All sets where they are few, pairs and triples where they are not."""
    rng = seeded(2)
    for R in matrices(rng):
        largest = by_size(R)
        assert [largest_l1(R, keys) for keys in range(1, R.shape[1] + 1)] == pytest.approx(largest, rel=1e-11)
    R = rng.standard_normal((40, 50))
    pairs = np.abs(R[:, :, np.newaxis] + R[:, np.newaxis])
    assert largest_l1(R, 2) == pytest.approx(pairs.sum(axis=0)[np.triu_indices(50, 1)].max(), rel=1e-11)
    triples = max(
        np.abs(R[:, [i]] + R[:, [j]] + R[:, j + 1 :]).sum(axis=0).max() for i in range(48) for j in range(i + 1, 49)
    )
    assert largest_l1(R, 3) == pytest.approx(triples, rel=1e-11)


@pytest.mark.parametrize(
    ("name", "part", "wrong"),
    [
        ("squares", "shared_out", lambda most, total: shared_out(most, total / 2)),
        ("squares", "squares_within", lambda vectors, keys: squares_within(vectors, keys) / 2),
        ("squares", "row_sums", lambda gram, keys: row_sums(gram, keys) / 2),
        ("halves", "shared_out", lambda most, total: shared_out(most / 4, total)),
        ("pairs", "_largest", lambda values, keys: values.mean(axis=-1) * keys),
        ("triples", "_largest", lambda values, keys: values.mean(axis=-1) * keys),
    ],
)
def test_a_bound_that_is_none_is_noticed(name, part, wrong, monkeypatch):
    """Less room, smaller caps, or the mean in the place of the largest, and some set is above it."""
    monkeypatch.setattr(signed_columns, part, wrong)
    passed = 0
    for R in matrices(seeded(1)):
        largest = by_size(R)
        passed += any(largest[keys - 1] > BOUNDS[name](R, keys) * (1 + 1e-9) for keys in range(2, R.shape[1] + 1))
    assert passed


@pytest.mark.parametrize(("keys", "loosest"), [(2, 1.0001), (3, 1.0001), (5, 1.2), (20, 1.36), (60, 1.36)])
def test_random_matrices_are_near_what_a_search_finds(keys, loosest):
    """Signs of a search, and the cells that suit them, in turns; measured as they are and under the optimum."""
    rng = seeded(4)
    for matrix in (rng.choice([-1.0, 1.0], (64, 64)), rng.standard_normal((64, 64))):
        for name in ("direct", "optimised"):
            strategy = strategy_named(name, MatrixWorkload(matrix))
            R, reached = strategy.apply(np.eye(64)), 0.0
            for start in range(64):
                chosen = [start]
                for _ in range(keys - 1):
                    norms = np.abs(R[:, chosen].sum(axis=1, keepdims=True) + R).sum(axis=0)
                    norms[chosen] = 0.0
                    chosen.append(int(np.argmax(norms)))
                before = -1.0
                while (norm := float(np.abs(R[:, chosen].sum(axis=1)).sum())) > before * (1 + 1e-12):
                    before, gain = norm, R.T @ np.sign(R[:, chosen].sum(axis=1))
                    best = np.argsort(-gain, kind="stable")[:keys]
                    chosen = best[gain[best] > 0].tolist()
                reached = max(reached, before, norm)
            if keys > 3:
                assert reached <= strategy.l1_sensitivity(keys) * (1 + 1e-12) <= loosest * reached
            else:
                assert reached <= strategy.l1_sensitivity(keys) * (1 + 1e-12)


def test_the_worst_set_of_differences_is_a_greatest_cut():
    """Why no bound is close for every matrix; with columns of both signs it is the greatest over all signs."""
    rng = seeded(6)
    for _ in range(5):
        n, edges = 8, np.array([(u, v) for u in range(8) for v in range(u) if rng.random() < 0.6])
        R = np.zeros((len(edges), n))
        R[np.arange(len(edges)), edges[:, 0]], R[np.arange(len(edges)), edges[:, 1]] = 1.0, -1.0
        signs = 1.0 - 2.0 * ((np.arange(2**n)[:, np.newaxis] >> np.arange(n)) & 1)
        cut = (signs[:, edges[:, 0]] != signs[:, edges[:, 1]]).sum(axis=1).max()
        assert by_size(R)[n // 2 - 1] == cut == by_size(R)[-1]
        M = rng.standard_normal((3, 5))
        assert by_size(np.concatenate([M, -M], axis=1))[4] == pytest.approx(
            np.abs(M @ signs[:, :5].T).sum(axis=0).max()
        )


def test_queries_of_whole_numbers_have_a_whole_sensitivity():
    """Integer noise is scaled to it; below the norms of columns added up."""
    strategy = strategy_named("direct", MatrixWorkload(seeded(5).choice([-1.0, 1.0], (40, 30))))
    for keys in (1, 2, 5, 30):
        stated = strategy.l1_sensitivity(keys)
        assert stated == int(stated) and (stated < 40 * keys or keys < 3)


def test_columns_that_nearly_cancel_cost_what_they_reach():
    """What is left of the sum of all columns counts by its root; it is far below the digits of the squares."""
    for left in (1e-8, 1e-9, 1e-10, 1e-11):
        row = np.array([[0.75, 0.5, -0.375, -0.875 - left]])
        reached = float(np.maximum(-row, 0.0).sum())
        for keys in (2, 3, 4):
            assert largest_sum(row.T @ row, keys).upper ** 0.5 >= reached
