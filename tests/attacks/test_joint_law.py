"""All empty cells are equally likely to be published, and two releases together cost as much as the finer one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr

from sparsehist.entropy import seeded
from sparsehist.noise import Gaussian
from tests.attacks.stand_in import Drawn
from tests.histogram.sparse_simulation import independent_redraw, release_sparse
from tests.stats import assert_consistent, two_sample_outcomes


def test_empty_cells_are_chosen_uniformly_round_after_round() -> None:
    """No empty cell is more likely than another to be published in the first, second or third release."""
    counts, rng = np.repeat([0, 3], 6), seeded(17)
    rounds = [("0.5", 3.5), ("2", 2.5), ("0.5", 0.5)]
    times = np.empty((300, 6))
    for run in times:
        series = Drawn(counts, 1, rng=rng)
        rows = [~np.isnan(series.row(series.release(f"r{i}", *asked))) for i, asked in enumerate(rounds)]
        run[:] = np.argmax([*rows, np.ones(12, bool)], axis=0)[:6]
    assert_consistent(two_sample_outcomes(times[:, :3].ravel(), times[:, 3:].ravel()), "first half against second")


# ---- Measure privacy: compare two releases of a cell that has count c to two releases of a cell that has c + 1.

ROUNDS = [("0.5", 0.5), ("0.4", 1.0)]
SWAPPED = [("0.4", 1.0), ("0.5", 0.5)]
FINEST, EPSILONS, CELLS = 0.5, (0.25, 0.5, 1.0), 60_000
ONE = Gaussian(sensitivity=1.0)


def delta(epsilon: float, rho: float) -> float:
    """Return the exact delta at `epsilon` of one Gaussian release at level `rho`."""
    mu = math.sqrt(2 * rho)
    return float(ndtr(-epsilon / mu + mu / 2) - math.exp(epsilon) * ndtr(-epsilon / mu - mu / 2))


def outcomes(rounds: list[tuple[str, float]], count: int, seed: int, **wrong: object) -> np.ndarray:
    """Make two releases of many cells that all have the same true count; return an integer per cell.

    The integer encodes the two noisy counts of the cell, rounded down to bins.
    """
    levels, thresholds = zip(*rounds, strict=True)
    drawn = release_sparse(ONE, np.full(CELLS, count), levels, thresholds, rng=seeded(seed), **wrong)
    bins = np.where(drawn.published, np.floor(1.5 * (np.nan_to_num(drawn.noise) + count)) + 50, 0).astype(np.int64)
    return 1000 * bins[0] + bins[1]


def excess(first: np.ndarray, second: np.ndarray, epsilon: float) -> float:
    """Return how far two samples violate (epsilon, delta)-DP for the worst event, in standard errors.

    The violation is P - exp(epsilon)·Q - delta, where P and Q are the event's probabilities in the samples. One half
    of the draws is used to find the worst event, and the other half to estimate P and Q.
    """
    half = len(first) // 2
    _, index = np.unique(np.concatenate([first, second]), return_inverse=True)
    size = int(index.max()) + 1
    found, tried, found_other, tried_other = (np.bincount(part, minlength=size) / half for part in np.split(index, 4))
    event = found > math.exp(epsilon) * found_other
    p, q = float(tried[event].sum()), float(tried_other[event].sum())
    error = math.sqrt((p * (1 - p) + math.exp(2 * epsilon) * q * (1 - q) + 1 / half) / half)
    return (p - math.exp(epsilon) * q - delta(epsilon, FINEST)) / error


def worst(rounds: list[tuple[str, float]], count: int, seed: int, **wrong: object) -> float:
    """Compare releases of `count` with releases of `count` + 1, in both directions; return the largest `excess`."""
    one, two = (outcomes(rounds, count + i, seed + i, **wrong) for i in (0, 1))
    return max(max(excess(one, two, e), excess(two, one, e)) for e in EPSILONS)


@pytest.mark.parametrize("rounds", [ROUNDS, SWAPPED], ids=["finer first", "coarser first"])
@pytest.mark.parametrize("count", [0, 2])
def test_joint_releases_of_neighbours_keep_the_bound_of_the_finest_level(
    rounds: list[tuple[str, float]], count: int
) -> None:
    """Two releases together distinguish the counts c and c + 1 no better than the finer release alone."""
    # The probability that any of the 24 comparisons exceeds 7 standard errors by chance is 3e-11.
    assert worst(rounds, count, 21 + 2 * count) < 7


def test_the_measurement_sees_releases_that_cost_more() -> None:
    """Negative control: two releases with independent noise, which cost the sum of their levels, are detected."""
    assert worst(ROUNDS, 2, 31, tracked_noise=independent_redraw) > 7


def test_the_exact_delta_is_what_one_release_attains() -> None:
    """One Gaussian release attains the delta that `delta` computes, as estimated from simulated privacy losses."""
    mu = math.sqrt(2 * FINEST)
    draws = seeded(33).standard_normal(400_000)
    for epsilon in EPSILONS:
        loss = mu * draws + mu**2 / 2
        attained = float(np.mean(np.maximum(0.0, -np.expm1(epsilon - loss))))
        assert attained == pytest.approx(delta(epsilon, FINEST), rel=0.1)
