"""Columns of a log as words: one number of at most 64 bits per row; equal rows have equal words and vice versa.

A whole number becomes its difference from the least possible one: no hash, no table, no check. Text and bytes get a
32-bit code in an exact table (`codes.py`). Several columns are packed side by side in one word; if they do not fit 64
bits, one table gives codes to whole rows.

After the log is read, every distinct coded row is mapped to the domain, and codes become cells. `hashes` depend only
on the salt and on values, never on codes.
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
Inside: TypeAlias = "BoolArray | None"
"""Whether each row is inside the domain; None if all are."""


def key_range(domain: Domain | None) -> tuple[int, int] | None:
    """Return the least and the greatest number of a domain of numbers or dates (as days); None for other domains."""
    if isinstance(domain, Integers):
        return domain.low, domain.high
    return ((domain.start - _EPOCH).days, (domain.end - _EPOCH).days) if isinstance(domain, Dates) else None


class WholeNumbers:
    """One column of whole numbers from `low` to `high`, minus `low`; rows with other numbers were dropped before."""

    outside: Sequence[int] = ()

    def __init__(self, low: int, high: int, dtype: pl.DataType) -> None:
        self.bits, self.n_cells = max((high - low).bit_length(), 1), high - low + 1
        self._low, self._dtype = np.uint64(low % 2**WORD_BITS), dtype

    def numbers(self, rows: pl.DataFrame) -> WordArray:
        return rows.to_series().to_numpy().view(np.uint64) - self._low

    def place(self, seed: np.uint64) -> None:
        self._seed = seed

    def cells(self, numbers: Numbers32or64) -> tuple[Numbers32or64, Inside]:
        return numbers, None

    def hashes(self, cells: Numbers32or64) -> WordArray:
        return cells * self._seed

    def values(self, cells: Numbers32or64) -> list[pl.Series]:
        numbers = cells.astype(np.uint64) + self._low
        return [restored(pl.Series(numbers.view(np.int64)), self._dtype)]


class Categories:
    """The codes of one categorical column: the numbers that Polars gives its categories."""

    def __init__(self) -> None:
        self._seen, self._lock = np.zeros(0, dtype=bool), Lock()
        self._column = pl.Series([], dtype=pl.Categorical)

    def codes(self, rows: pl.DataFrame) -> Codes32:
        codes = rows.to_series().to_physical().to_numpy().astype(np.uint32, copy=False)
        with self._lock:
            self._column = rows.to_series()  # Polars renumbers categories when no column with them is left
            more = int(codes.max(initial=0)) + 1 - self._seen.size
            self._seen = np.append(self._seen, np.zeros(max(more, 0), dtype=bool))
            self._seen[codes] = True
        return codes

    def values(self) -> pl.DataFrame:
        """Return the text of each code, null if it does not occur."""
        numbers = pl.Series(np.arange(self._seen.size), dtype=self._column.to_physical().dtype)
        numbers = numbers.zip_with(pl.Series(self._seen), pl.Series([None], dtype=numbers.dtype))
        return numbers.cat.to(self._column.dtype).cast(pl.String).to_frame()


class Coded:
    """The codes of the rows of some columns, and their domain (None allows any value)."""

    bits, n_cells = CODE_BITS, 0
    outside: Sequence[int] = ()
    _cell_of: Codes32 | None = None  # by code; None if every code is a cell

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
            self.outside = placed.outside
            if not placed.unchanged:
                cells = placed.cells.unique(maintain_order=True).with_row_index("cell")
                of_usable = placed.cells.join(cells, on=placed.cells.columns, how="left", maintain_order="left")
                self._cell_of = np.full(placed.usable.size, NO_CELL)
                self._cell_of[placed.usable] = of_usable["cell"].to_numpy()
                placed = placed._replace(cells=cells.drop("cell"))
            self._cells = placed.cells
        self._hashes, self.n_cells = row_hash(self._cells, int(seed)), self._cells.height

    def cells(self, numbers: Numbers32or64) -> tuple[Numbers32or64, Inside]:
        if self._cell_of is None:
            return numbers, None
        cells = np.take(self._cell_of, numbers, mode="clip")
        inside = cells != NO_CELL
        return cells, None if inside.all() else inside

    def hashes(self, cells: Numbers32or64) -> WordArray:
        return np.take(self._hashes, cells, mode="clip")

    def values(self, cells: Numbers32or64) -> list[pl.Series]:
        return [take(column, cells) for column in self._cells]


class Words:
    """Some columns of a log as words of 32 or 64 bits. Secret.

    Args:
        names: Names of the columns of `frame`.
        dtypes: Their dtypes in the log.
        domain: Their domain; None allows any value.

    Attributes:
        n_cells: Upper bound on cell numbers; after `place`.
        outside: Positions of the columns in which a value was outside its domain; after `place`.
    """

    def __init__(self, names: Sequence[str], dtypes: Sequence[pl.DataType], domain: Domain | None) -> None:
        parts = [None] * len(dtypes) if domain is None else domain.parts
        self._names, self._fields = names, [_field(*one) for one in zip(dtypes, parts, strict=True)]
        if sum(one.bits for one in self._fields) > WORD_BITS:
            self._fields = [Coded(dtypes, domain)]
        self._shifts = [sum(one.bits for one in self._fields[number:]) for number in range(1, len(self._fields) + 1)]
        self._dtype = np.uint32 if self._shifts[0] + self._fields[0].bits <= CODE_BITS else np.uint64

    def numbers(self, rows: pl.DataFrame) -> Numbers32or64:
        """Convert rows (columns from `batches.plain`) to words. Thread-safe."""
        parts = [rows] if len(self._fields) == 1 else [column.to_frame() for column in rows]
        return self._joined(one.numbers(part) for one, part in zip(self._fields, parts, strict=True))

    def place(self, salt: bytes) -> None:
        """Map the distinct rows to cells of the domain, after all were read."""
        for number, one in enumerate(self._fields):
            one.place(odd(salt, b"column %d" % number))
        self.outside = [number + at for number, one in enumerate(self._fields) for at in one.outside]
        self.n_cells = self._fields[0].n_cells << self._shifts[0]

    def cells(self, numbers: Numbers32or64) -> tuple[Numbers32or64, Inside]:
        """Convert words of rows to cells, and return which rows have a cell; after `place`."""
        parts = [one.cells(part) for one, part in zip(self._fields, self._parted(numbers), strict=True)]
        limited = [inside for _, inside in parts if inside is not None]
        return self._joined(cells for cells, _ in parts), np.logical_and.reduce(limited) if limited else None

    def hashes(self, cells: Numbers32or64) -> WordArray:
        """Hash cells by value, shape (n,); different cells may, rarely, have equal hashes."""
        total = np.zeros(cells.size, dtype=np.uint64)
        for one, part in zip(self._fields, self._parted(cells), strict=True):
            total += one.hashes(part)
        return total

    def frame(self, cells: Numbers32or64) -> pl.DataFrame:
        """Return the values of cells, in canonical dtypes."""
        parts = zip(self._fields, self._parted(cells), strict=True)
        columns = [column for one, part in parts for column in one.values(part)]
        return pl.DataFrame(dict(zip(self._names, columns, strict=True)))

    def _joined(self, parts: Iterable[Numbers32or64]) -> Numbers32or64:
        words: Numbers32or64 = np.zeros(1, self._dtype)
        for one, part in zip(self._fields, parts, strict=True):
            words = words << self._dtype(one.bits) | part.astype(self._dtype, copy=False)
        return words

    def _parted(self, words: Numbers32or64) -> list[Numbers32or64]:
        if len(self._fields) == 1:
            return [words]
        fields = zip(self._fields, self._shifts, strict=True)
        return [words >> self._dtype(shift) & self._dtype(2**one.bits - 1) for one, shift in fields]


def _field(dtype: pl.DataType, domain: Domain | None) -> WholeNumbers | Coded:
    """Choose how a column becomes numbers: by its range if all values in it are cells, else by codes."""
    limits = key_range(domain)
    if not is_whole(dtype) or not (limits or domain is None or isinstance(domain, Hash64) or domain.is_open):
        return Coded([dtype], domain)
    if limits is None:
        physical = pl.Series([], dtype=pl.UInt8 if dtype == pl.Boolean else dtype).to_physical().to_numpy()
        limits = int(np.iinfo(physical.dtype).min), int(np.iinfo(physical.dtype).max)
    return WholeNumbers(*limits, dtype if domain is None else domain.dtypes[0])


def odd(salt: bytes, purpose: bytes) -> np.uint64:
    """Return a secret odd number of 64 bits, derived from the salt."""
    digest = hashlib.blake2b(purpose, key=salt, digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little") | 1)
