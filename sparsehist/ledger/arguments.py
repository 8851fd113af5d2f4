"""What arguments have to be, checked in one place: names, words for the ledger, numbers, choices, files to write."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import TypeVar

from sparsehist.errors import DeclarationError, NotFoundError, StoreError

LONGEST_REASON = 1000
_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
_Value = TypeVar("_Value")


def checked_name(what: str, name: str) -> str:
    """Return the name of a series, release or population if it is one."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise DeclarationError(
            f"the name of a {what} is a lower-case letter, then up to 62 of a-z, 0-9 and _; got {name!r}"
        )
    return name


def checked_text(what: str, text: str | None, *, needed: bool = False) -> str | None:
    """Return a name or a reason that goes into the ledger for good, if it is fit for it."""
    if text is None and not needed:
        return None
    fits = isinstance(text, str) and 0 < len(text.strip()) <= LONGEST_REASON and text.isprintable()
    if not fits:
        raise DeclarationError(
            f"{what} stays in the ledger for good: one line of text, up to {LONGEST_REASON} characters, got {text!r}"
        )
    return text


def checked_number(what: str, value: float) -> float:
    """Return a finite number."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(value, bool | str | bytes) or not math.isfinite(number):
        raise DeclarationError(f"{what} must be a finite number, got {value!r}")
    return number


def checked_whole(what: str, number: int, least: int, most: int, *, of: str = "") -> int:
    """Return a whole number within bounds; `of` says what it counts."""
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
        raise DeclarationError(f"{what} must be a whole number{of} from {least} to {most}, got {number!r}")
    return number


def checked_wait(wait: float) -> float:
    """Return a number of seconds to wait."""
    if not (isinstance(wait, int | float) and wait >= 0):  # not a number is not above 0 either
        raise DeclarationError(f"wait must be a number of seconds, 0 or more, got {wait!r}")
    return wait


def checked_choice(what: str, value: _Value, allowed: tuple[_Value, ...]) -> _Value:
    """Return one of the values allowed."""
    if value not in allowed or not isinstance(value, type(allowed[0])):
        raise DeclarationError(f"{what} must be one of {', '.join(map(repr, allowed))}, got {value!r}")
    return value


def checked_output(what: str, target: Path, endings: tuple[str, ...]) -> Path:
    """Return a file that can be written; asked before anything is done for it."""
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
