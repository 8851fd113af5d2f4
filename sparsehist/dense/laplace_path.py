"""Laplace noise at all levels of an interval, stored as the jumps of the noise path.

Towards coarser levels, the noise jumps at rate 2/level (per unit of level). Each jump adds a Laplace draw of scale
sensitivity/level. To extend a path towards finer levels, noise x jumps at rate 1/level + |x|/sensitivity. The
noise y after the jump has a density proportional to exp(-level (|y| + |x - y|)/sensitivity).

Source: [KHP section 3.4], jumps by eq. (22). Papers: [ARNP Figure 1]; [KHP Thm 1, section 3.4].
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from scipy.special import wrightomega

from sparsehist.errors import DeclarationError, LevelOrderError, shown
from sparsehist.noise.integer_laws import poisson
from sparsehist.privacy.levels import Level, as_level, level_float, level_text
from sparsehist.typing import FloatArray, Generator, IntArray, secret


@secret
class Jumps(NamedTuple):
    """The m jumps of a Laplace path, as arrays of shape (m,): coordinate, level, and noise just below that level."""

    coordinate: IntArray
    levels: FloatArray
    values: FloatArray


class LaplacePath:
    """Secret Laplace noise of n independent coordinates at all levels of an interval; `repr` does not show the noise.

    `sample_laplace_path` draws a path. Noise is constant between jumps, so the path gives exact noise at every level.
    """

    __slots__ = ("_coarsest", "_finest", "_finest_values", "_jumps", "_sensitivity")

    def __init__(
        self, sensitivity: float, coarsest: Fraction, finest: Fraction, finest_values: FloatArray, jumps: Jumps
    ) -> None:
        """Store the parts of a path. `jumps` must be sorted by coordinate, then by descending level."""
        self._sensitivity, self._coarsest, self._finest = sensitivity, coarsest, finest
        self._finest_values, self._jumps = finest_values, jumps

    def __len__(self) -> int:
        return int(self._finest_values.size)

    def __repr__(self) -> str:
        interval = f"{level_text(self._coarsest)} to {level_text(self._finest)}"
        return f"LaplacePath({len(self)} coordinates, levels {interval}, sensitivity {self._sensitivity:g})"

    @property
    def interval(self) -> tuple[Fraction, Fraction]:
        """The coarsest and the finest level of the path."""
        return self._coarsest, self._finest

    def jumps(self) -> tuple[IntArray, FloatArray, FloatArray]:
        """Return coordinate, level and size of all m jumps, sorted by coordinate, then by descending level.

        Arrays have shape (m,). The noise at a level is the noise at the finest level plus all jumps between the two.
        """
        before = np.concatenate([[0.0], self._jumps.values[:-1]])
        first = np.diff(self._jumps.coordinate, prepend=-1) != 0
        before[first] = self._finest_values[self._jumps.coordinate[first]]
        return self._jumps.coordinate.copy(), self._jumps.levels.copy(), self._jumps.values - before

    def evaluate(self, level: Level) -> FloatArray:
        """Return the noise at a level, in counts; shape (n,). Raise LevelOrderError for levels outside `interval`."""
        target = as_level(level)
        if not self._coarsest <= target <= self._finest:
            raise LevelOrderError(f"the path does not cover this level; extend it first: {level_text(target)}")
        if target == self._finest:
            return self._finest_values.copy()
        past = self._jumps.levels >= level_float(target)
        done = np.bincount(self._jumps.coordinate[past], minlength=len(self))
        last = np.searchsorted(self._jumps.coordinate, np.arange(len(self))) + done - 1
        noise = self._finest_values.copy()
        moved = done > 0
        noise[moved] = self._jumps.values[last[moved]]
        return noise

    def extend(self, level: Level, *, rng: Generator) -> LaplacePath:
        """Return this path, extended to `level`. Raise LevelOrderError if the path already covers the level."""
        target, sensitivity, fine = as_level(level), self._sensitivity, self._finest_values
        if target < self._coarsest:
            new = _jumps_to_coarser(self.evaluate(self._coarsest), sensitivity, target, self._coarsest, rng=rng)
        elif target > self._finest:
            fine, new = _jumps_to_finer(fine, sensitivity, self._finest, target, rng=rng)
        else:
            raise LevelOrderError(f"the path already covers this level; use evaluate() instead: {level_text(target)}")
        both = Jumps(*(np.concatenate(pair) for pair in zip(self._jumps, new, strict=True)))
        order = np.lexsort((-both.levels, both.coordinate))
        ordered = Jumps(both.coordinate[order], both.levels[order], both.values[order])
        return LaplacePath(sensitivity, min(target, self._coarsest), max(target, self._finest), fine, ordered)


def sample_laplace_path(
    size: int, coarsest: Level, finest: Level, *, sensitivity: float = 1.0, rng: Generator
) -> LaplacePath:
    """Draw Laplace noise for `size` coordinates at all levels of an interval.

    Args:
        size: Number of coordinates; at least 1.
        coarsest: Smallest epsilon of the interval.
        finest: Largest epsilon of the interval; above `coarsest`.
        sensitivity: L1 sensitivity of the vector, in counts.
        rng: Randomness; from `sparsehist.entropy` outside tests.

    Returns:
        The paths; on average 2 ln(finest/coarsest) jumps per coordinate. Draws are doubles.

    Raises:
        DeclarationError: If size or sensitivity are not positive, or the levels not in order.

    Example:
        >>> from sparsehist import entropy
        >>> path = sample_laplace_path(3, "0.1", 10, rng=entropy.seeded(1))
        >>> path
        LaplacePath(3 coordinates, levels 0.1 to 10, sensitivity 1)
        >>> path.evaluate("0.5").shape
        (3,)
    """
    if size < 1:
        raise DeclarationError(f"size must be at least 1, got {shown(size)}")
    if not (math.isfinite(sensitivity) and sensitivity > 0):
        raise DeclarationError(f"sensitivity must be positive and finite, got {shown(sensitivity)}")
    low, high = as_level(coarsest), as_level(finest)
    if not low < high:
        raise LevelOrderError(f"coarsest must be below finest, got {shown(coarsest)} and {shown(finest)}")
    start = _laplace_draws(size, rng=rng) * (sensitivity / level_float(high))
    jumps = _jumps_to_coarser(start, sensitivity, low, high, rng=rng)
    return LaplacePath(float(sensitivity), low, high, start, jumps)


def _laplace_draws(size: int, *, rng: Generator) -> FloatArray:
    return rng.standard_exponential(size) - rng.standard_exponential(size)


def _jumps_to_coarser(
    start: FloatArray, sensitivity: float, coarsest: Fraction, finest: Fraction, *, rng: Generator
) -> Jumps:
    """Draw the jumps between two levels, given noise at `finest`. Sort by coordinate, then by descending level."""
    span = math.log(finest / coarsest)
    counts = poisson(2.0 * span, start.size, rng=rng)
    coordinate = np.repeat(np.arange(start.size), counts)
    levels = level_float(finest) * np.exp(-span * rng.random(coordinate.size))
    levels = np.clip(levels, level_float(coarsest), np.nextafter(level_float(finest), 0.0))
    levels = levels[np.lexsort((-levels, coordinate))]
    sizes = _laplace_draws(coordinate.size, rng=rng) * (sensitivity / levels)
    return Jumps(coordinate, levels, _accumulated(start, counts, sizes))


def _accumulated(start: FloatArray, counts: IntArray, sizes: FloatArray) -> FloatArray:
    """Return the noise after each jump: `start` plus running sums of jump sizes within each coordinate."""
    values, running = np.empty_like(sizes), start.copy()
    first = np.cumsum(counts) - counts
    for rank in range(int(counts.max(initial=0))):
        active = np.flatnonzero(counts > rank)
        running[active] += sizes[first[active] + rank]
        values[first[active] + rank] = running[active]
    return values


def _jumps_to_finer(
    start: FloatArray, sensitivity: float, coarsest: Fraction, finest: Fraction, *, rng: Generator
) -> tuple[FloatArray, Jumps]:
    """Draw the noise at `finest` and the jumps between the two levels, given the noise at `coarsest`."""
    end, values = level_float(finest), start.copy()
    active, here = np.arange(start.size), np.full(start.size, level_float(coarsest))
    coordinates, levels, before = [], [], []
    while active.size:
        scaled = np.abs(values[active]) / sensitivity
        jump = _next_jump(scaled, here, rng.standard_exponential(active.size))
        moving = jump < end
        active, here = active[moving], jump[moving]
        coordinates.append(active)
        levels.append(here)
        before.append(values[active])
        values[active] = _after_jump(values[active], here / sensitivity, rng=rng)
    return values, Jumps(np.concatenate(coordinates), np.concatenate(levels), np.concatenate(before))


def _next_jump(distance: FloatArray, level: FloatArray, clock: FloatArray) -> FloatArray:
    """Return the level of the next jump above `level`: the t for which ln(t/level) + (t - level) * distance = clock.

    `distance` is |noise| / sensitivity, and `clock` is a standard exponential variate.
    """
    # With w = t * distance and product = level * distance, solve w + ln w = product + ln(product) + clock for w.
    # Wright's omega function gives w, but underflows if product < 1e-280. Then t is nearly level * e**clock.
    product = level * distance
    far = product > 1e-280
    ends = level * np.exp(clock)
    right = product[far] + np.log(product[far]) + clock[far]
    ends[far] = wrightomega(right) / distance[far]
    return np.maximum(ends, level)


def _after_jump(value: FloatArray, rate: FloatArray, *, rng: Generator) -> FloatArray:
    """Draw the noise y after a jump from `value`, with density proportional to exp(-rate (|y| + |value - y|))."""
    inside = rng.random(value.size) * (1.0 + rate * np.abs(value)) >= 1.0
    beyond = rng.standard_exponential(value.size) / (2.0 * rate)
    away = rng.random(value.size) < 0.5
    sign = np.where(value < 0, -1.0, 1.0)
    outside = np.where(away, value + sign * beyond, -sign * beyond)
    return np.where(inside, value * rng.random(value.size), outside)
