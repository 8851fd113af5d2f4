"""A union answered part by part: factored, priced, and at the best shares of the budget."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sparsehist import entropy
from sparsehist.errors import DeclarationError
from sparsehist.workload import Identity, Marginals, MatrixWorkload, Prefix, Total, Union, strategy_named
from sparsehist.workload.strategies.invertible import IdentityStrategy
from sparsehist.workload.strategies.optimised import Optimised
from sparsehist.workload.strategies.residual_basis import ResidualBasis
from sparsehist.workload.strategies.union_strategy import UnionStrategy
from tests.workload.test_optimised import brute_force

CASES = [
    (Union(Prefix(5), Identity(5)), (Optimised, IdentityStrategy)),
    (Union(Marginals((2, 3), 1), Marginals((2, 3), 2)), (ResidualBasis, ResidualBasis)),
    (Union(Total(4), Prefix(4), Identity(4)), (Optimised, Optimised, IdentityStrategy)),
]


def made(case):
    """The strategy of a case."""
    union, kinds = case
    return UnionStrategy(union, [kind(part) for kind, part in zip(kinds, union.parts, strict=True)])


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case[0]))
def test_it_factors_the_union_within_its_price(case):
    """L·R = A, variances are those of L, and no set of cells moves R·x further than stated."""
    strategy = made(case)
    union = strategy.workload
    A, R = union.apply(np.eye(union.n_cells)), strategy.apply(np.eye(union.n_cells))
    L = strategy.noise_answers(np.eye(strategy.n_noise))
    np.testing.assert_allclose(L @ R, A, atol=1e-9)
    np.testing.assert_allclose(np.sum(L**2, axis=1), strategy.query_variance(), atol=1e-9)
    assert strategy.mean_variance() == pytest.approx(strategy.query_variance().mean())
    np.testing.assert_allclose(strategy.state_answers(strategy.to_state(np.eye(strategy.n_noise))), L, atol=1e-9)
    assert strategy.to_state(np.zeros(strategy.n_noise)).shape == (strategy.state_size,)
    strategy.check(rng=entropy.seeded(1))
    for n_cells in range(1, union.n_cells + 1):
        stated, largest = strategy.sensitivity(n_cells), math.sqrt(brute_force(R.T @ R, n_cells))
        assert stated.l2_lower <= largest * (1 + 1e-9)
        assert largest <= stated.l2 * (1 + 1e-9)
    assert strategy.sensitivity(1).l2 == pytest.approx(1.0)


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case[0]))
def test_no_other_shares_are_better(case):
    """Shares drawn at random give a larger mean variance at the price of one cell."""
    strategy = made(case)
    prices = np.array([part.sensitivity(1).l2 for part in strategy.strategies])
    variances = np.array([part.mean_variance() * part.workload.n_queries for part in strategy.strategies])
    for shares in entropy.seeded(2).dirichlet(np.ones(len(prices)), 200):
        other = float(np.sum(variances * prices**2 / shares)) / strategy.workload.n_queries
        assert strategy.mean_variance() <= other * (1 + 1e-9)


_BESIDE_NOTHING = Union(Prefix(3), MatrixWorkload([[0, 0, 0]]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: UnionStrategy(Prefix(3), [IdentityStrategy(Prefix(3))]), "union of workloads"),
        (lambda: UnionStrategy(Union(Prefix(3), Total(3)), [IdentityStrategy(Prefix(3))]), "one strategy"),
        (lambda: strategy_named("union(identity, identity)", _BESIDE_NOTHING), "asks nothing"),
        (lambda: strategy_named("union(direct, direct)", _BESIDE_NOTHING), "asks nothing"),
    ],
)
def test_bad_input_is_refused(make, message):
    """A strategy for each part, and for that part."""
    with pytest.raises(DeclarationError, match=message):
        make()
