"""Plans: from public parameters only, spending nothing, and right about what releases then do."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

import sparsehist as sh
from sparsehist.entropy import seeded
from sparsehist.errors import BudgetExceededError, DeclarationError, LevelError
from sparsehist.histogram.thresholds import least_count, mean_error, publication_probability
from sparsehist.noise import DiscreteLaplace, Gaussian, Laplace, Poisson, Skellam, family_named
from sparsehist.release.planning import plan
from sparsehist.release.plots import save_plot
from tests.stats import assert_consistent, assert_detected, g_test

FAMILIES = [Gaussian(2.0), Laplace(2.0), DiscreteLaplace(2), Poisson(), Skellam(2)]
LEVEL = "1/50"


def _series(counts, *, noise="gaussian", seed=1, cap=None, domain=None, max_keys=4):
    frame = pl.DataFrame({"page": [f"page {i}" for i in range(len(counts))], "users": counts})
    return sh.create(
        sh.open(":memory:", seed=seed), sh.Counts(frame, count="users", largest=1), name="visits", key="page",
        max_keys=max_keys, noise=noise, cap=cap, domain=domain or sh.Strings(max_bytes=12),
    )  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: type(family).__name__)
@pytest.mark.parametrize("probability", [0.01, 0.95])
def test_the_least_count_is_the_least(family, probability):
    """A key of that count is published with the probability asked, one of a count less is not."""
    centre = getattr(family, "mean", lambda _: 0.0)(LEVEL)
    threshold = math.floor(centre + 8 * family.std(LEVEL)) + 0.5
    count = least_count(family, LEVEL, threshold, probability)
    reached, missed = publication_probability(family, LEVEL, threshold, [count, count - 1])
    assert reached >= probability * (1 - 1e-9)
    assert missed < probability


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: type(family).__name__)
@pytest.mark.parametrize("distance", [-4, 3])
def test_the_mean_error_is_that_of_draws(family, distance):
    """The mean distance of published noise from its centre is the one of ten thousands of draws of the tail."""
    centre = getattr(family, "mean", lambda _: 0.0)(LEVEL)
    threshold = math.floor(centre + distance * family.std(LEVEL)) + 0.5
    drawn = np.abs(family.sample_tail(200_000, threshold, LEVEL, rng=seeded(3)) - centre)
    error = 6 * drawn.std() / math.sqrt(drawn.size)
    assert abs(mean_error(family, LEVEL, threshold, 0) - drawn.mean()) < error + 2e-4 * drawn.mean()


@pytest.mark.parametrize("noise", ["gaussian", "discrete_laplace"])
def test_what_is_planned_happens(noise):
    """Keys of each count are published as often as planned; a plan for another level is found out."""
    family = family_named(noise, 4)
    threshold = plan(["0.02"], domain="strings(max_bytes=12)", max_keys=4, noise=noise, false_keys=5).levels[
        "threshold"
    ]
    shown = [round(threshold.item() + off * family.std("0.02")) for off in (-0.5, 0.0, 0.5)]
    counts = np.repeat(shown, 4000)
    series = _series(counts.tolist(), noise=noise)
    planned = series.plan(["0.02", "0.021"], false_keys=5, counts=shown)
    released = series.release("public", level="0.02", false_keys=5)
    number = released.frame["page"].str.strip_prefix("page ").cast(pl.Int64, strict=False).drop_nulls()
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
    """A plan leaves no release, no event and no cost, and is the same for another log."""
    one, other = _series([5, 50, 500]), _series([7] * 40, seed=2)
    before = one.store.events()
    assert one.plan().levels.equals(other.plan().levels)
    assert one.plan().counts.equals(other.plan().counts)
    assert one.releases().height == 0 and one.store.events().equals(before)
    assert one.store.ledger(full=True)["cost"].to_list() == [0.0] * one.store.ledger(full=True).height


def test_what_is_added_is_what_the_ledger_then_shows():
    """A coarser release adds nothing, a finer one the difference; a cap says what it would refuse."""
    series = _series([5, 50], cap="0.6")
    series.release("first", level="0.5")
    planned = series.plan(["0.1", "0.5", "0.6", "0.7"]).levels
    assert planned["adds"].to_list() == ["0", "0", "0.1", "0.2"]
    assert planned["refused"].is_null().to_list() == [True, True, True, False]
    series.release("second", level="0.6")
    ledger = series.store.ledger(full=True)
    population = ledger.filter(pl.col("scope") == "population").row(0, named=True)
    assert population["level"] == "0.6"
    # The second release adds its own numerical slack to delta, too little to see.
    assert planned["population_epsilon"][2] == pytest.approx(population["epsilon"], rel=1e-6)


def test_an_open_domain_is_planned_by_what_remains_of_delta():
    """The planned threshold is the one a release then takes, and half of what remains is what it takes."""
    series = _series([5, 500], domain=sh.Open(delta="1e-6"))
    series.release("first", level="0.1")
    planned = series.plan(["0.2", "0.05"]).levels
    released = series.release("second", level="0.2")
    assert planned["threshold"][0] == released.metadata["threshold"]
    # A release goes on from what the one before stated, a plan computes it: one number, to rounding.
    assert planned["delta_remaining"][0] == pytest.approx(released.metadata["delta_remaining"], rel=1e-10)
    assert planned["expected_false_keys"].to_list() == [0.0, 0.0]
    with pytest.raises(BudgetExceededError):
        series.plan(["0.2"], threshold=1.0)


@pytest.mark.parametrize(("noise", "probability"), [("gaussian", 0.95), ("laplace", 0.5), ("poisson", 0.95)])
def test_the_level_that_shows_a_key_shows_it(noise, probability):
    """At the level found a key of 50 units is published with the probability, at a tenth less it is not."""
    keys = 1 if noise == "poisson" else 3
    planned = plan(d=10**9, max_keys=keys, noise=noise, shows=50, probability=probability, counts=[50])
    level = Fraction(planned.levels["level"].item())
    assert planned.counts["probability"].item() >= probability
    less = plan([level * Fraction(9, 10)], d=10**9, max_keys=keys, noise=noise, counts=[50])
    assert less.counts["probability"].item() < probability
    assert planned.levels[f"published_{100 * probability:.0f}"].item() <= 50


@pytest.mark.parametrize("noise", ["gaussian", "laplace", "skellam", "poisson"])
def test_the_cap_of_equal_series_leaves_room_for_all_and_for_no_more(noise):
    """Five weeks at the cap are served; a thousandth more of it, and the fifth is refused."""
    within = sh.EpsilonDelta(2, "1e-6")
    route = {"gaussian": "gaussian", "laplace": "pure", "skellam": "renyi", "poisson": "poisson"}[noise]
    keys = 1 if noise == "poisson" else 4
    cap = Fraction(plan(d=10**9, max_keys=keys, noise=noise, equal=5, within=within).levels["level"].item())
    for factor, served in ((Fraction(1), 5), (Fraction(1001, 1000), 4)):
        store = sh.open(":memory:", seed=1)
        store.set_budget(epsilon=2, delta="1e-6", route=route)
        made = []
        for week in range(5):
            frame = pl.DataFrame({"page": ["a", "b"], "users": [5, 7]})
            series = sh.create(
                store, sh.Counts(frame, count="users", largest=1), name=f"week_{week}", key="page", max_keys=keys,
                noise=noise,
                cap=cap * factor, domain=sh.Strings(max_bytes=4),
            )  # fmt: skip
            if week == 0 and factor == 1:
                assert Fraction(series.plan(equal=5).levels["level"].item()) == cap
            try:
                made.append(series.release("all", level=cap * factor, threshold=5000))
            except BudgetExceededError:
                break
        assert len(made) == served


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"levels": []}, DeclarationError),
        ({"levels": ["1e30"]}, LevelError),
        ({"d": None}, DeclarationError),
        ({"d": 1.5}, DeclarationError),
        ({"domain": "integers(5)"}, DeclarationError),
        ({"counts": [0]}, DeclarationError),
        ({"false_keys": 1, "threshold": 2}, DeclarationError),
        ({"delta": 1e-7}, DeclarationError),
        ({"levels": None, "shows": 0}, DeclarationError),
        ({"levels": None, "equal": 52}, DeclarationError),
    ],
)
def test_what_cannot_be_planned_is_refused(wrong, error):
    """A parameter that is none is refused with its value."""
    asked = {"levels": ["0.1"], "d": 10**9, "max_keys": 2} | wrong
    with pytest.raises(error):
        plan(**asked)


def test_a_plan_can_be_drawn(tmp_path):
    """The plot is written as a picture."""
    pytest.importorskip("altair")
    planned = plan(["0.1", "1"], d=10**9, max_keys=2)
    save_plot(planned.plot(), tmp_path / "plan.svg")
    assert (tmp_path / "plan.svg").read_text(encoding="utf-8").startswith("<svg")
