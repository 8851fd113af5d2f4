"""Exact joint laws of noise at several levels, against which releases are tested."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sparsehist.noise.discrete_laplace import DiscreteLaplace
from sparsehist.noise.family import Family
from sparsehist.noise.poisson import Poisson
from sparsehist.noise.skellam import Skellam
from tests.stats import g_test

FloatArray = NDArray[np.float64]


def one_level(family: Family, level: Fraction, values: NDArray[np.int64]) -> FloatArray:
    """P[Z(level) = x], written down without the family's own methods."""
    if isinstance(family, DiscreteLaplace):
        a = np.exp(-float(level) / float(family.sensitivity))
        return np.asarray((1 - a) / (1 + a) * a ** np.abs(values))
    if isinstance(family, Poisson):
        return poisson(1 / float(level), values)
    if isinstance(family, Skellam):
        return skellam(1 / float(level), values)
    raise TypeError


def poisson(mean: float, values: NDArray[np.int64]) -> FloatArray:
    """P[Poisson(mean) = x]."""
    x = np.maximum(values, 0)
    return np.where(values < 0, 0.0, np.exp(special.xlogy(x, mean) - mean - special.gammaln(x + 1)))


def skellam(mean: float, values: NDArray[np.int64]) -> FloatArray:
    """P[P - D = x] for independent Poisson(mean) parts."""
    return np.asarray(special.ive(np.abs(values), 2 * mean))


def bridge(family: Family, fine: Fraction, coarse: Fraction, values: NDArray[np.int64]) -> FloatArray:
    """P[Z(coarse) - Z(fine) = x]."""
    if isinstance(family, Poisson):
        return poisson(1 / float(coarse) - 1 / float(fine), values)
    if isinstance(family, Skellam):
        return skellam(1 / float(coarse) - 1 / float(fine), values)
    ratio = variance(family, fine) / variance(family, coarse)
    return (1 - ratio) * one_level(family, coarse, values) + ratio * (values == 0)


def variance(family: Family, level: Fraction) -> float:
    """Of discrete Laplace noise."""
    a = np.exp(-float(level) / float(family.sensitivity))  # type: ignore[attr-defined]
    return float(2 * a / (1 - a) ** 2)


def joint_pmf(family: Family, fine_to_coarse: list[Fraction], low: int, high: int) -> FloatArray:
    """P of the noise at all levels, each in low..high; what lies outside is missing. Shape (width,)*levels."""
    axis = np.arange(low, high + 1)
    table = one_level(family, fine_to_coarse[0], axis)
    for fine, coarse in pairwise(fine_to_coarse):
        table = table[..., :, np.newaxis] * bridge(family, fine, coarse, axis[np.newaxis, :] - axis[:, np.newaxis])
    return table


def joint_counts(columns: list[NDArray[np.int64]], low: int, high: int) -> tuple[FloatArray, int]:
    """How often each cell of `joint_pmf` occurs, and how often one outside it."""
    inside = np.all([(column >= low) & (column <= high) for column in columns], axis=0)
    shape = (high - low + 1,) * len(columns)
    index = np.ravel_multi_index([column[inside] - low for column in columns], shape)
    return np.bincount(index, minlength=int(np.prod(shape))).reshape(shape), int((~inside).sum())


def joint_p_value(
    family: Family, fine_to_coarse: list[Fraction], columns: list[NDArray[np.int64]], low: int, high: int
) -> float:
    """G-test over all cells, the likeliest first, and one for the rest."""
    table = joint_pmf(family, fine_to_coarse, low, high).ravel()
    seen, outside = joint_counts(columns, low, high)
    order = np.argsort(-table, kind="stable")
    possible = order[table[order] > 0]
    if seen.ravel()[table <= 0].any():
        return 0.0  # a cell no path can reach
    missing = 1.0 - math.fsum(table)
    return g_test([*seen.ravel()[possible], outside], [*table[possible], missing])
