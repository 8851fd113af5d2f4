"""Staircases that lie above every binomial and Poisson law, and exact draws of the integers under them.

Steps of `width` integers go off to both sides of the mode m; a step is chosen by comparing integers (Walker's alias
table) and the place on it by integers too, so what is proposed has its law but for 2**-64 of a place. Only what
accepts it is computed in doubles, and the rounding of a double is an error of a probability, not of a place: it does
not grow with the spread.

**Above.** Let v be the variance, m = floor((n+1)p) (floor of the mean for Poisson), p <= 1/2, and A = v + 1. As the
ratio of neighbours is at most 1 from m on, to the right and to the left,

    f(m+j)/f(m) <= prod_{0<=i<j} 1/(1 + i/A)      <= exp(-A phi((j-1/2)/A) + 1/(8A)),
    f(m-j)/f(m) <= prod_{0<=i<j} (1 - i/(A + i/2)) <= exp(-j(j-1)/(2A)),

where phi(x) = (1+x) ln(1+x) - x: the ratio f(m+i+1)/f(m+i) is at most (a-ip)/(a+iq) with a = (m+1)q <= A, largest
for q = 1, and ln(1+x) is concave, so it is at least its mean over the unit around a point. To the left a is (n-m+1)p.

**Below.** By the same ratios f(m±j)/f(m) >= prod_{1<=i<=j} (1 - i/v): below that, nothing need be computed.

**At the mode**, with Stirling's error in (0, 1/(12m)) and m(n-m)/n within [v - 1, v + 1/8],

    (1 + 1/(8v))**-1/2 exp(-7/(12(v-1))) <= f(m) sqrt(2 pi v) <= (1 - 1/v)**-1/2.

All bounds improve with v, so those at the end of an interval of variances hold on all of it.

Source: our own derivation; Walker 1977 for the table, Hörmann 1993 for accepting most draws unseen.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np

from sparsehist.typing import FloatArray, Generator, IntArray, WordArray

LEAST_VARIANCE = 16.0
"""Where the staircases begin."""

# Steps to either side. They reach 12 standard deviations: less than 2**-60 lies beyond, also of skewed laws.
_STEPS = 64
_CELLS = 2 * _STEPS
_SHIFT = 64 - 7
# Width of a step, in standard deviations.
_WIDTH = 3 / 16
# Variances below the last end have tables of their own, with a fixed width; from there on one serves all.
_RATIO = 1.25
_ENDS = [LEAST_VARIANCE * _RATIO**table for table in range(26)]
# Room for the rounding of the mode and of the bounds themselves.
_ROOM = 1.0 + 2.0**-20


class Staircases(NamedTuple):
    """The tables of all intervals of variance, one after the other; 128 cells each. Public constants.

    Attributes:
        limits: A cell is kept by a rest of 57 bits below this; shape (tables * 128,).
        others: The cell taken else.
        heights: An upper bound of f(k) sqrt(2 pi v) on the step, in proportion to its probability.
        surely: f(k) sqrt(2 pi v) over the height is at least this on all of the step.
        widths: Integers on a step; 0 where it depends on the variance; shape (tables,).
    """

    limits: WordArray
    others: IntArray
    heights: FloatArray
    surely: FloatArray
    widths: IntArray


def rows_and_widths(variance: FloatArray) -> tuple[IntArray, WordArray]:
    """Which table serves a law of this variance (its first cell), and with which width of steps; any shape."""
    table = np.searchsorted(_ENDS[1:], variance, side="right")
    fixed = staircases().widths[table]
    free = np.ceil(_WIDTH * np.sqrt(variance + 1.0) + 0.5)
    return table * _CELLS, np.where(fixed > 0, fixed, free).astype(np.uint64)


def propose(rows: IntArray, widths: WordArray, size: int, *, rng: Generator) -> tuple[IntArray, IntArray]:
    """Draw integers under the staircases: the cell of each, and how far from the mode it lies; shapes (size,).

    `rows` is the first cell of the table of each draw, `widths` that of its steps, below 2**32; or one for all.
    """
    tables = staircases()
    words = rng.integers(0, 2**64 - 1, (2, size), dtype=np.uint64, endpoint=True)
    cells = (words[0] >> np.uint64(_SHIFT)).view(np.int64) + rows
    rest = words[0] & np.uint64((1 << _SHIFT) - 1)
    cells = np.where(rest < tables.limits[cells], cells, tables.others[cells] + rows)
    low = (words[1] & np.uint64(2**32 - 1)) * widths
    place = ((words[1] >> np.uint64(32)) * widths + (low >> np.uint64(32))) >> np.uint64(32)
    away = (cells & (_STEPS - 1)) * widths.view(np.int64) + place.view(np.int64)
    # To the left, counted from m - 1: ~x is -1 - x.
    return cells, away ^ -((cells >> 6) & 1)


@cache
def staircases() -> Staircases:
    """The tables; made once, in some milliseconds."""
    steps = np.arange(float(_STEPS))
    tables, widths = [], []
    for low, high in zip(_ENDS, np.append(_ENDS[1:], math.inf), strict=True):
        if high < math.inf:
            width, above = math.ceil(_WIDTH * math.sqrt(high + 1.0)), high + 1.0
            nearest = steps * width
            right, left = np.maximum(nearest - 0.5, 0.0), nearest * (nearest + 1.0)
            farthest = nearest + width
        else:
            # With A = v + 1, width >= _WIDTH sqrt(A) + 1/2, so a step begins at least that many sqrt(A) away,
            # and ends at most (_WIDTH sqrt(A) + 3/2) times its number away.
            width, above = 0, low + 1.0
            right = steps * (_WIDTH * math.sqrt(above))
            left, farthest = right * right, (steps + 1.0) * (_WIDTH * math.sqrt(above) + 1.5)
        tables.append(_table(low, above, right, left, farthest))
        widths.append(width)
    limits, others, heights, surely = zip(*tables, strict=True)
    return Staircases(
        np.concatenate(limits),
        np.concatenate(others),
        np.concatenate(heights),
        np.concatenate(surely),
        np.array(widths),
    )


def _table(
    variance: float, above: float, right: FloatArray, left: FloatArray, farthest: FloatArray
) -> tuple[WordArray, IntArray, FloatArray, FloatArray]:
    """One table: `right` is j - 1/2 and `left` j(j-1) where the steps begin, `farthest` is j where they end."""
    peak = _ROOM / math.sqrt(1.0 - 1.0 / variance)
    relative = right / above
    to_right = np.exp(-above * ((1.0 + relative) * np.log1p(relative) - relative) + 1.0 / (8.0 * above))
    to_right[0] = 1.0
    least = peak * np.concatenate([to_right, np.exp(-left / (2.0 * above))])
    share = np.minimum(farthest / variance, 0.999)
    squares = farthest * (farthest + 1.0) * (2.0 * farthest + 1.0) / (12.0 * variance**2 * (1.0 - share))
    never_below = np.exp(-farthest * (farthest + 1.0) / (2.0 * variance) - squares)
    never_below *= math.exp(-7.0 / (12.0 * (variance - 1.0))) / math.sqrt(1.0 + 1.0 / (8.0 * variance)) / _ROOM
    never_below[farthest >= 0.99 * variance] = 0.0
    weights = _weights(least)
    heights = np.array(weights, np.float64)
    heights *= _ROOM * float(np.max(least / heights))
    limits, others = _alias(weights)
    return limits, others, heights, np.tile(never_below, 2) / heights


def _weights(least: FloatArray) -> list[int]:
    """Integers in proportion to these numbers, rounded upwards, that add up to 2**64."""
    room = 2**64 - 2 * _CELLS
    total = math.fsum(least)
    weights = [math.ceil(height / total * room) for height in least.tolist()]
    weights[0] += 2**64 - sum(weights)
    return weights


def _alias(weights: list[int]) -> tuple[WordArray, IntArray]:
    """Walker's table: cell i is drawn as i below its limit and as another one else, with exactly these weights."""
    full = 1 << _SHIFT
    limits, others, rest = [full] * _CELLS, list(range(_CELLS)), list(weights)
    small = [i for i, weight in enumerate(rest) if weight < full]
    large = [i for i, weight in enumerate(rest) if weight >= full]
    while small and large:
        i, j = small.pop(), large[-1]
        limits[i], others[i] = rest[i], j
        rest[j] -= full - rest[i]
        if rest[j] < full:
            small.append(large.pop())
    return np.array(limits, np.uint64), np.array(others, np.int64)
