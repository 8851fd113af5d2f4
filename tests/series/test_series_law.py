"""Published frames have the joint distribution of the dense mechanism, which adds noise to every cell."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import sparsehist as sh
from sparsehist.noise import family_named
from tests.cases import quick
from tests.series.dense_law import dense, same_law
from tests.stats import assert_consistent, assert_detected

# Levels and thresholds of five releases. Levels are in mixed order, and one level occurs twice.
SCENES = {
    "gaussian": (["0.2", "0.05", "1/2", "0.2", "0.1"], [2.5, 5.0, 2.0, 1.75, 2.5]),
    "laplace": (["1", "0.5", "2", "1", "0.7"], [3.0, 5.0, 2.5, 2.0, 3.5]),
    "discrete_laplace": (["1", "0.5", "2", "1", "0.7"], [3, 5, 2, 2, 3]),
    "skellam": (["0.1", "0.05", "1/5", "0.1", "0.07"], [6, 9, 4, 5, 7]),
    "poisson": (["0.1", "0.05", "1/5", "0.1", "0.07"], [13, 25, 8, 12, 18]),
}
# With 40,000 cells of each true count, the tests detect a publication probability that is 4 % off.
CELLS = 40_000
COUNTS = np.repeat([0, 1, 3], CELLS)


def keys_of(noise: str) -> int:
    """Return the value of `max_keys` in tests of a noise family; Poisson noise supports only max_keys=1."""
    return 1 if noise == "poisson" else 2


def through_the_store(noise: str, path: Path | str, seed: int | None) -> np.ndarray:
    """Release from a store; return noisy counts of shape (releases, cells), with NaN for unpublished cells."""
    counted = pl.DataFrame({"cell": np.arange(COUNTS.size), "count": COUNTS}).filter(pl.col("count") > 0)
    store, counts = sh.open(path, create=True, seed=seed), sh.Counts(counted, largest=1)
    domain = sh.Integers(COUNTS.size)
    series = sh.create(store, counts, name="s", key="cell", max_keys=keys_of(noise), domain=domain, noise=noise)
    noisy = np.full((len(SCENES[noise][0]), COUNTS.size), np.nan)
    for i, (level, threshold) in enumerate(zip(*SCENES[noise], strict=True)):
        frame = series.release(f"r{i}", level=level, threshold=threshold).frame
        noisy[i, frame["cell"].to_numpy()] = frame["noisy_count"].to_numpy()
    return noisy


def densely(noise: str, seed: int) -> np.ndarray:
    """Draw releases by adding noise to every cell, and return an array as `through_the_store` does."""
    return dense(family_named(noise, keys_of(noise)), COUNTS, *SCENES[noise], seed=seed)


@pytest.mark.parametrize("noise", quick(("gaussian", "discrete_laplace"), SCENES))
def test_published_frames_have_the_joint_law_of_the_dense_mechanism(noise: str) -> None:
    """Five releases, at levels in any order, have the joint distribution of a mechanism with noise on every cell.

    A release whose noise is drawn independently of the other releases is detected as wrong.
    """
    reference = densely(noise, 51)
    published = through_the_store(noise, ":memory:", 52)
    for count in (0, 1, 3):
        cells = count == COUNTS
        assert_consistent(same_law(published[:, cells], reference[:, cells]), f"cells of count {count}")
    apart, empty = reference.copy(), COUNTS == 0
    apart[4] = densely(noise, 54)[4]
    assert_detected(same_law(apart[:, empty], reference[:, empty]), "a release from an independent store")


def test_a_store_on_disk_with_its_own_randomness_has_the_same_law(tmp_path: Path) -> None:
    """An unseeded store on disk makes releases that are distributed as if noise had been added to every cell."""
    published, ones = through_the_store("gaussian", tmp_path / "store", None), COUNTS == 1
    assert_consistent(same_law(published[:, ones], densely("gaussian", 51)[:, ones]))
