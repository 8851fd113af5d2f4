"""Binomial draws are exact where numpy's are biased: tiny p, huge n, p near one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from sparsehist import entropy
from sparsehist.errors import ThresholdError
from sparsehist.histogram.binomial import binomial
from tests.stats import assert_consistent, assert_detected, g_test, mean_test

DRAWS = 40_000


def draw(n: int, p: float, seed: int, draws: int = DRAWS) -> np.ndarray:
    """Draw many times from one binomial law."""
    return binomial([n] * draws, np.full(draws, math.log(p)), rng=entropy.seeded(seed))


@pytest.mark.parametrize(
    ("n", "p"),
    [
        (12, 0.3),
        (12, 0.97),
        (200, 1e-3),
        (10**6, 3e-7),  # thinned in two stages
        (10**7, 2.0**-20),
        (10**9, 4e-9),
        (10**15, 1e-13),  # Poisson
        (2**33, 1e-9),  # distinct cells hit by points
        (10**10, 5e-10),
    ],
)
def test_numbers_follow_the_binomial_law(n: int, p: float) -> None:
    """A G-test on the exact mass function; 40,000 draws see a mean of 0.2 off by 10 %, larger ones sooner."""
    top = int(binom.ppf(1 - 1e-9, n, p)) if n < 2**31 else int(n * p + 12 * math.sqrt(n * p) + 12)
    drawn = np.minimum(draw(n, p, 31), top)
    mass = binom.pmf(np.arange(top + 1), n, p)
    mass[-1] += max(0.0, 1 - mass.sum())
    assert_consistent(g_test(np.bincount(drawn, minlength=top + 1), mass / mass.sum()), f"n={n}, p={p}")
    wrong = np.minimum(draw(n, min(p * 1.15, 0.5 * (1 + p)), 32), top)
    assert_detected(g_test(np.bincount(wrong, minlength=top + 1), mass / mass.sum()), "p 15 % too high")


@pytest.mark.parametrize(("n", "p"), [(10**18, 1e-16), (10**17, 1e-15), (10**24, 1e-22), (2**70, 1e-19)])
def test_the_mean_is_right_where_numpy_is_biased(n: int, p: float) -> None:
    """A million draws of mean 100 see 0.06 %; numpy's are 0.5 to 0.8 % low here."""
    drawn = draw(n, p, 33, draws=10**6)
    assert_consistent(mean_test(drawn, n * p, n * p))
    assert_consistent(mean_test((drawn - n * p) ** 2, n * p, 2 * (n * p) ** 2 + n * p))
    assert_detected(mean_test(drawn, n * p * 1.005, n * p), "a mean 0.5 % too high")


def test_groups_of_rare_events_keep_their_own_rates() -> None:
    """Groups are drawn together: empty ones get nothing, others their own mean; 20,000 rounds see 4 %."""
    sizes, p = [0, 10**9, 7, 0, 3 * 10**9, 10**8, 0], np.array([1e-7, 4e-9, 0.0, 1e-9, 1e-9, 3e-8, 2e-8])
    rounds = 20_000
    with np.errstate(divide="ignore"):
        log_p = np.tile(np.log(p), rounds)
    drawn = binomial(sizes * rounds, log_p, rng=entropy.seeded(34))
    by_group = drawn.reshape(rounds, len(sizes))
    assert not by_group[:, [0, 2, 3, 6]].any()
    for group in (1, 4, 5):
        mean = sizes[group] * p[group]
        assert_consistent(mean_test(by_group[:, group], mean, mean))
        assert_detected(mean_test(by_group[:, group], mean * 1.1, mean))


def test_certain_and_impossible_events() -> None:
    """p of one takes all, p of zero takes none, at any size that fits."""
    got = binomial([7, 7, 0], [0.0, -np.inf, -1.0], rng=entropy.seeded(1))
    assert got.tolist() == [7, 0, 0]


def test_more_than_fit_is_refused_before_drawing() -> None:
    """An expectation beyond 2**31 is an error, not a memory hog."""
    with pytest.raises(ThresholdError):
        binomial([10**30], [math.log(1e-10)], rng=entropy.seeded(1))
