"""The probability of any box of Brownian motion, by one pass through its times: a second route to a cell's numbers.

It shares with `BoundedPath` of `sparsehist.open_domain.recursion` how one step is integrated, not how steps are put
together: the path has bounds on both sides here, and the new time is one among the others. ln P has an absolute error
of about 1e-13, or 1e-15*|bound|/sqrt(shortest distance of times) if that is more (the rounding of the bounds
themselves); -inf if an interval is empty.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sparsehist.errors import DeclarationError, LevelOrderError
from sparsehist.open_domain.recursion import (
    _REACH,
    FloatArray,
    _Feature,
    _feature,
    _graded,
    _interpolate,
    _log_mass,
    _log_peak,
    _LogDensity,
    _step,
)


def log_between(times: npt.ArrayLike, lower: npt.ArrayLike, upper: npt.ArrayLike) -> float:
    """ln P(lower_i < S_i <= upper_i for all i) for Brownian motion S at these variances."""
    t, low, high = _box(times, lower, upper)
    if not (low < high).all():
        return -math.inf
    if len(t) == 0:
        return 0.0
    return _log_mass(_filter(t, low, high)[-1])


def log_exceeding(times: npt.ArrayLike, upper: npt.ArrayLike, new_time: float, lower: float) -> float:
    """ln P(S_i <= upper_i for all i, and S > lower at the new time)."""
    return log_between(*_exceeding_box(times, upper, new_time, lower))


def log_survival(times: Sequence[float], upper: Sequence[float]) -> float:
    """ln P(S_i <= upper_i for all i)."""
    return log_between(times, np.full(np.shape(upper), -math.inf), upper)


def exceed_probability(
    levels: Sequence[float],
    thresholds: Sequence[float],
    level: float,
    threshold: float,
    sensitivity: float,
    *,
    count: float = 0,
) -> float:
    """P[a cell exceeds the new threshold, given that it never exceeded an old one], for Gaussian noise.

    Levels in any order; one may occur again with another threshold, and the new one may stand anywhere among them.
    """
    # In units of sensitivity**2/2 times are levels, and the distance of two close ones is exact.
    scale = math.sqrt(2) / sensitivity
    times, place = np.unique(np.asarray(levels, dtype=np.float64), return_inverse=True)
    lowest = np.full(len(times), math.inf)
    np.minimum.at(lowest, place, np.asarray(thresholds, dtype=np.float64))
    upper = times * (lowest - count) * scale
    log_both = log_exceeding(times, upper, level, level * (threshold - count) * scale)
    return math.exp(min(0.0, log_both - log_survival(times, upper))) if log_both > -math.inf else 0.0


def _exceeding_box(
    times: npt.ArrayLike, upper: npt.ArrayLike, new_time: float, lower: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Write "at or below all past bounds, and above a new one" as a box."""
    t, low, high = _box(times, np.full(np.shape(upper), -math.inf), upper)
    place = int(np.searchsorted(t, new_time))
    if place < len(t) and t[place] == new_time:
        low[place] = lower
        return _box(t, low, high)
    return _box(np.insert(t, place, new_time), np.insert(low, place, lower), np.insert(high, place, math.inf))


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


def _filter(times: FloatArray, lower: FloatArray, upper: FloatArray) -> list[_LogDensity]:
    """Compute F_1 to F_m, each on its own interval."""
    lows, highs = _ends(times, lower, upper)
    densities: list[_LogDensity] = []
    features: list[_Feature] = []
    for i, time in enumerate(times.tolist()):
        edges = _graded(float(lows[i]), float(highs[i]), time, features)
        if i == 0:
            density = _interpolate(lambda s: -(s**2) / (2 * times[0]) + _log_peak(times[0]), edges)
        else:
            density = _step(densities[-1], time - float(times[i - 1]), edges)
        densities.append(density)
        cuts = [end for end, bound in ((lows[i], lower[i]), (highs[i], upper[i])) if end == bound]
        features += [_feature(density, float(end), time) for end in cuts]
    return densities


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
