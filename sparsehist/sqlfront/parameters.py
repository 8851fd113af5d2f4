"""Read values for $name from the words of a command line."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from sparsehist.errors import DeclarationError, shown

_WORDS = {"true": True, "false": False, "null": None}


def parameters_from(words: Iterable[str]) -> dict[str, Any]:
    """Read name=value words.

    A value written like a SQL number, true, false, null or text in single quotes is read as such; everything else is
    text, such as 007 and 2014-05-01.

    Example:
        >>> parameters_from(["n=5", "level=0.10", "day=2014-05-01", "code='5'"])
        {'n': 5, 'level': Decimal('0.10'), 'day': '2014-05-01', 'code': '5'}
    """
    pairs = {word: re.fullmatch(r"([A-Za-z_]\w*)=(.*)", word, re.DOTALL) for word in words}
    for word, pair in pairs.items():
        if pair is None:
            raise DeclarationError(f"a parameter is a name, = and its value, as in --param n=20; got {shown(word)}")
    return {pair[1].lower(): _value(pair[2]) for pair in pairs.values() if pair is not None}


def _value(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if re.fullmatch(r"-?(0|[1-9]\d*|(0|[1-9]\d*)?\.\d+)", text):
        return Decimal(text) if "." in text else int(text)
    quoted = re.fullmatch(r"'((?:[^']|'')*)'", text)
    return text if quoted is None else quoted[1].replace("''", "'")
