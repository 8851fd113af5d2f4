"""What leaves a store has the joint law of the dense mechanism: from counts to published frames."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import sparsehist as sh
from sparsehist import entropy
from sparsehist.histogram import effective_threshold, grid_step, release_dense, round_to_grid
from sparsehist.noise import Gaussian
from tests.stats import assert_consistent, assert_detected, two_sample_outcomes, two_sample_vectors

LEVELS = ["0.2", "0.05", "1/2", "0.2", "0.1"]
THRESHOLDS = [2.5, 5.0, 2.0, 1.75, 2.5]
FAMILY = Gaussian(sensitivity=np.sqrt(2))
# 40,000 cells of each count see a relative error of 4 % in the commoner patterns of publication.
CELLS = 40_000
COUNTS = np.repeat([0, 1, 3], CELLS)


def through_the_store(path: Path | str, seed: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Noisy counts by (release, cell), NaN where unpublished, and what is published; every release reopens."""
    counted = pl.DataFrame({"cell": np.arange(COUNTS.size), "count": COUNTS}).filter(pl.col("count") > 0)
    series = sh.create(
        path, sh.Counts(counted), name="cells", key="cell", max_keys=2, domain=sh.Integers(COUNTS.size), seed=seed
    )
    noisy = np.full((len(LEVELS), COUNTS.size), np.nan)
    for i, (level, threshold) in enumerate(zip(LEVELS, THRESHOLDS, strict=True)):
        frame = series.release(f"r{i}", level=level, threshold=threshold).frame
        noisy[i, frame["cell"].to_numpy()] = frame["noisy_count"].to_numpy()
    return noisy, ~np.isnan(noisy)


def densely(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The same from the dense baseline, rounded as releases are."""
    steps = [grid_step(FAMILY.std(level)) for level in LEVELS]
    bounds = [effective_threshold(tau, step) for tau, step in zip(THRESHOLDS, steps, strict=True)]
    drawn = release_dense(FAMILY, COUNTS, LEVELS, bounds, rng=entropy.seeded(seed))
    rounded = np.stack([round_to_grid(noise, step) for noise, step in zip(drawn.noise, steps, strict=True)])
    return np.where(drawn.published, COUNTS + rounded, np.nan), drawn.published


def p_value(one: tuple[np.ndarray, np.ndarray], two: tuple[np.ndarray, np.ndarray], count: int) -> float:
    """Compare which releases a cell is in, and its published values in all of them (0 where it is not)."""
    cells = count == COUNTS
    patterns = [published[:, cells].T for _, published in (one, two)]
    values = [np.nan_to_num(noisy[:, cells].T)[pattern.any(axis=1)] for (noisy, _), pattern in
              zip((one, two), patterns, strict=True)]  # fmt: skip
    return min(1.0, 2 * min(two_sample_outcomes(*patterns), two_sample_vectors(*values)))


@pytest.fixture(scope="module")
def reference() -> tuple[np.ndarray, np.ndarray]:
    """Hold one run of the baseline."""
    return densely(51)


def test_published_frames_have_the_joint_law_of_the_dense_mechanism(reference: tuple) -> None:
    """Five releases in scrambled order, one level twice, over empty and counted cells."""
    published = through_the_store(":memory:", 52)
    for count in (0, 1, 3):
        assert_consistent(p_value(published, reference, count), f"cells of count {count}")


def test_a_store_on_disk_with_its_own_randomness_has_the_same_law(reference: tuple, tmp_path: Path) -> None:
    """The same with the production generator: a fresh sample in every run, at the suite's level."""
    published = through_the_store(tmp_path / "store", None)
    assert_consistent(p_value(published, reference, 1))


def test_releases_drawn_apart_are_told_from_lossless_ones(reference: tuple) -> None:
    """The comparison notices when one release comes from another, independent store."""
    noisy, published = (part.copy() for part in densely(53))
    other_noisy, other_published = densely(54)
    noisy[4], published[4] = other_noisy[4], other_published[4]
    assert_detected(p_value((noisy, published), reference, 0), "an independent release")
