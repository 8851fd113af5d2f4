"""Plans use only public parameters, spend nothing, and predict what releases do."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

import sparsehist as sh
from sparsehist.entropy import seeded
from sparsehist.errors import BudgetExceededError
from sparsehist.histogram.thresholds import least_count, mean_error, publication_probability
from sparsehist.noise import DiscreteLaplace, Gaussian, Laplace, Poisson, Skellam, family_named
from sparsehist.release.planning import plan
from tests.series.in_memory import over_counts
from tests.stats import assert_consistent, assert_detected, g_test

FAMILIES = [Gaussian(2.0), Laplace(2.0), DiscreteLaplace(2), Poisson(), Skellam(2)]
LEVEL = "1/50"


def _series(counts, **declared):
    frame = pl.DataFrame({"key": [f"page {i}" for i in range(len(counts))], "count": counts})
    return over_counts(frame, **{"max_keys": 4, "domain": sh.Strings(max_bytes=12)} | declared)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: type(family).__name__)
@pytest.mark.parametrize("probability", [0.01, 0.95])
def test_the_least_count_is_the_least(family, probability):
    """A plan's least count is the smallest true count that is published with at least the requested probability."""
    centre = getattr(family, "mean", lambda _: 0.0)(LEVEL)
    threshold = math.floor(centre + 8 * family.std(LEVEL)) + 0.5
    count = least_count(family, LEVEL, threshold, probability)
    reached, missed = publication_probability(family, LEVEL, threshold, [count, count - 1])
    assert reached >= probability * (1 - 1e-9)
    assert missed < probability


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: type(family).__name__)
@pytest.mark.parametrize("distance", [-4, 3])
def test_the_mean_error_is_that_of_draws(family, distance):
    """The mean error in a plan agrees with the mean size of 200,000 noise values drawn above the threshold."""
    centre = getattr(family, "mean", lambda _: 0.0)(LEVEL)
    threshold = math.floor(centre + distance * family.std(LEVEL)) + 0.5
    drawn = np.abs(family.sample_tail(200_000, threshold, LEVEL, rng=seeded(3)) - centre)
    error = 6 * drawn.std() / math.sqrt(drawn.size)
    assert abs(mean_error(family, LEVEL, threshold, 0) - drawn.mean()) < error + 2e-4 * drawn.mean()


@pytest.mark.parametrize("noise", ["gaussian", "discrete_laplace"])
def test_what_is_planned_happens(noise):
    """Keys are published as often as planned for their counts; a plan for a 5 % finer level is detected as wrong."""
    family = family_named(noise, 4)
    threshold = plan(["0.02"], domain="strings(max_bytes=12)", max_keys=4, noise=noise, false_keys=5).levels[
        "threshold"
    ]
    shown = [round(threshold.item() + off * family.std("0.02")) for off in (-0.5, 0.0, 0.5)]
    counts = np.repeat(shown, 4000)
    series = _series(counts.tolist(), noise=noise)
    planned = series.plan(["0.02", "0.021"], false_keys=5, counts=shown)
    released = series.release("public", level="0.02", false_keys=5)
    number = released.frame["key"].str.strip_prefix("page ").cast(pl.Int64, strict=False).drop_nulls()
    inside = number.filter(number < counts.size).to_numpy()
    published = [int((counts[inside] == count).sum()) for count in shown]
    for level, check in (("0.02", assert_consistent), ("0.021", assert_detected)):
        predicted = planned.counts.filter(pl.col("level") == level)["probability"].to_list()
        for seen, probability in zip(published, predicted, strict=True):
            check(g_test([seen, 4000 - seen], [probability, 1 - probability]))
    row = planned.levels.row(0, named=True)
    assert row["threshold"] == released.metadata["threshold"]
    assert row["expected_false_keys"] == released.metadata["expected_false_keys"]


def test_a_plan_spends_nothing_and_does_not_know_the_counts():
    """A plan records no event and no cost, and is the same for different logs."""
    one, other = _series([5, 50, 500]), _series([7] * 40, seed=2)
    before = one.store.events()
    assert one.plan().levels.equals(other.plan().levels) and one.plan().counts.equals(other.plan().counts)
    assert one.store.events().equals(before)
    assert set(one.store.ledger(full=True)["cost"]) == {0.0}


def test_an_open_domain_is_planned_by_what_remains_of_delta():
    """For an open domain, a plan states the same threshold and remaining delta as the release that follows."""
    series = _series([5, 500], domain=sh.Open(delta="1e-6"))
    series.release("first", level="0.1")
    planned = series.plan(["0.2"]).levels.row(0, named=True)
    released = series.release("second", level="0.2").metadata
    assert planned["threshold"] == released["threshold"] and planned["expected_false_keys"] == 0.0
    # A release updates the stored delta, but a plan computes delta from all releases, so rounding errors differ.
    assert planned["delta_remaining"] == pytest.approx(released["delta_remaining"], rel=1e-10)
    with pytest.raises(BudgetExceededError):
        series.plan(["0.2"], threshold=1.0)


@pytest.mark.parametrize(("noise", "probability"), [("gaussian", 0.95), ("laplace", 0.5), ("poisson", 0.95)])
def test_the_level_that_shows_a_key_shows_it(noise, probability):
    """At the level that a plan names, a key of 50 units is published with the requested probability.

    At 0.9 times the planned level, the probability is smaller than requested.
    """
    keys = 1 if noise == "poisson" else 3
    planned = plan(d=10**9, max_keys=keys, noise=noise, shows=50, probability=probability, counts=[50])
    level = Fraction(planned.levels["level"].item())
    assert planned.counts["probability"].item() >= probability
    less = plan([level * Fraction(9, 10)], d=10**9, max_keys=keys, noise=noise, counts=[50])
    assert less.counts["probability"].item() < probability
    assert planned.levels[f"published_{100 * probability:.0f}"].item() <= 50


@pytest.mark.parametrize("noise", ["gaussian", "laplace", "skellam", "poisson"])
def test_the_cap_of_equal_series_leaves_room_for_all_and_for_no_more(noise):
    """Five series with the planned cap fit the budget, but only four fit if the cap is 0.1 % larger."""
    within = sh.EpsilonDelta(2, "1e-6")
    route = {"gaussian": "gaussian", "laplace": "pure", "skellam": "renyi", "poisson": "poisson"}[noise]
    keys = 1 if noise == "poisson" else 4
    cap = Fraction(plan(d=10**9, max_keys=keys, noise=noise, equal=5, within=within).levels["level"].item())
    for factor, served in ((Fraction(1), 5), (Fraction(1001, 1000), 4)):
        store = sh.open(":memory:", seed=1)
        store.set_budget(epsilon=2, delta="1e-6", route=route)
        counts = sh.Counts(pl.DataFrame({"key": [1], "count": [5]}), largest=1)
        declared = {"key": "key", "max_keys": keys, "noise": noise, "domain": sh.Integers(10**9)}
        for week in range(served):
            series = sh.create(store, counts, name=f"week_{week}", cap=cap * factor, **declared)
            assert week or factor > 1 or Fraction(series.plan(equal=5).levels["level"].item()) == cap
            series.release("all", level=cap * factor, threshold=5000)
        with pytest.raises(BudgetExceededError):
            sh.create(store, counts, name="more", cap=cap * factor, **declared).release("all", level=cap * factor)
