"""Columns of a log as words: one number of at most 64 bits a row, equal exactly where the values are equal.

Whole numbers are words as they are, less the least one there may be: no hash, no table, no check. Text and bytes
have a code in an exact table (`codes.py`), 32 bits wide. Several columns stand side by side in one word; if they do
not fit 64 bits, wide ones get codes too, and then two together get a code in a table of their own.

Once the log is read, every distinct value in a table is brought to the domain; from then on its code stands for a
cell. `hashes` depend on the salt and on values alone, never on codes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from sparsehist.counting.batches import DICTIONARIES, is_whole, restored
from sparsehist.counting.codes import CODE_BITS, Codes, Codes32, taken, value_hash
from sparsehist.counting.keys import place
from sparsehist.domain.base import Domain, key_names
from sparsehist.domain.hash64 import Hash64
from sparsehist.domain.ranges import Dates, Integers
from sparsehist.typing import BoolArray, NDArray, WordArray

WORD_BITS = 64
_EPOCH = date(1970, 1, 1)
_NARROW: dict[type[pl.DataType], int] = {
    pl.Boolean: 1, pl.Int8: 8, pl.UInt8: 8, pl.Int16: 16, pl.UInt16: 16, pl.Int32: 32, pl.UInt32: 32, pl.Date: 32,
}  # fmt: skip
NO_CELL = np.uint32(2**CODE_BITS - 1)
Numbers32or64: TypeAlias = "NDArray[np.unsignedinteger]"
Inside: TypeAlias = "BoolArray | None"
"""True where a row is inside the domain; None if all are."""


def key_range(domain: Domain | None) -> tuple[int, int] | None:
    """Return the least and the greatest number of a domain of numbers, dates as days; None for any other."""
    if isinstance(domain, Integers):
        return domain.low, domain.high
    return ((domain.start - _EPOCH).days, (domain.end - _EPOCH).days) if isinstance(domain, Dates) else None


class Field:
    """One or several columns of a log as numbers of some bits; this one's numbers are cells as they are.

    Attributes:
        bits: Width of the numbers.
        columns: How many columns they stand for.
        outside: Positions of the columns in which a value was outside its domain; complete after `place`.
    """

    bits = CODE_BITS
    columns = 1
    outside: Sequence[int] = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @property
    def memory(self) -> int:
        """Bytes that distinct values take."""
        return 0

    def numbers(self, columns: Sequence[pl.Series]) -> Numbers32or64:
        """Turn rows, columns as `batches.plain` gives them, into numbers. Several threads may call it at once."""
        raise NotImplementedError

    def place(self, salt: bytes) -> None:
        """Bring the distinct values to the domain, once all rows are read."""

    def cells(self, numbers: Numbers32or64) -> tuple[Numbers32or64, Inside]:
        """Turn the numbers of rows into those of cells, and tell which rows have one; after `place`."""
        return numbers, None

    def hashes(self, cells: Numbers32or64) -> WordArray:
        """Hash cells by value, shape (n,); after `place`. Different cells seldom, but may, have one hash."""
        raise NotImplementedError

    def values(self, cells: Numbers32or64) -> list[pl.Series]:
        """Return the values of cells, column by column, in canonical dtypes; after `place`."""
        raise NotImplementedError


class WholeNumbers(Field):
    """Whole numbers from `low` to `high`, less `low`; rows with others were left out before."""

    def __init__(self, low: int, high: int, dtype: pl.DataType) -> None:
        self.bits = max((high - low).bit_length(), 1)
        self._low, self._dtype = np.uint64(low % 2**WORD_BITS), dtype

    def numbers(self, columns: Sequence[pl.Series]) -> WordArray:
        found = columns[0].to_numpy().view(np.uint64)
        return found - self._low if self._low else found

    def hashes(self, cells: Numbers32or64) -> WordArray:
        return cells.astype(np.uint64, copy=False)

    def values(self, cells: Numbers32or64) -> list[pl.Series]:
        numbers = cells.astype(np.uint64) + self._low
        return [restored(pl.Series(numbers.view(np.int64)), self._dtype)]


class Tabled(Field):
    """Values that have codes in a table; once placed, a code, or the number of a cell, stands for a row of cells."""

    def __init__(self, dtype: pl.DataType) -> None:
        self._table = Codes(dtype)
        self._cell_of: Codes32 | None = None  # by code; None if every code is a cell
        self._hashes: WordArray  # by cell

    @property
    def memory(self) -> int:
        return self._table.memory

    def cells(self, numbers: Numbers32or64) -> tuple[Numbers32or64, Inside]:
        if self._cell_of is None:
            return numbers, None
        cells = np.take(self._cell_of, numbers, mode="clip")
        inside = cells != NO_CELL
        return cells, None if inside.all() else inside

    def hashes(self, cells: Numbers32or64) -> WordArray:
        return np.take(self._hashes, cells, mode="clip")

    def _number(self, usable: BoolArray, cells: NDArray[np.integer]) -> None:
        """Note the cell of each code, where it has one."""
        self._cell_of = np.full(usable.size, NO_CELL)
        self._cell_of[usable] = cells


class TabledValues(Tabled):
    """The distinct values of one column, and the component of the domain for it (None allows any value)."""

    def __init__(self, dtype: pl.DataType, domain: Domain | None) -> None:
        super().__init__(pl.Int64() if is_whole(dtype) else pl.Binary())
        self._dtype, self._domain = dtype, domain
        # By the number that Polars has for a category, the same in all batches.
        self._code_of = np.empty(0, np.uint32)

    def numbers(self, columns: Sequence[pl.Series]) -> Codes32:
        (values,) = columns
        if values.dtype not in DICTIONARIES:
            return self._table.codes(values)
        places = values.to_physical().to_numpy()
        # Another thread may put a larger copy in the place of this array: what it lacks is looked up once more.
        known = code_of = self._code_of
        if known.size <= (last := int(places.max(initial=0))):
            self._code_of = code_of = np.full(2 * last + 1, NO_CELL)
            code_of[: known.size] = known
        codes: Codes32 = np.take(code_of, places)
        new = np.flatnonzero(codes == NO_CELL)
        if new.size:
            codes[new] = self._table.codes(taken(values, new).cast(pl.String).cast(pl.Binary))
            code_of[places[new]] = codes[new]
        return codes

    def place(self, salt: bytes) -> None:
        self._cells = restored(self._table.values(), self._dtype).alias("key_0")
        if self._domain is not None:
            placed = place(self._cells.to_frame(), ("",), self._domain, on_null="drop", on_outside="drop")
            self.outside = () if placed.usable.all() else (0,)
            distinct = placed.cells
            if not placed.unchanged:
                distinct = distinct.unique(maintain_order=True)
                numbered = distinct.with_row_index("cell")
                number = placed.cells.join(numbered, on="key_0", how="left", maintain_order="left")["cell"]
                self._number(placed.usable, number.to_numpy())
            self._cells = distinct.to_series()
        self._hashes = value_hash(self._cells, _odd(salt, 0))

    def values(self, cells: Numbers32or64) -> list[pl.Series]:
        return [taken(self._cells, cells)]


class TabledWords(Tabled):
    """Words of several columns that do not fit beside the others."""

    def __init__(self, inner: Words) -> None:
        super().__init__(pl.UInt64())
        self._inner, self.columns = inner, inner.columns

    @property
    def memory(self) -> int:
        return self._inner.memory + self._table.memory

    def numbers(self, columns: Sequence[pl.Series]) -> Codes32:
        return self._table.codes(pl.Series(self._inner.numbers(columns).astype(np.uint64, copy=False)))

    def place(self, salt: bytes) -> None:
        self._inner.place(salt)
        self.outside = self._inner.outside
        self._cells, inside = self._inner.cells(self._table.values().to_numpy())
        usable = np.ones(self._cells.size, dtype=bool) if inside is None else inside
        distinct, number = np.unique(self._cells[usable], return_inverse=True)
        if distinct.size < usable.size:
            self._number(usable, number)
            self._cells = distinct
        self._hashes = self._inner.hashes(self._cells)

    def values(self, cells: Numbers32or64) -> list[pl.Series]:
        return self._inner.values(self._cells[cells])


class Words(Field):
    """Some columns of a log as words of 32 or 64 bits: the numbers of fields side by side. Secret."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self._fields = fields
        self.columns = sum(one.columns for one in fields)
        self.bits = sum(one.bits for one in fields)
        self._dtype = np.uint32 if self.bits <= CODE_BITS else np.uint64

    @classmethod
    def of_columns(cls, dtypes: Sequence[pl.DataType], domains: Sequence[Domain | None]) -> Words:
        """For columns of these dtypes, with the part of the domain each belongs to, or None for any value."""
        fields = [_field(*one) for one in zip(dtypes, domains, strict=True)]
        for at, one in enumerate(fields):
            if sum(each.bits for each in fields) > WORD_BITS and one.bits > CODE_BITS:
                fields[at] = TabledValues(dtypes[at], domains[at])
        while sum(one.bits for one in fields) > WORD_BITS:
            fields[:2] = [TabledWords(cls(fields[:2]))]
        return cls(fields)

    @property
    def memory(self) -> int:
        return sum(one.memory for one in self._fields)

    def numbers(self, columns: Sequence[pl.Series]) -> Numbers32or64:
        rest = iter(columns)
        return self._joined(one.numbers([next(rest) for _ in range(one.columns)]) for one in self._fields)

    def place(self, salt: bytes) -> None:
        for number, one in enumerate(self._fields):
            one.place(hashlib.blake2b(b"%d" % number, key=salt, digest_size=16).digest())
        self._odds = [np.uint64(_odd(salt, number)) for number in range(len(self._fields))]
        firsts = np.cumsum([0, *(one.columns for one in self._fields)]).tolist()
        self.outside = [first + at for first, one in zip(firsts, self._fields, strict=False) for at in one.outside]

    def cells(self, numbers: Numbers32or64) -> tuple[Numbers32or64, Inside]:
        found = [one.cells(own) for one, own in zip(self._fields, self._parted(numbers), strict=True)]
        limited = [inside for _, inside in found if inside is not None]
        return self._joined(cells for cells, _ in found), np.logical_and.reduce(limited) if limited else None

    def hashes(self, cells: Numbers32or64) -> WordArray:
        parts = zip(self._fields, self._odds, self._parted(cells), strict=True)
        products = [one.hashes(numbers) * odd for one, odd, numbers in parts]
        total: WordArray = sum(products[1:], products[0])
        return total

    def values(self, cells: Numbers32or64) -> list[pl.Series]:
        parts = zip(self._fields, self._parted(cells), strict=True)
        return [column for one, numbers in parts for column in one.values(numbers)]

    def frame(self, cells: Numbers32or64) -> pl.DataFrame:
        """Return the values of cells: columns key_0, … in canonical dtypes."""
        return pl.DataFrame(dict(zip(key_names(self.columns), self.values(cells), strict=True)))

    def _joined(self, numbers: Iterable[Numbers32or64]) -> Numbers32or64:
        first, *others = numbers
        words: NDArray[Any] = first.astype(self._dtype, copy=False)
        for one, own in zip(self._fields[1:], others, strict=True):
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
    limits = key_range(domain)
    if not is_whole(dtype) or not (limits or domain is None or isinstance(domain, Hash64) or domain.is_open):
        return TabledValues(dtype, domain)
    if limits is None:
        bits = _NARROW.get(type(dtype), WORD_BITS)
        low = -(2 ** (bits - 1)) if bits < WORD_BITS and (dtype.is_signed_integer() or dtype == pl.Date) else 0
        limits = low, low + 2**bits - 1
    return WholeNumbers(*limits, dtype if domain is None else domain.dtypes[0])


def _odd(salt: bytes, number: int) -> int:
    """Return an odd number of 64 bits that only the holder of the salt knows."""
    digest = hashlib.blake2b(b"odd %d" % number, key=salt, digest_size=8).digest()
    return int.from_bytes(digest, "little") | 1
