"""The delta of an open domain: against other arithmetic, against draws, and as a budget."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp

from sparsehist.entropy import seeded
from sparsehist.errors import DeclarationError, present
from sparsehist.histogram import effective_threshold, grid_step, release_dense
from sparsehist.histogram.grid import published_step
from sparsehist.noise import DiscreteLaplace, Gaussian, Laplace, Poisson, Skellam
from sparsehist.open_domain import laplace_history, lattice_history, never_exceeds
from sparsehist.open_domain.lattice_history import conditional_survival
from sparsehist.open_domain.never_exceeds import (
    delta_of,
    first_exceedance,
    first_exceedances,
    open_delta,
    open_delta_is_exact,
    probability_for,
    threshold_for_exceedance,
)
from sparsehist.open_domain.open_budget import KEPT_BACK, OpenBudget, OpenBudgets
from sparsehist.privacy import as_level
from tests import oracle
from tests.stats import assert_consistent, assert_detected, binomial_test, g_test

# Scrambled levels, one of them twice; thresholds in counts, at which each release publishes a few per cent.
SCENES = {
    "gaussian": (Gaussian(), [("0.2", 3.5), ("0.05", 6.0), ("1/2", 2.75), ("0.2", 3.25), ("0.1", 4.5)]),
    "discrete_laplace": (DiscreteLaplace(), [("1", 4.5), ("0.5", 7.5), ("2", 3.5), ("1", 3.5), ("0.7", 5.5)]),
    "poisson": (Poisson(), [("0.1", 17.5), ("0.05", 30.5), ("1/5", 10.5), ("0.1", 16.5), ("0.07", 23.5)]),
    "skellam": (Skellam(), [("0.1", 10.5), ("0.05", 14.5), ("1/5", 7.5), ("0.1", 9.5), ("0.07", 12.5)]),
    "laplace": (Laplace(), [("1", 4.5), ("0.5", 7.5), ("2", 3.5), ("1", 3.5), ("0.7", 5.5)]),
}
# 200,000 keys at some 6 per cent see a relative error of 8 per cent.
KEYS = 200_000


@pytest.mark.parametrize(
    ("levels", "deviations"),
    [(["0.2", "0.1"], ["3", "3.5"]), (["0.1", "0.4", "0.2"], ["3", "2.5", "2.8"]), (["0.1", "0.3"], ["37", "37.1"])],
)
def test_gaussian_delta_agrees_with_thirty_digits(levels: list[str], deviations: list[str]) -> None:
    """Twelve digits of the sum over rounds, computed by mpmath; also at 1e-300."""
    with mp.workdps(30):
        thresholds = [mp.mpf(t) * oracle.std(level) + 1 for level, t in zip(levels, deviations, strict=True)]
        total = mp.zero
        for i, level in enumerate(levels):
            rows = {
                mp.mpf(known): (-mp.inf, (thresholds[j] - 1) * mp.mpf(known)) for j, known in enumerate(levels[:i])
            }
            rows[mp.mpf(level)] = ((thresholds[i] - 1) * mp.mpf(level), mp.inf)
            # S = level * Z has variance level / 2.
            times = sorted(rows)
            lower, upper = zip(*(rows[time] for time in times), strict=True)
            total += mp.exp(oracle.log_box([time / 2 for time in times], lower, upper))
        expected = float(total)
    releases = [(level, float(threshold)) for level, threshold in zip(levels, thresholds, strict=True)]
    assert open_delta(Gaussian(), releases, 1) == pytest.approx(expected, rel=3e-12, abs=0)


def brute_survival(steps: list[np.ndarray], bounds: list[tuple[int, int]], place: np.ndarray) -> float:
    """P[low_i < Z_i <= high_i for all i] for a chain of independent increments, by plain convolution."""
    law = np.where(place == 0, 1.0, 0.0)
    for step, (low, high) in zip(steps, bounds, strict=True):
        law = np.convolve(law, step, mode="same") * ((place > low) & (place <= high))
    return float(law.sum())


FAR = 10**6
LATTICE = {
    # Levels from fine to coarse; the bounds of noise at the others, and what is exceeded at one of them.
    "discrete_laplace": (DiscreteLaplace(), ["1", "0.7", "0.5"], [5, None, 9], 7),
    "discrete_laplace, finest": (DiscreteLaplace(), ["1", "0.7", "0.5"], [None, 6, 9], 5),
    "discrete_laplace, coarsest": (DiscreteLaplace(), ["1", "0.7", "0.5"], [5, 6, None], 40),
    "poisson": (Poisson(), ["0.2", "0.1", "0.05"], [9, None, 30], 17),
    "poisson, below the mean": (Poisson(), ["0.2", "0.1", "0.05"], [9, None, 22], 4),
    "skellam": (Skellam(), ["0.2", "0.1", "0.05"], [6, None, 11], 9),
    "skellam, coarsest": (Skellam(), ["0.2", "0.1", "0.05"], [6, 7, None], 30),
}


def increments(family: DiscreteLaplace | Poisson | Skellam, levels: list[str], place: np.ndarray) -> list[np.ndarray]:
    """Laws of the increments from level to level, from their definitions."""

    def poisson(mean: float) -> np.ndarray:
        law = np.zeros(place.size)
        law[place >= 0] = [math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in place[place >= 0]]
        return law

    found, before = [], None
    for text in levels:
        level = float(Fraction(text))
        if isinstance(family, DiscreteLaplace):
            a = math.exp(-level)
            law = a ** np.abs(place) * (1 - a) / (1 + a)
            if before is not None:
                fine = math.exp(-before)
                stay = fine / (1 - fine) ** 2 * (1 - a) ** 2 / a
                law = stay * (place == 0) + (1 - stay) * law
        else:
            law = poisson(1 / level - (0.0 if before is None else 1 / before))
            law = np.convolve(law, law[::-1], mode="same") if isinstance(family, Skellam) else law
        found.append(law)
        before = level
    return found


@pytest.mark.parametrize("name", LATTICE)
def test_integer_histories_agree_with_plain_convolutions(name: str) -> None:
    """The transforms give what adding up products gives, and a bound off by one does not."""
    family, levels, bounds, margin = LATTICE[name]
    place = np.arange(-300, 301)
    at = bounds.index(None)
    box = [(-FAR, FAR if bound is None else bound) for bound in bounds]
    box[at] = (margin, FAR)
    joint = brute_survival(increments(family, levels, place), box, place)
    expected = joint / float(family.tail(margin, levels[at]))
    upper = {as_level(level): bound for level, bound in zip(levels, bounds, strict=True) if bound is not None}
    assert conditional_survival(family, upper, as_level(levels[at]), margin) == pytest.approx(expected, abs=1e-11)
    moved = {level: bound - 1 for level, bound in upper.items()}
    assert abs(conditional_survival(family, moved, as_level(levels[at]), margin) - expected) > 1e-6


@pytest.mark.parametrize("name", SCENES)
def test_the_order_of_releases_changes_terms_and_not_their_sum(name: str) -> None:
    """Whatever comes first: a strong check, since every order computes other integrals."""
    family, releases = SCENES[name]
    sums = {math.fsum(first_exceedances(family, order)) for order in itertools.permutations(releases[:4])}
    assert max(sums) / min(sums) - 1 < 1e-11


@pytest.mark.parametrize("name", SCENES)
def test_the_order_does_not_matter_for_levels_at_random(name: str) -> None:
    """Pairs of levels up to a factor of thirty apart, with thresholds that either may decide."""
    (family, _), rng = SCENES[name], seeded(63)
    finest = 1.0 if name == "discrete_laplace" else 0.1  # from rates of 0.02 down it is bounded by Laplace noise
    for _ in range(20):
        levels = [f"{level:.4g}" for level in finest * 10 ** rng.uniform(-1.5, 0, size=2)]
        chances = 10 ** rng.uniform(-8, -3, size=2)
        releases = [
            (level, threshold_for_exceedance(family, [], level, chance) + 0.5 * family.integer)
            for level, chance in zip(levels, chances.tolist(), strict=True)
        ]
        sums = [math.fsum(first_exceedances(family, order)) for order in (releases, releases[::-1])]
        assert sums[0] == pytest.approx(sums[1], rel=1e-11)


@pytest.mark.parametrize("name", SCENES)
def test_the_order_does_not_matter_however_small_delta_is(name: str) -> None:
    """At 1e-200 and below, with levels close and far."""
    family, _ = SCENES[name]
    levels = ["0.11", "0.1", "0.3"]
    alone = [threshold_for_exceedance(family, [], level, 1e-200) for level in levels]
    steps = [1.0 if family.integer else grid_step(family.std(level)) for level in levels]
    releases = [
        (level, effective_threshold(tau, step)) for level, tau, step in zip(levels, alone, steps, strict=True)
    ]
    sums = [math.fsum(first_exceedances(family, order)) for order in itertools.permutations(releases)]
    assert 1e-202 < min(sums) <= max(sums) <= 3.1e-200
    assert max(sums) / min(sums) - 1 < 1e-11


@pytest.mark.parametrize("name", SCENES)
def test_the_share_of_keys_ever_published_is_what_delta_says(name: str) -> None:
    """Keys that one unit has, over five releases: a binomial number."""
    family, releases = SCENES[name]
    levels, thresholds = zip(*releases, strict=True)
    drawn = release_dense(family, np.ones(KEYS), levels, thresholds, rng=seeded(61)).published
    ever, delta = int(drawn.any(axis=0).sum()), open_delta(family, releases, 1)
    assert 0.02 < delta < 0.2
    alone = [float(family.tail(bound - 1, level)) for level, bound in releases]
    as_if_independent = 1 - math.prod(1 - share for share in alone)
    assert_consistent(binomial_test(ever, KEYS, delta), name)
    terms = first_exceedances(family, releases)
    first = np.where(drawn.any(axis=0), drawn.argmax(axis=0), len(releases))
    assert_consistent(g_test(np.bincount(first, minlength=6), [*terms, 1 - sum(terms)]), "the round it happens in")
    assert_detected(binomial_test(ever, KEYS, as_if_independent), "delta as if releases were independent")
    assert_detected(binomial_test(ever, KEYS, max(alone)), "delta of the worst release alone")


@pytest.mark.parametrize("name", ["discrete_laplace", "poisson", "skellam"])
def test_above_the_threshold_is_not_at_or_above_it(name: str) -> None:
    """Off by one at the threshold is noticed for integer noise."""
    family, releases = SCENES[name]
    levels, thresholds = zip(*releases, strict=True)
    drawn = release_dense(family, np.ones(KEYS), levels, thresholds, rng=seeded(62)).published
    at_or_above = open_delta(family, [(level, bound - 1) for level, bound in releases], 1)
    without_the_count = open_delta(family, [(level, bound + 1) for level, bound in releases], 1)
    ever = int(drawn.any(axis=0).sum())
    assert_consistent(binomial_test(ever, KEYS, open_delta(family, releases, 1)))
    assert_detected(binomial_test(ever, KEYS, at_or_above), ">= for >")
    assert_detected(binomial_test(ever, KEYS, without_the_count), "keys of count 0")


@pytest.mark.parametrize("name", SCENES)
@pytest.mark.parametrize("delta", [0.1, 1e-6, 1e-100, 1e-300])
def test_thresholds_are_the_lowest_that_keep_to_delta(name: str, delta: float) -> None:
    """One step of the grid lower would be too much; nothing overflows from 0.1 to 1e-300."""
    family, releases = SCENES[name]
    past: list[tuple[str, float]] = []
    for level in dict.fromkeys(level for level, _ in releases):
        spent = open_delta(family, past, 20)
        target = spent + (delta - spent) / 2
        left = probability_for(target, 20) - math.fsum(first_exceedances(family, past))
        threshold = threshold_for_exceedance(family, past, level, left)
        step = 1.0 if family.integer else grid_step(family.std(level))
        assert threshold % step == 0
        exceeded = open_delta(family, [*past, (level, effective_threshold(threshold - step, step))], 20)
        past.append((level, effective_threshold(threshold, step)))
        assert spent < open_delta(family, past, 20) <= target * (1 + 1e-12)
        assert exceeded > target * (1 - 1e-12)


@settings(max_examples=15)
@given(st.lists(st.sampled_from(["0.1", "0.2", "0.15", "0.5", "0.1001"]), min_size=1, max_size=4))
def test_half_of_what_remains_leaves_half(levels: list[str]) -> None:
    """Whatever the levels, each release spends at most half, and delta never gets beyond what was declared."""
    family, past, left = Gaussian(sensitivity=2.0), [], 1e-6
    for level in levels:
        before = OpenBudgets.of(family, past, 1e-6, [(1, 4)])
        threshold = present(before.threshold(level, before.remaining / 2))
        after = before.after(before.exceedances(level, threshold))
        past.append((level, effective_threshold(threshold, grid_step(family.std(level)))))
        assert after.remaining >= left / 2 * (1 - 1e-9)
        assert after.delta_spent == pytest.approx(open_delta(family, past, 4), rel=1e-12)
        assert after.delta_spent + after.remaining == pytest.approx(1e-6 * (1 - KEPT_BACK), rel=1e-12)
        left = after.remaining


def test_the_order_of_releases_does_not_change_their_delta() -> None:
    """One pass from coarse to fine, and one term at a time in any order, give one sum; a release less does not."""
    releases = [("0.2", 17.0), ("0.05", 31.0), ("1/2", 12.0), ("0.1", 22.0), ("0.07", 27.0)]
    ordered = sorted(releases, key=lambda release: as_level(release[0]))
    delta = open_delta(Gaussian(), releases, 3)
    assert open_delta(Gaussian(), ordered, 3) == pytest.approx(delta, rel=3e-12, abs=0)
    assert OpenBudgets.of(Gaussian(), releases, 1e-3, [(1, 3)]).delta_spent == pytest.approx(delta, rel=3e-12, abs=0)
    assert open_delta(Gaussian(), ordered[1:], 3) < 0.999 * delta


def test_a_positive_rest_always_remains() -> None:
    """After a hundred and fifty releases, far below the rounding of delta itself, there is still half of the half."""
    budget = OpenBudget(1e-6, 20, ())
    for _ in range(150):
        remaining = budget.remaining
        budget = budget.after(budget.allowance(remaining / 2))
        assert 0 < budget.remaining < 0.51 * remaining
    assert budget.delta_spent <= 1e-6


def test_what_a_release_adds_is_told_without_cancellation() -> None:
    """Also where it is a billionth of what was spent; the same number as the difference of the deltas."""
    budget = OpenBudget(0.3, 7, (0.01,))
    with mp.workdps(40):
        added = (1 - mp.mpf("0.01")) ** 7 - (1 - mp.mpf("0.01") - mp.mpf("1e-15")) ** 7
    assert budget.added(1e-15) == pytest.approx(float(added), rel=1e-6)
    assert budget.holds(1e-15)
    assert not budget.holds(0.3)
    assert budget.added(0.995) == pytest.approx(1 - delta_of(0.01, 7))


def test_delta_of_many_keys_and_back() -> None:
    """1 - (1 - p)**l keeps twelve digits from 1e-300 to nearly 1, for one key and for two thousand million."""
    for keys in (1, 20, 2**31 - 1):
        for delta in (1e-300, 1e-30, 1e-6, 0.5, 0.999):
            p = probability_for(delta, keys)
            with mp.workdps(400):
                assert float(1 - (1 - mp.mpf(p)) ** keys) == pytest.approx(delta, rel=1e-12)
            assert delta_of(p, keys) == pytest.approx(delta, rel=1e-12)


def test_what_has_no_answer_is_refused() -> None:
    """A probability that is none."""
    with pytest.raises(DeclarationError, match="strictly between"):
        threshold_for_exceedance(Gaussian(), [], "0.1", 0.0)


def test_noise_too_wide_for_a_transform_is_bounded() -> None:
    """Beyond some standard deviation terms are upper bounds, in place of seconds and gigabytes."""
    family, levels = Poisson(20), ["1e-9", "2e-9"]
    thresholds = [threshold_for_exceedance(family, [], level, 1e-9) for level in levels]
    terms = first_exceedances(family, list(zip(levels, thresholds, strict=True)))
    assert terms == pytest.approx([1e-9, 1e-9], rel=2e-4)


@pytest.mark.parametrize("levels", [["0.015", "0.019"], ["0.012", "0.01", "0.019"], ["0.006", "0.019", "0.01"]])
def test_wide_discrete_laplace_noise_is_bounded_by_laplace_noise(
    monkeypatch: pytest.MonkeyPatch, levels: list[str]
) -> None:
    """Where no transform has room: above its exact number, by no more than half of the sum of the rates."""
    family = DiscreteLaplace()
    bounds = {as_level(level): int(18 / float(level)) for level in levels}
    new, margin = bounds.popitem()
    monkeypatch.setattr(lattice_history, "_MOST_WORK", 1 << 20)
    never_exceeds._joint.cache_clear()
    exact = conditional_survival(family, bounds, new, margin) * math.exp(float(family.log_tail(margin, new)))
    releases = [(level, bound + 1.0) for level, bound in [*bounds.items(), (new, margin)]]
    assert first_exceedances(family, releases)[-1] == pytest.approx(exact, rel=1e-12)
    assert open_delta_is_exact(family, releases)
    monkeypatch.setattr(lattice_history, "_MOST_WORK", 1)
    never_exceeds._joint.cache_clear()
    half = math.fsum(map(float, levels)) / 2
    assert exact < first_exceedances(family, releases)[-1] <= exact * (1 + 1.02 * half)
    assert not open_delta_is_exact(family, releases)
    never_exceeds._joint.cache_clear()


@pytest.mark.parametrize("rate", [0.02, 0.005, 1e-5])
@pytest.mark.parametrize("share", [0.999, 0.5, 0.1])
def test_a_discrete_step_puts_little_more_on_a_cell_than_a_real_one(rate: float, share: float) -> None:
    """The factor of the bound, step by step in 30 digits: from the worst place of a cell to each of 200 others."""
    with mp.workdps(30):
        fine, coarse = mp.mpf(rate), mp.mpf(rate) * share
        factor = mp.exp(coarse / 2 + coarse**2 / 12)
        stays, real_stays = (mp.sinh(coarse / 2) / mp.sinh(fine / 2)) ** 2, (coarse / fine) ** 2
        assert stays <= real_stays
        for away in range(200):
            discrete = (1 - stays) * mp.tanh(coarse / 2) * mp.exp(-coarse * away)
            # From the edge of the cell that is farther off, or from the edge of its own.
            far = mp.exp(-coarse * away) * (1 - mp.exp(-coarse)) / 2
            assert discrete <= factor * (1 - real_stays) * far
        first = (1 - mp.exp(-fine / 2), mp.exp(-fine) * mp.sinh(fine / 2))
        for x, mass in enumerate(first):
            assert mp.tanh(fine / 2) * mp.exp(-fine * x) <= mp.exp(fine / 2) * mass


def by_jumps(bounds: list[tuple[float, float]], draws: int, rng: np.random.Generator) -> int:
    """How often Laplace noise exceeds some bound, from the path: a draw added where it changes between levels."""
    order = sorted(bounds, reverse=True)
    place = rng.laplace(size=draws) / order[0][0]
    above = place > order[0][1]
    for (finer, _), (rate, bound) in itertools.pairwise(order):
        place += (rng.random(draws) > (rate / finer) ** 2) * rng.laplace(size=draws) / rate
        above |= place > bound
    return int(above.sum())


def test_laplace_delta_is_not_overstated() -> None:
    """Eight releases close together: draws of the path agree with it, and the sum of their tails is a third more."""
    releases = [(Fraction(8 + i, 8), 4.0 * 8 / (8 + i)) for i in range(8)]
    delta = open_delta(Laplace(), [(level, bound + 1) for level, bound in releases], 1)
    draws = 2_000_000
    ever = by_jumps([(float(level), bound) for level, bound in releases], draws, seeded(64))
    assert_consistent(binomial_test(ever, draws, delta))
    assert_detected(binomial_test(ever, draws, 1.02 * delta), "two per cent more")
    assert math.fsum(float(Laplace().tail(bound, level)) for level, bound in releases) > 1.3 * delta


def test_laplace_histories_have_the_reference_value() -> None:
    """P(V_2 > 6 given V_1 <= 12) at levels 0.5, then 1; many levels far apart are bounded."""
    expected = 0.0011945779431390511527 * (1 - math.exp(-6) / 2)
    assert laplace_history.exceeding({Fraction(1, 2): 12.0}, Fraction(1), 6.0, 1.0) == pytest.approx(
        expected, rel=1e-13
    )
    past = {Fraction(2) ** i: 30.0 / 2.0**i for i in range(-12, 13)}
    found = laplace_history.exceeding(past, Fraction(3, 2), 12.0, 1.0)
    alone = float(Laplace().tail(12.0, Fraction(3, 2)))
    nearest = {Fraction(1): 30.0, Fraction(2): 15.0}
    assert 0.0 < found <= laplace_history.exceeding(nearest, Fraction(3, 2), 12.0, 1.0) <= alone


def test_a_level_again_costs_only_what_a_lower_threshold_lets_through() -> None:
    """The same threshold or a higher one costs nothing."""
    again = [("0.5", 6.0), ("0.5", 6.0), ("1/2", 7.0), ("0.5", 5.0)]
    ((_, budget),) = OpenBudgets.of(Gaussian(), again, 1e-3, [(1, 1)]).kinds
    assert budget.spent[1:3] == (0.0, 0.0)
    assert budget.delta_spent == pytest.approx(float(Gaussian().tail(4.0, "0.5")), rel=1e-12)


@pytest.mark.parametrize(
    "family",
    [Gaussian(2.0), Laplace(3.0), DiscreteLaplace(3), Poisson(3), Skellam(3)],
    ids=lambda family: type(family).__name__,
)
@pytest.mark.parametrize("spacing", [Fraction(51, 50), Fraction(4, 3), Fraction(3)])
def test_thresholds_after_a_long_history_are_safe_and_close(monkeypatch, family, spacing):
    """Searched with a few levels of it, they hold with all of it, and are at most 2 % above the lowest."""
    levels = [Fraction(1, 1000) * spacing**i for i in range(12)]
    past = [(level, float(family.inverse_log_tail(-16.0, level)) + 1.0) for level in levels]
    for new in (levels[6] * Fraction(101, 100), levels[-1] * spacing):
        step = published_step(family, new)
        stated = threshold_for_exceedance(family, past, new, 1e-7)
        bound = effective_threshold(stated, step)
        assert first_exceedance(family, tuple(past), new, bound) <= 1e-7
        with monkeypatch.context() as patched:
            patched.setattr(never_exceeds, "_MOST_SEARCHED", 12)
            patched.setattr(never_exceeds, "_WIDEST_SEARCHED", 10**9)
            lowest = threshold_for_exceedance(family, past, new, 1e-7)
        assert stated <= 1.02 * lowest + step
        assert lowest <= stated or isinstance(family, DiscreteLaplace)  # all levels bound it less than some do
