"""One round of running counts: draw which cells become tracked at a release point, and their noise; exact.

Cells are raced or drawn explicitly as in `sparsehist.histogram.round`. Noise at a past point is the noise at the new
point times Cov/Var, plus an independent residual that both racers share. A key that is empty at a step may be
published there even if it has units later: otherwise a false key would reveal that it has no units later.

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

# Largest number of draws in one call.
_BATCH = 1 << 22
CountsAt = Callable[[IntArray], IntArray]
"""A function from q listed keys to their counts at the distinct steps of all points, ascending; shape (steps, q)."""


@dataclass(frozen=True)
class PointHistory:
    """The distinct release points of a path, in order of first release, each with its lowest threshold.

    With `hides_empty` (open domains), a key is not drawn at release points where its count is 0.
    """

    points: tuple[Point, ...] = ()
    thresholds: tuple[float, ...] = ()
    hides_empty: bool = False

    @property
    def steps(self) -> tuple[int, ...]:
        """The distinct steps, ascending."""
        return tuple(sorted({point.step for point in self.points}))

    def with_release(self, point: Point, threshold: float) -> PointHistory:
        """Return the history after one more release."""
        if point not in self.points:
            return replace(self, points=(*self.points, point), thresholds=(*self.thresholds, threshold))
        at = self.points.index(point)
        lowest = min(threshold, self.thresholds[at])
        return replace(self, thresholds=(*self.thresholds[:at], lowest, *self.thresholds[at + 1 :]))

    def bounds(self, counts: IntArray, steps: Sequence[int]) -> FloatArray:
        """Return the largest untracked noise at each point; `counts` by step and cell; shape (m, cells)."""
        place = {step: i for i, step in enumerate(steps)}
        at = counts[[place[point.step] for point in self.points]]
        bounds: FloatArray = np.array(self.thresholds, np.float64)[:, np.newaxis] - at.astype(np.float64)
        if self.hides_empty:
            bounds[at == 0] = np.inf
        return bounds

    def rarity(self, noise: StepNoise, counts: IntArray | FloatArray) -> FloatArray:
        """Bound -ln P[a cell with these counts never exceeded]; `counts` by step and cell; shape (cells,)."""
        total = np.zeros(counts.shape[1])
        released = list(zip(self.points, self.thresholds, strict=True))
        for step, at in zip(self.steps, counts, strict=True):
            of_step = history_of([(point.level, threshold) for point, threshold in released if point.step == step])
            part = rarity(noise.at(step), of_step, at.astype(np.float64))
            total += np.where(at > 0, part, 0.0) if self.hides_empty else part
        return total

    def draws_all_empty(self, noise: StepNoise) -> bool:
        """Return whether, after these releases, all keys that are empty at every step must be drawn explicitly."""
        return not self.hides_empty and self._rarity_of_empty(noise) > RAREST

    def largest_tail(self, noise: StepNoise) -> float:
        """Return the largest P[N > threshold] that lets empty keys be drawn lazily after one more release."""
        return -math.expm1(min(0.0, self._rarity_of_empty(noise) - RAREST))

    def _rarity_of_empty(self, noise: StepNoise) -> float:
        return float(self.rarity(noise, np.zeros((len(self.steps), 1), np.int64))[0])


@secret
class StepRound(NamedTuple):
    """Noise at the new point for cells tracked before, and the newly tracked cells. Secret.

    A cell that is empty at all steps is -1 in `cells`; the caller chooses uniformly which empty cell it is.
    """

    tracked: FloatArray  # shape (t,)
    cells: IntArray  # cells of the catalogue that are not tracked; shape (q,)
    paths: FloatArray  # noise at all points, past ones first; shape (points, q)
    exceeds: BoolArray  # whether count + noise exceeds the threshold; shape (q,)


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
    """Draw one round: noise of tracked cells, and newly tracked cells with their whole paths.

    `tracked` is noise at the points of `past`, in that order, shape (m, t). `counts` and `largest`, shape (n,), are
    counts of the untracked keys that have units: at the step of the point, and at the last step of all points.
    `n_empty` more keys are empty at all steps.
    """
    history = past.with_release(point, threshold)
    row = history.points.index(point)
    factor = noise.factor(history.points)
    at_point = tracked[row] if row < len(past.points) else factor.given(row, tracked, rng=rng)
    chosen = _candidates(noise.at(point.step), history, point, threshold, counts, rng=rng)
    near = _near_explicit(noise, history, largest)
    looked = np.union1d(chosen, near)
    looked_at = counts_at(looked) if looked.size else np.zeros((len(history.steps), 0), np.int64)
    # Counts never decrease, so only keys with large counts can have a history that is too rare.
    explicit = near[history.rarity(noise, looked_at[:, np.searchsorted(looked, near)]) > RAREST]
    candidates = np.setdiff1d(chosen, explicit, assume_unique=True)
    every_empty = history.draws_all_empty(noise)
    if every_empty and not n_empty <= MOST_SUCCESSES:
        raise ThresholdError(f"the thresholds would let more than {MOST_SUCCESSES:.2g} cells through; raise them")
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
    """Return the listed keys whose history would be too rare if every point had the key's largest count."""
    steps = len(history.steps)

    def rarity_at(counts: FloatArray) -> FloatArray:
        return history.rarity(noise, np.broadcast_to(counts, (steps, counts.size)))

    return np.flatnonzero(largest >= least_rare(rarity_at, largest.astype(np.float64)))


def _candidates(
    family: Gaussian, history: PointHistory, point: Point, threshold: float, counts: IntArray, *, rng: Generator
) -> IntArray:
    """Draw whether each listed key exceeds; return the indices of those that do."""
    distinct, group = np.unique(counts, return_inverse=True)
    log_exceed = family.log_tail(threshold - distinct, point.level)
    if history.hides_empty:
        log_exceed[distinct == 0] = -np.inf
    return np.flatnonzero(rng.standard_exponential(counts.size) > -log_exceed[group])


@dataclass(frozen=True, repr=False)
class _Draw:
    """Parameters of a round."""

    noise: StepNoise
    past: PointHistory
    history: PointHistory
    factor: Factor
    row: int
    threshold: float
    looked: IntArray
    looked_at: IntArray

    def lazily(self, cells: IntArray, *, rng: Generator) -> tuple[IntArray, FloatArray, BoolArray]:
        """Return the candidates that win their race."""
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
                raise LawError("a step of running counts reversed an order, so that cells cannot be drawn lazily")
            own_bounds = bounds[:, runner]
            return np.stack([np.all(path[:n_past] <= own_bounds, axis=0) for path in (lower, upper)]), upper

        log_exceed = family.log_tail(margins, point.level)
        accepted = race(family, point.level, margins, log_exceed, carry, paths, rng=rng)
        return cells[accepted], paths[:, accepted], np.ones(int(accepted.sum()), bool)

    def explicitly(self, cells: IntArray, *, rng: Generator) -> tuple[IntArray, FloatArray, BoolArray]:
        """Draw the noise of each cell at all points; repeat until the noise at past points is within its bounds."""
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
        """Return counts by step and cell; 0 for cells that are empty at all steps."""
        counts = np.zeros((len(self.history.steps), cells.size), np.int64)
        listed = cells >= 0
        counts[:, listed] = self.looked_at[:, np.searchsorted(self.looked, cells[listed])]
        return counts
