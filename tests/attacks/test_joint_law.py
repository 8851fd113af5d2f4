"""Edge cases of the joint law (many levels, ties, forced explicit draws), and an empirical test of privacy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr

from sparsehist.entropy import seeded
from sparsehist.histogram import DenseReleases, history, release_dense
from sparsehist.histogram import round as rounds_of_cells
from sparsehist.noise import Gaussian
from tests.attacks.stand_in import Drawn
from tests.histogram.sparse_simulation import (
    hide_unpublished,
    independent_redraw,
    release_sparse,
)
from tests.stats import assert_consistent, assert_detected, two_sample_outcomes, two_sample_vectors

FAMILY = Gaussian(sensitivity=math.sqrt(2))
# Sixteen rounds on ten levels: equal ones after finer and after coarser ones, thresholds up, down and below zero.
MANY = [
    ("0.3", 2.0), ("0.1", 4.5), ("1", 2.0), ("0.3", 2.0), ("0.03", 9.0), ("0.2", 3.5), ("1", 1.0), ("0.5", 2.5),
    ("0.01", 18.0), ("0.3", 1.25), ("0.15", 4.0), ("0.3", 5.0), ("0.01", 12.0), ("0.7", 1.5), ("0.05", -1.0),
    ("0.03", 6.0),
]  # fmt: skip


def compare(one: DenseReleases, two: DenseReleases, cells: np.ndarray) -> float:
    """Compare publication patterns, and the paths of the cells in any release."""
    patterns = [(1 << np.arange(len(each.published))) @ each.published[:, cells] for each in (one, two)]
    paths = [each.noise[:, cells][:, seen > 0].T for each, seen in zip((one, two), patterns, strict=True)]
    return min(1.0, 2 * min(two_sample_outcomes(*patterns), two_sample_vectors(*paths)))


def both(
    rounds: list[tuple[str, float]], counts: np.ndarray, seed: int, **wrong
) -> tuple[DenseReleases, DenseReleases]:
    """Release sparsely and densely."""
    levels, thresholds = zip(*rounds, strict=True)
    sparse = release_sparse(FAMILY, counts, levels, thresholds, rng=seeded(seed), **wrong)
    return sparse, hide_unpublished(release_dense(FAMILY, counts, levels, thresholds, rng=seeded(seed + 1)))


def test_sixteen_rounds_in_scrambled_order_have_the_dense_law() -> None:
    """The joint law holds with equal levels, equal, rising and falling thresholds, and thresholds below zero."""
    counts = np.repeat([0, 1, 4], 15_000)
    sparse, dense = both(MANY, counts, 11)
    for count in (0, 1, 4):
        assert_consistent(compare(sparse, dense, counts == count), f"cells of count {count}")


def test_counts_around_old_thresholds_have_the_dense_law() -> None:
    """Cells whose true count lies just below, at and just above thresholds they stayed under."""
    rounds = [("0.02", 12.5), ("0.5", 12.5), ("0.1", 12.0), ("2", 13.0), ("0.5", 11.5)]
    counts = np.repeat([11, 12, 13, 14], 10_000)
    sparse, dense = both(rounds, counts, 13)
    for count in np.unique(counts):
        assert_consistent(compare(sparse, dense, counts == count), f"cells of count {count}")


@pytest.mark.parametrize("rarest", [0.0, 1.0, 30.0], ids=["every group explicitly", "most", "none"])
def test_where_groups_are_drawn_explicitly_is_no_matter(monkeypatch: pytest.MonkeyPatch, rarest: float) -> None:
    """The joint law is the dense one whatever the limit between lazy and explicit drawing."""
    monkeypatch.setattr(history, "RAREST", rarest)
    monkeypatch.setattr(rounds_of_cells, "RAREST", rarest)
    counts = np.repeat([0, 2], 15_000)
    sparse, dense = both([*MANY[:8]], counts, 15)
    for count in (0, 2):
        assert_consistent(compare(sparse, dense, counts == count), f"cells of count {count}")


def test_cells_within_a_group_are_chosen_uniformly_round_after_round() -> None:
    """No cell of a group is likelier than another to be published first, second or third, counted or empty."""
    counts = np.repeat([0, 3], 6)
    outcomes, rng = [], seeded(17)
    for _ in range(300):
        series = Drawn(counts, 1, rng=rng)
        rows = [~np.isnan(series.row(series.release(f"r{i}", level, threshold)))
                for i, (level, threshold) in enumerate([("0.5", 3.5), ("2", 2.5), ("0.5", 0.5)])]  # fmt: skip
        when = np.where(rows[0], 0, np.where(rows[1], 1, np.where(rows[2], 2, 3)))
        outcomes.append(when)
    times = np.array(outcomes)
    low, high = times[:, :3].ravel(), times[:, 3:6].ravel()
    assert_consistent(two_sample_outcomes(low, high), "empty cells, first half against second")
    assert_consistent(two_sample_outcomes(times[:, 6:9].ravel(), times[:, 9:].ravel()), "counted cells")


# ---- privacy, measured: two releases of a cell of count c and of one of count c + 1

ROUNDS = [("0.5", 0.5), ("0.4", 1.0)]
SWAPPED = [("0.4", 1.0), ("0.5", 0.5)]
FINEST, EPSILONS, CELLS = 0.5, (0.25, 0.5, 1.0), 60_000
ONE = Gaussian(sensitivity=1.0)


def delta(epsilon: float, rho: float) -> float:
    """The exact delta of one Gaussian release at rho: the hockey stick of the finest level."""
    mu = math.sqrt(2 * rho)
    return float(ndtr(-epsilon / mu + mu / 2) - math.exp(epsilon) * ndtr(-epsilon / mu - mu / 2))


def outcomes(rounds: list[tuple[str, float]], count: int, seed: int, **wrong: object) -> np.ndarray:
    """What is seen of each cell in both releases, in bins two thirds of a count wide, as one number."""
    levels, thresholds = zip(*rounds, strict=True)
    drawn = release_sparse(ONE, np.full(CELLS, count), levels, thresholds, rng=seeded(seed), **wrong)
    bins = np.where(drawn.published, np.floor(1.5 * (np.nan_to_num(drawn.noise) + count)) + 50, 0).astype(np.int64)
    return 1000 * bins[0] + bins[1]


def excess(first: np.ndarray, second: np.ndarray, epsilon: float) -> float:
    """How many standard errors the best event found in one half lies above the bound in the other half."""
    half = len(first) // 2
    _, index = np.unique(np.concatenate([first, second]), return_inverse=True)
    size = int(index.max()) + 1
    found, tried, found_other, tried_other = (np.bincount(part, minlength=size) / half for part in np.split(index, 4))
    event = found > math.exp(epsilon) * found_other
    p, q = float(tried[event].sum()), float(tried_other[event].sum())
    error = math.sqrt((p * (1 - p) + math.exp(2 * epsilon) * q * (1 - q) + 1 / half) / half)
    return (p - math.exp(epsilon) * q - delta(epsilon, FINEST)) / error


def worst(rounds: list[tuple[str, float]], count: int, seed: int, **wrong: object) -> float:
    """Look in both directions at all epsilons."""
    one, two = (outcomes(rounds, count + i, seed + i, **wrong) for i in (0, 1))
    return max(max(excess(one, two, e), excess(two, one, e)) for e in EPSILONS)


@pytest.mark.parametrize("rounds", [ROUNDS, SWAPPED], ids=["finer first", "coarser first"])
@pytest.mark.parametrize("count", [0, 2])
def test_joint_releases_of_neighbours_keep_the_bound_of_the_finest_level(
    rounds: list[tuple[str, float]], count: int
) -> None:
    """No event of both releases distinguishes c from c + 1 better than the finest release alone is allowed to."""
    # Twenty-four looks; 7 deviations are 3e-11 in all.
    assert worst(rounds, count, 21 + 2 * count) < 7


def test_the_measurement_sees_releases_that_cost_more() -> None:
    """Negative control: with fresh noise at each level, which costs the sum of the levels, the bound is exceeded."""
    assert worst(ROUNDS, 2, 31, tracked_noise=independent_redraw) > 7


def test_the_exact_delta_is_what_one_release_attains() -> None:
    """The bound is not loose: one release at the finest level alone reaches it."""
    mu = math.sqrt(2 * FINEST)
    draws = seeded(33).standard_normal(400_000)
    for epsilon in EPSILONS:
        loss = mu * draws + mu**2 / 2
        attained = float(np.mean(np.maximum(0.0, -np.expm1(epsilon - loss))))
        assert attained == pytest.approx(delta(epsilon, FINEST), rel=0.1)


def test_unrelated_paths_are_told_apart() -> None:
    """The comparison of laws rejects a redraw of tracked cells over the same sixteen rounds."""
    counts = np.repeat([0], 15_000)
    sparse, dense = both(MANY, counts, 41, tracked_noise=independent_redraw)
    assert_detected(compare(sparse, dense, counts == 0), "an independent redraw")
