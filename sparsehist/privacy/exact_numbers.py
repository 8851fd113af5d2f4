"""Parameters read exactly, and the one root finder."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from numbers import Integral

import numpy as np

from sparsehist.errors import DeclarationError, shown

Number = int | float | str | Fraction | Decimal
"""Type of the parameters of conversions; a float is read as its shortest decimal: 0.05 is 1/20."""

_LARGEST_EXPONENT = 10_000  # a text such as 1e-99999999 would take minutes to write out
_SMALLEST_DELTA = Fraction(1, 10**300)  # conversions compute in doubles


def exactly(value: Number) -> Fraction:
    """Read a number as it is written; a float as its shortest decimal. ValueError unless it is a finite number."""
    if isinstance(value, Fraction):
        return value
    if isinstance(value, str) and "/" in value:
        return Fraction(value)
    if isinstance(value, float | np.floating):
        return Fraction(repr(float(value)) if isinstance(value, float) else str(value))
    if isinstance(value, Integral) and not isinstance(value, bool):
        return Fraction(int(value))
    if isinstance(value, str):
        value = Decimal(value)
    if isinstance(value, Decimal) and value.is_finite() and abs(value.adjusted()) <= _LARGEST_EXPONENT:
        return Fraction(value)
    raise ValueError


def at_least_zero(value: Number, name: str) -> Fraction:
    """Read a parameter that may be 0, or refuse it by name and value."""
    exact = _read(value)
    if exact is None or exact < 0:
        raise DeclarationError(f"{name} must be at least 0 and finite, got {shown(value)}")
    return exact


def probability(delta: Number) -> float:
    """Read a delta from 1e-300 to below 1, or refuse it by value."""
    exact = _read(delta)
    if exact is None or not _SMALLEST_DELTA <= exact < 1:
        raise DeclarationError(f"delta must lie strictly between 0 and 1, and be at least 1e-300, got {shown(delta)}")
    return float(exact)


def _read(value: Number) -> Fraction | None:
    try:
        return exactly(value)
    except (ArithmeticError, ValueError):
        return None


def rounded_down(value: Fraction, digits: int = 12) -> Fraction:
    """Round a number other than 0 down to a number of significant decimal digits.

    Example:
        >>> rounded_down(Fraction(2, 3), 3)
        Fraction(333, 500)
    """
    size = math.floor(math.log10(abs(value.numerator)) - math.log10(value.denominator))
    scale = Fraction(10) ** (digits - 1 - size)
    return math.floor(value * scale) / scale


def root(function: Callable[[float], float], low: float, high: float) -> float:
    """Find a zero, to rounding, of a monotone function with opposite signs, or a zero, at `low` and `high`.

    Example:
        >>> round(root(lambda x: x * x - 2.0, 0.0, 2.0), 12)
        1.414213562373
    """
    from scipy.optimize import brentq

    return float(brentq(function, low, high, xtol=1e-300, rtol=1e-15, maxiter=2000))
