"""Six releases of one to eight cells are distributed as if noise had been added to every cell."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from sparsehist.domain import Integers
from sparsehist.entropy import seeded
from sparsehist.noise import Gaussian
from sparsehist.release.cell_round import _draw_empty_keys
from tests.attacks.stand_in import Drawn, FilesInMemory
from tests.series.dense_law import dense
from tests.stats import assert_consistent, assert_detected, two_sample_outcomes, two_sample_vectors

RUNS = 2500
FEW = 120
# Six releases, with levels in mixed order. Two levels occur again with other thresholds; one threshold is negative.
LEVELS = ["0.2", "1/2", "0.05", "0.2", "1/3", "0.05"]
THRESHOLDS = [1.5, 1.0, 3.0, 0.5, -0.25, 4.0]


def sparsely(counts: np.ndarray, seed: int, runs: int = RUNS) -> np.ndarray:
    """Return noisy counts as the package releases them, of shape (runs, releases, cells), with NaN if unpublished."""
    rng = seeded(seed)
    out = np.empty((runs, len(LEVELS), counts.size))
    for run in out:
        series = Drawn(counts, 2, rng=rng)
        for i, (level, threshold) in enumerate(zip(LEVELS, THRESHOLDS, strict=True)):
            run[i] = series.row(series.release(f"r{i}", level, threshold))
    return out


def densely(counts: np.ndarray, seed: int, runs: int = 10 * RUNS, *, scale: float = 1.0) -> np.ndarray:
    """Add noise to every cell; return noisy counts of shape (runs, releases, cells), with NaN if unpublished."""
    noisy = dense(Gaussian(sensitivity=np.sqrt(2) * scale), np.tile(counts, runs), LEVELS, THRESHOLDS, seed=seed)
    return noisy.reshape(len(LEVELS), runs, counts.size).transpose(1, 0, 2)


def p_value(one: np.ndarray, two: np.ndarray, cells: list[int]) -> float:
    """Test that these cells' published noisy counts are distributed alike in two samples; return the p-value."""
    parts = [each[:, :, cells].reshape(len(each), -1) for each in (one, two)]
    seen = [~np.isnan(part) @ (1 << np.arange(part.shape[1])) for part in parts]
    values = [np.nan_to_num(part) for part in parts]
    return min(1.0, 2 * min(two_sample_outcomes(*seen), two_sample_vectors(*values)))


def totals(noisy: np.ndarray) -> np.ndarray:
    """Return the number of published cells in the first, third and fifth release of each run; shape (runs, 3)."""
    published = ~np.isnan(noisy)
    return np.stack([published[:, 0].sum(1), published[:, 2].sum(1), published[:, 4].sum(1)], axis=1)


DOMAINS = {
    "one empty cell": [0],
    "one counted cell": [2],
    "two cells": [0, 1],
    "no empty cell": [1, 1, 2],
    "a free cell among taken ones": [1, 1, 1, 2, 2, 0],
    "mostly free": [0, 0, 0, 1, 0, 0, 1, 3],
}


@pytest.mark.parametrize("runs", [FEW, pytest.param(RUNS, marks=pytest.mark.slow)])
@pytest.mark.parametrize("counts", DOMAINS.values(), ids=DOMAINS)
def test_small_domains_have_the_dense_law(counts: list[int], runs: int) -> None:
    """The package's releases are distributed like releases for which noise is added to every cell.

    The test compares noisy counts of the first two and of the last two cells, and the numbers of published cells.
    """
    sparse, dense = sparsely(np.array(counts), 1, runs), densely(np.array(counts), 2, 10 * max(runs, 500))
    assert_consistent(p_value(sparse, dense, [0]), "the first cell")
    if len(counts) > 1:
        assert_consistent(p_value(sparse, dense, [0, 1]), "the first two cells")
        assert_consistent(p_value(sparse, dense, [len(counts) - 1, len(counts) - 2]), "the last two cells")
        assert_consistent(two_sample_outcomes(totals(sparse), totals(dense)), "the numbers published")


def test_a_wrong_scale_is_seen() -> None:
    """Negative control: the comparison detects noise whose scale is 30 % too large."""
    counts = np.array(DOMAINS["two cells"])
    assert_detected(p_value(densely(counts, 3, RUNS, scale=1.3), densely(counts, 4), [0, 1]), "a wider scale")


@pytest.mark.parametrize("n", [5, 40], ids=["by rejection", "by rank"])
def test_false_keys_are_neither_counted_nor_tracked(n: int) -> None:
    """Any empty cell that is not tracked yet can become a new false key, and no other cell can.

    Of the 100 cells of the domain, 20 have units, and 20 of the empty cells are tracked.
    """
    rng, tracked = seeded(9), list(range(1, 100, 5))
    files = FilesInMemory((np.arange(100) % 5 == 0).astype(np.int64), rng)
    known = pl.DataFrame({"key_0": tracked})
    drawn = {
        key
        for _ in range(300)
        for key in _draw_empty_keys(Integers(100), files, known, n, rng=rng)["key_0"].to_list()
    }
    assert drawn == {key for key in range(100) if key % 5 > 1}
