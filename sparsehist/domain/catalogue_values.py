"""Reading and checking the values of a catalogue: they are public, so errors quote them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from datetime import date, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from sparsehist.domain.ranges import read_date
from sparsehist.errors import DomainError
from sparsehist.text_form import show


@cache
def _python_types() -> dict[str, tuple[type, ...]]:
    return {"string": (str,), "boolean": (bool, np.bool_), "integer": (int, np.integer), "date": (date,)}


_ONE_TYPE = "a catalogue holds strings, integers, dates or booleans, all of one type"


def read_values(values: Iterable[Any] | pl.Series, kind: str | None) -> pl.Series:
    """Check values given in Python and bring them to a canonical dtype."""
    if isinstance(values, str | bytes):
        raise DomainError(f"catalogue() needs a list of values, got the text {show(values)}; write [{show(values)}]")
    if isinstance(values, pl.Series):
        return check_series(values, kind)
    try:
        listed = values.tolist() if isinstance(values, np.ndarray) else list(values)
    except TypeError:
        raise DomainError(f"catalogue() needs a list of values, got {show(values)}") from None
    return check_series(_typed_series(listed), kind)


def read_file(path: Path, column: str | None, kind: str | None) -> pl.Series:
    """Read one column of a Parquet, CSV or text file and check it."""
    readers: dict[str, Callable[[Path], pl.DataFrame]] = {
        ".parquet": pl.read_parquet,
        ".csv": lambda source: pl.read_csv(source, infer_schema=False),
        ".txt": _read_lines,
    }
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise DomainError(f"catalogue file {str(path)!r} must end in .parquet, .csv or .txt")
    if not path.is_file():
        raise DomainError(f"catalogue file {str(path)!r} does not exist or is not a file")
    try:
        frame = reader(path)
    except (OSError, UnicodeDecodeError, pl.exceptions.PolarsError) as error:
        raise DomainError(f"catalogue file {str(path)!r} cannot be read: {error}") from None
    if column is None and frame.width != 1:
        raise DomainError(f"catalogue file {str(path)!r} has columns {frame.columns}; say which with column=…")
    if column is not None and column not in frame.columns:
        raise DomainError(f"catalogue file {str(path)!r} has no column {column!r}, only {frame.columns}")
    series = frame[column if column is not None else frame.columns[0]]
    is_text_file = path.suffix.lower() != ".parquet"
    return check_series(_recognised(series) if is_text_file and kind is None else series, kind)


def check_series(series: pl.Series, kind: str | None) -> pl.Series:
    """Refuse nulls, NaN, empty strings, duplicates and odd types; return canonical values."""
    if series.is_empty():
        raise DomainError("the catalogue is empty; it needs at least one value")
    if series.has_nulls():
        raise DomainError(f"the catalogue has a null at position {_first(series.is_null())}; leave it out")
    canonical = _canonical(series if kind is None else _cast(series, kind))
    if canonical.dtype == pl.String and (empty := canonical == "").any():
        raise DomainError(f"the catalogue has an empty string at position {_first(empty)}; leave it out")
    if (repeated := ~canonical.is_first_distinct()).any():
        raise DomainError(f"the catalogue lists {show(canonical[_first(repeated)])} twice; each value is one cell")
    return canonical.alias("value")


def sha256_of(values: pl.Series) -> str:
    """Digest canonical values: their type, then their lengths and bytes, in order."""
    digest = hashlib.sha256(f"{values.dtype}\n".encode())
    if values.dtype == pl.String:
        digest.update(values.str.len_bytes().to_numpy().astype("<u8").tobytes())
        digest.update(values.str.join("")[0].encode())
    else:
        physical = values.cast(pl.UInt8) if values.dtype == pl.Boolean else values.to_physical()
        numbers = physical.to_numpy()
        digest.update(numbers.astype(numbers.dtype.newbyteorder("<")).tobytes())
    return digest.hexdigest()


def _dtype(kind: str) -> type[pl.DataType]:
    return {"string": pl.String, "integer": pl.Int64, "date": pl.Date, "boolean": pl.Boolean}[kind]


def _typed_series(listed: list[Any]) -> pl.Series:
    kinds = set(map(type, listed))
    if kinds and all(issubclass(kind, float | np.floating) for kind in kinds):
        raise DomainError(f"{listed[0]!r} is a float, which cannot be a key; write integers or strings ({_ONE_TYPE})")
    if type(None) in kinds:
        return pl.Series([None])
    for name, fitting in _python_types().items():
        if kinds and all(issubclass(kind, fitting) for kind in kinds):
            if (name == "integer" and bool in kinds) or datetime in kinds:
                break
            return _integer_series(listed) if name == "integer" else _plain_series(listed, _dtype(name))
    if not kinds:
        return pl.Series([], dtype=pl.String)
    names = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise DomainError(f"{_ONE_TYPE}; got values of type {names}")


def _plain_series(listed: list[Any], dtype: type[pl.DataType]) -> pl.Series:
    try:
        return pl.Series(listed, dtype=dtype)
    except UnicodeEncodeError as error:
        raise DomainError(f"{show(error.object)} is not valid Unicode text (a lone surrogate)") from None


def _integer_series(listed: list[Any]) -> pl.Series:
    least, greatest = int(min(listed)), int(max(listed))
    if least < -(2**63) or greatest >= 2**64 or (least < 0 and greatest >= 2**63):
        raise DomainError(f"integers from {show(least)} to {show(greatest)} do not fit 64 bits")
    return pl.Series(listed, dtype=pl.Int64 if greatest < 2**63 else pl.UInt64)


def _canonical(series: pl.Series) -> pl.Series:
    dtype = series.dtype
    if dtype == pl.UInt64:
        return series if int(series.max()) >= 2**63 else series.cast(pl.Int64)  # type: ignore[arg-type]
    if dtype.is_integer() and dtype not in (pl.Int128, pl.UInt128):
        return series.cast(pl.Int64)
    if dtype in (pl.String, pl.Categorical, pl.Enum):
        return series.cast(pl.String)
    if dtype in (pl.Date, pl.Boolean):
        return series
    if dtype.is_float():
        raise DomainError(f"{series[0]!r} is a float, which cannot be a key; write integers or strings ({_ONE_TYPE})")
    raise DomainError(f"{_ONE_TYPE}; got a column of {dtype}")


def _cast(series: pl.Series, kind: str) -> pl.Series:
    """Read values as the declared kind; only from text or from that kind itself."""
    if kind not in _python_types():
        raise DomainError(f"catalogue kind {kind!r} is not one of {', '.join(map(repr, _python_types()))}")
    canonical = _canonical(series)
    if canonical.dtype == _dtype(kind) or (kind == "integer" and canonical.dtype.is_integer()):
        return canonical
    if kind == "string" and canonical.dtype.is_integer():
        return canonical.cast(pl.String)
    if canonical.dtype != pl.String:
        raise DomainError(f"a catalogue column of {canonical.dtype} cannot be read as kind {kind!r}")
    read = _from_text(canonical, kind)
    if (bad := read.is_null()).any():
        value = canonical[_first(bad)]
        if kind == "date":
            read_date(value)
        raise DomainError(f"{show(value)} in the catalogue cannot be read as kind {kind!r}")
    return read


def _recognised(text: pl.Series) -> pl.Series:
    """Read text as integers, dates or booleans if every value is written exactly as such."""
    for name in ("integer", "date", "boolean"):
        read = _from_text(text, name)
        if not read.has_nulls():
            return read
    return text


def _from_text(text: pl.Series, kind: str) -> pl.Series:
    """Read canonical spellings only; null where the text is another."""
    if kind == "boolean":
        return text.replace_strict({"true": True, "false": False}, default=None, return_dtype=pl.Boolean)
    if kind == "date":
        days = text.str.to_date("%Y-%m-%d", strict=False)
        return days.set(days.dt.to_string("%Y-%m-%d").ne_missing(text), None)
    for dtype in (pl.Int64, pl.UInt64):
        numbers = text.cast(dtype, strict=False)
        numbers = numbers.set(numbers.cast(pl.String).ne_missing(text), None)
        if not numbers.has_nulls():
            break
    return numbers


def _read_lines(path: Path) -> pl.DataFrame:
    text = path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    return pl.DataFrame({"value": pl.Series(text.removesuffix("\n").split("\n") if text else [], dtype=pl.String)})


def _first(mask: pl.Series) -> int:
    return int(mask.arg_true()[0])
