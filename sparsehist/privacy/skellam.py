"""Rényi bounds of Skellam noise, and what they give as (epsilon, delta).

A unit of l keys moves l counts by 1 each: sensitivities l in L1 and sqrt(l) in L2. Both bounds below hold for
integer orders; which is smaller depends on the variance. That the noise were (1/(2 variance))-zCDP per key, as
Gaussian noise of that variance is, is false, though not by much: it fails at orders near 1, where at variance 2
and order 1.2 the divergence of one key is 0.30248 and that would promise 0.3.

Each bound is a line in the order (the first of them the lower of two), and along a line slope * order + offset the
best (epsilon, delta) is that of slope-zCDP at epsilon - offset, whose best order is known; as its logarithm is
convex, the best integer is one of the two next to it.

A level is 1/mean of each of the two Poisson parts; epsilon is at least 0, delta lies strictly between 0 and 1, and a
unit has one key or more, each moved by 1 count; anything else raises DeclarationError.

Numerical gap: 14 digits, rounded to nearest, not upwards.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np

from sparsehist.errors import DeclarationError
from sparsehist.privacy.exact_numbers import MANY_DIGITS, Number, as_decimal, at_least_zero, probability
from sparsehist.privacy.levels import Level, as_level
from sparsehist.privacy.special_functions import i0e, i1e
from sparsehist.privacy.zcdp import best_order_given_delta, best_order_given_epsilon, epsilon_at, log_delta
from sparsehist.typing import FloatArray

# The logarithm of the ratio of the Bessel functions: of their quotient below, by their integrals between, and from
# its expansion beyond; near 1 the quotient would have lost the digits of its difference from 1.
_INTEGRATE_FROM, _EXPAND_FROM = 1.0, 1e3
# Points on half a circle: what the sum leaves out is a Bessel function of order 512, below e**-120 at variance 1000.
_POINTS = 256


def renyi(alpha: int, level: Level, keys: int = 1) -> float:
    """An upper bound, in nats, on the Rényi divergence of an integer order from 2 on between neighbours.

    Example:
        >>> renyi(2, "0.02") < 0.0103
        True

    Source: Agarwal, Kairouz and Liu 2021, Theorem 3.5, with the variance 2/level; the other bound is
    alpha * keys * ln(I0/I1) of the variance.
    """
    if isinstance(alpha, bool) or alpha != int(alpha) or alpha < 2:
        raise DeclarationError(
            f"the Rényi bound of Skellam noise is proved for integer orders from 2 on, got {alpha!r}"
        )
    return float(min(slope * int(alpha) + offset for slope, offset in _lines(level, keys)))


def renyi_curve(alphas: FloatArray, level: Level, keys: int = 1) -> FloatArray:
    """`renyi` of many whole orders at once; shape (n,) to (n,)."""
    lines = np.array([(float(slope), float(offset)) for slope, offset in _lines(level, keys)])
    return np.asarray(np.min(lines[:, :1] * alphas + lines[:, 1:], axis=0))


def epsilon(delta: Number, level: Level, keys: int = 1) -> float:
    """The smallest epsilon, by the best integer order, with which a release is shown to be (epsilon, delta)-DP.

    Example:
        >>> epsilon(1e-6, "0.01", 20)
        1.47366549766...

    Source: Canonne, Kamath and Steinke 2020, Proposition 12.
    """
    target = probability(delta)
    with localcontext(MANY_DIGITS):
        wanted = -as_decimal(target).ln()
        best = min(
            epsilon_at(Decimal(t), wanted, as_decimal(slope)) + as_decimal(offset)
            for slope, offset in _lines(level, keys)
            for t in _integers(best_order_given_delta(target, slope))
        )
        return max(0.0, float(best))


def delta(epsilon: Number, level: Level, keys: int = 1) -> float:
    """The smallest delta, by the best integer order, with which a release is shown to be (epsilon, delta)-DP.

    Example:
        >>> delta(2.0, "0.01", 20)
        1.059998496...e-10

    Source: Canonne, Kamath and Steinke 2020, Proposition 12, read the other way.
    """
    asked = at_least_zero(epsilon, "epsilon")
    with localcontext(MANY_DIGITS):
        best = min(
            log_delta(t, asked - offset, slope)
            for slope, offset in _lines(level, keys)
            for t in _integers(best_order_given_epsilon(asked - offset, slope))
        )
        return float(min(best, Decimal(0)).exp())


def zcdp(level: Level, keys: int = 1) -> float:
    """Refuse: no rho is proved for Skellam noise.

    Raises:
        DeclarationError: Always, with the reason.
    """
    raise DeclarationError(
        f"Skellam noise at level {level} for {keys} keys has no zCDP guarantee: at orders near 1 its Rényi "
        "divergence is larger than that of a Gaussian of its variance; ask for renyi(alpha, level, keys) or "
        "epsilon(delta, level, keys)"
    )


def _lines(level: Level, keys: int) -> list[tuple[Fraction, Fraction]]:
    """Slope and offset of the lines in the order whose least is the bound."""
    if keys < 1:
        raise DeclarationError(f"keys must be at least 1, got {keys!r}")
    variance = 2 / as_level(level)
    like_gaussian = keys / (2 * variance)
    return [
        (keys * Fraction(_log_bessel_ratio(float(variance))), Fraction(0)),
        (like_gaussian + keys / (2 * variance**2), 5 * keys / (4 * variance**2)),
        (like_gaussian, 3 * keys / (2 * variance)),
    ]


def _integers(best: float) -> tuple[int, int]:
    """The whole orders less 1, from 1 on, on either side of the best real one."""
    below = max(1, math.floor(best))
    return below, below + 1


def _log_bessel_ratio(variance: float) -> float:
    """ln(I0(variance) / I1(variance)), to rounding."""
    if variance < _INTEGRATE_FROM:
        return math.log(float(i0e(variance) / i1e(variance)))
    if variance < _EXPAND_FROM:
        # I0 is the mean of e**(variance cos), I0 - I1 that of e**(variance cos) (1 - cos): positive terms.
        fallen = 2.0 * np.sin(np.linspace(0.0, math.pi / 2.0, _POINTS + 1)) ** 2
        height = np.exp(-variance * fallen)
        height[[0, -1]] /= 2.0
        return -math.log1p(-float(height @ fallen) / float(height.sum()))
    x = 1.0 / variance
    series = 1 / 2 + x * (1 / 8 + x * (1 / 8 + x * (25 / 128 + x * (13 / 32 + x * 1073 / 1024))))
    return -math.log1p(-x * series)
