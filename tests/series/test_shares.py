"""With weighted counts, a privacy unit counts for all its keys, with a smaller weight if it has many keys."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import sparsehist as sh
from sparsehist.counting import count_keys
from sparsehist.declaration.bounding import Shares
from sparsehist.errors import BudgetExceededError, DeclarationError
from sparsehist.noise import Gaussian, Laplace
from tests.attacks.test_joint_law import EPSILONS, excess
from tests.cases import quick
from tests.histogram.exact_exceedances import ever_exceeds
from tests.series.dense_law import dense, same_law
from tests.series.in_memory import over_log
from tests.stats import assert_consistent, assert_detected, binomial_test, two_sample_outcomes

NORMS = {"gaussian": "l2", "laplace": "l1"}
CELLS = 20_000
LEVELS = ["0.5", "2", "0.1", "0.7"]
THRESHOLDS = [2.0, 1.5, 4.0, 2.5]


def weight(keys: int, shares: Shares) -> int:
    """Return the weight of a unit at each of its keys, in parts of a count, given the number of its keys."""
    if keys <= shares.keys:
        return shares.parts
    kept = min(keys, shares.most_keys)
    if shares.norm == "l2":
        return math.isqrt(shares.parts**2 * shares.keys // kept)
    return shares.parts * shares.keys // kept


def log_of(sizes: dict[int, int]) -> pl.DataFrame:
    """Return a shuffled log in which each unit has the given number of keys, each in two rows."""
    pairs = [(unit, key) for unit, keys in sizes.items() for key in range(keys) for _ in "ab"]
    return pl.DataFrame(pairs, schema=["unit", "key"], orient="row").sample(fraction=1, shuffle=True, seed=1)


def counts_of(log: pl.DataFrame, shares: Shares) -> dict[int, int]:
    """Return the weighted counts of a log by key, as multiples of 1/64."""
    with tempfile.TemporaryDirectory() as directory:
        counted = count_keys(
            log, unit="unit", key=["key"], max_keys=shares.keys, domain=sh.Integers(2000), salt=bytes(16),
            weights=shares.most_at(), temporary_directory=Path(directory),
        )  # fmt: skip
    return dict(counted.frame.select("key_0", "count").filter(pl.col("count") > 0).rows())


def series_of(log: pl.DataFrame, *, seed: int = 5, **declared: Any) -> sh.Series:
    """Create a series of weighted counts in memory."""
    return over_log(log, seed=seed, **{"max_keys": 4, "domain": sh.Integers(CELLS), "bounding": "share"} | declared)


@pytest.mark.parametrize("norm", NORMS.values())
@pytest.mark.parametrize("max_keys", [1, 2, 3, 7, 20])
@pytest.mark.parametrize("parts", [64, 256])
def test_no_unit_adds_more_than_the_noise_covers(norm, max_keys, parts):
    """The weights of privacy units with 1 to 1,000 keys stay within the sensitivity, and are as large as possible."""
    shares = Shares(max_keys, 1000 if norm == "l2" else min(1000, 64 * max_keys), norm, parts)
    too_much = []
    for keys in range(1, shares.most_keys + 1):
        w = weight(keys, shares)
        assert w > 0
        power = 2 if norm == "l2" else 1
        assert keys * w**power <= max_keys * parts**power
        too_much.append(keys * (w + 1) ** power > max_keys * parts**power)
    assert all(too_much[max_keys - 1 :])
    by_weight: dict[int, int] = {}
    for keys in range(1, shares.most_keys + 1):
        by_weight[weight(keys, shares)] = keys
    assert shares.most_at() == list(by_weight.items())


@pytest.mark.parametrize("norm", NORMS.values())
def test_counts_are_sums_of_weights(norm):
    """The weighted count of a key is the sum of its units' weights. A unit counts for at most `most_keys` keys."""
    shares = Shares(3, 10, norm)
    sizes = {1: 1, 2: 3, 3: 4, 4: 7, 5: 10}
    found = counts_of(log_of(sizes), shares)
    assert found == {
        key: total
        for key in range(10)
        if (total := sum(weight(keys, shares) for keys in sizes.values() if keys > key))
    }
    beyond = counts_of(log_of({6: 25}), shares)
    assert len(beyond) == 10 and set(beyond.values()) == {weight(25, shares)}


def test_what_a_unit_adds_depends_on_its_rows_alone():
    """The amount that a privacy unit adds to the weighted counts does not depend on other units."""
    shares = Shares(2, 6, "l2")
    sizes = {unit: 1 + unit * 5 % 13 for unit in range(12)}
    log = log_of(sizes)
    whole = counts_of(log, shares)
    for unit in sizes:
        alone = counts_of(log.filter(pl.col("unit") == unit), shares)
        others = counts_of(log.filter(pl.col("unit") != unit), shares)
        assert whole == {key: n for key in whole if (n := alone.get(key, 0) + others.get(key, 0))}
        assert sum(value**2 for value in alone.values()) <= 2 * 64**2


@pytest.mark.parametrize("noise", quick(["gaussian"], NORMS))
def test_releases_have_the_law_of_the_dense_mechanism(noise):
    """Releases of weighted counts have the joint distribution that results from adding noise to every cell.

    The test detects counts that are not weighted.
    """
    shares = Shares(4, 256, NORMS[noise])
    half = CELLS // 2
    units = np.repeat(np.arange(half // 10), 10)  # each unit has ten keys; half of the cells have count 0
    series = series_of(pl.DataFrame({"unit": units, "key": np.arange(half)}), noise=noise)
    sparse = np.full((len(LEVELS), CELLS), np.nan)
    for i, (level, threshold) in enumerate(zip(LEVELS, THRESHOLDS, strict=True)):
        release = series.release(f"r{i}", level=level, threshold=threshold, max_false_keys=CELLS)
        sparse[i, release.frame["key"].to_numpy()] = release.frame["noisy_count"].to_numpy()
    family = (Gaussian if noise == "gaussian" else Laplace)(sensitivity=64 * (2.0 if noise == "gaussian" else 4))
    bounds = [64 * tau for tau in THRESHOLDS]

    def densely(parts: int, seed: int) -> np.ndarray:
        return dense(family, np.full(4 * CELLS, parts), LEVELS, bounds, seed=seed) / 64

    for cells, parts in ((slice(0, half), weight(10, shares)), (slice(half, None), 0)):
        assert_consistent(same_law(sparse[:, cells], densely(parts, 11)), f"{noise}: {parts} 64ths")
    assert_detected(same_law(sparse[:, :half], densely(64, 12)), "counts that are not weighed")


PAIRS = 60_000
FINEST, COARSER = "0.5", "0.2"


def _pairs_seen(units_of_both: int, units_of_each: int, seed: int, levels: tuple[str, ...]) -> np.ndarray:
    """Return, for each pair of keys, an integer that encodes the noisy counts of both keys in all releases."""
    key = np.arange(2 * PAIRS)
    units = [np.arange(2 * PAIRS) + (1 + i) * 10**7 for i in range(2 + units_of_each)]
    units += [key // 2 + 10**6 * (100 + i) for i in range(units_of_both)]
    log = pl.DataFrame({"unit": np.concatenate(units), "key": np.tile(key, len(units))})
    series = series_of(log, max_keys=1, domain=sh.Integers(2 * PAIRS), seed=seed)
    seen = np.zeros(PAIRS, np.int64)
    for i, level in enumerate(levels):
        release = series.release(f"r{i}", level=level, threshold=1.5 + i, max_false_keys=PAIRS)
        bins = np.zeros(2 * PAIRS, np.int64)
        bins[release.frame["key"].to_numpy()] = np.floor(release.frame["noisy_count"].to_numpy()) + 2
        seen = seen * 1000 + bins[0::2] * 30 + bins[1::2]
    return seen


def _worst_of_pairs(with_unit: np.ndarray, without: np.ndarray) -> float:
    looks = [(with_unit, without), (without, with_unit)]
    return max(excess(*look, epsilon) for look in looks for epsilon in EPSILONS)


@pytest.mark.parametrize("levels", [(FINEST,), (COARSER, FINEST)], ids=["one release", "two releases"])
def test_a_unit_with_two_keys_is_hidden_by_the_noise_of_one(levels):
    """The releases of both keys of a unit together reveal no more about the unit than the finest level allows."""
    without = _pairs_seen(0, 0, 1, levels)
    # The probability that any of the twelve comparisons exceeds 7 standard errors by chance is 1.5e-11.
    assert _worst_of_pairs(_pairs_seen(1, 0, 2, levels), without) < 7
    # Control: a unit that counts with full weight at both keys is detected.
    assert _worst_of_pairs(_pairs_seen(0, 1, 3, levels), without) > 7


@pytest.mark.parametrize("exponent", range(-4, 11))
def test_low_bits_of_published_shares_carry_nothing(exponent):
    """Noisy counts lie on a grid that divides 1/64, and their bits below 1/64 do not depend on the true count."""
    std = 2.0**exponent
    level = f"{4 / (2 * std**2):.12g}"
    units = np.concatenate([np.repeat(np.arange(100), 100), 100 + np.repeat(np.arange(500), 20)])
    series = series_of(pl.DataFrame({"unit": units, "key": np.arange(20_000)}))
    release = series.release("r", level=level, threshold=-6 * std, max_false_keys=CELLS)
    grid = release.metadata["grid"]
    assert (1 / 64) % grid == 0 and grid <= std / 16
    found = release.frame.sort("key").filter(pl.col("key") < 20_000)
    steps = (found["noisy_count"].to_numpy() / grid).astype(np.int64)
    assert (steps * grid == found["noisy_count"].to_numpy()).all()
    within = steps % round(1 / 64 / grid)
    first = found["key"].to_numpy() < 10_000
    if grid < 1 / 64:
        assert_consistent(two_sample_outcomes(within[first], within[~first]), f"std {std}")


def test_delta_of_an_open_domain_is_that_of_units_of_every_size():
    """Units with 1 to 64 keys that no other unit has are revealed with the computed probability, at most delta."""
    delta, each = 0.2, 1500
    sizes = [1, 4, 5, 9, 16, 40, 64]
    shares = Shares(4, 64, "l2")
    unit = np.repeat(np.arange(each * len(sizes)), np.repeat(sizes, each))
    log = pl.DataFrame({"unit": unit, "key": np.arange(unit.size)})
    series = series_of(log, domain=f"open('integer', delta={delta})", bounding=sh.Share(most_keys=64))
    past: list[tuple[str, float]] = []
    seen: set[int] = set()
    for i, level in enumerate(("0.5", "2", "0.1")):
        release = series.release(f"r{i}", level=level)
        past.append((level, 64 * release.metadata["effective_threshold"]))
        seen |= set(release.frame["key"].to_list())
    family = series.declaration.family_in_units
    betrayed = pl.DataFrame({"unit": unit[sorted(seen)]})["unit"].unique().to_numpy() // each
    stated = release.metadata["delta_infinity"]
    exact = {}
    for place, keys in enumerate(sizes):
        p = ever_exceeds(family, [(level, bound - weight(keys, shares)) for level, bound in past])
        exact[keys] = 1 - (1 - p) ** keys
        assert_consistent(binomial_test(int((betrayed == place).sum()), each, exact[keys]), f"units of {keys} keys")
    assert max(exact.values()) <= stated * (1 + 1e-4)
    assert stated < delta
    assert stated < 1.6 * max(exact.values())
    # Units with 4 or 64 keys are revealed with clearly different probabilities, and delta must cover both.
    assert exact[64] > 1.2 * exact[4] or exact[4] > 1.2 * exact[64]
    with pytest.raises(BudgetExceededError):
        series.release("low", level="0.5", threshold=2)


def test_what_is_refused():
    """Weighted counts are refused with integer noise, with workloads and for precomputed counts."""
    log = log_of({1: 3, 2: 9})
    with pytest.raises(DeclarationError):
        series_of(log, noise="skellam")
    with pytest.raises(DeclarationError):
        series_of(sh.Counts(pl.DataFrame({"key": [1], "count": [9]}), largest=1), unit=None)
    with pytest.raises(DeclarationError, match="bounding='keep'"):
        series_of(log).release("w", workload=sh.workload.Total(), level="0.1")
