"""Columns of a log as words: one number of at most 64 bits per row; equal values have equal words and vice versa.

A whole number becomes its difference from the least possible one, and a category its number in Polars: no hash, no
table, no check. Text and bytes get a 32-bit code in an exact table (`codes.py`). Several columns are packed side by
side in one word; if they do not fit 64 bits, wide columns get codes too, and then pairs of columns get a code in
another table.

After the log is read, every distinct coded value is mapped to the domain, and codes become cells. `hashes` depend
only on the salt and on values, never on codes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from datetime import date
from threading import Lock
from typing import TypeAlias

import numpy as np
import polars as pl

from sparsehist.counting.batches import DICTIONARIES, is_whole, restored
from sparsehist.counting.codes import CODE_BITS, Codes, Codes32, taken, value_hash
from sparsehist.counting.keys import place
from sparsehist.domain.base import Domain, key_names
from sparsehist.domain.hash64 import Hash64
from sparsehist.domain.ranges import Dates, Integers
from sparsehist.typing import AnyArray, BoolArray, NDArray, WordArray

WORD_BITS = 64
_EPOCH = date(1970, 1, 1)
_NARROW: dict[type[pl.DataType], int] = {
    pl.Boolean: 1, pl.Int8: 8, pl.UInt8: 8, pl.Int16: 16, pl.UInt16: 16, pl.Int32: 32, pl.UInt32: 32, pl.Date: 32,
}  # fmt: skip
NO_CELL = np.uint32(2**CODE_BITS - 1)
Numbers32or64: TypeAlias = "NDArray[np.unsignedinteger]"
Inside: TypeAlias = "BoolArray | None"
"""Whether each row is inside the domain; None if all are."""
Field: TypeAlias = "WholeNumbers | Coded"


def key_range(domain: Domain | None) -> tuple[int, int] | None:
    """Return the least and the greatest number of a domain of numbers or dates (as days); None for other domains."""
    if isinstance(domain, Integers):
        return domain.low, domain.high
    return ((domain.start - _EPOCH).days, (domain.end - _EPOCH).days) if isinstance(domain, Dates) else None


class WholeNumbers:
    """Whole numbers from `low` to `high`, minus `low`; rows with other numbers were dropped before."""

    columns, memory, outside = 1, 0, ()

    def __init__(self, low: int, high: int, dtype: pl.DataType) -> None:
        self.bits, self.n_cells = max((high - low).bit_length(), 1), high - low + 1
        self._low, self._dtype = np.uint64(low % 2**WORD_BITS), dtype

    def numbers(self, columns: Sequence[pl.Series]) -> WordArray:
        found = columns[0].to_numpy().view(np.uint64)
        return found - self._low if self._low else found

    def place(self, salt: bytes) -> None:
        """Do nothing: all numbers are cells."""

    def cells(self, numbers: Numbers32or64) -> tuple[Numbers32or64, Inside]:
        return numbers, None

    def hashes(self, cells: Numbers32or64) -> WordArray:
        return cells.astype(np.uint64, copy=False)

    def values(self, cells: Numbers32or64) -> list[pl.Series]:
        numbers = cells.astype(np.uint64) + self._low
        return [restored(pl.Series(numbers.view(np.int64)), self._dtype)]


class Categories:
    """The codes that Polars gives to the categories of one column, and which of them occur."""

    memory = 0

    def __init__(self) -> None:
        self._met, self._lock = np.zeros(0, dtype=bool), Lock()
        # Keep a column: Polars renumbers categories when no column with them is left.
        self._numbered = pl.Series([], dtype=pl.Categorical)

    def codes(self, values: pl.Series) -> Codes32:
        codes = values.to_physical().to_numpy().astype(np.uint32, copy=False)
        with self._lock:
            if not self._met.size:
                self._numbered = values.clear()
            if self._met.size <= (most := int(codes.max(initial=0))):
                self._met = np.append(self._met, np.zeros(most + 1, dtype=bool))
            self._met[codes] = True
        return codes

    def values(self) -> pl.Series:
        """Return the texts by number, null for numbers that do not occur."""
        last = int(np.flatnonzero(self._met).max(initial=-1))
        numbers = pl.Series(np.arange(last + 1), dtype=self._numbered.to_physical().dtype)
        numbers = numbers.zip_with(pl.Series(self._met[: last + 1]), pl.Series([None], dtype=numbers.dtype))
        return numbers.cat.to(self._numbered.dtype).cast(pl.String)


class Coded:
    """The codes of one column's values, and its component of the domain (None allows any value)."""

    bits, columns, n_cells = CODE_BITS, 1, 0
    outside: Sequence[int] = ()
    _cell_of: Codes32 | None = None  # by code; None if every code is a cell
    _hashes: WordArray  # by cell

    def __init__(self, dtype: pl.DataType, domain: Domain | None) -> None:
        whole = pl.Int64() if is_whole(dtype) else pl.Binary()
        self._table = Categories() if dtype in DICTIONARIES else Codes(whole)
        self._dtype, self._domain = dtype, domain

    @property
    def memory(self) -> int:
        return self._table.memory

    def numbers(self, columns: Sequence[pl.Series]) -> Numbers32or64:
        return self._table.codes(columns[0])

    def place(self, salt: bytes) -> None:
        by_code = restored(self._table.values(), self._dtype).alias("key_0")
        self._cells = by_code
        if self._domain is not None:
            held = by_code.drop_nulls()
            placed = place(held.to_frame(), self._domain)
            self.outside = placed.outside
            cells = placed.cells
            if not placed.usable.all() or cells.dtypes[0] != by_code.dtype:
                numbered = cells.unique(maintain_order=True).with_row_index("cell")
                own = cells.join(numbered, on="key_0", how="left", maintain_order="left")["cell"].to_numpy()
                codes = np.flatnonzero(by_code.is_not_null().to_numpy())[placed.usable]
                self._map(by_code.len(), codes, own)
                self._cells = numbered["key_0"]
        self._hashes, self.n_cells = value_hash(self._cells, int(odd(salt, b"odd 0"))), self._cells.len()

    def _map(self, n_codes: int, codes: NDArray[np.integer], cells: NDArray[np.integer]) -> None:
        """Set the cells of some codes; the others have none."""
        self._cell_of = np.full(n_codes, NO_CELL)
        self._cell_of[codes] = cells

    def cells(self, numbers: Numbers32or64) -> tuple[Numbers32or64, Inside]:
        if self._cell_of is None:
            return numbers, None
        cells = np.take(self._cell_of, numbers, mode="clip")
        inside = cells != NO_CELL
        return cells, None if inside.all() else inside

    def hashes(self, cells: Numbers32or64) -> WordArray:
        return np.take(self._hashes, cells, mode="clip")

    def values(self, cells: Numbers32or64) -> list[pl.Series]:
        return [taken(self._cells, cells)]


class CodedWords(Coded):
    """Codes of words of several columns that together do not fit in one word."""

    def __init__(self, inner: Words) -> None:
        super().__init__(pl.Int64(), None)
        self._inner, self.columns = inner, inner.columns

    @property
    def memory(self) -> int:
        return self._table.memory + self._inner.memory

    def numbers(self, columns: Sequence[pl.Series]) -> Numbers32or64:
        words = self._inner.numbers(columns).astype(np.uint64, copy=False)
        return self._table.codes(pl.Series(words.view(np.int64)))

    def place(self, salt: bytes) -> None:
        self._inner.place(salt)
        self.outside = self._inner.outside
        words, inside = self._inner.cells(self._table.values().to_numpy().view(np.uint64))
        usable = np.arange(words.size) if inside is None else np.flatnonzero(inside)
        self._words, own = np.unique(words[usable], return_inverse=True)
        self._map(words.size, usable, own)
        self._hashes, self.n_cells = self._inner.hashes(self._words), self._words.size

    def values(self, cells: Numbers32or64) -> list[pl.Series]:
        return self._inner.values(self._words[cells])


class Words:
    """Some columns of a log as words of 32 or 64 bits, packed side by side. Secret.

    Attributes:
        columns: Number of columns.
        bits: Width of the words.
        n_cells: Upper bound on cell numbers; after `place`.
        outside: Positions of the columns in which a value was outside its domain; after `place`.
        memory: Bytes that distinct values take.
    """

    def __init__(self, fields: Sequence[Field]) -> None:
        self._fields = fields
        self.columns = sum(one.columns for one in fields)
        self.bits = sum(one.bits for one in fields)
        self._dtype = np.uint32 if self.bits <= CODE_BITS else np.uint64

    @classmethod
    def of_columns(cls, dtypes: Sequence[pl.DataType], domains: Sequence[Domain | None]) -> Words:
        """Make words for columns with these dtypes and components of the domain (None allows any value)."""
        fields = [_field(*one) for one in zip(dtypes, domains, strict=True)]
        for at, one in enumerate(fields):
            if sum(each.bits for each in fields) > WORD_BITS and one.bits > CODE_BITS:
                fields[at] = Coded(dtypes[at], domains[at])
        while sum(one.bits for one in fields) > WORD_BITS:
            fields[:2] = [CodedWords(cls(fields[:2]))]
        return cls(fields)

    @property
    def memory(self) -> int:
        return sum(one.memory for one in self._fields)

    def numbers(self, columns: Sequence[pl.Series]) -> Numbers32or64:
        """Convert rows (columns from `batches.plain`) to words. Thread-safe."""
        rest = iter(columns)
        return self._joined(one.numbers([next(rest) for _ in range(one.columns)]) for one in self._fields)

    def place(self, salt: bytes) -> None:
        """Map the distinct values to cells of the domain, after all rows were read."""
        self._odds = [odd(salt, b"odd %d" % number) for number in range(len(self._fields))]
        self.outside, first = list[int](), 0
        for number, one in enumerate(self._fields):
            one.place(hashlib.blake2b(b"%d" % number, key=salt, digest_size=16).digest())
            self.outside += [first + at for at in one.outside]
            first += one.columns
        self.n_cells = self._fields[0].n_cells << self.bits - self._fields[0].bits

    def cells(self, numbers: Numbers32or64) -> tuple[Numbers32or64, Inside]:
        """Convert words of rows to cells, and return which rows have a cell; after `place`."""
        found = [one.cells(own) for one, own in zip(self._fields, self._parted(numbers), strict=True)]
        limited = [inside for _, inside in found if inside is not None]
        return self._joined(cells for cells, _ in found), np.logical_and.reduce(limited) if limited else None

    def hashes(self, cells: Numbers32or64) -> WordArray:
        """Hash cells by value, shape (n,); different cells may, rarely, have equal hashes."""
        total = np.zeros(cells.size, dtype=np.uint64)
        for one, factor, numbers in zip(self._fields, self._odds, self._parted(cells), strict=True):
            total += one.hashes(numbers) * factor
        return total

    def values(self, cells: Numbers32or64) -> list[pl.Series]:
        """Return the values of cells, column by column, in canonical dtypes."""
        parts = zip(self._fields, self._parted(cells), strict=True)
        return [column for one, numbers in parts for column in one.values(numbers)]

    def frame(self, cells: Numbers32or64) -> pl.DataFrame:
        """Return the values of cells: columns key_0, … in canonical dtypes."""
        return pl.DataFrame(dict(zip(key_names(self.columns), self.values(cells), strict=True)))

    def _joined(self, numbers: Iterable[Numbers32or64]) -> Numbers32or64:
        first, *others = numbers
        words: AnyArray = first.astype(self._dtype, copy=False)
        for one, own in zip(self._fields[1:], others, strict=True):
            words = words << self._dtype(one.bits) | own.astype(self._dtype, copy=False)
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
    """Choose how a column becomes numbers: by its range if all values in it are cells, else by codes."""
    limits = key_range(domain)
    if not is_whole(dtype) or not (limits or domain is None or isinstance(domain, Hash64) or domain.is_open):
        return Coded(dtype, domain)
    if limits is None:
        bits = _NARROW.get(type(dtype), WORD_BITS)
        low = -(2 ** (bits - 1)) if bits < WORD_BITS and (dtype.is_signed_integer() or dtype == pl.Date) else 0
        limits = low, low + 2**bits - 1
    return WholeNumbers(*limits, dtype if domain is None else domain.dtypes[0])


def odd(salt: bytes, purpose: bytes) -> np.uint64:
    """Return a secret odd number of 64 bits, derived from the salt."""
    digest = hashlib.blake2b(purpose, key=salt, digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little") | 1)
