"""Alphabets: named or listed characters, and how many of them take 1 to 4 bytes in UTF-8."""

from __future__ import annotations

import string
from collections import Counter

import numpy as np

from sparsehist.errors import DomainError, shown

NAMED = {
    "ascii": "".join(map(chr, range(128))),
    "printable_ascii": "".join(map(chr, range(32, 127))),
    "lowercase": string.ascii_lowercase,
    "uppercase": string.ascii_uppercase,
    "letters": string.ascii_letters,
    "digits": string.digits,
    "alphanumeric": string.ascii_letters + string.digits,
}
"""Alphabets by name. Each name repeats a letter, so none of them is an alphabet by itself."""

_UNICODE_BY_WIDTH = (0, 0x80, 0x800 - 0x80, 0x10000 - 0x800 - 0x800, 0x110000 - 0x10000)
"""Unicode scalar values that take 0 (none), 1, 2, 3 and 4 bytes; the surrogates are none of them."""


def read_alphabet(text: str) -> str:
    """Check an alphabet, given by name or as its characters, and sort it."""
    if not isinstance(text, str) or not text:
        raise DomainError(f"an alphabet is text with at least one character, or a name, got {shown(text)}")
    if text in NAMED:
        return "".join(sorted(NAMED[text]))
    for character, number in Counter(text).items():
        if number > 1:
            names = ", ".join(NAMED)
            raise DomainError(f"alphabet has {character!r} twice; list each character once, or name one of {names}")
        if "\ud800" <= character <= "\udfff":
            raise DomainError(f"alphabet has {character!r}, a lone surrogate, which no valid text holds")
    return "".join(sorted(text))


def only_of(alphabet: str) -> str:
    r"""A regular expression for text of these characters alone, as Polars and Spark read it.

    Example:
        >>> print(only_of(read_alphabet("digits")))
        \A[\x{30}-\x{39}]*\z
    """
    points = np.array(list(map(ord, alphabet)))
    runs = np.split(points, np.flatnonzero(np.diff(points) > 1) + 1)
    ranges = "".join(rf"\x{{{run[0]:x}}}-\x{{{run[-1]:x}}}" for run in runs)
    return rf"\A[{ranges}]*\z"


def characters_by_width(alphabet: str | None) -> tuple[int, ...]:
    """Count the characters of an alphabet that take 0 (none), 1, 2, 3 and 4 bytes in UTF-8; None: of all Unicode."""
    if alphabet is None:
        return _UNICODE_BY_WIDTH
    found = Counter(len(character.encode()) for character in alphabet)
    return tuple(found[width] for width in range(5))
