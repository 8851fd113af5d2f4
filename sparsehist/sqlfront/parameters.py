"""Values of $name: from words on a command line to values, and from values to what DuckDB binds."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

from sparsehist.errors import DeclarationError

_NAME = re.compile(r"[A-Za-z_]\w*")
_WHOLE, _DECIMAL = re.compile(r"-?(0|[1-9]\d*)"), re.compile(r"-?(0|[1-9]\d*)?\.\d+")


def parameters_from(words: Iterable[str]) -> dict[str, Any]:
    """Read name=value words.

    A value that is written like a SQL number, true, false, null or text in single quotes is that; everything else is
    text as it stands: 007 and 2014-05-01 are text.

    Raises:
        DeclarationError: If a word has no name, or a name comes twice.

    Example:
        >>> parameters_from(["n=5", "level=0.10", "day=2014-05-01", "code='5'"])
        {'n': 5, 'level': Decimal('0.10'), 'day': '2014-05-01', 'code': '5'}
    """
    found: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not _NAME.fullmatch(name):
            raise DeclarationError(f"a parameter is a name, = and its value, as in --param n=20; got {word!r}")
        if name.lower() in found:
            raise DeclarationError(f"the parameter {name} is given twice")
        found[name.lower()] = _value(value)
    return found


def _value(text: str) -> Any:
    if _WHOLE.fullmatch(text):
        return int(text)
    if _DECIMAL.fullmatch(text):
        return Decimal(text)
    if text.lower() in ("true", "false", "null"):
        return {"true": True, "false": False, "null": None}[text.lower()]
    if len(text) > 1 and text[0] == text[-1] == "'" and "'" not in text[1:-1].replace("''", ""):
        return text[1:-1].replace("''", "'")
    return text


def bindable(value: Any) -> Any:
    """A value as DuckDB binds it; a fraction is a number there."""
    return float(value) if isinstance(value, Fraction) else value
