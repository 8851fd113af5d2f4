"""The columns of a log as codes of 32 bits: of its units, and of its keys, which may be several columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sparsehist.counting.coded_pairs import CODE_BITS, low_codes
from sparsehist.counting.codes import Codes, Codes32

SHIFTED_DTYPES = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.Boolean, pl.Date, pl.Time)


def whole(dtype: pl.DataType) -> bool:
    """Say whether values of this dtype are whole numbers inside, of 64 bits at most."""
    return dtype in SHIFTED_DTYPES or isinstance(dtype, (pl.Datetime, pl.Duration))


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


def restored(values: pl.Series, dtype: pl.DataType) -> pl.Series:
    """Undo `plain`, up to the kind of text."""
    if dtype == pl.Boolean:
        return values.cast(pl.Boolean)
    if whole(dtype):
        return values.cast(dtype)
    if dtype == pl.Binary:
        return values.str.decode("hex")
    return values if dtype in (pl.String, pl.Categorical, pl.Enum) else values.cast(dtype)


class UnitCodes:
    """Codes of units. Secret.

    Whole numbers that lie near one another are codes themselves, shifted; all else is looked up. The first number
    that lies too far away makes looked-up codes of those before it, wherever they are: `recoded` does that.
    """

    def __init__(self, dtype: pl.DataType) -> None:
        self._dtype = dtype
        self._table: Codes | None = None if whole(dtype) else Codes(pl.String())
        self._origin: int | None = None

    def fit(self, values: pl.Series) -> bool:
        """Say whether these can be coded as those before them were; if not, `recode` comes first."""
        if self._table is not None or not values.len():
            return True
        low, high = int(values.min()), int(values.max())  # type: ignore[arg-type]
        if self._origin is None:
            self._origin = low - 2 ** (CODE_BITS - 1)
        return self._origin <= low and high - self._origin < 2**CODE_BITS

    def recode(self, words: NDArray[np.uint64]) -> None:
        """Look up all numbers from now on, and those whose codes are in `words` too."""
        numbers = low_codes(words >> np.uint64(CODE_BITS))
        values = self._numbers(numbers)
        self._table = Codes(pl.Int64())
        words &= np.uint64(2**CODE_BITS - 1)
        words |= self._table.codes(values).astype(np.uint64) << np.uint64(CODE_BITS)

    def codes(self, values: pl.Series) -> Codes32:
        """Code values that `fit`."""
        if self._table is not None:
            return self._table.codes(values)
        return (values.to_numpy().view(np.uint64) - self._shift).astype(np.uint32)

    def values(self, codes: Codes32) -> pl.Series:
        """Turn codes back into values."""
        values = self._numbers(codes) if self._table is None else self._table.values.gather(codes)
        return restored(values, self._dtype)

    def _numbers(self, codes: Codes32) -> pl.Series:
        return pl.Series((codes.astype(np.uint64) + self._shift).view(np.int64))

    @property
    def _shift(self) -> np.uint64:
        return np.uint64((self._origin or 0) % 2**64)


class KeyCodes:
    """Codes of keys, from 0 on without gaps. Secret.

    A key of several columns is coded from the left: the code of what stands before beside the code of a column
    makes a number, and that is coded in turn.
    """

    def __init__(self, dtypes: Sequence[pl.DataType]) -> None:
        self._dtypes = dtypes
        self._columns = [Codes(plain_dtype(dtype)) for dtype in dtypes]
        self._joints = [Codes(pl.UInt64()) for _ in dtypes[1:]]

    def codes(self, columns: Sequence[pl.Series]) -> Codes32:
        """Code the key of each row."""
        codes = self._columns[0].codes(columns[0])
        for joint, table, column in zip(self._joints, self._columns[1:], columns[1:], strict=True):
            pairs = codes.astype(np.uint64) << np.uint64(CODE_BITS)
            pairs |= table.codes(column)
            codes = joint.codes(pl.Series(pairs))
        return codes

    def keys(self) -> pl.DataFrame:
        """List the keys by code: columns key_0, … in the dtypes of the log, up to the kind of text."""
        columns: list[pl.Series] = []
        codes: Codes32 | None = None
        for joint, table in zip(reversed(self._joints), reversed(self._columns[1:]), strict=True):
            pairs = (joint.values if codes is None else joint.values.gather(codes)).to_numpy()
            columns.append(table.values.gather(low_codes(pairs)))
            codes = low_codes(pairs >> np.uint64(CODE_BITS))
        first = self._columns[0].values
        columns.append(first if codes is None else first.gather(codes))
        return pl.DataFrame(
            [
                restored(column, dtype).alias(f"key_{i}")
                for i, (column, dtype) in enumerate(zip(reversed(columns), self._dtypes, strict=True))
            ]
        )
