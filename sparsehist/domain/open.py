"""Open domains, for keys that nobody can list in advance."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Context, Decimal, Inexact, localcontext
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sparsehist.domain.base import Domain
from sparsehist.errors import DomainError, shown
from sparsehist.privacy.levels import exactly
from sparsehist.text_form import write_literal
from sparsehist.typing import BoolArray

if TYPE_CHECKING:
    import polars as pl

_TYPES = {"string": "String", "integer": "Int64", "date": "Date"}
_SMALLEST, _LONGEST_TEXT = Fraction(1, 10**300), 800
_EXACT = Context(prec=4000, traps=[Inexact])
_ADVICE = "for example open(delta='1e-6') or open('string', 'date', delta='1e-6')"


@dataclass(frozen=True, init=False, repr=False)
class Open(Domain, example="open(delta='1e-6')"):
    """All possible keys of the declared types, without a bound on their number.

    Only keys that some unit touched are published. If only one unit touched a published key, the key reveals that
    unit. `delta` bounds the probability that any release of the series publishes such a key: it is the δ∞ of the
    guarantee, and determines the thresholds. There are no false keys.

    Args:
        columns: Type of each key column: "string", "integer" (64 bits) or "date"; by default one column of strings.
        delta: From 1e-300 to below 1, read exactly; a float is read as its shortest decimal. Usually far below
            1 / (number of units).

    Raises:
        DomainError: If delta or a type is wrong.

    Example:
        >>> str(Open(delta=1e-6)), Open("string", "date", delta="1e-6").columns
        ("open(delta='1e-6')", 2)
    """

    arguments = (int, str, bool, float)
    is_open = True
    types: tuple[str, ...]
    delta: Fraction

    def __init__(self, *columns: str, delta: str | float | Fraction | Decimal) -> None:
        types = columns or ("string",)
        for given in types:
            if given not in _TYPES:
                raise DomainError(f"key types of open() must be among {tuple(_TYPES)}, not {shown(given)}; {_ADVICE}")
        self._fix(types=types, delta=_read_delta(delta))

    @property
    def size(self) -> int:
        raise DomainError(f"an open domain has no size, and its cells cannot be numbered or drawn: {self}")

    @property
    def columns(self) -> int:
        return len(self.types)

    @property
    def dtype_names(self) -> tuple[str, ...]:
        return tuple(_TYPES[given] for given in self.types)

    @property
    def parts(self) -> tuple[Domain, ...]:
        return tuple(Open(given, delta=self.delta) for given in self.types)

    @property
    def delta_text(self) -> str:
        """The exact value of delta as a string: a decimal such as 1e-6, or a fraction if no decimal is exact."""
        with localcontext(_EXACT):
            try:
                return f"{(Decimal(self.delta.numerator) / Decimal(self.delta.denominator)).normalize():e}"
            except Inexact:
                return str(self.delta)

    def contains(self, keys: pl.DataFrame) -> BoolArray:
        return np.ones(keys.height, dtype=np.bool_)

    def __str__(self) -> str:
        types = "" if self.types == ("string",) else "".join(f"{write_literal(given)}, " for given in self.types)
        return f"open({types}delta={write_literal(self.delta_text)})"


def _read_delta(given: str | float | Fraction | Decimal) -> Fraction:
    try:
        delta = exactly(given) if len(str(given)) <= _LONGEST_TEXT else Fraction(0)
    except (ArithmeticError, TypeError, ValueError):
        delta = Fraction(0)
    if not _SMALLEST <= delta < 1:
        raise DomainError(f"delta of open() must be at least 1e-300 and below 1, got {shown(given)}; {_ADVICE}")
    return delta
