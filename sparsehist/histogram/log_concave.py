"""Log-concave densities as piecewise polynomials of their logarithm, and their Gaussian convolutions.

Everything here works on ln F for a log-concave F on an interval, kept on panels as polynomials of degree 15.
The integrals asked of it are of u -> F(u) exp(-precision*(u - s)**2/2), for many s at once. Such an integrand
is log-concave too, so its peak, and the window in which it falls by e**-40, are found safely by Newton's
method; the window is cut into pieces at equal steps and at the panels of F, each with 16 Gauss-Legendre nodes.
Nothing is subtracted, so that relative errors stay near 1e-13 however small the integral is, and the number of
pieces does not grow as the kernel narrows.

Densities are functions of declared parameters and of one true count, so that no record here has a repr.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]

CHUNK = 2048  # integrands cut up at once: some 20 MB

_ORDER = 16
_DROP = 40.0  # e**-40 = 4e-18 of the peak is left out on either side
_STEPS = 5  # pieces on either side of the peak: a fall of at most 8 each, on which 16 nodes err by 1e-25
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

# Values at the Legendre nodes to the Legendre series of the polynomial, and of its integral from -1.
_TO_LEGENDRE = (np.arange(_ORDER) + 0.5)[:, None] * (
    np.polynomial.legendre.legvander(_NODES, _ORDER - 1) * _WEIGHTS[:, None]
).T
_TO_INTEGRAL = np.polynomial.legendre.legint(_TO_LEGENDRE, lbnd=-1, axis=0)


@dataclass(frozen=True, eq=False, repr=False)
class LogDensity:
    """A log-concave ln F on [edges[0], edges[-1]]; tables of powers, highest first, a column a panel."""

    edges: FloatArray
    value: FloatArray
    slope: FloatArray
    curvature: FloatArray

    @property
    def low(self) -> float:
        """Where the density begins."""
        return float(self.edges[0])

    @property
    def high(self) -> float:
        """Where the density ends."""
        return float(self.edges[-1])

    def at(self, u: FloatArray, *tables: FloatArray) -> list[FloatArray]:
        """Evaluate some of the tables."""
        panel, x = self.locate(u)
        return [horner(table, panel, x) for table in tables]

    def locate(self, u: FloatArray, inside: FloatArray | None = None) -> tuple[IntArray, FloatArray]:
        """Find the panel (that of `inside`, where given) and the place in it, from -1 to 1."""
        panel = np.searchsorted(self.edges, u if inside is None else inside, side="right") - 1
        panel = np.clip(panel, 0, len(self.edges) - 2)
        low, high = self.edges[panel], self.edges[panel + 1]
        return panel, np.asarray((u - (low + high) / 2) / ((high - low) / 2))


def horner(table: FloatArray, panel: IntArray, x: FloatArray) -> FloatArray:
    """Evaluate one polynomial a panel; settled Chebyshev series lose nothing as powers."""
    total = np.broadcast_to(table[0][panel], x.shape).copy()
    for row in table[1:]:
        total *= x
        total += row[panel]
    return total


def interpolate(function: Callable[[FloatArray], FloatArray], edges: FloatArray) -> LogDensity:
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


def _from_chebyshev(edges: FloatArray, coefficients: FloatArray) -> LogDensity:
    half = np.diff(edges) / 2
    power = np.arange(_ORDER - 1, 0, -1)[:, None]
    value = _TO_POWERS @ coefficients.T
    slope = value[:-1] * power / half
    return LogDensity(edges, value, slope, slope[:-1] * power[1:] / half)


@dataclass(frozen=True, eq=False, repr=False)
class Tilted:
    """The integrands u -> ln F(u) - precision*(u - s)**2/2, one for each s; no kernel at precision 0."""

    density: LogDensity
    s: FloatArray
    precision: float

    def value(self, u: FloatArray) -> FloatArray:
        return np.asarray(self.density.at(u, self.density.value)[0] - self.precision * (u - self.s) ** 2 / 2)

    def slope(self, u: FloatArray) -> FloatArray:
        return np.asarray(self.density.at(u, self.density.slope)[0] + self.precision * (self.s - u))

    def value_and_slope(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        value, slope = self.density.at(u, self.density.value, self.density.slope)
        away = u - self.s
        return value - self.precision * away**2 / 2, slope - self.precision * away

    def slope_and_curvature(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        slope, curvature = self.density.at(u, self.density.slope, self.density.curvature)
        return slope - self.precision * (u - self.s), curvature - self.precision


def _peaks(integrand: Tilted) -> FloatArray:
    """Find where each integrand is largest, to a hundredth of its standard deviation: it places a window."""
    s, density = integrand.s, integrand.density
    low, high = np.full_like(s, density.low), np.full_like(s, density.high)
    rises, falls = integrand.slope(high) >= 0, integrand.slope(low) <= 0
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


def _reaches(integrand: Tilted, peak: FloatArray, top: FloatArray, sign: int) -> FloatArray:
    """Find how far from the peak, upwards or downwards, the integrand has fallen by _DROP, or ends."""
    end = integrand.density.high if sign > 0 else integrand.density.low
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


@dataclass(frozen=True, eq=False, repr=False)
class Pieces:
    """The integrands cut up: for each piece its row of s, where it lies, and the integrand at its nodes."""

    row: IntArray
    middle: FloatArray  # distance from the peak
    half: FloatArray
    values: FloatArray  # shape (pieces, 16), as shares of the peak
    peak: FloatArray  # of each s: where the integrand is largest, ...
    top: FloatArray  # ... and the logarithm of it there

    @property
    def masses(self) -> FloatArray:
        """Integral over each piece, as a share of the peak."""
        return np.asarray(self.half * (self.values @ _WEIGHTS))


def cut(integrand: Tilted) -> Pieces:
    """Evaluate the integrands on pieces that cover all but e**-40 of them, in ascending order."""
    density, s = integrand.density, integrand.s
    peak = _peaks(integrand)
    top = integrand.value(peak)
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
    values = np.exp(horner(density.value, panel, x) - kernel - top[row, None])
    return Pieces(row, middle, half, values, peak, top)


def log_integral(integrand: Tilted) -> FloatArray:
    """Integrate each integrand; natural logarithms."""
    logs = np.empty_like(integrand.s)
    for begin in range(0, len(logs), CHUNK):
        pieces = cut(replace(integrand, s=integrand.s[begin : begin + CHUNK]))
        sums = np.bincount(pieces.row, pieces.masses, len(pieces.top))
        logs[begin : begin + CHUNK] = pieces.top + np.log(sums)
    return logs


def invert(pieces: Pieces, row: IntArray, uniform: FloatArray) -> FloatArray:
    """Find the place below which a given share of the integral of each row lies."""
    first = np.searchsorted(pieces.row, np.arange(len(pieces.top) + 1))
    number = np.arange(len(pieces.row)) - first[pieces.row]
    masses = np.zeros((len(pieces.top), int(number.max()) + 1))
    masses[pieces.row, number] = pieces.masses
    sums = np.cumsum(masses, axis=1)
    target = uniform * sums[row, -1]
    column = np.sum(sums[row] <= target[:, None], axis=1)
    column = np.minimum(column, np.diff(first)[row] - 1)
    piece = first[row] + column
    rest = (target - (sums[row, column] - masses[row, column])) / pieces.half[piece]
    away = pieces.middle[piece] + pieces.half[piece] * _solve(pieces.values[piece], rest)
    return np.asarray(pieces.peak[row] + away)


def _solve(values: FloatArray, target: FloatArray) -> FloatArray:
    """Find x in [-1, 1] below which the polynomial through the node values has the target as its integral."""
    integral, density = _TO_INTEGRAL @ values.T, _TO_LEGENDRE @ values.T
    low, high, x = np.full_like(target, -1.0), np.ones_like(target), np.zeros_like(target)
    for _ in range(60):
        excess = np.polynomial.legendre.legval(x, integral, tensor=False) - target
        low, high = np.where(excess < 0, x, low), np.where(excess < 0, high, x)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = x - excess / np.polynomial.legendre.legval(x, density, tensor=False)
        near = np.abs(step - x) < 1e-13
        # A last step may leave the bracket by rounding; any other that leaves it is replaced by its middle.
        x = np.where(near | ((step > low) & (step < high)), step, (low + high) / 2)
        if near.all():
            break
    return np.clip(x, -1.0, 1.0)
