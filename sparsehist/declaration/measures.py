"""Measures: sums of a column for each key, which are published in addition to counts of units."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from typing import Any

from sparsehist.errors import DeclarationError, shown
from sparsehist.noise.family import Family
from sparsehist.privacy.levels import exactly, level_text

EVENTS = "events"
"""Name of the measure that counts rows."""

MEAN_COLUMN = "_mean"
"""Suffix of the columns of means."""

_LONGEST = 2**30
"""Largest number of steps that a unit adds to a key, so that sums and noise fit in doubles. It also bounds numerator
and denominator of a step, so that their products with a number of steps fit in 64 bits."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TEXT = re.compile(r"([^:=,]+):clip=([^,]+?)(?:\.\.([^,]+))?(?:,step=([^,]+))?")
_SPACES = re.compile(r"\s*([:=,]|\.\.)\s*")
_ADVICE = "write sh.Measure('price', clip=100, step=0.01), or the string price:clip=100,step=0.01"


def _refusal(words: str) -> DeclarationError:
    return DeclarationError(f"{words}; {_ADVICE}", parameter="measures")


def _number(value: Any) -> Fraction:
    with suppress(ArithmeticError, TypeError, ValueError):
        if not isinstance(value, bool):
            return exactly(value)
    raise _refusal(f"clip and step must be numbers, got {shown(value)}")


@dataclass(frozen=True)
class Measure:
    """A sum of a column for each key, in which the contribution of each unit is clipped to bounds.

    The value of each row is rounded towards zero to a multiple of `step`. Then the sum over the rows of each unit and
    key is clipped. The attribute `clip` holds the exact bounds (low, high).

    Args:
        column: Name of a column of whole numbers, decimals or floats; None for `Measure.events`.
        clip: Bounds of the sum of one unit at one key: a number B for [0, B], which refuses negative values, or (-B,
            B) for both signs. A multiple of the step; a public number, never derived from the log.
        step: Unit of the sums: values are rounded to multiples of the step; B is at most 2**30 steps.

    Raises:
        DeclarationError: If an argument is wrong.

    Example:
        >>> price = Measure("price", clip=100, step=0.01)
        >>> str(price), price.most_steps
        ('price:clip=100,step=0.01', 10000)
        >>> str(Measure.events(most=50))
        'events:clip=50,step=1'
    """

    column: str | None
    _: KW_ONLY
    clip: Any
    step: Any = 1

    def __post_init__(self) -> None:
        column = self.column
        if column is not None and (not isinstance(column, str) or not _NAME.fullmatch(column)):
            raise _refusal(f"the column of a measure must have a name of letters, digits and _, got {shown(column)}")
        bounds = self.clip if isinstance(self.clip, tuple) and len(self.clip) == 2 else (0, self.clip)
        step, low, high = map(_number, (self.step, *bounds))
        steps = high / step if step > 0 else Fraction(0)
        rules = (
            (column != EVENTS, "rename the column events: sh.Measure.events(most=50) is the number of rows"),
            (steps > 0 and low in (0, -high), "clip is B or (-B, B) with B above 0, and step is above 0"),
            (steps.denominator == 1 and steps <= _LONGEST, "clip must be a multiple of step, at most 2**30 of them"),
            (max(step.numerator, step.denominator) <= _LONGEST,
             "step must be a fraction of numbers below 2**30, such as 0.01 or 1000"),
            (column or (step == 1 and low == 0), "events have a whole number as clip, and no step"),
        )  # fmt: skip
        for holds, rule in rules:
            if not holds:
                got = f"clip={shown(bounds[0])} to {shown(bounds[1])}, step={shown(self.step)}"
                raise _refusal(f"{rule}; got {got}")
        object.__setattr__(self, "clip", (low, high))
        object.__setattr__(self, "step", step)

    @classmethod
    def events(cls, *, most: int) -> Measure:
        """Return the measure that counts rows, at most `most` of them for each pair of a unit and a key."""
        return cls(None, clip=most)

    @property
    def name(self) -> str:
        """Name of the column, or "events". Names of published columns begin with this name."""
        return self.column or EVENTS

    @property
    def most_steps(self) -> int:
        """Largest contribution of a unit to the sum of a key, in multiples of `step`."""
        return int(self.clip[1] / self.step)

    @property
    def least_steps(self) -> int:
        """Smallest contribution of a unit to the sum of a key, in multiples of `step`."""
        return int(self.clip[0] / self.step)

    @property
    def sum_column(self) -> str:
        """Name of the published column of sums."""
        return f"{self.name}_sum"

    @property
    def steps_column(self) -> str:
        """Name of this measure's column in the frame of a `Counts`, where sums are in multiples of `step`."""
        return f"{self.name}_steps"

    @property
    def signed(self) -> bool:
        """Whether values may be negative."""
        return bool(self.clip[0] < 0)

    def noise(self, family: Family) -> Family:
        """Return the noise family of a sum, in multiples of `step`, given the noise family of a count."""
        return replace(family, sensitivity=family.sensitivity * self.most_steps)  # type: ignore[type-var, attr-defined]

    def __str__(self) -> str:
        high = level_text(self.clip[1])
        return f"{self.name}:clip={f'-{high}..{high}' if self.signed else high},step={level_text(self.step)}"

    @classmethod
    def parse(cls, text: str) -> Measure:
        """Read a measure from a string in the form that `str` returns."""
        match = _TEXT.fullmatch(_SPACES.sub(r"\1", text.strip())) if isinstance(text, str) else None
        if match is None:
            raise _refusal("cannot read a measure")
        name, low, high, step = match.groups()
        clip = low if high is None else (low, high)
        return cls(None if name == EVENTS else name, clip=clip, step=1 if step is None else step)


def measures_of(measures: object) -> tuple[Measure, ...]:
    """Return a tuple of measures. Read those that are given as strings. Refuse two measures with the same name."""
    listed: list[Any] = list(measures) if isinstance(measures, list | tuple) else [measures] if measures else []
    read = tuple(each if isinstance(each, Measure) else Measure.parse(each) for each in listed)
    if len({measure.name for measure in read}) != len(read):
        raise DeclarationError("two measures sum the same column, or both are events: omit one", parameter="measures")
    return read
