"""Privacy levels as exact rationals.

For every family a larger level is finer (less private). Levels are stored and compared exactly, so that the
same level asked for twice is the same noise, however it was written.
"""

from __future__ import annotations

import math
import numbers
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from sparsehist.errors import LevelError, shown

Level = int | float | str | Fraction | Decimal
"""What a caller may write for a level."""

# A float must hold every level with room for the arithmetic on it (squares, ratios).
_LARGEST = 10**60
_SMALLEST = Fraction(1, _LARGEST)
_LONGEST_TEXT, _LARGEST_EXPONENT = 400, 100


def as_level(value: Level, name: str = "level") -> Fraction:
    """Read a level exactly.

    Args:
        value: An integer, a fraction or decimal, their text ("1/3", "0.1", "1e-3"), or a float, which
            is read as its shortest decimal (0.1 is 1/10).
        name: What errors call it.

    Returns:
        The level, positive and finite.

    Raises:
        LevelError: If it is no such number; the message carries the value.

    Example:
        >>> as_level(0.1) == as_level("1/10")
        True
    """
    if type(value) is str:
        return _from_text(value, name)
    if type(value) is Fraction:  # a round reads those of all before it
        above, below = value.as_integer_ratio()
        if 0 < above <= _LARGEST and below <= _LARGEST:
            return value
    return _checked(value, name)


@lru_cache(maxsize=4096)
def _from_text(text: str, name: str) -> Fraction:
    """Every round reads the levels of all before it; a level is read once."""
    return _checked(text, name)


def _checked(value: Level, name: str) -> Fraction:
    try:
        level = _exact(value)
    except OverflowError:
        raise LevelError(_beyond(value, name)) from None
    except (ValueError, ZeroDivisionError, TypeError):
        raise LevelError(_message(value, name)) from None
    if not _SMALLEST <= level <= _LARGEST:
        raise LevelError(_beyond(value, name) if level > 0 else _message(value, name))
    return level


def _exact(value: Level) -> Fraction:
    if isinstance(value, bool):
        raise TypeError
    if isinstance(value, str):
        text = value.strip()
        # A fraction writes a power of ten out: '1e99999999' would take minutes and gigabytes to refuse.
        _, _, exponent = text.lower().partition("e")
        if len(text) > _LONGEST_TEXT or (exponent and abs(int(exponent)) > _LARGEST_EXPONENT):
            raise OverflowError
        return Fraction(text)
    if isinstance(value, Decimal) and value.is_finite() and abs(value.adjusted()) > _LARGEST_EXPONENT:
        raise OverflowError
    if isinstance(value, Fraction | int | Decimal):
        return Fraction(value)
    if isinstance(value, numbers.Integral):
        return Fraction(int(value))
    if isinstance(value, numbers.Real):
        return Fraction(repr(float(value)) if float(value) == value else str(value))
    raise TypeError


def _message(value: object, name: str) -> str:
    is_text = isinstance(value, str) and value.strip().lower().startswith("epsilon_delta")
    if is_text or hasattr(value, "largest_rho"):  # an EpsilonDelta, which stands above this module
        if name == "cap":
            return (
                f"a cap is a level, one number, got {value}: give a rho (with Laplace noise an epsilon), or limit "
                "all that its population loses to the pair by set_budget(epsilon=…, delta=…)"
            )
        return (
            f"a level is one number here, got {value}; with Gaussian noise the finest level that keeps to it is "
            "its largest_mu() ** 2 / 2. Series, unlike vectors, take the pair itself"
        )
    return f"{name} must be a positive, finite number (such as 0.1, '1/3' or 2), got {shown(value)}"


def _beyond(value: object, name: str) -> str:
    # Python refuses to write very long integers out.
    told = "a larger one" if isinstance(value, int) and value > _LARGEST else repr(value)
    return f"{name} must lie from 1e-60 to 1e60, got {told}"


def compared(one: Fraction, other: Fraction) -> int:
    """Negative, 0 or positive as the first is coarser, the same or finer; by integers, as rounds compare many."""
    return one.numerator * other.denominator - other.numerator * one.denominator


def quotient(one: Fraction, other: Fraction) -> float:
    """one / other as the nearest double, at the cost of integers."""
    return one.numerator * other.denominator / (one.denominator * other.numerator)


def level_or_zero(value: Level, name: str = "level") -> Fraction:
    """Read a level, or 0 however it is written.

    Example:
        >>> level_or_zero("0.0"), level_or_zero("1/2")
        (Fraction(0, 1), Fraction(1, 2))
    """
    try:
        is_zero = not isinstance(value, bool) and Decimal(str(value)) == 0
    except (ArithmeticError, ValueError):  # a fraction, or no number
        is_zero = False
    return Fraction(0) if is_zero else as_level(value, name)


def in_prose(level: Fraction) -> Fraction:
    """A level as prose names it: rounded up to four significant digits, so that what it promises still holds.

    Example:
        >>> level_text(in_prose(Fraction("0.0280144819126"))), level_text(in_prose(Fraction(2)))
        ('0.02802', '2')
    """
    unit = Fraction(10) ** (Decimal(f"{float(level):.12e}").adjusted() - 3)
    return -(-level // unit) * unit


def level_text(level: Fraction) -> str:
    """Write a level exactly: as a decimal of at most 20 places if it is one, else as the shortest other text.

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


def level_float(level: Fraction) -> float:
    """The level as the nearest double, for arithmetic on noise."""
    value = level.numerator / level.denominator
    if not (value > 0 and math.isfinite(value)):
        raise LevelError(f"level {level_text(level)} is beyond what a double holds")
    return value
