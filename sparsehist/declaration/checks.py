"""Checks of single arguments: names, texts for the ledger, numbers, choices, output files."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TypeVar

from sparsehist.errors import DeclarationError, NotFoundError, StoreError, shown

LONGEST_REASON = 1000
_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
_Value = TypeVar("_Value")


def checked_name(what: str, name: str) -> str:
    """Return the name of a series, release or population, if it is valid."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise DeclarationError(
            f"the name of a {what} is a lower-case letter, then up to 62 of a-z, 0-9 and _; got {shown(name)}",
            parameter="name",
        )
    return name


def checked_text(what: str, text: str | None, *, needed: bool = False) -> str | None:
    """Check that a name or reason is short and printable, because the ledger keeps it forever."""
    if text is None and not needed:
        return None
    fits = isinstance(text, str) and 0 < len(text.strip()) <= LONGEST_REASON and text.isprintable()
    if not fits:
        raise DeclarationError(
            f"{what} stays in the ledger for good: one line of text, up to {LONGEST_REASON} characters, got "
            f"{shown(text)}",
            parameter=what,
        )
    return text


def checked_whole(what: str, number: int, least: int, most: int, *, of: str = "") -> int:
    """Return a whole number within bounds; `of` says what it counts."""
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
        raise DeclarationError(
            f"{what} must be a whole number{of} from {least} to {most}, got {shown(number)}", parameter=what
        )
    return number


def checked_flag(what: str, value: object, *, parameter: str | None = None) -> bool:
    """Return True or False."""
    if not isinstance(value, bool):
        raise DeclarationError(f"{what} must be True or False, got {shown(value)}", parameter=parameter or what)
    return value


def checked_wait(wait: float) -> float:
    """Return a number of seconds to wait."""
    if isinstance(wait, bool) or not isinstance(wait, int | float) or not wait >= 0:  # refuses NaN too
        raise DeclarationError(f"wait must be a number of seconds, 0 or more, got {shown(wait)}", parameter="wait")
    return wait


def checked_choice(what: str, value: _Value, allowed: tuple[_Value, ...]) -> _Value:
    """Return the value if it is allowed."""
    if not isinstance(value, type(allowed[0])) or value not in allowed:
        options = ", ".join(map(repr, allowed))
        raise DeclarationError(f"{what} must be one of {options}, got {shown(value)}", parameter=what)
    return value


def checked_output(what: str, target: Path, endings: tuple[str, ...]) -> Path:
    """Return the path of an output file, if it can be written; called before any work is done."""
    directory = target.absolute().parent
    if target.suffix not in endings:
        raise DeclarationError(f"{what}: the file must end in {' or '.join(endings)}, got {str(target)!r}")
    if target.is_dir():
        raise DeclarationError(f"{what}: {str(target)!r} is a directory; name a file in it")
    if not directory.is_dir():
        raise NotFoundError(f"there is no directory {str(directory)!r} to write {target.name!r} to")
    if not os.access(directory, os.W_OK):
        raise StoreError(f"cannot write {target}: its directory is not writable")
    return target


def checked_confidence(confidence: float, what: str = "confidence") -> float:
    """Return a number strictly between 0 and 1."""
    number = isinstance(confidence, int | float) and not isinstance(confidence, bool)
    if not (number and 0 < confidence < 1):
        raise DeclarationError(f"{what} must lie strictly between 0 and 1, got {shown(confidence)}")
    return float(confidence)
