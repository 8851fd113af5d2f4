"""Read and check the values of a catalogue. The values are public, so errors may show them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from sparsehist.errors import DomainError, shown

_KINDS: dict[str, pl.DataType] = {
    "string": pl.String(), "integer": pl.Int64(), "date": pl.Date(), "boolean": pl.Boolean(),
}  # fmt: skip
_ONE_TYPE = "a catalogue holds strings, integers, dates or booleans, all of one type"


def read_values(values: Iterable[Any] | pl.Series, kind: str | None) -> pl.Series:
    """Check the values of a Python list, array or series, and return them in a canonical dtype."""
    if isinstance(values, pl.Series):
        return check_series(values, kind)
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise DomainError(f"catalogue() takes its values as a list, got {shown(values)}")
    if isinstance(values, pl.DataFrame | pl.LazyFrame):
        raise DomainError(f"catalogue() takes a list of values or one column, not a frame; got {shown(values)}")
    listed = values.tolist() if isinstance(values, np.ndarray) else list(values)
    kinds = {type(value).__name__ for value in listed if value is not None}
    mixed = DomainError(f"{_ONE_TYPE} and within 64 bits; got values of type {', '.join(sorted(kinds))}")
    if "bool" in kinds and len(kinds) > 1:  # Polars would silently convert booleans to integers
        raise mixed
    try:
        return check_series(pl.Series(listed, strict=True), kind)
    except UnicodeEncodeError:
        raise DomainError("text of the catalogue is not valid Unicode: it contains a lone surrogate") from None
    except (TypeError, OverflowError):
        raise mixed from None


def read_file(path: Path, column: str | None, kind: str | None) -> pl.Series:
    """Read and check the catalogue in one column of a Parquet, CSV or text file."""
    ending = path.suffix.lower()
    if ending not in (".parquet", ".csv", ".txt"):
        raise DomainError(f"a catalogue file must end in .parquet, .csv or .txt, got {str(path)!r}")
    if not path.is_file():
        raise DomainError(f"there is no catalogue file at the path {str(path)!r}")
    try:
        if ending == ".txt":
            lines = path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n").removesuffix("\n")
            frame = pl.DataFrame({"value": pl.Series(lines.split("\n") if lines else [], dtype=pl.String)})
        else:
            frame = pl.read_parquet(path) if ending == ".parquet" else pl.read_csv(path, infer_schema=False)
    except (OSError, UnicodeDecodeError, pl.exceptions.PolarsError) as error:
        raise DomainError(f"catalogue file {str(path)!r} cannot be read: {error}") from None
    if column is None and frame.width != 1:
        raise DomainError(f"catalogue file {str(path)!r} has columns {frame.columns}; say which with column=…")
    if column is not None and column not in frame.columns:
        raise DomainError(f"catalogue file {str(path)!r} has no column {column!r}, only {frame.columns}")
    series = frame[column if column is not None else frame.columns[0]]
    return check_series(_recognised(series) if ending != ".parquet" and kind is None else series, kind)


def check_series(series: pl.Series, kind: str | None) -> pl.Series:
    """Return values in a canonical dtype. Refuse nulls, empty strings, duplicates and types that cannot be keys."""
    if series.is_empty():
        raise DomainError("the catalogue is empty: it needs at least one value")
    if series.has_nulls():
        raise DomainError(f"leave nulls out of the catalogue: there is one at position {_first(series.is_null())}")
    canonical = _canonical(series if kind is None else _cast(series, kind))
    if canonical.dtype == pl.String and (empty := canonical == "").any():
        raise DomainError(f"leave empty strings out of the catalogue: there is one at position {_first(empty)}")
    if (repeated := ~canonical.is_first_distinct()).any():
        raise DomainError(f"a value must not occur twice in a catalogue: {shown(canonical[_first(repeated)])}")
    return canonical.alias("value")


def sha256_of(values: pl.Series) -> str:
    """Return the SHA-256 digest of catalogue values: of their dtype, the lengths of strings, and all bytes."""
    digest = hashlib.sha256(f"{values.dtype}\n".encode())
    if values.dtype == pl.String:
        digest.update(values.str.len_bytes().to_numpy().astype("<u8").tobytes())
        digest.update(values.str.join("")[0].encode())
    else:
        physical = values.cast(pl.UInt8) if values.dtype == pl.Boolean else values.to_physical()
        numbers = physical.to_numpy()
        digest.update(numbers.astype(numbers.dtype.newbyteorder("<")).tobytes())
    return digest.hexdigest()


def _canonical(series: pl.Series) -> pl.Series:
    dtype = series.dtype
    if dtype.is_float():
        raise DomainError(f"floats cannot be keys: write integers or strings instead of {series[0]!r} ({_ONE_TYPE})")
    if dtype.is_integer():
        fits = [wide for wide in (pl.Int64, pl.UInt64) if not series.cast(wide, strict=False).has_nulls()]
        if not fits:
            raise DomainError("the integers of a catalogue must fit in 64 bits")
        return series.cast(fits[0])
    if dtype in (pl.String, pl.Categorical, pl.Enum):
        return series.cast(pl.String)
    if dtype not in (pl.Date, pl.Boolean):
        raise DomainError(f"a catalogue cannot contain values of dtype {dtype}: {_ONE_TYPE}")
    return series


def _cast(series: pl.Series, kind: str) -> pl.Series:
    """Convert values to the type named `kind`. Strings can be converted to any kind, integers only to strings."""
    if kind not in _KINDS:
        raise DomainError(f"the kind of a catalogue must be one of {', '.join(map(repr, _KINDS))}, got {kind!r}")
    canonical = _canonical(series)
    if canonical.dtype == _KINDS[kind] or (kind == "integer" and canonical.dtype.is_integer()):
        return canonical
    if kind == "string" and canonical.dtype.is_integer():
        return canonical.cast(pl.String)
    if canonical.dtype != pl.String:
        raise DomainError(f"values cannot be converted from {canonical.dtype} to kind {kind!r}; write them as text")
    read = _from_text(canonical, kind)
    if (bad := read.is_null()).any():
        value = canonical[_first(bad)]
        raise DomainError(f"a value of the catalogue cannot be read as kind {kind!r}: {shown(value)}")
    return _canonical(read)


def _recognised(text: pl.Series) -> pl.Series:
    """Convert strings to integers, dates or booleans if all are canonical spellings of one of these types."""
    for name in ("integer", "date", "boolean"):
        read = _from_text(text, name)
        if not read.has_nulls():
            return read
    return text


def _from_text(text: pl.Series, kind: str) -> pl.Series:
    """Parse strings as the type named `kind`. Strings that are not spelled canonically, such as 007, become null."""
    if kind == "boolean":
        return text.replace_strict({"true": True, "false": False}, default=None, return_dtype=pl.Boolean)
    if kind == "date":
        read = text.str.to_date("%Y-%m-%d", strict=False)
        written = read.dt.to_string("%Y-%m-%d")
    else:
        read = text.cast(pl.Int128, strict=False)
        written = read.cast(pl.String)
    return read.set(written.ne_missing(text), None)


def _first(mask: pl.Series) -> int:
    return int(mask.arg_true()[0])
