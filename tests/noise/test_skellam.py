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
from sparsehist.noise.family import Family
from sparsehist.noise.skellam import Skellam
from tests.noise.orders import in_order, joint_p_value
from tests.stats import assert_consistent, assert_detected, two_sample_vectors

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
    """P[Z > x] <= v < P[Z >= x], for v from 1 - 1e-300 down to e**-5000."""
    few = np.array([-1e-300, -1e-17, -1e-3, -0.69, -0.7, -3.0, -40.0, -700.0, -5e3])
    many = np.negative(entropy.seeded(310).standard_exponential(5000))
    for log_v in (few, many):
        x = FAMILY.inverse_log_tail(log_v, level)
        slack = 1e-12 * (1 + np.abs(log_v))
        assert (FAMILY.log_tail(x, level) <= log_v + slack).all()
        assert (FAMILY.log_tail(x - 1, level) >= log_v - slack).all()


def test_what_cannot_be_is_refused() -> None:
    """Keys that are no number of keys; and the statement claims no rho."""
    with pytest.raises(DeclarationError):
        Skellam(sensitivity=0)
    assert isinstance(FAMILY, Family)
    assert "no zCDP" in FAMILY.statement("0.01")
