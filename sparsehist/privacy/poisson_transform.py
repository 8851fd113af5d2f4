"""E[(1 - e**(epsilon - loss))+] for the sum of many equal losses, by a Fourier transform.

With M the moment generating function of one loss and l of them independent, the expectation is the integral of
M(s)**l e**(-s epsilon) / (s (s + 1)) along a line Re s = c > 0, over 2 pi i. On a line through the saddle point
the integrand does not cancel, so the digits are relative however small the answer. Three things are cut:

- The line becomes the multiples of 2 pi / period. That adds the kernel's images a period away, which is exactly
  nothing but e**-44 once the period covers the tilted law (by Chernoff's bound) and the kernel's own fall.
- The points end somewhere. The losses of a count are those of a discrete law, so M recurs: about every
  2 pi mean along the line |M| comes back to (2 pi m)**-0.5 at the m-th time. Points are added in growing blocks
  until those to come are estimated below 4e-13 of the answer, or until there are `points` of them.
- Each block is one fast transform at unequally spaced losses (spread by a Kaiser-Bessel window), good to 1e-13 of
  the largest |M|; the first points, which hold nearly all of the answer, are summed one by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import fft
from scipy.special import i0

FloatArray = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

# What the images of the kernel may add: e**-44 = 8e-20, before what the answer is smaller than 1.
_IMAGES = 44.0
# The points end where those to come add less than this part of the answer; measured, their sum is up to four times
# the root of their squares' sum.
_NEGLIGIBLE, _CAUTION = 4e-13, 4.0
_FIRST_BLOCK, _LARGEST_BLOCK = 1 << 12, 1 << 16
_WINDOW = 14  # points of the twice finer grid over which a loss is spread
_SHAPE = 0.75 * math.pi * _WINDOW


@dataclass(frozen=True, repr=False)
class Line:
    """Losses less epsilon / keys and their tilted probabilities, shapes (n,), and where they are inverted."""

    loss: FloatArray
    mass: FloatArray
    keys: int
    tilt: float
    period: float

    def spread(self) -> float:
        """The standard deviation of the sum of the losses under the tilt."""
        variance = float(self.mass @ self.loss**2) - float(self.mass @ self.loss) ** 2
        return math.sqrt(self.keys * max(variance, 0.0))


def line_above(loss: FloatArray, log_mass: FloatArray, keys: int, tilt: float, cost: float) -> Line | None:
    """For the tilted expectation of e**(-tilt y) (1 - e**-y)+, y the sum of `keys` losses.

    Args:
        loss: Losses of one key less epsilon / keys, shape (n,).
        log_mass: ln of their tilted probabilities, which add up to 1, shape (n,).
        keys: Number of losses added up.
        tilt: Of the probabilities; positive.
        cost: -ln of the moment e**(tilt y) before tilting: bounds what lies below.

    Returns:
        The line, or None if the expectation is 0: no sum is above 0.
    """
    images = _IMAGES + math.log(1.0 + tilt * (1.0 + tilt))
    felt = _felt(loss, log_mass, keys, tilt, images)
    loss, log_mass = loss[felt], log_mass[felt]
    if not loss.size:
        return None
    below, above = _reach(loss, log_mass, keys)
    if above <= 0.0:
        return None
    period = max(above, min((images + max(cost, 0.0)) / tilt, max(below, 0.0) + images / tilt))
    return Line(loss, np.exp(log_mass), keys, tilt, period)


def line_below(loss: FloatArray, log_mass: FloatArray, keys: int, tilt: float) -> Line:
    """For less the tilted expectation of e**(-tilt y) min(1, e**-y), for a tilt between -1 and 0."""
    below, above = _reach(loss, log_mass, keys)
    period = max(max(below, 0.0) + _IMAGES / (1.0 + tilt), max(above, 0.0) - _IMAGES / tilt)
    return Line(loss, np.exp(log_mass), keys, tilt, period)


def _felt(loss: FloatArray, log_mass: FloatArray, keys: int, tilt: float, least: float) -> NDArray[np.bool_]:
    """Losses without which the answer would not be what it is: the far larger count for nothing once tilted back.

    Tilting towards small counts raises a second peak at a count of 1, far above epsilon; it would only stretch the
    period. One of the keys at a loss x adds at most keys * mass * E[e**(-slope (x + the others))], for any slope up
    to the tilt.
    """
    slopes = tilt * np.geomspace(1.0 / 256.0, 1.0, 17)
    lowest = float(loss.min())
    moments = np.log(np.exp(np.multiply.outer(-slopes, loss - lowest)) @ np.exp(log_mass)) - slopes * lowest
    bounds = np.min((keys - 1) * moments[:, None] - np.multiply.outer(slopes, loss), axis=0)
    return np.asarray(log_mass + np.minimum(bounds, 0.0) + math.log(keys) > -least)


def _reach(loss: FloatArray, log_mass: FloatArray, keys: int) -> tuple[float, float]:
    """How far the sum reaches below and above 0, but for e**-44 (Chernoff's bound, the best of a few slopes)."""
    mass = np.exp(log_mass)
    mean = float(mass @ loss)
    centred = loss - mean
    spread = math.sqrt(keys * float(mass @ centred**2))
    slopes = np.geomspace(0.05, 50.0, 30) / max(spread, 1e-300)
    farthest = []
    for side in (-centred, centred):
        # No power of e beyond 600 per key: such a slope is never the best.
        slopes_here = slopes[slopes * max(float(side.max()), 0.0) < 600.0]
        moments = np.log(np.exp(np.multiply.outer(slopes_here, side)) @ mass)
        bounds = (keys * moments + _IMAGES) / slopes_here
        farthest.append(min(float(bounds.min(initial=math.inf)), keys * float(side.max())))
    return farthest[0] - keys * mean, farthest[1] + keys * mean


def inverted(line: Line, points: int, floor: float = 0.0) -> tuple[float, float]:
    """The sum over the line, and an estimate of what the points that are left out would add.

    It ends before the points do where these would add less than 4e-13 of the sum and the floor. The estimate is
    infinite if the points do not reach where one can be made.
    """
    # Neighbouring losses have turned by a full circle once in so many points: the moments have recurred.
    recurrence = line.period / _typical_gap(line.loss, line.mass)
    total = added = 0.0
    since, run, before, beyond = 0, 0.0, 0.0, math.inf
    for begin, frequency, moments in blocks(line, points):
        terms = kinked(line, frequency, moments)
        here = 2.0 * float(np.sum(terms[::-1]))
        total += here - (float(terms[0]) if begin == 0 else 0.0)
        if begin == 0:
            since = terms.size
            continue
        added, run = added + float(terms @ terms), run + here
        done = begin + terms.size
        if done - since > recurrence and done > 1.5 * recurrence:
            # What follows falls with the power 3/2 of the distance, added up in squares: with phases as good as
            # random from one recurrence to the next, not always within one.
            ordered = max(abs(before) * (since / done) ** 1.5, abs(run))
            beyond = (_CAUTION * math.sqrt(2.0 * added * done / (done - since)) + ordered) / line.period
            if beyond < _NEGLIGIBLE * (abs(total) / line.period + floor):
                break
            since, added, run, before = done, 0.0, 0.0, run
    return total / line.period, beyond


def kinked(line: Line, frequency: FloatArray, moments: ComplexArray) -> FloatArray:
    """The real part of the moments / (s (s + 1)) at s = tilt + i frequency."""
    square = frequency * frequency
    real, imaginary = line.tilt * (line.tilt + 1.0) - square, (2.0 * line.tilt + 1.0) * frequency
    size = (line.tilt**2 + square) * ((line.tilt + 1.0) ** 2 + square)
    return np.asarray((moments.real * real + moments.imag * imaginary) / size)


def blocks(line: Line, points: int) -> Iterator[tuple[int, FloatArray, ComplexArray]]:
    """Runs of points of the line: the first one's number, how high they are, and the moments of the sum there."""
    place = line.loss / line.period
    spread = max(line.spread(), line.period / 256.0)
    step = 2.0 * math.pi / line.period
    done = min(max(64, math.ceil(9.5 / (2.0 * math.pi) * line.period / spread)), points)
    modes = np.arange(done, dtype=np.float64)
    one_by_one = np.asarray(np.exp(2j * math.pi * np.multiply.outer(modes, place)) @ line.mass, np.complex128)
    yield 0, step * modes, _power(one_by_one, line.keys)
    size = _FIRST_BLOCK
    while done < points:
        block = _Block(place, line.mass, size)
        for _ in range(1 if size < _LARGEST_BLOCK else 1 + (points - done - 1) // size):
            yield done, step * np.arange(done, done + size, dtype=np.float64), _power(block.moments(done), line.keys)
            done += size
        size = min(2 * size, _LARGEST_BLOCK)


def _typical_gap(place: FloatArray, mass: FloatArray) -> float:
    """Distance of neighbouring losses where most of the mass is, in periods."""
    if place.size < 2:
        return math.inf
    peak = int(np.clip(np.argmax(mass), 1, place.size - 1))
    return float(abs(place[peak] - place[peak - 1]))


def _power(base: ComplexArray, exponent: int) -> ComplexArray:
    result: ComplexArray | None = None
    while True:
        if exponent & 1:
            result = base if result is None else result * base
        exponent >>= 1
        if not exponent:
            assert result is not None
            return result
        base = base * base


class _Block:
    """A fast transform of unequally spaced losses, for any `count` points in a row; count a power of two."""

    def __init__(self, place: FloatArray, mass: FloatArray, count: int) -> None:
        self._place, self._mass, self._count = place, mass, count
        size = 2 * count
        where = np.remainder(place, 1.0) * size
        nodes = (np.floor(where).astype(np.int64) - (_WINDOW // 2 - 1))[:, None] + np.arange(_WINDOW)
        apart = (where[:, None] - nodes) * (2.0 / _WINDOW)
        self._share = i0(_SHAPE * np.sqrt(np.maximum(0.0, 1.0 - apart**2)))
        self._index = (nodes % size).ravel()
        root = np.sqrt(_SHAPE**2 - (math.pi * _WINDOW / size * np.arange(-(count // 2), count - count // 2)) ** 2)
        self._window = root / (_WINDOW * np.sinh(root))

    def moments(self, first: int) -> ComplexArray:
        """Sum of mass * e**(2 pi i j place) for j = first .. first + count - 1."""
        size, half = 2 * self._count, self._count // 2
        turned = self._mass * np.exp(2j * math.pi * np.remainder((first + half) * self._place, 1.0))
        grid = np.empty(size, np.complex128)
        grid.real = np.bincount(self._index, (self._share * turned.real[:, None]).ravel(), size)
        grid.imag = np.bincount(self._index, (self._share * turned.imag[:, None]).ravel(), size)
        spectrum = fft.ifft(grid, norm="forward", overwrite_x=True)
        return np.asarray(np.concatenate([spectrum[size - half :], spectrum[:half]]) * self._window, np.complex128)
