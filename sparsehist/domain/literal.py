"""How a domain's arguments are written, so that any Unicode text comes back as it was."""

from __future__ import annotations

import keyword
from collections.abc import Mapping, Sequence
from datetime import date

_SHOWN_DIGITS = 60
_SHOWN_LETTERS = 80


def write_call(name: str, values: Sequence[str], named: Mapping[str, str]) -> str:
    """Write ``name(values…, named…)`` from arguments that are text already."""
    plain = [f"{key}={value}" for key, value in named.items() if _is_plain_name(key)]
    quoted = [f"{write_literal(key)}: {value}" for key, value in named.items() if not _is_plain_name(key)]
    if quoted and plain:  # in one dictionary, since the order of columns matters
        quoted, plain = [f"{write_literal(key)}: {value}" for key, value in named.items()], []
    return f"{name}({', '.join([*values, *plain, *(['**{' + ', '.join(quoted) + '}'] if quoted else [])])})"


def write_literal(value: str | int | date) -> str:
    """Write one value: an integer, True, False, or text in single quotes."""
    if not isinstance(value, str):
        return f"'{value}'" if isinstance(value, date) else repr(value)
    # The leading double quote makes repr choose single quotes, always: the same value has one text.
    return "'" + repr('"' + value)[2:]


def show(value: object) -> str:
    """Show an argument in an error, in one short line whatever it is."""
    if isinstance(value, int) and abs(value) >= 10**_SHOWN_DIGITS:  # Python refuses to write very large ones
        return f"an integer of more than {_SHOWN_DIGITS} digits"
    text = repr(value)
    return text if len(text) <= _SHOWN_LETTERS else f"{text[: _SHOWN_LETTERS - 1]}…"


def _is_plain_name(name: str) -> bool:
    # Python normalises non-ASCII identifiers when it reads them: those would come back as another text
    return name.isascii() and name.isidentifier() and not keyword.iskeyword(name)
