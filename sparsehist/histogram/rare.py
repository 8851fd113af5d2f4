"""Groups whose history is so rare that races would not end: counts far above an old threshold, yet unpublished.

Numbers come from quadrature and whole paths from backward sampling (`sparsehist.histogram.recursion`), for the
Gaussian family; relative error about 1e-12.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from sparsehist.histogram import recursion
from sparsehist.histogram.binomial import IntArray, binomial
from sparsehist.noise.family import FloatArray, NoiseArray
from sparsehist.noise.gaussian import Gaussian


class History(NamedTuple):
    """Distinct past levels in ascending order, each with its lowest threshold."""

    levels: tuple[Fraction, ...]
    thresholds: FloatArray
    column: IntArray


def draw_late(
    family: Gaussian,
    history: History,
    level: Fraction,
    margin: float,
    count: float,
    log_exceed: float,
    size: int,
    *,
    rng: Generator,
) -> NoiseArray:
    """Settle candidates whose races did not end: they stand as at the start, so any exact rule will do."""
    times, upper = _brownian(family, history, count)
    log_both = recursion.log_exceeding(times, upper, *_new_point(family, level, margin))
    log_accept = min(0.0, log_both - recursion.log_survival(times, upper) - log_exceed)
    winners = int(rng.binomial(size, math.exp(log_accept)))
    return _paths_given_both(family, history, level, margin, count, winners, rng=rng)


def draw_rare(
    family: Gaussian,
    history: History,
    level: Fraction,
    margin: float,
    count: float,
    size: int,
    group: int,
    *,
    rng: Generator,
) -> tuple[NoiseArray, IntArray]:
    """Draw a group whose history is rare: a binomial number by quadrature, paths by backward sampling."""
    rows = len(history.levels) + 1
    if size == 0:
        return np.empty((rows, 0)), np.empty(0, np.int64)
    times, upper = _brownian(family, history, count)
    log_survival = recursion.log_survival(times, upper)
    log_p = min(0.0, recursion.log_exceeding(times, upper, *_new_point(family, level, margin)) - log_survival)
    log_rest = math.log(-math.expm1(log_p)) if log_p < 0 else -math.inf
    winners = int(binomial([int(size)], [log_p], [log_rest], rng=rng)[0])
    paths = _paths_given_both(family, history, level, margin, count, winners, rng=rng)
    return paths, np.full(winners, group, np.int64)


def _brownian(family: Gaussian, history: History, count: float) -> tuple[FloatArray, FloatArray]:
    """Times of the past levels and upper bounds of rho * Z there."""
    times = np.array([family.brownian_time(level) for level in history.levels])
    rho = np.array([float(level) for level in history.levels])
    return times, rho * (history.thresholds - count)


def _new_point(family: Gaussian, level: Fraction, margin: float) -> tuple[float, float]:
    return family.brownian_time(level), float(level) * float(margin)


def _paths_given_both(
    family: Gaussian,
    history: History,
    level: Fraction,
    margin: float,
    count: float,
    size: int,
    *,
    rng: Generator,
) -> FloatArray:
    """Draw whole paths given the history and the exceedance; shape (levels + 1, size)."""
    times, upper = _brownian(family, history, count)
    new_time, new_lower = _new_point(family, level, margin)
    levels = sorted({*history.levels, level})
    at = levels.index(level)
    lower = np.full(len(levels), -np.inf)
    if len(levels) > len(times):
        times, upper = np.insert(times, at, new_time), np.insert(upper, at, np.inf)
    lower[at] = new_lower
    rho = np.array([float(known) for known in levels])
    noise = recursion.draw_paths(times, lower, upper, size, rng=rng).T / rho[:, None]
    # Dividing by rho may step over a bound by one rounding; the history must hold as stored.
    bound = np.full(len(levels), np.inf)
    bound[[levels.index(known) for known in history.levels]] = history.thresholds - count
    noise = np.minimum(noise, bound[:, None])
    noise[at] = np.maximum(noise[at], np.nextafter(margin, np.inf))
    past_rows = [levels.index(known) for known in history.levels]
    return np.asarray(noise[[*past_rows, at]])
