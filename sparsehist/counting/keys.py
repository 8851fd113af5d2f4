"""Distinct keys of a log → cells of the domain."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from sparsehist.counting.contract import Choice
from sparsehist.domain.base import Domain, key_names
from sparsehist.errors import DataError
from sparsehist.typing import BoolArray, secret

NULL_REMEDY = 'clean the log, or create the series with on_null="drop", which leaves such rows out'
_READ_AS: dict[pl.DataType, str] = {
    pl.Date(): "time stamps become dates with sh.Files(…, types={{{0!r}: 'date'}}), --key-type {0}=date",
    pl.Int64(): "numbers such as 2.0 are read with sh.Files(…, types={{{0!r}: 'integer'}}), --key-type {0}=integer; "
    "those with a fraction, such as prices, have to be scaled to whole numbers first",
}
OUTSIDE_REMEDY = 'widen the domain, or declare on_outside="drop" to leave such rows out before bounding'


@secret
class PlacedKeys(NamedTuple):
    """Where each distinct key of a log belongs. Secret.

    Attributes:
        usable: True where the key is a cell; shape (n,).
        cells: The cells of the usable keys, in the same order; columns key_0, … in canonical dtypes.
        unchanged: All keys are usable and no two of them share a cell.
    """

    usable: BoolArray
    cells: pl.DataFrame
    unchanged: bool


def is_missing(column: pl.Series) -> pl.Series:
    """Find nulls and empty strings or bytes."""
    if column.dtype in (pl.String, pl.Categorical, pl.Enum):
        column = column.cast(pl.String).cast(pl.Binary)
    if column.dtype == pl.Binary:
        return column.is_null() | (column.bin.size() == 0).fill_null(value=False)
    return column.is_null()


def missing_error(column: str, role: str) -> DataError:
    """Refuse null, NaN or empty values."""
    return DataError(f"{role} column {column!r} holds null, NaN or empty values: {NULL_REMEDY}")


def outside_error(outside: Sequence[int], names: Sequence[str], domain: Domain, text: Sequence[bool]) -> DataError:
    """Refuse keys outside the domain.

    Args:
        outside: Positions of the key columns that hold such keys.
        names: All key columns.
        domain: Where the keys belong.
        text: Which key columns are text that nobody declared to be anything else.
    """
    listed = ", ".join(repr(names[at]) for at in outside)
    readable = [at for at in outside if text[at] and domain.dtypes[at] in _READ_AS]
    hint = "".join(f"; {_READ_AS[domain.dtypes[at]].format(names[at])}" for at in readable[:1])
    return DataError(f"key column(s) {listed}: there are keys outside {domain.describe()}: {OUTSIDE_REMEDY}{hint}")


def place(
    keys: pl.DataFrame, names: Sequence[str], domain: Domain, *, on_null: Choice, on_outside: Choice
) -> PlacedKeys:
    """Bring distinct keys, columns key_0, … in the dtypes of the log, to the domain; refuse what is not dropped."""
    missing = missing_by_column(keys)
    if on_null == "error":
        for name, column in zip(names, missing, strict=True):
            if column.any():
                raise missing_error(name, "key")
    usable = ~missing.select(pl.any_horizontal(pl.all())).to_series().to_numpy()
    cells, inside = find_cells(keys if usable.all() else keys.filter(pl.Series(usable)), domain)
    if on_outside == "error" and not inside.all():
        outside = [list(names).index(one) for one in outside_columns(keys.filter(pl.Series(usable)), names, domain)]
        raise outside_error(outside, names, domain, [dtype == pl.String for dtype in keys.dtypes])
    if not inside.all():
        usable[usable] = inside
        cells = cells.filter(pl.Series(inside))
    # Nothing is converted that is canonical, and then no two keys share a cell.
    apart = cells.height == keys.height and (cells.schema == keys.schema or not has_duplicates(cells))
    return PlacedKeys(usable, cells, apart)


def missing_by_column(keys: pl.DataFrame) -> pl.DataFrame:
    """Find nulls and empty values, column by column."""
    return pl.DataFrame([is_missing(column).alias(column.name) for column in keys])


def find_cells(keys: pl.DataFrame, domain: Domain) -> tuple[pl.DataFrame, BoolArray]:
    """Convert keys without nulls to canonical dtypes and test membership.

    Text is parsed where the domain wants whole numbers or dates, as CSV files need; what does not parse is
    outside.
    """
    parsed = keys.select(
        _parsed(keys[name], dtype) if needs_parsing(domain, column, keys[name].dtype) else keys[name]
        for column, (name, dtype) in enumerate(zip(key_names(domain.columns), domain.dtypes, strict=True))
    )
    legible = ~parsed.select(pl.any_horizontal(pl.all().is_null())).to_series().to_numpy()
    if not legible.any():
        return pl.DataFrame(schema=dict(zip(parsed.columns, domain.dtypes, strict=True))).clear(keys.height), legible
    if not legible.all():
        parsed = parsed.with_columns(pl.all().fill_null(strategy="forward").fill_null(strategy="backward"))
    cells = domain.convert(parsed)
    return cells, legible & domain.contains(cells)


def outside_columns(keys: pl.DataFrame, names: Sequence[str], domain: Domain) -> list[str]:
    """Name the columns of keys without nulls that hold values outside their part of the domain."""
    columns = zip(keys, domain.parts, names, strict=True)
    return [name for column, part, name in columns if not find_cells(column.alias("key_0").to_frame(), part)[1].all()]


def needs_parsing(domain: Domain, column: int, dtype: pl.DataType) -> bool:
    """Say whether text stands where the domain wants whole numbers or dates."""
    wanted = domain.dtypes[column]
    return dtype == pl.String and not domain.accepts(column, dtype) and (wanted.is_integer() or wanted == pl.Date)


def has_duplicates(keys: pl.DataFrame) -> bool:
    """Say whether a key occurs twice."""
    seed = secrets.randbits(64)
    if keys.width == 1 and keys.dtypes[0].is_integer():
        ordered = np.sort(keys.to_series().to_numpy())  # in less memory than hashes take
        return bool((ordered[1:] == ordered[:-1]).any())
    ordered = np.sort(keys.hash_rows(seed).to_numpy())
    twice = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    if not twice.size:
        return False
    suspects = keys.filter(keys.hash_rows(seed).is_in(pl.Series(twice)))
    return suspects.n_unique() < suspects.height


def _parsed(column: pl.Series, dtype: pl.DataType) -> pl.Series:
    if dtype == pl.Date:
        return column.str.to_date("%Y-%m-%d", strict=False)
    return column.cast(dtype, strict=False)
