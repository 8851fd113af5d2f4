"""Attempts to be told an answer, or a sum of answers, that carries no noise."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import sparsehist as sh
from sparsehist import entropy
from sparsehist.errors import DeclarationError
from sparsehist.workload import Identity, Workload, choose, strategy_named

UNEVEN = {
    "two cells, one weighted": np.diag([1e7, 1.0]),
    "every cell beside a heavy total": np.vstack([np.full(8, 1e8), np.eye(8)]),
    "powers": np.vander(100.0 * np.arange(8), 4).T,
    "one light query": np.vstack([np.diag(np.full(6, 3e5)), np.arange(6.0) % 2]),
}


@pytest.mark.parametrize("matrix", UNEVEN.values(), ids=UNEVEN.keys())
@pytest.mark.parametrize("max_keys", [1, 3])
def test_every_query_gets_noise_however_large_the_others_are(matrix: np.ndarray, max_keys: int) -> None:
    """What is measured determines every query: none is answered from the counts alone, not even in part."""
    workload = Workload.from_matrix(matrix)
    strategy = choose(workload, max_keys)
    strategy.check(rng=entropy.seeded(1))
    factored = strategy.noise_answers(strategy.apply(np.eye(workload.n_cells)))
    size = np.linalg.norm(matrix, axis=1)
    assert (np.abs(factored - matrix).max(axis=1) <= 1e-8 * size).all()
    assert (strategy.query_variance() > 0).all()


@pytest.mark.parametrize("matrix", list(UNEVEN.values())[:3], ids=list(UNEVEN)[:3])
def test_a_strategy_that_would_lose_a_query_is_refused(matrix: np.ndarray) -> None:
    """The numerical optimum leaves out what it takes for rounding; where a query asks about that, it says so."""
    with pytest.raises(DeclarationError, match="differ too much in size"):
        strategy_named("optimised", Workload.from_matrix(matrix))


def test_two_answers_do_not_share_all_of_their_noise() -> None:
    """The difference of two cells is not exact, though a query of large entries stands beside them."""
    log = pl.DataFrame({"user": range(400), "key": [user % 8 for user in range(400)]})
    series = sh.create(":memory:", log, name="s", unit="user", key="key", max_keys=1, domain=sh.Integers(8), seed=1)
    released = series.release_workload(
        "w", sh.Workload.from_matrix(UNEVEN["every cell beside a heavy total"]), level="0.01"
    )
    assert np.ptp(released.frame["noisy_answer"].to_numpy()[1:]) > 1.0


def test_every_identity_query_has_its_own_node_in_a_tree() -> None:
    """A range that ended on one level of a tree takes in nothing of the levels above."""
    for cells in range(1, 40):
        strategy_named("tree", Identity(cells)).check(rng=entropy.seeded(cells))


@pytest.mark.parametrize("users", [8000, 8500])
def test_no_release_fails_for_what_the_counts_are(users: int) -> None:
    """Whether an answer fits into a number is no reason to refuse: only the counts would tell."""
    log = pl.DataFrame({"user": range(users), "a": [0] * users, "b": [0] * users})
    domain = sh.Product(a=sh.Integers(1), b=sh.Integers(1))
    series = sh.create(":memory:", log, name="s", unit="user", key=["a", "b"], max_keys=1, domain=domain, seed=1)
    heavy = sh.Workload.from_matrix([[2**20]])
    released = series.release_workload("w", sh.Kronecker(heavy, heavy), level="0.6")
    noisy, std = released.frame.row(0)[-2:]
    assert abs(noisy / 2**40 - users) < 10 * std / 2**40


def test_intervals_of_a_workload_are_refused_in_words() -> None:
    """A release of a workload has no threshold, and says so."""
    series = sh.create(
        ":memory:",
        pl.DataFrame({"user": [1], "key": [0]}),
        name="s",
        unit="user",
        key="key",
        max_keys=1,
        domain=sh.Integers(4),
    )
    for number, workload in enumerate([sh.Ranges(), sh.Prefix()]):
        with pytest.raises(DeclarationError, match="without a threshold"):
            series.release_workload(f"w{number}", workload, level="0.6").intervals()


def test_an_operator_that_swallows_noise_is_refused() -> None:
    """An operator that is not linear could answer with the counts and drop the noise."""
    from scipy.sparse.linalg import LinearOperator

    def above_100(x: np.ndarray) -> np.ndarray:
        kept: np.ndarray = np.where(np.abs(x) > 100.0, x, 0.0)
        return kept

    def beyond_the_first(x: np.ndarray) -> np.ndarray:
        larger: np.ndarray = np.maximum(x, x[0])
        return larger

    for matvec in (above_100, beyond_the_first):
        with pytest.raises(DeclarationError, match="not linear"):
            sh.Workload.from_matrix(LinearOperator((200, 200), matvec=matvec, rmatvec=matvec, dtype=np.float64))


def test_operators_that_differ_have_paths_of_their_own() -> None:
    """One noise under two strategies would tell what differs between them; small operators are told apart."""
    from scipy.sparse.linalg import LinearOperator

    generator = entropy.seeded(3)
    matrix = generator.standard_normal((4, 12))
    cells = np.arange(12.0)
    probed = np.stack([np.ones(12), np.cos(cells), np.cos(np.sqrt(2.0) * cells + 1.0)])
    free = np.linalg.svd(probed)[2][3:]
    other = matrix + generator.standard_normal((4, len(free))) @ free

    def operator(of: np.ndarray) -> LinearOperator:
        return LinearOperator(of.shape, matvec=lambda x: of @ x, rmatvec=lambda y: of.T @ y, dtype=np.float64)

    assert sh.Workload.from_matrix(operator(matrix)) == sh.Workload.from_matrix(operator(matrix))
    assert sh.Workload.from_matrix(operator(matrix)) != sh.Workload.from_matrix(operator(other))
