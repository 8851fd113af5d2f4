"""Read the values of SQL parameters from the arguments of a command line."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from sparsehist.errors import DeclarationError, shown

_WORDS = {"true": True, "false": False, "null": None}


def parameters_from(words: Iterable[str]) -> dict[str, Any]:
    """Parse arguments of the form name=value, and return them as a dict of parameters.

    Numbers, true, false, null and text in single quotes are read as in SQL. Everything else is text, including 007
    and 2014-05-01.

    Example:
        >>> parameters_from(["n=5", "level=0.10", "day=2014-05-01", "code='5'"])
        {'n': 5, 'level': Decimal('0.10'), 'day': '2014-05-01', 'code': '5'}
    """
    values = {}
    for word in words:
        name, _, text = word.partition("=")
        if not re.fullmatch(r"[A-Za-z_]\w*", name) or "=" not in word:
            raise DeclarationError(f"a parameter has the form name=value, such as --param n=20; got {shown(word)}")
        values[name.lower()] = _value(text)
    return values


def _value(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if re.fullmatch(r"-?(0|[1-9]\d*|(0|[1-9]\d*)?\.\d+)", text):
        return Decimal(text) if "." in text else int(text)
    quoted = re.fullmatch(r"'((?:[^']|'')*)'", text)
    return text if quoted is None else quoted[1].replace("''", "'")
