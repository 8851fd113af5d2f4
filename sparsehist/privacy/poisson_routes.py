"""E[(1 - e**(epsilon - loss))+] of Poisson noise over a unit's keys, by the route that has the digits.

Cheapest first: one key by its own sum; a few by every sum of half of them; many by a line of inversion, if what
lies beyond its points has died out. Else the sums of half of the keys, equal ones merged; and where these are too
many, a longer line with the kink smoothed and put right by the likelier sums, which bounds what is left.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparsehist.privacy.poisson_halves import most_of_the_stick, stick_from_halves
from sparsehist.privacy.poisson_sums import Law, in_order, likeliest, sums_of
from sparsehist.privacy.poisson_tilt import (
    ALL,
    WIDE,
    Kept,
    chernoff,
    far_share,
    line,
    near_counts,
    saddle,
    tilted_atoms,
)
from sparsehist.privacy.poisson_transform import Line, inverted, line_above, line_below
from sparsehist.privacy.poisson_window import SHAPE, bracket, listed_pairs, smoothed_sums, width_of

FloatArray = NDArray[np.float64]

_SHORT, _LONG, _LONGEST, _LAST = 1 << 17, 1 << 20, 1 << 22, 1 << 24  # points of a line
# Up to this many sums of half of the keys, they are listed; about two in three of the multisets are worth it.
_MOST_SUMS, _WORTH_TRYING = 2_500_000, 5_000_000
_MOST_PARTLY = 2_500_000
_MOST_PAIRS = {_LONG: 3_000_000, _LONGEST: 8_000_000}
_PAIRS, _FEW_KEYS = 4, 8  # up to so many keys half are two, and half are four
# From this mean on counts below mean / e are less likely than 1e-46 and kept apart; below it if they must be.
_FAR_FROM = 400.0
_LEAST_AT_SADDLE = 1e-3
# Twelve digits, less what rounding takes.
_WANTED, _ESTIMATED = 3e-13, 4e-13
_SMALL_DROP, _SMALLEST_DROP = 1e-16, 1e-19


def hockey_stick(mean: float, epsilon: float, keys: int, grid: int | None, *, sign: float, floor: float) -> float:
    """The expectation over outputs possible in both worlds.

    Args:
        mean: Of the noise.
        epsilon: At least 0.
        keys: Of a unit.
        grid: Points of the line of inversion for five keys or more, if its digits are enough.
        sign: 1 where counts rise, -1 where they fall.
        floor: What is added to the result: the error is measured against the sum.

    Returns:
        The expectation to twelve digits, or an upper bound where these cannot be had.
    """
    if sign < 0 and keys * math.log(mean) <= epsilon:
        return 0.0  # the largest loss of falling counts is that of a count of 1
    case = _Case(mean, epsilon, keys, sign, floor)
    if sign > 0 or mean < _FAR_FROM:
        value, reliable = _expected(case, grid, ALL)
        if reliable or sign > 0 or grid is not None:
            return value
    # Outputs without a far count, and at least what those with one add.
    kept = near_counts(mean)
    within = keys * math.log(mean / kept.lowest) > epsilon
    far = far_share(mean, keys, epsilon)
    value = far + (_expected(case, grid, kept)[0] if within else 0.0)
    if 1 < keys <= _PAIRS and far > _WANTED * (value + floor):
        exact = _from_halves(case, WIDE)
        if exact is not None:
            return exact[0]
    return min(value, chernoff(mean, keys, epsilon))


@dataclass(frozen=True)
class _Case:
    mean: float
    epsilon: float
    keys: int
    sign: float
    floor: float


def _expected(case: _Case, grid: int | None, kept: Kept) -> tuple[float, bool]:
    """The expectation over the counts kept, and whether the tilt has found what matters of it."""
    mean, keys = case.mean, case.keys
    if keys == 1:
        tilt = saddle(mean, case.epsilon, case.sign, kept)
        atoms, log_mass = tilted_atoms(mean, case.sign, tilt, kept)
        scale = float(np.logaddexp.reduce(log_mass))
        found = _stick(atoms, np.exp(log_mass - scale), case.epsilon, tilt)
        return found * math.exp(scale - tilt * case.epsilon), True
    half = keys - keys // 2
    # The losses of one key are at least those within three standard deviations.
    few = keys <= _FEW_KEYS and math.comb(int(6.0 * math.sqrt(mean)) + half, half) <= _WORTH_TRYING
    if few and (grid is None or keys <= _PAIRS):
        value = _from_halves(case, kept)
        if value is not None:
            return value
    return _on_a_line(case, grid, kept)


def _from_halves(case: _Case, kept: Kept) -> tuple[float, bool] | None:
    """By the sums of half of the keys; None if they are too many. Whether what is left out is little enough."""
    keys, epsilon = case.keys, case.epsilon
    tilt = saddle(case.mean, epsilon / keys, case.sign, kept)
    atoms, log_mass = tilted_atoms(case.mean, case.sign, tilt, kept)
    scale = float(np.logaddexp.reduce(log_mass))
    mass, factor = np.exp(log_mass - scale), math.exp(keys * scale - tilt * epsilon)
    if atoms.size == 1:
        return _stick(keys * atoms, mass, epsilon, tilt) * factor, True
    value, reliable = 0.0, False
    for drop in (0.0,) if kept == WIDE else (_SMALL_DROP, _SMALLEST_DROP):
        halves = _halves(atoms, mass, keys, drop, _MOST_SUMS)
        if halves is None:
            return None
        value = stick_from_halves(*halves, epsilon, tilt) * factor
        reliable = 2.0 * drop * most_of_the_stick(tilt) * factor <= _WANTED * (value + case.floor)
        if reliable:
            break
    return value, reliable


def _halves(
    atoms: FloatArray, mass: FloatArray, keys: int, drop: float, most: int, *, partly: bool = False
) -> tuple[Law, Law] | None:
    larger = sums_of(atoms, mass, keys - keys // 2, drop, most, partly=partly)
    if larger is None or keys % 2 == 0:
        return (larger, larger) if larger else None
    smaller = sums_of(atoms, mass, keys // 2, drop, most, partly=partly)
    return (larger, smaller) if smaller else None


def _on_a_line(case: _Case, grid: int | None, kept: Kept) -> tuple[float, bool]:
    mean, epsilon, keys, sign, floor = case.mean, case.epsilon, case.keys, case.sign, case.floor
    tilt = line(mean, keys, epsilon, sign, kept)
    atoms, log_mass = tilted_atoms(mean, sign, tilt, kept)
    scale = float(np.logaddexp.reduce(log_mass))
    cost = tilt * epsilon - keys * scale
    loss, log_mass = atoms - epsilon / keys, log_mass - scale
    if loss.size == 1:
        return _stick(keys * loss, np.exp(log_mass), 0.0, tilt) * math.exp(-cost), True
    if tilt > 0.0:
        along, offset = line_above(loss, log_mass, keys, tilt, cost), 0.0
    else:  # the sum over the line is less what keeps the expectation from all that is possible
        along = line_below(loss, log_mass, keys, tilt)
        offset = 1.0 if sign > 0 else math.exp(keys * math.log1p(-math.exp(-mean)))
    if along is None:
        return offset, True
    if grid is not None:
        return max(0.0, offset + inverted(along, grid)[0] * math.exp(-cost)), True
    # Where the rest is past all floats only its own digits are asked for.
    above_it = (offset + floor) * math.exp(cost) if cost < 700.0 else 0.0
    value, beyond = inverted(along, _SHORT, above_it)
    wanted = _ESTIMATED * (abs(value) + above_it)
    # What is beyond falls with the power 3/2 of the points.
    if wanted < beyond < wanted * (_LAST / _SHORT) ** 1.5:
        value, beyond = inverted(along, _LAST, above_it)
    if beyond > wanted:
        exact = _from_halves(case, kept) if keys > _FEW_KEYS else None
        if exact is not None:
            return exact
        value = _between(along, above_it)
    # At a saddle point it is near 1 / (tilt (tilt + 1) spread).
    found = abs(value) * abs(tilt * (tilt + 1.0)) * along.spread() > _LEAST_AT_SADDLE
    negligible = offset + floor > 0.0 and cost + math.log(offset + floor) > 0.0
    return max(0.0, offset + value * math.exp(-cost)), found or negligible


def _between(along: Line, floor: float) -> float:
    """The sum over a line whose moments die out too late: between bounds, or the upper one if these stay apart."""
    halves: tuple[Law, Law] | None = None
    for points in (_LONG, _LONGEST):
        smoothed = smoothed_sums(along, points)
        found = bracket(smoothed, np.zeros(3))
        wanted = _WANTED * (abs(found.value) + floor)
        # What is listed narrows the bracket by as much as it has of the probability.
        apart = max(found.upper - found.lower, _smooth(along, points) * abs(found.value))
        missing = min(0.1, wanted / apart) / 4.0
        most = _MOST_PARTLY // max(1, along.keys // 10)
        if points == _LONG:
            halves = _halves(along.loss, along.mass, along.keys, missing, most, partly=True)
            halves = (in_order(halves[0]), in_order(halves[1])) if halves else None
            whole = float(along.mass.sum()) ** (along.keys - along.keys // 2)
            if halves is None or whole - float(halves[0][1].sum()) > 8.0 * missing:
                continue
        added = _added(along, halves, points, missing) if halves else None
        if added is not None:
            found = bracket(smoothed, added)
        if min(found.unsettled, found.upper - found.lower) <= wanted:
            return found.value
    return found.upper


def _smooth(along: Line, points: int) -> float:
    """How far apart the bounds would be for a smooth law, as a part of the value."""
    return 3.0 / 2.0 * abs(along.tilt * (along.tilt + 1.0)) * width_of(along, points) ** 2 / SHAPE


def _added(along: Line, halves: tuple[Law, Law], points: int, missing: float) -> FloatArray | None:
    """Over the likeliest pairs, as many as are worth the time; with the last points more are left out if need be."""
    most = _MOST_PARTLY
    while True:
        larger, smaller = (likeliest(half, missing, most) for half in halves)
        added = listed_pairs(along, (larger, smaller), points, _MOST_PAIRS[points])
        if added is not None or points < _LONGEST:
            return added
        most = max(larger[0].size, smaller[0].size) // 2


def _stick(loss: FloatArray, mass: FloatArray, epsilon: float, tilt: float) -> float:
    """Sum of mass * e**(-tilt (loss - epsilon)) * (1 - e**(epsilon - loss)) over losses above epsilon."""
    above = loss > epsilon
    excess = loss[above] - epsilon
    return float(np.sum(mass[above] * np.exp(-tilt * excess) * -np.expm1(-excess)))
