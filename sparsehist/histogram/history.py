"""The history of untracked cells: in every past release, their noise was at most threshold - count.

Untracked cells with the same count form a *group*, and have the same history. Usually, a round draws only the cells
of a group to be published (*lazily*), by rejection sampling given the history. If the history, including the new
release, has a probability below e**-`RAREST`, the round draws all cells of the group (*explicitly*) and tracks them.
So untracked cells never have a less probable history. `rarity` bounds -ln of the probability.

Source: our own derivation (docs/mathematics.md, rare histories); association is Harris's inequality.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from sparsehist.errors import read_each
from sparsehist.noise.family import Family
from sparsehist.privacy.levels import Level, as_level, compared, level_float
from sparsehist.typing import BoolArray, FloatArray, IntArray, float_array

RAREST = 3.0
# Only levels within 1 % of each other may share a probability bound: for others, a common bound would be too loose.
_STEP = math.log(1.01)


class History(NamedTuple):
    """The distinct levels of past releases, the lowest threshold at each level, and the level of each release."""

    levels: tuple[Fraction, ...]  # ascending
    thresholds: FloatArray
    column: IntArray  # for each release, the index of its level in `levels`; shape (releases,)

    def bounds(self, counts: FloatArray) -> FloatArray:
        """Return threshold - count, the largest noise of an untracked cell; shape (levels, counts)."""
        return np.asarray(self.thresholds[:, np.newaxis] - counts)


def history_of(releases: Sequence[tuple[Level, float]]) -> History:
    """Return the history of releases, given as (level, threshold) pairs in any order; levels may repeat."""
    exact = read_each("levels", [level for level, _ in releases], as_level, "a level")
    # Comparing doubles is faster than comparing fractions, so compare fractions only if their doubles are equal.
    order = sorted(range(len(exact)), key=lambda i: (level_float(exact[i]), exact[i]))
    levels: list[Fraction] = []
    column = np.empty(len(exact), dtype=np.int64)
    for i in order:
        if not levels or compared(levels[-1], exact[i]):
            levels.append(exact[i])
        column[i] = len(levels) - 1
    thresholds = np.full(len(levels), np.inf)
    np.minimum.at(thresholds, column, float_array("thresholds", [bound for _, bound in releases]))
    return History(tuple(levels), thresholds, column)


def rarity(family: Family, history: History, counts: FloatArray) -> FloatArray:
    """Return for each count an upper bound, perhaps infinite, on -ln P[a cell of this count was never published].

    The result is a sum of bounds for single levels. Levels within 1 % of each other have a common bound if it is
    tighter: as the increments between levels are symmetric or >= 0, P[noise > t at any of these levels] is at most
    2 P[noise > t at the coarsest of them] (Lévy's inequality).
    """
    if not history.levels:
        return np.zeros(counts.size)
    # Split the levels into ranges that span at most 1 %: range i is history.levels[rungs[i] : rungs[i + 1]].
    steps = np.floor(np.log(list(map(level_float, history.levels))) / _STEP)
    rungs = [0, *(np.flatnonzero(np.diff(steps)) + 1).tolist(), steps.size]
    rarities = np.add.reduceat(-_log_hidden(family, history, counts), rungs[:-1], axis=0)
    for rung in np.flatnonzero(np.diff(rungs) > 1).tolist():
        begin, end = rungs[rung : rung + 2]
        lowest = history.thresholds[begin:end].min() - counts
        exceeding = np.minimum(2 * family.tail(lowest, history.levels[begin]), 1.0)
        with np.errstate(divide="ignore"):
            rarities[rung] = np.minimum(rarities[rung], -np.log1p(-exceeding))
    return np.asarray(rarities.sum(axis=0))


def _log_hidden(family: Family, history: History, counts: FloatArray) -> FloatArray:
    bounds = history.bounds(counts)
    if family.scaled:  # levels differ only in scale, so scale all bounds to one level and call `log_cdf` once
        std = np.array([family.std(level) for level in history.levels])
        return family.log_cdf(bounds * (std[0] / std)[:, np.newaxis], history.levels[0])
    return np.stack([family.log_cdf(bound, level) for bound, level in zip(bounds, history.levels, strict=True)])


def drawn_explicitly(family: Family, history: History, counts: FloatArray) -> BoolArray:
    """Return for each count whether its cells must be drawn explicitly, because their history is improbable."""
    if len(history.levels) == 1:
        return rarity(family, history, counts) > RAREST
    return np.asarray(counts >= least_rare(lambda some: rarity(family, history, some), counts))


def least_rare(rarity_of: Callable[[FloatArray], FloatArray], counts: FloatArray) -> float:
    """Return the smallest of `counts` whose history is improbable (rarity above `RAREST`), or infinity if none is."""
    distinct = np.unique(counts)

    def is_rare(at: int) -> bool:
        return bool(rarity_of(distinct[at : at + 1])[0] > RAREST)

    if not distinct.size or not is_rare(distinct.size - 1):
        return math.inf
    return float(distinct[bisect_left(range(distinct.size - 1), 1, key=is_rare)])  # rarity increases with the count


def draws_all_empty(family: Family, releases: Sequence[tuple[Level, float]]) -> bool:
    """Return whether the round for the last release in `releases` must draw all empty cells explicitly."""
    return float(rarity(family, history_of(releases), np.zeros(1))[0]) > RAREST


def largest_tail(family: Family, past: Sequence[tuple[Level, float]]) -> float:
    """Return the largest P[Z > threshold] for which the next round need not draw all empty cells explicitly.

    `past` holds the (level, effective threshold) of every past release on the noise path. All numbers are public.

    Example:
        >>> from sparsehist.noise import Gaussian
        >>> round(largest_tail(Gaussian(), [(0.5, 6.0)]), 3)
        0.95
    """
    spent = float(rarity(family, history_of(past), np.zeros(1))[0])
    return -math.expm1(min(0.0, spent - RAREST))
