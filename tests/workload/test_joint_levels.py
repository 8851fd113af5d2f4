"""Noise of marginals, products and unions at several levels: the joint covariance, exactly, in any order."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest

from sparsehist.noise import Gaussian
from sparsehist.workload import Identity, Kronecker, Marginals, Prefix, Ranges, Union, answers_of_state, next_state
from sparsehist.workload.strategies.direct_marginals import DirectMarginals, WeightedMarginals
from sparsehist.workload.strategies.invertible import IdentityStrategy
from sparsehist.workload.strategies.kronecker_strategy import KroneckerStrategy
from sparsehist.workload.strategies.optimised import Optimised
from sparsehist.workload.strategies.residual_basis import ResidualBasis
from sparsehist.workload.strategies.union_strategy import UnionStrategy

LEVELS = (Fraction(1, 10), Fraction(1, 2), Fraction(3))
PAIRS = Marginals((2, 3, 2), 2)
PRODUCT = Kronecker(Prefix(3), Identity(2))
UNION = Union(Prefix(3), Identity(3))
STRATEGIES = [
    ResidualBasis(PAIRS),
    ResidualBasis(Marginals((2, 3), [[0, 1], [0]])),
    DirectMarginals(PAIRS),
    WeightedMarginals(PAIRS),
    Optimised(Ranges(4, [(0, 1), (1, 3)])),
    Optimised(Prefix(4), 60, 50),
    KroneckerStrategy(PRODUCT, [Optimised(PRODUCT.parts[0]), IdentityStrategy(PRODUCT.parts[1])]),
    UnionStrategy(UNION, [Optimised(UNION.parts[0]), IdentityStrategy(UNION.parts[1])]),
]


class Coefficients:
    """Stands for a generator: each vector of normals it draws is written by its coefficients on independent ones."""

    def __init__(self, draws):
        self.draws, self.drawn = draws, 0

    def standard_normal(self, size):
        """The next `size` independent normals, one a column."""
        block = np.zeros((size, self.draws * size))
        block[:, self.drawn * size : (self.drawn + 1) * size] = np.eye(size)
        self.drawn += 1
        return block


def joint(strategy, order):
    """Coefficients of L·Z at the three levels, drawn in this order."""
    family = Gaussian(sensitivity=strategy.sensitivity(2).l2)
    states, rng = {}, Coefficients(len(LEVELS))
    for level in order:
        states[level] = next_state(family, strategy, states, level, rng=rng)
    assert {state.shape[0] for state in states.values()} == {strategy.state_size}
    return {level: answers_of_state(family, strategy, state) for level, state in states.items()}


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
def test_the_covariance_between_levels_is_that_of_the_finer(strategy):
    """Cov(L·Z_ρ, L·Z_ρ') = L·Lᵀ·Δ²/(2 max(ρ, ρ')), whatever the order of the levels."""
    L = strategy.noise_answers(np.eye(strategy.n_noise))
    for order in permutations(LEVELS):
        answers = joint(strategy, order)
        for one in LEVELS:
            for other in LEVELS:
                wanted = L @ L.T * strategy.sensitivity(2).l2 ** 2 / (2 * float(max(one, other)))
                np.testing.assert_allclose(answers[one] @ answers[other].T, wanted, atol=1e-8 * np.abs(wanted).max())


def test_noise_drawn_afresh_for_a_level_would_be_noticed():
    """A state that forgets its neighbours has no covariance with them: the test above tells."""
    strategy = STRATEGIES[0]
    kept, fresh = joint(strategy, LEVELS), joint(strategy, LEVELS[::-1])
    wanted = kept[LEVELS[0]] @ kept[LEVELS[2]].T
    assert np.abs(kept[LEVELS[0]] @ fresh[LEVELS[2]].T - wanted).max() > 0.1 * np.abs(wanted).max()
