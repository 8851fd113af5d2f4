"""The laws of Laplace noise: joint over levels in any order, with its atoms, and the tails."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import mpmath
import numpy as np
import pytest

from sparsehist import entropy
from sparsehist.errors import DeclarationError
from sparsehist.histogram import draw_exceeding
from sparsehist.noise.laplace import Laplace
from tests.noise.orders import in_order
from tests.stats import assert_consistent, assert_detected, binomial_test, g_test, ks_test, uniform_cube_test

FAMILY = Laplace(sensitivity=2.0)
LEVELS = (Fraction(1, 2), Fraction(1), Fraction(2))
# 200,000 draws see a scale 4 % off, and an atom's probability 2 % off.
DRAWS = 200_000


def laplace_cdf(x: np.ndarray, rate: float) -> np.ndarray:
    """P[Z <= x], written apart from the code under test."""
    return np.where(x < 0, np.exp(np.minimum(rate * x, 0)) / 2, 1 - np.exp(np.minimum(-rate * x, 0)) / 2)


def bridge_uniforms(step: np.ndarray, fine: float, coarse: float, spread: np.ndarray) -> np.ndarray:
    """The distribution function of the bridge at its own draws, spread evenly over the jump at 0."""
    stay = (coarse / fine) ** 2
    below = (1 - stay) * laplace_cdf(step, coarse) + stay * (step > 0)
    return np.where(step == 0, (1 - stay) / 2 + stay * spread, below)


def joint_p_value(paths: np.ndarray) -> float:
    """Rosenblatt's transform from the finest level on, against the uniform cube."""
    coarse, middle, fine = paths.T
    rates = [float(level) / FAMILY.sensitivity for level in LEVELS]
    spread = entropy.seeded(1).random((2, len(paths)))
    uniforms = [
        laplace_cdf(fine, rates[2]),
        bridge_uniforms(middle - fine, rates[2], rates[1], spread[0]),
        bridge_uniforms(coarse - middle, rates[1], rates[0], spread[1]),
    ]
    return uniform_cube_test(np.column_stack(uniforms), 8)


@pytest.mark.parametrize("order", list(permutations(LEVELS)))
def test_releases_in_any_order_have_one_joint_law(order: tuple[Fraction, ...]) -> None:
    """Whatever the order, the finest is Laplace and the steps from it are independent bridges."""
    assert_consistent(joint_p_value(in_order(FAMILY, order, DRAWS, 101)))


class PrintedBetween(Laplace):
    """The two bridges with the probabilities of the printed Lemma F.5, which are those of the other one."""

    def between(self, coarse, coarse_level, fine, fine_level, level, *, rng):
        c, m, f = (float(x) / self.sensitivity for x in (coarse_level, level, fine_level))

        def log_bridge(x, stay, rate):
            return np.where(x == 0, np.log(stay), np.log((1 - stay) * rate / 2) - rate * np.abs(x))

        stay_one, stay_two = (c / m) ** 2, (m / f) ** 2
        gap = coarse - fine
        weights = np.exp([log_bridge(gap, stay_one, m), log_bridge(gap, stay_two, c)])
        moved = fine + self.refine(gap, coarse_level, level, rng=rng)
        either = rng.random(len(gap)) * (weights.sum(0) * 2)
        return np.where(either < weights[0], fine, np.where(either < weights.sum(0), coarse, moved))


class Redraw(Laplace):
    """Wrong: fresh noise that ignores the neighbouring levels."""

    def between(self, coarse, coarse_level, fine, fine_level, level, *, rng):
        return self.sample(len(fine), level, rng=rng)


@pytest.mark.parametrize("wrong", [PrintedBetween(2.0), Redraw(2.0), Laplace(2.1), Laplace(1.9)])
def test_wrong_joint_laws_are_rejected(wrong: Laplace) -> None:
    """The printed lemma, an independent redraw and a scale 5 % off are seen by the same test."""
    order = (LEVELS[0], LEVELS[2], LEVELS[1])
    assert_detected(joint_p_value(in_order(wrong, order, DRAWS, 102)), repr(wrong))


def test_levels_share_their_value_to_the_last_bit_as_often_as_the_bridge_is_zero() -> None:
    """Equality at two levels has probability (coarse / fine)**2, in every order: between hits both atoms."""
    for order in permutations(LEVELS):
        coarse, middle, fine = in_order(FAMILY, order, DRAWS, 103).T
        for one, two, chance in ((coarse, middle, 1 / 4), (middle, fine, 1 / 4), (coarse, fine, 1 / 16)):
            assert_consistent(binomial_test(int(np.count_nonzero(one == two)), DRAWS, chance))
        assert (middle == fine)[coarse == fine].all()


def test_between_has_the_reference_weights() -> None:
    """At gap 1.5 between levels 1/2 and 2: back to the fine noise, on to the coarse, or between."""
    fine = np.zeros(1_000_000)
    drawn = Laplace().between(fine + 1.5, "0.5", fine, 2, 1, rng=entropy.seeded(104))
    counts = [np.count_nonzero(drawn == 0), np.count_nonzero(drawn == 1.5)]
    law = [0.2, 0.18894662109640588286, 0.61105337890359411714]
    assert_consistent(g_test([*counts, drawn.size - sum(counts)], law))


def kernel_cdf(y: np.ndarray, x: np.ndarray, a: float, b: float) -> tuple[np.ndarray, np.ndarray]:
    """P[fine < y] and P[fine <= y] given coarse noise x: quadrature-free, by its four pieces."""
    sign = np.where(x >= 0, 1.0, -1.0)
    u, m = y * sign, np.abs(x)
    after = np.exp(-(b - a) * m) * np.exp(-(a + b) * np.maximum(u - m, 0)) * (b - a) / (2 * b)
    inner = (a + b) / (2 * b) * np.exp(-(b - a) * np.clip(u, 0, m))
    before = 1 - (b - a) / (2 * b) * np.exp((a + b) * np.minimum(u, 0))
    up_to = 1 - np.where(u < 0, before, np.where(u < m, inner, after))
    below = np.where(u == m, up_to - a / b * np.exp(-(b - a) * m), up_to)
    return np.where(sign > 0, below, 1 - up_to), np.where(sign > 0, up_to, 1 - below)


@pytest.mark.parametrize("start", [-7.0, -0.3, 0.0, 1e-9, 2.5])
def test_refine_and_carry_have_the_law_of_the_kernel(start: float) -> None:
    """Both ways of refining, uniform after the kernel's own distribution function, atoms spread out."""
    rng, x = entropy.seeded(105), np.full(DRAWS, start)
    for drawn in (FAMILY.refine(x, "0.4", 1, rng=rng), FAMILY.carry(np.stack([x, x]), "0.4", 1, rng=rng)[1]):
        below, up_to = kernel_cdf(drawn, x, 0.2, 0.5)
        assert_consistent(ks_test(below + (up_to - below) * rng.random(DRAWS), lambda u: u))


def test_lazy_draws_have_the_reference_rate() -> None:
    """P[V(1) > 6 given V(1/2) <= 12], by the number of ten million cells that newly exceed."""
    drawn = draw_exceeding(Laplace(), [("0.5", 12.0)], 1, 6.0, 10**7, rng=entropy.seeded(107))
    assert_consistent(binomial_test(drawn.values.size, 10**7, 0.0011945779431390511527))


def test_the_tails_agree_with_thirty_digits() -> None:
    """tail, log_tail, log_cdf and the inverse against mpmath, from far below zero to far above."""
    with mpmath.workdps(40):
        for t in (-900.0, -30.0, -1.0, -1e-12, 0.0, 0.3, 40.0, 2000.0):
            upper = mpmath.exp(-abs(mpmath.mpf(t))) / 2
            exact = mpmath.log(upper) if t >= 0 else mpmath.log1p(-upper)
            assert float(FAMILY.log_tail(t, 2)) == pytest.approx(float(exact), rel=1e-14)
            assert float(FAMILY.log_cdf(-t, 2)) == pytest.approx(float(exact), rel=1e-14)
    for log_v in (-1e4, -700.0, -1.0, -0.7, -0.69, -1e-3, -1e-200):
        assert float(FAMILY.log_tail(FAMILY.inverse_log_tail(log_v, 2), 2)) == pytest.approx(log_v, rel=1e-12)


def test_what_cannot_be_is_refused() -> None:
    """A negative sensitivity is refused; the guarantee is pure DP."""
    with pytest.raises(DeclarationError):
        Laplace(sensitivity=-1.0)
    assert FAMILY.statement("0.1").startswith("0.1-differential privacy (pure)")
