"""Compute the exact probability that the noise of a cell first exceeds its threshold at a given release.

The noise at a coarser level is the noise at the next finer level plus an independent increment. The computation
starts with the distribution at the finest level and adds one increment after another. After each increment, it keeps
only the probability within the bounds of that level.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.signal import fftconvolve
from scipy.stats import norm

from sparsehist.noise import DiscreteLaplace, Gaussian, Laplace, Poisson
from sparsehist.privacy import Level, as_level
from sparsehist.typing import FloatArray
from tests.noise.laws import bridge, probabilities

Box = Mapping[Fraction, tuple[float, float]]
NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)


def first_exceedance(family: Any, past: Sequence[tuple[Level, float]], level: Level, bound: float) -> float:
    """Return the probability that noise exceeds `bound` at `level` but never exceeds the bound of a past level."""
    box = {known: (-math.inf, high) for known, high in _lowest(past).items()}
    own = as_level(level)
    return probability(family, {**box, own: (bound, box.get(own, (0, math.inf))[1])})


def exceedance(family: Any, past: Sequence[tuple[Level, float]], level: Level, bound: float) -> float:
    """Return the probability that noise exceeds `bound` at `level`, given that it exceeded no past bound."""
    box = {known: (-math.inf, high) for known, high in _lowest(past).items()}
    return first_exceedance(family, past, level, bound) / probability(family, box)


def ever_exceeds(family: Any, releases: Sequence[tuple[Level, float]]) -> float:
    """Return the probability that the noise of a cell exceeds its bound in at least one of the releases."""
    return math.fsum(first_exceedance(family, releases[:i], *releases[i]) for i in range(len(releases)))


def probability(family: Any, box: Box) -> float:
    """Return P[low < Z(level) <= high at every level], accurate to 1e-12, or to 1e-4 for Laplace noise."""
    levels = sorted(box, reverse=True)
    if not levels:
        return 1.0
    if any(low >= high for low, high in box.values()):
        return 0.0
    return _gaussian(family, levels, box) if isinstance(family, Gaussian) else _lattice(family, levels, box)


def _lowest(releases: Sequence[tuple[Level, float]]) -> dict[Fraction, float]:
    lowest: dict[Fraction, float] = {}
    for level, bound in releases:
        lowest[as_level(level)] = min(bound, lowest.get(as_level(level), math.inf))
    return lowest


def _gaussian(family: Gaussian, levels: list[Fraction], box: Box) -> float:
    """Return the probability that Gaussian noise is within its bounds at every level, computed by quadrature."""
    variances = [family.std(level) ** 2 for level in levels]
    gaps = np.sqrt(np.diff(variances, prepend=0.0))
    places, mass = np.zeros(1), np.ones(1)
    for i, level in enumerate(levels):
        reach = 40 * math.sqrt(variances[i])
        low, high = max(box[level][0], -reach), min(box[level][1], reach)
        edges = np.linspace(low, high, math.ceil((high - low) / min(gaps[i : i + 2])) + 1)
        middles, halves = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
        nodes = (middles[:, None] + halves[:, None] * NODES).ravel()
        mass = norm.pdf(nodes[:, None] - places, scale=gaps[i]) @ mass * np.outer(halves, WEIGHTS).ravel()
        places = nodes
    return float(mass.sum())


def _lattice(family: Any, levels: list[Fraction], box: Box) -> float:
    """Return the probability that noise is within its bounds at every level, summed over integers or grid points."""
    step = 1.0 if family.integer else family.std(levels[0]) / 50
    mean = 1 / float(levels[-1]) if isinstance(family, Poisson) else 0.0
    reach = math.ceil((mean + 30 * family.std(levels[-1])) / step)
    place = np.arange(-reach, reach + 1)
    mass: FloatArray = np.where(place == 0, 1.0, 0.0)
    for i, level in enumerate(levels):
        law = _increment(family, levels[i - 1] if i else None, level, step, place)
        mass = np.convolve(mass, law, mode="same") if family.integer else fftconvolve(mass, law, mode="same")
        low, high = (end / step for end in box[level])
        if family.integer:
            mass = mass * ((place > low) & (place <= high))
        else:  # if a bound is inside a grid interval, count only the fraction within the bounds
            mass = mass * (np.clip(high - place + 0.5, 0, 1) - np.clip(low - place + 0.5, 0, 1))
    return float(mass.sum())


def _increment(family: Any, fine: Fraction | None, level: Fraction, step: float, place: Any) -> Any:
    """Return the distribution of noise at `level`, or of its increment from level `fine`, at given grid points."""
    if isinstance(family, Laplace):
        size = Fraction(step) / Fraction(family.sensitivity)
        family, level, fine = DiscreteLaplace(), level * size, None if fine is None else fine * size
    return probabilities(family, level, place) if fine is None else bridge(family, fine, level, place)
