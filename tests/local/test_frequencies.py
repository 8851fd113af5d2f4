"""Tests that frequencies estimated from randomised response are unbiased and have the stated deviation."""

from __future__ import annotations

import numpy as np
import pytest

import sparsehist as sh
from sparsehist import entropy
from sparsehist.errors import InputError
from sparsehist.local import frequencies
from tests.stats import assert_consistent, mean_test


def spread(k: int, epsilon: float, people: int, count: float) -> float:
    """Return the exact standard deviation of the estimated count of a category that `count` people have."""
    own = np.exp(epsilon) / (np.exp(epsilon) + k - 1)
    other = (1 - own) / (k - 1)
    return np.sqrt(count * own * (1 - own) + (people - count) * other * (1 - other)) / (own - other)


def test_estimates_are_unbiased_with_the_stated_spread(monkeypatch):
    """Over 1,000 surveys, frequencies from randomised response are unbiased, with the stated standard deviation."""
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


def test_processed_releases_are_refused():
    """Estimating frequencies from a post-processed release is refused."""
    vector = sh.MultipleRelease(sh.noise.RandomisedResponse(categories=3), [0, 1])
    with pytest.raises(InputError, match="post-processed"):
        frequencies(vector.release(1).process(sh.dense.clip_negative()))
