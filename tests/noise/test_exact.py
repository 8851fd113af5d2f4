"""Bounds are proofs, tables are exact at every stage, and coins show what they should."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsehist import entropy
from sparsehist.noise import exact_geometric, exact_table
from sparsehist.noise.exact_geometric import Branch, Extent, bernoulli, draw, geometric, low_part
from sparsehist.noise.exact_table import ONE, ExponentialDecay, Reading, Table, Undecided, leading_bits
from tests.stats import assert_consistent, assert_detected, binomial_test, g_test

THIRD = Fraction(1, 3)
# 200,000 draws see a relative error of 3 % in a probability of 0.3.
DRAWS = 200_000


@given(st.fractions(0, 40, max_denominator=10**9), st.integers(8, 700))
def test_an_exponential_lies_within_its_bounds(exponent: Fraction, bits: int) -> None:
    """e^-q is enclosed, to two units of the last place, against mpmath with 60 digits more."""
    low, high, _ = ExponentialDecay(exponent).enclose(bits)
    with mpmath.workprec(bits + 200):
        value = mpmath.ldexp(mpmath.exp(-mpmath.mpf(exponent.numerator) / exponent.denominator), bits)
        assert low <= value <= high
    assert high - low <= 2


@pytest.mark.parametrize("exponent", [Fraction(1, 10**60), Fraction(10**60), Fraction(700)])
def test_extreme_exponents_have_narrow_bounds_too(exponent: Fraction) -> None:
    """Levels may lie anywhere a level may lie."""
    low, high, _ = ExponentialDecay(exponent).enclose(256)
    assert 0 <= low <= high <= 1 << 256
    assert high - low <= 2


@given(
    st.fractions(Fraction(1, 10**6), 5, max_denominator=10**6),
    st.fractions(Fraction(1, 10**25), 5, max_denominator=10**25),
)
def test_digits_of_a_formula_are_right(rate: Fraction, more: Fraction) -> None:
    """The first 64 digits of (1 - r) / (1 - a^2) * a agree with mpmath, also where 1 - r almost cancels."""
    formula = (ONE - ExponentialDecay(more)) / (ONE - ExponentialDecay(2 * (rate + more))) * ExponentialDecay(rate)
    with mpmath.workdps(120):
        a, b = (mpmath.mpf(q.numerator) / q.denominator for q in (rate, more))
        value = mpmath.expm1(-b) / mpmath.expm1(-2 * (a + b)) * mpmath.exp(-a)
        expected = int(mpmath.floor(mpmath.ldexp(value, 64)))
    assert leading_bits(lambda bits: [formula.enclose(bits)], 64) == [expected]


def test_a_constant_in_disguise_is_refused_and_not_pondered_for_ever() -> None:
    """e^-1 e^-1 / e^-2 / 2 is one half: its digits cannot be decided from bounds."""
    one_half = ExponentialDecay(THIRD) * ExponentialDecay(THIRD) / ExponentialDecay(2 * THIRD) / (ONE + ONE)
    with pytest.raises(Undecided, match="dyadic"):
        leading_bits(lambda bits: [one_half.enclose(bits)], 8)


def test_formulas_that_read_alike_share_their_table() -> None:
    """Tables are found again by the formula, so a level prepared once stays prepared."""
    first, second = (exact_geometric.prepare((Branch(ONE, 0, 1, Fraction(2, 7)),)) for _ in range(2))
    assert first is second


def geometric_cells(rate: float, count: int) -> np.ndarray:
    """P[G = 0], …, P[G = count - 1], P[G >= count]."""
    ends = np.exp(-rate * np.arange(count + 1))
    return np.append(-np.diff(ends), ends[-1])


def test_tables_hold_the_first_bits_of_the_cumulative_probabilities() -> None:
    """Every word of a table of three branches, against mpmath; and the guide says what the words say."""
    half = ONE / (ONE + ExponentialDecay(THIRD))
    mixture = (Branch(half * half, 0, 1, THIRD), Branch(half - half * half, 9), Branch(ONE - half, -1, -1, 2 * THIRD))
    table = exact_geometric.prepare(mixture).table
    with mpmath.workdps(60):
        h = 1 / (1 + mpmath.exp(-mpmath.mpf(1) / 3))
        first, last = (table_cells(reach) for reach in (THIRD, 2 * THIRD))
        ends = [h**2 * (1 - mpmath.exp(-mpmath.mpf(k) / 3)) for k in range(1, first + 1)] + [h**2, h]
        ends += [h + (1 - h) * (1 - mpmath.exp(-mpmath.mpf(2 * k) / 3)) for k in range(1, last + 1)]
        expected = [int(mpmath.floor(mpmath.ldexp(end, 64))) for end in ends]
    assert table.words.tolist() == expected
    begin = np.arange(1 << 16, dtype=np.uint64) << np.uint64(48)
    lowest = np.searchsorted(table.words, begin, "left")
    highest = np.searchsorted(table.words, begin | np.uint64(2**48 - 1), "right")
    assert np.array_equal(table.guide, np.where(lowest == highest, lowest, exact_table.UNSETTLED))
    assert (table.guide == exact_table.UNSETTLED).sum() <= table.words.size


def table_cells(rate: Fraction) -> int:
    """Cells before the one for all that lies beyond."""
    return math.floor(Extent().reach / rate) + 1


@pytest.mark.parametrize("reading", [Reading(), Reading(2, 4), Reading(1, 2), Reading(16, 20)])
@pytest.mark.parametrize("extent", [Extent(), Extent(Fraction(2), 1, 2)])
def test_every_stage_of_a_draw_gives_the_same_law(
    monkeypatch: pytest.MonkeyPatch, reading: Reading, extent: Extent
) -> None:
    """With tables of few bits nearly all draws are settled in Python integers, and the law is the same."""
    monkeypatch.setattr(exact_table, "READING", reading)
    monkeypatch.setattr(exact_geometric, "EXTENT", extent)
    size = DRAWS if reading == Reading() else 15_000
    drawn = geometric(THIRD, size, rng=entropy.seeded(31))
    observed = np.bincount(np.minimum(drawn, 40), minlength=41)
    assert_consistent(g_test(observed, geometric_cells(1 / 3, 40)), f"{reading}, {extent}")


def test_the_last_stage_is_what_settles_short_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above does go through the third stage: with tables of 4 bits, most draws need it."""
    monkeypatch.setattr(exact_table, "READING", Reading(2, 4))
    table, calls = Table.of(exact_geometric._Steps(ONE, THIRD, 30)), []
    settle = Table._settle_one
    monkeypatch.setattr(
        Table, "_settle_one", lambda self, word, *, rng: calls.append(1) or settle(self, word, rng=rng)
    )
    table.draw(1000, rng=entropy.seeded(32))
    assert len(calls) > 500


def test_a_table_that_ignores_its_undecided_draws_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: rounding the probabilities to 4 bits is another law."""
    monkeypatch.setattr(exact_table, "READING", Reading(2, 4))
    monkeypatch.setattr(
        Table, "_settle_one", lambda self, word, *, rng: int(np.searchsorted(self.words, word, "right"))
    )
    drawn = geometric(Fraction(1, 2), 15_000, rng=entropy.seeded(33))
    assert_detected(g_test(np.bincount(np.minimum(drawn, 30), minlength=31), geometric_cells(0.5, 30)))


def test_a_boundary_is_settled_by_the_words_that_follow() -> None:
    """A word equal to the first 64 digits of e^-2 leaves the coin open; the next word decides it, as e^-2 says."""
    coin = (Branch(ExponentialDecay(Fraction(2)), 1), Branch(ONE - ExponentialDecay(Fraction(2)), 0))
    table = exact_geometric.prepare(coin).table
    digits = leading_bits(lambda bits: [ExponentialDecay(Fraction(2)).enclose(bits)], 128)[0]
    for last, cell in ((-1, 0), (1, 1)):
        following = Words([(digits + last) & (2**64 - 1)])
        assert table._settle_one(digits >> 64, rng=following) == cell


class Words:
    """A stand-in for a generator that says what it is told to."""

    def __init__(self, words: list[int]) -> None:
        self.words = words

    def integers(self, *_args: object, **_options: object) -> np.ndarray:
        """Say the next word."""
        return np.array([self.words.pop(0)], np.uint64)


def test_the_parts_of_a_slow_geometric_are_one_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """High part, several low parts and the law begun anew add up to one geometric variable, tail included."""
    monkeypatch.setattr(exact_geometric, "EXTENT", Extent(Fraction(1), 1, 2))
    drawn = geometric(Fraction(1, 100), DRAWS, rng=entropy.seeded(34))
    observed = np.bincount(np.minimum(drawn, 1500), minlength=1501)
    assert_consistent(g_test(observed, geometric_cells(0.01, 1500)))


@pytest.mark.parametrize("rate", [Fraction(1, 1000), Fraction(1, 10**6)])
def test_slow_geometrics_have_their_law_at_full_size(rate: Fraction) -> None:
    """Equally probable cells, cut by the distribution function, are filled equally."""
    drawn = geometric(rate, DRAWS, rng=entropy.seeded(35))
    edges = np.unique(np.floor(-np.log1p(-np.arange(1, 200) / 200) / float(rate)))
    ends = np.exp(-float(rate) * (edges + 1))
    chances = -np.diff(np.concatenate([[1.0], ends, [0.0]]))
    observed = np.bincount(np.searchsorted(edges, drawn), minlength=edges.size + 1)
    assert_consistent(g_test(observed, chances))
    low_bits = np.bincount(drawn & 63, minlength=64)
    weights = np.exp(-float(rate) * np.arange(64))
    assert_consistent(g_test(low_bits, weights / weights.sum()))


def test_a_low_part_has_the_law_of_what_is_below_its_width() -> None:
    """low_part is a geometric variable given that it is below 2**shift."""
    drawn = low_part(Fraction(1, 5), 4, DRAWS, rng=entropy.seeded(36))
    weights = np.exp(-0.2 * np.arange(16))
    assert_consistent(g_test(np.bincount(drawn, minlength=16), weights / weights.sum()))


def test_a_law_too_slow_for_integers_is_told_apart_below_the_limit_only() -> None:
    """A rate of 10^-30 gives values beyond every comparison, and no overflow."""
    drawn = geometric(Fraction(1, 10**30), 1000, rng=entropy.seeded(37))
    assert (drawn >= 2**62 - 1).all()


@pytest.mark.parametrize("rate", ["1/1000000", "1/2", "20"])
def test_coins_show_what_they_should(rate: str) -> None:
    """Bernoulli(e^-rate) comes up as often as it says."""
    shown = bernoulli(ExponentialDecay(Fraction(rate)), DRAWS, rng=entropy.seeded(38))
    assert_consistent(binomial_test(int(shown.sum()), DRAWS, math.exp(-float(Fraction(rate)))))


def test_draws_do_not_repeat_from_chunk_to_chunk() -> None:
    """Each chunk reads on in the stream, whatever the size; no two neighbouring chunks are equal."""
    size = exact_geometric.CHUNK
    drawn = draw((Branch(ONE, 0, 1, THIRD),), 3 * size + 7, rng=entropy.seeded(39))
    assert drawn.shape == (3 * size + 7,)
    assert all(not np.array_equal(one, two) for one, two in pairwise(np.split(drawn[: 3 * size], 3)))


def test_words_come_from_any_bit_generator() -> None:
    """Generators whose own words have 32 bits give 64 as well."""
    for bits in (np.random.MT19937(1), np.random.PCG64(1)):
        words = exact_table.random_words(100, rng=np.random.Generator(bits))
        assert words.dtype == np.uint64
        assert int(words.max()) >> 60
        assert np.unique(words & np.uint64(0xFFFFFFFF)).size == 100
