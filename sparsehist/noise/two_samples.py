"""Whether two samples of vectors come from one joint law, with scipy.special alone.

A joint law is looked at from many sides: each coordinate and each difference of two by Kolmogorov's and
Smirnov's distance, how often two coordinates are equal, products of two coordinates, and the cells of a grid.
The smallest p-value counts, times the number of looks.
"""

from __future__ import annotations

import math
from itertools import combinations, combinations_with_replacement

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, erfc, kolmogorov, xlogy

FloatArray = NDArray[np.float64]

_CELLS_PER_AXIS = 6
_LEAST_EXPECTED = 10.0
# Products are of coordinates cut at this quantile of their size, so that heavy tails have a central limit too.
_CUT = 0.999


def two_samples(first: FloatArray, second: FloatArray) -> float:
    """The p-value of "one law" for samples of vectors, small when they differ.

    Args:
        first: Shape (n, k).
        second: Shape (n, k).
    """
    one, two = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if not (np.isfinite(one).all() and np.isfinite(two).all()):
        return 0.0
    looks: list[float] = [_distance(one[:, j], two[:, j]) for j in range(one.shape[1])]
    for i, j in combinations(range(one.shape[1]), 2):
        looks.append(_distance(one[:, i] - one[:, j], two[:, i] - two[:, j]))
        looks.append(_means(one[:, i] == one[:, j], two[:, i] == two[:, j]))
    centre = np.median(two, axis=0)
    cut = np.maximum(np.quantile(np.abs(two - centre), _CUT, axis=0), 1.0 if _integral(two) else 0.0)
    one_cut, two_cut = (np.clip(rows - centre, -cut, cut) for rows in (one, two))
    for i, j in combinations_with_replacement(range(one.shape[1]), 2):
        looks.append(_means(one_cut[:, i] * one_cut[:, j], two_cut[:, i] * two_cut[:, j]))
    looks.append(_cells(one, two))
    return min(1.0, len(looks) * min(looks))


def _integral(rows: FloatArray) -> bool:
    return bool((rows == np.rint(rows)).all())


def _distance(first: FloatArray, second: FloatArray) -> float:
    both = np.concatenate([first, second])
    gap = np.searchsorted(np.sort(first), both, side="right") / first.size
    gap -= np.searchsorted(np.sort(second), both, side="right") / second.size
    harmonic = first.size * second.size / (first.size + second.size)
    return float(kolmogorov(math.sqrt(harmonic) * float(np.max(np.abs(gap)))))


def _means(first: NDArray[np.generic], second: NDArray[np.generic]) -> float:
    one, two = np.asarray(first, np.float64), np.asarray(second, np.float64)
    pooled = np.concatenate([one, two])
    variance = float(pooled.var()) * (1.0 / one.size + 1.0 / two.size)
    if variance == 0.0:
        return 1.0
    return float(erfc(abs(float(one.mean() - two.mean())) / math.sqrt(2.0 * variance)))


def _cells(one: FloatArray, two: FloatArray) -> float:
    both = np.concatenate([one, two])
    index = np.zeros(len(both), np.int64)
    for column in both.T:
        edges = np.quantile(column, np.arange(1, _CELLS_PER_AXIS) / _CELLS_PER_AXIS)
        index = index * _CELLS_PER_AXIS + np.searchsorted(edges, column, side="left")
    cells = _CELLS_PER_AXIS ** both.shape[1]
    table = np.stack([np.bincount(part, minlength=cells) for part in (index[: len(one)], index[len(one) :])])
    totals = table.sum(axis=0)
    large = totals >= 2 * _LEAST_EXPECTED
    pooled = np.concatenate([table[:, large], table[:, ~large].sum(axis=1, keepdims=True)], axis=1).astype(np.float64)
    pooled = pooled[:, pooled.sum(axis=0) >= 2 * _LEAST_EXPECTED]
    if pooled.shape[1] < 2:
        return 1.0
    expected = pooled.sum(axis=1, keepdims=True) * pooled.sum(axis=0) / pooled.sum()
    statistic = 2.0 * float(xlogy(pooled, pooled / expected).sum())
    return float(chdtrc(pooled.shape[1] - 1, max(statistic, 0.0)))
