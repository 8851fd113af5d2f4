"""Open domains: keys that nobody can list beforehand."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Context, Decimal, Inexact, localcontext
from fractions import Fraction

import numpy as np
import polars as pl

from sparsehist.domain.base import Domain, holds_text
from sparsehist.domain.ranges import accepts_integers
from sparsehist.errors import DomainError, shown
from sparsehist.privacy.levels import exactly
from sparsehist.text_form import write_literal
from sparsehist.typing import BoolArray

_TYPES = ("string", "integer", "date")
_SMALLEST, _LONGEST_TEXT = Fraction(1, 10**300), 800
_EXACT = Context(prec=4000, traps=[Inexact])
_ADVICE = "for example open(delta='1e-6') or open('string', 'date', delta='1e-6')"


@dataclass(frozen=True, init=False, repr=False)
class Open(Domain, example="open(delta='1e-6')"):
    """Every key of the declared types that could ever occur: no bound, no list, no size.

    Only keys that somebody touched are published. So a key that only one unit has betrays that unit when it is
    published at all; `delta` bounds the probability of that, over all releases of the series together, and
    thresholds are chosen by it: the guarantee is delta-approximate. There are no false keys.

    Args:
        columns: Type of each key column: "string", "integer" (64 bits) or "date"; one of strings by default.
        delta: From 1e-300 to below 1, exact: its text, such as "1e-6", a fraction, or a float, which is read as its
            shortest decimal. Far below one over the number of units is usual.

    Raises:
        DomainError: If delta or a type is wrong.

    Example:
        >>> str(Open(delta=1e-6)), Open("string", "date", delta="1e-6").columns
        ("open(delta='1e-6')", 2)
    """

    arguments = (int, str, bool, float)

    types: tuple[str, ...]
    delta: Fraction

    def __init__(self, *columns: str, delta: str | float | Fraction | Decimal) -> None:
        types = columns or ("string",)
        for given in types:
            if given not in _TYPES:
                raise DomainError(f"open(): a key column is one of {_TYPES}, got {shown(given)}; {_ADVICE}")
        self._fix(types=types, delta=_read_delta(delta))

    @property
    def is_open(self) -> bool:
        return True

    @property
    def size(self) -> int:
        raise DomainError(f"{self} is open: it has no size, and its cells are neither numbered nor drawn")

    @property
    def columns(self) -> int:
        return len(self.types)

    @property
    def dtypes(self) -> tuple[pl.DataType, ...]:
        made = dict(zip(_TYPES, (pl.String(), pl.Int64(), pl.Date()), strict=True))
        return tuple(made[given] for given in self.types)

    @property
    def parts(self) -> tuple[Domain, ...]:
        return tuple(Open(given, delta=self.delta) for given in self.types)

    @property
    def delta_text(self) -> str:
        """The shortest exact text: a decimal with a power of ten where one exists, else a fraction."""
        with localcontext(_EXACT):
            try:
                return f"{(Decimal(self.delta.numerator) / Decimal(self.delta.denominator)).normalize():e}"
            except Inexact:
                return str(self.delta)

    def accepts(self, column: int, dtype: pl.DataType) -> bool:
        if not 0 <= column < self.columns:
            return False
        wanted = self.dtypes[column]
        if wanted == pl.String:
            return holds_text(dtype)
        return dtype == wanted or (wanted.is_integer() and accepts_integers(dtype, wanted))

    def contains(self, keys: pl.DataFrame) -> BoolArray:
        return np.ones(keys.height, dtype=np.bool_)

    def draw(self, n: int, *, rng: np.random.Generator) -> pl.DataFrame:  # noqa: ARG002 - refuses whatever is asked
        raise DomainError(f"{self} is open: no cell of it can be drawn")

    def __str__(self) -> str:
        types = "" if self.types == ("string",) else "".join(f"{write_literal(given)}, " for given in self.types)
        return f"open({types}delta={write_literal(self.delta_text)})"


def _read_delta(given: str | float | Fraction | Decimal) -> Fraction:
    try:
        delta = exactly(given) if len(str(given)) <= _LONGEST_TEXT else Fraction(0)
    except (ArithmeticError, TypeError, ValueError):
        delta = Fraction(0)
    if not _SMALLEST <= delta < 1:
        raise DomainError(f"open(): delta is a number from 1e-300 to below 1, got {shown(given)}; {_ADVICE}")
    return delta
