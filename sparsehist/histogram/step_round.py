"""For running counts, draw the cells that become tracked at a release point (step and level), and their noise.

Cells are drawn lazily or explicitly, as in `sparsehist.histogram.round`. Noise at a past point is a multiple of the
noise at the new point, plus an independent residual. The plain and the upper path of a candidate use the same
residual. A key that is empty at a step can be a false key there, even if units touch it later. If only keys that stay
empty could be false keys, each false key would reveal that no unit ever touches it.

Source: our own derivation (docs/mathematics.md, running counts); association is Pitt 1982.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from sparsehist.errors import LawError, ThresholdError
from sparsehist.histogram.binomial import MOST_SUCCESSES, binomial
from sparsehist.histogram.history import RAREST, history_of, least_rare, rarity
from sparsehist.histogram.round import draw_inside, race
from sparsehist.noise.family import NoiseArray
from sparsehist.noise.gaussian import Gaussian
from sparsehist.noise.over_steps import Factor, Point, StepNoise
from sparsehist.typing import BoolArray, FloatArray, Generator, IntArray, secret

_BATCH = 1 << 22  # largest number of Gaussian draws in one batch
CountsAt = Callable[[IntArray], IntArray]
"""A function from the indices of q keys to their counts at every released step, ascending; shape (steps, q)."""


@dataclass(frozen=True)
class PointHistory:
    """The distinct release points of a noise path, in order of first release, with the lowest threshold of each.

    If `hides_empty` is set (for open domains), a key is never published at points where its count is 0.
    """

    points: tuple[Point, ...] = ()
    thresholds: tuple[float, ...] = ()
    hides_empty: bool = False

    @property
    def steps(self) -> tuple[int, ...]:
        """The distinct steps of all release points, ascending."""
        return tuple(sorted({point.step for point in self.points}))

    def with_release(self, point: Point, threshold: float) -> PointHistory:
        if point not in self.points:
            return replace(self, points=(*self.points, point), thresholds=(*self.thresholds, threshold))
        at = self.points.index(point)
        lowest = min(threshold, self.thresholds[at])
        return replace(self, thresholds=(*self.thresholds[:at], lowest, *self.thresholds[at + 1 :]))

    def bounds(self, counts: IntArray, steps: Sequence[int]) -> FloatArray:
        """Return the largest possible noise of untracked cells, given counts at `steps`; shape (points, cells)."""
        place = {step: i for i, step in enumerate(steps)}
        at = counts[[place[point.step] for point in self.points]]
        bounds: FloatArray = np.array(self.thresholds, np.float64)[:, np.newaxis] - at.astype(np.float64)
        if self.hides_empty:
            bounds[at == 0] = np.inf
        return bounds

    def rarity(self, noise: StepNoise, counts: IntArray | FloatArray) -> FloatArray:
        """Return an upper bound on -ln P[no release published the cell], given counts of shape (steps, cells)."""
        total = np.zeros(counts.shape[1])
        released = list(zip(self.points, self.thresholds, strict=True))
        for step, at in zip(self.steps, counts, strict=True):
            of_step = history_of([(point.level, threshold) for point, threshold in released if point.step == step])
            part = rarity(noise.at(step), of_step, at.astype(np.float64))
            total += np.where(at > 0, part, 0.0) if self.hides_empty else part
        return total

    def draws_all_empty(self, noise: StepNoise) -> bool:
        """Return whether the last release's round must explicitly draw all keys that are empty at every step."""
        return not self.hides_empty and self._rarity_of_empty(noise) > RAREST

    def largest_tail(self, noise: StepNoise) -> float:
        """Return the largest P[Z > threshold] for which the next round need not draw all empty keys explicitly."""
        return -math.expm1(min(0.0, self._rarity_of_empty(noise) - RAREST))

    def _rarity_of_empty(self, noise: StepNoise) -> float:
        return float(self.rarity(noise, np.zeros((len(self.steps), 1), np.int64))[0])


@secret
class StepRound(NamedTuple):
    """The secret noise of previously tracked cells at the new release point, and the newly tracked cells.

    In `cells`, -1 stands for an untracked cell that is empty at all steps; the caller chooses the cell uniformly.
    """

    tracked: FloatArray  # shape (t,)
    cells: IntArray  # index of each newly tracked cell in `counts`, or -1 if it is empty; shape (q,)
    paths: FloatArray  # noise of newly tracked cells at all release points; shape (points, q)
    exceeds: BoolArray  # whether count + noise of each newly tracked cell exceeds the new threshold; shape (q,)


def draw_step_round(
    noise: StepNoise,
    past: PointHistory,
    point: Point,
    threshold: float,
    *,
    tracked: FloatArray,
    counts: IntArray,
    largest: IntArray,
    counts_at: CountsAt,
    n_empty: int,
    rng: Generator,
) -> StepRound:
    """Draw the noise of tracked cells at a new release point, and the whole noise paths of cells that become tracked.

    `tracked`, shape (m, t), is the noise of tracked cells at the m points of `past`. For the n untracked keys that
    some unit touches, `counts` and `largest`, of shape (n,), are the counts at the step of `point` and at the last
    step; `counts_at` returns the counts at all released steps. `n_empty` other keys are empty at all steps.
    """
    history = past.with_release(point, threshold)
    row = history.points.index(point)
    factor = noise.factor(history.points)
    at_point = tracked[row] if row < len(past.points) else factor.given(row, tracked, rng=rng)
    chosen = _candidates(noise.at(point.step), history, point, threshold, counts, rng=rng)
    near = _near_explicit(noise, history, largest)
    looked = np.union1d(chosen, near)
    looked_at = counts_at(looked) if looked.size else np.zeros((len(history.steps), 0), np.int64)
    # Running counts are largest at the last step, so only keys with large last counts can have an improbable history.
    explicit = near[history.rarity(noise, looked_at[:, np.searchsorted(looked, near)]) > RAREST]
    candidates = np.setdiff1d(chosen, explicit, assume_unique=True)
    every_empty = history.draws_all_empty(noise)
    if every_empty and not n_empty <= MOST_SUCCESSES:
        raise ThresholdError(f"raise the thresholds: the number of cells to draw would exceed {MOST_SUCCESSES:.2g}")
    if not history.hides_empty and not every_empty:
        log_exceed = noise.at(point.step).log_tail(np.array([threshold]), point.level)
        candidates = np.append(candidates, np.full(binomial([n_empty], log_exceed, rng=rng)[0], -1))
    elif every_empty:
        explicit = np.append(explicit, np.full(n_empty, -1))
    draw = _Draw(noise, past, history, factor, row, threshold, looked, looked_at)
    batch = max(1, _BATCH // len(history.points))
    parts = [draw.lazily(candidates[i : i + batch], rng=rng) for i in range(0, candidates.size, batch)]
    parts += [draw.explicitly(explicit[i : i + batch], rng=rng) for i in range(0, explicit.size, batch)]
    none = np.empty(0, np.int64), np.empty((len(history.points), 0)), np.empty(0, bool)
    cells, paths, exceeds = zip(none, *parts, strict=True)
    return StepRound(at_point, np.concatenate(cells), np.concatenate(paths, axis=1), np.concatenate(exceeds))


def _near_explicit(noise: StepNoise, history: PointHistory, largest: IntArray) -> IntArray:
    """Return the indices of keys whose history would be improbable if their count at all steps were `largest`."""
    steps = len(history.steps)

    def rarity_at(counts: FloatArray) -> FloatArray:
        return history.rarity(noise, np.broadcast_to(counts, (steps, counts.size)))

    return np.flatnonzero(largest >= least_rare(rarity_at, largest.astype(np.float64)))


def _candidates(
    family: Gaussian, history: PointHistory, point: Point, threshold: float, counts: IntArray, *, rng: Generator
) -> IntArray:
    """Draw for each key whether count + noise exceeds the threshold. Return the indices of keys that exceed it."""
    distinct, group = np.unique(counts, return_inverse=True)
    log_exceed = family.log_tail(threshold - distinct, point.level)
    if history.hides_empty:
        log_exceed[distinct == 0] = -np.inf
    return np.flatnonzero(rng.standard_exponential(counts.size) > -log_exceed[group])


@dataclass(frozen=True, repr=False)
class _Draw:
    noise: StepNoise
    past: PointHistory
    history: PointHistory
    factor: Factor
    row: int
    threshold: float
    looked: IntArray
    looked_at: IntArray

    def lazily(self, cells: IntArray, *, rng: Generator) -> tuple[IntArray, FloatArray, BoolArray]:
        point = self.history.points[self.row]
        family, counts = self.noise.at(point.step), self._counts(cells)
        margins = self.threshold - counts[self.history.steps.index(point.step)]
        paths = np.empty((len(self.history.points), cells.size))
        if not self.past.points:
            paths[0] = family.sample_tail(cells.size, margins, point.level, rng=rng)
            return cells, paths, np.ones(cells.size, bool)
        bounds = self.past.bounds(counts, self.history.steps)
        n_past = len(self.past.points)
        ratios = self.noise.ratios(self.history.points, point)[:, np.newaxis]

        def carry(plain: NoiseArray, exceeding: NoiseArray, runner: IntArray) -> tuple[BoolArray, FloatArray]:
            drawn = self.factor.draw(runner.size, rng=rng)
            own = drawn[self.row].copy()
            lower, upper = (drawn + ratios * (value - own) for value in (plain, exceeding))
            lower[self.row], upper[self.row] = plain, exceeding
            if not (upper >= lower).all():
                raise LawError("running counts need noise without negative covariances between release points")
            own_bounds = bounds[:, runner]
            return np.stack([np.all(path[:n_past] <= own_bounds, axis=0) for path in (lower, upper)]), upper

        log_exceed = family.log_tail(margins, point.level)
        accepted = race(family, point.level, margins, log_exceed, carry, paths, rng=rng)
        return cells[accepted], paths[:, accepted], np.ones(int(accepted.sum()), bool)

    def explicitly(self, cells: IntArray, *, rng: Generator) -> tuple[IntArray, FloatArray, BoolArray]:
        """Draw the noise of each cell at all points, by rejection sampling within its bounds at past points."""
        counts = self._counts(cells)
        bounds = np.full((len(self.history.points), cells.size), np.inf)
        if self.past.points:
            bounds[: len(self.past.points)] = self.past.bounds(counts, self.history.steps)
        paths = np.empty_like(bounds)
        draw_inside(lambda size: self.factor.draw(size, rng=rng), bounds, paths)
        at = counts[self.history.steps.index(self.history.points[self.row].step)]
        exceeds = paths[self.row] > self.threshold - at
        return cells, paths, exceeds & (at > 0) if self.history.hides_empty else exceeds

    def _counts(self, cells: IntArray) -> IntArray:
        """Return the counts of cells at each step, shape (steps, cells); 0 for cells that are empty at all steps."""
        counts = np.zeros((len(self.history.steps), cells.size), np.int64)
        listed = cells >= 0
        counts[:, listed] = self.looked_at[:, np.searchsorted(self.looked, cells[listed])]
        return counts
