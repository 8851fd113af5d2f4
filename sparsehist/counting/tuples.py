"""Encode the columns of a key or unit as one string. Two strings are equal only if all columns are equal.

Each column is written as a letter for its type, the length of its value in bytes, a colon and the value. For example,
day 20,484 and the number 17 become `d5:20484i2:17`. No other tuple has this string, as lengths show where values end.
Polars and DuckDB write the same string. If a column is null or empty, the string is null.

| letter | type | value |
|---|---|---|
| s | text | unchanged, in UTF-8 |
| i | whole number of any width | decimal digits, `-` before negative ones |
| d | date | whole days since 1970-01-01 |
| u | time stamp, with or without a zone | whole microseconds since 1970-01-01 (UTC) |
| n | time stamp with nanoseconds | whole nanoseconds since 1970-01-01 (UTC) |
| b | boolean | `true` or `false` |
| x | bytes | lower-case hexadecimal digits |

**The portable order.** With `portable=True`, the pairs of a unit are ordered by the SHA-256 of a text in UTF-8, and
only the first pairs are kept. The text is the bounding salt as 32 lower-case hexadecimal digits, then the columns of
the unit, then those of the key in the canonical types of the domain. Digests are compared as unsigned bytes;
lower-case hexadecimal digits compare in the same order. Different (unit, key) pairs have different texts, and equal
digests are not expected before 2¹²⁸ pairs. For the salt 00…0f, the unit 7 and the key "é" the text is
`000102030405060708090a0b0c0d0e0fi1:7s2:é`. Nanoseconds have no portable form, as not every engine supports them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from sparsehist.errors import DataError

_NAMES = {
    "s": "text", "i": "whole numbers", "d": "dates", "u": "time stamps", "n": "nanoseconds", "b": "booleans",
    "x": "bytes",
}  # fmt: skip


def part_of_tuple(name: str, dtype: pl.DataType) -> str:
    """Return the letter for the dtype of a column; refuse dtypes whose values can be written in several ways."""
    if dtype.is_integer():
        return "i"
    if isinstance(dtype, pl.Datetime):
        return "n" if dtype.time_unit == "ns" else "u"
    letters = {pl.String: "s", pl.Categorical: "s", pl.Enum: "s", pl.Boolean: "b", pl.Binary: "x", pl.Date: "d"}
    if type(dtype) not in letters:
        raise DataError(
            f"unit column {name!r} has dtype {dtype}, whose values can be written in several ways: cast it to text"
        )
    return letters[type(dtype)]


def types_of_tuple(text: str) -> str:
    """Describe the types of the columns of an encoded unit or key.

    Example:
        >>> types_of_tuple("i5:20484s2:é")
        'tuples of whole numbers, text'
    """
    written, types = text.encode(), []
    while written:
        length, rest = written[1:].split(b":", 1)
        types.append(_NAMES[chr(written[0])])
        written = rest[int(length) :]
    return f"tuples of {', '.join(types)}"


def tuple_text(names: Sequence[str], dtypes: Mapping[str, pl.DataType]) -> pl.Expr:
    """Return a Polars expression that encodes several columns as one string.

    Example:
        >>> log = pl.DataFrame({"day": [20484], "ip": ["é"]})
        >>> log.select(tuple_text(["day", "ip"], log.schema)).item()
        'i5:20484s2:é'
    """
    return pl.concat_str([part for name in names for part in _written(name, dtypes[name])])


def _written(name: str, dtype: pl.DataType) -> list[pl.Expr]:
    letter, value = part_of_tuple(name, dtype), pl.col(name)
    if dtype == pl.Binary:
        value = value.bin.encode("hex")
    elif isinstance(dtype, pl.Datetime):
        value = value.dt.epoch("ns" if letter == "n" else "us")
    elif dtype == pl.Date:
        value = value.to_physical()
    text = value.cast(pl.String)
    if letter in "sx":
        text = pl.when(text != "").then(text)
    return [pl.lit(letter), text.str.len_bytes().cast(pl.String), pl.lit(":"), text]


def sha256_of(pairs: pl.Series, salt: bytes) -> pl.Series:
    """Return SHA-256 digests (hexadecimal) of salted (unit, key) pairs. Their order is called the portable order."""
    import duckdb

    messages = pl.select(message=pl.lit(salt.hex()) + pairs)
    with duckdb.connect(":memory:") as connection:
        connection.register("messages", messages)
        digests: pl.DataFrame = connection.sql("select sha256(message) as digest from messages").pl()
    return digests.to_series()


def check_portable(name: str, dtype: pl.DataType) -> None:
    """Refuse a unit column of timestamps in nanoseconds, which not every engine supports."""
    if part_of_tuple(name, dtype) == "n":
        raise DataError(
            f"unit column {name!r} has nanoseconds, which the portable order does not support: cast to microseconds"
        )
