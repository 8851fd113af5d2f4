"""The digest of what a release says: SHA-256 of names, types, rows and metadata, not of the bytes of a file.

So a release may be compressed anew or rewritten by another program. Metadata are values, each a tag of one byte and
its content; numbers are little-endian, lengths and numbers of items are u64: null "n", true "t", false "f",
integer "i" + decimal text, real "d" + IEEE 754 double, text "s" + UTF-8, list "l" + number of items + items,
map "m" + number of keys + keys and values, by rising UTF-8 bytes of the keys. A table is its number of columns and,
for each, its name, type, number of rows, a byte 1 or 0 for each row (0: null), and the values with 0 or "" for nulls.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import polars as pl

from sparsehist.errors import InputError, raise_alone

FORMAT = 1
_WIDTHS = {
    "Boolean": "u1",
    "Date": "<i4",  # days since 1970
    "Float32": "<f4",
    "Float64": "<f8",
    **{f"Int{bits}": f"<i{bits // 8}" for bits in (8, 16, 32, 64)},
    **{f"UInt{bits}": f"<u{bits // 8}" for bits in (8, 16, 32, 64)},
}
"""How numbers of each type are laid out; they are signed under its name in lower case."""


def encoded(value: object) -> bytes:
    """A value that JSON has, in the canonical encoding.

    Example:
        >>> encoded(["a"]).hex()
        '6c010000000000000073010000000000000061'
    """
    if value is None:
        return b"n"
    if isinstance(value, bool):
        return b"t" if value else b"f"
    if isinstance(value, int):
        return b"i" + _sized(str(value).encode())
    if isinstance(value, float):
        return b"d" + struct.pack("<d", value)
    if isinstance(value, str):
        return b"s" + _sized(value.encode())
    if isinstance(value, Mapping):
        items = sorted(((str(key).encode(), item) for key, item in value.items()), key=itemgetter(0))
        return b"m" + _u64(len(items)) + b"".join(b"s" + _sized(key) + encoded(item) for key, item in items)
    if isinstance(value, Sequence):
        return b"l" + _u64(len(value)) + b"".join(map(encoded, value))
    raise TypeError(type(value).__name__)


def content_digest(frame: pl.DataFrame, metadata: Mapping[str, Any]) -> str:
    """SHA-256, in hex, of the canonical encoding of a release."""
    try:
        digest = hashlib.sha256(encoded(["sparsehist release", FORMAT, metadata]))
    except (TypeError, UnicodeEncodeError):
        raise_alone(InputError("the metadata of this release hold values that JSON cannot"))
    digest.update(_u64(frame.width))
    for column in frame:
        for part in _column(column):
            digest.update(part)
    return digest.hexdigest()


def _column(column: pl.Series) -> Iterator[bytes | memoryview]:
    """The parts of the encoding of a column, none of them a copy of more than it."""
    dtype = column.dtype.base_type()
    there = column.is_not_null().cast(pl.UInt8)
    head = encoded(column.name)
    if dtype in (pl.String, pl.Categorical, pl.Enum):
        # Arrow's oldest layout has all texts in one piece, and where each ends.
        texts = column.cast(pl.String).fill_null("").to_arrow(compat_level=pl.CompatLevel.oldest())
        _, ends, content = texts.buffers()
        bounds = np.frombuffer(ends, "<i8", len(texts) + 1, offset=8 * texts.offset)
        yield head + encoded("string") + _u64(len(column))
        yield there.to_numpy().data
        yield np.diff(bounds).data
        yield b"" if content is None else memoryview(content)[bounds[0] : bounds[-1]]
        return
    kind = str(dtype)
    if kind not in _WIDTHS:
        raise InputError(f"the column {column.name!r} is of type {column.dtype}, which has no canonical form")
    yield head + encoded(kind.lower()) + _u64(len(column))
    yield there.to_numpy().data
    numbers = column.to_physical().fill_null(False if dtype == pl.Boolean else 0).to_numpy()
    if numbers.dtype.kind == "f":  # one of the many that are not a number stands for all
        numbers = np.where(np.isnan(numbers), np.array(np.nan, numbers.dtype), numbers)
    yield np.ascontiguousarray(numbers, _WIDTHS[kind]).data


def _sized(content: bytes) -> bytes:
    return _u64(len(content)) + content


def _u64(number: int) -> bytes:
    return struct.pack("<Q", number)
