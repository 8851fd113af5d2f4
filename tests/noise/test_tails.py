"""Tests of the tails of every noise family: comparison with mpmath, inversion, and refused parameters."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsehist import entropy
from sparsehist.errors import DeclarationError, LevelError
from sparsehist.noise import (
    DiscreteLaplace,
    Exponential,
    Gaussian,
    Laplace,
    Poisson,
    RandomisedResponse,
    Skellam,
    family_named,
)

ONE = mpmath.mpf(1)
Pair = tuple[mpmath.mpf, mpmath.mpf]


def gaussian(t: mpmath.mpf, level: mpmath.mpf) -> Pair:
    """Return P[Z > t] and P[Z <= t] of Gaussian noise."""
    z = t * mpmath.sqrt(2 * level)
    return mpmath.ncdf(-z), mpmath.ncdf(z)


def laplace(t: mpmath.mpf, level: mpmath.mpf) -> Pair:
    """Return P[Z > t] and P[Z <= t] of Laplace noise."""
    far = mpmath.exp(-abs(t) * level) / 2
    return (far, 1 - far) if t >= 0 else (1 - far, far)


def exponential(t: mpmath.mpf, level: mpmath.mpf) -> Pair:
    """Return P[Z > t] and P[Z <= t] of exponential noise."""
    return mpmath.exp(-t * level), -mpmath.expm1(-t * level)


def discrete_laplace(t: mpmath.mpf, level: mpmath.mpf) -> Pair:
    """Return P[Z > t] and P[Z <= t] of discrete Laplace noise."""
    a, x = mpmath.exp(-level), mpmath.floor(t)
    far = a ** (x + 1 if x >= 0 else -x) / (1 + a)
    return (far, 1 - far) if x >= 0 else (1 - far, far)


def poisson(t: mpmath.mpf, level: mpmath.mpf) -> Pair:
    """Return P[Z > t] and P[Z <= t] of Poisson noise."""
    x = mpmath.floor(t) + 1
    above, up_to = ((1 / level, mpmath.inf), (0, 1 / level))
    return tuple(mpmath.gammainc(x, *ends, regularized=True) for ends in (up_to, above))  # type: ignore[return-value]


def skellam(t: mpmath.mpf, level: mpmath.mpf) -> Pair:
    """Return P[Z > t] and P[Z <= t] of Skellam noise."""
    x = int(mpmath.floor(t))
    far, k, term = mpmath.mpf(0), x + 1 if x >= 0 else -x, ONE
    while term > far * mpmath.mpf(10) ** -20:
        term = mpmath.besseli(k, 2 / level) * mpmath.exp(-2 / level)
        far, k = far + term, k + 1
    return (far, 1 - far) if x >= 0 else (1 - far, far)


FAMILIES = [
    (Gaussian(), gaussian, ("0.1",), (-12, -1, 0, 0.3, 4, 30, 200), 1e-13),
    (Laplace(), laplace, ("1",), (-900, -30, -1, -1e-12, 0, 0.3, 40, 2000), 1e-14),
    (Exponential(), exponential, ("2",), (1e-9, 0.2, 5, 2000), 1e-12),
    (DiscreteLaplace(), discrete_laplace, ("0.001", "0.25", "3"), (-9000, -7.5, -1, -0.5, 0, 0.3, 4, 200.999), 1e-13),
    (Poisson(), poisson, ("100", "2/15", "0.01", "1/30000"), (-60, -30, -2, 0, 3, 12, 60), 2e-12),
    (Skellam(), skellam, ("100", "0.2", "0.001"), (-12, 0, 1, 5, 45), 2e-12),
]
EVERY_FAMILY = pytest.mark.parametrize("family", [case[0] for case in FAMILIES], ids=repr)


@pytest.mark.parametrize(("family", "exact", "levels", "places", "close"), FAMILIES, ids=lambda part: str(part)[:20])
def test_the_tails_agree_with_mpmath(family, exact, levels, places, close):
    """The tail of every family agrees with mpmath to 9 digits, and its logarithms agree to at least 11 digits."""
    for level in levels:
        for place in places:
            t = float(place)
            if isinstance(family, Poisson | Skellam):  # here `place` is in standard deviations from the mean
                t = math.floor(family.mean(level) + place * family.std(level)) + 0.5
                if isinstance(family, Poisson) and t < 0:
                    continue
            with mpmath.workdps(60):
                rate = mpmath.mpf(Fraction(level).numerator) / Fraction(level).denominator
                above, up_to = exact(mpmath.mpf(t), rate)
                logs = [mpmath.log(p) if p < 0.5 else mpmath.log1p(-q) for p, q in ((above, up_to), (up_to, above))]
            assert float(family.log_tail(t, level)) == pytest.approx(float(logs[0]), rel=close), (level, place)
            assert float(family.log_cdf(t, level)) == pytest.approx(float(logs[1]), rel=close), (level, place)
            assert float(family.tail(t, level)) == pytest.approx(float(above), rel=1e-9)


def test_noise_that_is_never_negative_always_exceeds_less_than_zero():
    """Poisson and exponential noise exceed every negative threshold with probability 1."""
    for family in (Poisson(), Exponential()):
        assert (float(family.tail(-1.0, 2)), float(family.log_cdf(-1.0, 2))) == (1.0, -np.inf)


@EVERY_FAMILY
@given(st.one_of(st.floats(-5000.0, -1e-3), st.floats(-1e-3, -1e-300)), st.sampled_from(["1e-6", "0.3", "2", "40"]))
def test_the_inverse_of_a_tail_is_its_quantile(family, log_probability, level):
    """`inverse_log_tail` of a log probability l returns an x with P[Z > x] <= e^l <= P[Z >= x], up to rounding."""
    x = family.inverse_log_tail(log_probability, level)
    before = x - 1 if family.integer else x
    log_rest = math.log(-math.expm1(log_probability))
    upper, slack = log_probability < -1e-3, 1e-9 * abs(log_probability) + 1e-15
    if upper:
        assert float(family.log_tail(x, level)) <= log_probability + slack
        assert float(family.log_tail(before, level)) >= log_probability - slack
    else:
        slack = 1e-9 * abs(log_rest)
        assert float(family.log_cdf(before, level)) - slack <= log_rest <= float(family.log_cdf(x, level)) + slack


@pytest.mark.parametrize(
    ("make", "error", "word"),
    [
        *((lambda wrong=wrong: Gaussian(wrong), DeclarationError, "sensitivity") for wrong in (0.0, -1.0)),
        (lambda: Laplace(-1.0), DeclarationError, "sensitivity"),
        *(
            (lambda wrong=wrong: DiscreteLaplace(wrong), DeclarationError, "sensitivity")
            for wrong in (0, float("nan"), "two")
        ),
        *(
            (lambda wrong=wrong: Skellam(wrong), DeclarationError, "sensitivity must be a whole number")
            for wrong in (0, 1.5, True)
        ),
        (lambda: Poisson(20), DeclarationError, "skellam"),
        (lambda: RandomisedResponse(1), DeclarationError, "categories"),
        (lambda: RandomisedResponse(3, sensitivity=0), DeclarationError, "sensitivity"),
        (lambda: family_named("cauchy", 1), DeclarationError, "'cauchy'"),
        (lambda: Exponential().statement(1), DeclarationError, "never negative"),
        (lambda: DiscreteLaplace(2).sample(1, "1e-20", rng=entropy.seeded(1)), LevelError, "at least"),
        (lambda: Skellam().sample(3, "1e-12", rng=entropy.seeded(1)), LevelError, "1e-12"),
        (lambda: RandomisedResponse(3).sample(1, 5000, rng=entropy.seeded(1)), LevelError, "at most 4000"),
    ],
)
def test_parameters_that_cannot_be_served_are_refused(make, error, word):
    """Wrong sensitivities, unknown noise families and levels out of range are refused.

    A privacy statement for exponential noise is also refused, because this noise is never negative.
    """
    with pytest.raises(error, match=word):
        make()


def test_statements_name_the_guarantee():
    """The privacy statement of each noise family says what the noise guarantees and what it does not."""
    assert DiscreteLaplace(2).statement("1/2").startswith("0.5-DP (pure differential privacy, exactly, on integers)")
    assert Laplace(2.0).statement("0.1").startswith("0.1-differential privacy (pure)")
    assert "no zCDP" in Skellam().statement("0.01") and "not centred" in Poisson().statement("0.01")
    assert family_named("gaussian", 20) == Gaussian(math.sqrt(20))
