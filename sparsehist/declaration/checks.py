"""Checks of single arguments, such as names, reasons for the ledger, numbers, choices and output files."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TypeVar

from sparsehist.errors import DeclarationError, NotFoundError, StoreError, shown

LONGEST_REASON = 1000
_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
_Value = TypeVar("_Value")


def checked(holds: object, rule: str, value: _Value, parameter: str | None = None) -> _Value:
    """Return the value if `holds` is true; otherwise raise an error that states the rule and the value."""
    if holds:
        return value
    raise DeclarationError(f"{rule}, got {shown(value)}", parameter=parameter)


def checked_name(what: str, name: str) -> str:
    """Return the name of a series, release or population; raise an error if it is not valid."""
    rule = f"the name of a {what} must be a lower-case letter, then up to 62 of a-z, 0-9 and _"
    return checked(isinstance(name, str) and _NAME.fullmatch(name), rule, name, "name")


def checked_text(what: str, text: str | None, *, needed: bool = False) -> str | None:
    """Return a text for the ledger, which keeps it forever. Raise an error if it is too long or not printable."""
    valid = isinstance(text, str) and 0 < len(text.strip()) <= LONGEST_REASON and text.isprintable()
    rule = f"{what} stays in the ledger permanently: it must be one line of up to {LONGEST_REASON} characters"
    return checked(valid or (text is None and not needed), rule, text, what)


def checked_whole(what: str, number: int, least: int, most: int) -> int:
    """Return a whole number; raise an error if it is below `least` or above `most`."""
    valid = isinstance(number, int) and not isinstance(number, bool) and least <= number <= most
    return checked(valid, f"{what} must be a whole number from {least} to {most}", number, what)


def checked_wait(wait: float) -> float:
    """Return a number of seconds to wait; raise an error if it is negative or not a number."""
    valid = isinstance(wait, int | float) and not isinstance(wait, bool) and wait >= 0  # refuses NaN too
    return checked(valid, "wait must be a number of seconds, 0 or more", wait, "wait")


def checked_confidence(confidence: float, what: str = "confidence") -> float:
    """Return a confidence as a float; raise an error unless it is strictly between 0 and 1."""
    valid = isinstance(confidence, int | float) and 0 < confidence < 1
    return float(checked(valid, f"{what} must lie strictly between 0 and 1", confidence))


def checked_choice(what: str, value: _Value, allowed: tuple[_Value, ...]) -> _Value:
    """Return the value if it is allowed; otherwise raise an error that lists the allowed values."""
    valid = isinstance(value, type(allowed[0])) and value in allowed
    return checked(valid, f"{what} must be one of {', '.join(map(repr, allowed))}", value, what)


def checked_output(what: str, target: Path, endings: tuple[str, ...]) -> Path:
    """Return the path of an output file; raise an error, before any work is done, if it cannot be written."""
    directory = target.absolute().parent
    if target.suffix not in endings:
        raise DeclarationError(f"the output file must end in {' or '.join(endings)}: {what} {str(target)!r}")
    if target.is_dir():
        raise DeclarationError(f"the output must be a file, not a directory: {what} {str(target)!r}")
    if not directory.is_dir():
        raise NotFoundError(f"there is no directory {str(directory)!r} to write {target.name!r} to")
    if not os.access(directory, os.W_OK):
        raise StoreError(f"no permission to write to the directory of {target}")
    return target
