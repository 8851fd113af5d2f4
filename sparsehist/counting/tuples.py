"""Several columns as one text: typed, each part behind its length, so that two tuples are alike only part by part.

A part is written as a letter for its type, its length in bytes, a colon and its value: the 20,484th day and the
number 17 are `d5:20484i2:17`. No other tuple is written so, since the length says where a part ends. Polars and
DuckDB write the same. A tuple with a part that is null or empty is null, as a single column would be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from sparsehist.errors import DataError

# For each type its letter, and how DuckDB writes a value.
_TEXT = ("s", "nullif(cast({} as varchar), '')")
_EPOCHS = {"ms": ("m", "epoch_ms"), "us": ("u", "epoch_us"), "ns": ("n", "epoch_ns")}


def part_of_tuple(name: str, dtype: pl.DataType) -> tuple[str, str]:
    """The letter of a type, and how DuckDB writes a value of it.

    Args:
        name: Of the column, for the error.
        dtype: Its dtype.

    Raises:
        DataError: If a value of it has no one text.
    """
    if dtype.is_integer():
        return "i", "cast({} as varchar)"
    if dtype in (pl.String, pl.Categorical, pl.Enum):
        return _TEXT
    if dtype == pl.Boolean:
        return "b", "cast({} as varchar)"
    if dtype == pl.Binary:
        return "x", "nullif(lower(hex({})), '')"
    if dtype == pl.Date:
        return "d", "cast({} - date '1970-01-01' as varchar)"
    if isinstance(dtype, pl.Datetime):
        letter, epoch = _EPOCHS[dtype.time_unit]
        return letter, f"cast({epoch}({{}}) as varchar)"
    raise DataError(f"unit column {name!r} has dtype {dtype}, which has no one text: cast it to text")


def tuple_text(names: Sequence[str], dtypes: Mapping[str, pl.DataType]) -> pl.Expr:
    """Write columns as one, with Polars.

    Example:
        >>> log = pl.DataFrame({"day": [20484], "ip": ["é"]})
        >>> log.select(tuple_text(["day", "ip"], log.schema)).item()
        'i5:20484s2:é'
    """
    return pl.concat_str([part for name in names for part in _written(name, dtypes[name])])


def _written(name: str, dtype: pl.DataType) -> list[pl.Expr]:
    letter, _ = part_of_tuple(name, dtype)
    value = pl.col(name)
    if dtype == pl.Binary:
        value = value.bin.encode("hex")
    elif dtype == pl.Date or isinstance(dtype, pl.Datetime):
        value = value.to_physical()
    text = value.cast(pl.String)
    if letter in "sx":
        text = pl.when(text != "").then(text)
    return [pl.lit(letter), text.str.len_bytes().cast(pl.String), pl.lit(":"), text]


def tuple_sql(columns: Sequence[tuple[str, str, pl.DataType]]) -> str:
    """Write columns as one, in DuckDB's SQL.

    Args:
        columns: For each what it is in SQL, its name in the log and its dtype.

    Example:
        >>> tuple_sql([("a", "day", pl.Int64()), ("b", "ip", pl.String())])[:60]
        "('i' || strlen(cast(a as varchar)) || ':' || cast(a as varch"
    """
    parts = []
    for written, name, dtype in columns:
        letter, form = part_of_tuple(name, dtype)
        text = form.format(written)
        parts.append(f"'{letter}' || strlen({text}) || ':' || {text}")
    return f"({' || '.join(parts)})"
