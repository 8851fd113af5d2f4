"""The jumps of the Laplace process, drawn towards coarser or towards finer levels; see `laplace_path`."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from scipy.special import wrightomega

from sparsehist.noise.integer_laws import poisson
from sparsehist.privacy.levels import level_float
from sparsehist.typing import AnyArray, FloatArray, Generator, IntArray, secret


@secret
class Jumps(NamedTuple):
    """Jumps of many coordinates in one flat list.

    Attributes:
        coordinate: That jumps; shape (m,), int64.
        levels: Of the jumps; shape (m,).
        values: Noise on the coarse side of the jump, in counts; shape (m,). Secret.
    """

    coordinate: IntArray
    levels: FloatArray
    values: FloatArray

    def take(self, chosen: AnyArray) -> Jumps:
        """Select jumps by mask or by index."""
        return Jumps(self.coordinate[chosen], self.levels[chosen], self.values[chosen])


def laplace_draws(size: int, *, rng: Generator) -> FloatArray:
    """Draw Laplace noise of scale 1; shape (size,)."""
    return rng.standard_exponential(size) - rng.standard_exponential(size)


def jumps_to_coarser(
    start: FloatArray, sensitivity: float, coarsest: Fraction, finest: Fraction, *, rng: Generator
) -> Jumps:
    """Draw the jumps on [coarsest, finest) from the noise at `finest`; sorted by coordinate, then fine to coarse."""
    span = math.log(finest / coarsest)
    counts = poisson(2.0 * span, start.size, rng=rng)
    coordinate = np.repeat(np.arange(start.size), counts)
    levels = level_float(finest) * np.exp(-span * rng.random(coordinate.size))
    levels = np.clip(levels, level_float(coarsest), np.nextafter(level_float(finest), 0.0))
    levels = levels[np.lexsort((-levels, coordinate))]
    sizes = laplace_draws(coordinate.size, rng=rng) * (sensitivity / levels)
    return Jumps(coordinate, levels, _accumulated(start, counts, sizes))


def _accumulated(start: FloatArray, counts: IntArray, sizes: FloatArray) -> FloatArray:
    """Running sums within each coordinate: one pass for first jumps, one for second jumps, and so on."""
    values, running = np.empty_like(sizes), start.copy()
    first = np.cumsum(counts) - counts
    for rank in range(int(counts.max(initial=0))):
        active = np.flatnonzero(counts > rank)
        running[active] += sizes[first[active] + rank]
        values[first[active] + rank] = running[active]
    return values


def jumps_to_finer(
    start: FloatArray, sensitivity: float, coarsest: Fraction, finest: Fraction, *, rng: Generator
) -> tuple[FloatArray, Jumps]:
    """Draw the path from `coarsest` to `finest`: noise at `finest`, and jumps with the value on their coarse side."""
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
    """The level t > level at which ln(t/level) + (t - level) distance reaches the clock."""
    # With w = t distance this is w + ln w = level distance + ln(level distance) + clock: Wright's omega.
    product = level * distance
    # For smaller products the distance does not matter, and omega would underflow.
    far = product > 1e-280
    ends = level * np.exp(clock)
    right = product[far] + np.log(product[far]) + clock[far]
    ends[far] = wrightomega(right) / distance[far]
    return np.maximum(ends, level)


def _after_jump(value: FloatArray, rate: FloatArray, *, rng: Generator) -> FloatArray:
    """Draw y with density proportional to exp(-rate (|y| + |value - y|))."""
    inside = rng.random(value.size) * (1.0 + rate * np.abs(value)) >= 1.0
    beyond = rng.standard_exponential(value.size) / (2.0 * rate)
    away = rng.random(value.size) < 0.5
    sign = np.where(value < 0, -1.0, 1.0)
    outside = np.where(away, value + sign * beyond, -sign * beyond)
    return np.where(inside, value * rng.random(value.size), outside)
