"""Tests of the numerical slack of workload releases, and of the random bits that decide how noise is rounded."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

import sparsehist as sh
from sparsehist.entropy import seeded
from sparsehist.histogram import count_near, grid_step, numerical_slack
from sparsehist.ledger.spent import PathName
from sparsehist.noise import Gaussian
from sparsehist.release import workload_round
from sparsehist.release.workload_round import cell_grid, lots_for, path_name, slack_of
from sparsehist.workload import (
    Identity,
    Kronecker,
    Marginals,
    Matrix,
    Prefix,
    Ranges,
    Strategy,
    Union,
    Workload,
    next_state,
    strategy_named,
)
from sparsehist.workload.strategies.spectral import Spectral
from sparsehist.workload.strategies.spectral_kernels import PrefixKernel
from tests.histogram.test_slack import LATTICE, exact_step
from tests.stats import assert_consistent, assert_detected, g_test

CASES: list[tuple[Workload, str, int]] = [
    (Prefix(1000), "identity", 20),
    (Prefix(1000), "identity", 1000),
    (Ranges(997), "spectral", 20),
    (Prefix(1000), "spectral", 1000),
    (Prefix(100), "spectral(blend=4, window=10)", 20),
    (Prefix(300), "square_root(scaled=True)", 20),
    (Ranges(1000), "haar", 1000),
    (Prefix(100), "optimised", 1),
    (Matrix([[1.0, 1.0, 0.0], [2.0, 2.0, 0.0]]), "optimised", 1),
    (Marginals((12, 60), 2), "residual", 1000),
    (Marginals((30, 40), 2), "direct", 1),
    (Kronecker(Prefix(20), Identity(30)), "kronecker(spectral, identity)", 20),
    (Kronecker(Prefix(20), Prefix(30)), "kronecker(spectral, direct)", 1),
    (Union(Prefix(30), Identity(30)), "union(spectral, identity)", 1),
]  # fmt: skip


def noise_of(strategy: Strategy, z: np.ndarray) -> np.ndarray:
    """Return the noise that a strategy rounds: noise on cells if the strategy is invertible, otherwise on answers."""
    return strategy.to_cells(z) if strategy.invertible else strategy.noise_answers(z)


def exactly(strategy: Strategy, z: np.ndarray) -> np.ndarray:
    """Compute in long doubles the noise that a strategy makes from `z`, an array of standard normal variates."""
    if not isinstance(strategy, Spectral):
        return noise_of(strategy, np.eye(strategy.n_noise)).astype(np.longdouble) @ z
    kernel, cells, pi = strategy.kernel, strategy.workload.n_cells, np.longdouble("3.14159265358979323846264338")
    v, prefix = np.arange(1, kernel.n + 1), isinstance(kernel, PrefixKernel)
    # Entry (u, v) of `waves` is a multiple of sin(2πuv / size). To avoid the rounding error of the sine of a large
    # angle, the integer u·v is first reduced modulo `size`.
    size, u = (2 * kernel.n + 1, v[::-1]) if prefix else (2 * (kernel.n + 1), v)
    waves = np.sin(2 * pi * (np.outer(u, v) % size) / size) * np.sqrt(np.longdouble(4) / size)
    if prefix:
        waves *= (-1.0) ** u[:, np.newaxis]
    scaled = (z.T / np.sqrt(strategy._spectrum.astype(np.longdouble))).T
    return (strategy._scales[:cells].astype(np.longdouble) * (waves[:cells] @ scaled).T).T


def touched(strategy: Strategy, max_keys: int) -> np.ndarray:
    """Return the indices of the noisy numbers that one privacy unit can change."""
    if strategy.word == "identity":
        return np.arange(min(max_keys, strategy.workload.n_cells))
    # In the only test case with noise directly on the answers of marginals, each key counts towards one answer.
    if strategy.word == "direct" and isinstance(strategy.workload, Marginals):
        return np.arange(max_keys)
    return np.arange(strategy.workload.n_cells if strategy.invertible else strategy.workload.n_queries)


@pytest.mark.parametrize(("workload", "name", "max_keys"), CASES, ids=lambda part: str(part).replace(" ", "")[:40])
def test_noise_is_off_by_less_than_stated(workload: Workload, name: str, max_keys: int) -> None:
    """The slack exceeds the sum of the mean errors, in grid steps, of all noisy numbers that one unit can change."""
    strategy = strategy_named(name, workload)
    z = seeded(91).standard_normal((strategy.n_noise, 40))
    found = np.stack([noise_of(strategy, column) for column in z.T], axis=1)
    wanted = exactly(strategy, z.astype(np.longdouble))
    off = np.abs(found - wanted).mean(axis=1).astype(np.float64) + LATTICE[Gaussian] * wanted.std(axis=1).astype(
        np.float64
    )
    least = 1.0 if strategy.invertible else float(strategy.variance().min())
    step = cell_grid(strategy, 1.0) or grid_step(math.sqrt(least))
    measured = float(off[touched(strategy, max_keys)].sum()) / step
    stated = slack_of(Gaussian(), strategy, "1/2", max_keys, least=least, past=[])
    assert 0 < measured <= stated - 1e-12 * touched(strategy, max_keys).size


@pytest.mark.parametrize(
    "order", [("1/2", "1/3", "1", "5/12", "2/3"), ("1/2", "1/2000000", "1/1999999", "500001/1000000")]
)
def test_rounding_errors_of_earlier_levels_stay_within_the_slack(order: tuple[str, ...]) -> None:
    """If noise at several levels is computed in doubles instead of long doubles, its error is less than the slack."""
    strategy, family = strategy_named("identity", Identity(5000)), Gaussian()
    one, rng = seeded(92), seeded(92)
    kept: dict[Fraction, np.ndarray] = {}
    wide: dict[Fraction, np.ndarray] = {}
    for past, level in enumerate(map(Fraction, order)):
        kept[level] = next_state(family, strategy, kept.copy(), level, rng=one)
        wide[level] = exact_step(level, wide, rng.standard_normal(5000))
        error = float(np.abs(kept[level] - wide[level]).mean()) / family.std(level)
        near = count_near(list(kept)[:past], level)
        assert error + LATTICE[Gaussian] <= numerical_slack(1, 1.0, 1.0, near=near) - 1e-12


def test_lots_have_the_stated_probabilities_and_are_drawn_again_alike() -> None:
    """Noise is rounded up or down at random, with the exact probabilities.

    Rounding again with the same secret, strategy and level gives the same result. If one of them differs, the result
    differs too.
    """
    shares = np.array([0.0, 0.25, 0.6, 0.999])
    values = 0.5 * np.tile(np.concatenate([shares, shares - 3]), 50_000)
    path = path_name(strategy_named("identity", Prefix(8)))

    def lots(secret: bytes, path: PathName, level: str) -> np.ndarray:
        return workload_round.rounded(values, 0.5, lots_for(secret, path, level))

    found = lots(b"secret", path, "1/2")
    assert np.array_equal(found, lots(b"secret", path, "0.5"))
    other_path = path_name(strategy_named("haar", Prefix(8)))
    for other in ((b"Secret", path, "1/2"), (b"secret", other_path, "1/2"), (b"secret", path, "0.5000000000000001")):
        assert not np.array_equal(found, lots(*other))
    up = (found > np.floor(values / 0.5) * 0.5).reshape(-1, 8).sum(axis=0)
    assert up[0] == up[4] == 0
    for share, seen in zip(np.tile(shares, 2), up, strict=True):
        if share:
            assert_consistent(g_test([seen, 50_000 - seen], [share, 1 - share]), f"share {share}")
    assert_detected(g_test([up[1], 50_000 - up[1]], [0.265, 0.735]), "a share that is off")


def test_lots_do_not_depend_on_the_noise() -> None:
    """Two levels that differ by 1e-50 have equal noise in doubles, but are rounded with different random bits."""
    counts = sh.Counts(pl.DataFrame({"day": list(range(1000)), "count": [5] * 1000}), largest=1)
    series = sh.create(sh.open(":memory:", seed=1), counts, name="s", key="day", max_keys=1, domain=sh.Integers(1000))
    levels = [Fraction(1, 2), Fraction(1, 2) - Fraction(1, 10**50)]
    made = [
        series.release(f"r{i}", workload="identity()", level=level, strategy="identity")
        for i, level in enumerate(levels)
    ]
    one, other = (release.frame["noisy_answer"] for release in made)
    differing = int((one != other).sum())
    # Two independent random roundings of a fraction u differ with probability 2u(1 - u), on average 1/3.
    assert_consistent(g_test([differing, 1000 - differing], [1 / 3, 2 / 3]), "lots of two levels")
    assert (one - other).abs().max() == made[0].metadata["cell_grid"]


def test_slack_counts_the_numbers_that_depend_on_a_unit() -> None:
    """The slack covers all cells if the strategy mixes their noise, and otherwise only the cells of one unit."""

    def slack(strategy: Strategy, max_keys: int) -> float:
        return slack_of(Gaussian(), strategy, "1/2", max_keys, least=1.0, past=[])

    alone, joined = strategy_named("identity", Prefix(4096)), strategy_named("spectral", Prefix(4096))
    assert slack(alone, 20) == 20 * slack(alone, 1) == slack(strategy_named("identity", Identity(50)), 20)
    assert slack(joined, 20) == slack(joined, 1) > 1000 * slack(alone, 1)
