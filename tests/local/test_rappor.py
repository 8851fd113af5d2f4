"""Tests of RAPPOR: privacy costs, decoding, and the distribution of reports and memos (permanent noisy filters)."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from sparsehist import entropy
from sparsehist.errors import DataError, DeclarationError, InputError
from sparsehist.local import Degradation, Rappor, coarser_history, decode, draw_memo, draw_report, finer_history
from sparsehist.local.rappor import flip
from tests.stats import assert_consistent, assert_detected, binomial_test, g_test, mean_test

FINE = Rappor(1, 1, keep="0.5", one_if_set="0.8", one_if_not="0.25")
COARSE = Rappor(1, 1, keep="0.25", one_if_set="0.65", one_if_not="0.4")
STEP = Degradation(COARSE, FINE)
PEOPLE = 400_000
STATES = list(itertools.product((0, 1), repeat=6))  # bits: a memo and its two reports, coarse and then fine


def chance(probability, outcome):
    """Return the probability that a bit has the value `outcome` if it is 1 with the given probability."""
    return probability if outcome else 1 - probability


def enumerated(truth):
    """Return the exact joint probabilities, for one bit, of a memo and two reports at each of two settings."""
    law = {}
    for z1, w11, w12, z2, w21, w22 in STATES:
        flipped = z1 ^ z2
        p = chance((1 + FINE.keep) / 2, z2 == truth) * chance((1 - COARSE.keep / FINE.keep) / 2, flipped)
        for coarse, fine in ((w11, w21), (w12, w22)):
            p *= chance(FINE.one_if_set if z2 else FINE.one_if_not, fine)
            p *= chance((STEP.one_after_one if fine else STEP.one_after_zero)[flipped], coarse)
        law[z1, w11, w12, z2, w21, w22] = p
    return law


def p_value(columns, truth):
    """Return the p-value of a G-test of memos and reports over all 64 combinations of their bits."""
    index = np.column_stack(columns).astype(int) @ [32, 16, 8, 4, 2, 1]
    law = np.array([float(enumerated(truth)[state]) for state in STATES])
    order = np.argsort(-law, kind="stable")
    return g_test(np.bincount(index, minlength=64)[order], law[order])


def history(setting, truth, rng):
    """Draw a one-bit memo and two one-bit reports for each of many people, all at the same setting."""
    memo = draw_memo(setting, truth, rng=rng)
    return memo, np.stack([draw_report(setting, memo, rng=rng) for _ in range(2)])


def truths(truth):
    """Return one-bit Bloom filters for many people, in which every bit has the given value."""
    return np.full((PEOPLE, 1), bool(truth))


def columns(z1, w1, z2, w2):
    """Return memos and reports as six columns, in the order of the bits in `STATES`."""
    return [part[:, 0] for part in (z1, w1[0], w1[1], z2, w2[0], w2[1])]


def test_settings_have_the_reference_values():
    """The epsilon of one, two and many RAPPOR reports and the standard deviation of counts equal reference values."""
    setting = Rappor(bits=64, hashes=2, keep=0.5, one_if_set=0.75, one_if_not=0.5)
    assert setting.epsilon() == 4.3944491546724387656
    assert setting.epsilon(reports=1) == pytest.approx(1.0742858641667281836, rel=1e-15)
    assert setting.epsilon(reports=2) == pytest.approx(2.0170079503358933608, rel=1e-15)
    assert setting.std(200, 10_000) == pytest.approx(396.35842365212827655, rel=1e-15)
    assert setting.std(200, 10_000, None) == pytest.approx(86.602540378443864676, rel=1e-15)
    assert setting == Rappor(64, 2, "1/2", Fraction(3, 4), 0.5)


def test_reports_cost_what_enumeration_says():
    """The stated epsilon of RAPPOR reports agrees with an enumeration of all sequences of reports.

    Epsilon is the largest minus the smallest log likelihood ratio between a Bloom filter bit that is 1 and one that
    is 0.
    """
    for reports in (1, 2, 5):
        ratios = []
        for shown in itertools.product((0, 1), repeat=reports):
            law = [
                sum(
                    chance((1 + FINE.keep) / 2, z == y)
                    * math.prod(chance(FINE.one_if_set if z else FINE.one_if_not, w) for w in shown)
                    for z in (0, 1)
                )
                for y in (0, 1)
            ]
            ratios.append(math.log(law[1] / law[0]))
        assert FINE.epsilon(reports) == pytest.approx(max(ratios) - min(ratios), rel=1e-13)
    assert FINE.epsilon(4000) == pytest.approx(FINE.epsilon(), rel=1e-12)


def test_coarse_reports_have_their_law_and_all_together_say_what_the_fine_ones_say():
    """Coarse reports drawn from fine reports have the exact distribution and cause no further privacy loss."""
    laws = [enumerated(truth) for truth in (0, 1)]
    for truth, law in enumerate(laws):
        for z1, w11, w12 in itertools.product((0, 1), repeat=3):
            marginal = sum(p for state, p in law.items() if state[:3] == (z1, w11, w12))
            direct = chance((1 + COARSE.keep) / 2, z1 == truth)
            for w in (w11, w12):
                direct *= chance(COARSE.one_if_set if z1 else COARSE.one_if_not, w)
            assert marginal == direct
    seen = {}
    for truth, law in enumerate(laws):
        for (_, w11, w12, _, w21, w22), p in law.items():
            seen.setdefault((w11, w12, w21, w22), [0, 0])[truth] += p
    ratios = [math.log(one / zero) for zero, one in seen.values()]
    assert max(ratios) - min(ratios) == pytest.approx(FINE.epsilon(2), rel=1e-13)


@pytest.mark.parametrize("truth", [0, 1])
def test_histories_in_both_directions_follow_the_enumeration(truth):
    """Fine and coarse memos and reports have the exact joint distribution, whichever of them are drawn first."""
    rng = entropy.seeded(11 + truth)
    z2, w2 = history(FINE, truths(truth), rng)
    z1, w1 = coarser_history(STEP, z2, w2, rng=rng)
    assert_consistent(p_value(columns(z1, w1, z2, w2), truth), "degraded")
    z1, w1 = history(COARSE, truths(truth), rng)
    z2, w2 = finer_history(STEP, truths(truth), z1, w1, rng=rng)
    assert_consistent(p_value(columns(z1, w1, z2, w2), truth), "relaxed")


def test_wrong_histories_are_seen():
    """Negative control: three errors in drawing RAPPOR memos and reports are detected.

    The errors are coarsening the reports one by one, drawing fine reports without regard to the coarse reports, and a
    wrong probability of keeping a bit in the memo.
    """
    rng = entropy.seeded(21)
    z2, w2 = history(FINE, truths(1), rng)
    one_by_one = [coarser_history(STEP, z2, report[None], rng=rng) for report in w2]
    w1 = np.concatenate([reports for _, reports in one_by_one])
    assert_detected(p_value(columns(one_by_one[0][0], w1, z2, w2), 1), "report by report")
    z1, w1 = history(COARSE, truths(1), rng)
    z2, _ = finer_history(STEP, truths(1), z1, w1, rng=rng)
    afresh = np.stack([draw_report(FINE, z2, rng=rng) for _ in range(2)])
    assert_detected(p_value(columns(z1, w1, z2, afresh), 1), "reports drawn afresh from the memo")
    closer = Rappor(1, 1, Fraction(21, 40), FINE.one_if_set, FINE.one_if_not)
    z2, w2 = history(closer, truths(1), rng)
    z1, w1 = coarser_history(STEP, z2, w2, rng=rng)
    assert_detected(p_value(columns(z1, w1, z2, w2), 1), "kept 5 % more often")


@pytest.mark.parametrize(
    ("coarse", "named"),
    [
        (Rappor(1, 1, "0.6", "0.65", "0.4"), r"holds: keep\(coarse\) <= keep\(fine\)"),
        (Rappor(1, 1, "0.4", "0.9", "0.2"), r"holds: one_if_set\(coarse\) \* one_if_not\(fine\)"),
        (Rappor(1, 1, "0.4", "0.95", "0.7"), r"holds: \(1 - one_if_not\(coarse\)\) \* \(1 - one_if_set\(fine\)\)"),
        (Rappor(1, 1, "0.4", "0.9", "0.65"), r"holds: \(1 - one_if_not\(coarse\)\) \* one_if_not\(fine\)"),
        (Rappor(1, 1, "0.4", "0.3", "0.1"), r"holds: one_if_set\(coarse\) \* \(1 - one_if_set\(fine\)\)"),
        (Rappor(2, 1, "0.4", "0.65", "0.4"), "same filter"),
    ],
)
def test_settings_that_do_not_follow_name_the_inequality(coarse, named):
    """If coarse reports cannot be drawn from fine ones, the error names the inequality that the settings violate."""
    fine = FINE if coarse.one_if_set != Fraction(3, 10) else Rappor(1, 1, "0.5", "0.6", "0.1")
    with pytest.raises(DeclarationError, match=named):
        Degradation(coarse, fine)


@pytest.mark.parametrize("wrong", [{"keep": 0}, {"one_if_set": "2/5"}, {"hashes": 9}], ids=str)
def test_what_is_no_setting_is_refused(wrong):
    """RAPPOR parameters out of range are refused, and the error quotes the value."""
    with pytest.raises(DeclarationError, match=str(next(iter(wrong.values())))):
        Rappor(**{"bits": 8, "hashes": 2, "keep": 0.5, "one_if_set": 0.75, "one_if_not": 0.5} | wrong)


class Ties:
    """A generator whose first 62 bits equal those of a probability, so that only later bits decide a coin flip."""

    def __init__(self, limit, rng):
        self._words = [limit]
        self.integers = lambda low, high, shape: (
            np.full(shape, self._words.pop()) if self._words else rng.integers(low, high, shape)
        )


def test_coins_beyond_their_first_word_are_exact():
    """If the first 62 random bits do not decide a coin flip, later bits decide it with the exact probability."""
    third, tied = Fraction(2**62, 3), np.zeros(20_000, int)
    shown = flip([Fraction(1, 3)], tied, rng=Ties(int(third), entropy.seeded(5)))
    assert_consistent(binomial_test(int(shown.sum()), tied.size, float(third - int(third))))
    assert not flip([Fraction(1, 2)], tied, rng=Ties(2**61, entropy.seeded(5))).any()


def test_estimates_are_unbiased_with_the_spread_they_state():
    """RAPPOR counts decoded from one or three days of reports are unbiased and have the stated standard deviation."""
    setting = Rappor(32, 2, "0.5", "0.8", "0.2")
    rng = entropy.seeded(31)
    names = [f"page {i}" for i in range(12)]
    counts = np.array([300, 200, 150, 100, 80, 60, 40, 30, 20, 10, 6, 4])
    filters = np.repeat(np.stack([setting.filter(name) for name in names]), counts, axis=0)
    for days in (1, 3):
        estimates, stds = [], []
        for _ in range(400):
            memo = draw_memo(setting, filters, rng=rng)
            reports = np.stack([draw_report(setting, memo, rng=rng) for _ in range(days)], axis=1)
            decoded = decode(reports if days > 1 else reports[:, 0], setting, names)
            estimates.append(decoded.estimate)
            stds.append(decoded.std)
        scores = (np.array(estimates) - counts) / np.array(stds)
        for score in scores.T:
            assert_consistent(mean_test(score, 0.0, 1.0), f"bias, {days} days")
        squares = (scores**2).mean(axis=0)
        assert np.all(abs(squares - 1) < 0.35), squares


def test_more_candidates_than_bits_are_compared_with_the_rest():
    """With more candidate values than bits, decoded counts are unbiased, with about the stated standard deviation.

    With more candidates than bits, a candidate's standard deviation is estimated from the bits that it does not set.
    It includes the effect of candidates that share bits.
    """
    setting = Rappor(64, 2, "0.9", 1, 0)
    rng = entropy.seeded(33)
    scores = []
    for trial in range(60):
        names = [f"{trial} page {i}" for i in range(100)]
        counts = np.r_[400, 300, np.full(98, 10)]
        filters = np.repeat(np.stack([setting.filter(name) for name in names]), counts, axis=0)
        memo = draw_memo(setting, filters, rng=rng)
        decoded = decode(draw_report(setting, memo, rng=rng), setting, names)
        scores.append(((decoded.estimate - counts) / decoded.std)[:20])
    flat = np.concatenate(scores)
    assert abs(flat.mean()) < 0.15
    assert 0.6 < flat.std() < 1.4


def test_decoding_refuses_what_are_no_reports():
    """Decoding refuses reports of a wrong shape or content, and candidates that are repeated."""
    setting = Rappor(8, 2, "0.5", "0.8", "0.2")
    with pytest.raises(DataError, match="8 bits"):
        decode(np.zeros((5, 7), bool), setting, ["a"])
    with pytest.raises(DataError, match="0 and 1"):
        decode(np.full((5, 8), 2), setting, ["a"])
    with pytest.raises(InputError, match="no value twice"):
        decode(np.zeros((5, 8), bool), setting, ["a", "a"])
