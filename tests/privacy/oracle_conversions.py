"""Reference conversions between privacy parameters, computed from textbook formulas in mpmath with many digits.

Equations are solved by a few secant steps in at least 60 digits. The steps start at the answer of the package, which
does not bias the result: they move away from a wrong answer to the exact one.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from mpmath import mp, mpf

Number = float | int | Fraction


def number(value: Number) -> mpf:
    """Convert a number to the working precision of mpmath; a float is read as its shortest decimal."""
    if isinstance(value, Fraction):
        return mpf(value.numerator) / value.denominator
    return mpf(repr(value)) if type(value) is float else mpf(value)


def apart(value: float, exact: mpf) -> float:
    """Return the relative error of a double, given the exact value."""
    return float(abs(mpf(value) / exact - 1)) if exact else float(value != 0)


def solved(function: Callable[[mpf], mpf], start: float) -> mpf:
    """Return the zero of a function near `start`, found by the secant method."""
    before = mpf(start)
    here = before * (1 + mpf(10) ** -10)
    value_before, value = function(before), function(here)
    for _ in range(12):
        if value == value_before:
            break
        before, value_before, here = here, value, here - value * (here - before) / (value - value_before)
        value = function(here)
        if abs(here / before - 1) < mpf(10) ** -30:
            break
    return here


def gaussian_delta(epsilon: Number, rho: Number) -> mpf:
    """Return the delta of Gaussian noise at `epsilon`, by the formula of Balle and Wang."""
    mu, at = mp.sqrt(2 * number(rho)), number(epsilon)
    return mp.ncdf(-at / mu + mu / 2) - mp.exp(at) * mp.ncdf(-at / mu - mu / 2)


def zcdp_log_delta(t: mpf, epsilon: Number, rho: Number) -> mpf:
    """Return ln delta of rho-zCDP at Rényi order 1 + t, by Proposition 12 of Canonne, Kamath and Steinke."""
    at, rate, order = number(epsilon), number(rho), 1 + t
    # log1p keeps all digits of ln(1 - 1/order) = -ln(1 + 1/t), even if t is far from 1
    return t * (order * rate - at) - order * mp.log1p(1 / t) - mp.log(t)


def least(function: Callable[[mpf], mpf], low: float = -400.0, high: float = 400.0) -> mpf:
    """Return the minimum of a function that is unimodal in ln t, by golden-section search."""
    golden = (mp.sqrt(5) - 1) / 2
    a, b = mpf(low), mpf(high)
    c, d = b - golden * (b - a), a + golden * (b - a)
    at_c, at_d = function(mp.exp(c)), function(mp.exp(d))
    # The value of the minimum is accurate to twice as many digits as its position.
    while b - a > mpf(10) ** -12:
        if at_c <= at_d:
            b, d, at_d = d, c, at_c
            c = b - golden * (b - a)
            at_c = function(mp.exp(c))
        else:
            a, c, at_c = c, d, at_d
            d = a + golden * (b - a)
            at_d = function(mp.exp(d))
    return min(at_c, at_d)


def zcdp_delta(epsilon: Number, rho: Number) -> mpf:
    """Return the smallest delta that rho-zCDP implies at `epsilon`, over all Rényi orders."""
    return mp.exp(least(lambda t: zcdp_log_delta(t, epsilon, rho)))


def zcdp_epsilon(delta: Number, rho: Number) -> mpf:
    """Return the smallest epsilon that rho-zCDP implies at `delta`, over all Rényi orders."""
    log_delta, rate = mp.log(number(delta)), number(rho)
    return max(mpf(0), least(lambda t: (zcdp_log_delta(t, 0, rate) - log_delta) / t))


def zcdp_rho(epsilon: Number, delta: Number) -> mpf:
    """Return the largest rho for which rho-zCDP implies (epsilon, delta), over all Rényi orders."""
    log_delta = mp.log(number(delta))
    return -least(lambda t: (zcdp_log_delta(t, epsilon, 0) - log_delta) / (t * (1 + t)))


def pure_delta(epsilon: Number, each: Number, times: int) -> mpf:
    """Return the delta of `times` equal pure releases, by the sum of Kairouz, Oh and Viswanath."""
    at, rate = number(epsilon), number(each)
    terms = (
        mp.binomial(times, flips) * (mp.exp((times - flips) * rate) - mp.exp(at + flips * rate))
        for flips in range(times + 1)
        if (times - 2 * flips) * rate > at
    )
    return mp.fsum(terms) / (1 + mp.exp(rate)) ** times


def skellam_divergence(order: int, level: Fraction, keys: int) -> mpf:
    """Return the smaller of the two published bounds on the Rényi divergence of Skellam noise."""
    mu = 2 / number(level)
    first = mpf(order * keys) / (2 * mu) + min(
        mpf((2 * order - 1) * keys + 6 * keys) / (4 * mu**2), mpf(3 * keys) / (2 * mu)
    )
    return min(first, order * keys * mp.log(mp.besseli(0, mu) / mp.besseli(1, mu)))
