"""Exact codes: the values of a column → small whole numbers, equal exactly where the values are equal.

Text goes through a Polars categorical of its own, which compares the strings themselves; whole numbers and
whatever is stored as one are shifted to begin at zero. Codes say nothing about order: nothing may be chosen
by them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sparsehist.counting.words import first_of_runs

SHIFTED_DTYPES = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.Boolean, pl.Date, pl.Time)
WORD_BITS = 64
DENSE_BITS = 32


def shifted(dtype: pl.DataType) -> bool:
    """Say whether values of this dtype are whole numbers inside, of 64 bits at most."""
    return dtype in SHIFTED_DTYPES or isinstance(dtype, (pl.Datetime, pl.Duration))


def plain(name: str, dtype: pl.DataType) -> pl.Expr:
    """Bring a column to what it is coded from: Int64 or String."""
    column = pl.col(name)
    if shifted(dtype):
        return column.to_physical().cast(pl.Int64)
    if dtype == pl.Binary:
        return column.bin.encode("hex")
    if dtype.is_float():
        # −0.0 and 0.0 are one number; adding zero makes them one text.
        return (column.cast(pl.Float64) + 0.0).cast(pl.String)
    return column.cast(pl.String)


def restored(values: pl.Series, dtype: pl.DataType) -> pl.Series:
    """Undo `plain` on distinct values, up to the kind of text."""
    if dtype == pl.Boolean:
        return values.cast(pl.Boolean)
    if shifted(dtype):
        return values.cast(dtype)
    text = values.cast(pl.String)
    if dtype == pl.Binary:
        return text.str.decode("hex")
    return text if dtype in (pl.String, pl.Categorical, pl.Enum) else text.cast(dtype)


@dataclass
class CodedColumn:
    """One column of a log as codes. Secret.

    Attributes:
        physical: Codes plus `low`; Int64 or UInt32, chunked; null where the log holds null.
        dtype: Dtype in the log.
        low: Smallest physical value.
        bits: Bits that hold any code.
        category: Where the codes of text are resolved.
        dense: Sorted physical values that codes stand for, after `densify`; None before.
    """

    physical: pl.Series = field(repr=False)
    dtype: pl.DataType
    category: pl.Categorical
    low: int = field(init=False, repr=False)
    bits: int = field(init=False, repr=False)
    dense: NDArray[np.int64] | None = field(default=None, init=False, repr=False)
    keep_alive: pl.Series = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # Polars forgets the strings of a categorical with the last series that refers to it.
        self.keep_alive = self.physical.clear()
        if not shifted(self.dtype):
            self.physical = self.physical.to_physical()
        self.low = _whole(self.physical.min())
        self.bits = (_whole(self.physical.max()) - self.low).bit_length()

    @property
    def coded_bits(self) -> int:
        """Bits of a code as `add_to` writes it."""
        return self.bits if self.dense is None else max(self.dense.size - 1, 0).bit_length()

    def densify(self) -> None:
        """Number the distinct values, where whole numbers lie too far apart to be codes themselves."""
        if self.dense is None and self.bits > DENSE_BITS:
            values = self.physical.drop_nulls().to_numpy().astype(np.int64)
            values.sort()
            self.dense = values[first_of_runs(values)]

    def add_to(self, packed: NDArray[np.uint64]) -> None:
        """Append the codes as the lowest bits of `packed`; null is coded as anything."""
        packed <<= np.uint64(self.coded_bits)
        start = 0
        for chunk in self.physical.get_chunks():
            filled = chunk.fill_null(self.low) if chunk.null_count() else chunk
            values = filled.to_numpy()
            part = packed[start : start + values.size]
            if self.dense is not None:
                part |= np.searchsorted(self.dense, values).astype(np.uint64)
            elif self.low:
                part |= values.astype(np.uint64) - np.uint64(self.low % 2**WORD_BITS)
            else:
                part |= values if values.dtype == np.uint32 else values.view(np.uint64)
            start += values.size

    def missing(self) -> NDArray[np.bool_] | None:
        """Find nulls; None if there are none; shape (rows,)."""
        return self.physical.is_null().to_numpy() if self.physical.null_count() else None

    def values(self, codes: NDArray[np.unsignedinteger]) -> pl.Series:
        """Turn codes back into values."""
        if not shifted(self.dtype):
            return restored(pl.Series(codes.astype(np.uint32)).cat.to(self.category), self.dtype)
        if self.dense is not None:
            return restored(pl.Series(self.dense[codes.astype(np.intp)]), self.dtype)
        shift = np.uint64(self.low % 2**WORD_BITS)
        return restored(pl.Series((codes.astype(np.uint64) + shift).view(np.int64)), self.dtype)


def split(codes: NDArray[np.uint64], widths: list[int]) -> list[NDArray[np.uint64]]:
    """Take packed codes apart again, given the bits of each part."""
    parts = []
    rest = codes
    for width in reversed(widths):
        parts.append(rest & np.uint64((1 << width) - 1))
        rest = rest >> np.uint64(width)
    return parts[::-1]


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0
