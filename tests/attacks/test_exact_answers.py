"""Tests that every workload answer gets noise, whatever the weights, and that no failure reveals a large count."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import sparsehist as sh
from sparsehist.workload import Matrix, choose, strategy_named

UNEVEN = {
    "two cells, one weighted": np.diag([1e7, 1.0]),
    "every cell beside a heavy total": np.vstack([np.full(8, 1e8), np.eye(8)]),
    "powers": np.vander(100.0 * np.arange(8), 4).T,
    "one light query": np.vstack([np.diag(np.full(6, 3e5)), np.arange(6.0) % 2]),
}


@pytest.mark.parametrize("matrix", UNEVEN.values(), ids=UNEVEN.keys())
@pytest.mark.parametrize("max_keys", [1, 3])
def test_every_query_gets_noise_however_large_the_others_are(matrix: np.ndarray, max_keys: int) -> None:
    """Every workload answer has positive noise variance, even if other queries have 1e8 times larger weights."""
    workload = Matrix(matrix)
    strategy = choose(workload, max_keys)
    factored = strategy.noise_answers(strategy.apply(np.eye(workload.n_cells)))
    size = np.linalg.norm(matrix, axis=1)
    assert (np.abs(factored - matrix).max(axis=1) <= 1e-8 * size).all()
    assert (strategy.variance() > 0).all()
    # The optimised strategy must not treat tiny weights as rounding errors, or their queries would get no noise.
    optimised = strategy_named("optimised", workload)
    cells = np.eye(workload.n_cells)
    np.testing.assert_allclose(optimised.to_cells(optimised.apply(cells)), cells, atol=1e-9)
    assert (optimised.variance() > 0).all()


@pytest.mark.parametrize("users", [8000, 8500])
def test_no_release_fails_for_what_the_counts_are(users: int) -> None:
    """A workload answer above 2^53 must not make a release fail: the failure would reveal that a count is large."""
    log = pl.DataFrame({"user": range(users), "a": [0] * users, "b": [0] * users})
    store, domain = sh.open(":memory:", seed=1), sh.Product(a=sh.Integers(1), b=sh.Integers(1))
    series = sh.create(store, log, name="s", unit="user", key=["a", "b"], max_keys=1, domain=domain)
    heavy = Matrix([[2**20]])
    released = series.release("w", workload=sh.workload.Kronecker(heavy, heavy), level="0.6")
    noisy, std = released.frame.row(0)[-2:]
    assert abs(noisy / 2**40 - users) < 10 * std / 2**40
