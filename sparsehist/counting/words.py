"""Columns of a log as words: one number of at most 64 bits a row, equal exactly where the values are equal.

Whole numbers are words as they are, less the least one there may be: no hash, no table, no check. Text and bytes
have a code in an exact table (`codes.py`), 32 bits wide. Several columns stand side by side in one word; if they do
not fit 64 bits, some of them together get a code in a table of their own.

Once the log is read, every distinct value in a table is brought to the domain; from then on its code stands for a
cell. `hashes` depend on the salt and on values alone, never on codes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import date
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from sparsehist.counting.batches import Column, is_whole, plain_dtype, restored
from sparsehist.counting.codes import CODE_BITS, Codes, Codes32, taken, value_hash
from sparsehist.counting.keys import place
from sparsehist.domain.base import Domain, key_names
from sparsehist.domain.hash64 import Hash64
from sparsehist.domain.ranges import Dates, Integers
from sparsehist.typing import BoolArray, NDArray, WordArray

WORD_BITS = 64
_ALL = np.uint64(2**WORD_BITS - 1)
_EPOCH = date(1970, 1, 1)
_NARROW: dict[type[pl.DataType], int] = {
    pl.Boolean: 1, pl.Int8: 8, pl.UInt8: 8, pl.Int16: 16, pl.UInt16: 16, pl.Int32: 32, pl.UInt32: 32, pl.Date: 32,
}  # fmt: skip
NO_CELL = np.uint32(2**CODE_BITS - 1)
Numbers32or64: TypeAlias = "NDArray[np.unsignedinteger]"
Inside: TypeAlias = "BoolArray | None"
"""True where a row is inside the domain; None if all are."""


class Field:
    """One or several columns of a log as numbers of some bits; this one's numbers are cells as they are.

    Attributes:
        bits: Width of the numbers.
        columns: How many columns they stand for.
        outside: Positions of the columns in which a row was outside its domain; complete after `place`.
    """

    bits = CODE_BITS
    columns = 1
    memory = 0
    """Bytes that distinct values take."""

    def __init__(self) -> None:
        self.outside: list[int] = []

    def numbers(self, columns: Sequence[Column]) -> tuple[Numbers32or64, Inside]:
        """Turn rows into numbers."""
        raise NotImplementedError

    def place(self, salt: bytes) -> None:
        """Bring the distinct values to the domain, once all rows are read."""

    def cells(self, numbers: Numbers32or64) -> tuple[Numbers32or64, Inside]:
        """Turn the numbers of rows into those of cells; after `place`. Without a domain they stay as they are."""
        return numbers, None

    def hashes(self, cells: Numbers32or64) -> WordArray:
        """Hash cells by value; after `place`."""
        raise NotImplementedError

    def values(self, cells: Numbers32or64) -> list[pl.Series]:
        """Return the values of cells, column by column, in canonical dtypes; after `place`."""
        raise NotImplementedError


class WholeNumbers(Field):
    """Whole numbers from `low` to `high`, less `low`."""

    def __init__(self, low: int, high: int, dtype: pl.DataType) -> None:
        super().__init__()
        self.bits = max((high - low).bit_length(), 1)
        self._low, self._span, self._dtype = np.uint64(low % 2**WORD_BITS), np.uint64(high - low), dtype

    def numbers(self, columns: Sequence[Column]) -> tuple[WordArray, Inside]:
        (column,) = columns
        found = column.values.to_numpy().view(np.uint64)
        if self._low:
            found = found - self._low
        if column.places is not None:
            found = found[column.places]
        if self._span == _ALL or found.max(initial=0) <= self._span:
            return found, None
        self.outside = [0]
        return found, found <= self._span

    def hashes(self, cells: Numbers32or64) -> WordArray:
        return cells.astype(np.uint64, copy=False)

    def values(self, cells: Numbers32or64) -> list[pl.Series]:
        numbers = cells.astype(np.uint64) + self._low
        return [restored(pl.Series(numbers.view(np.int64)), self._dtype)]


class Tabled(Field):
    """Values that have codes in a table; once placed, a code, or the number of a cell, stands for a row of cells."""

    def __init__(self, dtype: pl.DataType) -> None:
        super().__init__()
        self._table = Codes(dtype)
        self._cell_of: Codes32 | None = None  # by code; None if every code is a cell
        self._row_of: Codes32  # by cell: its row among the cells
        self._hashes: WordArray  # by cell

    @property
    def memory(self) -> int:  # type: ignore[override]  # a table grows
        return self._table.memory

    def cells(self, numbers: Numbers32or64) -> tuple[Numbers32or64, Inside]:
        if self._cell_of is None:
            return numbers, None
        cells = np.take(self._cell_of, numbers, mode="clip")
        inside = cells != NO_CELL
        return cells, None if inside.all() else inside

    def hashes(self, cells: Numbers32or64) -> WordArray:
        return np.take(self._hashes, cells, mode="clip")

    def _placed(self, distinct: int, usable: BoolArray, number: NDArray[np.integer]) -> None:
        """Number the cells: of the values that are usable, the row of each among the distinct cells."""
        cell_of = np.full(usable.size, NO_CELL)
        cell_of[usable] = number
        self._cell_of, self._row_of = cell_of[self._table.positions()], np.arange(distinct, dtype=np.uint32)


class TabledValues(Tabled):
    """Values of one column, and the part of the domain they belong to; any value if that is None."""

    def __init__(self, dtype: pl.DataType, domain: Domain | None) -> None:
        super().__init__(plain_dtype(dtype))
        self._dtype, self._domain = dtype, domain

    def numbers(self, columns: Sequence[Column]) -> tuple[Codes32, Inside]:
        (column,) = columns
        codes = self._table.codes(column.values)
        return (codes if column.places is None else np.take(codes, column.places, mode="clip")), None

    def place(self, salt: bytes) -> None:
        self._cells = restored(self._table.values(), self._dtype).alias("key_0")
        self._row_of = self._table.positions()
        if self._domain is not None:
            placed = place(self._cells.to_frame(), ("",), self._domain, on_null="drop", on_outside="drop")
            self.outside = [] if placed.usable.all() else [0]
            distinct = placed.cells
            if not placed.unchanged:
                distinct = distinct.unique(maintain_order=True)
                numbered = distinct.with_row_index("cell")
                number = placed.cells.join(numbered, on="key_0", how="left", maintain_order="left")["cell"]
                self._placed(distinct.height, placed.usable, number.to_numpy())
            self._cells = distinct.to_series()
        self._hashes = value_hash(self._cells, _odd(salt, 0))[self._row_of]

    def values(self, cells: Numbers32or64) -> list[pl.Series]:
        return [taken(self._cells, self._row_of[cells])]


class TabledWords(Tabled):
    """Words of several columns, or of one that is too wide."""

    def __init__(self, inner: Words) -> None:
        super().__init__(pl.UInt64())
        self._inner, self.columns = inner, inner.columns

    @property
    def memory(self) -> int:  # type: ignore[override]
        return self._inner.memory + self._table.memory

    def numbers(self, columns: Sequence[Column]) -> tuple[Codes32, Inside]:
        words, inside = self._inner.numbers(columns)
        return self._table.codes(pl.Series(words.astype(np.uint64, copy=False))), inside

    def place(self, salt: bytes) -> None:
        self._inner.place(salt)
        self.outside = self._inner.outside
        words = self._table.values().to_numpy()
        self._cells, inside = self._inner.cells(words)
        self._row_of = self._table.positions()
        usable = np.ones(words.size, dtype=bool) if inside is None else inside
        distinct, number = np.unique(self._cells[usable], return_inverse=True)
        if distinct.size < words.size:
            self._placed(distinct.size, usable, number)
            self._cells = distinct
        self._hashes = self._inner.hashes(self._cells)[self._row_of]

    def values(self, cells: Numbers32or64) -> list[pl.Series]:
        return self._inner.values(self._cells[self._row_of[cells]])


class Words:
    """Some columns of a log as words of 32 or 64 bits. Several threads may call `numbers` at once. Secret."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self._fields = fields
        self.columns = sum(one.columns for one in fields)
        self.bits = sum(one.bits for one in fields)
        self._dtype = np.uint32 if self.bits <= CODE_BITS else np.uint64

    def __repr__(self) -> str:
        return "Words()"

    @classmethod
    def of_columns(cls, dtypes: Sequence[pl.DataType], domains: Sequence[Domain | None]) -> Words:
        """For columns of these dtypes, with the part of the domain each belongs to, or None for any value."""
        return cls(_fitting([_field(*one) for one in zip(dtypes, domains, strict=True)]))

    @property
    def memory(self) -> int:
        """Bytes that distinct values take."""
        return sum(one.memory for one in self._fields)

    @property
    def outside(self) -> list[int]:
        """Positions of the columns in which a row was outside its domain; complete after `place`."""
        firsts = np.cumsum([0, *(one.columns for one in self._fields)]).tolist()
        return [first + at for first, one in zip(firsts, self._fields, strict=False) for at in one.outside]

    def numbers(self, columns: Sequence[Column]) -> tuple[Numbers32or64, Inside]:
        """Turn rows into words; some rows may be outside the domain already."""
        found, inside, rest = [], None, list(columns)
        for one in self._fields:
            own, rest = rest[: one.columns], rest[one.columns :]
            numbers, own_inside = one.numbers(own)
            found.append(numbers)
            inside = _both(inside, own_inside)
        return self._joined(found), inside

    def place(self, salt: bytes) -> None:
        """Bring the distinct values to the domain, once all rows are read."""
        for number, one in enumerate(self._fields):
            one.place(hashlib.blake2b(b"%d" % number, key=salt, digest_size=16).digest())
        self._odds = [np.uint64(_odd(salt, number)) for number in range(len(self._fields))]

    def cells(self, words: Numbers32or64) -> tuple[Numbers32or64, Inside]:
        """Turn the words of rows into those of cells, and say which rows have one; after `place`.

        Columns without a domain keep their words.
        """
        found, inside = [], None
        for one, numbers in zip(self._fields, self._parted(words), strict=True):
            cells, own_inside = one.cells(numbers)
            found.append(cells)
            inside = _both(inside, own_inside)
        return self._joined(found), inside

    def hashes(self, cells: Numbers32or64) -> WordArray:
        """Hash cells by their values; shape (n,). Different cells seldom, but may, have one hash."""
        parts = zip(self._fields, self._odds, self._parted(cells), strict=True)
        products = [one.hashes(numbers) * odd for one, odd, numbers in parts]
        total: WordArray = sum(products[1:], products[0])
        return total

    def frame(self, cells: Numbers32or64) -> pl.DataFrame:
        """Return the values of cells: columns key_0, … in canonical dtypes."""
        return pl.DataFrame(dict(zip(key_names(self.columns), self.values(cells), strict=True)))

    def values(self, cells: Numbers32or64) -> list[pl.Series]:
        """Return the values of cells, column by column."""
        parts = zip(self._fields, self._parted(cells), strict=True)
        return [column for one, numbers in parts for column in one.values(numbers)]

    def _joined(self, numbers: Sequence[Numbers32or64]) -> Numbers32or64:
        words: NDArray[Any] = numbers[0].astype(self._dtype, copy=False)
        for one, own in zip(self._fields[1:], numbers[1:], strict=True):
            words = words << self._dtype(one.bits)
            words |= own.astype(self._dtype, copy=False)
        return words

    def _parted(self, words: Numbers32or64) -> list[Numbers32or64]:
        if len(self._fields) == 1:
            return [words]
        found, shift = [], self.bits
        for one in self._fields:
            shift -= one.bits
            found.append((words >> self._dtype(shift)) & self._dtype(2**one.bits - 1))
        return found


def _field(dtype: pl.DataType, domain: Domain | None) -> Field:
    """Choose how a column becomes numbers: a range where every value in it is a cell, else a table."""
    if not is_whole(dtype):
        return TabledValues(dtype, domain)
    canonical = dtype if domain is None else domain.dtypes[0]
    if isinstance(domain, Integers):
        return WholeNumbers(domain.low, domain.high, canonical)
    if isinstance(domain, Dates):
        return WholeNumbers((domain.start - _EPOCH).days, (domain.end - _EPOCH).days, canonical)
    if domain is None or isinstance(domain, Hash64) or domain.is_open:
        bits = _NARROW.get(type(dtype), WORD_BITS)
        low = -(2 ** (bits - 1)) if bits < WORD_BITS and (dtype.is_signed_integer() or dtype == pl.Date) else 0
        return WholeNumbers(low, low + 2**bits - 1, canonical)
    return TabledValues(dtype, domain)


def _fitting(fields: list[Field]) -> list[Field]:
    """Replace fields by codes until they fit a word: first those wider than a code, then the first two together."""
    while sum(one.bits for one in fields) > WORD_BITS:
        wide = next((at for at, one in enumerate(fields) if one.bits > CODE_BITS), None)
        own = slice(0, 2) if wide is None else slice(wide, wide + 1)
        fields = [*fields[: own.start], TabledWords(Words(fields[own])), *fields[own.stop :]]
    return fields


def _both(one: Inside, other: Inside) -> Inside:
    return other if one is None else one if other is None else one & other


def _odd(salt: bytes, number: int) -> int:
    """Return an odd number of 64 bits that only the holder of the salt knows."""
    digest = hashlib.blake2b(b"odd %d" % number, key=salt, digest_size=8).digest()
    return int.from_bytes(digest, "little") | 1
