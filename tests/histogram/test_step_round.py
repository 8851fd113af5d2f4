"""Running counts: releases over steps and levels have the joint law of dense ones; wrong samplers are told apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest

from sparsehist import entropy
from sparsehist.errors import DeclarationError, LawError, ThresholdError
from sparsehist.histogram import step_round
from sparsehist.histogram.history import RAREST
from sparsehist.histogram.step_round import PointHistory, draw_step_round
from sparsehist.noise.over_steps import Factor, Point, StepNoise
from tests.noise.laws import prefix_covariance
from tests.stats import assert_consistent, assert_detected, two_sample_outcomes, two_sample_vectors

COVARIANCE = prefix_covariance(5)
# Cells of each kind; 40,000 catch a relative error of 4 % in the commoner patterns of publication.
CELLS = 40_000
# Running counts over five steps: empty for ever, empty at first, growing, late and at once, large from the start.
HISTORIES = np.array([[0, 0, 0, 0, 0], [0, 0, 1, 1, 2], [1, 2, 2, 3, 5], [0, 0, 0, 6, 6], [3, 3, 3, 3, 3]])
# (steps appended before, step, level, threshold): earlier steps later, coarser and finer levels, one point twice.
ROUNDS = [
    (1, 0, "0.2", 4.0),
    (3, 2, "0.2", 6.0),
    (3, 1, "1", 2.5),
    (3, 0, "0.5", 2.0),
    (5, 4, "0.2", 7.5),
    (5, 1, "1", 2.0),
    (5, 3, "1", 4.0),
    (5, 4, "0.1", 8.0),
]


class Released(NamedTuple):
    """Noise at each round, NaN where a cell was never published, and which were; shape (rounds, cells)."""

    noise: np.ndarray
    published: np.ndarray


def dense_noise(seed: int) -> np.ndarray:
    """Noise of every cell at all rounds, by one factor of the covariance that the formula gives for the points."""
    points = list(dict.fromkeys((step, Fraction(level)) for _, step, level, _ in ROUNDS))
    steps, levels = [step for step, _ in points], np.array([float(level) for _, level in points])
    factor = np.linalg.cholesky(COVARIANCE[np.ix_(steps, steps)] / (2 * np.maximum.outer(levels, levels)))
    noise = factor @ entropy.seeded(seed).standard_normal((len(points), len(COUNTS)))
    return noise[[points.index((step, Fraction(level))) for _, step, level, _ in ROUNDS]]


def hidden(noise: np.ndarray, counts: np.ndarray, *, opened: bool = False) -> Released:
    """Hide cells that were never published; in an open domain also what is empty at a point."""
    at = counts[:, [step for _, step, _, _ in ROUNDS]].T
    with np.errstate(invalid="ignore"):
        published = noise > np.array([tau for *_, tau in ROUNDS])[:, np.newaxis] - at
    if opened:
        published &= at > 0
        noise = np.where(at > 0, noise, 0.0)
    return Released(np.where(published.any(axis=0), noise, np.nan), published)


def sparse(
    seed: int, counts: np.ndarray, *, noise: StepNoise | None = None, opened: bool = False, listed: bool = False
) -> Released:
    """Release by rounds, with the keys listed that have a unit at a step appended so far (or all of them)."""
    rng = entropy.seeded(seed)
    law = StepNoise(COVARIANCE) if noise is None else noise
    history = PointHistory(hides_empty=opened)
    tracked, known = np.empty(0, np.int64), np.empty((0, 0))
    for appended, step, level, threshold in ROUNDS:
        point = Point(step, Fraction(level))
        steps = history.with_release(point, threshold).steps
        untracked = np.ones(len(counts), bool)
        untracked[tracked] = False
        free = np.flatnonzero(untracked)
        seen = (counts[free, appended - 1] > 0) | listed
        keys, void = free[seen], free[~seen]
        drawn = draw_step_round(
            law, history, point, threshold, tracked=known, counts=counts[keys, step],
            largest=counts[keys, steps[-1]], n_empty=void.size, rng=rng,
            counts_at=lambda some, keys=keys, steps=steps: counts[keys[some]][:, steps].T,
        )  # fmt: skip
        empty = rng.permutation(void)[: np.count_nonzero(drawn.cells < 0)]
        new = np.where(drawn.cells >= 0, keys[drawn.cells] if keys.size else 0, -1)
        new[drawn.cells < 0] = empty
        if point not in history.points:
            known = np.vstack([known.reshape(len(history.points), tracked.size), drawn.tracked])
        history = history.with_release(point, threshold)
        known = np.hstack([known, drawn.paths])
        tracked = np.append(tracked, new)
    noise_at = np.full((len(ROUNDS), len(counts)), np.nan)
    for i, (_, step, level, _) in enumerate(ROUNDS):
        noise_at[i, tracked] = known[history.points.index(Point(step, Fraction(level)))]
    return hidden(noise_at, counts, opened=opened)


def p_values(first: Released, second: Released, kinds: tuple[np.ndarray, np.ndarray]) -> dict[str, float]:
    """Compare in which rounds cells are published, and the whole paths of those that ever are, by kind of cell."""
    weights = 2 ** np.arange(len(ROUNDS))
    patterns = [
        np.column_stack([kind, weights @ one.published]) for one, kind in zip((first, second), kinds, strict=True)
    ]
    paths = [
        np.column_stack([pattern, one.noise.T])[pattern[:, 1] > 0]
        for one, pattern in zip((first, second), patterns, strict=True)
    ]
    return {"patterns": two_sample_outcomes(*patterns), "paths": two_sample_vectors(*paths)}


KINDS = np.repeat(np.arange(len(HISTORIES)), CELLS)
COUNTS = HISTORIES[KINDS]


@pytest.fixture(scope="module")
def reference() -> Released:
    """Hold one run of the dense mechanism for all comparisons."""
    return hidden(dense_noise(1), COUNTS)


def compared(released: Released, reference: Released, kinds: Sequence[int]) -> dict[str, float]:
    """The p-values of some kinds of cells."""
    mine = np.isin(KINDS, kinds)
    return p_values(
        Released(released.noise[:, mine], released.published[:, mine]),
        Released(reference.noise[:, mine], reference.published[:, mine]),
        (KINDS[mine], KINDS[mine]),
    )


@pytest.mark.parametrize("listed", [False, True])
def test_running_releases_have_the_joint_law_of_dense_ones(reference: Released, listed: bool) -> None:
    """In which rounds a cell is published, and its noise at all points, cannot be told from the dense mechanism.

    Over steps and levels in scrambled order, of keys that grow between releases, of false keys that later get units,
    and of keys that stay empty; also where keys are listed long before their first unit.
    """
    released = sparse(2 + listed, COUNTS, listed=listed)
    for kinds in ([0], [1, 2], [3], [4]):
        for what, p_value in compared(released, reference, kinds).items():
            assert_consistent(p_value, f"{what} of kinds {kinds}")


def test_an_open_domain_never_shows_a_key_where_it_is_empty(reference: Released) -> None:
    """There only points with units count: the law is the dense one with the other points left out."""
    released = sparse(5, COUNTS, opened=True)
    assert not released.published[:, KINDS == 0].any()
    both = hidden(dense_noise(6), COUNTS, opened=True)
    for kinds in ([1, 2], [3]):
        for what, p_value in compared(released, both, kinds).items():
            assert_consistent(p_value, f"{what} of kinds {kinds} of an open domain")


def test_explicit_cells_of_an_open_domain_are_not_shown_where_they_are_empty() -> None:
    """A history rare enough that both keys are drawn explicitly; at step 0 only the second one has a unit."""
    counts = np.array([[0, 1], [3, 3]])
    past = PointHistory((Point(1, Fraction(1, 2)),), (0.0,), hides_empty=True)
    drawn = draw_step_round(
        StepNoise(COVARIANCE), past, Point(0, Fraction(1, 2)), -20.0, tracked=np.empty((1, 0)),
        counts=counts[0], largest=counts[1], counts_at=lambda some: counts[:, some], n_empty=0, rng=entropy.seeded(7),
    )  # fmt: skip
    assert dict(zip(drawn.cells.tolist(), drawn.exceeds.tolist(), strict=True)) == {0: False, 1: True}


class TestWrongSamplers:
    """Each of these must be rejected, or the comparison above could not have seen it."""

    def test_scale_off(self, reference: Released) -> None:
        released = sparse(7, COUNTS, noise=StepNoise(1.05**2 * COVARIANCE))
        assert_detected(min(compared(released, reference, [1, 2]).values()), "a scale 5 % off")

    def test_independent_noise_per_step(self, reference: Released, monkeypatch: pytest.MonkeyPatch) -> None:
        only = np.diag(np.diag(COVARIANCE))
        released = sparse(8, COUNTS, noise=StepNoise(only))
        assert_detected(min(compared(released, reference, [4]).values()), "independent noise per step")

    def test_one_level_redrawn(self, reference: Released, monkeypatch: pytest.MonkeyPatch) -> None:
        given = Factor.given

        def redrawn(self: Factor, point: int, known: np.ndarray, *, rng: np.random.Generator) -> np.ndarray:
            if point == 5:
                return self.draw(known.shape[1], rng=rng)[point]
            return given(self, point, known, rng=rng)

        monkeypatch.setattr(Factor, "given", redrawn)
        released = sparse(9, COUNTS)
        assert_detected(min(compared(released, reference, [4]).values()), "one point drawn afresh")

    def test_candidates_by_stored_order(self, reference: Released, monkeypatch: pytest.MonkeyPatch) -> None:
        """Wrong: candidates are the first keys in stored order, which prefers keys with one kind of past."""
        honest: Callable[..., np.ndarray] = step_round._candidates

        def first_ones(*given: object, rng: np.random.Generator) -> np.ndarray:
            counts = given[4]
            chosen = honest(*given, rng=rng)
            return np.sort(
                np.concatenate(
                    [np.flatnonzero(counts == c)[: np.count_nonzero(counts[chosen] == c)] for c in np.unique(counts)]
                )
            )

        monkeypatch.setattr(step_round, "_candidates", first_ones)
        released = sparse(10, COUNTS, listed=True)
        assert_detected(compared(released, reference, [0, 1, 3])["patterns"], "candidates by stored order")

    def test_negative_covariances_are_refused_and_fail_when_forced_through(self) -> None:
        sums = np.tril(np.ones((5, 5))) - np.tril(np.ones((5, 5)), -2)
        windows = np.linalg.inv(np.tril(np.ones((5, 5))))
        negative = COVARIANCE * np.where(np.add.outer(range(5), range(5)) % 2, -1, 1)
        for wrong in (negative, sums @ COVARIANCE @ sums.T, windows @ COVARIANCE @ windows.T):
            if wrong.min() < 0:
                with pytest.raises(DeclarationError, match="negative covariance"):
                    StepNoise((wrong + wrong.T) / 2)
        forced = StepNoise(COVARIANCE)
        forced._covariance = negative
        with pytest.raises(LawError):
            sparse(11, COUNTS, noise=forced)


def test_histories_never_become_rare() -> None:
    """Every untracked key has a history of probability at least e**-3, and was not drawn explicitly."""
    rng = entropy.seeded(12)
    law, history = StepNoise(COVARIANCE), PointHistory()
    counts = rng.integers(0, 12, (2_000, 5)).cumsum(axis=1)
    tracked, known = np.empty(0, np.int64), np.empty((0, 0))
    for level in ("0.3", "0.31", "0.9", "0.1"):
        for step in (4, 0, 2, 3, 1):
            point = Point(step, Fraction(level))
            steps = history.with_release(point, 20.0).steps
            keys = np.setdiff1d(np.arange(len(counts)), tracked)
            drawn = draw_step_round(
                law, history, point, 20.0, tracked=known, counts=counts[keys, step], largest=counts[keys, steps[-1]],
                counts_at=lambda some, keys=keys, steps=steps: counts[keys[some]][:, steps].T, n_empty=0, rng=rng,
            )  # fmt: skip
            known = np.vstack([known.reshape(len(history.points), tracked.size), drawn.tracked])
            history = history.with_release(point, 20.0)
            known = np.hstack([known, drawn.paths])
            tracked = np.append(tracked, keys[drawn.cells])
            assert (drawn.cells >= 0).all()
            assert drawn.exceeds[history.rarity(law, counts[keys[drawn.cells]][:, steps].T) <= RAREST].all()
            left = np.setdiff1d(np.arange(len(counts)), tracked)
            assert (history.rarity(law, counts[left][:, steps].T) <= RAREST).all()
    assert 0 < tracked.size < len(counts)


def test_a_domain_too_large_to_be_drawn_whole_is_refused() -> None:
    """Nothing of it is drawn first."""
    law = StepNoise(COVARIANCE)
    none = np.empty(0, np.int64)
    with pytest.raises(ThresholdError):
        draw_step_round(
            law, PointHistory(), Point(0, Fraction(1)), -9.0, tracked=np.empty((0, 0)), counts=none, largest=none,
            counts_at=lambda some: np.empty((1, some.size), np.int64), n_empty=10**12, rng=entropy.seeded(1),
        )  # fmt: skip
