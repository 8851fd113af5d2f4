"""What 1, 2, …, l cells of one strategy come to, all numbers at once: for the factors of a product.

A strategy bounds one number of cells closely, a factor of a product has to say it of all of them, and soon.

- Between numbers that are asked, Δ(j) is at most Δ of the next one, and at most Δ(i)·j/i for i < j: a set of j cells
  is the mean over its subsets of i cells, times j/i.
- *By sides.* Let a Gram matrix be nowhere above one whose rows fall away from the diagonal. If cell i has a members
  of the set on its left and b on its right, its row over the set is at most P_i(a) + Q_i(b): P_i(a) the diagonal
  entry and the a entries left of it, Q_i(b) the b entries on its right. So l cells come to at most the sum over
  a < l of M(a, l − 1 − a), M(a, b) the greatest P_i(a) + Q_i(b) over cells with a cells on their left and b on their
  right (`rank_bound`). One table of M serves all l; where it is too much, M(a, b) is at most max P(a) + max Q(b), and
  as left members are 0, …, l − 1 in number as one goes through the set, and right ones too, the square is at most
  Σ P(a) + Q(a) over a < l: a running sum.

Derived here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sparsehist.typing import ArrayLike, FloatArray, IntArray
from sparsehist.workload.gram.written_out import upper_sums

_ROUNDING = 1e-9
WRITTEN_OUT = 256
"""Up to so many cells a strategy is written out to be looked at as a whole."""

# Numbers one by one up to the first, and beyond in steps of the second.
_ALL, _STEP = 16, 1.15
# Steps towards the largest eigenvalue of larger matrices.
_POWERS = 8
_NEGATIVE = 1e-10


class Profile(NamedTuple):
    """Numbers for 1, 2, … cells, each array of shape (keys,) and never falling.

    Attributes:
        norms: Certified bounds of what so many cells move R·x by.
        majorant: The same under a positive semidefinite matrix that is nowhere below |RᵀR|.
        reached: What some set of so many cells does.
        eigenvalue: At least the largest of RᵀR; may be infinite.
    """

    norms: FloatArray
    majorant: FloatArray
    reached: FloatArray
    eigenvalue: float = math.inf


def numbers_up_to(keys: int) -> IntArray:
    """1, …, keys, thinned out where they are many."""
    steps = math.ceil(math.log(max(keys, _ALL) / _ALL) / math.log(_STEP))
    far = (_ALL * _STEP ** np.arange(steps)).astype(np.int64)
    numbers = np.append(np.arange(1, _ALL), far)
    return np.unique(np.append(numbers[numbers < keys], keys))


def between(numbers: ArrayLike, bounds: ArrayLike) -> FloatArray:
    """Bounds for all numbers of cells up to the last that was asked.

    Example:
        >>> between([1, 4], [1.0, 2.0]).tolist()
        [1.0, 2.0, 2.0, 2.0]
    """
    asked, found = np.asarray(numbers), np.maximum.accumulate(np.asarray(bounds, np.float64))
    every = np.arange(1, int(asked[-1]) + 1)
    at = np.searchsorted(asked, every)
    before = np.maximum(at - 1, 0)
    return np.minimum(found[at], np.where(at > 0, found[before] * every / asked[before], np.inf))


def as_reached(numbers: ArrayLike, reached: ArrayLike) -> FloatArray:
    """Of numbers that were not asked, what the next smaller one reaches."""
    asked, found = np.asarray(numbers), np.maximum.accumulate(np.asarray(reached, np.float64))
    return np.asarray(found[np.searchsorted(asked, np.arange(1, int(asked[-1]) + 1), side="right") - 1])


def profile_of_gram(gram: FloatArray, keys: int) -> Profile:
    """From a Gram matrix that is written out; shape (cells, cells)."""
    cells = len(gram)
    keys = min(keys, cells)
    negative = np.maximum(-gram, 0.0)
    absolute = np.abs(gram)
    lost = float(negative.sum(axis=1).max())
    eigenvalue, squares = _within(gram, keys)
    if lost <= _NEGATIVE * float(np.diag(gram).max()):
        # With N the negative part, |G| = G + 2N, which the row sums of 2N on the diagonal make semidefinite.
        norms = majorant = _root(squares + 4.0 * lost * np.arange(1, keys + 1))
    else:
        shift = max(0.0, -float(np.linalg.eigvalsh(absolute)[0])) if cells <= WRITTEN_OUT else 2.0 * lost
        norms, majorant = _root(squares), _root(_within(absolute + shift * np.eye(cells), keys)[1])
    return Profile(norms, majorant, np.minimum(_runs(gram, keys), norms), eigenvalue)


def by_sides(left: FloatArray, right: FloatArray, widths: IntArray) -> FloatArray:
    """Bounds of squares for 1, 2, … cells by sides, from P and Q of blocks of cells.

    Args:
        left: P at groups of numbers of members, −∞ where there are fewer cells; shape (blocks, groups).
        right: Q.
        widths: How many numbers, from 0 on, each group has.
    """
    ends = np.cumsum(widths)
    every = np.repeat(np.arange(widths.size), widths)
    apart = np.cumsum((left.max(axis=0) + right.max(axis=0))[every])
    both = np.stack([(left[:, [group]] + right).max(axis=0) for group in range(widths.size)])
    # of most cells in a group, as all of these are bounded by the last
    asked = [float(both[every[:number], every[:number][::-1]].sum()) for number in ends.tolist()]
    squares: FloatArray = np.minimum(apart, between(ends, np.sqrt(asked)) ** 2) * (1.0 + _ROUNDING)
    return squares


def layered(norms: FloatArray, majorant: FloatArray, keys: int) -> FloatArray:
    """Bound what 1, …, `keys` cells of a product of two factors come to.

    The largest Σ δ_j·D(t_j) over t_1 >= t_2 >= … with Σ t_j = l, δ_j the steps of `norms`, D `majorant`. With least
    concave majorants in the place of both it is the sum of the l largest products of a step of one and a step of the
    other; those of step j and step t with j·t > l take no part.
    """
    first, second = _steps(norms), _steps(majorant)
    lengths = np.minimum(keys // np.arange(1, min(first.size, keys) + 1), second.size)
    layer = np.repeat(np.arange(lengths.size), lengths)
    place = np.arange(layer.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    products = np.sort(first[layer] * second[place])[::-1][:keys]
    return np.cumsum(products) * (1.0 + _ROUNDING)


def boxes(reached: Sequence[FloatArray], keys: int) -> FloatArray:
    """What t cells of one factor by ⌊l/t⌋ of the next ones reach, at best, for all l up to `keys`."""
    best = reached[0]
    for other in reached[1:]:
        most = min(keys, best.size * other.size)
        following = np.zeros(most)
        for taken in numbers_up_to(min(other.size, most)).tolist():
            rest = np.minimum(np.arange(taken, most + 1) // taken, best.size)
            following[taken - 1 :] = np.maximum(following[taken - 1 :], other[taken - 1] * best[rest - 1])
        best = following
    return best


def _steps(values: FloatArray) -> FloatArray:
    """Steps of the least concave sequence that begins with 0 and is nowhere below these values."""
    corners: list[tuple[int, float]] = [(0, 0.0)]
    for place, value in enumerate(values.tolist(), 1):
        while len(corners) > 1:
            (x, y), (before, below) = corners[-1], corners[-2]
            if (y - below) * (place - x) > (value - y) * (x - before):
                break
            corners.pop()
        corners.append((place, value))
    places, heights = np.array(corners).T
    return np.diff(np.interp(np.arange(values.size + 1), places, heights))


def _within(gram: FloatArray, keys: int) -> tuple[float, FloatArray]:
    """The largest eigenvalue, or a bound, and bounds of 1ᵀ_S G 1_S for sets of 1, …, `keys` cells."""
    number = np.arange(1.0, keys + 1)
    if len(gram) <= WRITTEN_OUT:
        eigenvalue = float(np.linalg.eigvalsh(gram)[-1]) * (1.0 + _ROUNDING)
        return eigenvalue, np.minimum(upper_sums(gram, keys, eigenvalue), _of_sides(gram, keys))
    # By Perron and Frobenius the largest (|G|·x)_i/x_i is no less, for any x > 0.
    absolute, vector, eigenvalue = np.abs(gram), np.ones(len(gram)), math.inf
    for _ in range(_POWERS):
        image = absolute @ vector
        eigenvalue = min(eigenvalue, float((image / vector).max()) * (1.0 + _ROUNDING))
        vector = np.maximum(image / image.max(), _ROUNDING)
    norms = np.cumsum(np.sort(np.sqrt(np.diag(gram)))[::-1])[:keys] ** 2
    return eigenvalue, np.minimum(np.minimum(norms, eigenvalue * number), _of_sides(gram, keys))


def _of_sides(gram: FloatArray, keys: int) -> FloatArray:
    """The bound by sides, under the least rows above those of G that fall away from the diagonal."""
    cells = len(gram)
    diagonal = np.diag(gram)
    i, a = np.arange(cells)[:, np.newaxis], np.arange(1, keys)
    most: list[FloatArray] = []
    for side in (gram, gram[::-1, ::-1]):
        falling = np.maximum.accumulate(np.maximum(np.tril(side, -1), 0.0), axis=1)
        sums = np.cumsum(np.where(i >= a, falling[i, np.maximum(i - a, 0)], 0.0), axis=1)
        most.append((sums + (0.0 if most else diagonal[:, np.newaxis])).max(axis=0))
    # a cell with fewer cells on a side than asked for has the sum of those, which is a bound all the same
    return np.cumsum(np.append(diagonal.max(), most[0] + most[1])) * (1.0 + _ROUNDING)


def _runs(gram: FloatArray, keys: int) -> FloatArray:
    """What the best run of adjacent cells reaches."""
    cells = len(gram)
    sums = np.zeros((cells + 1, cells + 1))
    sums[1:, 1:] = gram.cumsum(axis=0).cumsum(axis=1)
    low, number = np.arange(cells)[:, np.newaxis], np.arange(1, keys + 1)
    high = np.minimum(low + number, cells)
    runs = sums[high, high] - sums[low, high] - sums[high, low] + sums[low, low]
    return np.maximum.accumulate(np.sqrt(np.maximum(runs, 0.0).max(axis=0))) * (1.0 - _ROUNDING)


def _root(squares: FloatArray) -> FloatArray:
    return np.sqrt(np.maximum.accumulate(np.maximum(squares, 0.0))) * (1.0 + _ROUNDING)
