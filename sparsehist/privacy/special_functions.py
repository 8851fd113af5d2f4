"""Special functions of scipy, imported when the first of them is called.

`scipy.special` takes as long to import as Polars, and most calls of the package and commands need none of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sparsehist.typing import FloatArray

# From here on seven terms of the asymptotic series are exact to 1e-17, and below it erfc is a normal double.
_FAR = 26.0
_SPLIT = 2.0**27 + 1
_FEW = 16
_SOME = 1 << 16  # take five milliseconds; from here on the import is worth it


def _later(name: str) -> Callable[..., Any]:
    """The function of that name."""
    known: list[Callable[..., Any]] = []

    def function(*arguments: Any, **named: Any) -> Any:
        if not known:
            from scipy import special

            known.append(getattr(special, name))
        return known[0](*arguments, **named)

    return function


betainc, chdtrc, erfc, erfcx = map(_later, ("betainc", "chdtrc", "erfc", "erfcx"))
gammainc, gammaincc, gammaln, i0e, i1e = map(_later, ("gammainc", "gammaincc", "gammaln", "i0e", "i1e"))
kolmogorov, ndtr, ndtri = map(_later, ("kolmogorov", "ndtr", "ndtri"))
wrightomega, xlogy = map(_later, ("wrightomega", "xlogy"))
_scipy_log_ndtr, _scipy_ndtri_exp = map(_later, ("log_ndtr", "ndtri_exp"))


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
        return float(_far_series(2.0 * square) / x)
    high = _SPLIT * t - (_SPLIT * t - t)
    low = t - high
    left = ((high * high - square) + 2.0 * high * low) + low * low
    return math.sqrt(math.pi / 2.0) * math.exp(square) * math.erfc(t) * (1.0 + left)


def _far_series(square: Any) -> Any:
    """The Mills ratio at x times x, given x**2, far from 0."""
    term, total = 1.0, 1.0
    for k in range(1, 8):
        term = term * -(2 * k - 1) / square
        total = total + term
    return total


def log_ndtr(x: Any) -> Any:
    """ln P[N <= x], accurate in both tails; scipy's for more than 65,536 numbers."""
    given = np.asarray(x, np.float64)
    if given.size > _SOME:
        return _scipy_log_ndtr(given)
    return _log_normal_cdfs(given.ravel()).reshape(given.shape)[()]


def ndtri_exp(y: Any) -> Any:
    """The x with ln P[N <= x] = y; scipy's for more than 16 numbers."""
    given = np.asarray(y, np.float64)
    if given.size > _FEW:
        return _scipy_ndtri_exp(given)
    return np.array([_inverse_log_normal_cdf(value) for value in given.ravel().tolist()]).reshape(given.shape)[()]


def _log_normal_cdfs(x: FloatArray) -> FloatArray:
    """ln P[N <= x] of many x."""
    tail = np.fromiter(map(math.erfc, (np.abs(x) / math.sqrt(2.0)).tolist()), np.float64, x.size) / 2.0
    with np.errstate(divide="ignore", over="ignore"):
        found = np.where(x > 0.0, np.log1p(-tail), np.log(tail))
        far = x < -_FAR * math.sqrt(2.0)
        square = x[far] ** 2
        found[far] = np.log(_far_series(square) / (-x[far] * math.sqrt(2.0 * math.pi))) - square / 2.0
    return found


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
