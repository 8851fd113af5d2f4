"""The columns of a log as exact codes: its units as 64-bit numbers, its keys, which may be several columns, as codes.

A column comes as its values, or as some values and the place among them of each row: a Parquet file holds most
columns that way, and only the values of its dictionaries need be looked up.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sparsehist.counting.codes import CODE_BITS, Codes, Codes32, taken

WHOLE_DTYPES = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.Boolean, pl.Date, pl.Time)


@dataclass(frozen=True)
class LogColumn:
    """Some rows of a column, without nulls. Secret.

    Attributes:
        values: As `plain` makes them.
        places: Place among the values of each row; None if the values are the rows.
    """

    values: pl.Series = field(repr=False)
    places: NDArray[np.integer] | None = field(default=None, repr=False)

    def codes(self, table: Codes) -> Codes32:
        """Code the rows."""
        values, places = self.values, self.places
        if places is None and values.dtype.is_integer():
            distinct, places = np.unique(values.to_numpy(), return_inverse=True)
            values = pl.Series(distinct)
        codes = table.codes(values)
        return codes if places is None else codes[places]


def whole(dtype: pl.DataType) -> bool:
    """Say whether values of this dtype are whole numbers inside, of 64 bits at most."""
    return dtype in WHOLE_DTYPES or isinstance(dtype, (pl.Datetime, pl.Duration))


def plain_dtype(dtype: pl.DataType) -> pl.DataType:
    """Tell what `plain` brings a column to."""
    return pl.Int64() if whole(dtype) else pl.String()


def plain(name: str, dtype: pl.DataType) -> pl.Expr:
    """Bring a column to what it is coded from: Int64 or String."""
    column = pl.col(name)
    if whole(dtype):
        return column.to_physical().cast(pl.Int64)
    if dtype == pl.Binary:
        return column.bin.encode("hex")
    if dtype.is_float():
        # −0.0 and 0.0 are one number and have to be one text; Polars optimises the addition of zero away.
        return pl.when(column == 0).then(0.0).otherwise(column.cast(pl.Float64)).cast(pl.String).alias(name)
    return column.cast(pl.String)


def _restored(values: pl.Series, dtype: pl.DataType) -> pl.Series:
    """Undo `plain`, up to the kind of text."""
    if dtype == pl.Boolean:
        return values.cast(pl.Boolean)
    if whole(dtype):
        return values.cast(dtype)
    if dtype == pl.Binary:
        return values.str.decode("hex")
    return values if dtype in (pl.String, pl.Categorical, pl.Enum) else values.cast(dtype)


class Units:
    """Units as numbers of 64 bits, equal where units are equal, whose first bits are even. Secret.

    A whole number needs no code, and any other unit has one; either is multiplied by a random odd number, which is a
    bijection and spreads numbers of any pattern.
    """

    def __init__(self, dtype: pl.DataType) -> None:
        multiplier = secrets.randbits(64) | 1
        self._multiplier = np.uint64(multiplier)
        self._inverse = np.uint64(pow(multiplier, -1, 2**64))
        self._dtype = dtype
        self._table = None if whole(dtype) else Codes(pl.String())

    def numbers(self, column: LogColumn) -> NDArray[np.uint64]:
        """Number rows."""
        if self._table is not None:
            numbers = column.codes(self._table).astype(np.uint64)
        else:
            numbers = column.values.to_numpy().view(np.uint64)
            numbers = numbers if column.places is None else numbers[column.places]
        return numbers * self._multiplier

    def values(self, numbers: NDArray[np.uint64]) -> pl.Series:
        """Turn numbers back into units, in the dtype of the log up to the kind of text."""
        plain = numbers * self._inverse
        if self._table is None:
            return _restored(pl.Series(plain.view(np.int64)), self._dtype)
        values, places = self._coded
        return _restored(taken(values, places[plain]), self._dtype)

    @cached_property
    def _coded(self) -> tuple[pl.Series, Codes32]:
        """Every unit that has a code, and its place by code; once all have been seen."""
        table = cast("Codes", self._table)
        return table.values(), table.dense()


class Keys:
    """Codes of keys. Secret.

    A key of several columns is coded from the left: the code of what stands before beside the code of a column
    makes a number, and that is coded in turn.
    """

    def __init__(self, dtypes: Sequence[pl.DataType]) -> None:
        self._dtypes = dtypes
        self._columns = [Codes(plain_dtype(dtype)) for dtype in dtypes]
        self._joints = [Codes(pl.UInt64()) for _ in dtypes[1:]]

    def codes(self, columns: Sequence[LogColumn]) -> Codes32:
        """Code the key of each row."""
        codes = columns[0].codes(self._columns[0])
        for joint, table, column in zip(self._joints, self._columns[1:], columns[1:], strict=True):
            pairs = codes.astype(np.uint64) << np.uint64(CODE_BITS)
            pairs |= column.codes(table)
            codes = LogColumn(pl.Series(pairs)).codes(joint)
        return codes

    def keys(self) -> tuple[pl.DataFrame, Codes32]:
        """List the keys: columns key_0, … in the dtypes of the log, up to the kind of text; and the row by code."""
        columns: list[pl.Series] = []
        codes: Codes32 | None = None
        for joint, table in zip(reversed(self._joints), reversed(self._columns[1:]), strict=True):
            pairs = _taken(joint, codes).to_numpy()
            columns.append(_taken(table, pairs.astype(np.uint32)))
            codes = (pairs >> np.uint64(CODE_BITS)).astype(np.uint32)
        columns.append(_taken(self._columns[0], codes))
        keys = pl.DataFrame(
            [
                _restored(column, dtype).alias(f"key_{i}")
                for i, (column, dtype) in enumerate(zip(reversed(columns), self._dtypes, strict=True))
            ]
        )
        return keys, (self._joints or self._columns)[-1].dense()


def _taken(table: Codes, codes: Codes32 | None) -> pl.Series:
    """Take the values of these codes, or all of them."""
    values = table.values()
    return values if codes is None else taken(values, table.dense()[codes])
