from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest

from sparsehist.entropy import seeded
from sparsehist.noise import DiscreteLaplace, Gaussian, Laplace
from sparsehist.workload import (
    Identity,
    Kronecker,
    Marginals,
    Matrix,
    Prefix,
    Ranges,
    Union,
    answers_of_state,
    cells_of_state,
    next_state,
    state_size,
    strategy_named,
)
from tests.stats import assert_consistent, assert_detected, gaussian_vector_test, mean_test, two_sample_vectors

LEVELS = (Fraction(1, 10), Fraction(2, 5), Fraction(3))
ROWS = Matrix([[1, 2, 0, 0, 1], [0, 0, 1, 1, 0]])
PAIRS = Marginals((2, 3, 2), 2)
STRATEGIES = [
    strategy_named(name, workload)
    for name, workload in (
        ("spectral", Prefix(4)),
        ("spectral(blend=2, window=1)", Ranges(4)),
        ("identity", ROWS),
        ("square_root(scaled=True)", Prefix(4)),
        ("square_root", Prefix(4)),
        ("haar", Ranges(5)),
        ("direct", ROWS),
        ("residual", PAIRS),
        ("residual", Marginals((2, 3), [[0, 1], [0]])),
        ("direct", PAIRS),
        ("optimised", Ranges(4, [(0, 1), (1, 3)])),
        ("optimised(share=50)", Prefix(4)),
        ("kronecker(optimised, identity)", Kronecker(Prefix(3), Identity(2))),
        ("kronecker(direct, spectral)", Kronecker(Ranges(3, [(0, 1), (1, 2)]), Prefix(2))),
        ("union(optimised, identity)", Union(Prefix(3), Identity(3))),
    )
]


class Coefficients:
    """A stand-in for a random generator, whose normal draws are unit vectors.

    With unit vectors as draws, noise is a matrix with one coefficient per draw, which gives the exact covariance.
    """

    def __init__(self, draws):
        self.draws, self.drawn = draws, 0

    def standard_normal(self, size):
        block = np.zeros((size, self.draws * size))
        block[:, self.drawn * size : (self.drawn + 1) * size] = np.eye(size)
        self.drawn += 1
        return block


def _answers(strategy, order, sensitivity):
    family, states, rng = Gaussian(sensitivity=sensitivity), {}, Coefficients(len(order))
    for level in order:
        states[level] = next_state(family, strategy, states, level, rng=rng)
        assert len(states[level]) == state_size(family, strategy)
    if strategy.workload.explicit:
        return {level: answers_of_state(family, strategy, state) for level, state in states.items()}
    return {
        level: strategy.workload.apply(cells_of_state(family, strategy, state)) for level, state in states.items()
    }


def _gap(strategy, answers, sensitivity):
    """Return the largest error of the covariance of answers over levels, relative to the largest exact covariance."""
    L = strategy.noise_answers(np.eye(strategy.n_noise))
    law = L @ L.T * sensitivity**2 / 2
    pairs = [(one, other) for one in answers for other in answers]
    gaps = [np.abs(answers[a] @ answers[b].T * float(max(a, b)) - law).max() for a, b in pairs]
    return max(gaps) / np.abs(law).max()


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.name)
def test_the_joint_law_over_levels_is_exact_in_any_order(strategy):
    """Answers at any two of three levels have the exact covariance, in every order of drawing the levels."""
    sensitivity = strategy.l2(2)
    for order in permutations(LEVELS):
        assert _gap(strategy, _answers(strategy, order, sensitivity), sensitivity) < 1e-11


def test_a_wrong_path_has_another_covariance():
    """Negative control: with independent levels, or a sensitivity 5 % off, the covariance of answers is wrong."""
    strategy, sensitivity = STRATEGIES[0], 1.0
    assert _gap(strategy, _answers(strategy, LEVELS, 1.05 * sensitivity), sensitivity) > 0.05
    family, states, rng = Gaussian(), {}, Coefficients(3)
    for level in LEVELS:
        states[level] = answers_of_state(family, strategy, next_state(family, strategy, {}, level, rng=rng))
    assert _gap(strategy, states, sensitivity) > 0.5


DRAWS = 40_000


def _drawn(family, strategy, order, seed, *, draws=DRAWS, forget=False):
    """Return the noise of answers at all levels, from coarse to fine; shape (draws, levels · queries).

    To save time, 100 independent copies of the strategy are drawn at once.
    """
    rng, columns = seeded(seed), []
    for _ in range(draws // 100):
        states = {}
        for level in order:
            known = {} if forget else states
            states[level] = next_state(family, _Copies(strategy, 100), known, level, rng=rng)
        answers = [strategy.noise_answers(_Copies.split(states[level], 100)) for level in LEVELS]
        columns.append(np.concatenate(answers))
    return np.concatenate(columns, axis=1).T


class _Copies:
    """Several independent copies of a strategy. Their noise is drawn as one array, which `split` divides by copy."""

    invertible = False

    def __init__(self, strategy, copies):
        self.n_noise = strategy.n_noise * copies

    @staticmethod
    def split(state, copies):
        return np.asarray(state, float).reshape(-1, copies)


ORDER = (LEVELS[2], LEVELS[0], LEVELS[1])


def test_draws_follow_the_joint_law():
    """Answers at three levels have the exact joint normal distribution; independent or too wide noise is rejected."""
    strategy = strategy_named("spectral", Prefix(3))
    L = strategy.noise_answers(np.eye(3))
    finer = np.maximum.outer([float(level) for level in LEVELS], [float(level) for level in LEVELS])
    law = np.kron(1 / (2 * finer), L @ L.T)
    drawn = _drawn(Gaussian(), strategy, ORDER, 11)
    assert_consistent(gaussian_vector_test(drawn, law), "answers at three levels")
    assert_detected(gaussian_vector_test(_drawn(Gaussian(), strategy, ORDER, 12, forget=True), law), "fresh noise")
    assert_detected(gaussian_vector_test(_drawn(Gaussian(1.05), strategy, ORDER, 13), law), "a scale 5 % off")


@pytest.mark.parametrize("family", [Laplace(1.0), DiscreteLaplace(2)], ids=["laplace", "discrete_laplace"])
def test_other_families_keep_their_noise(family):
    """Laplace noise drawn at levels out of order has the joint distribution of noise drawn from fine to coarse."""
    strategy = strategy_named("haar", Prefix(2))
    state = next_state(family, strategy, {}, LEVELS[0], rng=seeded(1))
    assert state.shape == (2,) and state.dtype == (np.int64 if family.integer else np.float64)
    drawn = _drawn(family, strategy, ORDER, 21, draws=20_000)
    straight = _drawn(family, strategy, LEVELS[::-1], 22, draws=20_000)
    assert_consistent(two_sample_vectors(drawn, straight, directions=4), "answers at three levels")
    variance = np.tile(strategy.variance(), 3) * np.repeat([family.std(level) ** 2 for level in LEVELS], 2)
    for column, wanted in zip(drawn.T, variance, strict=True):
        assert_consistent(mean_test(column**2, wanted, float(np.var(column**2))), "the variance of an answer")
    assert_detected(
        two_sample_vectors(_drawn(family, strategy, ORDER, 23, draws=20_000, forget=True), straight, directions=1),
        "fresh noise",
    )
