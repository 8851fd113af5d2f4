"""Counts and sums released from a store have the joint distribution of a mechanism that adds noise to every cell."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import sparsehist as sh
from sparsehist import entropy
from sparsehist.histogram import release_dense, round_to_grid
from sparsehist.noise import family_named
from sparsehist.privacy import as_level
from sparsehist.release.cell_parameters import MeasureSums
from tests.cases import slow
from tests.series.dense_law import dense, same_law
from tests.series.in_memory import over_counts
from tests.stats import assert_consistent, assert_detected, two_sample_vectors

# Each tuple has the levels of one release: for counts, price sums and event sums. Finer and coarser levels alternate.
LEVELS = {
    "gaussian": [("0.2", "0.1", "0.3"), ("0.05", "0.4", "0.1"), ("0.5", "0.2", "0.6"), ("0.1", "0.05", "0.2")],
    "laplace": [("1", "0.7", "2"), ("0.5", "2", "0.7"), ("2", "1", "3"), ("0.7", "0.4", "1")],
    "discrete_laplace": [("1", "0.7", "2"), ("0.5", "2", "0.7"), ("2", "1", "3"), ("0.7", "0.4", "1")],
}
THRESHOLDS = {"gaussian": [2.0, 5.0, 1.5, 3.5], "laplace": [2.5, 5.0, 1.5, 3.5], "discrete_laplace": [2, 5, 1, 3]}
# With 40,000 cells of each true count, the test detects a scale of the sums' noise that is 3 % off.
CELLS = 40_000
COUNTS = np.repeat([0, 1, 3, 60], CELLS)
PRICES, EVENTS = 7 * COUNTS, COUNTS + (COUNTS > 1)
MEASURES = (sh.Measure("price", clip=2, step="0.25"), sh.Measure.events(most=3))
KEYS = 2
SCALES = (0.25, 1.0)


def through_the_store(noise: str, seed: int) -> np.ndarray:
    """Release from a store; return counts and sums of shape (releases, 3, cells), with NaN for unpublished cells."""
    counted = pl.DataFrame(
        {"cell": np.arange(COUNTS.size), "count": COUNTS, "price_steps": PRICES, "events_steps": EVENTS}
    ).filter(pl.col("count") > 0)
    domain = sh.Integers(COUNTS.size)
    series = over_counts(counted, seed=seed, key="cell", max_keys=KEYS, domain=domain, noise=noise, measures=MEASURES)
    found = np.full((len(LEVELS[noise]), 3, COUNTS.size), np.nan)
    for i, ((level, *sums), threshold) in enumerate(zip(LEVELS[noise], THRESHOLDS[noise], strict=True)):
        asked = dict(zip(("price", "events"), sums, strict=True))
        frame = series.release(f"r{i}", level=level, threshold=threshold, measures=asked).frame
        cells = frame["cell"].to_numpy()
        found[i, 0, cells] = frame["noisy_count"].to_numpy()
        for at, (name, scale) in enumerate(zip(asked, SCALES, strict=True), 1):
            found[i, at, cells] = frame[f"{name}_sum"].to_numpy() / scale
    return found


def densely(noise: str, seed: int, *, scale: float = 1.0, shared: bool = False) -> np.ndarray:
    """Draw releases by the dense mechanism (noise on every cell), and return an array as `through_the_store` does.

    Args:
        noise: Name of the noise family.
        seed: Seed of the three noise paths.
        scale: Factor on the noise of sums; 1 except in negative controls.
        shared: Whether both sums use one noise path, scaled to each measure; true only in a negative control.
    """
    levels, family = LEVELS[noise], family_named(noise, KEYS)
    found = np.full((len(levels), 3, COUNTS.size), np.nan)
    found[:, 0] = dense(family, COUNTS, [each[0] for each in levels], THRESHOLDS[noise], seed=seed)
    path, rng = None, entropy.seeded(seed + 1000)
    for at, (truth, measure) in enumerate(zip((PRICES, EVENTS), MEASURES, strict=True), 1):
        own = type(family)(sensitivity=family.sensitivity * measure.most_steps)
        if path is None or not shared:
            asked = [each[1 if shared else at] for each in levels]
            path = release_dense(own, np.zeros(COUNTS.size), asked, [0.0] * len(asked), rng=rng).noise
        for i, each in enumerate(levels):
            grid = MeasureSums(measure, own, as_level(each[at])).grid
            found[i, at] = round_to_grid(truth + np.asarray(path[i]) * scale, grid)
    return np.where(np.isnan(found[:, :1]), np.nan, found)


def p_value(one: np.ndarray, two: np.ndarray, noise: str, count: int) -> float:
    """Compare the cells with this true count in two arrays of released counts and sums, and return the p-value."""
    cells, lengths = count == COUNTS, []
    samples = [published[:, :, cells].reshape(12, -1) for published in (one, two)]
    family = family_named(noise, KEYS)
    stds = [[most * family.std(level) for most, level in zip((8, 3), of, strict=True)] for _, *of in LEVELS[noise]]
    truth = np.array([PRICES[cells][0], EVENTS[cells][0]])
    for numbers in samples:
        whole = numbers.T[~np.isnan(numbers).any(axis=0)].reshape(-1, 4, 3)[:, :, 1:]
        lengths.append((((whole - truth) / stds) ** 2).sum(axis=(1, 2)))
    enough = min(map(len, lengths)) > CELLS / 100
    return same_law(*samples, *([two_sample_vectors(*lengths)] if enough else []))


@pytest.mark.parametrize("noise", ["gaussian", slow("laplace"), slow("discrete_laplace")])
def test_counts_and_two_sums_have_the_joint_law_of_the_dense_mechanism(noise: str) -> None:
    """Counts and two sums have the joint distribution of the dense mechanism, which adds noise to every cell.

    The test detects noise of a wrong scale, a noise path that both sums share, and false keys without sums.
    """
    reference, published = densely(noise, 61), through_the_store(noise, 62)
    for count in (0, 1, 3, 60):
        assert_consistent(p_value(published, reference, noise, count), f"cells of count {count}")
    assert_detected(p_value(densely(noise, 63, scale=1.05), reference, noise, 60), "noise of sums 5 % too large")
    assert_detected(p_value(densely(noise, 64, scale=0.95), reference, noise, 60), "noise of sums 5 % too small")
    assert_detected(
        p_value(densely(noise, 65, shared=True), reference, noise, 60), "one path shared by both measures"
    )
    bare = published.copy()
    bare[:, 1:, COUNTS == 0] = np.nan
    assert_detected(p_value(bare, reference, noise, 0), "false keys without sums")
