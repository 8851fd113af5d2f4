"""Gaussian noise paths between bounds: exact probabilities and exact draws, by quadrature.

At level rho the Gaussian noise Z has variance sensitivity**2/(2*rho), so S = rho*Z is Brownian motion seen at
times proportional to the levels. A cell that stayed unpublished has a path below a bound at every past time;
a cell that newly exceeds is above a bound at one more time. Both are boxes, and for a box the density of
S_{i+1} together with all bounds up to time i is

    F_{i+1}(s) = integral of F_i(u) phi(s - u; times_{i+1} - times_i) du over (lower_i, upper_i],

with F_1 Gaussian. ln F_i is concave, and its only fine structure is left behind by bounds: as wide as the
square root of the time since, and travelling along a straight line (-d/ds ln F solves Burgers' equation,
whose characteristics are straight). Panels are graded towards those places and halved where that is not
enough, so that levels may lie close together or far apart at much the same cost: 1 to 5 ms a level.

This is the second route to the numbers of the lazily drawn histogram (it shares no formula with the accept
and reject sampler), and the only one for histories so rare that such a sampler would not come back.
Source: our own derivation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sparsehist.errors import DeclarationError, LevelOrderError
from sparsehist.histogram.log_concave import CHUNK, LogDensity, Tilted, cut, interpolate, invert, log_integral

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.random import Generator

FloatArray = npt.NDArray[np.float64]

_REACH = 14.0  # by Brascamp-Lieb a bounded path varies no more than a free one; beyond 14 deviations lies 1e-40


def log_between(times: npt.ArrayLike, lower: npt.ArrayLike, upper: npt.ArrayLike) -> float:
    """Compute ln P(lower_i < S_i <= upper_i for all i) for Brownian motion S.

    Args:
        times: Variances of S, increasing; shape (m,).
        lower: Bounds from below, -inf where there is none; shape (m,).
        upper: Bounds from above, +inf where there is none; shape (m,).

    Returns:
        A natural logarithm with an absolute error of about 1e-13, or 1e-15*|bound|/sqrt(shortest distance of
        times) if that is more (the rounding of the bounds themselves); -inf if an interval is empty.

    Raises:
        DeclarationError: If the shapes do not agree or a bound is NaN.
        LevelOrderError: If the times do not increase from above zero.

    Example:
        >>> round(math.exp(log_between([1.0, 2.0], [-math.inf, 0.0], [0.0, math.inf])), 12)
        0.125
    """
    t, low, high = _box(times, lower, upper)
    if not (low < high).all():
        return -math.inf
    if len(t) == 0:
        return 0.0
    return float(log_integral(Tilted(_filter(t, low, high)[-1], np.zeros(1), 0.0))[0])


def log_survival(times: npt.ArrayLike, upper: npt.ArrayLike) -> float:
    """Compute ln P(S_i <= upper_i for all i): how rare the history of an unpublished cell is.

    Args:
        times: Variances of S, increasing; shape (m,).
        upper: Bounds, +inf where there is none; shape (m,).

    Returns:
        A natural logarithm, with the error of `log_between`.

    Raises:
        DeclarationError: If the shapes do not agree or a bound is NaN.
        LevelOrderError: If the times do not increase from above zero.

    Example:
        >>> round(math.exp(log_survival([1.0, 2.0], [0.0, 0.0])), 12)
        0.375
    """
    return log_between(times, np.full(np.shape(upper), -math.inf), upper)


def log_exceeding(times: npt.ArrayLike, upper: npt.ArrayLike, new_time: float, lower: float) -> float:
    """Compute ln P(S_i <= upper_i for all i, and S > lower at the new time).

    Args:
        times: Past variances of S, increasing; shape (m,).
        upper: Past bounds; shape (m,).
        new_time: The new variance: before, between, after or equal to one of the past ones.
        lower: What S must exceed there.

    Returns:
        A natural logarithm, with the error of `log_between`.

    Raises:
        DeclarationError: If the shapes do not agree or a bound is NaN.
        LevelOrderError: If the times do not increase from above zero.

    Example:
        >>> round(math.exp(log_exceeding([1.0], [0.0], 2.0, 0.0)), 12)
        0.125
    """
    return log_between(*exceeding_box(times, upper, new_time, lower))


def exceeding_box(
    times: npt.ArrayLike, upper: npt.ArrayLike, new_time: float, lower: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Write "at or below all past bounds, and above a new one" as a box.

    Args:
        times: Past variances of S, increasing; shape (m,).
        upper: Past bounds; shape (m,).
        new_time: The new variance, anywhere.
        lower: What S must exceed there.

    Returns:
        times, lower and upper, as `log_between` and `draw_paths` take them; shape (m + 1,), or (m,) if the
        new time is a past one, where the interval is then (lower, upper_i].

    Raises:
        DeclarationError: If the shapes do not agree or a bound is NaN.
        LevelOrderError: If the times do not increase from above zero.

    Example:
        >>> exceeding_box([1.0, 3.0], [5.0, 6.0], 2.0, 4.0)[1]
        array([-inf,   4., -inf])
    """
    t, low, high = _box(times, np.full(np.shape(upper), -math.inf), upper)
    place = int(np.searchsorted(t, new_time))
    if place < len(t) and t[place] == new_time:
        low[place] = lower
        return _box(t, low, high)
    return _box(np.insert(t, place, new_time), np.insert(low, place, lower), np.insert(high, place, math.inf))


def exceed_probability(
    levels: Sequence[float],
    thresholds: Sequence[float],
    level: float,
    threshold: float,
    sensitivity: float,
    *,
    count: float = 0,
) -> float:
    """Compute P[a cell exceeds the new threshold, given that it never exceeded an old one].

    Args:
        levels: Past levels (rho), in any order; a level may occur again with another threshold.
        thresholds: Their thresholds, in counts.
        level: The new level, anywhere among the past ones.
        threshold: The new threshold, in counts.
        sensitivity: L2 sensitivity; the noise at level rho has variance sensitivity**2/(2*rho).
        count: True count of the cell.

    Returns:
        The probability, to a relative error of about 1e-12, as long as it is a normal double.

    Raises:
        DeclarationError: If the lengths differ or a threshold is NaN.
        LevelOrderError: If a level is not positive and finite.

    Source: the p of the papers' lazy sampler for empty cells, extended to any order of levels and any count.

    Example:
        >>> round(exceed_probability([0.1], [3 * 5**0.5], 0.2, 3 * 2.5**0.5, 1.0), 12)
        0.001113346502
    """
    if len(levels) != len(thresholds):
        raise DeclarationError(f"{len(levels)} levels but {len(thresholds)} thresholds")
    # In units of sensitivity**2/2 times are levels, and the distance of two close ones is exact.
    scale = math.sqrt(2) / sensitivity
    times, place = np.unique(np.asarray(levels, dtype=np.float64), return_inverse=True)
    lowest = np.full(len(times), math.inf)
    np.minimum.at(lowest, place, np.asarray(thresholds, dtype=np.float64))
    upper = times * (lowest - count) * scale
    log_both = log_exceeding(times, upper, level, level * (threshold - count) * scale)
    return math.exp(min(0.0, log_both - log_survival(times, upper))) if log_both > -math.inf else 0.0


def draw_paths(
    times: npt.ArrayLike, lower: npt.ArrayLike, upper: npt.ArrayLike, size: int, *, rng: Generator
) -> FloatArray:
    """Draw Brownian paths given that they stay between bounds.

    The last value comes from its own density, each earlier one from its density given the next; every value
    is the inverse of its distribution function at one uniform. The cost does not depend on how rare such
    paths are.

    Args:
        times: Variances of S, increasing; shape (m,).
        lower: Bounds from below, -inf where there is none; shape (m,).
        upper: Bounds from above, +inf where there is none; shape (m,).
        size: Number of paths.
        rng: Randomness; from `sparsehist.entropy` outside tests.

    Returns:
        Values of S, each in its (lower_i, upper_i]; shape (size, m). Secret.

    Raises:
        DeclarationError: If the shapes do not agree, a bound is NaN, or an interval is empty.
        LevelOrderError: If the times do not increase from above zero.

    Source: forward filtering and backward sampling, as for hidden Markov models. Numerical gap: about 1e-13
    in total variation a value, and uniforms of 53 bits.

    Example:
        >>> from sparsehist.entropy import seeded
        >>> paths = draw_paths([1.0, 2.0], [-math.inf, 9.0], [-4.0, math.inf], 1000, rng=seeded(1))
        >>> bool((paths[:, 0] <= -4).all() and (paths[:, 1] > 9).all())
        True
    """
    t, low, high = _box(times, lower, upper)
    if not (low < high).all():
        raise DeclarationError("an interval (lower, upper] is empty")
    paths = np.empty((size, len(t)))
    if paths.size == 0:
        return paths
    densities = _filter(t, low, high)
    last = cut(Tilted(densities[-1], np.zeros(1), 0.0))
    for begin in range(0, size, CHUNK):
        part = paths[begin : begin + CHUNK]
        rows = np.arange(len(part))
        part[:, -1] = invert(last, np.zeros_like(rows), rng.random(len(part)))
        for i in range(len(t) - 2, -1, -1):
            given = cut(Tilted(densities[i], part[:, i + 1], 1 / (t[i + 1] - t[i])))
            part[:, i] = invert(given, rows, rng.random(len(part)))
    # Rounding may leave a value an ulp outside of the interval that its cell's history promises.
    return np.clip(paths, np.nextafter(low, math.inf), high)


def _box(
    times: npt.ArrayLike, lower: npt.ArrayLike, upper: npt.ArrayLike
) -> tuple[FloatArray, FloatArray, FloatArray]:
    t, low, high = (np.array(values, dtype=np.float64, ndmin=1) for values in (times, lower, upper))
    if not (t.ndim == 1 and t.shape == low.shape == high.shape):
        raise DeclarationError("times and bounds must be one-dimensional and of equal length")
    if np.isnan(low).any() or np.isnan(high).any():
        raise DeclarationError("a bound must not be NaN")
    if not (np.isfinite(t).all() and (np.diff(t, prepend=0.0) > 0).all()):
        raise LevelOrderError(f"times must be finite and increase from above zero, got {t.tolist()}")
    return t, low, high


def _filter(times: FloatArray, lower: FloatArray, upper: FloatArray) -> list[LogDensity]:
    """Compute F_1 to F_m, each on its own interval."""
    lows, highs = _ends(times, lower, upper)
    densities: list[LogDensity] = []
    features: list[_Feature] = []
    for i, time in enumerate(times.tolist()):
        edges = _graded(float(lows[i]), float(highs[i]), time, features)
        if i == 0:
            density = interpolate(lambda s: -(s**2) / (2 * times[0]) + _log_peak(times[0]), edges)
        else:
            density = _step(densities[-1], time - float(times[i - 1]), edges)
        densities.append(density)
        cuts = [end for end, bound in ((lows[i], lower[i]), (highs[i], upper[i])) if end == bound]
        features += [_feature(density, float(end), time) for end in cuts]
    return densities


def _step(density: LogDensity, variance: float, edges: FloatArray) -> LogDensity:
    return interpolate(
        lambda s: log_integral(Tilted(density, s, 1 / variance)) + _log_peak(variance),
        edges,
    )


def _log_peak(variance: float) -> float:
    return -math.log(2 * math.pi * variance) / 2


def _ends(times: FloatArray, lower: FloatArray, upper: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Replace bounds by finite ones that leave out about 1e-40 of the paths between them."""
    return -_highest(times, -upper, -lower), _highest(times, lower, upper)


def _highest(times: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Bound the places a path gets to from above.

    Upper bounds only push a path down, so leave them out. What is left is likeliest to be concave and rising: no
    higher than the highest bound so far plus the chord to the steepest of those to come. Nor, step by step,
    higher than from the highest place before along the chord to the steepest of those to come.
    """
    past = np.maximum.accumulate(np.maximum(lower, 0.0))
    chords = np.maximum.accumulate(np.maximum(lower / times, 0.0)[::-1])[::-1]
    free = np.append(0.0, past[:-1]) + chords * times + _REACH * np.sqrt(times)
    highest = np.empty_like(times)
    place, time = 0.0, 0.0
    for i, now in enumerate(times.tolist()):
        rise = max(0.0, float(np.max((lower[i:] - place) / (times[i:] - time))))
        stepped = place + rise * (now - time) + _REACH * math.sqrt(now - time)
        place, time = min(stepped, float(free[i]), float(upper[i])), now
        highest[i] = place
    return highest


@dataclass(frozen=True, eq=False, repr=False)
class _Feature:
    """Where a bound cut a density: place and time, and the slope and curvature of -ln F there."""

    place: float
    time: float
    velocity: float
    stiffness: float


def _feature(density: LogDensity, place: float, time: float) -> _Feature:
    slope, curvature = density.at(np.array([place]), density.slope, density.curvature)
    return _Feature(place, time, -float(slope[0]), max(0.0, -float(curvature[0])))


def _graded(low: float, high: float, time: float, features: Sequence[_Feature]) -> FloatArray:
    """Lay panels that are narrow where features have come to, and grow by halves away from them.

    A cut density is an error function there: its complex zeros are three widths off, near enough for 16
    coefficients on a panel of 1.5 widths, and on one half as wide as it is far away.
    """
    since = np.array([time - feature.time for feature in features])
    centres = np.array([f.place + f.velocity * age for f, age in zip(features, since, strict=True)])
    stiffness = np.array([feature.stiffness for feature in features])
    widths = 1.5 * np.sqrt(since * (1 + stiffness * since))
    smallest = 1e-15 * max(abs(low), abs(high))

    def width(x: float) -> float:
        return float(np.min(np.maximum(widths, np.abs(x - centres) / 2), initial=math.inf))

    edges = [low]
    while edges[-1] < high:
        wide = width(edges[-1])
        wide = max(min(wide, width(edges[-1] + wide)), smallest)
        edges.append(high if edges[-1] + 1.5 * wide >= high else edges[-1] + wide)
    return np.array(edges)
