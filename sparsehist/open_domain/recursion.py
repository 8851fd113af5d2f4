"""Gaussian noise paths between bounds: exact probabilities, by quadrature.

At level rho the Gaussian noise Z has variance sensitivity**2/(2*rho), so S = rho*Z is Brownian motion seen at
times proportional to the levels. A cell that stayed unpublished has a path below a bound at every past time;
a cell that newly exceeds is above a bound at one more time. The density of S_{i+1} together with all bounds up to
time i is

    F_{i+1}(s) = integral of F_i(u) phi(s - u; times_{i+1} - times_i) du up to upper_i,

with F_1 Gaussian. ln F_i is concave, and its only fine structure is left behind by bounds: as wide as the
square root of the time since, and travelling along a straight line (-d/ds ln F solves Burgers' equation,
whose characteristics are straight). Panels are graded towards those places and halved where that is not
enough, so that levels may lie close together or far apart at much the same cost: 1 to 5 ms a level, paid once by
`BoundedPath` for all bounds that a search tries at a new level.

All of this works on ln F, kept on panels as polynomials of degree 15. An integrand
u -> F(u) exp(-precision*(u - s)**2/2) is log-concave too, so its peak, and the window in which it falls by e**-40,
are found safely by Newton's method; the window is cut into pieces at equal steps and at the panels of F, each with
16 Gauss-Legendre nodes. Nothing is subtracted, so relative errors stay near 1e-13 however small the integral is.

This answers questions about public numbers (planning, delta_infinity) and is a second route to the numbers of the
lazily drawn histogram, with which it shares no formula; nothing is drawn by it. Densities are functions of declared
parameters and perhaps of one true count, so that no record here has a repr. Source: our own derivation.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sparsehist.errors import DeclarationError, LevelOrderError
from sparsehist.typing import ArrayLike, FloatArray, IndexArray

_REACH = 14.0  # by Brascamp-Lieb a bounded path varies no more than a free one; beyond 14 deviations lies 1e-40
_FAR = 40.0  # deviations, beyond which lies less than 1e-340, which nothing here tells from 0
_CHUNK = 2048  # integrands cut up at once: some 20 MB

_ORDER = 16
_DROP = 40.0  # e**-40 = 4e-18 of the peak is left out on either side
_STEPS = 3  # pieces on either side of the peak: on an exponential's fall of 13 each, 16 nodes err by 1e-17
_SETTLED = 2e-14  # of the last coefficients of ln F, an absolute number
_NOISE = 1e-6
_PANELS = 400  # a safeguard: graded panels number 10 to 100

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(_ORDER)
_ANGLES = (np.arange(_ORDER) + 0.5) * np.pi / _ORDER
_POINTS = np.cos(_ANGLES)

# Values at the Chebyshev points to Chebyshev coefficients, and those to powers, highest first.
_TO_CHEBYSHEV = np.cos(np.outer(np.arange(_ORDER), _ANGLES)) * (2 / _ORDER)
_TO_CHEBYSHEV[0] /= 2
_POWERS = [np.polynomial.chebyshev.cheb2poly(row) for row in np.eye(_ORDER)]
_TO_POWERS = np.stack([np.pad(powers, (0, _ORDER - len(powers)))[::-1] for powers in _POWERS], axis=1)


class BoundedPath:
    """Brownian motion that is to stay at or below bounds: what one new time adds, for any bound there.

    The densities of a path under its bounds, shape (m,), are computed once, and a new time meets them wherever it
    stands: with F its density given the past before it, and B the probability of staying below the bounds after it,
    which is the same recursion backwards from 1, ln P(bounds hold, S > lower) is the logarithm of an integral of F*B
    from lower. Times are the variances of S, increasing.

    Example:
        >>> path = BoundedPath([1.0], [0.0])
        >>> round(math.exp(path.log_exceeding(2.0, 0.0)), 12), round(math.exp(path.log_first_exceedances()[0]), 12)
        (0.125, 0.5)
    """

    def __init__(self, times: ArrayLike, upper: ArrayLike) -> None:
        t, bounds = (np.array(values, np.float64, ndmin=1) for values in (times, upper))
        if t.ndim != 1 or t.shape != bounds.shape or np.isnan(bounds).any():
            raise DeclarationError("times and bounds must be one-dimensional, of equal length, and no bound NaN")
        if not (np.isfinite(t).all() and (np.diff(t, prepend=0.0) > 0).all()):
            raise LevelOrderError(f"times must be finite and increase from above zero, got {t.tolist()}")
        self._times: list[float] = t.tolist()
        self._upper: list[float] = bounds.tolist()
        self._below: list[_LogDensity | None] = []
        self._first: list[float] = []
        # Densities reach far, and are to lose no digits to large values far from where the path begins.
        self._features = [_Feature(0.0, 0.0, 0.0, 0.0)]
        self._new: dict[float, _LogDensity | None] = {}

    def log_first_exceedances(self) -> FloatArray:
        """ln P(S_j <= upper_j for all j < i, and S_i > upper_i), for each i; shape (m,).

        With an absolute error of about 1e-13, or 1e-15*|bound|/sqrt(shortest distance of times) if that is more (the
        rounding of the bounds themselves); -inf below 1e-340.
        """
        self._advance(len(self._times))
        return np.array(self._first)

    def log_exceeding(self, new_time: float, lower: float) -> float:
        """ln P(S_j <= upper_j for all j, and S > lower at a time anywhere among them); with the same error."""
        if new_time not in self._new:
            self._new[new_time] = self._at(new_time)
        density = self._new[new_time]
        if density is None or lower >= density.edges[-1]:
            return -math.inf
        return _log_mass(density.above(lower))

    def _at(self, time: float) -> _LogDensity | None:
        """ln F*B at a new time, up to a bound that the path has there."""
        place = bisect.bisect_left(self._times, time)
        self._advance(place)
        again = self._times[place : place + 1] == [time]
        later = list(zip(self._times, self._upper, strict=True))[place + again :]
        low, high = -_FAR * math.sqrt(time), self._highest(place, time)
        if again:
            high = min(high, self._upper[place])
        high = min([high, *(bound + _FAR * math.sqrt(at - time) for at, bound in later)])
        if not low < high or (place and self._below[place - 1] is None):
            return None
        known = self._features[: place + 1]
        forward = self._forward(place, time, _graded(low, high, time, known))
        if not later:
            return forward
        back = _staying_below(later, time, low, high)
        if back is None:
            return None
        backward, features = back

        def both(s: FloatArray) -> FloatArray:
            return forward.at(s, forward.value)[0] + backward.at(s, backward.value)[0]

        return _interpolate(both, _graded(low, high, time, [*known, *features]))

    def _advance(self, until: int) -> None:
        """Compute densities up to a bound, and what is above it, at the first times."""
        for i in range(len(self._below), until):
            time, bound = self._times[i], self._upper[i]
            low, high = -_FAR * math.sqrt(time), self._highest(i, time)
            if i and self._below[i - 1] is None:
                low = high
            if not low < min(bound, high):
                # Nothing stays below; what came this far exceeds.
                density = self._forward(i, time, _graded(low, high, time, self._features)) if low < high else None
                self._first.append(-math.inf if density is None else _log_mass(density))
                self._below.append(None)
                continue
            edges = _graded(low, min(bound, high), time, self._features)
            cut = edges[-1]
            if cut < high:
                edges = np.append(edges, _graded(cut, high, time, self._features)[1:])
            density = self._forward(i, time, edges)
            self._first.append(_log_mass(density.above(cut)) if cut < high else -math.inf)
            below = density.below(cut)
            self._below.append(below)
            self._features.append(_feature(below, float(cut), time))

    def _forward(self, place: int, time: float, edges: FloatArray) -> _LogDensity:
        before = self._below[place - 1] if place else None
        if before is None:
            return _interpolate(lambda s: -(s**2) / (2 * time) + _log_peak(time), edges)
        return _step(before, time - self._times[place - 1], edges)

    def _highest(self, place: int, time: float) -> float:
        """Above this it gets with a probability below 1e-340, be it from 0 or from the bound before."""
        free = _FAR * math.sqrt(time)
        if not place:
            return free
        return min(free, self._upper[place - 1] + _FAR * math.sqrt(time - self._times[place - 1]))


def _staying_below(
    later: Sequence[tuple[float, float]], time: float, low: float, high: float
) -> tuple[_LogDensity, list[_Feature]] | None:
    """ln P(S stays at or below later bounds, given where it is at a time), between two places; and what cut it."""
    ends, before = [(low, high)], time
    for at, bound in later:
        reach = _REACH * math.sqrt(at - before)
        ends.append((ends[-1][0] - reach, min(bound, ends[-1][1] + reach)))
        before = at
    if any(lowest >= highest for lowest, highest in ends):
        return None
    edges, features = np.array(ends[-1]), list[_Feature]()
    density = _interpolate(np.zeros_like, edges)
    for i in range(len(later) - 1, -1, -1):
        at, bound = later[i]
        if ends[i + 1][1] == bound:
            features.append(_feature(density, bound, at))
        before = later[i - 1][0] if i else time
        density = _step(density, at - before, _graded(*ends[i], before, features))
    return density, features


def _log_mass(density: _LogDensity) -> float:
    return float(_log_integral(_Tilted(density, np.zeros(1), 0.0))[0])


def _step(density: _LogDensity, variance: float, edges: FloatArray) -> _LogDensity:
    return _interpolate(
        lambda s: _log_integral(_Tilted(density, s, 1 / variance)) + _log_peak(variance),
        edges,
    )


def _log_peak(variance: float) -> float:
    return -math.log(2 * math.pi * variance) / 2


@dataclass(frozen=True, eq=False, repr=False)
class _Feature:
    """Where a bound cut a density: place and time, and the slope and curvature of -ln F there."""

    place: float
    time: float
    velocity: float
    stiffness: float


def _feature(density: _LogDensity, place: float, time: float) -> _Feature:
    slope, curvature = density.at(np.array([place]), density.slope, density.curvature)
    return _Feature(place, time, -float(slope[0]), max(0.0, -float(curvature[0])))


def _graded(low: float, high: float, time: float, features: Sequence[_Feature]) -> FloatArray:
    """Lay panels that are narrow where features have come to, and grow by halves away from them.

    A cut density is an error function there: its complex zeros are three widths off, near enough for 16
    coefficients on a panel of 1.5 widths, and on one half as wide as it is far away.
    """
    since = np.array([abs(time - feature.time) for feature in features])
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


@dataclass(frozen=True, eq=False, repr=False)
class _LogDensity:
    """A log-concave ln F on [edges[0], edges[-1]]; tables of powers, highest first, a column a panel."""

    edges: FloatArray
    value: FloatArray
    slope: FloatArray
    curvature: FloatArray

    def at(self, u: FloatArray, *tables: FloatArray) -> list[FloatArray]:
        """Evaluate some of the tables."""
        panel, x = self.locate(u)
        return [_horner(table, panel, x) for table in tables]

    def below(self, edge: float) -> _LogDensity:
        """The same up to one of its edges."""
        panels = int(np.searchsorted(self.edges, edge))
        tables = (table[:, :panels] for table in (self.value, self.slope, self.curvature))
        return _LogDensity(self.edges[: panels + 1], *tables)

    def above(self, place: float) -> _LogDensity:
        """The same from any place up."""
        if place <= self.edges[0]:
            return self
        edges = np.append(place, self.edges[self.edges > place])
        places = (edges[1:] + edges[:-1])[:, None] / 2 + np.diff(edges)[:, None] / 2 * _POINTS
        return _from_chebyshev(edges, self.at(places, self.value)[0] @ _TO_CHEBYSHEV.T)

    def locate(self, u: FloatArray, inside: FloatArray | None = None) -> tuple[IndexArray, FloatArray]:
        """Find the panel (that of `inside`, where given) and the place in it, from -1 to 1."""
        panel = np.searchsorted(self.edges, u if inside is None else inside, side="right") - 1
        panel = np.clip(panel, 0, len(self.edges) - 2)
        low, high = self.edges[panel], self.edges[panel + 1]
        return panel, np.asarray((u - (low + high) / 2) / ((high - low) / 2))


def _horner(table: FloatArray, panel: IndexArray, x: FloatArray) -> FloatArray:
    """Evaluate one polynomial a panel; settled Chebyshev series lose nothing as powers."""
    total = np.broadcast_to(table[0][panel], x.shape).copy()
    for row in table[1:]:
        total *= x
        total += row[panel]
    return total


def _interpolate(function: Callable[[FloatArray], FloatArray], edges: FloatArray) -> _LogDensity:
    """Sample a log-density on panels, halving those on which 16 coefficients do not settle."""
    low, high = edges[:-1], edges[1:]
    before = np.full(len(low), math.inf)
    kept: list[tuple[FloatArray, FloatArray, FloatArray]] = []
    while len(low):
        middle, half = (low + high) / 2, (high - low) / 2
        places = middle[:, None] + half[:, None] * _POINTS
        values = function(places.ravel()).reshape(places.shape)
        coefficients = values @ _TO_CHEBYSHEV.T
        rest = np.max(np.abs(coefficients[:, -2:]), axis=1)
        # Rounding of large values, and of places where the density is steep, is no remainder. Nor is what halving
        # leaves, and what stands as high in the middle of the series as at its end: both divide a true
        # remainder by far more.
        steep = np.maximum(np.abs(low), np.abs(high)) * np.ptp(values, axis=1) / half
        rounding = 4 * np.finfo(np.float64).eps * (np.max(np.abs(values), axis=1) + steep)
        flat = 4 * rest > np.max(np.abs(coefficients[:, _ORDER // 2 : -2]), axis=1)
        noise = flat & (rest > before / 8) & (rest < _NOISE)
        split = (rest > _SETTLED + rounding) & ~noise & (low < middle) & (middle < high)
        split &= sum(len(parts[0]) for parts in kept) + len(low) < _PANELS
        kept.append((low[~split], high[~split], coefficients[~split]))
        low, middle, high, rest = low[split], middle[split], high[split], rest[split]
        low, high, before = np.hstack([low, middle]), np.hstack([middle, high]), np.hstack([rest, rest])
    lows, highs, series = (np.concatenate(parts) for parts in zip(*kept, strict=True))
    order = np.argsort(lows)
    return _from_chebyshev(np.append(lows[order], highs[order[-1]]), series[order])


def _from_chebyshev(edges: FloatArray, coefficients: FloatArray) -> _LogDensity:
    half = np.diff(edges) / 2
    power = np.arange(_ORDER - 1, 0, -1)[:, None]
    value = _TO_POWERS @ coefficients.T
    slope = value[:-1] * power / half
    return _LogDensity(edges, value, slope, slope[:-1] * power[1:] / half)


@dataclass(frozen=True, eq=False, repr=False)
class _Tilted:
    """The integrands u -> ln F(u) - precision*(u - s)**2/2, one for each s; no kernel at precision 0."""

    density: _LogDensity
    s: FloatArray
    precision: float

    def value_and_slope(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        value, slope = self.density.at(u, self.density.value, self.density.slope)
        away = u - self.s
        return value - self.precision * away**2 / 2, slope - self.precision * away

    def slope_and_curvature(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        slope, curvature = self.density.at(u, self.density.slope, self.density.curvature)
        return slope - self.precision * (u - self.s), curvature - self.precision


def _peaks(integrand: _Tilted) -> FloatArray:
    """Find where each integrand is largest, to a hundredth of its standard deviation: it places a window."""
    s, density = integrand.s, integrand.density
    low, high = np.full_like(s, density.edges[0]), np.full_like(s, density.edges[-1])
    rises, falls = integrand.slope_and_curvature(high)[0] >= 0, integrand.slope_and_curvature(low)[0] <= 0
    low, high = np.where(rises, high, low), np.where(falls & ~rises, low, high)
    u = np.clip(s, low, high)
    for _ in range(100):
        slope, curvature = integrand.slope_and_curvature(u)
        found = (slope**2 <= 1e-4 * np.abs(curvature)) | (low >= high)
        if found.all():
            break
        low, high = np.where(slope > 0, u, low), np.where(slope > 0, high, u)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = u - slope / curvature
        inner = np.where((step > low) & (step < high), step, (low + high) / 2)
        u = np.where(found, u, inner)
    return u


def _reaches(integrand: _Tilted, peak: FloatArray, top: FloatArray, sign: int) -> FloatArray:
    """Find how far from the peak, upwards or downwards, the integrand has fallen by _DROP, or ends."""
    end = integrand.density.edges[-1 if sign > 0 else 0]
    kernel = math.sqrt(2 * _DROP / integrand.precision) if integrand.precision else math.inf
    distance = np.minimum(sign * (end - peak), kernel)
    for _ in range(60):
        value, slope = integrand.value_and_slope(peak + sign * distance)
        excess, rate = top - value - _DROP, -sign * slope
        beyond = (excess > 2) & (rate > 0)
        if not beyond.any():
            break
        # The fall is convex in the distance: Newton's method from beyond the root never passes it.
        step = excess / np.where(beyond, rate, 1.0)
        distance = np.where(beyond, np.maximum(distance - step, 0.0), distance)
    return np.asarray(distance)


def _log_integral(integrand: _Tilted) -> FloatArray:
    """Integrate each integrand; natural logarithms."""
    logs = np.empty_like(integrand.s)
    for begin in range(0, len(logs), _CHUNK):
        logs[begin : begin + _CHUNK] = _log_sums(replace(integrand, s=integrand.s[begin : begin + _CHUNK]))
    return logs


def _log_sums(integrand: _Tilted) -> FloatArray:
    """Sum up the integrands over pieces that cover all but e**-40 of them."""
    density, s = integrand.density, integrand.s
    peak = _peaks(integrand)
    top = integrand.value_and_slope(peak)[0]
    down, up = (_reaches(integrand, peak, top, sign)[:, None] for sign in (-1, 1))
    share = np.arange(1, _STEPS + 1) / _STEPS
    # Distances from the peak, not places: they keep their digits however narrow the kernel or the density.
    steps = np.hstack([-down * share[::-1], np.zeros_like(down), up * share])
    panels = np.clip(density.edges[1:-1] - peak[:, None], steps[:, :1], steps[:, -1:])
    cuts = np.sort(np.hstack([steps, panels]), axis=1)
    row, column = np.nonzero(cuts[:, 1:] > cuts[:, :-1])
    start, stop = cuts[row, column], cuts[row, column + 1]
    middle, half = (start + stop) / 2, (stop - start) / 2
    away = middle[:, None] + half[:, None] * _NODES
    panel, x = density.locate(peak[row, None] + away, inside=(peak[row] + middle)[:, None])
    kernel = integrand.precision * ((peak - s)[row, None] + away) ** 2 / 2
    values = np.exp(_horner(density.value, panel, x) - kernel - top[row, None])
    return np.asarray(top + np.log(np.bincount(row, half * (values @ _WEIGHTS), len(top))))
