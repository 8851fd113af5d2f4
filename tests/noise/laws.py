"""Draw noise at several levels in a chosen order, and test it against its exact joint distribution."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from sparsehist import entropy
from sparsehist.histogram.dense import noise_at_level
from sparsehist.noise import DiscreteLaplace, Exponential, Gaussian, Poisson, RandomisedResponse
from tests.stats import g_test, gaussian_vector_test, ks_test, uniform_cube_test

Noise = Mapping[Fraction, NDArray[Any]]


def in_order(family: Any, order: Sequence[Fraction], draws: int, seed: int) -> dict[Fraction, NDArray[Any]]:
    """Draw noise at levels in the given order, each conditional on the noise already drawn at the nearest levels."""
    rng, known = entropy.seeded(seed), {}
    for level in order:
        known[level] = noise_at_level(family, level, known, draws, rng=rng)
    return known


def rate(family: Any, level: Fraction) -> float:
    """Return the rate of exponential decay of the tails of this noise, per unit of noise."""
    return float(level) / float(getattr(family, "sensitivity", 1))


def probabilities(family: Any, level: Fraction, x: NDArray[Any]) -> NDArray[Any]:
    """Return the exact probabilities P[Z(level) = x] of integer noise."""
    if isinstance(family, DiscreteLaplace):
        return np.asarray(math.tanh(rate(family, level) / 2) * np.exp(-rate(family, level) * np.abs(x)))
    if isinstance(family, RandomisedResponse):
        a = math.exp(-rate(family, level))
        return np.where(x % family.categories == 0, 1.0, a) / (1 + (family.categories - 1) * a)
    mean = float(1 / level)
    if isinstance(family, Poisson):
        return np.asarray(stats.poisson.pmf(x, mean))
    return np.asarray(special.ive(np.abs(x), 2 * mean))


def bridge(family: Any, fine: Fraction, coarse: Fraction, x: NDArray[Any]) -> NDArray[Any]:
    """Return the exact probabilities P[Z(coarse) - Z(fine) = x] of integer noise."""
    if isinstance(family, DiscreteLaplace):
        stay = (math.sinh(rate(family, coarse) / 2) / math.sinh(rate(family, fine) / 2)) ** 2  # variance ratio
        return stay * (x == 0) + (1 - stay) * probabilities(family, coarse, x)
    if isinstance(family, RandomisedResponse):
        laws = [np.fft.fft(probabilities(family, level, np.arange(family.categories))) for level in (coarse, fine)]
        return np.fft.ifft(laws[0] / laws[1]).real[x % family.categories]
    return probabilities(family, 1 / (1 / coarse - 1 / fine), x)


def joint_table(family: Any, levels: Sequence[Fraction], values: NDArray[Any]) -> NDArray[Any]:
    """Return the joint probabilities of integer noise at levels from fine to coarse; one axis per level."""
    table = probabilities(family, levels[0], values)
    for fine, coarse in pairwise(levels):
        table = table[..., np.newaxis] * bridge(family, fine, coarse, values[np.newaxis, :] - values[:, np.newaxis])
    return table


def cdf(family: Any, level: Fraction, x: NDArray[Any]) -> NDArray[Any]:
    """Return the distribution function P[Z(level) <= x] of Laplace or exponential noise."""
    at = rate(family, level) * x
    if isinstance(family, Exponential):
        return -np.expm1(-np.maximum(at, 0))
    return np.where(x < 0, np.exp(np.minimum(at, 0)) / 2, 1 - np.exp(-np.maximum(at, 0)) / 2)


def joint_p_value(family: Any, noise: Noise) -> float:
    """Return the p-value of a test that noise at several levels has its exact joint distribution."""
    levels = sorted(noise, reverse=True)
    columns = [np.asarray(noise[level]) for level in levels]
    if isinstance(family, Gaussian):
        rho = np.array(levels, float)
        return gaussian_vector_test(np.column_stack(columns), family.sensitivity**2 / 2 / np.maximum.outer(rho, rho))
    return _of_table(family, levels, columns) if family.integer else _of_jumps(family, levels, columns)


def _of_table(family: Any, levels: Sequence[Fraction], columns: Sequence[NDArray[Any]]) -> float:
    """Return a G-test's p-value for integer noise at several levels. Values far from the mean form one category."""
    if isinstance(family, RandomisedResponse):
        values = np.arange(family.categories)
    else:
        low, high = (family.mean(levels[-1]) + sign * 2 * family.std(levels[-1]) for sign in (-1, 1))
        values = np.arange(max(round(low), 0 if isinstance(family, Poisson) else -math.inf), round(high) + 1).astype(
            int
        )
    table = joint_table(family, levels, values).ravel()
    inside = np.all([(column >= values[0]) & (column <= values[-1]) for column in columns], axis=0)
    index = np.ravel_multi_index([column[inside] - values[0] for column in columns], (values.size,) * len(levels))
    seen = np.bincount(index, minlength=table.size)
    order = np.argsort(-table, kind="stable")
    if seen[table <= 0].any():
        return 0.0
    rest = max(0.0, 1 - math.fsum(table))
    return g_test([*seen[order], (~inside).sum()], [*table[order], rest])


def _of_jumps(family: Any, levels: Sequence[Fraction], columns: Sequence[NDArray[Any]]) -> float:
    """Return the p-value of a test that real noise has its exact joint distribution, by Rosenblatt's transform."""
    rng = entropy.seeded(1)
    power = 1 if isinstance(family, Exponential) else 2
    uniforms = [cdf(family, levels[0], columns[0])]
    for (fine_noise, noise), (fine, coarse) in zip(pairwise(columns), pairwise(levels), strict=True):
        jump, stay = noise - fine_noise, float(coarse / fine) ** power
        spread = np.where(jump == 0, rng.random(jump.size), jump > 0)
        uniforms.append((1 - stay) * cdf(family, coarse, jump) + stay * spread)
    cells_per_axis = int((len(columns[0]) / 150) ** (1 / len(levels)))
    looks = [
        uniform_cube_test(np.column_stack(uniforms), cells_per_axis),
        *(ks_test(u, lambda v: v) for u in uniforms),
    ]
    return min(1.0, len(looks) * min(looks))


def prefix_covariance(steps: int) -> NDArray[np.float64]:
    """Return the covariance of the noise of all prefix sums at level 1/2, for the strategy R = (AᵀA)^¼.

    A is the matrix of prefix sums, and the columns of R are scaled to norm 1.
    """
    sums = np.tril(np.ones((steps, steps)))
    values, vectors = np.linalg.eigh(sums.T @ sums)
    root = (vectors * values**0.25) @ vectors.T
    root /= np.linalg.norm(root, axis=0)
    answers = sums @ np.linalg.inv(root)
    noise = answers @ answers.T
    return (noise + noise.T) / 2
