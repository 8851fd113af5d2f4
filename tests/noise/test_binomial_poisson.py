"""Binomial and Poisson numbers: their law is computed and compared, then sampled; numpy's fail the same tests."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy import special, stats

import sparsehist
from sparsehist import entropy
from sparsehist.errors import InputError
from sparsehist.noise.binomial_poisson import Number, as_number, binomial, count_slack, poisson
from tests.noise.exact_counts import accepted, inverted_distance, quantile_cells
from tests.stats import SHARE, assert_consistent, assert_detected, g_test

CELLS = 8
# In eight cells of about one probability each, a law that is off by 5e-5 in total variation in any way that the cells
# see is caught with probability .9 by so many draws, and one that is off by 2e-4 by a sixteenth of them.
MANY = 7_500_000_000
SOME = MANY // 16


def test_the_numbers_of_draws_have_the_power_they_are_said_to_have() -> None:
    """The worst law that is off by a total variation of d has a chi-square distance of at least 4 d**2."""
    for draws, distance in ((MANY, 5e-5), (SOME, 2e-4)):
        rejected_from = special.chdtri(CELLS - 1, SHARE)
        assert stats.ncx2.sf(rejected_from, CELLS - 1, 4 * draws * distance**2) > 0.9


SMALL = [
    (None, 1e-3), (None, 0.7), (None, 15.9), (1, 0.5), (3, 0.3), (20, 0.5), (63, 0.5), (64, 0.49), (1000, 0.0159),
    (10**9, 1.59e-8), (10**25, 1.5e-24), (10**12, 1e-19),
]  # fmt: skip


@pytest.mark.parametrize(("n", "p"), SMALL)
def test_small_variances_are_within_the_slack(n: int | None, p: float) -> None:
    """Every boundary between two numbers, found to the last bit, against 120 digits."""
    assert inverted_distance(n, p, 110 if n is None else min(n, 110)) <= count_slack(p) / 3


LARGE = [
    (None, 16.1), (None, 31.7), (None, 300.0), (None, 1e4), (None, 1e6), (None, 2.0**32 + 0.3), (64, 0.5), (66, 0.49),
    (70, 0.4), (120, 0.3), (600, 0.5), (1000, 0.03), (10**6, 3e-4), (10**6, 0.5), (2**33 + 7, 3e-4), (10**9, 0.4),
    (2**64 + 12345, 1e-15), (10**25, 1e-22), (10**25 + 1, 1e-19), (10**77, 3e-73),
]  # fmt: skip


@pytest.mark.parametrize(("n", "p"), LARGE)
def test_large_variances_are_within_the_slack(n: int | None, p: float) -> None:
    """The staircase lies above the law, what is accepted unseen below it, and the mass has some fourteen digits."""
    deviation = np.sqrt(p if n is None else float(n) * p * (1 - p))
    steps = np.arange(-int(10 * deviation) - 2, int(11 * deviation) + 3)
    seen = accepted(n, p, steps if steps.size < 500 else steps[:: steps.size // 250])
    assert (seen.mass[~seen.inside] == 0).all()
    assert (seen.mass <= seen.height).all()
    assert (seen.surely <= seen.mass).all()
    assert np.ptp(seen.proposed) <= 1e-14 * seen.proposed[0]
    weight = seen.share / seen.share.sum()
    assert float(weight @ np.abs(seen.error)) <= count_slack(float(n or 1) * p) / 10
    # 95 units in the last place for each unit of deviance, and some for small values.
    likely = seen.share > 1e-300
    deviance = np.log(seen.share.max() / seen.share[likely])
    assert (np.abs(seen.error[likely]) <= (95 * deviance + 60) * 2.0**-53).all()


def test_stairs_are_above_every_law_and_leave_nothing_out() -> None:
    """Where tables begin and end, for p up to one half: what lies beyond the last step is below 2**-60."""
    for variance in np.concatenate([16 * 1.25 ** np.arange(25), 15.99 * 1.25 ** np.arange(1, 27), [1e5, 1e8]]):
        for p in (None, 1e-9, 0.1, 0.3, 0.5):
            n = None if p is None else max(int(np.ceil(variance / (p * (1 - p)))), 64)
            deviation = np.sqrt(variance)
            steps = np.unique(np.round(np.linspace(-12, 30, 85) * deviation).astype(np.int64))
            seen = accepted(n, float(variance) if n is None else p, steps)
            assert (seen.mass <= seen.height).all()
            assert (seen.surely <= seen.mass).all()
            # Twelve deviations from the mode masses fall by e each twelfth of a deviation and faster.
            assert max(seen.left_out) * deviation < 2.0**-63


def p_value(n: int | None, p: float, draws: int, sample: object) -> float:
    """G-test in a few cells of equal probability, of draws that fit the cache at a time."""
    edges, probabilities = quantile_cells(n, p, CELLS)
    seen, first, size = np.zeros(1, np.int64), int(edges[0]), 1 << 14
    for begin in range(0, draws, size):
        # Below the first edge is one cell, so that numbers may be counted from there on.
        drawn = np.maximum(np.asarray(sample(min(size, draws - begin))) - first, 0)
        counts = np.bincount(np.minimum(drawn, int(edges[-1]) + 1 - first), minlength=seen.size)
        seen = counts + np.pad(seen, (0, counts.size - seen.size))
    numbers = first + np.arange(seen.size)
    return g_test(np.bincount(np.searchsorted(edges, numbers), seen, minlength=edges.size + 1), probabilities)


def ours(n: int | None, p: float, seed: int):
    """Draw from one law."""
    rng = entropy.seeded(seed)
    if n is None:
        return lambda size: poisson(p, size, rng=rng)
    return lambda size: binomial(as_number([n]), p, size, rng=rng)


def ours_in_groups(n: int | None, p: float, seed: int):
    """Draw from one law, as if each draw had one of its own."""
    rng = entropy.seeded(seed)
    if n is None:
        return lambda size: poisson(np.full(size, p), rng=rng)
    trials = as_number([n])
    return lambda size: binomial(Number(trials.high.repeat(size), trials.low.repeat(size)), p, rng=rng)


LAWS = [
    (12, 0.3), (12, 0.97), (200, 0.5), (10**6, 1e-6), (10**9, 4e-9), (1000, 0.05), (10**6, 3e-4), (10**9, 3e-6),
    (10**6, 0.5), (10**25, 1e-19), (2**64 + 3, 1e-15), (10**21, 1e-19), (None, 3.0), (None, 30.0), (None, 300.0),
    (None, 1e6), (None, 1e7),
]  # fmt: skip


@pytest.mark.parametrize(("n", "p"), LAWS)
def test_numbers_follow_their_law(n: int | None, p: float) -> None:
    """A million draws see 4e-3 in total variation; means off by 1 % or by a tenth of a standard deviation are."""
    assert_consistent(p_value(n, p, 10**6, ours(n, p, 41)), f"n = {n}, p = {p}")
    assert_consistent(p_value(n, p, 10**6, ours_in_groups(n, p, 40)), f"groups of n = {n}, p = {p}")
    mean = p if n is None else n * p
    wrong = p * (1 + max(0.01, 0.1 / np.sqrt(mean)) * (1 if p < 0.9 else -1))
    assert_detected(p_value(n, p, 10**6, ours(n, wrong, 42)), "a mean that is off")


@pytest.mark.slow
@pytest.mark.parametrize(("n", "p"), [(10**5, 3e-4), (10**6, 3e-4), (10**7, 3e-4)])
def test_no_error_of_5e_5_where_others_are_worst(n: int, p: float) -> None:
    """7.5e9 draws at means of 30, 300 and 3,000 would see a total variation of 5e-5."""
    assert_consistent(p_value(n, p, MANY, ours(n, p, 43)), f"n = {n}, p = {p}")


@pytest.mark.slow
@pytest.mark.parametrize(("n", "p"), LAWS)
def test_no_error_of_2e_4_elsewhere(n: int | None, p: float) -> None:
    """4.7e8 draws would see a total variation of 2e-4."""
    assert_consistent(p_value(n, p, SOME, ours(n, p, 44)), f"n = {n}, p = {p}")


@pytest.mark.slow
def test_the_binomial_of_numpy_fails_the_same_test() -> None:
    """At a mean of 300 it is off by 1e-4; a sixth of the draws see it."""
    rng = entropy.seeded(45)
    assert_detected(p_value(10**6, 3e-4, MANY // 6, lambda size: rng.binomial(10**6, 3e-4, size)), "numpy's binomial")


def test_no_law_rests_on_the_discrete_draws_of_numpy() -> None:
    """Nobody in the package asks a generator for a discrete law that it gets from its binomial or Poisson draws."""
    asked = re.compile(
        r"(?:rng|generator\(\))\.(?:binomial|poisson|multinomial|hypergeometric|multivariate_hypergeometric|"
        r"negative_binomial|geometric|logseries|zipf|dirichlet|gamma|standard_gamma|beta)\("
    )
    files = list(Path(sparsehist.__file__).parent.rglob("*.py"))
    assert [file.name for file in files if asked.search(file.read_text())] == []
    assert len(files) > 100
    assert asked.search("rng.binomial(3, 0.5)")


def test_groups_keep_their_own_laws() -> None:
    """Small, large, certain, impossible and empty groups in one call: each has its own law; 20,000 rounds see 3 %."""
    trials = [0, 10**9, 7, 5, 0, 3 * 10**9, 10**25, 400, 40]
    p = np.array([1e-7, 4e-9, 0.0, 1.0, 0.5, 1e-7, 3e-24, 0.6, 0.9])
    drawn = binomial(trials * 20_000, np.tile(p, 20_000), rng=entropy.seeded(46)).reshape(20_000, -1)
    assert not drawn[:, [0, 2, 4]].any()
    assert (drawn[:, 3] == 5).all()
    assert drawn[:, 7].max() <= 400
    for group in (1, 5, 6, 7, 8):
        edges, probabilities = quantile_cells(trials[group], p[group], CELLS)
        cells = np.searchsorted(edges, drawn[:, group])
        assert_consistent(g_test(np.bincount(cells, minlength=probabilities.size), probabilities), f"group {group}")
        neighbour = np.searchsorted(edges, drawn[:, group] + 1)
        assert_detected(g_test(np.bincount(neighbour, minlength=probabilities.size), probabilities), "one more")


def test_draws_are_independent_of_one_another() -> None:
    """Consecutive draws of one call, small and large, fill the squares of a grid evenly; a million see 1 % in one."""
    for n, p in ((10**6, 2e-6), (10**6, 3e-4)):
        drawn = ours(n, p, 47)(2 * 10**6).reshape(-1, 2)
        edges, probabilities = quantile_cells(n, p, 6)
        cells = np.searchsorted(edges, drawn)
        pairs = np.bincount(cells[:, 0] * probabilities.size + cells[:, 1], minlength=probabilities.size**2)
        assert_consistent(g_test(pairs, np.outer(probabilities, probabilities).reshape(-1)))


def test_a_fraction_is_taken_exactly_and_a_double_near_one_too() -> None:
    """Of 1 - 2**-60 a double knows nothing, a fraction all: no failure is seen in 2**20 draws, a few in 2**61."""
    rng, almost = entropy.seeded(48), 1 - Fraction(1, 2**60)
    assert (binomial(np.full(1000, 2**20), almost, rng=rng) == 2**20).all()
    failures = 2**61 - binomial(np.full(10_000, 2**61), almost, rng=rng)
    assert_consistent(g_test(np.bincount(failures, minlength=60), stats.poisson.pmf(np.arange(60), 2.0)))
    third = as_number(Fraction(1, 3))
    assert Fraction(third.high[0]) + Fraction(third.low[0]) - Fraction(1, 3) < Fraction(1, 2**108)
    assert as_number([10**25 + 1]).at(0) == 10**25 + 1


def test_no_draws_from_no_groups() -> None:
    """Empty arrays give empty arrays, however the other argument looks."""
    rng = entropy.seeded(49)
    assert binomial(np.zeros(0, np.int64), 0.5, rng=rng).size == 0
    assert binomial(np.zeros(0, np.int64), Fraction(2, 3), rng=rng).size == 0
    assert poisson(np.zeros(0), rng=rng).size == 0
    assert poisson(3.0, 0, rng=rng).size == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda rng: binomial([-1], 0.5, rng=rng),
        lambda rng: binomial([1], 1.5, rng=rng),
        lambda rng: binomial([1], np.nan, rng=rng),
        lambda rng: binomial([10**25], 0.5, rng=rng),
        lambda rng: binomial([10**25], 1.0, rng=rng),
        lambda rng: binomial([10**400], 0.5, rng=rng),
        lambda rng: poisson(-1.0, rng=rng),
        lambda rng: poisson(2.0**60, rng=rng),
    ],
)
def test_what_cannot_be_drawn_is_refused(call) -> None:
    """Negative numbers, no probabilities, more than 64 bits."""
    with pytest.raises(InputError):
        call(entropy.seeded(50))
