from __future__ import annotations

import math

import numpy as np
import pytest

from sparsehist.workload import (
    Identity,
    Kronecker,
    Marginals,
    Matrix,
    Prefix,
    Ranges,
    Total,
    Union,
    choose,
    compare,
    strategy_named,
)
from tests.workload.test_strategies import check_factorization


@pytest.mark.parametrize(
    "workload", [Prefix(300), Ranges(300), Prefix(1), Ranges(2), Identity(50), Total(9)], ids=str
)
@pytest.mark.parametrize("keys", [1, 8])
@pytest.mark.parametrize("pure", [False, True])
def test_the_chosen_strategy_is_the_best_of_the_table(workload, keys, pure):
    """`choose` returns the strategy with the smallest error in the table of `compare`, which states exact errors."""
    chosen, table = choose(workload, keys, pure=pure), compare(workload, keys, pure=pure)
    errors = {candidate.strategy: candidate.mean_squared_error for candidate in table}
    assert errors[chosen.name] == pytest.approx(min(errors.values()))
    assert errors == dict(sorted(errors.items(), key=lambda item: item[1]))
    for candidate in table:
        made = strategy_named(candidate.strategy, workload)
        scale = made.l1(keys) if pure else made.l2(keys)
        assert candidate.mean_squared_error == pytest.approx(scale**2 * made.mean_variance())
        assert math.isfinite(candidate.mean_squared_error) and candidate.mean_squared_error > 0
        assert candidate.ratio is None if pure or keys > 1 else candidate.ratio >= 1 - 1e-9


def test_the_choice_depends_on_the_cells_of_a_unit():
    """For prefix sums with 80 cells per unit, noise on cells has a smaller error than the spectral strategy.

    The strategy that `choose` returns for 80 cells per unit has a still smaller error than noise on cells.
    """
    table = {candidate.strategy: candidate.mean_squared_error for candidate in compare(Prefix(256), 80)}
    chosen = choose(Prefix(256), 80).name
    assert table["identity"] < table["spectral"] / 1.8
    assert table[chosen] < table["identity"]


def test_a_long_column_is_priced_on_a_shorter_one():
    """A strategy for millions of cells is chosen quickly, because strategies are compared on far fewer cells."""
    assert choose(Prefix(10**7), 1).name == "spectral"
    assert choose(Ranges(10**7), 1, pure=True).name == "haar"
    assert choose(Marginals((10**6, 10**6), up_to=1), 2, pure=True, integer=True).name == "direct"


@pytest.mark.parametrize("keys", [1, 3])
@pytest.mark.parametrize("pure", [False, True])
@pytest.mark.parametrize(
    "workload",
    [
        Union(Marginals((2, 3), 1), Marginals((2, 3), [[]])),
        Union(Kronecker(Identity(2), Identity(3)), Marginals((2, 3), [[0]])),
        Union(Union(Kronecker(Total(4))), Identity(4)),
        Union(Matrix([[0, 0, 0]]), Identity(3)),
    ],
    ids=["marginals", "product and marginals", "a union in a union", "a part that asks nothing"],
)
def test_every_union_has_a_strategy(workload, pure, keys):
    """Every union of workloads gets a strategy, even if one part is itself a union or has only zero weights."""
    chosen = choose(workload, keys, pure=pure)
    check_factorization(chosen)
    assert compare(workload, keys, pure=pure)[0].strategy == chosen.name


@pytest.mark.parametrize("workload", [Prefix(30), Marginals((3, 4), 1), Total(9)], ids=str)
@pytest.mark.parametrize("keys", [1, 4])
def test_integer_noise_gets_a_strategy_of_whole_numbers(workload, keys):
    """For integer noise, only strategies with integer weights are compared and chosen."""
    chosen = choose(workload, keys, pure=True, integer=True)
    rows = chosen.apply(np.eye(workload.n_cells))
    assert (rows == np.rint(rows)).all()
    assert all(strategy_named(one.strategy, workload).integral for one in compare(workload, keys, integer=True))
