"""Convert columns of a log to words: one integer of at most 64 bits for each row. Different rows get different words.

An integer becomes its offset from the smallest integer of its range, which needs no hash or table. A text or bytes
value becomes a 32-bit code from an exact table (`codes.py`). The numbers of several columns are packed into one word;
if they need more than 64 bits, one table gives a code to each distinct row.

After the log is read, the value of each code is mapped to the domain, and codes become cells. The hash of a cell
depends only on the salt and on its value, never on codes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import date
from functools import reduce
from threading import Lock
from typing import TypeAlias

import numpy as np
import polars as pl

from sparsehist.counting.batches import DICTIONARIES, is_whole, restored
from sparsehist.counting.codes import CODE_BITS, Codes, Codes32, row_hash, take
from sparsehist.counting.keys import place
from sparsehist.domain.base import Domain, key_names
from sparsehist.domain.hash64 import Hash64
from sparsehist.domain.ranges import Dates, Integers
from sparsehist.typing import BoolArray, NDArray, WordArray

WORD_BITS = 64
_EPOCH = date(1970, 1, 1)
NO_CELL = np.uint32(2**CODE_BITS - 1)
Numbers32or64: TypeAlias = "NDArray[np.unsignedinteger]"


def key_range(domain: Domain | None) -> tuple[int, int] | None:
    """Return the smallest and largest integer of a domain of integers or dates (as days since 1970), else None."""
    if isinstance(domain, Integers):
        return domain.low, domain.high
    return ((domain.start - _EPOCH).days, (domain.end - _EPOCH).days) if isinstance(domain, Dates) else None


class WholeNumbers:
    """Convert a column of whole numbers by subtracting `low`. Every number from `low` to `high` is a cell."""

    outside, cell_of = (), None

    def __init__(self, low: int, high: int, dtype: pl.DataType) -> None:
        self.bits, self.n_cells = max((high - low).bit_length(), 1), high - low + 1
        self._low, self._dtype = np.uint64(low % 2**WORD_BITS), dtype

    def numbers(self, rows: pl.DataFrame) -> WordArray:
        return rows.to_series().to_numpy().view(np.uint64) - self._low

    def place(self, seed: np.uint64) -> None:
        self._seed = seed

    def hashes(self, cells: Numbers32or64) -> WordArray:
        return cells * self._seed

    def values(self, cells: Numbers32or64) -> list[pl.Series]:
        numbers = cells.astype(np.uint64) + self._low
        return [restored(pl.Series(numbers.view(np.int64)), self._dtype)]


class Categories:
    """Convert a categorical column to codes, which are the integers that Polars itself uses for the categories."""

    def __init__(self) -> None:
        self._lock, self._seen, self._column = Lock(), np.zeros(0, dtype=bool), pl.Series(dtype=pl.Categorical)

    def codes(self, rows: pl.DataFrame) -> Codes32:
        codes = rows.to_series().to_physical().to_numpy().astype(np.uint32, copy=False)
        with self._lock:
            self._column = rows.to_series()  # Polars may renumber categories that no column uses, so keep a column
            self._seen.resize(max(self._seen.size, int(codes.max(initial=0)) + 1), refcheck=False)
            self._seen[codes] = True
        return codes

    def values(self) -> pl.DataFrame:
        """Return the text of each code; null for codes that do not occur in the log."""
        numbers = pl.Series(np.arange(self._seen.size), dtype=self._column.to_physical().dtype)
        return numbers.set(pl.Series(~self._seen), None).cat.to(self._column.dtype).cast(pl.String).to_frame()


class Coded:
    """Convert rows of some columns to codes, and codes to cells. Without a domain, each distinct row is a cell."""

    bits, n_cells = CODE_BITS, 0
    outside: Sequence[int] = ()
    cell_of: Codes32 | None = None  # the cell of each code, or NO_CELL; None if each code is a cell

    def __init__(self, dtypes: Sequence[pl.DataType], domain: Domain | None) -> None:
        of_categories = len(dtypes) == 1 and isinstance(dtypes[0], DICTIONARIES)
        whole = [pl.Int64() if is_whole(dtype) else pl.Binary() for dtype in dtypes]
        self._table = Categories() if of_categories else Codes(whole)
        self._dtypes, self._domain = dtypes, domain

    def numbers(self, rows: pl.DataFrame) -> Codes32:
        if isinstance(self._table, Codes):
            rows = rows.with_columns(pl.col(*DICTIONARIES).cast(pl.String).cast(pl.Binary))
        return self._table.codes(rows)

    def place(self, seed: np.uint64) -> None:
        values = zip(self._table.values(), self._dtypes, key_names(len(self._dtypes)), strict=True)
        self._cells = pl.DataFrame([restored(column, dtype).alias(name) for column, dtype, name in values])
        if self._domain is not None:
            placed = place(self._cells, self._domain)
            self.outside, self._cells = placed.outside, placed.cells
            if not placed.unchanged:
                cells = Codes(placed.cells.dtypes)  # several values may have the same cell
                self.cell_of = np.full(placed.usable.size, NO_CELL)
                self.cell_of[placed.usable] = cells.codes(placed.cells)
                self._cells = cells.values()
        self._hashes, self.n_cells = row_hash(self._cells, int(seed)), self._cells.height

    def hashes(self, cells: Numbers32or64) -> WordArray:
        return np.take(self._hashes, cells, mode="clip")

    def values(self, cells: Numbers32or64) -> list[pl.Series]:
        return take(self._cells, cells).get_columns()


class Words:
    """Convert some columns of a log to words, words to cells of the domain, and cells back to values. Secret.

    A word is an integer of 32 or 64 bits that identifies the values of a row. A cell is an integer for a key of the
    domain: several words have the same cell if their values have the same canonical form.

    Args:
        names: Names that the columns have in `frame`.
        dtypes: Dtypes of the columns in the log.
        domain: Domain of the columns; None allows any value.

    Attributes:
        n_cells: A number above the integers of all cells; set by `place`.
        outside: Positions of the columns with values outside their domain; set by `place`.
    """

    def __init__(self, names: Sequence[str], dtypes: Sequence[pl.DataType], domain: Domain | None) -> None:
        parts = [None] * len(dtypes) if domain is None else domain.parts
        self._names, self._fields = names, [_field(*one) for one in zip(dtypes, parts, strict=True)]
        if sum(one.bits for one in self._fields) > WORD_BITS:
            self._fields = [Coded(dtypes, domain)]
        self._shifts = [sum(one.bits for one in self._fields[number:]) for number in range(1, len(self._fields) + 1)]
        self._dtype = np.uint32 if self._shifts[0] + self._fields[0].bits <= CODE_BITS else np.uint64

    def numbers(self, rows: pl.DataFrame) -> Numbers32or64:
        """Convert rows to words. `batches.plain` must already have converted their columns. Thread-safe."""
        parts = [rows] if len(self._fields) == 1 else [column.to_frame() for column in rows]
        return self._joined([one.numbers(part) for one, part in zip(self._fields, parts, strict=True)])

    def place(self, salt: bytes, of: bytes) -> None:
        """Map the distinct rows to cells of the domain, after the whole log is read. `of` is b"unit" or b"key"."""
        for number, one in enumerate(self._fields):
            one.place(odd(salt, of + b" column %d" % number))
        self.outside = [number + at for number, one in enumerate(self._fields) for at in one.outside]
        self.n_cells = self._fields[0].n_cells << self._shifts[0]

    def cells(self, words: Numbers32or64) -> tuple[Numbers32or64, BoolArray | slice]:
        """Return the cells of words, and a mask or slice of the words that have a cell. Call `place` first."""
        if all(one.cell_of is None for one in self._fields):
            return words, slice(None)
        parts, inside = self._parted(words), np.ones(words.size, dtype=bool)
        for number, one in enumerate(self._fields):
            if one.cell_of is not None:
                parts[number] = np.take(one.cell_of, parts[number], mode="clip")
                inside &= parts[number] != NO_CELL
        return self._joined(parts), inside

    def hashes(self, cells: Numbers32or64) -> WordArray:
        """Hash the values of cells; different cells rarely have equal hashes."""
        parts = zip(self._fields, self._parted(cells), strict=True)
        return reduce(np.add, (one.hashes(part) for one, part in parts))

    def frame(self, cells: Numbers32or64) -> pl.DataFrame:
        """Return the values of cells, in canonical dtypes."""
        parts = zip(self._fields, self._parted(cells), strict=True)
        columns = [column for one, part in parts for column in one.values(part)]
        return pl.DataFrame(dict(zip(self._names, columns, strict=True)))

    def _joined(self, parts: Sequence[Numbers32or64]) -> Numbers32or64:
        words: Numbers32or64 = parts[0].astype(self._dtype, copy=len(parts) > 1)
        for one, part in zip(self._fields[1:], parts[1:], strict=True):
            words <<= one.bits
            words |= part
        return words

    def _parted(self, words: Numbers32or64) -> list[Numbers32or64]:
        if len(self._fields) == 1:
            return [words]
        fields = zip(self._fields, self._shifts, strict=True)
        return [words >> self._dtype(shift) & self._dtype(2**one.bits - 1) for one, shift in fields]


def _field(dtype: pl.DataType, domain: Domain | None) -> WholeNumbers | Coded:
    """Choose how to convert a column: by subtraction if every integer in its range is a cell, else by codes."""
    limits = key_range(domain)
    if not is_whole(dtype) or not (limits or domain is None or isinstance(domain, Hash64) or domain.is_open):
        return Coded([dtype], domain)
    if limits is None:
        physical = pl.Series([], dtype=pl.UInt8 if dtype == pl.Boolean else dtype).to_physical().to_numpy()
        limits = int(np.iinfo(physical.dtype).min), int(np.iinfo(physical.dtype).max)
    return WholeNumbers(*limits, dtype if domain is None else domain.dtypes[0])


def odd(salt: bytes, purpose: bytes) -> np.uint64:
    """Derive a secret odd number of 64 bits from the salt."""
    digest = hashlib.blake2b(purpose, key=salt, digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little") | 1)
