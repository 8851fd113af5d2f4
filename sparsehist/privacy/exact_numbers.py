"""Parameters read exactly, and arithmetic with fifty digits for the few places where sixteen are lost.

An epsilon of 1e-6 is often the difference of two numbers near 1, and a delta of 1e-300 the exponential of one
near 700: both need their parameters and a handful of operations beyond double precision. `decimal` has correctly
rounded logarithms and exponentials.
"""

from __future__ import annotations

import math
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from numbers import Integral

import numpy as np

from sparsehist.errors import DeclarationError

Number = int | float | str | Fraction | Decimal
"""What the conversions take, read exactly; a float is the decimal it prints as, as in a level: 0.05 is 1/20."""

_LARGEST_EXPONENT = 10_000  # a text such as 1e-99999999 would take minutes to write out

MANY_DIGITS = Context(prec=60, Emax=MAX_EMAX, Emin=MIN_EMIN)
"""For `decimal.localcontext`: 60 digits, and nothing overflows."""


def as_decimal(value: Fraction) -> Decimal:
    """The value to the digits of the context."""
    return Decimal(value.numerator) / Decimal(value.denominator)


def exactly(value: Number) -> Fraction:
    """Read a number as it is written; a float as its shortest decimal. ValueError if it is no finite number."""
    if isinstance(value, Fraction):
        return value
    if isinstance(value, float):
        return Fraction(repr(float(value)))
    if isinstance(value, str):
        if "/" in value:
            return Fraction(value)
        value = Decimal(value)
    elif isinstance(value, Integral) and not isinstance(value, bool):
        return Fraction(int(value))
    elif not isinstance(value, Decimal) and isinstance(value, np.floating):  # one narrower than Python's
        return Fraction(repr(float(value)))
    if isinstance(value, Decimal) and value.is_finite() and abs(value.adjusted()) <= _LARGEST_EXPONENT:
        return Fraction(value)
    raise ValueError


def at_least_zero(value: Number, name: str) -> Fraction:
    """Read a parameter that may be 0, or refuse it by name and value."""
    exact = _read(value)
    if exact is None or exact < 0:
        raise DeclarationError(f"{name} must be at least 0 and finite, got {value!r}")
    return exact


def probability(delta: Number) -> Fraction:
    """Read a probability strictly between 0 and 1, or refuse it by value."""
    exact = _read(delta)
    if exact is None or not 0 < exact < 1:
        raise DeclarationError(f"delta must lie strictly between 0 and 1, got {delta!r}")
    return exact


def _read(value: Number) -> Fraction | None:
    try:
        return exactly(value)
    except (ArithmeticError, ValueError):
        return None


def rounded_down(value: Fraction, digits: int = 12) -> Fraction:
    """The largest number of so many significant decimal digits that is not above a positive value."""
    with localcontext(MANY_DIGITS):
        places = digits - 1 - as_decimal(value).adjusted()
    scale = Fraction(10) ** places
    return math.floor(value * scale) / scale


def log(value: Fraction) -> float:
    """ln of a positive number that a float need not hold."""
    with localcontext(MANY_DIGITS):
        return float(as_decimal(value).ln())


def log_one_plus(value: Decimal) -> Decimal:
    """ln(1 + value) to the digits of the context, for a value at or above 0 however small."""
    if value > Decimal("1e-20"):
        return (1 + value).ln()
    return value * (1 - value * (Decimal(1) / 2 - value * (Decimal(1) / 3 - value / 4)))
