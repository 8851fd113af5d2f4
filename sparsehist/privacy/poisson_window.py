"""E[(1 - e**(epsilon - loss))+] for the sum of many equal losses, between two bounds.

A kink made smooth is inverted, and what that changes is listed. Smoothing (1 - e**-y)+ with a window that leaves
1 and e**-y as they are adds H(y) >= 0, which is 0 outside [-w, w]; the expectation of the smoothed function needs
the points of the line up to a frequency of order 1/w and no others. With the law of each half of the keys listed
but for a small probability, H is summed over the listed pairs within w of the kink. What the pairs that are not
listed add lies between 0 and what the difference between windows of 2w and w, known by inversion too, is more than
over the listed: H(y; 2w) - H(y; w) >= H(y; w).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import i0

from sparsehist.privacy.poisson_sums import Law
from sparsehist.privacy.poisson_transform import ComplexArray, Line, blocks, kinked

FloatArray = NDArray[np.float64]

# The window's transform is 2 * 30 * e**-30 = 6e-12 where the points end, and what they would add 1e-18 or less.
SHAPE = 30.0
_NODES = np.linspace(0.0, 1.0, 8193)
_WIDTHS = (1.0, 2.0, 4.0)
_PAIRS_AT_ONCE = 1 << 20
_PROBED = 16  # one in so many sums tells how many pairs there are


@dataclass(frozen=True)
class Bracket:
    """Bounds on an expectation, a value between them, and how far the value of twice the window is from it."""

    lower: float
    value: float
    upper: float
    unsettled: float


def width_of(line: Line, points: int) -> float:
    """Of the window whose transform ends where the points do."""
    return SHAPE * line.period / (2.0 * math.pi * points)


def bracket(smoothed: FloatArray, added: FloatArray) -> Bracket:
    """The sum over a line, between bounds.

    Args:
        smoothed: Of the line, shape (3,).
        added: Over the listed pairs, shape (3,).

    Returns:
        Bounds that hold but for rounding, 1e-13. Of what is not listed the value takes what a smooth law would.
    """
    upper, rest = smoothed - added, np.diff(smoothed - added)
    values = upper[:2] - rest / 3.0
    return Bracket(
        float(upper[0] - max(0.0, rest[0])), float(values[0]), float(upper[0]), abs(float(values[1] - values[0]))
    )


def smoothed_sums(line: Line, points: int) -> FloatArray:
    """The sums over so many points of the line for windows of once, twice and four times the width, shape (3,)."""
    totals = np.zeros(len(_WIDTHS))
    width = width_of(line, points)
    for begin, frequency, moments in blocks(line, points):
        for one, factor in enumerate(_WIDTHS):
            needed = math.ceil(points / factor) - begin
            if needed <= 0:
                continue
            along = np.asarray(line.tilt + 0.5 + 1j * frequency[:needed], np.complex128)
            window = _transform(along, factor * width)
            smooth = kinked(line, frequency[:needed], moments[:needed] * window)
            totals[one] += 2.0 * float(np.sum(smooth[::-1])) - (float(smooth[0]) if begin == 0 else 0.0)
    return totals / line.period


def _transform(along: ComplexArray, width: float) -> ComplexArray:
    """Of the Kaiser-Bessel window at complex frequencies, as a part of what it is at 1/2."""
    root = np.sqrt(SHAPE**2 + (width * along) ** 2)
    middle = math.sqrt(SHAPE**2 + (0.5 * width) ** 2)
    return np.asarray(np.sinh(root) / root * (middle / math.sinh(middle)), np.complex128)


def listed_pairs(line: Line, halves: tuple[Law, Law], points: int, most: int) -> FloatArray | None:
    """What windows of once, twice and four times the width add over the listed pairs, shape (3,).

    Args:
        line: Its tilt is that of the probabilities.
        halves: The law of the sum of some of the keys, and of the others, as far as they are listed;
            ascending, shapes (m,) and (n,).
        points: Of the line.
        most: Most pairs worth the time, about.

    Returns:
        The sums, of positive terms; None if there are more pairs.
    """
    (larger, chances), (smaller, weights) = halves
    width = width_of(line, points)
    probes = -larger[::_PROBED]
    near = [np.searchsorted(smaller, probes + side * width) for side in (-_WIDTHS[-1], _WIDTHS[-1])]
    if int((near[1] - near[0]).sum()) * _PROBED > most:
        return None
    first = np.searchsorted(smaller, -larger - _WIDTHS[-1] * width)
    counts = np.searchsorted(smaller, -larger + _WIDTHS[-1] * width) - first
    ends = np.cumsum(counts)
    totals, begin = np.zeros(len(_WIDTHS)), 0
    added = _added()
    while begin < counts.size:
        done = int(ends[begin] - counts[begin])
        end = max(begin + 1, int(np.searchsorted(ends, done + _PAIRS_AT_ONCE)))
        here = counts[begin:end]
        one = np.repeat(np.arange(begin, end), here)
        other = np.arange(one.size) - np.repeat(ends[begin:end] - here - done, here) + first[one]
        y = larger[one] + smaller[other]
        chance = chances[one] * weights[other] * np.exp(-(line.tilt + 0.5) * y)
        for number in reversed(range(len(_WIDTHS))):
            narrow = _WIDTHS[number] * width
            inside = np.abs(y) < narrow
            y, chance = y[inside], chance[inside]
            totals[number] += narrow * float(chance @ np.interp(np.abs(y) / narrow, _NODES, added))
        begin = end
    return totals


def _added() -> FloatArray:
    """What a window of width 1 adds to max(0, y), at the nodes: for narrow windows, to the kink of any function."""
    window = i0(SHAPE * np.sqrt(1.0 - _NODES**2))
    step = _NODES[1]
    above = np.append(0.0, np.cumsum((window[:-1] + window[1:])[::-1]) * (step / 2.0))[::-1]
    twice = np.append(0.0, np.cumsum((above[:-1] + above[1:])[::-1]) * (step / 2.0))[::-1]
    return np.asarray(twice / (2.0 * above[0]))
