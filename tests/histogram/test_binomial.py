"""Tests of `binomial`, which draws how many untracked cells exceed a threshold."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy import stats

from sparsehist import entropy
from sparsehist.errors import InputError, ThresholdError
from sparsehist.histogram.binomial import _inverted, binomial
from tests.cases import slow
from tests.noise.exact_integer_laws import DIGITS, binomial_mass
from tests.stats import assert_consistent, assert_detected, g_test


class Given:
    """A stand-in for a random generator that returns prepared uniform numbers."""

    def __init__(self, numbers: np.ndarray) -> None:
        self.numbers = numbers

    def random(self, _size: int) -> np.ndarray:
        """Return the prepared numbers."""
        return self.numbers


def misplaced(n: float, p: float, exact_p: float) -> float:
    """Return a bound on the probability that the package's binomial draw for `p` differs from the exact draw.

    The exact draw has success probability `exact_p`. Both draws are step functions of one uniform number, and the
    bound is the sum of the distances between the jumps of the two functions.
    """
    mean = n * p
    k = np.arange(max(0, int(mean - 9 * mean**0.5)), int(min(n, mean + 9 * mean**0.5 + 25)))
    low, high = np.zeros(k.size), np.full(k.size, 1 - 2.0**-53)
    for _ in range(60):
        middle = (low + high) / 2
        above = _inverted(np.full(k.size, n), np.full(k.size, p), rng=Given(middle)) > k
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    with mpmath.workdps(DIGITS):
        mass, cumulative, total = binomial_mass(n, exact_p), mpmath.mpf(0), mpmath.mpf(0)
        for i in range(int(k[0])):
            cumulative += mass(i)
        for i, crossed in zip(k.tolist(), high.tolist(), strict=True):
            cumulative += mass(i)
            total += abs(cumulative - mpmath.mpf(crossed))
        return float(total)


@pytest.mark.parametrize(
    ("n", "p"), [(3.0, 0.01), (20.0, 0.2), (64.0, 0.45), (120.0, 0.5), (1e6, 1e-6), (1e9, 6e-8), (1e15, 3e-15)]
)
def test_small_means_are_added_up_to_twelve_digits(n: float, p: float) -> None:
    """For a small mean, a binomial draw differs from the exact draw with probability below 1e-12.

    Negative control: a success probability with a relative error of 1e-9 is detected.
    """
    assert misplaced(n, p, p) < 1e-12
    assert misplaced(n, p * (1 + 1e-9), p) > 2e-12


@pytest.mark.parametrize(
    ("n", "p"),
    [(12, 0.3), (12, 0.97), (10**9, 4e-9), (10**6, 3e-4), (10**25, 1e-19),
     *(slow(*case) for case in ((200, 0.5), (1000, 0.05), (10**6, 0.5), (10**69, 2e-67), (10**77, 5e-75)))],
)  # fmt: skip
def test_numbers_follow_their_law(n: int, p: float) -> None:
    """Binomial draws follow their exact distribution. Draws with a slightly wrong probability would be detected."""
    draws = 100_000 if n * min(p, 1 - p) < 100 else 20_000 if n * p < 1e4 else 3_000
    law = stats.poisson(n * p) if n > 10**15 else stats.binom(n, p)
    edges = np.unique(law.ppf(np.arange(1, 20) / 20))
    cells = np.diff(np.concatenate([[0.0], law.cdf(edges), [1.0]]))
    wrong = math.log(p) + max(0.01, 0.2 / math.sqrt(n * p)) * (1 if p < 0.9 else -1)
    for log_p, judge in ((math.log(p), assert_consistent), (wrong, assert_detected)):
        drawn = binomial([n] * draws, np.full(draws, log_p), rng=entropy.seeded(41))
        judge(g_test(np.bincount(np.searchsorted(edges, drawn), minlength=cells.size), cells), f"n = {n}, p = {p}")


@pytest.mark.parametrize(
    ("n", "log_p"),
    [
        (10**25, math.log(3e-25)),
        (2**14, math.log1p(-3 * 2.0**-14)),
        slow(10**18, math.log(3e-18)),
        slow(7**2000, math.log(3) - 2000 * math.log(7)),
    ],
    ids=["tiny", "nearly one", "small", "beyond doubles"],
)
def test_rare_successes_and_rare_failures_are_as_rare_as_asked(n: int, log_p: float) -> None:
    """The number of successes or failures is correctly distributed, even if its mean is only 3 in many trials.

    Negative control: a distribution with mean 3.15 is detected as wrong.
    """
    drawn = binomial([n] * 100_000, np.full(100_000, log_p), rng=entropy.seeded(31))
    rarer = n - drawn if log_p > -1.0 else drawn
    seen = np.bincount(rarer, minlength=40)
    # A Poisson distribution differs from the binomial distribution by about 3 / n, which 100,000 draws cannot detect.
    law, wrong = (stats.poisson.pmf(np.arange(seen.size), mean) for mean in (3.0, 3.15))
    assert_consistent(g_test(seen, law))
    assert_detected(g_test(seen, wrong), "a mean 5 % off")


def test_certain_and_impossible_events() -> None:
    """If the exceedance probability is 1, all cells exceed the threshold; if it is 0, no cell does."""
    got = binomial([7, 7, 0, 2**31 - 8, 10**30], [0.0, -np.inf, -1.0, 0.0, -np.inf], rng=entropy.seeded(1))
    assert got.tolist() == [7, 0, 0, 2**31 - 8, 0]
    assert binomial([], [], rng=entropy.seeded(1)).size == 0


def test_more_than_fit_and_less_than_nothing_are_refused_before_drawing() -> None:
    """A negative number of cells, and over 2**31 expected exceedances, are refused before memory is allocated."""
    for numbers, log_p in ([10**30], math.log(1e-10)), ([10**400], -1.0), ([10**12], 0.0):
        with pytest.raises(ThresholdError):
            binomial(numbers, [log_p], rng=entropy.seeded(1))
    with pytest.raises(InputError):
        binomial([5, -1], [-1.0, -1.0], rng=entropy.seeded(1))
