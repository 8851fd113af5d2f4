"""Noise at several levels drawn in a given order, and exact joint laws: independent integers, prefix sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from sparsehist import entropy
from sparsehist.histogram.dense import noise_at_level
from sparsehist.noise import Family
from tests.stats import g_test


def in_order(family: Family, order: Sequence[Fraction], draws: int, seed: int) -> np.ndarray:
    """Draw at each level in turn from its neighbours; shape (draws, levels), coarse to fine."""
    rng, known = entropy.seeded(seed), {}
    for level in order:
        known[level] = noise_at_level(family, level, known, draws, rng=rng)
    return np.column_stack([known[level] for level in sorted(order)])


def prefix_covariance(steps: int) -> np.ndarray:
    """Of prefix sums by R = (AᵀA)^¼ with columns scaled, at level 1/2 and sensitivity 1, by matrices."""
    sums = np.tril(np.ones((steps, steps)))
    values, vectors = np.linalg.eigh(sums.T @ sums)
    root = (vectors * values**0.25) @ vectors.T
    root /= np.linalg.norm(root, axis=0)
    answers = sums @ np.linalg.inv(root)
    noise = answers @ answers.T
    return (noise + noise.T) / 2


def joint_p_value(
    paths: np.ndarray, pmf: Callable[[np.ndarray, float], np.ndarray], times: Sequence[float], shown: tuple[int, int]
) -> float:
    """G-test of (coarse, middle, fine) rows against a process of independent increments, read at three times.

    Args:
        paths: Shape (n, 3), integers.
        pmf: P[increment = x] over a length of time.
        times: Of the three columns, falling.
        shown: Least and largest value with a cell of its own in each coordinate; beyond is pooled.
    """
    low, high = shown
    span = np.arange(-3 * (high - low), 3 * (high - low) + 1)
    cells = np.clip(span, low - 1, high + 1) - (low - 1)
    member = (cells[:, None] == np.arange(high - low + 3)).astype(float)
    away = np.subtract.outer(span, span)
    down = member.T @ (pmf(span, times[2])[:, None] * pmf(away.T, times[1] - times[2]))
    up = pmf(away.T, times[0] - times[1]) @ member
    cube = np.einsum("fm,mj,mc->cjf", down, member, up).ravel()
    side = high - low + 3
    index = np.clip(paths, low - 1, high + 1) - (low - 1)
    return g_test(np.bincount(index @ [side * side, side, 1], minlength=side**3), cube / cube.sum())
