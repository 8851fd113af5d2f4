"""In an open domain, keys that have one unit are published with the computed probability, at most delta."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import sparsehist as sh
from sparsehist.errors import BudgetExceededError
from tests.histogram.exact_exceedances import ever_exceeds, first_exceedance
from tests.series.in_memory import over_log
from tests.stats import assert_consistent, assert_detected, binomial_test

# With 100,000 keys of one unit each, an error of 17 % in a publication rate of 2 % is detected in every round.
KEYS = 100_000
LEVELS = {
    "gaussian": ["0.1", "0.5", "0.05", "0.2"],
    "discrete_laplace": ["1", "3", "0.5", "2"],
    "poisson": ["0.1", "0.3", "0.05", "0.2"],
}


def once_each(**declared: Any) -> sh.Series:
    """Create a series with an open domain in which each key has exactly one privacy unit."""
    log = pl.DataFrame({"unit": np.arange(KEYS), "key": np.arange(KEYS)})
    return over_log(log, seed=71, **{"domain": "open('integer', delta=0.1)"} | declared)


def popular(**declared: Any) -> sh.Series:
    """Create a series in which all privacy units share one key, and each unit has one more key of its own."""
    log = pl.DataFrame({"unit": np.arange(3000), "key": [["weather", f"mine {unit}"] for unit in range(3000)]})
    return over_log(log.explode("key"), seed=72, **{"max_keys": 20, "domain": sh.Open(delta="1e-6")} | declared)


@pytest.mark.parametrize("noise", LEVELS)
def test_keys_are_published_as_often_as_delta_says_when_levels_are_chosen_adaptively(noise: str) -> None:
    """Keys that have a single unit are published with the computed probability, even at adaptively chosen levels.

    All releases together publish such a key with probability at most delta.
    """
    series = once_each(noise=noise)
    ever: set[int] = set()
    past: list[tuple[str, float]] = []
    before, left, shares = 0.0, LEVELS[noise].copy(), []
    for i in range(6):
        # The next level depends on the number of published keys. Levels repeat only after all four were used.
        level = left.pop(len(ever) % len(left)) if left else LEVELS[noise][len(ever) % 4]
        release = series.release(f"r{i}", level=level)
        bound = release.metadata["effective_threshold"] - 1
        term = first_exceedance(series.declaration.family, past, level, bound)
        past.append((level, bound))
        found = set(release.frame["key"].to_list()) - ever
        assert_consistent(binomial_test(len(found), KEYS - len(ever), term / (1 - before)), f"round {i}")
        ever |= found
        before += term
        assert before <= release.metadata["delta_infinity"] * (1 + 1e-9) <= 0.1
        shares.append(release.metadata["delta_share"])
    assert len(ever) / KEYS < 0.1  # the expected fraction of published keys is 60 standard deviations below 0.1
    assert 0.05 < before < 0.1
    assert_detected(binomial_test(len(ever), KEYS, 1.1 * before), "a delta ten per cent too large")
    assert shares == sorted(shares, reverse=True)


def test_units_with_several_keys_of_their_own_are_revealed_as_often_as_delta_says() -> None:
    """Units with three keys that no other unit has are revealed with the computed probability.

    The last release states a delta_infinity above this probability, but less than 1.6 times as large.
    """
    units = np.repeat(np.arange(30_000), 3)
    log = pl.DataFrame({"unit": units, "key": np.arange(units.size)})
    series = over_log(log, seed=73, max_keys=3, domain=sh.Open("integer", delta="0.2"))
    releases = [series.release(f"r{i}", level=level) for i, level in enumerate(("0.2", "0.1", "1"))]
    betrayed = pl.concat([release.frame["key"] for release in releases]).to_numpy() // 3
    bounds = [(release.metadata["level"], release.metadata["effective_threshold"] - 1) for release in releases]
    delta = 1 - (1 - ever_exceeds(series.declaration.family, bounds)) ** 3
    assert delta < releases[-1].metadata["delta_infinity"] < 1.6 * delta
    found = int(np.unique(betrayed).size)
    assert_consistent(binomial_test(found, 30_000, delta))
    assert_detected(binomial_test(found, 30_000, 1 - (1 - delta) ** (1 / 3)), "delta for one key")


def test_only_keys_of_the_log_are_published_even_where_most_are() -> None:
    """In an open domain, only keys of the log are published, even if the threshold is negative."""
    series = popular(domain=sh.Open(delta=0.999999), max_keys=1)
    release = series.release("most", level=1, open_delta=0.99)
    assert release.metadata["threshold"] < 0
    assert len(release) > 1400  # about half of the units count only for "weather", because max_keys=1
    keys = set(release.frame["key"].to_list())
    assert keys <= {"weather", *(f"mine {u}" for u in range(3000))}
    assert release.metadata["expected_false_keys"] == 0


def test_a_release_takes_half_of_the_delta_that_remains_and_states_what_all_cost_together() -> None:
    """Each release spends half of the remaining delta, and its guarantee names the finest level so far."""
    series = popular()
    fine, coarse = (series.release(name, level=level).metadata for name, level in (("a", "0.2"), ("b", "0.1")))
    assert 0.25e-6 < fine["delta_infinity"] <= 0.5e-6
    assert fine["delta_infinity"] < coarse["delta_infinity"] <= 0.75e-6
    assert "0.2-zCDP" in fine["guarantee"] and "0.2-zCDP" in coarse["guarantee"]
    with pytest.raises(BudgetExceededError, match="aside for open domains"):  # open_delta is at most half of 1e-6
        popular().release("goal", level=sh.EpsilonDelta(2, "1e-6"), open_delta=7e-7)
    made = popular().release("goal", level=sh.EpsilonDelta(2, "1e-6")).metadata
    level = float(sh.privacy.as_level(made["level"]))
    assert level == pytest.approx(sh.privacy.gaussian.largest_rho(2, 5e-7), rel=1e-9)


def test_a_threshold_that_would_go_beyond_delta_is_refused_and_spends_nothing() -> None:
    """A threshold that would exceed delta is refused and costs nothing; the error names an allowed threshold."""
    series = popular()
    spent = series.release("first", level="0.1").metadata
    with pytest.raises(BudgetExceededError) as refusal:
        series.release("low", level="0.1", threshold=20)
    message = str(refusal.value)
    assert refusal.value.exit_code == 3
    for said in ("requested delta", f"remaining delta {spent['delta_remaining']:.6g}", "difference", "threshold="):
        assert said in message
    enough = float(message.split("threshold=", maxsplit=1)[1].split(" ", maxsplit=1)[0])
    with pytest.raises(BudgetExceededError):
        series.release("low", level="0.1", threshold=enough - spent["grid"])
    served = series.release("low", level="0.1", threshold=enough)
    assert served.metadata["delta_infinity"] <= 1e-6
    with pytest.raises(BudgetExceededError, match="remaining delta"):
        series.release("more", level="0.1", open_delta=1e-5)
