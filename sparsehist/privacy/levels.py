"""Parse privacy levels and other numbers exactly.

In each noise family, a larger level is finer (less private). Levels are stored and compared as exact fractions, so
two notations of one level, such as 0.5 and "1/2", give the same noise.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from sparsehist.errors import DeclarationError, LevelError, shown

Level = int | float | str | Fraction | Decimal
"""A number as a caller may write it. A float is read as its shortest decimal: 0.1 is 1/10."""

# Levels are from 1e-60 to 1e60, so that doubles can hold them, their squares and their ratios.
_LARGEST = 10**60
_SMALLEST_DELTA = Fraction(1, 10**300)  # doubles cannot hold numbers much smaller than this
_LONGEST = 400  # limit on the length and the exponent of a string: '1e99999999' would take gigabytes to read


def exactly(value: Level) -> Fraction:
    """Read a finite number as an exact fraction. For other values, raise TypeError, ValueError or ArithmeticError."""
    if isinstance(value, bool):
        raise TypeError
    if isinstance(value, str):
        exponent = value.lower().partition("e")[2]
        if len(value) > _LONGEST or (exponent and abs(int(exponent)) > _LONGEST):
            raise OverflowError
    elif isinstance(value, Decimal):
        if value.is_finite() and abs(value.adjusted()) > _LONGEST:
            raise OverflowError
    elif isinstance(value, numbers.Integral):
        return Fraction(int(value))
    elif isinstance(value, numbers.Real) and not isinstance(value, Fraction):
        value = repr(float(value))
    return Fraction(value)


def as_level(value: Level, name: str = "level") -> Fraction:
    """Return a level as an exact fraction.

    Args:
        value: An integer, fraction, decimal or float, or a string such as "1/3", "0.1" or "1e-3".
        name: Name of the parameter in error messages.

    Returns:
        The level, positive and finite.

    Raises:
        LevelError: If `value` is not such a number; the message contains the value.

    Example:
        >>> as_level(0.1) == as_level("1/10")
        True
    """
    # Levels read from strings are cached, because each round reads the levels of all earlier rounds.
    if type(value) is Fraction and 0 < value.numerator <= _LARGEST and value.denominator <= _LARGEST:
        return value
    return _from_text(value, name) if type(value) is str else _checked(value, name)


def _checked(value: Level, name: str) -> Fraction:
    try:
        level: Fraction | None = exactly(value)
    except OverflowError:
        level = None
    except (TypeError, ValueError, ZeroDivisionError):
        level = Fraction(0)
    if level is None or (level > 0 and not Fraction(1, _LARGEST) <= level <= _LARGEST):
        raise LevelError(f"{name} must be from 1e-60 to 1e60, got {shown(value)}")
    if level <= 0:
        raise LevelError(_advice(value, name))
    return level


_from_text = lru_cache(maxsize=4096)(_checked)


def _advice(value: object, name: str) -> str:
    is_text = isinstance(value, str) and value.strip().lower().startswith("epsilon_delta")
    if is_text or hasattr(value, "largest_rho"):  # an EpsilonDelta; importing its class would be circular
        if name == "cap":
            return f"a cap is one number, got {value}: limit (epsilon, delta) by set_budget(epsilon=…, delta=…)"
        return (
            "a level is one number here, not a pair (epsilon, delta), which only series accept; with Gaussian noise, "
            f"the finest level that satisfies the pair is its largest_mu() ** 2 / 2; got {value}"
        )
    return f"{name} must be a positive, finite number (such as 0.1, '1/3' or 2), got {shown(value)}"


def level_or_zero(value: Level, name: str = "level") -> Fraction:
    """Convert a level or the number 0 to an exact fraction."""
    exact = _or_none(value)
    return exact if exact == 0 else as_level(value, name)


def at_least_zero(value: Level, name: str) -> Fraction:
    """Convert a number to an exact fraction. Raise DeclarationError if it is negative or not finite."""
    exact = _or_none(value)
    if exact is None or exact < 0:
        raise DeclarationError(f"{name} must be at least 0 and finite, got {shown(value)}")
    return exact


def probability(delta: Level) -> float:
    """Convert a delta to a double. Raise DeclarationError unless it is at least 1e-300 and below 1."""
    exact = _or_none(delta)
    if exact is None or not _SMALLEST_DELTA <= exact < 1:
        raise DeclarationError(f"delta must be at least 1e-300 and below 1, got {shown(delta)}")
    return float(exact)


def _or_none(value: Level) -> Fraction | None:
    try:
        return exactly(value)
    except (ArithmeticError, TypeError, ValueError):
        return None


def compared(one: Fraction, other: Fraction) -> int:
    """Return a negative integer if `one` is coarser than `other`, 0 if they are equal, else a positive integer."""
    return one.numerator * other.denominator - other.numerator * one.denominator


def quotient(one: Fraction, other: Fraction) -> float:
    """Return the quotient one / other, rounded to the nearest double."""
    return one.numerator * other.denominator / (one.denominator * other.numerator)


def level_float(level: Fraction) -> float:
    """Return the level, rounded to the nearest double."""
    return level.numerator / level.denominator


def level_text(level: Fraction) -> str:
    """Return a level as an exact string: a decimal of up to 20 places, or else a fraction or scientific notation.

    Example:
        >>> level_text(Fraction(1, 10)), level_text(Fraction(1, 3)), level_text(Fraction("1e-30"))
        ('0.1', '1/3', '1e-30')
    """
    denominator, twos, fives = level.denominator, 0, 0
    while denominator % 2 == 0:
        denominator, twos = denominator // 2, twos + 1
    while denominator % 5 == 0:
        denominator, fives = denominator // 5, fives + 1
    places = max(twos, fives)
    if denominator != 1:
        return str(level)
    if places > 20:
        return min(str(level), f"{level.numerator * 10**places // level.denominator}e-{places}", key=len)
    digits = str(level.numerator * 10**places // level.denominator).rjust(places + 1, "0")
    return digits if places == 0 else f"{digits[:-places]}.{digits[-places:]}"


def rounded_down(value: Fraction, digits: int = 12) -> Fraction:
    """Round a nonzero number down to `digits` significant decimal digits."""
    size = math.floor(math.log10(abs(value.numerator)) - math.log10(value.denominator))
    scale = Fraction(10) ** (digits - 1 - size)
    return math.floor(value * scale) / scale


def in_prose(level: Fraction) -> Fraction:
    """Round a level upwards, to four significant digits, so that a guarantee stated with the result remains true."""
    return -rounded_down(-level, 4)


def root(function: Callable[[float], float], low: float, high: float) -> float:
    """Return a zero of a monotone function whose values at `low` and `high` are 0 or have opposite signs.

    Source: Ridders 1979, "A new algorithm for computing a single root of a real continuous function".
    """
    at_low, at_high, last = function(low), function(high), math.inf
    if at_low == 0 or at_high == 0:
        return low if at_low == 0 else high
    while True:
        middle = low + (high - low) / 2
        at_middle = function(middle)
        if at_middle == 0 or middle in (low, high):
            return middle
        step = 0.0
        if math.isfinite(at_middle):
            step = (middle - low) / math.sqrt(1.0 - at_low / at_middle * (at_high / at_middle))
        found = middle + (step if (at_low > 0) == (at_middle > 0) else -step)
        at_found = function(found)
        if at_found == 0 or abs(found - last) <= 1e-15 * abs(found):
            return found
        last = found
        for place, value in sorted([(middle, at_middle), (found, at_found)]):
            if (value > 0) == (at_low > 0):
                low, at_low = place, value
            else:
                high, at_high = place, value
                break
