"""Compute the digest of a release: the SHA-256 of its column names, types, rows and metadata.

The digest stays the same if another program compresses or rewrites the file. The hashed bytes begin with a line of
JSON with sorted keys and no spaces: `metadata`, `columns` (names and types) and `rows` (their number). Each column
follows, with one byte per row (0 for null, else 1) and then the values. Numbers are little-endian, with 0 for nulls.
For strings, the values are the lengths of all strings in bytes (i64), followed by the bytes of all strings (UTF-8).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from sparsehist.errors import InputError, raise_alone
from sparsehist.typing import AnyArray

_TEXTS = (pl.String, pl.Categorical, pl.Enum)


def content_digest(frame: pl.DataFrame, metadata: Mapping[str, Any]) -> str:
    """Return the SHA-256, in hex, of the canonical encoding of a release."""
    head = {"metadata": dict(metadata), "columns": [*map(_head, frame)], "rows": frame.height}
    try:
        line = json.dumps(head, sort_keys=True, ensure_ascii=False, separators=(",", ":")) + "\n"
        digest = hashlib.sha256(line.encode())
    except (TypeError, UnicodeEncodeError):
        raise_alone(InputError("the metadata of this release contain values that JSON cannot represent"))
    for column in frame:
        digest.update(column.is_not_null().cast(pl.UInt8).to_numpy().data)
        if column.dtype in _TEXTS:
            texts = column.cast(pl.String).fill_null("")
            digest.update(texts.str.len_bytes().to_numpy().astype("<i8").data)
            for part in texts.to_frame().iter_slices():
                digest.update(part.to_series().str.join("").item().encode())
        else:
            digest.update(_numbers(column).data)
    return digest.hexdigest()


def _head(column: pl.Series) -> tuple[str, str]:
    kind = column.dtype
    if kind in _TEXTS:
        return column.name, "string"
    if not (kind.is_integer() or kind.is_float() or kind in (pl.Boolean, pl.Date)):
        raise InputError(f"a release may contain text, numbers, booleans and dates only; {column.name!r} is {kind}")
    return column.name, str(kind).lower()


def _numbers(column: pl.Series) -> AnyArray:
    numbers = column.to_physical().fill_null(False if column.dtype == pl.Boolean else 0).to_numpy()
    if numbers.dtype.kind == "f":  # all NaNs get the same bit pattern
        numbers = np.where(np.isnan(numbers), np.array(np.nan, numbers.dtype), numbers)
    return np.ascontiguousarray(numbers, numbers.dtype.newbyteorder("<"))
