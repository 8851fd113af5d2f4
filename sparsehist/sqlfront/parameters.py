"""Values for $name: read from the words of a command line, chosen for a query, and bound by DuckDB."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from sparsehist.errors import DeclarationError, shown

NO_VALUE = "the parameter ${0} has no value: give it with --param {0}=… or parameters={{…}}"
_WORDS = {"true": True, "false": False, "null": None}


def parameters_from(words: Iterable[str]) -> dict[str, Any]:
    """Read name=value words, each name once.

    A value that is written like a SQL number, true, false, null or text in single quotes is that; everything else is
    text as it stands: 007 and 2014-05-01 are text.

    Example:
        >>> parameters_from(["n=5", "level=0.10", "day=2014-05-01", "code='5'"])
        {'n': 5, 'level': Decimal('0.10'), 'day': '2014-05-01', 'code': '5'}
    """
    found: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise DeclarationError(f"a parameter is a name, = and its value, as in --param n=20; got {shown(word)}")
        if name.lower() in found:
            raise DeclarationError(f"the parameter {name} is given twice")
        found[name.lower()] = _value(value)
    return found


def _value(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if re.fullmatch(r"-?(0|[1-9]\d*|(0|[1-9]\d*)?\.\d+)", text):
        return Decimal(text) if "." in text else int(text)
    quoted = re.fullmatch(r"'((?:[^']|'')*)'", text)
    return text if quoted is None else quoted[1].replace("''", "'")


def asked_for(query: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that a query names; DuckDB refuses others."""
    named = {name.lower() for name in re.findall(r"\$(\w+)", query)}
    return {name: value for name, value in parameters.items() if name.lower() in named}


def bindable(value: Any) -> Any:
    """Return a value as DuckDB binds it; a fraction is a number there."""
    return float(value) if isinstance(value, Fraction) else value
