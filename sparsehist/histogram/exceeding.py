"""Which never-published cells exceed the threshold now, and with which noise: exact, by groups of equal count.

A cell that was never published has only a history A: its noise stayed at or below every past threshold. Cells
of the same count are therefore identically distributed and are drawn by the group. A candidate takes part in
a race of two coupled paths, X from the plain marginal at the new level and Y from the marginal above the
threshold, made from one uniform so that Y >= X, and carried to every past level with shared randomness by
monotone steps. Y inside A accepts, else X inside A rejects, else the race is run again. Y in A implies X in A,
so the acceptance probability is P(A | exceed) / P(A) exactly, and an accepted path has the law given both: no
integral is computed, and any order of levels will do. Drawing each step from its own truncated law instead
(Andersson et al., Algorithm 6 as printed) has another joint law and is not private at the stated level.

Where A itself is rare (only survivors of a count far above an old threshold) races seldom end; such groups
take the quadrature of `sparsehist.histogram.rare`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from sparsehist.errors import DeclarationError, InputError, SparsehistError
from sparsehist.histogram.binomial import IntArray, Sizes, as_sizes, binomial
from sparsehist.histogram.rare import History, draw_late, draw_rare
from sparsehist.noise.family import Family, FloatArray, NoiseArray
from sparsehist.noise.gaussian import Gaussian
from sparsehist.privacy.levels import Level, as_level

# Candidates drawn at once: bounds the memory of a round at about 8 * levels * this many bytes.
_BATCH = 1 << 19
# Races before quadrature: beyond this a survivor is so rare that integrals are cheaper.
_MOST_RACES = 20
_RACES_AT_ONCE = 1 << 12
# Other families have no quadrature yet; this many races see histories down to about 1e-8.
_MOST_RACES_WITHOUT_QUADRATURE = 100_000
_HOPELESS = math.log(1e-3)


class Exceeding(NamedTuple):
    """Noise of the cells that newly exceed. Secret.

    Attributes:
        values: Noise at the new level, in counts; shape (q,).
        paths: Noise at every past release, in the order given; shape (q, releases).
        group: Which group each cell belongs to; shape (q,), int64, ascending.
    """

    values: NoiseArray
    paths: NoiseArray
    group: IntArray

    def __repr__(self) -> str:
        return "Exceeding()"


def draw_exceeding(
    family: Family,
    past: Sequence[tuple[Level, float]],
    level: Level,
    threshold: float,
    n_untracked: int | Sequence[int] | IntArray,
    *,
    count: ArrayLike = 0,
    rng: Generator,
) -> Exceeding:
    """Draw the cells, among those never published, that exceed the threshold now.

    Args:
        family: The noise; must be monotone.
        past: (level, threshold) of every past release of this path, in any order. A cell of count c stayed
            untracked because its noise was at most threshold - c each time.
        level: The new level; anywhere among the past ones, or one of them again.
        threshold: A cell of count c exceeds when its noise is above threshold - c, in counts.
        n_untracked: Cells never published, one entry a group (or one for all); Python integers of any size.
        count: True count of the cells of each group; scalar or one entry a group. Secret.
        rng: Randomness.

    Returns:
        Values, paths and group of the q cells that exceed. Which cells of a group they are is a uniform
        choice left to the caller.

    Raises:
        DeclarationError: If the family is not monotone.
        InputError: If groups and counts differ in number, or a number of cells is negative.
        ThresholdError: If more than 2**31 cells would have to be drawn.

    Example:
        >>> from sparsehist import entropy, noise
        >>> drawn = draw_exceeding(noise.Gaussian(), [(0.1, 9.0)], 0.2, 8.0, 10**9, rng=entropy.seeded(1))
        >>> bool((drawn.values > 8).all() and (drawn.paths[:, 0] <= 9).all())
        True

    Source: our own derivation; it replaces Algorithm 6 and Lemma 5.6 of Andersson et al.
    """
    if not family.monotone:
        raise DeclarationError(f"{family!r} is not monotone, so cells cannot be drawn lazily with it")
    new_level = as_level(level)
    sizes, counts = _groups(n_untracked, count)
    history = _history(past)
    margins = threshold - counts
    log_exceed = family.log_tail(margins, new_level)
    hopeless = _hopeless(family, history, counts) if past else np.zeros(0, bool)
    lazy_sizes = sizes.without(hopeless) if hopeless.any() else sizes
    candidates = binomial(lazy_sizes, log_exceed, rng=rng)
    groups = np.repeat(np.arange(candidates.size), candidates)
    parts: list[tuple[NoiseArray, IntArray]] = []
    for begin in range(0, groups.size, _BATCH):
        group = groups[begin : begin + _BATCH]
        parts.append(_race(family, history, new_level, margins, log_exceed, counts, group, rng=rng))
    for g in np.flatnonzero(hopeless).tolist():
        assert isinstance(family, Gaussian)
        parts.append(draw_rare(family, history, new_level, margins[g], counts[g], sizes.at(g), g, rng=rng))
    return _collect(parts, history, len(past), integer=family.integer)


def _groups(n_untracked: int | Sequence[int] | IntArray, count: ArrayLike) -> tuple[Sizes, FloatArray]:
    counts = np.asarray(count, dtype=np.float64)
    if isinstance(n_untracked, int | np.integer):
        counts = np.atleast_1d(counts)
        sizes = as_sizes([int(n_untracked)] * counts.size)
    else:
        sizes = as_sizes(n_untracked)
        counts = np.broadcast_to(counts, sizes.ordinary.shape) if counts.ndim == 0 else counts
    if counts.shape != sizes.ordinary.shape:
        raise InputError(f"{sizes.ordinary.size} groups but counts of shape {counts.shape}")
    return sizes, counts


def _history(past: Sequence[tuple[Level, float]]) -> History:
    if not past:
        return History((), np.empty(0), np.empty(0, np.int64))
    exact = [as_level(level) for level, _ in past]
    levels = tuple(sorted(set(exact)))
    position = {level: i for i, level in enumerate(levels)}
    column = np.array([position[level] for level in exact], dtype=np.int64)
    thresholds = np.full(len(levels), np.inf)
    np.minimum.at(thresholds, column, np.array([bound for _, bound in past], dtype=np.float64))
    return History(levels, thresholds, column)


def _hopeless(family: Family, history: History, counts: FloatArray) -> NDArray[np.bool_]:
    """Groups whose history is so rare at some level that races would hardly ever end."""
    rarest = np.zeros(counts.size)
    for level, threshold in zip(history.levels, history.thresholds, strict=True):
        np.minimum(rarest, family.log_cdf(threshold - counts, level), out=rarest)
    return (rarest < _HOPELESS) & isinstance(family, Gaussian)


def _race(
    family: Family,
    history: History,
    level: Fraction,
    margins: FloatArray,
    log_exceed: FloatArray,
    counts: FloatArray,
    group: IntArray,
    *,
    rng: Generator,
) -> tuple[NoiseArray, IntArray]:
    """Race the candidates of one batch; rows of the result are levels of the history, then the new level."""
    if not history.levels:
        return family.sample_tail(group.size, margins[group], level, rng=rng)[np.newaxis], group
    least = _just_above(margins, integer=family.integer)
    rows = len(history.levels) + 1
    dtype = np.int64 if family.integer else np.float64
    paths = np.empty((rows, group.size), dtype)
    accepted = np.zeros(group.size, bool)
    pending = np.arange(group.size)
    for _ in range(_MOST_RACES if isinstance(family, Gaussian) else _MOST_RACES_WITHOUT_QUADRATURE):
        if not pending.size:
            break
        # The few that are left run many races at once; of each the first that is decided counts.
        tries = max(1, _RACES_AT_ONCE // pending.size)
        mine = np.repeat(group[pending], tries)
        log_uniform = np.negative(rng.standard_exponential(mine.size))
        exceeding = _exceeding(family, level, log_exceed[mine] + log_uniform, least[mine])
        plain = np.minimum(family.inverse_log_tail(log_uniform, level), exceeding)
        inside, path = _carry_back(family, history, level, plain, exceeding, counts[mine], rng=rng)
        decided = (inside[0] | inside[1]).reshape(pending.size, tries)
        settled = np.flatnonzero(decided.any(axis=1))
        race = settled * tries + decided[settled].argmax(axis=1)
        won = inside[1][race]
        accepted[pending[settled[won]]] = True
        paths[:, pending[settled[won]]] = path[:, race[won]]
        pending = np.delete(pending, settled)
    for g in np.unique(group[pending]):
        if not isinstance(family, Gaussian):
            raise SparsehistError("a history too rare for this family's races came up; repeat the release")
        late = pending[group[pending] == g]
        drawn = draw_late(family, history, level, margins[g], counts[g], float(log_exceed[g]), late.size, rng=rng)
        accepted[late[: drawn.shape[1]]] = True
        paths[:, late[: drawn.shape[1]]] = drawn
    return paths[:, accepted], group[accepted]


def _exceeding(family: Family, level: Fraction, log_probability: FloatArray, least: NoiseArray) -> NoiseArray:
    """Noise with these log tails, none below the least value above its margin: rounding may land on the margin."""
    return np.maximum(family.inverse_log_tail(log_probability, level), least)


def _carry_back(
    family: Family,
    history: History,
    level: Fraction,
    plain: NoiseArray,
    exceeding: NoiseArray,
    counts: FloatArray,
    *,
    rng: Generator,
) -> tuple[NDArray[np.bool_], NoiseArray]:
    """Carry both racers to every past level: who stayed inside the history, and the path of the exceeding one."""
    pair = np.stack([plain, exceeding])
    inside = np.ones(pair.shape, bool)
    path = np.empty((len(history.levels) + 1, exceeding.size), pair.dtype)
    path[-1] = exceeding
    at = sum(known < level for known in history.levels)
    for leg in (range(at - 1, -1, -1), range(at, len(history.levels))):
        current, known = pair, level
        for i in leg:
            current = family.carry(current, known, history.levels[i], rng=rng)
            known = history.levels[i]
            inside &= current <= history.thresholds[i] - counts
            path[i] = current[1]
        assert (current[1] >= current[0]).all(), "the family's steps are not monotone"
    return inside, path


def _just_above(margins: FloatArray, *, integer: bool) -> FloatArray:
    return np.floor(margins) + 1 if integer else np.nextafter(margins, np.inf)


def _collect(parts: list[tuple[NoiseArray, IntArray]], history: History, n_past: int, *, integer: bool) -> Exceeding:
    if not parts:
        dtype = np.int64 if integer else np.float64
        return Exceeding(np.empty(0, dtype), np.empty((0, n_past), dtype), np.empty(0, np.int64))
    paths, group = parts[0]
    if len(parts) > 1:
        paths = np.concatenate([part for part, _ in parts], axis=1)
        group = np.concatenate([of for _, of in parts])
        order = np.argsort(group, kind="stable")
        paths, group = paths[:, order], group[order]
    return Exceeding(paths[-1], np.ascontiguousarray(paths[history.column].T), group)
