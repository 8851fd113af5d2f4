"""Simulate sparse releases over all cells of a small domain, for comparison with dense releases.

The module also contains wrong samplers, which the tests must detect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.special import log_ndtr, ndtri_exp

from sparsehist.histogram import DenseReleases, NewlyTracked, draw_exceeding
from sparsehist.histogram.dense import noise_at_level
from sparsehist.noise import Gaussian
from sparsehist.noise.family import Family
from sparsehist.privacy import Level, as_level
from tests.stats import two_sample_outcomes, two_sample_vectors

Draw = Callable[..., NewlyTracked]
Redraw = Callable[..., np.ndarray]


def release_sparse(
    family: Family,
    counts: np.ndarray,
    levels: Sequence[Level],
    thresholds: Sequence[float],
    *,
    rng: Generator,
    draw: Draw = draw_exceeding,
    tracked_noise: Redraw = noise_at_level,
) -> DenseReleases:
    """Return sparse releases, drawn round by round; the noise of a cell that is never published is NaN."""
    groups = np.unique(counts)
    free = {int(c): list(rng.permutation(np.flatnonzero(counts == c))) for c in groups}
    cells = np.empty(0, np.int64)
    known: dict[Fraction, np.ndarray] = {}
    past: list[tuple[Fraction, float]] = []
    for level, threshold in zip(map(as_level, levels), thresholds, strict=True):
        if level not in known:
            known[level] = tracked_noise(family, level, known, cells.size, rng=rng)
        sizes = [len(free[int(c)]) for c in groups]
        new = draw(family, past, level, threshold, sizes, count=groups, rng=rng)
        past.append((level, threshold))
        added = np.array([free[int(groups[g])].pop() for g in new.group], dtype=np.int64)
        cells = np.append(cells, added)
        column = {at: new.paths[:, i] for i, (at, _) in enumerate(past[:-1])} | {level: new.values}
        known = {at: np.append(noise, column[at]) for at, noise in known.items()}
    noise = np.full((len(levels), counts.size), np.nan)
    for i, level in enumerate(levels):
        noise[i, cells] = known[as_level(level)]
    with np.errstate(invalid="ignore"):
        return hide_unpublished(DenseReleases(noise, noise > np.asarray(thresholds)[:, None] - counts))


def hide_unpublished(releases: DenseReleases) -> DenseReleases:
    """Set the noise of cells that are never published to NaN, as in sparse releases."""
    seen = releases.published.any(axis=0)
    return DenseReleases(np.where(seen, releases.noise, np.nan), releases.published)


def p_value(first: DenseReleases, second: DenseReleases, cells: Any = slice(None), kinds: Any = None) -> float:
    """Compare two sets of releases by the cells that they publish and by the noise of these cells; return a p-value.

    Args:
        first: Releases; the noise of cells that were never published is NaN.
        second: Releases to compare with `first`. Cell i must have the same label in both.
        cells: Indices of the cells to compare, or a mask.
        kinds: A label for each cell; only cells with equal labels are compared with each other.
    """
    both = [DenseReleases(each.noise[:, cells], each.published[:, cells]) for each in (first, second)]
    labels = np.zeros(both[0].published.shape[1], int) if kinds is None else kinds[cells]
    weights = 1 << np.arange(len(first.published))
    patterns = [np.column_stack([labels, weights @ each.published]) for each in both]
    # The code of a publication pattern can be near 2**50, which is too large for one vector with the noise.
    # Therefore number the patterns that occur 0, 1, 2, …, and use these numbers instead of the codes.
    numbered = np.unique(np.concatenate(patterns), axis=0, return_inverse=True)[1].reshape(2, -1)
    seen = [each.published.any(axis=0) for each in both]
    paths = [
        np.column_stack([number[shown], each.noise[:, shown].T])
        for number, shown, each in zip(numbered, seen, both, strict=True)
    ]
    return min(1.0, 2 * min(two_sample_outcomes(*numbered), two_sample_vectors(*paths)))


def printed_algorithm_6(
    family: Gaussian,
    past: Sequence[tuple[Fraction, float]],
    level: Fraction,
    threshold: float,
    n_untracked: Sequence[int],
    *,
    count: Any,
    rng: Generator,
) -> NewlyTracked:
    """Draw newly exceeding cells by Algorithm 6 of [ARNP] as printed, a wrong sampler that tests must reject.

    The levels must be in ascending order. The algorithm draws the correct number of cells, but it draws the noise at
    each level from a truncated distribution that ignores the bounds at later levels. The printed scale of the noise
    is also wrong. It is corrected here, because a wrong scale would be easy to detect.
    """
    exact = draw_exceeding(family, past, level, threshold, n_untracked, count=count, rng=rng)
    margin = np.asarray(count, float)[exact.group]
    at = dict.fromkeys(sorted({*(known for known, _ in past), level}))
    bounds = {known: min(tau for other, tau in past if other == known) for known, _ in past}
    position, time = np.zeros(exact.group.size), 0.0
    for known in at:
        now = family.sensitivity**2 * float(known) / 2
        step = np.sqrt(now - time)
        rho, time = float(known), now
        uniform = np.negative(rng.standard_exponential(position.size))
        if known == level:
            low = (rho * (threshold - margin) - position) / step
            move = -ndtri_exp(log_ndtr(-low) + uniform)
        elif known in bounds:
            high = (rho * (bounds[known] - margin) - position) / step
            move = ndtri_exp(log_ndtr(high) + uniform)
        position = position + step * move
        at[known] = position / rho
    paths = [at[known] for known, _ in past]
    return NewlyTracked(at[level], np.reshape(paths, (len(past), exact.group.size)).T, exact.group, exact.exceeds)


def independent_redraw(
    family: Family, level: Fraction, _known: dict[Fraction, np.ndarray], size: int, *, rng: Generator
) -> np.ndarray:
    """Draw noise for tracked cells that is independent of their noise at other levels, as a negative control."""
    return family.sample(size, level, rng=rng)
