"""Tests of unusual histories: tracked cells with very low noise, rare histories, and nearly equal levels."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sparsehist import entropy
from sparsehist.histogram import draw_exceeding, draw_round
from sparsehist.histogram.history import RAREST, history_of, rarity
from sparsehist.noise import DiscreteLaplace, Family, Gaussian, Laplace, Poisson, Skellam
from tests.histogram import dense_reference
from tests.histogram.sparse_simulation import independent_redraw
from tests.stats import assert_consistent, assert_detected, two_sample_vectors

FAMILIES = [Gaussian(1.5), Laplace(1.5), DiscreteLaplace(2), Poisson(), Skellam()]
# One family with real noise and one with integer noise are always tested; the others only in slow test runs.
EACH_KIND = [
    pytest.param(family, marks=[] if isinstance(family, Gaussian | DiscreteLaplace) else pytest.mark.slow)
    for family in FAMILIES
]


def at(family: Family, level: str, stds: float) -> float:
    """Return the threshold `stds` standard deviations above the mean noise, rounded down for integer noise."""
    bound = family.mean(level) + stds * family.std(level)
    return math.floor(bound) + 0.0 if family.integer else bound


def far(family: Family) -> float:
    """Return noise 20 standard deviations below the mean at level 1/4, or 0 if noise cannot be negative."""
    if isinstance(family, Poisson):
        return 0
    return round(-20 * family.std("1/4")) if family.integer else -20 * family.std("1/4")


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_survivors_far_above_an_old_threshold_have_the_dense_law(family: Family) -> None:
    """Given very low noise at one level, noise at other levels has the exact conditional distribution."""
    n, rng, reference = 20_000, entropy.seeded(88), np.random.default_rng(89)
    survivor = np.full(n, far(family), np.int64 if family.integer else np.float64)
    known = {Fraction(1, 4): survivor}
    past = [(Fraction(1, 4), 3.0)]
    for level in ("1", "1/9", "1/2"):
        drawn = draw_round(
            family, past, Fraction(level), 3.0, neighbours=known, n_tracked=n, n_untracked=[], counts=[], rng=rng
        )
        known[Fraction(level)], past = drawn.tracked, [*past, (Fraction(level), 3.0)]
    half = dense_reference.finer(family, survivor, Fraction(1, 4), Fraction(1, 2), rng=reference)
    exact = {
        "1/2": half,
        "1": dense_reference.finer(family, half, Fraction(1, 2), Fraction(1), rng=reference),
        "1/9": survivor + dense_reference.bridge(family, Fraction(1, 4), Fraction(1, 9), n, rng=reference),
    }
    paths = [np.stack([values[level] for level in exact], axis=1) for values in (
        {str(level): noise for level, noise in known.items()}, exact
    )]  # fmt: skip
    assert_consistent(two_sample_vectors(*paths), "survivors")
    wrong = np.stack([paths[0][:, 0], paths[0][:, 1], reference.permutation(paths[0][:, 2])], axis=1)
    if not isinstance(family, Poisson):  # Poisson noise of 0 stays 0 at every finer level
        wrong[:, 0] = independent_redraw(family, Fraction(1, 2), {}, n, rng=rng)
        assert_detected(two_sample_vectors(wrong, paths[1]), "fresh noise for survivors")


@pytest.mark.parametrize("family", EACH_KIND, ids=repr)
def test_a_series_never_has_a_rare_history(family: Family) -> None:
    """Before the history of a group of cells becomes rarer than allowed, all these cells are drawn explicitly."""
    for seed in range(12):
        choose, rng = np.random.default_rng(seed), entropy.seeded(seed)
        counts = np.unique(choose.integers(0, 40, 12))
        left, past = np.full(counts.size, 30), []
        for _ in range(12):
            near = past and choose.random() < 0.3
            level = past[-1][0] * Fraction(1000 + int(choose.integers(0, 3)), 1000) if near else (
                Fraction(int(choose.integers(20, 2000)), 1000)
            )  # fmt: skip
            release = (level, at(family, str(level), float(choose.uniform(-3, 25))))
            drawn = draw_exceeding(family, past, *release, left, count=counts, rng=rng)
            past.append(release)
            taken = np.bincount(drawn.group, minlength=counts.size)
            rare = rarity(family, history_of(past), counts.astype(float)) > RAREST
            assert (taken[rare] == left[rare]).all()
            assert (drawn.exceeds | rare[drawn.group]).all()
            left = left - taken


def test_close_levels_share_a_bound() -> None:
    """The rarity of a history, a bound on -ln P[history], grows little if levels are nearly equal.

    The rarity for fifty nearly equal levels is at most three times the rarity for one of these levels. If levels are
    far apart, the rarity is the sum of the rarities for the single levels.
    """
    family, counts = Gaussian(), np.array([0.0, 3.0])
    near = [(Fraction(2_000_000 + i, 10_000_000), 4.0) for i in range(50)]
    together = rarity(family, history_of(near), counts)
    alone = rarity(family, history_of(near[:1]), counts)
    assert (together <= 3 * alone).all() and (together >= alone).all()
    apart = [(Fraction(2 + i, 10), 4.0) for i in range(5)]
    assert rarity(family, history_of(apart), counts) == pytest.approx(
        sum(rarity(family, history_of([each]), counts) for each in apart)
    )
