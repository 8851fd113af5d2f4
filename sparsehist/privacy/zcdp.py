"""Zero-concentrated DP and (epsilon, delta): the best order of the Rényi divergence, in both directions.

A rho-zCDP release is (epsilon, delta)-DP for every

    ln delta(t) = t ((t + 1) rho - epsilon) - t ln(1 + 1/t) - ln(1 + t),    t = order - 1 > 0,

which is convex in t. Where it is least, (2t + 1) rho - epsilon = ln(1 + 1/t) and t**2 rho + ln(1 + t) = -ln delta:
monotone equations for the best t given two of the three quantities. As it is the least, a t of 15 digits gives
the third to 30 as long as the formula above is evaluated with as many.

A delta_infinity-approximate rho-zCDP release is one in all but an event of that probability: it is
(epsilon, delta_infinity + (1 - delta_infinity) delta)-DP.

epsilon and rho are at least 0, delta lies strictly between 0 and 1, and delta_infinity, the probability of that
event, is at least 0 and below delta (below 1 where delta is what is computed); anything else raises DeclarationError.

This is what rho alone promises. Gaussian noise at that rho promises more: see `sparsehist.privacy.gaussian`.

Source: Canonne, Kamath and Steinke 2020, Proposition 12; Bun and Steinke 2016, Definition 8.1 and Lemma 8.8
(approximate zCDP). Numerical gap: none to 15 digits, rounded to nearest, not upwards.

Papers: [Interactive Lemma 5].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction

from sparsehist.errors import DeclarationError
from sparsehist.privacy.crossing import crossing
from sparsehist.privacy.exact_numbers import (
    MANY_DIGITS,
    Number,
    as_decimal,
    at_least_zero,
    log,
    log_one_plus,
    probability,
)

# ln t is sought between these. Below, delta is 1 to all digits; above, no double is small enough to ask for it.
_LOWEST, _HIGHEST = -700.0, 700.0


def delta(epsilon: Number, rho: Number, delta_infinity: Number = 0.0) -> float:
    """The smallest delta, to 15 digits, with which every rho-zCDP release is shown to be (epsilon, delta)-DP.

    Example:
        >>> delta(1.0, 0.1)
        0.00893324577...
    """
    asked, spent, slack = at_least_zero(epsilon, "epsilon"), at_least_zero(rho, "rho"), _slack(delta_infinity)
    if spent == 0:
        return float(slack)
    order = best_order_given_epsilon(asked, spent)
    with localcontext(MANY_DIGITS):
        rest = log_delta(order, asked, spent).exp() if order else Decimal(1)
        return float(min(rest * as_decimal(1 - slack) + as_decimal(slack), Decimal(1)))


def epsilon(delta: Number, rho: Number, delta_infinity: Number = 0.0) -> float:
    """The smallest epsilon, to 15 digits, with which every rho-zCDP release is shown to be (epsilon, delta)-DP.

    Example:
        >>> epsilon(1e-6, 0.1)
        2.14193892838...
    """
    target, spent = _beyond(delta, delta_infinity), at_least_zero(rho, "rho")
    if spent == 0:
        return 0.0
    order = best_order_given_delta(target, spent)
    with localcontext(MANY_DIGITS):
        t = Decimal(order or math.exp(_LOWEST))
        return max(0.0, float(epsilon_at(t, -as_decimal(target).ln(), as_decimal(spent))))


def largest_rho(epsilon: Number, delta: Number, delta_infinity: Number = 0.0) -> float:
    """The largest rho, to 15 digits, that is shown to imply (epsilon, delta)-DP: the budget in rho of a target.

    Example:
        >>> largest_rho(1.0, 1e-6)
        0.02435597035...
    """
    target, asked = _beyond(delta, delta_infinity), at_least_zero(epsilon, "epsilon")
    wanted, limit = -log(target), float(asked)
    order = _root(lambda t: t * t * (limit + _log_inverse(t)) / (2.0 * t + 1.0) + math.log1p(t) - wanted)
    with localcontext(MANY_DIGITS):
        t = Decimal(order or math.exp(_LOWEST))
        excess = (-as_decimal(target).ln() - log_one_plus(t)) / t
        return max(0.0, float((as_decimal(asked) + log_one_plus(1 / t) - excess) / (1 + t)))


def from_pure(epsilon: Number) -> float:
    """The rho that every epsilon-DP release has: epsilon * tanh(epsilon / 2).

    Example:
        >>> from_pure(1.0)
        0.46211715726...

    Source: our own derivation: the Rényi divergence of randomised response, over its order, is largest at 1.
    """
    value = float(at_least_zero(epsilon, "epsilon"))
    return value * math.tanh(value / 2.0)


def best_order_given_epsilon(epsilon: Fraction, rho: Fraction) -> float:
    """The best t = order - 1 for a given epsilon; 0.0 where it is too small for a double, and delta 1."""
    limit, rate = float(epsilon), float(rho)
    return _root(lambda t: (2.0 * t + 1.0) * rate - limit - _log_inverse(t))


def best_order_given_delta(delta: Fraction, rho: Fraction) -> float:
    """The best t = order - 1 for a given delta; 0.0 where it is too small for a double."""
    wanted, rate = -log(delta), float(rho)
    return _root(lambda t: t * t * rate + math.log1p(t) - wanted)


def log_delta(order: float, epsilon: Fraction, rho: Fraction) -> Decimal:
    """ln delta(t) as above, to the digits of the context, at any t."""
    t = Fraction(order)
    at = as_decimal(t)
    return as_decimal(t * ((t + 1) * rho - epsilon)) - at * log_one_plus(1 / at) - log_one_plus(at)


def epsilon_at(t: Decimal, wanted: Decimal, rho: Decimal) -> Decimal:
    """The epsilon that an order of 1 + t gives for -ln delta = wanted, to the digits of the context."""
    return (1 + t) * rho - log_one_plus(1 / t) + (wanted - log_one_plus(t)) / t


def _root(rising: Callable[[float], float]) -> float:
    """Zero of an increasing function of t > 0, found in ln t; 0.0 if it lies below all doubles."""
    if rising(math.exp(_LOWEST)) >= 0.0:
        return 0.0
    low, high = _LOWEST, _HIGHEST
    return math.exp(crossing(lambda place: rising(math.exp(place)), low, high, tolerance=1e-15))


def _log_inverse(t: float) -> float:
    """ln(1 + 1/t)."""
    return math.log1p(t) - math.log(t) if t < 1.0 else math.log1p(1.0 / t)


def _slack(delta_infinity: Number) -> Fraction:
    slack = at_least_zero(delta_infinity, "delta_infinity")
    if slack >= 1:
        raise DeclarationError(f"delta_infinity must be below 1, got {delta_infinity!r}")
    return slack


def _beyond(delta: Number, delta_infinity: Number) -> Fraction:
    """What is left of delta for the releases that are zCDP."""
    target, slack = probability(delta), _slack(delta_infinity)
    if target <= slack:
        raise DeclarationError(
            f"delta must be above the delta_infinity already spent, {float(delta_infinity)!r}, got {float(delta)!r}"
        )
    return (target - slack) / (1 - slack)
