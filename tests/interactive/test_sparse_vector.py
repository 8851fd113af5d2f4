"""Tests that AboveThreshold follows its exact distribution and costs no more than stated."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from sparsehist import entropy
from sparsehist.errors import BudgetExceededError, DataError, DeclarationError, StoreDamagedError
from sparsehist.interactive import AboveThreshold, SparseVector
from tests.interactive.watching import at_least, pmf
from tests.stats import assert_consistent, assert_detected, g_test

VALUES, THRESHOLD = (2, 5, 9, 4), 8
SPAN = np.arange(-400, 401)
RUNS = 6_000


def first_trigger(values, *, threshold_rate=0.5, query_rate=0.25):
    """Return the exact probabilities that the first value above the threshold is value 1, 2, … or none.

    The result has shape (values + 1,). If `threshold_rate` is None, the threshold has no noise.
    """
    noise, weight = (np.array([0]), np.array([1.0])) if threshold_rate is None else (SPAN, pmf(threshold_rate, SPAN))
    below, law = weight, []
    for value in values:
        above = at_least(query_rate, THRESHOLD + noise - value)
        law.append(float(below @ above))
        below = below * (1 - above)
    return np.array([*law, float(below.sum())])


def triggers_seen(values, **changed):
    """Run AboveThreshold many times; count how often each value is the first to trigger, and how often none does."""
    seen = np.zeros(len(values) + 1, int)
    about, rng = SparseVector(threshold=THRESHOLD, level=1, split="1/2", **changed), np.random.default_rng(81)
    for _ in range(RUNS):
        watch = about.start(rng=rng)
        seen[next((j for j, value in enumerate(values) if watch.ask(value, rng=rng)[1]), len(values))] += 1
    return seen


def test_it_follows_its_law_and_not_another():
    """The number of the first query to trigger has the exact distribution, not that of a version with less noise."""
    seen = triggers_seen(VALUES)
    assert_consistent(g_test(seen, first_trigger(VALUES)))
    assert_detected(g_test(seen, first_trigger(VALUES, threshold_rate=None)), "a noiseless threshold")
    assert_detected(g_test(seen, first_trigger(VALUES, query_rate=0.5)), "half the query noise")


@pytest.mark.slow
def test_monotone_questions_have_half_the_noise():
    """For monotone queries, AboveThreshold draws query noise of half the usual scale."""
    assert_consistent(g_test(triggers_seen(VALUES, monotone=True), first_trigger(VALUES, query_rate=0.5)))


def test_after_a_trigger_the_threshold_is_drawn_afresh():
    """After a trigger, answers are distributed as if the threshold had new noise, not as if it kept the old noise."""
    seen, kept = np.zeros(2, int), np.zeros(2, int)
    about, rng = SparseVector(threshold=0, level=2, triggers=2, split="1/2"), np.random.default_rng(82)
    for _ in range(2 * RUNS):  # in about a third of the runs, the first query triggers
        before = about.start(rng=rng)
        after, above = before.ask(0, rng=rng)
        if above:
            seen[int(after.ask(3, rng=rng)[1])] += 1
            kept[int(before.ask(3, rng=rng)[1])] += 1
    above = float(pmf(0.5, SPAN) @ at_least(0.25, SPAN - 3))
    assert_consistent(g_test(seen, [1 - above, above]))
    assert_detected(g_test(kept, [1 - above, above]), "a threshold that keeps its noise")


def losses(moves, **rates):
    """Return the worst privacy loss for queries whose answers equal the threshold and then change by `moves`."""
    values = np.full(len(moves), THRESHOLD)
    one, other = first_trigger(values, **rates), first_trigger(values + np.array(moves), **rates)
    return np.abs(np.log(one / other)).max()


def test_what_it_costs_by_enumeration():
    """For five queries, the privacy loss of AboveThreshold is at most its level of 1, whatever the outcome."""
    worst = max(losses(moves) for moves in itertools.product((-1, 0, 1), repeat=5))
    assert worst <= 1 + 1e-12
    one_way = max(losses(moves, query_rate=0.5) for moves in itertools.product((0, 1), repeat=5))
    assert one_way <= 1 + 1e-12
    # Negative control: without noise on the threshold, the losses of twelve queries add up to 12 * 1/4 = 3.
    assert losses([1] * 12, threshold_rate=None, query_rate=0.25) == pytest.approx(3.0, rel=1e-12)
    # Negative control: with half the query noise, the loss is up to 1.5 if the last answer falls and all others rise.
    two_sided = [losses([1] * many + [-1], query_rate=0.5) for many in (1, 2, 5, 30)]
    assert two_sided == sorted(two_sided)
    assert two_sided[1] == pytest.approx(1.2091846261884514, rel=1e-12)
    assert two_sided[-1] == pytest.approx(1.5, rel=1e-6)


def test_default_splits_and_levels():
    """By default, the level is split between threshold and queries as 1 : 2^(2/3), or 1 : 1 for monotone queries."""
    first, second = SparseVector(5, 1).levels
    assert float(second / first) == pytest.approx(2 ** (2 / 3), rel=1e-3)
    assert SparseVector(5, 1, monotone=True).levels == (Fraction(1, 2), Fraction(1, 2))
    assert SparseVector(5, "0.9", triggers=3, split="1/3").levels == (Fraction(1, 10), Fraction(1, 5))


def test_it_refuses_after_the_last_trigger_and_never_before():
    """AboveThreshold answers any number of queries below the threshold, and none after the last trigger."""
    rng = entropy.seeded(83)
    watch = SparseVector(threshold=10_000, level=1, triggers=2).start(rng=rng)
    assert not any(watch.ask(0, rng=rng)[1] for _ in range(1000))
    for left in (1, 0):
        watch, above = watch.ask(10**6, rng=rng)
        assert (above, watch.triggers_left) == (True, left)
    with pytest.raises(BudgetExceededError, match="all 2 positive answers"):
        watch.ask(0, rng=rng)


def test_what_is_no_question_is_refused_and_nothing_secret_shown():
    """Queries that are not integers and invalid parameters are refused; no repr shows the noisy threshold."""
    rng = entropy.seeded(84)
    watch = SparseVector(threshold=12345, level=1).start(rng=rng)
    with pytest.raises(DataError):
        watch.ask(1.5, rng=rng)
    assert str(watch.noisy_threshold) not in repr(watch).replace("threshold=12345", "")
    for wrong in ({"threshold": 1.5}, {"triggers": 0}, {"split": 2}):
        with pytest.raises(DeclarationError):
            SparseVector(**{"threshold": 1, "level": 1} | wrong)


def test_a_state_goes_on_from_its_bytes():
    """An AboveThreshold state restored from bytes has the original levels and noise; damaged bytes are refused."""
    watch = SparseVector(5, "1/3", sensitivity=2, triggers=3, split="1/3").start(rng=entropy.seeded(85))
    again = AboveThreshold.from_bytes(watch.to_bytes())
    assert (again.triggers_left, again.noisy_threshold) == (3, watch.noisy_threshold)
    assert again.parameters.levels == watch.parameters.levels
    assert again.ask(9, rng=entropy.seeded(86))[1] == watch.ask(9, rng=entropy.seeded(86))[1]
    with pytest.raises(StoreDamagedError):
        AboveThreshold.from_bytes(watch.to_bytes()[:-1])
