"""Tests of discrete Laplace noise: its transition probabilities between levels are exact to forty digits."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from sparsehist import entropy
from sparsehist.noise import DiscreteLaplace, discrete_laplace, exact_draws
from sparsehist.noise.exact_draws import Interval, Tail, enclose
from tests.noise.laws import in_order, joint_p_value
from tests.stats import assert_consistent, binomial_test, g_test

FAMILY = DiscreteLaplace(sensitivity=2)
# With 200,000 draws, a scale that is 2 % off is detected, and so is a coin flip with a probability 1 % off.
DRAWS = 200_000


def test_the_joint_law_is_the_same_where_intervals_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Discrete Laplace noise has its exact joint distribution even if interval arithmetic decides every draw."""
    monkeypatch.setattr(exact_draws, "_ROOM", 1e300)
    coarse, middle, fine = Fraction(1, 2), Fraction(1), Fraction(2)
    for order in ((middle, fine, coarse), (fine, coarse, middle)):
        assert_consistent(joint_p_value(FAMILY, in_order(FAMILY, order, 1_500, 42)))


def value(number: Interval) -> mpmath.mpf:
    """Return the middle of an interval, which must be narrower than 1e-60."""
    low, high = (mpmath.mp.make_mpf(end) for end in number._mpi_)
    assert high - low < mpmath.mpf(10) ** -60
    return (low + high) / 2


def exceeds(tail: Tail, k: int, power: int = 0) -> mpmath.mpf:
    """Return P[N > k], to sixty digits, for the distribution that a `Tail` of the package describes."""
    weight = value(enclose(tail.weight, 250))
    return weight * mpmath.exp(-power * value_of(tail.shrink) - k * value_of(tail.rate))


def sized_pmf(tail: Tail, x: int) -> mpmath.mpf:
    """Return P[N = x] for a symmetric random number N whose absolute value has the given tail."""
    size = abs(x)
    mass = (exceeds(tail, size - 1) if size else mpmath.mpf(1)) - exceeds(tail, size)
    return mass if x == 0 else mass / 2


def refine_pmf(x: int, y: int, coarse: Fraction, fine: Fraction) -> mpmath.mpf:
    """Return P[fine noise = y | coarse noise = x] for x >= 0, from the tails that the package uses."""
    inside, outside = discrete_laplace._refining(coarse, fine)

    def above(k: int) -> mpmath.mpf:
        """Return P[fine noise > k | coarse noise = x]."""
        if k < 0:
            return 1 - exceeds(outside, -k - 1)
        return exceeds(inside, k) if k < x else exceeds(outside, k - x, x)

    return above(y - 1) - above(y)


def value_of(rate: Fraction) -> mpmath.mpf:
    """Convert a fraction to an mpmath number."""
    return mpmath.mpf(rate.numerator) / rate.denominator


def exact_bridge(fine: Fraction, coarse: Fraction, x: int) -> mpmath.mpf:
    """Return P[coarse noise - fine noise = x] by the closed formula. `fine` and `coarse` are rates of decay."""
    a, b = (mpmath.exp(-value_of(rate)) for rate in (fine, coarse))
    stay = a / (1 - a) ** 2 / (b / (1 - b) ** 2)
    return stay * (x == 0) + (1 - stay) * (1 - b) / (1 + b) * b ** abs(x)


RATES = [(Fraction(1, 2), Fraction(1)), (Fraction(1), Fraction("1.001")), (Fraction(1, 10), Fraction(7, 2))]


@pytest.mark.parametrize(("coarse", "fine"), RATES)
def test_the_declared_steps_are_the_kernels_to_forty_digits(coarse: Fraction, fine: Fraction) -> None:
    """The distributions of coarse noise given fine noise, and of fine given coarse, are exact to forty digits."""
    with mpmath.workdps(45):
        a, b = mpmath.exp(-value_of(fine)), mpmath.exp(-value_of(coarse))
        for x in range(-6, 7):
            declared = sized_pmf(discrete_laplace._bridge_size(fine, coarse), x)
            assert mpmath.almosteq(declared, exact_bridge(fine, coarse, x), rel_eps=mpmath.mpf(10) ** -40)
        for x in (0, 1, 4):
            total = (1 - b) / (1 + b) * b**x
            for y in range(-4, 9):
                bayes = (1 - a) / (1 + a) * a ** abs(y) * exact_bridge(fine, coarse, x - y) / total
                declared = refine_pmf(x, y, coarse, fine)
                assert mpmath.almosteq(declared, bayes, rel_eps=mpmath.mpf(10) ** -40)


@pytest.mark.parametrize(("coarse", "fine"), RATES)
def test_the_declared_coins_between_are_right_to_forty_digits(coarse: Fraction, fine: Fraction) -> None:
    """The distribution of noise at a middle level, given finer and coarser noise, is exact to forty digits."""
    middle = (coarse + 2 * fine) / 3
    with mpmath.workdps(45):
        apart, together = (exceeds(coin, 0) for coin in discrete_laplace._moving(coarse, middle, fine))
        for k, moved in ((0, together), (1, apart), (5, apart)):
            for b in range(-2, 8):
                bayes = exact_bridge(fine, middle, b) * exact_bridge(middle, coarse, k - b)
                bayes /= exact_bridge(fine, coarse, k)
                declared = (1 - moved) * (b == 0) + moved * refine_pmf(k, b, coarse, middle)
                assert mpmath.almosteq(declared, bayes, rel_eps=mpmath.mpf(10) ** -40)


@pytest.mark.parametrize("start", [-3, 0, 3])
def test_refining_one_value_follows_its_kernel(start: int) -> None:
    """`refine` and `carry` draw fine noise, given coarse noise of -3, 0 or 3, from the exact distribution."""
    family, known = DiscreteLaplace(1), np.full(DRAWS, start)
    chances = np.array([float(refine_pmf(abs(start), y, Fraction(1, 2), Fraction(1))) for y in range(-12, 13)])
    chances = np.append(chances, 1 - chances.sum())
    by_coins = family.refine(known, "1/2", 1, rng=entropy.seeded(49))
    by_inversion = family.carry(known[None], "1/2", 1, rng=entropy.seeded(50))[0]
    for drawn in (by_coins, by_inversion):
        towards = drawn if start >= 0 else -drawn
        cells = np.where(np.abs(towards) <= 12, towards + 12, 25)
        assert_consistent(g_test(np.bincount(cells, minlength=26), chances))


def test_near_levels_mostly_share_their_noise() -> None:
    """Noise at two close levels is equal as often as the exact probability says."""
    fine = FAMILY.sample(DRAWS, "1", rng=entropy.seeded(57))
    coarse = FAMILY.coarsen(fine, "1", "0.99", rng=entropy.seeded(58))
    with mpmath.workdps(30):
        chance = float(exact_bridge(Fraction(1, 2), Fraction("0.495"), 0))
    assert_consistent(binomial_test(int((fine == coarse).sum()), DRAWS, chance))
    closer = FAMILY.refine(coarse, "0.99", "0.99000000000000000000000000000001", rng=entropy.seeded(59))
    assert np.array_equal(closer, coarse)


def test_the_standard_deviation_is_that_of_the_law() -> None:
    """The standard deviation of discrete Laplace noise agrees with scipy, even where 1 - e**-rate loses digits."""
    for level, rate in (("1/2", 0.25), ("1", 0.5), ("2e-5", 1e-5)):
        assert FAMILY.std(level) == pytest.approx(stats.dlaplace.std(rate), rel=1e-9)


def test_extreme_levels_give_extreme_noise() -> None:
    """Discrete Laplace noise is 0 at level 10**9, and its size is near 10**12 at the smallest level."""
    rng = entropy.seeded(69)
    assert not FAMILY.sample(1000, 10**9, rng=rng).any()
    wide = FAMILY.sample(1000, Fraction(2, 2**40), rng=rng)
    assert 2**38 < np.abs(wide).mean() < 2**42
    back = FAMILY.refine(wide, Fraction(2, 2**40), 10**9, rng=rng)
    assert not back.any()
    assert np.abs(FAMILY.coarsen(back, 10**9, Fraction(2, 2**40), rng=rng)).max() > 2**38
