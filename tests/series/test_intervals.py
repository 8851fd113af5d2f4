"""Confidence intervals of published counts have their nominal coverage, whatever the true count."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import sparsehist as sh
from sparsehist.entropy import seeded
from sparsehist.histogram import effective_threshold, grid_step, round_to_grid
from sparsehist.histogram.intervals import count_estimates, count_limits
from sparsehist.noise import family_named
from tests.cases import slow
from tests.series.in_memory import over_counts
from tests.stats import assert_consistent, assert_detected, binomial_test, mean_test

# With 60,000 published cells, tests detect a coverage that is wrong by 0.006; with a million cells, by 0.0015.
FEW, MANY = 60_000, 1_000_000
LEVELS = {"gaussian": "0.1", "laplace": "1", "discrete_laplace": "1", "poisson": "0.01", "skellam": "0.01"}
MAX_KEYS = 20
ABOVE = 5.0  # distance of the threshold from the mean of the noise, in standard deviations
# Distances of the tested true counts from the threshold, in standard deviations of the noise.
PLACES = (-ABOVE, -2.0, -0.5, 0.0, 0.5, 1.3, 2.5, 8.0, 3000.0)


class Scene:
    """Parameters of a release: a noise family, its level, a threshold, and true counts to test."""

    def __init__(self, noise: str) -> None:
        self.family, self.level = family_named(noise, 1 if noise == "poisson" else MAX_KEYS), LEVELS[noise]
        self.std, self.mean = self.family.std(self.level), self.family.mean(self.level)
        self.step = 1.0 if self.family.integer else grid_step(self.std)
        self.bound = effective_threshold(round(self.mean + ABOVE * self.std), self.step)
        self.counts = [max(0, round(self.bound - self.mean + place * self.std)) for place in PLACES]

    def publish(self, count: int, cells: int, seed: int) -> np.ndarray:
        """Draw noisy counts above the threshold for `cells` cells with this true count."""
        noise = self.family.sample_tail(cells, self.bound - count, self.level, rng=seeded(seed))
        return count + (noise if self.family.integer else round_to_grid(noise, self.step))

    def limits(self, noisy: np.ndarray, alpha: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and upper confidence limits of true counts, given the noisy counts."""
        return count_limits(self.family, self.level, noisy, self.bound, self.step, alpha=alpha)

    def covers(self, count: int, noisy: np.ndarray, alpha: float) -> np.ndarray:
        """Return, for each interval, whether it contains the true count."""
        low, high = self.limits(noisy, alpha)
        assert (low <= high).all()
        return (low <= count) & (count <= high)

    def covers_all(self, noisy: np.ndarray, counts: np.ndarray, alpha: float) -> int:
        """Return the number of releases (rows) in which every interval contains the true count of its column."""
        held = [self.covers(int(count), noisy[:, i], alpha) for i, count in enumerate(counts)]
        return int(np.all(held, axis=0).sum())

    def exact_coverage(self, count: int, alpha: float) -> float:
        """Return the exact probability that the interval of a published cell contains this true count."""
        centre, reach, half = count + self.mean, 60 * self.std, self.step / 2
        first = max(self.bound + half, math.floor(centre - reach))
        noisy = np.arange(first, math.ceil(max(self.bound, centre) + reach), self.step)
        log_tail = self.family.log_tail(noisy - count - half, self.level)
        law = np.exp(log_tail) - np.exp(self.family.log_tail(noisy - count + half, self.level))
        return float(law[self.covers(count, noisy, alpha)].sum() / law.sum())

    def naive_p_value(self, count: int, noisy: np.ndarray, alpha: float) -> float:
        """Return the p-value of a test that naive intervals (noisy count ± 1.96 std) have a coverage of 1 - alpha."""
        found = int((np.abs(noisy - self.mean - count) <= 1.959964 * self.std).sum())
        return binomial_test(found, noisy.size, 1 - alpha)


@pytest.mark.parametrize(
    ("noise", "cells", "alpha"),
    [
        *((noise, FEW, 0.05) for noise in ("gaussian", "discrete_laplace")),
        *(slow(noise, MANY, alpha) for noise in LEVELS for alpha in (0.3, 0.05, 0.001)),
    ],
)
def test_coverage_is_nominal_for_every_true_count(noise: str, cells: int, alpha: float) -> None:
    """Intervals of published counts contain the true count as often as computed, and at least as often as stated.

    This holds for true counts below, at and above the threshold. Naive intervals are detected as wrong.
    """
    scene = Scene(noise)
    for i, count in enumerate(scene.counts):
        noisy = scene.publish(count, cells, 80 + i)
        covered = int(scene.covers(count, noisy, alpha).sum())
        exact = scene.exact_coverage(count, alpha)
        assert 1 - alpha - 1e-9 <= exact <= 1 - 0.6 * alpha
        assert_consistent(binomial_test(covered, cells, exact), f"coverage of {count} published with {noise} noise")
        if PLACES[i] < -1:
            assert_detected(scene.naive_p_value(count, noisy, alpha), "noisy count plus and minus 1.96 std")


def a_release(noise: str = "gaussian", **request: Any) -> sh.Release:
    """Return a release over 4,000 keys, where the true count of a key is the key modulo 200."""
    values = np.arange(4000) % 200
    frame = pl.DataFrame({"key": np.arange(values.size), "count": values})
    keys = 1 if noise == "poisson" else MAX_KEYS
    series = over_counts(frame, seed=91, max_keys=keys, domain=sh.Integers(values.size), noise=noise)
    return series.release("r", **({"level": LEVELS[noise], "threshold": 60} | request))


@pytest.mark.parametrize("noise", LEVELS)
def test_a_release_gives_its_intervals_with_its_rows(noise: str, tmp_path: Path) -> None:
    """A release and its file give the same intervals and estimates, and the intervals have nominal coverage."""
    release = a_release(noise, threshold=60 if noise != "poisson" else 150)
    found = release.intervals()
    assert found.columns == ["key", "noisy_count", "low", "high"]
    assert found.drop("low", "high").equals(release.frame)
    release.write_parquet(tmp_path / "r.parquet")
    assert sh.read(tmp_path / "r.parquet").intervals().equals(found)
    truth = found["key"].to_numpy() % 200
    covered = (found["low"].to_numpy() <= truth) & (truth <= found["high"].to_numpy())
    # Coverage may exceed 95 %, because negative upper limits are replaced with 0 and noisy counts lie on a grid.
    expected = 0.95 if covered.mean() < 0.95 else float(covered.mean())
    assert_consistent(binomial_test(int(covered.sum()), covered.size, expected))
    estimates = release.estimates()
    assert estimates.columns == ["key", "noisy_count", "estimate", "estimate_error"]
    assert sh.read(tmp_path / "r.parquet").estimates().equals(estimates)


def test_simultaneous_intervals_hold_together() -> None:
    """With probability 95 %, all 40 simultaneous intervals of a release contain their true counts.

    Ordinary intervals, which have a coverage of 95 % each, are detected as too narrow.
    """
    scene = Scene("gaussian")
    counts = np.repeat(scene.counts[1:5], 10)
    noisy = np.stack([scene.publish(count, 3000, 300 + i) for i, count in enumerate(counts)], axis=1)
    together = scene.covers_all(noisy, counts, -math.expm1(math.log(0.95) / counts.size))
    apart = scene.covers_all(noisy, counts, 0.05)
    assert_consistent(binomial_test(together, 3000, 0.95))
    assert_detected(binomial_test(apart, 3000, 0.95), "intervals that hold one by one")
    release = a_release()
    alone, all_of_them = release.intervals(), release.intervals(simultaneous=True)
    assert (all_of_them["high"] > alone["high"]).all()
    each = release.intervals(0.95 ** (1 / len(release)))
    assert all_of_them["low"].to_numpy() == pytest.approx(each["low"].to_numpy(), abs=1e-4)


@pytest.mark.parametrize("noise", LEVELS)
def test_estimates_are_right_on_average_over_counts_that_are_as_common(noise):
    """If all true counts are equally likely, estimates of counts are unbiased and have the stated error.

    Published noisy counts themselves are too large on average, because only cells above the threshold are published.
    """
    scene = Scene(noise)
    top = 2 * scene.bound + 10 * scene.std
    counts = seeded(5).integers(0, round(top), FEW)
    noisy = np.empty(FEW)
    for count in np.unique(counts):
        rows = counts == count
        noisy[rows] = scene.publish(int(count), int(rows.sum()), int(count))
    found = count_estimates(scene.family, scene.level, noisy, scene.bound, scene.step)
    assert (found.counts >= 0).all()
    # Use only noisy counts far below `top`; larger ones could belong to true counts above `top`, which are not drawn.
    seen = noisy < top - 7 * scene.std
    near = seen & (noisy < scene.bound + 2 * scene.std)
    for rows in (near, seen & ~near):
        off = (found.counts - counts)[rows] / found.errors[rows]
        assert_consistent(mean_test(off, 0.0, float(off.var())), f"{noise}: bias")
        assert_consistent(mean_test(off**2, 1.0, float((off**2).var())), f"{noise}: error")
    noise_alone = (noisy - scene.mean - counts)[near]
    assert_detected(mean_test(noise_alone, 0.0, float(noise_alone.var())), f"{noise}: bias of the noisy count")
    wrong = ((found.counts - counts)[near] / (1.05 * found.errors[near])) ** 2
    assert_detected(mean_test(wrong, 1.0, float(wrong.var())), f"{noise}: error stated 5 % too large")
