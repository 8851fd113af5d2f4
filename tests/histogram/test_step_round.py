"""Tests that sparse releases of running counts have the joint distribution of dense releases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest

from sparsehist import entropy
from sparsehist.errors import DeclarationError, LawError, ThresholdError
from sparsehist.histogram import DenseReleases, step_round
from sparsehist.histogram.history import RAREST
from sparsehist.histogram.step_round import PointHistory, draw_step_round
from sparsehist.noise.over_steps import Factor, Point, StepNoise
from tests.histogram.sparse_simulation import hide_unpublished, p_value
from tests.noise.laws import prefix_covariance
from tests.stats import assert_consistent, assert_detected, mean_test

COVARIANCE = prefix_covariance(5)
# With 40,000 cells of each kind, a 4 % error in the probability of a common publication pattern is detected.
CELLS = 40_000
# Running counts of five kinds of cells: always empty, empty at first, growing, jumping late, and constant.
HISTORIES = np.array([[0, 0, 0, 0, 0], [0, 0, 1, 1, 2], [1, 2, 2, 3, 5], [0, 0, 0, 6, 6], [3, 3, 3, 3, 3]])
# Each round is (number of steps appended so far, released step, level, threshold). Steps and levels are not in order.
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
Rounds = list[tuple[int, int, str, float]]


def dense_noise(seed: int) -> np.ndarray:
    """Draw the noise of every cell in all rounds from the exact covariance; shape (rounds, cells)."""
    points = list(dict.fromkeys((step, Fraction(level)) for _, step, level, _ in ROUNDS))
    steps, levels = [step for step, _ in points], np.array([float(level) for _, level in points])
    factor = np.linalg.cholesky(COVARIANCE[np.ix_(steps, steps)] / (2 * np.maximum.outer(levels, levels)))
    noise = factor @ entropy.seeded(seed).standard_normal((len(points), len(COUNTS)))
    return noise[[points.index((step, Fraction(level))) for _, step, level, _ in ROUNDS]]


def hidden(noise: np.ndarray, counts: np.ndarray, *, rounds: Rounds = ROUNDS, opened: bool = False) -> DenseReleases:
    """Return releases with NaN as the noise of unpublished cells; an open domain also hides cells of count 0."""
    at = counts[:, [step for _, step, _, _ in rounds]].T
    with np.errstate(invalid="ignore"):
        published = noise > np.array([tau for *_, tau in rounds])[:, np.newaxis] - at
    if opened:
        published &= at > 0
        noise = np.where(at > 0, noise, 0.0)
    return hide_unpublished(DenseReleases(noise, published))


def sparse(
    seed: int,
    counts: np.ndarray,
    *,
    noise: StepNoise | None = None,
    rounds: Rounds = ROUNDS,
    opened: bool = False,
    listed: bool = False,
) -> DenseReleases:
    """Return sparse releases of running counts, drawn round by round.

    As in a store, only keys that already have a unit are known, or all keys if `listed` is true. The function also
    checks that no known but untracked key has a rare history.
    """
    rng = entropy.seeded(seed)
    law = StepNoise(COVARIANCE) if noise is None else noise
    history = PointHistory(hides_empty=opened)
    tracked, known = np.empty(0, np.int64), np.empty((0, 0))
    for appended, step, level, threshold in rounds:
        point = Point(step, Fraction(level))
        steps = history.with_release(point, threshold).steps
        free = np.setdiff1d(np.arange(len(counts)), tracked)
        seen = (counts[free, appended - 1] > 0) | listed
        keys, void = free[seen], free[~seen]
        drawn = draw_step_round(
            law, history, point, threshold, tracked=known, counts=counts[keys, step],
            largest=counts[keys, steps[-1]], n_empty=void.size, rng=rng,
            counts_at=lambda some, keys=keys, steps=steps: counts[keys[some]][:, steps].T,
        )  # fmt: skip
        new = np.where(drawn.cells >= 0, keys[drawn.cells] if keys.size else 0, -1)
        new[drawn.cells < 0] = rng.permutation(void)[: np.count_nonzero(drawn.cells < 0)]
        if point not in history.points:
            known = np.vstack([known.reshape(len(history.points), tracked.size), drawn.tracked])
        history = history.with_release(point, threshold)
        known = np.hstack([known, drawn.paths])
        tracked = np.append(tracked, new)
        rare = history.rarity(law, counts[:, steps].T) > RAREST
        assert not rare[np.setdiff1d(keys, tracked)].any()
        assert (drawn.exceeds | rare[new]).all()
    noise_at = np.full((len(rounds), len(counts)), np.nan)
    for i, (_, step, level, _) in enumerate(rounds):
        noise_at[i, tracked] = known[history.points.index(Point(step, Fraction(level)))]
    return hidden(noise_at, counts, rounds=rounds, opened=opened)


KINDS = np.repeat(np.arange(len(HISTORIES)), CELLS)
COUNTS = HISTORIES[KINDS]


@pytest.fixture(scope="module")
def reference() -> DenseReleases:
    """Return one run of the dense mechanism, which all comparisons share."""
    return hidden(dense_noise(1), COUNTS)


def compared(released: DenseReleases, reference: DenseReleases, kinds: Sequence[int]) -> float:
    """Compare two sets of releases over the cells of these kinds (rows of `HISTORIES`); return a p-value."""
    return p_value(released, reference, np.isin(KINDS, kinds), KINDS)


@pytest.mark.parametrize("listed", [False, True])
def test_running_releases_have_the_joint_law_of_dense_ones(reference: DenseReleases, listed: bool) -> None:
    """Sparse releases at any steps and levels, in any order, have the joint distribution of dense releases."""
    released = sparse(2 + listed, COUNTS, listed=listed)
    for kinds in ([0], [1, 2], [3], [4]):
        assert_consistent(compared(released, reference, kinds), f"kinds {kinds}")


def test_an_open_domain_never_shows_a_key_where_it_is_empty(reference: DenseReleases) -> None:
    """In an open domain, a key is published only at steps at which it has units.

    The releases have the same distribution as dense releases in which keys without units are hidden.
    """
    released = sparse(5, COUNTS, opened=True)
    assert not released.published[:, KINDS == 0].any()
    both = hidden(dense_noise(6), COUNTS, opened=True)
    for kinds in ([1, 2], [3]):
        assert_consistent(compared(released, both, kinds), f"kinds {kinds} of an open domain")


def test_explicit_cells_of_an_open_domain_are_not_shown_where_they_are_empty() -> None:
    """A key of an open domain that is drawn explicitly is not published at a step at which it has no unit."""
    counts = np.array([[0, 1], [3, 3]])
    past = PointHistory((Point(1, Fraction(1, 2)),), (0.0,), hides_empty=True)
    drawn = draw_step_round(
        StepNoise(COVARIANCE), past, Point(0, Fraction(1, 2)), -20.0, tracked=np.empty((1, 0)),
        counts=counts[0], largest=counts[1], counts_at=lambda some: counts[:, some], n_empty=0, rng=entropy.seeded(7),
    )  # fmt: skip
    assert dict(zip(drawn.cells.tolist(), drawn.exceeds.tolist(), strict=True)) == {0: False, 1: True}


def test_a_history_keeps_the_lowest_threshold_and_bounds_no_noise_where_a_key_is_empty() -> None:
    """A history keeps only the lowest threshold of each release point.

    In an open domain, a history does not bound the noise of a key at release points at which the key has no units.
    """
    first, second = Point(0, Fraction(1)), Point(1, Fraction(1))
    past = PointHistory(hides_empty=True).with_release(first, 5.0).with_release(second, 6.0)
    for threshold, lowest in ((7.0, 5.0), (4.0, 4.0)):
        history = past.with_release(first, threshold)
        assert history.thresholds == (lowest, 6.0)
        assert history.bounds(np.array([[0, 2], [3, 3]]), (0, 1)).tolist() == [[np.inf, lowest - 2], [3, 3]]


def test_noise_at_a_past_point_follows_new_noise_by_covariance_over_variance() -> None:
    """Regressing the noise at a past release point on the noise at a new point leaves an uncorrelated residual."""
    past, new = Point(0, Fraction(1, 2)), Point(1, Fraction(1, 2))
    none = np.empty(0, np.int64)
    drawn = draw_step_round(
        StepNoise(COVARIANCE), PointHistory((past,), (1000.0,)), new, 0.0, tracked=np.empty((1, 0)), counts=none,
        largest=none, counts_at=lambda some: some, n_empty=200_000, rng=entropy.seeded(12),
    )  # fmt: skip
    ratio = StepNoise(COVARIANCE).ratios([past], new)[0]
    rest = drawn.paths[0] - ratio * drawn.paths[1]
    variance = COVARIANCE[0, 0] - ratio * COVARIANCE[0, 1]
    deviations = rest @ drawn.paths[1] / np.sqrt(variance * np.sum(drawn.paths[1] ** 2))
    assert_consistent(mean_test([deviations], 0.0, 1.0), "noise at a past point")


class TestWrongSamplers:
    """Tests that the comparison with dense releases rejects each wrong sampler."""

    def test_scale_off(self, reference: DenseReleases) -> None:
        released = sparse(7, COUNTS, noise=StepNoise(1.05**2 * COVARIANCE))
        assert_detected(compared(released, reference, [1, 2]), "a scale 5 % off")

    def test_independent_noise_per_step(self, reference: DenseReleases) -> None:
        only = np.diag(np.diag(COVARIANCE))
        released = sparse(8, COUNTS, noise=StepNoise(only))
        assert_detected(compared(released, reference, [4]), "independent noise per step")

    def test_one_level_redrawn(self, reference: DenseReleases, monkeypatch: pytest.MonkeyPatch) -> None:
        given = Factor.given

        def redrawn(self: Factor, point: int, known: np.ndarray, *, rng: np.random.Generator) -> np.ndarray:
            if point == 5:
                return self.draw(known.shape[1], rng=rng)[point]
            return given(self, point, known, rng=rng)

        monkeypatch.setattr(Factor, "given", redrawn)
        released = sparse(9, COUNTS)
        assert_detected(compared(released, reference, [4]), "one point drawn afresh")

    def test_candidates_by_stored_order(self, reference: DenseReleases, monkeypatch: pytest.MonkeyPatch) -> None:
        """A sampler that chooses new cells in stored order instead of at random is rejected."""
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
        assert_detected(compared(released, reference, [0, 1, 3]), "candidates by stored order")

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
    """Keys whose counts grow far above every threshold are drawn explicitly before their history becomes rare."""
    counts = entropy.seeded(12).integers(0, 12, (2_000, 5)).cumsum(axis=1)
    rounds = [(5, step, level, 20.0) for level in ("0.3", "0.31", "0.9", "0.1") for step in (4, 0, 2, 3, 1)]
    ever = sparse(12, counts, rounds=rounds, listed=True).published.any(axis=0)
    assert 0 < ever.sum() < len(counts)


def test_a_domain_too_large_to_be_drawn_whole_is_refused() -> None:
    """A threshold that would publish nearly all of 10**12 empty cells is refused before anything is drawn."""
    law = StepNoise(COVARIANCE)
    none = np.empty(0, np.int64)
    with pytest.raises(ThresholdError):
        draw_step_round(
            law, PointHistory(), Point(0, Fraction(1)), -9.0, tracked=np.empty((0, 0)), counts=none, largest=none,
            counts_at=lambda some: np.empty((1, some.size), np.int64), n_empty=10**12, rng=entropy.seeded(1),
        )  # fmt: skip
