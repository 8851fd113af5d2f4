"""Map distinct keys of a log to cells of the domain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from sparsehist.domain.base import Domain
from sparsehist.errors import DataError
from sparsehist.typing import BoolArray, secret

NULL_REMEDY = 'clean the log, or create the series with on_null="drop", which leaves such rows out'
_READ_AS: dict[pl.DataType, str] = {
    pl.Date(): "read timestamps as dates with sh.Files(…, types={{{0!r}: 'date'}}) or --key-type {0}=date",
    pl.Int64(): "read numbers such as 2.0 with sh.Files(…, types={{{0!r}: 'integer'}}) or --key-type {0}=integer; "
    "numbers with a fraction, such as prices, must first be scaled to whole numbers",
}
OUTSIDE_REMEDY = 'widen the domain, or declare on_outside="drop" to leave such rows out before bounding'


@secret
class PlacedKeys(NamedTuple):
    """The distinct keys of a log, mapped to cells of the domain. Secret.

    Attributes:
        present: For each key, whether none of its columns is null or empty; shape (n,).
        usable: For each key, whether it is a cell of the domain; shape (n,).
        cells: The cells of the usable keys, in the order of the keys; columns key_0, … in canonical dtypes.
        missing: Positions of the key columns with nulls or empty values.
        outside: Positions of the key columns with values outside the domain of the column.
        unchanged: Whether all keys are usable and map to different cells.
    """

    present: BoolArray
    usable: BoolArray
    cells: pl.DataFrame
    missing: list[int]
    outside: list[int]
    unchanged: bool


def missing_error(column: str, role: str) -> DataError:
    """Return the error for null, NaN or empty values in a column. `role` is "unit" or "key", as in "unit column"."""
    return DataError(f"{role} column {column!r} holds null, NaN or empty values: {NULL_REMEDY}")


def outside_error(outside: Sequence[int], names: Sequence[str], domain: Domain, text: Sequence[bool]) -> DataError:
    """Return the error for keys outside the domain.

    Args:
        outside: Positions of the key columns with values outside the domain.
        names: Names of all key columns.
        domain: The domain of the keys.
        text: For each key column, whether it contains strings and no type was declared for it.
    """
    listed = ", ".join(repr(names[at]) for at in outside)
    readable = [at for at in outside if text[at] and domain.dtypes[at] in _READ_AS]
    hint = "".join(f"; {_READ_AS[domain.dtypes[at]].format(names[at])}" for at in readable[:1])
    return DataError(f"key column(s) {listed}: there are keys outside {domain.describe()}: {OUTSIDE_REMEDY}{hint}")


def place(keys: pl.DataFrame, domain: Domain) -> PlacedKeys:
    """Map distinct keys to cells of the domain. The columns of `keys` are key_0, …, in the dtypes of the log."""
    gaps = [_is_missing(column).to_numpy() for column in keys]
    missing = [at for at, gap in enumerate(gaps) if gap.any()]
    present = ~np.any(gaps, axis=0)
    complete = keys.filter(pl.Series(present)) if missing else keys
    cells, inside = _cells(complete, domain)
    usable, outside = present.copy(), list[int]()
    if not inside.all():
        parts = enumerate(zip(complete, domain.parts, strict=True))
        outside = [at for at, (column, part) in parts if not _cells(column.alias("key_0").to_frame(), part)[1].all()]
        usable[present] = inside
        cells = cells.filter(pl.Series(inside))
    # If no column was converted, distinct keys map to different cells, so there is no need to search for duplicates.
    unchanged = cells.height == keys.height and (cells.schema == keys.schema or not has_duplicates(cells))
    return PlacedKeys(present, usable, cells, missing, outside, unchanged)


def _is_missing(column: pl.Series) -> pl.Series:
    """Return a Polars series of booleans: true for nulls, empty strings and empty binary values."""
    if column.dtype in (pl.String, pl.Categorical, pl.Enum):
        column = column.cast(pl.String).cast(pl.Binary)
    if column.dtype == pl.Binary:
        return column.is_null() | (column.bin.size() == 0).fill_null(value=False)
    return column.is_null()


def _cells(keys: pl.DataFrame, domain: Domain) -> tuple[pl.DataFrame, BoolArray]:
    """Convert keys without nulls to canonical dtypes, and return them with a mask of the keys in the domain.

    If the domain has whole numbers or dates, strings (as in CSV files) are parsed. A string that cannot be parsed is
    outside the domain.
    """
    parsed = keys.select(
        _parsed(column, dtype) if column.dtype == pl.String and not domain.accepts(at, column.dtype) else column
        for at, (column, dtype) in enumerate(zip(keys, domain.dtypes, strict=True))
    )
    legible = ~parsed.select(pl.any_horizontal(pl.all().is_null())).to_series().to_numpy()
    if not legible.any():
        return pl.DataFrame(schema=dict(zip(parsed.columns, domain.dtypes, strict=True))).clear(keys.height), legible
    if not legible.all():
        parsed = parsed.with_columns(pl.all().fill_null(strategy="forward").fill_null(strategy="backward"))
    cells = domain.convert(parsed)
    return cells, legible & domain.contains(cells)


def _parsed(column: pl.Series, dtype: pl.DataType) -> pl.Series:
    if dtype == pl.Date:
        return column.str.to_date("%Y-%m-%d", strict=False)
    return column.cast(dtype, strict=False) if dtype.is_integer() else column


def has_duplicates(keys: pl.DataFrame) -> bool:
    """Return whether any key occurs more than once in a frame of keys."""
    return keys.n_unique() < keys.height
