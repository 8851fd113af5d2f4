"""Published frames have the joint law of the dense mechanism."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import sparsehist as sh
from sparsehist import entropy
from sparsehist.histogram import effective_threshold, grid_step, release_dense, round_to_grid
from sparsehist.noise import family_named
from tests.cases import quick
from tests.stats import assert_consistent, assert_detected, two_sample_outcomes, two_sample_vectors

Releases = tuple[np.ndarray, np.ndarray]
# Scrambled levels, one of them twice with another threshold; every release publishes a good part of the cells.
SCENES = {
    "gaussian": (["0.2", "0.05", "1/2", "0.2", "0.1"], [2.5, 5.0, 2.0, 1.75, 2.5]),
    "laplace": (["1", "0.5", "2", "1", "0.7"], [3.0, 5.0, 2.5, 2.0, 3.5]),
    "discrete_laplace": (["1", "0.5", "2", "1", "0.7"], [3, 5, 2, 2, 3]),
    "skellam": (["0.1", "0.05", "1/5", "0.1", "0.07"], [6, 9, 4, 5, 7]),
    "poisson": (["0.1", "0.05", "1/5", "0.1", "0.07"], [13, 25, 8, 12, 18]),
}
# 40,000 cells of each count see a relative error of 4 % in the commoner patterns of publication.
CELLS = 40_000
COUNTS = np.repeat([0, 1, 3], CELLS)


def keys_of(noise: str) -> int:
    """Keys of a unit: Poisson noise takes one."""
    return 1 if noise == "poisson" else 2


def through_the_store(noise: str, path: Path | str, seed: int | None) -> Releases:
    """Noisy counts by (release, cell), NaN where unpublished, and what is published; every release reopens."""
    counted = pl.DataFrame({"cell": np.arange(COUNTS.size), "count": COUNTS}).filter(pl.col("count") > 0)
    store, counts = sh.open(path, create=True, seed=seed), sh.Counts(counted, largest=1)
    domain = sh.Integers(COUNTS.size)
    series = sh.create(store, counts, name="s", key="cell", max_keys=keys_of(noise), domain=domain, noise=noise)
    levels, thresholds = SCENES[noise]
    noisy = np.full((len(levels), COUNTS.size), np.nan)
    for i, (level, threshold) in enumerate(zip(levels, thresholds, strict=True)):
        frame = series.release(f"r{i}", level=level, threshold=threshold).frame
        noisy[i, frame["cell"].to_numpy()] = frame["noisy_count"].to_numpy()
    return noisy, ~np.isnan(noisy)


def densely(noise: str, seed: int) -> Releases:
    """The same from the dense baseline, rounded as releases are."""
    family, (levels, thresholds) = family_named(noise, keys_of(noise)), SCENES[noise]
    steps = [1.0 if family.integer else grid_step(family.std(level)) for level in levels]
    bounds = [effective_threshold(tau, step) for tau, step in zip(thresholds, steps, strict=True)]
    drawn = release_dense(family, COUNTS, levels, bounds, rng=entropy.seeded(seed))
    rounded = np.stack([round_to_grid(noise, step) for noise, step in zip(drawn.noise, steps, strict=True)])
    return np.where(drawn.published, COUNTS + rounded, np.nan), drawn.published


def p_value(one: Releases, two: Releases, count: int) -> float:
    """Compare which releases a cell is in, and its published values in all of them (0 where it is not)."""
    cells = count == COUNTS
    patterns = [published[:, cells].T for _, published in (one, two)]
    values = [
        np.nan_to_num(noisy[:, cells].T)[pattern.any(axis=1)]
        for (noisy, _), pattern in zip((one, two), patterns, strict=True)
    ]
    return min(1.0, 2 * min(two_sample_outcomes(*patterns), two_sample_vectors(*values)))


@pytest.mark.parametrize("noise", quick(("gaussian", "discrete_laplace"), SCENES))
def test_published_frames_have_the_joint_law_of_the_dense_mechanism(noise: str) -> None:
    """Five releases in scrambled order agree with the dense ones; a release drawn independently is detected."""
    reference = densely(noise, 51)
    published = through_the_store(noise, ":memory:", 52)
    for count in (0, 1, 3):
        assert_consistent(p_value(published, reference, count), f"cells of count {count}")
    apart = tuple(part.copy() for part in reference)
    other = densely(noise, 54)
    apart[0][4], apart[1][4] = other[0][4], other[1][4]
    assert_detected(p_value(apart, reference, 0), "a release from an independent store")


def test_a_store_on_disk_with_its_own_randomness_has_the_same_law(tmp_path: Path) -> None:
    """Releases drawn by the production generator have the law of the dense ones."""
    published = through_the_store("gaussian", tmp_path / "store", None)
    assert_consistent(p_value(published, densely("gaussian", 51), 1))
