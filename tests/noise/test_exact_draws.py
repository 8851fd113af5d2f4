"""Tests of exact random draws: doubles decide most of them, and interval arithmetic decides the others."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsehist import entropy
from sparsehist.errors import LevelError
from sparsehist.noise import exact_draws
from sparsehist.noise.exact_draws import Tail, Uniforms, coins, decay, draw, enclose, fair_coins
from tests.stats import assert_consistent, assert_detected, binomial_test, g_test

THIRD = Fraction(1, 3)
# With 200,000 draws, a relative error of 3 % in a probability of 0.3 is detected.
DRAWS = 200_000


def geometric(rate: Fraction) -> Tail:
    """Return the `Tail` of a geometric number N with P[N > k] = e**(-rate (k + 1))."""
    return Tail(lambda: decay(rate), rate)


def geometric_cells(rate: float, count: int) -> np.ndarray:
    """Return the exact probabilities P[G = 0], …, P[G = count - 1] and P[G >= count] of a geometric number G."""
    ends = np.exp(-rate * np.arange(count + 1))
    return np.append(-np.diff(ends), ends[-1])


class Words:
    """A stand-in for a random generator that returns prepared 64-bit integers."""

    def __init__(self, words: list[int]) -> None:
        self.words = words

    def integers(self, _low: int, _high: int, size: int | None = None, **_options: object) -> object:
        """Return the next prepared integer or, if `size` is given, an array of the next integers."""
        if size is None:
            return self.words.pop(0)
        taken, self.words = self.words[:size], self.words[size:]
        return np.array(taken, np.uint64)


@given(
    st.fractions(Fraction(1, 10**6), 5, max_denominator=10**6),
    st.fractions(Fraction(1, 10**25), 5, max_denominator=10**25),
)
def test_a_weight_lies_within_its_bounds(rate: Fraction, more: Fraction) -> None:
    """For a tail P[N > k] = w * e**(-rate * k), the computed interval contains w, even if w is almost 0."""

    def weight() -> object:
        return (1 - decay(more)) / (1 - decay(2 * (rate + more))) * decay(rate)

    bounds = enclose(weight, 256)
    with mpmath.workdps(120):
        a, b = (mpmath.mpf(q.numerator) / q.denominator for q in (rate, more))
        exact = mpmath.expm1(-b) / mpmath.expm1(-2 * (a + b)) * mpmath.exp(-a)
        low, high = (mpmath.mp.make_mpf(end) for end in bounds._mpi_)
        assert low <= exact <= high
        assert high - low < exact * mpmath.mpf(2) ** -100
        assert Tail(weight).log_weight == pytest.approx(float(mpmath.log(exact)), rel=1e-15)


def test_a_probability_of_nothing_is_refused_and_not_pondered_for_ever() -> None:
    """If interval arithmetic cannot show that a probability exceeds 0, drawing raises an error instead of looping."""
    with pytest.raises(LevelError, match="too close"):
        draw(Tail(lambda: decay(THIRD) - decay(THIRD)), 1, rng=entropy.seeded(1))


@pytest.mark.parametrize("rate", [Fraction(1, 10**6), THIRD, Fraction(7)])
@pytest.mark.parametrize("flipped", [False, True])
def test_words_beside_a_boundary_are_decided_right(rate: Fraction, flipped: bool) -> None:
    """Draws are correct for random bits just above or below a boundary, where the first 64 bits do not decide."""
    words, expected = [], []
    with mpmath.workdps(80):
        exact = mpmath.mpf(rate.numerator) / rate.denominator
        for k in (k for k in (0, 1, 2, 17, 40) if (k + 1) * rate < 30):
            digits = int(mpmath.floor(mpmath.ldexp(mpmath.exp(-exact * (k + 1)), 128)))
            for offset in (-(2**80), -(2**64), -1, 1, 2**64, 2**80):
                words.append(digits + offset)
                expected.append(k + 1 if offset < 0 else k)
    words = [2**128 - 1 - word for word in words] if flipped else words
    for word, count in zip(words, expected, strict=True):
        uniforms = Uniforms(1, rng=Words([word >> 64, word & (2**64 - 1)]))
        assert uniforms.count(geometric(rate), flipped=flipped).tolist() == [count]
        assert uniforms.count(geometric(rate), flipped=flipped, most=2).tolist() == [min(count, 2)]
        shrunk = Tail(lambda: decay(rate), rate, rate)
        assert uniforms.count(shrunk, flipped=flipped, power=1).tolist() == [max(count - 1, 0)]


@pytest.mark.parametrize("room", [None, 1e300])
def test_doubles_and_intervals_draw_the_same_law(monkeypatch: pytest.MonkeyPatch, room: float | None) -> None:
    """Geometric draws follow their exact distribution, whether doubles or interval arithmetic decide them."""
    settled: list[int] = []
    settle = Uniforms._settle
    monkeypatch.setattr(Uniforms, "_settle", lambda *args, **given: settled.append(1) or settle(*args, **given))
    if room:
        monkeypatch.setattr(exact_draws, "_ROOM", room)
    size = 15_000 if room else DRAWS
    drawn = draw(geometric(THIRD), size, rng=entropy.seeded(31))
    assert len(settled) == (size if room else 0)
    observed = np.bincount(np.minimum(drawn, 40), minlength=41)
    assert_consistent(g_test(observed, geometric_cells(1 / 3, 40)))


def test_probabilities_rounded_to_four_bits_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: geometric draws from uniform numbers with only four random bits are rejected."""

    class Coarse:
        def integers(self, _low: int, _high: int, size: int, **_options: object) -> np.ndarray:
            """Return 64-bit integers whose first four bits are random and whose other bits are fixed."""
            return (entropy.seeded(33).integers(0, 16, size).astype(np.uint64) << np.uint64(60)) | np.uint64(2**59)

    drawn = draw(geometric(Fraction(1, 2)), 15_000, rng=Coarse())
    assert_detected(g_test(np.bincount(np.minimum(drawn, 30), minlength=31), geometric_cells(0.5, 30)))


@pytest.mark.parametrize("rate", [Fraction(1, 1000), Fraction(1, 10**6)])
def test_slow_geometrics_have_their_law(rate: Fraction) -> None:
    """Geometric draws with a tiny rate follow their exact distribution, and so do their remainders modulo 64."""
    drawn = draw(geometric(rate), DRAWS, rng=entropy.seeded(35))
    edges = np.unique(np.floor(-np.log1p(-np.arange(1, 200) / 200) / float(rate)))
    ends = np.exp(-float(rate) * (edges + 1))
    chances = -np.diff(np.concatenate([[1.0], ends, [0.0]]))
    assert_consistent(g_test(np.bincount(np.searchsorted(edges, drawn), minlength=edges.size + 1), chances))
    weights = np.exp(-float(rate) * np.arange(64))
    assert_consistent(g_test(np.bincount(drawn & 63, minlength=64), weights / weights.sum()))


@pytest.mark.parametrize("rate", ["1/1000000", "1/2", "20"])
def test_coins_show_what_they_should(rate: str) -> None:
    """`coins` returns True with the requested probability e**-rate, and `fair_coins` with probability 1/2."""
    shown = coins(Tail(lambda: decay(Fraction(rate))), DRAWS, rng=entropy.seeded(38))
    assert_consistent(binomial_test(int(shown.sum()), DRAWS, math.exp(-float(Fraction(rate)))))
    assert_consistent(binomial_test(int(fair_coins(DRAWS, rng=entropy.seeded(39)).sum()), DRAWS, 0.5))
