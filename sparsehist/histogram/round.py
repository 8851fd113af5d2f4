"""Draw the cells that become tracked in a round, and their noise, from the exact distribution.

Untracked cells with the same count form a *group*. They have the same *history*: at every past level, their noise
was at most a bound. *Lazy* drawing starts as if there were no history: it draws the number of cells of the group that
exceed the new threshold, from a binomial distribution. For each of these candidates, it draws two noise paths from
the same random numbers: a plain path, and an upper path that exceeds the new threshold. If the upper path fits the
history, the candidate is accepted with this path. If only the plain path fits, the candidate is rejected. If neither
fits, both are drawn again. So the candidate is accepted with the correct probability, P[upper path fits] / P[plain
path fits]. *Explicit* drawing draws all cells of a group, by rejection sampling given the history. It is used if the
history is improbable (`sparsehist.histogram.history`). Both take at most 20 tries per cell on average.

Source: our own derivation (docs/mathematics.md, sparse histograms). Papers: [ARNP Lemma 5.5, Lemma 5.6, Lemma 5.7,
Alg. 6].
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, TypeAlias

import numpy as np

from sparsehist.errors import DeclarationError, InputError, LawError, ThresholdError, as_mapping, read_each
from sparsehist.histogram.binomial import MOST_SUCCESSES, as_sizes, binomial
from sparsehist.histogram.dense import noise_at_level
from sparsehist.histogram.history import RAREST, History, drawn_explicitly, history_of, rarity
from sparsehist.noise.family import Family, NoiseArray, just_above
from sparsehist.privacy.levels import Level, as_level
from sparsehist.typing import (
    ArrayLike,
    BoolArray,
    FloatArray,
    Generator,
    IntArray,
    float_array,
    float_entries,
    noise_array,
    secret,
    whole_number,
)

# Number of cells to draw at once. A cell temporarily needs about 8 bytes per level of its history.
_BATCH = 1 << 19
# If there are few cells, draw several paths per cell at once: one call with more draws is faster than several calls.
_FEW, _FEW_TRIES = 1 << 8, 4
_TRIES_AT_ONCE = 1 << 11
# A batch of cells: the noise path and group index of each, and whether its noisy count exceeds the new threshold.
_Part: TypeAlias = tuple[NoiseArray, IntArray, BoolArray]
# One draw for each cell: whether it decides the cell (accepts or rejects it), whether it accepts it, and the path.
_Attempts: TypeAlias = tuple[BoolArray, BoolArray, NoiseArray]
# A function that extends noise paths to past levels, given the plain and upper noise and the index of each candidate.
# It returns whether each plain and upper path fits the history, shape (2, candidates), and all upper paths.
Carry = Callable[[NoiseArray, NoiseArray, IntArray], tuple[BoolArray, NoiseArray]]


@secret
class NewlyTracked(NamedTuple):
    """The secret noise of the q cells that become tracked in a round.

    Attributes:
        values: Noise at the new level, in counts; shape (q,).
        paths: Noise at the level of every past release, in the order of the releases; shape (q, releases).
        group: Group index of each cell, ascending; shape (q,), int64.
        exceeds: Whether noise exceeds threshold - count; shape (q,), bool. The other cells must not be published.
    """

    values: NoiseArray
    paths: NoiseArray
    group: IntArray
    exceeds: BoolArray


def draw_exceeding(
    family: Family,
    past: Sequence[tuple[Level, float]],
    level: Level,
    threshold: float,
    n_untracked: int | Sequence[int] | IntArray,
    *,
    count: ArrayLike = 0,
    rng: Generator,
) -> NewlyTracked:
    """Draw the untracked cells that exceed the threshold of a new release, and all cells of explicitly drawn groups.

    Args:
        family: Noise family; must be monotone.
        past: (level, threshold) of every past release on this noise path, in any order. A cell of count c is
            untracked because its noise was at most threshold - c each time.
        level: The new level; it may be a past level.
        threshold: The effective threshold, in counts. A cell of count c exceeds it if noise is above threshold - c.
        n_untracked: Number of untracked cells of each group, or one number for all; integers of any size.
        count: True count of the cells of each group; scalar or one entry per group. Secret.
        rng: Randomness.

    Returns:
        The q cells that become tracked. In each group, these are the cells that exceed, or all cells. The caller
        chooses uniformly which cells of the group they are.

    Raises:
        DeclarationError: If the family is not monotone.
        InputError: If groups and counts differ in number, a number of cells is negative, or untracked cells have a
            history rarer than e**-3 by the bound of `sparsehist.histogram.history`: this function would have tracked
            such cells in an earlier release.
        ThresholdError: If more than 2**31 cells of one group would have to be drawn.

    Example:
        >>> from sparsehist import entropy, noise
        >>> drawn = draw_exceeding(noise.Gaussian(), [(0.1, 9.0)], 0.2, 8.0, 10**9, rng=entropy.seeded(1))
        >>> bool((drawn.values > 8).all() and (drawn.paths[:, 0] <= 9).all() and drawn.exceeds.all())
        True

    Source: our own derivation; it replaces [ARNP Alg. 6, Lemma 5.6].
    """
    if not family.monotone:
        raise DeclarationError(f"sparse rounds need a monotone noise family, got {family!r}")
    new_level = as_level(level)
    numbers, sizes, counts = _groups(n_untracked, count)
    history = history_of(past)
    margins = float_entries("threshold", threshold, 1)[0] - counts
    occupied = sizes > 0
    explicit = np.zeros(counts.size, bool)
    explicit[occupied] = drawn_explicitly(family, history_of([*past, (new_level, threshold)]), counts[occupied])
    # Earlier rounds drew all cells whose `rarity` exceeded RAREST; 1e-9 allows for rounding errors on other machines.
    if explicit.any() and (rarity(family, history, counts[explicit]) > RAREST * (1 + 1e-9)).any():
        raise InputError(
            "the history of a group of untracked cells is too improbable: an earlier round should have drawn all "
            "cells of the group; check the past releases and the numbers of untracked cells"
        )
    log_exceed = family.log_tail(margins, new_level)
    candidates = binomial(numbers, np.where(explicit, -np.inf, log_exceed), rng=rng)
    lazily = np.repeat(np.arange(candidates.size), candidates)
    whole = np.flatnonzero(explicit)
    if not sizes[whole].max(initial=0.0) <= MOST_SUCCESSES:
        raise ThresholdError(f"raise the thresholds: the number of cells to draw would exceed {MOST_SUCCESSES:.2g}")
    explicitly = np.repeat(whole, sizes[whole].astype(np.int64))
    draw = _Draw(family, history, new_level, counts, margins, log_exceed)
    parts = [draw.lazily(lazily[i : i + _BATCH], rng=rng) for i in range(0, lazily.size, _BATCH)]
    parts += [draw.explicitly(explicitly[i : i + _BATCH], rng=rng) for i in range(0, explicitly.size, _BATCH)]
    paths, group, exceeds = parts[0] if len(parts) == 1 else draw.together(parts)
    if (group[1:] < group[:-1]).any():
        order = np.argsort(group, kind="stable")
        paths, group, exceeds = paths[:, order], group[order], exceeds[order]
    return NewlyTracked(paths[-1], np.ascontiguousarray(paths[history.column].T), group, exceeds)


def _groups(
    n_untracked: int | Sequence[int] | IntArray, count: ArrayLike
) -> tuple[Sequence[int] | IntArray, FloatArray, FloatArray]:
    counts = np.atleast_1d(float_array("count", count))
    numbers = [int(n_untracked)] * counts.size if isinstance(n_untracked, int | np.integer) else n_untracked
    sizes = as_sizes(numbers)
    if np.ndim(count) == 0:
        counts = np.broadcast_to(counts, sizes.shape)
    if counts.shape != sizes.shape:
        raise InputError("n_untracked and count must have one entry for each group")
    return numbers, sizes, counts


@dataclass(frozen=True, repr=False)
class _Draw:
    """The secret parameters of a round. Arrays have one entry per group.

    Noise paths of q cells have shape (levels + 1, q): a row for each past level, and a last row for the new level.
    """

    family: Family
    history: History
    level: Fraction
    counts: FloatArray
    margins: FloatArray
    log_exceed: FloatArray

    def lazily(self, group: IntArray, *, rng: Generator) -> _Part:
        if not self.history.levels:
            values = self.family.sample_tail(group.size, self.margins[group], self.level, rng=rng)
            return values[np.newaxis], group, np.ones(group.size, bool)

        def carry(plain: NoiseArray, exceeding: NoiseArray, runner: IntArray) -> tuple[BoolArray, NoiseArray]:
            return self._carry_back(plain, exceeding, self.counts[group[runner]], rng=rng)

        paths, limits = self._no_paths(group.size), (self.margins[group], self.log_exceed[group])
        accepted = race(self.family, self.level, *limits, carry, paths, rng=rng)
        return paths[:, accepted], group[accepted], np.ones(int(accepted.sum()), bool)

    def explicitly(self, group: IntArray, *, rng: Generator) -> _Part:
        family, level, levels = self.family, self.level, self.history.levels
        if not levels:
            paths = family.sample(group.size, level, rng=rng)[np.newaxis]
        else:
            paths, bounds = self._no_paths(group.size), self.history.bounds(self.counts[group])
            draw_inside(lambda size: plain_path(family, levels, size, rng=rng), bounds, paths[:-1])
            known = dict(zip(levels, paths, strict=False))
            paths[-1] = noise_at_level(family, level, known, group.size, rng=rng)
        return paths, group, np.asarray(paths[-1] > self.margins[group])

    def together(self, parts: list[_Part]) -> _Part:
        none = self._no_paths(0), np.empty(0, np.int64), np.empty(0, bool)
        paths, group, exceeds = zip(none, *parts, strict=True)
        return np.concatenate(paths, axis=1), np.concatenate(group), np.concatenate(exceeds)

    def _no_paths(self, size: int) -> NoiseArray:
        return np.empty((len(self.history.levels) + 1, size), np.int64 if self.family.integer else np.float64)

    def _carry_back(
        self, plain: NoiseArray, exceeding: NoiseArray, counts: FloatArray, *, rng: Generator
    ) -> tuple[BoolArray, NoiseArray]:
        pair, levels = np.stack([plain, exceeding]), self.history.levels
        inside, path = np.ones(pair.shape, bool), self._no_paths(exceeding.size)
        path[-1] = exceeding
        bounds = self.history.bounds(counts)
        at = bisect_left(levels, self.level)
        for leg in (range(at - 1, -1, -1), range(at, len(levels))):
            current, known = pair, self.level
            for i in leg:
                current = self.family.carry(current, known, levels[i], rng=rng)
                known = levels[i]
                inside &= current <= bounds[i]
                path[i] = current[1]
            if not (current[1] >= current[0]).all():
                raise LawError(f"{self.family!r} is not monotone: its `carry` reversed the order of noise values")
        return inside, path


def race(
    family: Family,
    level: Fraction,
    margins: FloatArray,
    log_exceed: FloatArray,
    carry: Carry,
    paths: NoiseArray,
    *,
    rng: Generator,
) -> BoolArray:
    """Draw a plain and an upper noise path for each of q candidates, until each candidate is accepted or rejected.

    At the new level, upper noise exceeds `margins`, the threshold minus the count of each candidate. `log_exceed` is
    ln P[noise > margin]. `carry` extends noise from the new level to past levels. Return whether each candidate is
    accepted. Write the upper paths of accepted candidates to `paths`, of shape (rows, q).
    """
    least = just_above(margins, integer=family.integer)

    def attempt(runner: IntArray) -> _Attempts:
        log_uniform = np.negative(rng.standard_exponential(runner.size))
        # Rounding may make upper noise equal to the margin. Then use the smallest value above the margin.
        exceeding = np.maximum(family.inverse_log_tail(log_exceed[runner] + log_uniform, level), least[runner])
        plain = np.minimum(family.inverse_log_tail(log_uniform, level), exceeding)
        inside, path = carry(plain, exceeding, runner)
        return inside[0] | inside[1], inside[1], path

    return _decided(attempt, paths)


def draw_inside(draw: Callable[[int], NoiseArray], bounds: FloatArray, paths: NoiseArray) -> None:
    """Fill `paths`, shape (rows, q), with noise paths. Redraw each path until all its values are within `bounds`."""

    def attempt(cell: IntArray) -> _Attempts:
        path = draw(cell.size)
        inside = np.all(path <= bounds[:, cell], axis=0)
        return inside, inside, path

    _decided(attempt, paths)


def plain_path(family: Family, levels: tuple[Fraction, ...], size: int, *, rng: Generator) -> NoiseArray:
    """Draw unconditional noise paths, beginning at the finest level. Rows are in the order of `levels`, ascending."""
    path = [family.sample(size, levels[-1], rng=rng)]
    for fine, coarse in zip(levels[:0:-1], levels[-2::-1], strict=True):
        path.append(family.coarsen(path[-1], fine, coarse, rng=rng))
    return np.stack(path[::-1])


def _decided(attempt: Callable[[IntArray], _Attempts], paths: NoiseArray) -> BoolArray:
    """Draw cells until each is accepted or rejected. Write noise paths to `paths`; return which were accepted."""
    won, pending = np.zeros(paths.shape[1], bool), np.arange(paths.shape[1])
    tries = max(1, min(_FEW_TRIES, _FEW // max(1, pending.size)))
    while pending.size:
        runner = np.tile(pending, tries)
        decided, wins, path = attempt(runner)
        places = np.flatnonzero(decided)
        settled, first = np.unique(runner[places], return_index=True)
        won[settled], paths[:, settled] = wins[places[first]], path[:, places[first]]
        pending = np.setdiff1d(pending, settled, assume_unique=True)
        tries = max(1, min(2 * tries, _TRIES_AT_ONCE // max(1, pending.size)))
    return won


@secret
class Round(NamedTuple):
    """The secret noise of the t previously tracked cells at the new level, and the noise of newly tracked cells."""

    tracked: NoiseArray
    new: NewlyTracked


def draw_round(
    family: Family,
    past: Sequence[tuple[Fraction, float]],
    level: Fraction,
    threshold: float,
    *,
    neighbours: Mapping[Fraction, NoiseArray],
    n_tracked: int,
    n_untracked: Sequence[int] | IntArray,
    counts: ArrayLike,
    rng: Generator,
) -> Round:
    """Draw the noise of tracked cells at a new level, and the whole noise paths of cells that become tracked.

    Args:
        family: Noise family.
        past: (level, effective threshold) of every past release on the noise path.
        level: The new level, exact; it may be a past level.
        threshold: Effective threshold.
        neighbours: Dict from level to the noise of the tracked cells, shape (t,): for `level` itself if it was
            released before, otherwise for the next coarser and the next finer released level.
        n_tracked: Number t of tracked cells.
        n_untracked: Number of untracked cells of each group; integers of any size.
        counts: True count of each group.
        rng: Randomness.
    """
    at = read_each("levels of neighbours", list(as_mapping("neighbours", neighbours)), as_level, "a level")
    known = dict(zip(at, (noise_array("neighbours", noise) for noise in neighbours.values()), strict=True))
    tracked = noise_at_level(family, level, known, whole_number("n_tracked", n_tracked), rng=rng)
    return Round(tracked, draw_exceeding(family, past, level, threshold, n_untracked, count=counts, rng=rng))
