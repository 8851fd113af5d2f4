"""High-precision oracles for Gaussian noise paths: slow, in mpmath, by another route than the package's.

The package integrates over every level in turn. Here every second level is integrated out in closed form: given
its two neighbours it is a Brownian bridge, Gaussian, so that its interval is worth a difference of two normal
distribution functions. Only the levels in between are integrated numerically, on Gauss-Legendre panels of fixed
order in 30 digits. With up to five levels that is at most a double integral.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from mpmath import mp

if TYPE_CHECKING:
    from collections.abc import Sequence

_DIGITS = 30
_NODES = 24
_PANEL = 3  # widths of the narrowest kernel
_REACH = 11  # standard deviations to either side of the likeliest value: 1e-27 of the mass lies beyond

Number = float | str | mp.mpf


@dataclass(frozen=True)
class Point:
    """One level of a path: the variance of S = rho * Z there, and the interval S is in."""

    time: mp.mpf
    lower: mp.mpf
    upper: mp.mpf


def gaussian_probability(
    levels: Sequence[Number],
    thresholds: Sequence[Number],
    level: Number,
    threshold: Number,
    *,
    sensitivity: Number = 1,
    count: int = 0,
) -> mp.mpf:
    """P[Z(level) > threshold - count | Z(levels[i]) <= thresholds[i] - count for all i], to 18 digits."""
    with mp.workdps(_DIGITS):
        past, both, _ = _boxes(levels, thresholds, level, threshold, sensitivity, count)
        return _moments(both, None)[0] / _moments(past, None)[0]


def gaussian_value(
    levels: Sequence[Number],
    thresholds: Sequence[Number],
    level: Number,
    threshold: Number,
    *,
    sensitivity: Number = 1,
    count: int = 0,
) -> tuple[mp.mpf, mp.mpf]:
    """Mean and variance of Z(level)/std(level), given that it newly exceeds (arguments as above)."""
    with mp.workdps(_DIGITS):
        _, both, place = _boxes(levels, thresholds, level, threshold, sensitivity, count)
        mass, first, second = _moments(both, place)
        deviation = mp.sqrt(both[place].time)
        mean = first / mass / deviation
        return mean, second / mass / deviation**2 - mean**2


def log_box(times: Sequence[Number], lower: Sequence[Number], upper: Sequence[Number]) -> mp.mpf:
    """ln P(lower_i < S_i <= upper_i for all i) for Brownian motion S."""
    with mp.workdps(_DIGITS):
        rows = zip(times, lower, upper, strict=True)
        return mp.log(_moments([Point(*map(mp.mpf, row)) for row in rows], None)[0])


def std(level: Number, sensitivity: Number = 1) -> mp.mpf:
    """Standard deviation of the Gaussian noise at a level."""
    return mp.mpf(sensitivity) / mp.sqrt(2 * mp.mpf(level))


def _boxes(
    levels: Sequence[Number],
    thresholds: Sequence[Number],
    level: Number,
    threshold: Number,
    sensitivity: Number,
    count: int,
) -> tuple[list[Point], list[Point], int]:
    half = mp.mpf(sensitivity) ** 2 / 2
    upper: dict[mp.mpf, mp.mpf] = {}
    for rho, tau in zip(map(mp.mpf, levels), map(mp.mpf, thresholds), strict=True):
        upper[rho] = min(upper.get(rho, mp.inf), rho * (tau - count))
    new = mp.mpf(level)
    lower = {new: new * (mp.mpf(threshold) - count)}
    past = [Point(rho * half, -mp.inf, upper[rho]) for rho in sorted(upper)]
    every = sorted(set(upper) | {new})
    both = [Point(rho * half, lower.get(rho, -mp.inf), upper.get(rho, mp.inf)) for rho in every]
    return past, both, every.index(new)


def _moments(points: list[Point], place: int | None) -> list[mp.mpf]:
    """Integrals of 1, S and S**2 at `place` over the box (of 1 alone, without a place)."""
    orders = 1 if place is None else 3
    # For each node of the level integrated last: its place, and the integrals of everything before.
    carried: list[tuple[mp.mpf, list[mp.mpf]]] = [(mp.zero, [mp.one] * orders)]
    time = mp.zero
    for i in range(1, len(points), 2):
        here, between = points[i], points[i - 1]
        gap = here.time - time
        share = (between.time - time) / gap
        variance = share * (here.time - between.time)
        following = []
        for s, weight in _grid(points, i):
            totals = [mp.zero] * orders
            for start, masses in carried:
                kernel = mp.npdf(s, start, mp.sqrt(gap))
                closed = _closed(start + (s - start) * share, variance, between, orders, flat=place != i - 1)
                for order in range(orders):
                    totals[order] += masses[order] * kernel * closed[order]
            following.append((s, [t * weight * (s**k if place == i else 1) for k, t in enumerate(totals)]))
        carried, time = following, here.time
    if len(points) % 2 == 0:
        return [mp.fsum(masses[order] for _, masses in carried) for order in range(orders)]
    last = points[-1]
    ends = [
        (masses, _closed(start, last.time - time, last, orders, flat=place != len(points) - 1))
        for start, masses in carried
    ]
    return [mp.fsum(masses[order] * closed[order] for masses, closed in ends) for order in range(orders)]


def _closed(mean: mp.mpf, variance: mp.mpf, point: Point, orders: int, *, flat: bool) -> list[mp.mpf]:
    """Integrals of 1, x and x**2 (all three of 1, if flat) over the point's interval for x ~ N(mean, variance)."""
    deviation = mp.sqrt(variance)
    low, high = (point.lower - mean) / deviation, (point.upper - mean) / deviation
    # The tail that does not cancel.
    mass = mp.ncdf(-low) - mp.ncdf(-high) if low > 0 else mp.ncdf(high) - mp.ncdf(low)
    if flat or orders == 1:
        return [mass] * orders
    at_low, at_high = mp.npdf(low), mp.npdf(high)
    first = at_low - at_high
    ends = (low * at_low if mp.isfinite(low) else 0) - (high * at_high if mp.isfinite(high) else 0)
    second = mean**2 * mass + 2 * mean * deviation * first + variance * (mass + ends)
    return [mass, mean * mass + deviation * first, second]


def _grid(points: list[Point], i: int) -> list[tuple[mp.mpf, mp.mpf]]:
    """Gauss-Legendre nodes and weights for one level, about the likeliest path, finer than its kernels."""
    here, path = points[i], _likeliest(points)
    centre, before = mp.mpf(path[i]), points[i - 1]
    after = points[i + 1].time if i + 1 < len(points) else mp.inf
    gap, following = here.time - before.time, path[min(i + 1, len(path) - 1)]
    # Where the likeliest path bends, it leans on a bound, from which the density falls exponentially.
    bend = abs((centre - path[i - 1]) / gap - (following - centre) / (after - here.time))
    narrow = min(mp.sqrt(gap), mp.sqrt(after - here.time))
    reach = _REACH * mp.sqrt(here.time)
    if bend:
        reach, narrow = min(reach, 80 / bend), min(narrow, 4 / bend)
    low, high = max(here.lower, centre - reach), min(here.upper, centre + reach)
    pieces = int(mp.ceil((high - low) / (_PANEL * narrow)))
    half = (high - low) / (2 * pieces)
    nodes, weights = _legendre()
    return [
        (low + half * (2 * k + 1 + x), half * w) for k in range(pieces) for x, w in zip(nodes, weights, strict=True)
    ]


def _likeliest(points: list[Point]) -> list[float]:
    """The path of least energy inside the box, by cyclic projection; a rough centre is enough."""
    times = [0.0] + [float(p.time) for p in points]
    path = [0.0] * len(times)
    for _ in range(2000):
        for i, point in enumerate(points, start=1):
            if i + 1 < len(times):
                share = (times[i] - times[i - 1]) / (times[i + 1] - times[i - 1])
                free = path[i - 1] + (path[i + 1] - path[i - 1]) * share
            else:
                free = path[i - 1]
            path[i] = min(max(free, float(point.lower)), float(point.upper))
    return path[1:]


@cache
def _legendre() -> tuple[list[mp.mpf], list[mp.mpf]]:
    with mp.workdps(_DIGITS + 5):
        nodes, weights = [], []
        for start in np.polynomial.legendre.leggauss(_NODES)[0]:
            x = mp.findroot(lambda z: mp.legendre(_NODES, z), mp.mpf(float(start)))
            slope = _NODES * (x * mp.legendre(_NODES, x) - mp.legendre(_NODES - 1, x)) / (x**2 - 1)
            nodes.append(x)
            weights.append(2 / ((1 - x**2) * slope**2))
        return nodes, weights
