"""Tests that releases of a running series have the correct joint distribution and cost, and never change."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from scipy.linalg import solve_triangular
from scipy.stats import chi2, kstest, norm

import sparsehist as sh
from sparsehist.entropy import seeded
from sparsehist.errors import (
    BudgetExceededError,
    CapExceededError,
    NameTakenError,
    NotFoundError,
)
from sparsehist.histogram import grid_step, round_to_grid
from sparsehist.noise.over_steps import Point, StepNoise
from sparsehist.privacy import level_text
from sparsehist.release.running_round import _covariance
from sparsehist.release.steps import StepFiles
from tests.running.logs import frame, started
from tests.stats import assert_consistent, assert_detected, ks_test, two_sample_outcomes, two_sample_vectors

# The publication pattern of a cell says which of the releases publish the cell.
# With 8,000 cells per row of `HISTORIES`, an error of 9 % in the probability of a common pattern is detected.
CELLS = 8_000
HISTORIES = np.array([[0, 0, 0, 0, 0], [0, 0, 1, 1, 2], [1, 2, 2, 3, 5], [0, 0, 0, 6, 6], [3, 3, 3, 3, 3]])
KINDS = np.repeat(np.arange(5), CELLS)
COUNTS = HISTORIES[KINDS]
# Each round: (number of steps appended before the release, step that is released, level, threshold).
ROUNDS = [
    (1, 1, "0.2", 3.0),
    (3, 3, "0.2", 5.0),
    (3, 2, "1", 2.5),
    (3, 1, "0.5", 2.0),
    (5, 5, "0.2", 6.5),
    (5, 2, "1", 2.0),
    (5, 4, "1", 4.0),
]


def days() -> list[pl.DataFrame]:
    """Return logs of five days, which give each cell the running counts of its row of `HISTORIES`."""
    new = np.diff(COUNTS, axis=1, prepend=0)
    found = []
    for step in range(5):
        keys = np.repeat(np.arange(len(COUNTS)), new[:, step])
        found.append(pl.DataFrame({"user": step * 10**6 + np.arange(keys.size), "key": keys}))
    return found


def released(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Make the releases of `ROUNDS`; return which cells are published, and their noisy counts (0 if unpublished).

    Both returned arrays have the shape (releases, cells).
    """
    series = started([], max_keys=1, domain=sh.Integers(len(COUNTS)), seed=seed)
    published, values = (np.zeros((len(ROUNDS), len(COUNTS)), dtype) for dtype in (bool, float))
    log, appended = days(), 0
    names = []
    for i, (until, step, level, threshold) in enumerate(ROUNDS):
        while appended < until:
            series.append(log[appended], step=appended + 1)
            appended += 1
        names.append(series.release(f"r{i}", step=step, level=level, threshold=threshold).frame)
    for i, rows in enumerate(names):
        assert series.release(f"r{i}").frame.equals(rows)
        published[i, rows["key"]] = True
        values[i, rows["key"]] = rows["noisy_count"]
    return published, values


def dense(seed: int, *, scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Draw the releases of `ROUNDS` with noise on every cell; return which cells are published, and noisy counts."""
    points = list(dict.fromkeys((step - 1, Fraction(level)) for _, step, level, _ in ROUNDS))
    steps, levels = [step for step, _ in points], np.array([float(level) for _, level in points])
    covariance = _covariance(5)[np.ix_(steps, steps)] / (2 * np.maximum.outer(levels, levels))
    noise = scale * np.linalg.cholesky(covariance) @ seeded(seed).standard_normal((len(points), len(COUNTS)))
    grids = map(grid_step, np.sqrt(np.diag(covariance)))
    noise = np.stack([round_to_grid(row, grid) for row, grid in zip(noise, grids, strict=True)])
    noise = noise[[points.index((step - 1, Fraction(level))) for _, step, level, _ in ROUNDS]]
    noisy = COUNTS.T[[step - 1 for _, step, *_ in ROUNDS]] + noise
    published = noisy > np.array([tau for *_, tau in ROUNDS])[:, np.newaxis]
    return published, np.where(published, noisy, 0.0)


def p_values(first: tuple[np.ndarray, np.ndarray], second: tuple[np.ndarray, np.ndarray]) -> list[float]:
    """Compare two sets of releases, by which cells they publish and by their noisy counts; return p-values."""
    found = []
    patterns = [2 ** np.arange(len(published)) @ published for published, _ in (first, second)]
    for kind in range(5):
        mine = kind == KINDS
        found.append(two_sample_outcomes(patterns[0][mine], patterns[1][mine]))
    values = [
        np.column_stack([KINDS, pattern, noisy.T])[pattern > 0]
        for pattern, (_, noisy) in zip(patterns, (first, second), strict=True)
    ]
    return [*found, two_sample_vectors(*values)]


def test_releases_through_the_store_have_the_joint_law_of_dense_ones() -> None:
    """Releases of a running series, at any step and in any order, have the distribution of dense releases.

    Dense releases add noise to every cell. As a negative control, noise that is 10 % too wide is rejected.
    """
    through_store = released(1)
    for p_value in p_values(through_store, dense(2)):
        assert_consistent(p_value, "releases of running counts")
    assert_detected(min(p_values(through_store, dense(3, scale=1.1))), "a scale 10 % off")


@pytest.mark.slow
def test_a_thousand_release_points_have_the_joint_law_of_their_noise() -> None:
    """The noise of 1,000 releases, at 100 steps and ten nearly equal levels, has the exact covariance.

    As a negative control, noise that is 10 % too wide is rejected.
    """
    steps, levels = 100, [Fraction(1, 10) * (1 + Fraction(1, 10**6)) ** i for i in range(10)]
    series = started([], max_keys=12, domain=sh.Integers(12), steps=steps)
    for step in range(1, steps + 1):
        users = np.arange(50 * step, 50 * step + 50) if step > 1 else np.arange(-5000, 100)
        log = pl.DataFrame({"user": np.repeat(users, 12), "key": np.tile(np.arange(12), users.size)})
        series.append(log, step=step)
    points = [Point(int(i) % steps, levels[i // steps]) for i in seeded(1).permutation(1000)]
    noisy = np.empty((1000, 12))
    for i, (step, level) in enumerate(points):
        rows = series.release(f"r{i}", step=step + 1, level=level).frame.sort("key")
        noisy[i] = rows["noisy_count"].to_numpy() - (5100 + 50 * step)
    with series._hold() as (state, record):
        spots = [Point(*spot) for spot in state._history(record.path_id).levels]
        noise = np.array([state.noise(record.path_id, spot, 12) for spot in spots])
        keys = state.tracked(record.path_id).position
        names = StepFiles(state, record, series.declaration.domain.dtypes).all_keys["key_0"].to_numpy()
    assert spots == points
    np.testing.assert_allclose(noisy[:, names[keys]], noise, atol=0.501)
    factor = StepNoise(12 * _covariance(steps)).factor(points)
    normals = solve_triangular(factor.triangle, noise[factor.order], lower=True)
    assert_consistent(float(kstest(normals.ravel(), "norm").pvalue), "noises at a thousand points")
    squares = float((normals**2).sum())
    assert_consistent(2 * min(chi2.cdf(squares, 12_000), chi2.sf(squares, 12_000)), "their size")
    assert_detected(chi2.sf(1.1**2 * squares, 12_000), "a scale 10 % off")
    assert series.store.ledger(full=True).filter(pl.col("scope") == "path")["level"].item() == level_text(max(levels))


DAYS = [
    [(f"u{i}", i % 5) for i in range(900)],
    [(f"u{i}", 7) for i in range(500)],
    [(f"v{i}", 8) for i in range(700)],
]


def test_a_name_stands_for_the_same_numbers_for_ever() -> None:
    """Later steps and releases never change a release, and its name cannot be used again for a different step."""
    series = started(DAYS[:2])
    first = series.release("first", step=1, level="0.1")
    series.append(frame(DAYS[2]), step=3)
    series.release("third", step=3, level="0.5")
    series.release("second", step=2, level="0.05", threshold=90)
    assert series.release("first", step=1).frame.equals(first.frame)
    assert series.release("first").metadata == first.metadata
    with pytest.raises(NameTakenError, match="step=1"):
        series.release("first", step=2)
    with pytest.raises(NotFoundError, match="not been appended"):
        series.release("other", step=4, level="0.1")


def test_all_steps_together_cost_the_finest_level_once() -> None:
    """Releases at all steps of a running series cost their finest level once; plan, ledger, cap and budget agree."""
    series = started(DAYS, cap="0.5")
    for step, level in ((3, "0.1"), (1, "0.4"), (2, "0.4")):
        series.release(f"r{step}", step=step, level=level)
    assert series.store.ledger(full=True).filter(scope="everybody")["level"].item() == "0.4"
    planned = series.plan(["0.1", "0.5", "0.6"], step=3).levels
    assert planned["adds"].to_list() == ["0", "0.1", "0.2"] and planned["refused"].is_null().to_list()[1:] == [
        True,
        False,
    ]
    assert planned["threshold"][0] == series.release("r3").metadata["threshold"]
    with pytest.raises(CapExceededError):
        series.release("finer", step=1, level="0.6")
    series.store.set_budget(rho="0.45", reason="a test")
    with pytest.raises(BudgetExceededError):
        series.release("finer", step=1, level="0.5")


def test_noise_is_close_to_the_bound_that_no_mechanism_beats() -> None:
    """The root mean square error over all steps is less than 5 % above a lower bound for all possible mechanisms."""
    for steps, bound in ((7, 1.404), (30, 1.811), (365, 2.583)):
        ratio = float(np.sqrt(np.diag(_covariance(steps)).mean()))
        assert bound < ratio < 1.05 * bound
        assert ratio / bound == pytest.approx({7: 1.039, 30: 1.035, 365: 1.021}[steps], abs=6e-4)


def test_a_false_key_keeps_its_noise_when_it_gets_units() -> None:
    """A false key of step 1 that gets units at step 2 has noise with the exact joint distribution at both steps."""
    series = started([[("a", 0)]], domain=sh.Integers(20_000), max_keys=1)
    first = series.release("first", step=1, level="0.5", threshold=1.0)
    false_keys = [key for key in first.frame["key"] if key != 0]
    series.append(frame([(f"{key}-{i}", key) for key in false_keys for i in range(20)]), step=2)
    both = first.frame.join(series.release("second", step=2, level="0.5", threshold=1.0).frame, on="key", suffix="_2")
    late = both.filter(pl.col("key").is_in(false_keys))
    assert late.height == len(false_keys) > 3000
    noise, later = late.select(pl.col("noisy_count"), pl.col("noisy_count_2") - 20).to_numpy().T
    covariance = _covariance(5)[:2, :2]  # covariance of a cell's noise at steps 1 and 2, level 0.5
    slope = covariance[0, 1] / covariance[0, 0]
    residual = math.sqrt(covariance[1, 1] - slope * covariance[0, 1])
    assert_consistent(ks_test((later - slope * noise) / residual, norm.cdf))
    assert_detected(ks_test((later - 0.5 * slope * noise) / residual, norm.cdf))
    assert series.release("again", step=1, level="0.5", threshold=1.0).frame.equals(first.frame)


def test_delta_of_open_domains_is_spent_over_all_steps() -> None:
    """In a running series over an open domain, a key is published only from the first step at which it has units.

    Releases at all steps together use no more than the declared delta.
    """
    series = started(DAYS, domain=sh.Open("integer", delta="1e-6"))
    third = series.release("third", step=3, level="0.5")
    first = series.release("first", step=1, level="0.4")
    assert set(third.frame["key"]) == {0, 1, 2, 3, 4, 7, 8}
    assert set(first.frame["key"]) == {0, 1, 2, 3, 4}
    assert "approximate 0.5-zCDP" in first.metadata["guarantee"]
    spent = [third.metadata["delta_infinity"], first.metadata["delta_infinity"]]
    for i in range(4):
        release = series.release(f"r{i}", step=1 + i % 3, level=Fraction(6 + i, 10))
        spent.append(release.metadata["delta_infinity"])
    assert spent == sorted(spent) and spent[-1] < 1e-6
    with pytest.raises(BudgetExceededError):
        series.release("low", step=1, level="0.7", threshold=3)
