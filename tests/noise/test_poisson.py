"""The laws of Poisson noise: the joint law of three levels by its pmf, and the tails."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import mpmath
import numpy as np
import pytest
from scipy import stats

from sparsehist import entropy
from sparsehist.errors import DeclarationError, LevelError
from sparsehist.noise.family import Family
from sparsehist.noise.poisson import Poisson
from tests.noise.orders import in_order, joint_p_value
from tests.stats import assert_consistent, assert_detected, g_test

FAMILY = Poisson()
TIMES = (6.0, 3.5, 2.0)
LEVELS = tuple(1 / Fraction(time) for time in TIMES)
# 200,000 draws see a mean 3 % off in the joint law.
DRAWS = 200_000


def p_value(paths: np.ndarray) -> float:
    """G-test of three levels against the Poisson process."""
    return joint_p_value(paths, stats.poisson.pmf, TIMES, (0, 12))


@pytest.mark.parametrize("order", list(permutations(LEVELS)))
def test_releases_in_any_order_have_the_law_of_one_poisson_process(order: tuple[Fraction, ...]) -> None:
    """Whatever the order, three levels have the joint pmf of independent increments."""
    assert_consistent(p_value(in_order(FAMILY, order, DRAWS, 201)))


class WrongBetween(Poisson):
    """Thins by the share of levels, where the share of means is right."""

    def between(self, coarse, coarse_level, fine, fine_level, level, *, rng):
        share = float((fine_level - level) / (fine_level - coarse_level))
        return fine + rng.binomial(coarse - fine, share)


def test_wrong_joint_laws_are_rejected() -> None:
    """A mean 5 % off, an independent redraw and a wrong thinning are seen by the same test."""
    order = (LEVELS[0], LEVELS[2], LEVELS[1])
    assert_detected(p_value(in_order(WrongBetween(), order, DRAWS, 202)), "thinning by the wrong share")
    drawn = in_order(FAMILY, order, DRAWS, 203)
    drawn[:, 1] = FAMILY.sample(DRAWS, LEVELS[1], rng=entropy.seeded(204))
    assert_detected(p_value(drawn), "one level drawn independently")
    stretched = in_order(FAMILY, [level / Fraction(21, 20) for level in order], DRAWS, 205)
    assert_detected(p_value(stretched), "means 5 % off")


def test_carry_has_the_law_of_the_thinning_and_keeps_every_order() -> None:
    """Each row is binomial given where it started, and no row overtakes a higher one."""
    rng = entropy.seeded(206)
    rows = np.repeat([[3], [9], [10], [60]], DRAWS, axis=1)
    refined = FAMILY.carry(rows, "1/6", "1/2", rng=rng)
    assert (np.diff(refined, axis=0) >= 0).all()
    for row, start in zip(refined, rows[:, 0], strict=True):
        assert_consistent(
            g_test(np.bincount(row, minlength=start + 1), stats.binom.pmf(range(start + 1), start, 1 / 3))
        )
    coarser = FAMILY.carry(rows, "1/2", "1/6", rng=rng)
    assert (np.ptp(coarser - rows, axis=0) == 0).all()


@pytest.mark.parametrize("mean", ["0.01", "7.5", "100", "30000"])
def test_the_tails_agree_with_thirty_digits(mean: str) -> None:
    """tail, log_tail and log_cdf against mpmath, near the mean and where doubles underflow."""
    level, m = 1 / Fraction(mean), float(Fraction(mean))
    with mpmath.workdps(60):
        for z in (-60, -30, -2, 0, 3, 12, 60):
            n = int(np.floor(m + z * m**0.5))
            if n < 0:
                continue
            upper = mpmath.gammainc(n + 1, 0, mpmath.mpf(m), regularized=True)
            assert float(FAMILY.log_tail(n, level)) == pytest.approx(float(mpmath.log(upper)), rel=2e-12)
            lower = mpmath.gammainc(n + 1, mpmath.mpf(m), mpmath.inf, regularized=True)
            assert float(FAMILY.log_cdf(n + 0.5, level)) == pytest.approx(float(mpmath.log(lower)), rel=2e-12)
    assert float(FAMILY.tail(-1, level)) == 1.0
    assert float(FAMILY.log_cdf(-1, level)) == -np.inf


@pytest.mark.parametrize("level", ["100", "1/2", "0.01", "1e-6"])
def test_inverse_log_tail_is_the_integer_quantile(level: str) -> None:
    """P[Z > x] <= v < P[Z >= x], for v from 1 - 1e-300 down to e**-5000."""
    few = np.array([-1e-300, -1e-17, -1e-3, -0.69, -0.7, -3.0, -40.0, -700.0, -5e3])
    many = np.negative(entropy.seeded(208).standard_exponential(5000))
    for log_v in (few, many):
        x = FAMILY.inverse_log_tail(log_v, level)
        slack = 1e-12 * (1 + np.abs(log_v))
        assert x.dtype == np.int64
        assert (FAMILY.log_tail(x, level) <= log_v + slack).all()
        assert (FAMILY.log_tail(x - 1, level) >= log_v - slack).all()
    assert (np.diff(FAMILY.inverse_log_tail(np.sort(many)[::-1], level)) >= 0).all()


def test_what_cannot_be_is_refused() -> None:
    """Levels too coarse for doubles, and keys that are no number of keys."""
    with pytest.raises(LevelError, match="1e-12"):
        FAMILY.sample(3, "1e-12", rng=entropy.seeded(210))
    for keys in (0, 1.5, True):
        with pytest.raises(DeclarationError):
            Poisson(sensitivity=keys)
    assert isinstance(FAMILY, Family)
    assert "not centred" in FAMILY.statement("0.01")
    assert "no zCDP" in FAMILY.statement("0.01")
