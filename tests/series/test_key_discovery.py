"""Key discovery reveals a unit with at most the stated probability, weights keys correctly and can be resumed."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.stats import binomtest, norm

import sparsehist as sh
from sparsehist.errors import BudgetExceededError, NameTakenError
from sparsehist.release import key_discovery
from sparsehist.release.key_discovery import shares_of_rounds
from tests.stats import assert_consistent, assert_detected

MOST, LEVEL, DELTA, PARTS = 64, 0.1, 1e-3, 256


def discovered(store: sh.Store, log: pl.DataFrame | Path, **asked: object) -> sh.Catalogue:
    """Discover the keys of a log. Keyword arguments override the default parameters."""
    known = {"unit": "unit", "key": "key", "most_keys": MOST, "level": LEVEL, "delta": DELTA}
    return sh.discover_keys(store, log, **{**known, **asked})  # type: ignore[arg-type]


def weight(keys: int) -> float:
    """Return how much a privacy unit adds to the count of each of its keys, given the number of its keys."""
    return math.isqrt(PARTS**2 // keys) / PARTS


def revealed(level: float, effective_threshold: float, keys: int) -> float:
    """Return the probability that a discovery round publishes a key of a unit whose keys no other unit has.

    `keys` is the number of keys of the unit.
    """
    return -math.expm1(keys * norm.logcdf((effective_threshold - weight(keys)) * math.sqrt(2 * level)))


def rounds_of(store: sh.Store, rounds: int, name: str = "discovery") -> list[tuple[float, float]]:
    """Return the level and the effective threshold of each discovery round, from the round's metadata."""
    metadata = [store.series(f"{name}_{number}").release("keys").metadata for number in range(1, rounds + 1)]
    return [(float(each["level"]), each["effective_threshold"]) for each in metadata]


def log_of(sets: list[list[str]]) -> pl.DataFrame:
    """Return a log in which each privacy unit has one of these lists of keys."""
    return pl.DataFrame({"unit": range(len(sets)), "key": sets}, schema_overrides={"unit": pl.Int64}).explode("key")


COMMON = [["a"], ["a", "b"]] * 3000


@pytest.mark.parametrize("rounds", [1, 3, 4])
def test_a_unit_alone_is_revealed_with_probability_delta_at_most(rounds):
    """If no other unit has a unit's keys, all rounds together reveal that unit with probability at most delta."""
    store = sh.open(":memory:", seed=3)
    discovered(store, log_of(COMMON), rounds=rounds)
    worst = [
        max(revealed(level, threshold, keys) for keys in range(1, MOST + 1))
        for level, threshold in rounds_of(store, rounds)
    ]
    assert sum(worst) <= DELTA
    assert all(each > 0.9 * DELTA * share for each, share in zip(worst, shares_of_rounds(rounds), strict=True))
    spent = store.ledger(full=True).row(-1, named=True)
    assert float(spent["level"]) == pytest.approx(LEVEL)
    assert sum(worst) <= spent["delta_infinity"] <= DELTA


@pytest.mark.parametrize("keys", [1, 9, 64])
def test_units_are_revealed_as_often_as_the_formula_says(keys):
    """A unit whose keys no other unit has is revealed with the computed probability.

    The test detects a threshold that is 20 % too low.
    """
    units = 2000
    store = sh.open(":memory:", seed=keys)
    sets = [[f"{unit} {key}" for key in range(keys)] for unit in range(units)]
    found = discovered(store, log_of(sets), rounds=1, delta=0.05)
    ((level, threshold),) = rounds_of(store, 1)
    seen = found.values.str.split(" ").list.first().n_unique()
    expected = revealed(level, threshold, keys)
    assert_consistent(binomtest(seen, units, expected).pvalue, f"{keys} keys")
    lower = revealed(level, 0.8 * threshold, keys)
    assert_detected(binomtest(round(lower * units), units, expected).pvalue, "a threshold that is too low")


def test_rounds_weigh_what_was_not_found_yet():
    """Each discovery round publishes weighted counts of the keys that earlier rounds have not discovered."""
    rng = np.random.default_rng(1)
    sets = [[f"k{key}" for key in np.unique(rng.geometric(0.02, size=rng.integers(1, 40)))] for _ in range(400)]
    store = sh.open(":memory:", seed=2)
    catalogue = discovered(store, log_of(sets), level=1e4, delta=1e-290)
    gone: set[str] = set()
    for number in (1, 2, 3):
        release = store.series(f"discovery_{number}").release("keys")
        expected: dict[str, float] = {}
        for keys in ([key for key in keys if key not in gone] for keys in sets):
            for key in keys:
                expected[key] = expected.get(key, 0) + weight(len(keys))
        published = dict(release.frame.rows())
        assert published and not gone & published.keys()
        noise = 12 / math.sqrt(2 * float(release.metadata["level"]))
        threshold = release.metadata["effective_threshold"]
        assert all(abs(value - expected[key]) < noise for key, value in published.items())
        assert all(value < threshold + noise for key, value in expected.items() if key not in published)
        gone |= published.keys()
    assert set(catalogue.values) == gone


def test_asked_again_it_costs_nothing_and_another_log_is_refused(tmp_path: Path) -> None:
    """Repeating a discovery returns the same keys at no cost. A different log or level needs a different name."""
    store = sh.open(":memory:", seed=4)
    log, other = tmp_path / "log.parquet", tmp_path / "other.parquet"
    log_of(COMMON).write_parquet(log)
    log_of(COMMON[1:]).write_parquet(other)
    first = discovered(store, log)
    before = store.ledger(full=True)
    assert discovered(store, log) == first
    for source, level in ((other, LEVEL), (log, 0.2)):
        with pytest.raises(NameTakenError, match="another name"):
            discovered(store, source, level=level)
    assert store.ledger(full=True).equals(before)


def test_an_interrupted_discovery_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If discovery is interrupted in the second round, the next call keeps the first round and draws the rest."""
    log = tmp_path / "log.parquet"
    log_of(COMMON).write_parquet(log)
    store, made = sh.open(tmp_path / "store", create=True), key_discovery.counted_into
    calls = []

    def failing(*arguments: object, **named: object) -> sh.Series:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return made(*arguments, **named)

    monkeypatch.setattr(key_discovery, "counted_into", failing)
    with pytest.raises(KeyboardInterrupt):
        discovered(store, log)
    kept = store.series("discovery_1").release("keys").frame
    assert store.series_names() == ["discovery_1"]
    catalogue = discovered(store, log)
    assert store.series("discovery_1").release("keys").frame.equals(kept)
    assert set(kept["key"]) <= set(catalogue.values)


def test_a_budget_without_room_for_all_rounds_refuses_before_the_first():
    """If the budget is too small for all rounds together, discovery is refused before the first round."""
    for budget in ({"epsilon": 1, "open_share": "0.5"}, {"rho": "0.48"}):  # each round alone costs less than 0.48
        store = sh.open(":memory:", seed=5)
        store.set_budget(delta=1e-6, **budget)
        with pytest.raises(BudgetExceededError):
            discovered(store, log_of(COMMON), level=0.5, delta=1e-8)
        assert store.series_names() == []
