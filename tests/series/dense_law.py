"""Draw releases with noise on every cell, and test whether two sets of releases have the same joint distribution."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sparsehist.entropy import seeded
from sparsehist.histogram import effective_threshold, grid_step, release_dense, round_to_grid
from sparsehist.noise import Family
from tests.stats import two_sample_outcomes, two_sample_vectors


def dense(
    family: Family, counts: np.ndarray, levels: Sequence[str], thresholds: Sequence[float], *, seed: int
) -> np.ndarray:
    """Add noise to every cell; return rounded noisy counts of shape (releases, cells), with NaN where unpublished."""
    steps = [1.0 if family.integer else grid_step(family.std(level)) for level in levels]
    bounds = [effective_threshold(tau, step) for tau, step in zip(thresholds, steps, strict=True)]
    drawn = release_dense(family, counts, levels, bounds, rng=seeded(seed))
    rounded = np.stack([round_to_grid(noise, step) for noise, step in zip(drawn.noise, steps, strict=True)])
    return np.where(drawn.published, counts + rounded, np.nan)


def same_law(one: np.ndarray, two: np.ndarray, *further: float) -> float:
    """Return a p-value for the hypothesis that the cells (columns) of two arrays have the same distribution.

    Each row contains the published numbers of all cells, for example the counts in one release, with NaN if
    unpublished. One test compares the published values, and a second test compares which values are published. A
    Bonferroni correction combines both p-values with those in `further`, from other comparisons of the same cells.
    """
    patterns = [~np.isnan(numbers.T) for numbers in (one, two)]
    values = [
        np.nan_to_num(numbers.T[shown.any(axis=1)]) for numbers, shown in zip((one, two), patterns, strict=True)
    ]
    looks = [two_sample_vectors(*values), *further]
    if not all(shown.all() for shown in patterns):
        looks.append(two_sample_outcomes(*patterns))
    return min(1.0, len(looks) * min(looks))
