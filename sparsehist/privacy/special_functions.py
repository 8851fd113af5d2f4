"""Special functions of scipy, imported when the first of them is called.

`scipy.special` takes as long to import as Polars, and most calls of the package and commands need none of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

# From here on seven terms of the asymptotic series are exact to 1e-17, and below it erfc is a normal double.
_FAR = 26.0
_SPLIT = 2.0**27 + 1
_FEW = 16


def _later(name: str) -> Callable[..., Any]:
    """The function of that name."""
    known: list[Callable[..., Any]] = []

    def function(*arguments: Any, **named: Any) -> Any:
        if not known:
            from scipy import special

            known.append(getattr(special, name))
        return known[0](*arguments, **named)

    return function


betainc, chdtrc, erfc, erfcx, erfinv, expit = map(_later, ("betainc", "chdtrc", "erfc", "erfcx", "erfinv", "expit"))
gammainc, gammaincc, gammaln, i0e, i1e = map(_later, ("gammainc", "gammaincc", "gammaln", "i0e", "i1e"))
kolmogorov, ndtr, ndtri = map(_later, ("kolmogorov", "ndtr", "ndtri"))
wrightomega, xlogy = map(_later, ("wrightomega", "xlogy"))


def normal_cdf(x: float) -> float:
    """P[N <= x] for a standard normal N."""
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def mills_ratio(x: float) -> float:
    """P[N > x] over the density of N at x, for an x above -6; to 1e-14 of itself.

    exp(x**2) is taken of the rounded square, and what rounding left is put right to first order.
    """
    t = x / math.sqrt(2.0)
    square = t * t
    if t > _FAR:
        term, total = 1.0, 1.0
        for k in range(1, 8):
            term *= -(2 * k - 1) / (2.0 * square)
            total += term
        return total / x
    high = _SPLIT * t - (_SPLIT * t - t)
    low = t - high
    left = ((high * high - square) + 2.0 * high * low) + low * low
    return math.sqrt(math.pi / 2.0) * math.exp(square) * math.erfc(t) * (1.0 + left)


def _few_by_ourselves(own: Callable[[float], float], name: str) -> Callable[..., Any]:
    """A function of a few numbers that needs no scipy, and of many the one of scipy."""
    many = _later(name)

    def function(x: Any) -> Any:
        given = np.asarray(x, np.float64)
        if given.size > _FEW:
            return many(given)
        return np.array([own(value) for value in given.ravel().tolist()]).reshape(given.shape)[()]

    return function


def _log_normal_cdf(x: float) -> float:
    """ln P[N <= x], accurate in both tails."""
    if x > -1.0:
        return math.log1p(-0.5 * math.erfc(x / math.sqrt(2.0)))
    if x < -1e154:
        return -math.inf
    return math.log(mills_ratio(-x) / math.sqrt(2.0 * math.pi)) - x * x / 2.0


def _inverse_log_normal_cdf(y: float) -> float:
    """The x with ln P[N <= x] = y. Newton's steps on a concave function, from below, so that none goes too far."""
    if not -math.inf < y < 0.0:
        return y if y < 0.0 else math.inf if y == 0.0 else math.nan
    if y > -math.log(2.0):
        return -_inverse_log_normal_cdf(math.log(-math.expm1(y)))
    # P[N <= x] is at most half of exp(-x**2 / 2).
    x, step = -math.sqrt(2.0 * max(0.0, -y - math.log(2.0))), 1.0
    while step > 1e-15 * abs(x):
        step = (y - _log_normal_cdf(x)) * mills_ratio(-x)
        x += step
    return x


log_ndtr = _few_by_ourselves(_log_normal_cdf, "log_ndtr")
ndtri_exp = _few_by_ourselves(_inverse_log_normal_cdf, "ndtri_exp")
