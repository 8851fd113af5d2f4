"""Provide the dense mechanism, which adds noise to every cell, implemented independently of the package."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.random import Generator
from scipy import stats

from sparsehist.histogram import DenseReleases
from sparsehist.noise import DiscreteLaplace, Family, Gaussian, Laplace, Poisson
from tests.noise import laws
from tests.noise.laws import probabilities, rate

REACH = 400


def dense_releases(
    family: Family, counts: np.ndarray, rounds: Sequence[tuple[str, float]], *, rng: Generator
) -> DenseReleases:
    """Return releases with noise on every cell, drawn at the finest level and then coarsened level by level."""
    levels = sorted({Fraction(level) for level, _ in rounds}, reverse=True)
    noise = {levels[0]: fresh(family, levels[0], counts.size, rng=rng)}
    for fine, coarse in itertools.pairwise(levels):
        noise[coarse] = noise[fine] + bridge(family, fine, coarse, counts.size, rng=rng)
    path = np.stack([noise[Fraction(level)] for level, _ in rounds])
    return DenseReleases(path, path > np.array([tau for _, tau in rounds])[:, np.newaxis] - counts)


def fresh(family: Family, level: Fraction, size: int, *, rng: Generator) -> np.ndarray:
    """Draw independent noise for `size` cells at one level."""
    rho = float(level)
    if isinstance(family, Gaussian):
        return family.sensitivity * math.sqrt(1 / (2 * rho)) * rng.normal(size=size)
    if isinstance(family, Laplace):
        return family.sensitivity / rho * (rng.exponential(size=size) - rng.exponential(size=size))
    if isinstance(family, DiscreteLaplace):
        share = -math.expm1(-rate(family, level))
        return rng.geometric(share, size) - rng.geometric(share, size)
    up = stats.poisson.ppf(rng.random(size), 1 / rho).astype(np.int64)
    return up if isinstance(family, Poisson) else up - stats.poisson.ppf(rng.random(size), 1 / rho).astype(np.int64)


def bridge(family: Family, fine: Fraction, coarse: Fraction, size: int, *, rng: Generator) -> np.ndarray:
    """Draw the increment of noise between two levels, which is the coarse noise minus the fine noise."""
    if isinstance(family, Gaussian):
        return family.sensitivity * math.sqrt(float((1 / coarse - 1 / fine) / 2)) * rng.normal(size=size)
    if isinstance(family, Laplace | DiscreteLaplace):
        return np.where(rng.random(size) < nothing(family, fine, coarse), 0, fresh(family, coarse, size, rng=rng))
    return fresh(family, 1 / (1 / coarse - 1 / fine), size, rng=rng)


def nothing(family: Laplace | DiscreteLaplace, fine: Fraction, coarse: Fraction) -> float:
    """Return the probability that the increment of noise between two levels is 0."""
    if isinstance(family, Laplace):
        return float(coarse / fine) ** 2
    return (math.sinh(rate(family, coarse) / 2) / math.sinh(rate(family, fine) / 2)) ** 2


def finer(
    family: Family, coarse_noise: np.ndarray, coarse: Fraction, fine: Fraction, *, rng: Generator
) -> np.ndarray:
    """Draw noise at a finer level from its exact conditional distribution, given noise at a coarser level."""
    if isinstance(family, Gaussian):
        step = family.sensitivity * math.sqrt(float(fine - coarse) / 2) * rng.normal(size=coarse_noise.size)
        return (float(coarse) * coarse_noise + step) / float(fine)
    if isinstance(family, Laplace):
        return finer_laplace(family, coarse_noise, coarse, fine, rng=rng)
    result = np.empty_like(coarse_noise)
    for value in np.unique(coarse_noise):
        where = np.flatnonzero(coarse_noise == value)
        k = np.arange(-REACH, REACH + 1)
        weights = probabilities(family, fine, k) * laws.bridge(family, fine, coarse, value - k)
        result[where] = rng.choice(k, where.size, p=weights / weights.sum())
    return result


def finer_laplace(
    family: Laplace, coarse_noise: np.ndarray, coarse: Fraction, fine: Fraction, *, rng: Generator
) -> np.ndarray:
    """Draw Laplace noise at a finer level from its exact conditional distribution, given the coarse noise."""
    slow, fast = float(coarse) / family.sensitivity, float(fine) / family.sensitivity
    x, same = np.abs(coarse_noise), nothing(family, fine, coarse)
    moved = (1 - same) * slow * fast / 4
    weights = np.stack([
        same * fast / 2 * np.exp(-(fast - slow) * x),  # all weights are divided by e**(-slow * x)
        np.full(x.size, moved / (slow + fast)),
        moved * -np.expm1(-(fast - slow) * x) / (fast - slow),
        moved * np.exp(-(fast - slow) * x) / (slow + fast),
    ])  # fmt: skip
    ends = np.cumsum(weights / weights.sum(axis=0), axis=0)
    piece = (rng.random(x.size) > ends[:-1]).sum(axis=0)
    away = rng.exponential(size=x.size) / (slow + fast)
    inside = -np.log1p(rng.random(x.size) * np.expm1(-(fast - slow) * x)) / (fast - slow)
    return np.where(coarse_noise < 0, -1, 1) * np.choose(piece, [x, -away, inside, x + away])
