"""The laws of Poisson and Skellam noise: the joint law of three levels by its pmf, and the tails."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import mpmath
import numpy as np
import pytest
from scipy import stats
from scipy.special import ive

from sparsehist import entropy
from sparsehist.errors import DeclarationError, LevelError
from sparsehist.noise.poisson import Poisson
from sparsehist.noise.skellam import Skellam
from tests.noise.orders import in_order, joint_p_value
from tests.stats import assert_consistent, assert_detected, g_test

# Times of coarse, middle and fine noise; pmf of an increment; the integers shown. 200,000 draws see a mean 3 % off.
LAWS = {
    Poisson: ((6.0, 3.5, 2.0), stats.poisson.pmf, (0, 12)),
    Skellam: ((3.0, 1.5, 0.75), lambda x, mean: ive(np.abs(x), 2 * mean), (-5, 5)),
}
DRAWS = 200_000
FAMILIES = pytest.mark.parametrize("kind", LAWS, ids=lambda kind: kind.__name__)


def levels_of(kind):
    """Coarse, middle and fine."""
    return tuple(1 / Fraction(time) for time in LAWS[kind][0])


def p_value(kind, paths):
    """G-test of three levels against the process of independent increments."""
    times, pmf, shown = LAWS[kind]
    return joint_p_value(paths, pmf, times, shown)


@FAMILIES
@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_releases_in_any_order_have_the_law_of_one_process(kind, order):
    """Whatever the order, three levels have the joint pmf of independent increments."""
    levels = levels_of(kind)
    assert_consistent(p_value(kind, in_order(kind(), [levels[i] for i in order], DRAWS, 201)))


class WrongShare(Poisson):
    """Thins by the share of levels, where the share of means is right."""

    def between(self, coarse, coarse_level, fine, fine_level, level, *, rng):
        share = float((fine_level - level) / (fine_level - coarse_level))
        return fine + rng.binomial(coarse - fine, share)


class PartsOfOneSide(Skellam):
    """Thins the difference itself, as if one part were empty."""

    def refine(self, coarse, coarse_level, level, *, rng):
        return np.sign(coarse) * rng.binomial(np.abs(coarse), float(Fraction(coarse_level) / Fraction(level)))


@pytest.mark.parametrize(("wrong", "order"), [(WrongShare, (0, 2, 1)), (PartsOfOneSide, (0, 1, 2))])
def test_wrong_joint_laws_are_rejected(wrong, order):
    """A wrong thinning, an independent redraw and a mean 5 % off are seen by the same test."""
    kind = wrong.__base__
    order = [levels_of(kind)[i] for i in order]
    assert_detected(p_value(kind, in_order(wrong(), order, DRAWS, 202)), "a wrong thinning")
    drawn = in_order(kind(), order, DRAWS, 203)
    drawn[:, 1] = kind().sample(DRAWS, levels_of(kind)[1], rng=entropy.seeded(204))
    assert_detected(p_value(kind, drawn), "one level drawn independently")
    stretched = in_order(kind(), [level / Fraction(21, 20) for level in order], DRAWS, 205)
    assert_detected(p_value(kind, stretched), "means 5 % off")


def test_carried_poisson_noise_is_binomial_given_where_it_started():
    """Each row, and no row overtakes a higher one."""
    rng = entropy.seeded(206)
    rows = np.repeat([[3], [9], [10], [60]], DRAWS, axis=1)
    refined = Poisson().carry(rows, "1/6", "1/2", rng=rng)
    assert (np.diff(refined, axis=0) >= 0).all()
    for row, start in zip(refined, rows[:, 0], strict=True):
        law = stats.binom.pmf(range(start + 1), start, 1 / 3)
        assert_consistent(g_test(np.bincount(row, minlength=start + 1), law))
    coarser = Poisson().carry(rows, "1/2", "1/6", rng=rng)
    assert (np.ptp(coarser - rows, axis=0) == 0).all()


@pytest.mark.parametrize("mean", ["0.01", "7.5", "100", "30000"])
def test_poisson_tails_agree_with_thirty_digits(mean):
    """log_tail and log_cdf against mpmath, near the mean and where doubles underflow."""
    level, m, family = 1 / Fraction(mean), float(Fraction(mean)), Poisson()
    with mpmath.workdps(60):
        for z in (-60, -30, -2, 0, 3, 12, 60):
            n = int(np.floor(m + z * m**0.5))
            if n < 0:
                continue
            upper = mpmath.gammainc(n + 1, 0, mpmath.mpf(m), regularized=True)
            assert float(family.log_tail(n, level)) == pytest.approx(float(mpmath.log(upper)), rel=2e-12)
            lower = mpmath.gammainc(n + 1, mpmath.mpf(m), mpmath.inf, regularized=True)
            assert float(family.log_cdf(n + 0.5, level)) == pytest.approx(float(mpmath.log(lower)), rel=2e-12)
    assert float(family.tail(-1, level)) == 1.0
    assert float(family.log_cdf(-1, level)) == -np.inf


@pytest.mark.parametrize("mean", ["0.01", "5", "1000"])
def test_skellam_tails_agree_with_thirty_digits(mean):
    """The reference value, and sums of Bessel functions from the middle to far beyond underflow."""
    family, level, m = Skellam(), 1 / Fraction(mean), mpmath.mpf(mean)
    assert float(family.tail(12, "0.2")) == pytest.approx(7.0544841919836797798e-5, rel=1e-14)
    with mpmath.workdps(40):
        for z in (0, 1, 5, 12, 45):
            n = max(1, round(z * (2 * float(mean)) ** 0.5))
            total, k, term = mpmath.mpf(0), n, mpmath.mpf(1)
            while term > total * mpmath.mpf(10) ** -20:
                term = mpmath.besseli(k, 2 * m)
                total, k = total + term, k + 1
            exact = float(mpmath.log(total) - 2 * m)
            assert float(family.log_tail(n - 1, level)) == pytest.approx(exact, rel=1e-13)
            assert float(family.log_cdf(-n + 0.5, level)) == pytest.approx(exact, rel=1e-13)
            assert float(family.log_cdf(n - 1, level)) == pytest.approx(np.log1p(-np.exp(exact)), rel=1e-12)


@FAMILIES
@pytest.mark.parametrize("level", ["100", "1/2", "0.01", "1e-6"])
def test_inverse_log_tail_is_the_integer_quantile(kind, level):
    """P[Z > x] <= v < P[Z >= x], for v from 1 - 1e-300 down to e**-5000."""
    family = kind()
    few = np.array([-1e-300, -1e-17, -1e-3, -0.69, -0.7, -3.0, -40.0, -700.0, -5e3])
    many = np.sort(entropy.seeded(208).standard_exponential(5000)) * -1
    for log_v in (few, many):
        x = family.inverse_log_tail(log_v, level)
        slack = 1e-12 * (1 + np.abs(log_v))
        assert x.dtype == np.int64
        assert (family.log_tail(x, level) <= log_v + slack).all()
        assert (family.log_tail(x - 1, level) >= log_v - slack).all()
        assert (np.diff(x) >= 0).all()


@FAMILIES
def test_what_cannot_be_is_refused(kind):
    """Levels too coarse for tables, and keys that are no number of keys; the statement claims no rho."""
    with pytest.raises(LevelError, match="1e-12"):
        kind().sample(3, "1e-12", rng=entropy.seeded(210))
    for keys in (0, 1.5, True):
        with pytest.raises(DeclarationError):
            kind(sensitivity=keys)
    assert "no zCDP" in kind().statement("0.01")
    assert kind is Skellam or "not centred" in kind().statement("0.01")
