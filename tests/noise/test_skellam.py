"""The laws of Skellam noise: the joint law of three levels by its pmf, its parts, and the tails."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import mpmath
import numpy as np
import pytest
from scipy.special import ive

from sparsehist import entropy
from sparsehist.errors import DeclarationError
from sparsehist.noise.binomial_poisson import Number, as_number, poisson
from sparsehist.noise.family import Family
from sparsehist.noise.integer_tails import Uniforms, draw_uniforms
from sparsehist.noise.skellam import Skellam, _smaller_mean, accepted_share, draw_parts, parts_quantile
from sparsehist.privacy.poisson_pmf import log_poisson_pmf
from tests.noise.orders import in_order, joint_p_value
from tests.stats import assert_consistent, assert_detected, g_test, two_sample_vectors

FAMILY = Skellam()
TIMES = (3.0, 1.5, 0.75)
LEVELS = tuple(1 / Fraction(time) for time in TIMES)
# 200,000 draws see a mean of the parts 3 % off in the joint law.
DRAWS = 200_000


def pmf(x: np.ndarray, mean: float) -> np.ndarray:
    """P[P - D = x] for two Poisson(mean) parts."""
    return ive(np.abs(x), 2 * mean)


def p_value(paths: np.ndarray) -> float:
    """G-test of three levels against the process of independent increments."""
    return joint_p_value(paths, pmf, TIMES, (-5, 5))


@pytest.mark.parametrize("order", list(permutations(LEVELS)))
def test_one_integer_a_cell_gives_every_order_the_same_joint_law(order: tuple[Fraction, ...]) -> None:
    """Whatever the order, and though the parts are drawn again each time, three levels have their joint pmf."""
    assert_consistent(p_value(in_order(FAMILY, order, DRAWS, 301)))


class PartsOfOneSide(Skellam):
    """Thins the difference itself, as if one part were empty."""

    def refine(self, coarse, coarse_level, level, *, rng):
        return np.sign(coarse) * rng.binomial(np.abs(coarse), float(Fraction(coarse_level) / Fraction(level)))


def test_wrong_joint_laws_are_rejected() -> None:
    """A thinned difference, an independent redraw and a variance 5 % off are seen by the same test."""
    assert_detected(p_value(in_order(PartsOfOneSide(), LEVELS, DRAWS, 302)), "a thinned difference")
    drawn = in_order(FAMILY, LEVELS, DRAWS, 303)
    drawn[:, 1] = FAMILY.sample(DRAWS, LEVELS[1], rng=entropy.seeded(304))
    assert_detected(p_value(drawn), "one level drawn independently")
    stretched = in_order(FAMILY, [level / Fraction(21, 20) for level in LEVELS], DRAWS, 305)
    assert_detected(p_value(stretched), "variances 5 % off")


@pytest.mark.parametrize(("mean", "difference"), [(0.05, 3), (2.0, 0), (2.0, -7), (50.0, 11), (300.0, -400)])
def test_the_parts_have_the_bessel_law_by_both_routes(mean: float, difference: int) -> None:
    """Rejection and inverse distribution function draw the smaller part with its exact probabilities."""
    rng = entropy.seeded(306)
    size, k = abs(difference), np.arange(0, 600)
    logs = log_poisson_pmf(k, mean) + log_poisson_pmf(k + size, mean)
    law = np.exp(logs - logs.max())
    law /= law.sum()
    given = np.full(DRAWS, difference)
    for added, taken in (
        draw_parts(given, Fraction(mean), rng=rng),
        parts_quantile(given, mean, draw_uniforms(DRAWS, rng=rng)),
    ):
        assert np.array_equal(added - taken, given)
        assert_consistent(g_test(np.bincount(np.minimum(added, taken), minlength=600), law))


@pytest.mark.parametrize("mean", ["1/1000", "1/2", "3.3", "40", "1000.1", "1e6", "4294967296"])
@pytest.mark.parametrize("z", [0, 1, 7, 300, 10**5])
def test_the_parts_are_within_the_slack(mean: str, z: int) -> None:
    """The proposed mean to 100 bits, the accepted share of each proposal to some ten units in the last place.

    Seven proposals in ten are accepted, so that the parts are within 1.5 of the slack of one number and a little.
    """
    exact = Fraction(mean)
    size, rng = np.array([z]), entropy.seeded(311)
    lower = _smaller_mean(size, as_number(exact))
    with mpmath.workdps(60):
        a = (
            mpmath.sqrt(mpmath.mpf(z) ** 2 / 4 + mpmath.mpf(exact.numerator) ** 2 / exact.denominator**2)
            - mpmath.mpf(z) / 2
        )
        assert abs(mpmath.mpf(lower.high[0]) + mpmath.mpf(lower.low[0]) - a) <= a * mpmath.mpf(2) ** -100
        trial = poisson(Number(np.repeat(lower.high, 2000), np.repeat(lower.low, 2000)), rng=rng)
        got = accepted_share(trial, np.repeat(size, 2000), Number(*(np.repeat(part, 2000) for part in lower)))
        assert (got <= 1 + 2.0**-50).all()
        assert got.mean() > 0.67
        top = mpmath.floor(a + z)
        for k, share in list(zip(trial.tolist(), got.tolist(), strict=True))[:40]:
            logarithm = (k + z - top) * mpmath.log(a + z) - mpmath.loggamma(k + z + 1) + mpmath.loggamma(top + 1)
            allowed = (100 * abs(float(logarithm)) + 60 + 2 * abs(k - float(a))) * 2.0**-53
            assert abs(share / mpmath.exp(logarithm) - 1) <= allowed


def test_the_parts_move_apart_in_order_at_one_uniform() -> None:
    """As the difference grows the added part never falls and the taken one never rises."""
    rng = entropy.seeded(307)
    rows = np.repeat(np.arange(-60, 61)[:, None], 2000, axis=1)
    added, taken = parts_quantile(rows, 40.0, draw_uniforms(2000, rng=rng))
    assert (np.diff(added, axis=0) >= 0).all()
    assert (np.diff(taken, axis=0) <= 0).all()
    ends = Uniforms(np.array([True, False]), np.array([1e-300, 1e-300]))
    assert (parts_quantile(np.zeros((1, 2), np.int64), 40.0, ends)[0] >= 0).all()


def test_carry_has_the_law_of_refine_and_keeps_every_order() -> None:
    """Jointly with where it started, a carried row cannot be told from a refined one; no row overtakes."""
    rng = entropy.seeded(308)
    z = FAMILY.sample(50_000, "1/20", rng=rng)
    rows = np.stack([z, z + 1, z + 7])
    carried = FAMILY.carry(rows, "1/20", "1/6", rng=rng)
    assert (np.diff(carried, axis=0) >= 0).all()
    for row, seen in zip(rows[::2], carried[::2], strict=True):
        refined = FAMILY.refine(row, "1/20", "1/6", rng=rng)
        assert_consistent(two_sample_vectors(np.column_stack([row, seen]), np.column_stack([row, refined])))
    shared_coins = np.stack([FAMILY.refine(row, "1/20", "1/6", rng=entropy.seeded(309)) for row in rows])
    assert (np.diff(shared_coins, axis=0) < 0).any(), "a shared seed is no coupling, so the test can fail"


def test_the_tails_agree_with_thirty_digits() -> None:
    """The reference value, and sums of Bessel functions from the middle to far beyond underflow."""
    assert float(FAMILY.tail(12, "0.2")) == pytest.approx(7.0544841919836797798e-5, rel=1e-14)
    with mpmath.workdps(40):
        for mean in ("0.01", "5", "1000"):
            for z in (0, 1, 5, 12, 45):
                n = max(1, round(z * (2 * float(mean)) ** 0.5))
                total, k, term = mpmath.mpf(0), n, mpmath.mpf(1)
                while term > total * mpmath.mpf(10) ** -20:
                    term = mpmath.besseli(k, 2 * mpmath.mpf(mean))
                    total, k = total + term, k + 1
                exact = float(mpmath.log(total) - 2 * mpmath.mpf(mean))
                level = 1 / Fraction(mean)
                assert float(FAMILY.log_tail(n - 1, level)) == pytest.approx(exact, rel=1e-13)
                assert float(FAMILY.log_cdf(-n + 0.5, level)) == pytest.approx(exact, rel=1e-13)
                below = np.log1p(-np.exp(exact))
                assert float(FAMILY.log_cdf(n - 1, level)) == pytest.approx(below, rel=1e-12)


@pytest.mark.parametrize("level", ["100", "1/2", "0.01", "1e-6"])
def test_inverse_log_tail_is_the_integer_quantile(level: str) -> None:
    """P[Z > x] <= v < P[Z >= x], for v from 1 - 1e-300 down to e**-1e4, alone and in tables."""
    few = np.array([-1e-300, -1e-17, -1e-3, -0.69, -0.7, -3.0, -40.0, -700.0, -1e4])
    many = np.negative(entropy.seeded(310).standard_exponential(5000))
    for log_v in (few, many):
        x = FAMILY.inverse_log_tail(log_v, level)
        slack = 1e-12 * (1 + np.abs(log_v))
        assert (FAMILY.log_tail(x, level) <= log_v + slack).all()
        assert (FAMILY.log_tail(x - 1, level) >= log_v - slack).all()


def test_draws_by_inversion_have_the_law_of_fresh_noise() -> None:
    """Exponentials through inverse_log_tail follow the pmf; sample_tail follows it above a threshold."""
    rng, span = entropy.seeded(311), np.arange(-60, 61)
    law = pmf(span, 4.0)
    drawn = FAMILY.inverse_log_tail(-rng.standard_exponential(DRAWS), "1/4")
    assert_consistent(g_test(np.bincount(drawn + 60, minlength=121), law))
    above = FAMILY.sample_tail(DRAWS, 5.0, "1/4", rng=rng)
    law[span <= 5] = 0.0
    assert_consistent(g_test(np.bincount(above + 60, minlength=121)[66:], law[66:] / law[66:].sum()))


def test_what_cannot_be_is_refused() -> None:
    """Keys that are no number of keys; and the statement claims no rho."""
    with pytest.raises(DeclarationError):
        Skellam(sensitivity=0)
    assert isinstance(FAMILY, Family)
    assert "no zCDP" in FAMILY.statement("0.01")
