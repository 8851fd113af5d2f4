"""Parameters read exactly, and arithmetic with fifty digits for the few places where sixteen are lost.

An epsilon of 1e-6 is often the difference of two numbers near 1, and a delta of 1e-300 the exponential of one
near 700: both need their parameters and a handful of operations beyond double precision. `decimal` has correctly
rounded logarithms and exponentials.
"""

from __future__ import annotations

import math
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction

from sparsehist.errors import DeclarationError

Number = int | float | Fraction
"""What the conversions take: a float is the binary number it is, not the decimal it prints as."""

MANY_DIGITS = Context(prec=60, Emax=MAX_EMAX, Emin=MIN_EMIN)
"""For `decimal.localcontext`: 60 digits, and nothing overflows."""


def as_decimal(value: Fraction) -> Decimal:
    """The value to the digits of the context."""
    return Decimal(value.numerator) / Decimal(value.denominator)


def at_least_zero(value: Number, name: str) -> Fraction:
    """Read a parameter that may be 0, or refuse it by name and value."""
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction) or not math.isfinite(value):
        raise DeclarationError(f"{name} must be at least 0 and finite, got {value!r}")
    if value < 0:
        raise DeclarationError(f"{name} must be at least 0 and finite, got {value!r}")
    return Fraction(value)


def probability(value: Number, name: str = "delta") -> Fraction:
    """Read a probability strictly between 0 and 1, or refuse it by name and value."""
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction) or not 0 < value < 1:
        raise DeclarationError(f"{name} must lie strictly between 0 and 1, got {value!r}")
    return Fraction(value)


def log(value: Fraction) -> float:
    """ln of a positive number that a float need not hold."""
    with localcontext(MANY_DIGITS):
        return float(as_decimal(value).ln())


def log_one_plus(value: Decimal) -> Decimal:
    """ln(1 + value) to the digits of the context, for a value at or above 0 however small."""
    if value > Decimal("1e-20"):
        return (1 + value).ln()
    return value * (1 - value * (Decimal(1) / 2 - value * (Decimal(1) / 3 - value / 4)))
