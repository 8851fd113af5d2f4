"""Characters as code points, and strings as rows of them."""

from __future__ import annotations

import string
from collections import Counter
from functools import lru_cache
from itertools import pairwise

import numpy as np
import polars as pl

from sparsehist.errors import DomainError
from sparsehist.text_form import show
from sparsehist.typing import ByteArray, IntArray, NDArray

NO_CHARACTER = -1
"""Marks the entries of a matrix of code points that hold no character."""

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

_FIRST_OF_WIDTH = (0x80, 0x800, 0x10000)
"""First code points that take 2, 3 and 4 bytes in UTF-8."""

_SURROGATES = (0xD800, 0xE000)
_LAST = 0x10FFFF


def read_alphabet(text: str) -> str:
    """Check an alphabet, given by name or as its characters, and sort it."""
    if not isinstance(text, str) or not text:
        raise DomainError(f"an alphabet is text with at least one character, or a name, got {show(text)}")
    if text in NAMED:
        return "".join(sorted(NAMED[text]))
    characters = sorted(text)
    for one, next_one in pairwise(characters):
        if one == next_one:
            names = ", ".join(NAMED)
            raise DomainError(
                f"alphabet {show(text)} has {one!r} twice; list each character once, or name one of {names}"
            )
    for one in characters:
        if _SURROGATES[0] <= ord(one) < _SURROGATES[1]:
            raise DomainError(f"alphabet has {one!r}, a lone surrogate, which no valid text holds")
    return "".join(characters)


@lru_cache(maxsize=16)
def code_points(alphabet: str | None) -> NDArray[np.int32]:
    """List the code points of an alphabet in ascending order; None stands for all Unicode scalar values."""
    if alphabet is None:
        low, high = np.arange(_SURROGATES[0]), np.arange(_SURROGATES[1], _LAST + 1)
        points = np.concatenate([low, high]).astype(np.int32)
    else:
        points = np.frombuffer(alphabet.encode("utf-32-le"), dtype="<i4").astype(np.int32)
    points.flags.writeable = False
    return points


def only_of(alphabet: str) -> str:
    r"""A regular expression for text of these characters alone, as Polars and Spark read it.

    Example:
        >>> print(only_of(read_alphabet("digits")))
        \A[\x{30}-\x{39}]*\z
    """
    points = code_points(alphabet)
    runs = np.split(points, np.flatnonzero(np.diff(points) > 1) + 1)
    ranges = "".join(rf"\x{{{run[0]:x}}}-\x{{{run[-1]:x}}}" for run in runs)
    return rf"\A[{ranges}]*\z"


def characters_by_width(alphabet: str | None) -> tuple[int, ...]:
    """Count the characters of an alphabet that take 0 (none), 1, 2, 3 and 4 bytes in UTF-8."""
    if alphabet is None:
        counts = [end - first for first, end in pairwise((0, *_FIRST_OF_WIDTH, _LAST + 1))]
        counts[2] -= _SURROGATES[1] - _SURROGATES[0]
        return (0, *counts)
    found = Counter(len(character.encode()) for character in alphabet)
    return tuple(found[width] for width in range(len(_FIRST_OF_WIDTH) + 2))


def widths(points: NDArray[np.int32]) -> IntArray:
    """Count the UTF-8 bytes of each code point; same shape."""
    return np.searchsorted(_FIRST_OF_WIDTH, points, side="right") + 1


def text_of(matrix: NDArray[np.int32]) -> pl.Series:
    """Write each row of code points as a string, leaving out NO_CHARACTER; shape (n, m) to (n,)."""
    present = matrix != NO_CHARACTER
    flat = matrix[present]
    ends = np.concatenate([[0], np.cumsum(present.sum(axis=1))])
    data, starts = _encode(flat)
    return _string_series(data, starts[ends])


def points_of(strings: pl.Series) -> tuple[NDArray[np.integer], IntArray]:
    """Read strings as code points, one after the other, and the bounds of the strings in them, shape (n + 1,)."""
    data, bounds = _buffers(strings)
    if data.size == 0 or int(data.max()) < 0x80:
        return data, bounds
    counted = np.concatenate([[0], np.cumsum((data & 0xC0) != 0x80)])
    return np.frombuffer(data.tobytes().decode().encode("utf-32-le"), dtype="<i4"), counted[bounds]


def _encode(points: NDArray[np.int32]) -> tuple[ByteArray, IntArray]:
    """UTF-8 bytes of code points, and where each begins (and the last ends)."""
    text = points.astype("<i4", copy=False).tobytes().decode("utf-32-le")
    starts = np.concatenate([[0], np.cumsum(widths(points))])
    return np.frombuffer(text.encode(), dtype=np.uint8), starts


def _string_series(data: ByteArray, bounds: IntArray) -> pl.Series:
    import pyarrow as pa

    offsets = np.ascontiguousarray(bounds, dtype=np.int64)
    array = pa.LargeStringArray.from_buffers(offsets.size - 1, pa.py_buffer(offsets), pa.py_buffer(data))
    return pl.Series("key_0", array, dtype=pl.String)


def _buffers(strings: pl.Series) -> tuple[ByteArray, IntArray]:
    """The bytes of all strings, and their bounds in them."""
    array = strings.cast(pl.String).rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
    _, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int64)[array.offset : array.offset + len(array) + 1]
    whole = np.frombuffer(data, dtype=np.uint8) if data is not None else np.empty(0, dtype=np.uint8)
    return whole[bounds[0] : bounds[-1]], bounds - bounds[0]
