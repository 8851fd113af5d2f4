"""Frequencies from releases of randomised response."""

from __future__ import annotations

import numpy as np
import pytest

import sparsehist as sh
from sparsehist import entropy
from sparsehist.errors import InputError
from sparsehist.local import frequencies
from tests.stats import assert_consistent, mean_test


def spread(k: int, epsilon: float, people: int, count: float) -> float:
    """Standard deviation of an estimate, from the probabilities of showing one's own answer and another one."""
    own = np.exp(epsilon) / (np.exp(epsilon) + k - 1)
    other = (1 - own) / (k - 1)
    return np.sqrt(count * own * (1 - own) + (people - count) * other * (1 - other)) / (own - other)


def test_the_spread_has_the_reference_value():
    """k = 5, epsilon = 1, 2,000 of 10,000; and the table states it at its own estimates."""
    assert spread(5, 1, 10_000, 2000) == pytest.approx(151.19359379103288771, rel=1e-14)
    table = frequencies(
        sh.MultipleRelease(sh.noise.RandomisedResponse(categories=5), [0, 1, 2, 3, 4] * 2000).release(1)
    )
    assert table.std == pytest.approx(spread(5, 1, 10_000, table.estimate), rel=1e-12)


def test_estimates_are_unbiased_with_the_stated_spread(monkeypatch):
    """Over 1,000 surveys, each category; and the finest level is the one to read."""
    from sparsehist.dense import multiple_release

    seeds = iter(range(10**6))
    monkeypatch.setattr(multiple_release, "generator", lambda: entropy.seeded(next(seeds)))
    family, counts = sh.noise.RandomisedResponse(categories=4), np.array([500, 300, 150, 50])
    truth = np.repeat(np.arange(4), counts)
    tables = [frequencies(sh.MultipleRelease(family, truth).release(1)) for _ in range(1000)]
    for category, count in enumerate(counts):
        std = spread(4, 1, 1000, count)
        estimates = np.array([table.estimate[category] for table in tables])
        assert_consistent(mean_test(estimates, count, std**2))
        assert estimates.std() == pytest.approx(std, rel=0.12)
        assert np.mean([table.std[category] for table in tables]) == pytest.approx(std, rel=0.02)


def test_other_releases_are_refused():
    """Noise on counts and processed values have no frequencies."""
    with pytest.raises(InputError, match="Gaussian"):
        frequencies(sh.MultipleRelease(sh.noise.Gaussian(), [1, 2]).release(1))
    vector = sh.MultipleRelease(sh.noise.RandomisedResponse(categories=3), [0, 1])
    with pytest.raises(InputError, match="post-processed"):
        frequencies(vector.release(1).process(sh.dense.clip_negative()))
