"""How many cells of each group exceed: certain, impossible, refused, and right where p is near 0 or 1."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import poisson

from sparsehist import entropy
from sparsehist.errors import InputError, ThresholdError
from sparsehist.histogram.binomial import binomial
from tests.stats import assert_consistent, assert_detected, g_test


@pytest.mark.parametrize(
    ("n", "log_p"),
    [
        (10**18, math.log(3e-18)),
        (10**25, math.log(3e-25)),
        (2**14, math.log1p(-3 * 2.0**-14)),
        (7**2000, math.log(3) - 2000 * math.log(7)),
    ],
)
def test_rare_successes_and_rare_failures_are_as_rare_as_asked(n: int, log_p: float) -> None:
    """The rarer of the two has a mean of 3 and its law; 100,000 draws see a mean that is 5 % off."""
    drawn = binomial([n] * 100_000, np.full(100_000, log_p), rng=entropy.seeded(31))
    rarer = n - drawn if log_p > -1.0 else drawn
    seen = np.bincount(rarer, minlength=40)
    # Poisson's law is 3 / n away, which 100,000 draws do not see.
    law, wrong = (poisson.pmf(np.arange(seen.size), mean) for mean in (3.0, 3.15))
    assert_consistent(g_test(seen, law))
    assert_detected(g_test(seen, wrong), "a mean 5 % off")


def test_certain_and_impossible_events() -> None:
    """p of one takes all, p of zero takes none, at any size that fits."""
    got = binomial([7, 7, 0, 2**31 - 8, 10**30], [0.0, -np.inf, -1.0, 0.0, -np.inf], rng=entropy.seeded(1))
    assert got.tolist() == [7, 0, 0, 2**31 - 8, 0]


def test_more_than_fit_and_less_than_nothing_are_refused_before_drawing() -> None:
    """An expectation beyond 2**31 is an error, not a memory hog; so is a negative number of cells."""
    with pytest.raises(ThresholdError):
        binomial([10**30], [math.log(1e-10)], rng=entropy.seeded(1))
    with pytest.raises(InputError):
        binomial([5, -1], [-1.0, -1.0], rng=entropy.seeded(1))
