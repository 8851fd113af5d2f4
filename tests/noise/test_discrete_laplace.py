"""The laws of discrete Laplace noise: joint over levels in any order, exact in every part, and the tails."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import permutations

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsehist import entropy
from sparsehist.errors import DeclarationError, LevelError
from sparsehist.noise import discrete_laplace, exact_draws
from sparsehist.noise.discrete_laplace import DiscreteLaplace
from sparsehist.noise.exact_draws import Interval, Tail, enclose
from tests.noise.orders import in_order
from tests.stats import assert_consistent, assert_detected, binomial_test, g_test

FAMILY = DiscreteLaplace(sensitivity=2)
# epsilon / sensitivity is 1/4, 1/2 and 1.
LEVELS = (Fraction(1, 2), Fraction(1), Fraction(2))
# 200,000 draws see a scale 2 % off in the joint law and a coin 1 % off.
DRAWS = 200_000
REACH, SHOWN = 130, 5


def pmf(rate: float) -> np.ndarray:
    """P[Z = x] for |x| <= REACH."""
    decay = math.exp(-rate)
    return (1 - decay) / (1 + decay) * decay ** np.abs(np.arange(-REACH, REACH + 1))


def bridge(fine: float, coarse: float) -> np.ndarray:
    """P[coarse noise = column | fine noise = row], by division of characteristic functions."""
    moment = [2 * math.exp(-rate) / math.expm1(-rate) ** 2 for rate in (fine, coarse)]
    stay = moment[0] / moment[1]
    away = np.abs(np.subtract.outer(np.arange(-REACH, REACH + 1), np.arange(-REACH, REACH + 1)))
    decay = math.exp(-coarse)
    return stay * (away == 0) + (1 - stay) * (1 - decay) / (1 + decay) * decay**away


def shown(values: np.ndarray) -> np.ndarray:
    """Cells of one axis: the values within SHOWN, and a tail on each side."""
    return np.clip(values, -SHOWN - 1, SHOWN + 1) + SHOWN + 1


SUM_CELLS = (shown(np.arange(-REACH, REACH + 1))[:, None] == np.arange(2 * SHOWN + 3)).astype(float)


def joint_pmf(rates: tuple[float, float, float]) -> np.ndarray:
    """P of the cells of (coarse, middle, fine) noise; the shape of a cube, flattened."""
    coarse, middle, fine = rates
    down = SUM_CELLS.T @ (pmf(fine)[:, None] * bridge(fine, middle))
    up = bridge(middle, coarse) @ SUM_CELLS
    cube = np.einsum("fm,mj,mc->cjf", down, SUM_CELLS, up)
    assert math.isclose(cube.sum(), 1.0, abs_tol=1e-10)
    return cube.ravel() / cube.sum()


def joint_test(coarse: np.ndarray, middle: np.ndarray, fine: np.ndarray) -> float:
    """G-test of three levels against their joint law."""
    side = 2 * SHOWN + 3
    cells = (shown(coarse) * side + shown(middle)) * side + shown(fine)
    return g_test(np.bincount(cells, minlength=side**3), joint_pmf((0.25, 0.5, 1.0)))


def paths(order: tuple[Fraction, ...], seed: int, draws: int = DRAWS, family: DiscreteLaplace = FAMILY) -> np.ndarray:
    """Draw noise at all levels in the given order; coarse, middle, fine."""
    return in_order(family, order, draws, seed).T


@pytest.mark.parametrize("order", list(permutations(LEVELS)))
def test_three_levels_in_any_order_have_their_joint_law(order: tuple[Fraction, ...]) -> None:
    """Whatever the order, the noise at three levels follows the exact joint probabilities."""
    drawn = paths(order, 41)
    assert drawn.dtype == np.int64
    assert_consistent(joint_test(*drawn), f"order {order}")


def test_the_joint_law_is_the_same_where_intervals_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    """If interval arithmetic settles every draw, the law is the same."""
    monkeypatch.setattr(exact_draws, "_ROOM", 1e300)
    coarse, middle, fine = LEVELS
    assert_consistent(joint_test(*paths((middle, fine, coarse), 42, 1_500)))
    assert_consistent(joint_test(*paths((fine, coarse, middle), 43, 1_500)))


def printed_between(coarse: np.ndarray, fine: np.ndarray, seed: int) -> np.ndarray:
    """Lemma F.5 as printed, on integers: both atoms exchanged, and the upper bridge jumping like the finest law."""
    spread = [2 * math.exp(-rate) / math.expm1(-rate) ** 2 for rate in (0.25, 0.5, 1.0)]
    at = np.arange(-REACH, REACH + 1)
    lower = spread[1] / spread[0] * (at == 0) + (1 - spread[1] / spread[0]) * pmf(0.5)
    upper = spread[2] / spread[1] * (at == 0) + (1 - spread[2] / spread[1]) * pmf(1.0)
    rng, distance, moved = entropy.seeded(seed), np.clip(coarse - fine, -40, 40), np.zeros_like(fine)
    for k in np.unique(distance):
        rest = np.abs(k - at)
        weights = lower * np.where(rest <= REACH, upper[np.minimum(rest, REACH) + REACH], 0.0)
        mine = distance == k
        moved[mine] = rng.choice(at, mine.sum(), p=weights / weights.sum())
    return fine + moved


def test_wrong_joint_laws_are_rejected() -> None:
    """A scale 5 % off, a level drawn again on its own, and the bridges of Lemma F.5 as printed are all seen."""
    coarse, _, fine = paths(LEVELS, 43)
    again = FAMILY.sample(DRAWS, LEVELS[1], rng=entropy.seeded(44))
    assert_detected(joint_test(coarse, again, fine), "one level drawn independently")
    for sensitivity in ("2.1", "1.9"):
        wrong = paths(LEVELS, 45, family=DiscreteLaplace(sensitivity))
        assert_detected(joint_test(*wrong), f"a scale of {sensitivity} for 2")
    assert_detected(joint_test(coarse, printed_between(coarse, fine, 46), fine), "Lemma F.5 as printed")


def value(number: Interval) -> mpmath.mpf:
    """The middle of an enclosure to sixty digits."""
    low, high = (mpmath.mp.make_mpf(end) for end in number._mpi_)
    assert high - low < mpmath.mpf(10) ** -60
    return (low + high) / 2


def exceeds(tail: Tail, k: int, power: int = 0) -> mpmath.mpf:
    """P[N > k] of a tail, to sixty digits."""
    weight = value(enclose(tail.weight, 250))
    return weight * mpmath.exp(-power * value_of(tail.shrink) - k * value_of(tail.rate))


def sized_pmf(tail: Tail, x: int) -> mpmath.mpf:
    """P[x] of a tail's number with a random sign."""
    size = abs(x)
    mass = (exceeds(tail, size - 1) if size else mpmath.mpf(1)) - exceeds(tail, size)
    return mass if x == 0 else mass / 2


def refine_pmf(x: int, y: int, coarse: Fraction, fine: Fraction) -> mpmath.mpf:
    """P[y | x] of the declared step for x >= 0."""
    inside, outside = discrete_laplace._refining(coarse, fine)

    def above(k: int) -> mpmath.mpf:
        """P[fine noise > k]."""
        if k < 0:
            return 1 - exceeds(outside, -k - 1)
        return exceeds(inside, k) if k < x else exceeds(outside, k - x, x)

    return above(y - 1) - above(y)


def value_of(rate: Fraction) -> mpmath.mpf:
    """A rational as a long float."""
    return mpmath.mpf(rate.numerator) / rate.denominator


def exact_bridge(fine: Fraction, coarse: Fraction, x: int) -> mpmath.mpf:
    """P[coarse - fine = x]."""
    a, b = (mpmath.exp(-value_of(rate)) for rate in (fine, coarse))
    stay = a / (1 - a) ** 2 / (b / (1 - b) ** 2)
    return stay * (x == 0) + (1 - stay) * (1 - b) / (1 + b) * b ** abs(x)


RATES = [(Fraction(1, 2), Fraction(1)), (Fraction(1), Fraction("1.001")), (Fraction(1, 10), Fraction(7, 2))]


@pytest.mark.parametrize(("coarse", "fine"), RATES)
def test_the_declared_steps_are_the_kernels_to_forty_digits(coarse: Fraction, fine: Fraction) -> None:
    """Bridge and refine, as the code declares them, against division and Bayes' rule."""
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
    """P[middle = fine + b | coarse - fine = k], as the code mixes it, against Bayes' rule, for k = 0 and others."""
    middle = (coarse + 2 * fine) / 3
    with mpmath.workdps(45):
        apart, together = (exceeds(coin, 0) for coin in discrete_laplace._moving(coarse, middle, fine))
        for k, moved in ((0, together), (1, apart), (5, apart)):
            for b in range(-2, 8):
                bayes = exact_bridge(fine, middle, b) * exact_bridge(middle, coarse, k - b)
                bayes /= exact_bridge(fine, coarse, k)
                declared = (1 - moved) * (b == 0) + moved * refine_pmf(k, b, coarse, middle)
                assert mpmath.almosteq(declared, bayes, rel_eps=mpmath.mpf(10) ** -40)


def test_reference_values_of_the_mathematics() -> None:
    """The bridge's atom from e^-2 to e^-1, and refining 3 from epsilon 1/2 to 1, to twenty digits."""
    with mpmath.workdps(30):
        atom = value(enclose(lambda: discrete_laplace._stay(Fraction(2), Fraction(1)), 250))
        assert mpmath.almosteq(atom, mpmath.mpf("0.19661193324148185254"), rel_eps=1e-19)
        for y, expected in ((3, "0.17781852763756817454"), (0, "0.35351790983185944389")):
            chance = refine_pmf(3, y, Fraction(1, 2), Fraction(1))
            assert mpmath.almosteq(chance, mpmath.mpf(expected), rel_eps=1e-19)


@pytest.mark.parametrize("start", [-3, 0, 3])
def test_refining_one_value_follows_its_kernel(start: int) -> None:
    """From 3, from -3 and from 0, by coins and by inversion alike."""
    family, known = DiscreteLaplace(1), np.full(DRAWS, start)
    chances = np.array([float(refine_pmf(abs(start), y, Fraction(1, 2), Fraction(1))) for y in range(-12, 13)])
    chances = np.append(chances, 1 - chances.sum())
    by_coins = family.refine(known, "1/2", 1, rng=entropy.seeded(49))
    by_inversion = family.carry(known[None], "1/2", 1, rng=entropy.seeded(50))[0]
    for drawn in (by_coins, by_inversion):
        towards = drawn if start >= 0 else -drawn
        cells = np.where(np.abs(towards) <= 12, towards + 12, 25)
        assert_consistent(g_test(np.bincount(cells, minlength=26), chances))


@pytest.mark.parametrize(("start", "end"), [(0, 2), (2, 0), (0, 1), (2, 1)])
def test_carried_noise_has_the_joint_law(start: int, end: int) -> None:
    """A pair drawn and carried has the law of two levels, upwards and downwards."""
    rng = entropy.seeded(51)
    known = FAMILY.sample(DRAWS, LEVELS[start], rng=rng)
    carried = FAMILY.carry(known[None], LEVELS[start], LEVELS[end], rng=rng)[0]
    pair = {start: known, end: carried}
    third = 3 - start - end
    low, high = min(third, *pair), max(third, *pair)
    if third == 1:
        pair[1] = FAMILY.between(pair[0], LEVELS[0], pair[2], LEVELS[2], LEVELS[1], rng=rng)
    elif third == high:
        pair[third] = FAMILY.refine(pair[1], LEVELS[1], LEVELS[third], rng=rng)
    elif third == low:
        pair[third] = FAMILY.coarsen(pair[1], LEVELS[1], LEVELS[third], rng=rng)
    assert_consistent(joint_test(pair[0], pair[1], pair[2]))


def test_near_levels_mostly_share_their_noise() -> None:
    """The chance that coarse noise equals fine noise is its atom plus the chance of a jump of 0."""
    fine = FAMILY.sample(DRAWS, "1", rng=entropy.seeded(57))
    coarse = FAMILY.coarsen(fine, "1", "0.99", rng=entropy.seeded(58))
    with mpmath.workdps(30):
        chance = float(exact_bridge(Fraction(1, 2), Fraction("0.495"), 0))
    assert_consistent(binomial_test(int((fine == coarse).sum()), DRAWS, chance))
    closer = FAMILY.refine(coarse, "0.99", "0.99000000000000000000000000000001", rng=entropy.seeded(59))
    assert np.array_equal(closer, coarse)


def test_the_standard_deviation_is_that_of_the_law() -> None:
    """sqrt(2a)/(1-a), also where 1 - a almost cancels."""
    for level, rate in (("1/2", 0.25), ("1", 0.5)):
        x = np.arange(-REACH, REACH + 1)
        assert FAMILY.std(level) == pytest.approx(math.sqrt((pmf(rate) * x**2).sum()), rel=1e-9)
    assert FAMILY.std("2e-9") == pytest.approx(math.sqrt(2) * 1e9, rel=1e-12)


def test_parameters_that_cannot_be_served_are_refused() -> None:
    """A sensitivity must be positive, and a level must keep the noise within 64-bit integers."""
    for wrong in (0, -1, float("nan"), "two"):
        with pytest.raises(DeclarationError, match="sensitivity"):
            DiscreteLaplace(wrong)
    with pytest.raises(LevelError, match="at least"):
        FAMILY.sample(1, "1e-20", rng=entropy.seeded(68))
    assert DiscreteLaplace(0.1).rate("0.1") == 1


def test_the_statement_is_pure_and_exact() -> None:
    """epsilon-DP on integers, with the zCDP it implies: epsilon tanh(epsilon / 2)."""
    assert FAMILY.statement("1/2") == (
        "0.5-DP (pure differential privacy, exactly, on integers); implies 0.122459-zCDP"
    )


def test_extreme_levels_give_extreme_noise() -> None:
    """None at all at a huge level, and a spread of a trillion at the least."""
    rng = entropy.seeded(69)
    assert not FAMILY.sample(1000, 10**9, rng=rng).any()
    wide = FAMILY.sample(1000, Fraction(2, 2**40), rng=rng)
    assert 2**38 < np.abs(wide).mean() < 2**42
    back = FAMILY.refine(wide, Fraction(2, 2**40), 10**9, rng=rng)
    assert not back.any()
    assert np.abs(FAMILY.coarsen(back, 10**9, Fraction(2, 2**40), rng=rng)).max() > 2**38


def test_the_tail_agrees_with_thirty_digits() -> None:
    """tail, log_tail and log_cdf against mpmath, below and above zero, at whole and broken thresholds."""
    with mpmath.workdps(30):
        for rate in ("0.001", "0.25", "3"):
            family, a = DiscreteLaplace(1), mpmath.exp(-mpmath.mpf(rate))
            for t in (-9000, -7.5, -2, -1, -0.5, 0, 0.3, 4, 200.999, 100_000):
                x = math.floor(t)
                above = a ** (x + 1) / (1 + a) if x >= 0 else 1 - a ** (-x) / (1 + a)
                lower = a ** (-x) / (1 + a) if x < 0 else 1 - a ** (x + 1) / (1 + a)
                with mpmath.workdps(80):
                    exact = mpmath.log(above) if x >= 0 else mpmath.log1p(-lower)
                    exact_lower = mpmath.log(lower) if x < 0 else mpmath.log1p(-above)
                assert float(family.log_tail(t, rate)) == pytest.approx(float(exact), rel=1e-13)
                assert float(family.log_cdf(t, rate)) == pytest.approx(float(exact_lower), rel=1e-13)
                assert float(family.tail(t, rate)) == pytest.approx(float(above), rel=1e-9)
    assert FAMILY.log_tail([-np.inf, np.inf], 1).tolist() == [0.0, -np.inf]
    assert int(FAMILY.inverse_log_tail(0.0, 1)) < -10
    assert int(FAMILY.inverse_log_tail(-np.inf, 1)) > 10


@given(st.one_of(st.floats(-2000.0, -1e-3), st.floats(-1e-3, -1e-300)), st.sampled_from(["0.002", "0.3", "2", "40"]))
def test_inverse_log_tail_brackets_its_argument(log_probability: float, level: str) -> None:
    """P[Z > x] <= e^l < P[Z >= x], to rounding, over both tails."""
    x = DiscreteLaplace(1).inverse_log_tail(log_probability, level)
    assert x.dtype == np.int64
    family, slack = DiscreteLaplace(1), 1e-12 * abs(log_probability) + 1e-15
    if log_probability < -1e-3:
        assert float(family.log_tail(x, level)) <= log_probability + slack
        assert float(family.log_tail(x - 1, level)) >= log_probability - slack
        return
    log_lower = math.log(-math.expm1(log_probability))
    slack = 1e-12 * abs(log_lower)
    assert float(family.log_cdf(x - 1, level)) - slack <= log_lower <= float(family.log_cdf(x, level)) + slack


@pytest.mark.parametrize("threshold", [-7, -3.5, -1, 0, 2.5, 1000])
def test_draws_above_a_threshold_have_the_truncated_law(threshold: float) -> None:
    """sample_tail: the law itself, given that it exceeds."""
    drawn = FAMILY.sample_tail(DRAWS // 2, threshold, 1, rng=entropy.seeded(61))
    least = math.floor(threshold) + 1
    decay, x = math.exp(-0.5), np.arange(least, least + 60)
    weights = decay ** (np.abs(x) - np.abs(x).min())
    rest = weights[-1] * decay / (1 - decay)
    chances = np.append(weights, rest) / (weights.sum() + rest)
    assert drawn.min() >= least
    assert_consistent(g_test(np.bincount(np.minimum(drawn - least, 60), minlength=61), chances))
