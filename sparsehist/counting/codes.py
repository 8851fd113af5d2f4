"""Exact codes of rows (0, 1, 2, …): two rows have one code if and only if all their values are equal.

Rows are looked up by a 64-bit hash in an open-addressing table, a whole batch at once; then every row is compared
with the row of its code. So a hash collision costs time, but never merges two rows. (Polars' categoricals are exact
too, but take up to twice as long.) Codes depend on the order of the log, so they must not decide which keys count.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from threading import Lock
from typing import TypeAlias

import numpy as np
import polars as pl

from sparsehist.domain.base import key_names
from sparsehist.errors import DataError
from sparsehist.typing import IndexArray, IntArray, NDArray, WordArray

Codes32: TypeAlias = "NDArray[np.uint32]"
CODE_BITS = 32
MOST_CODES = 2**CODE_BITS - 2
_FIRST_BITS = 15
_SLOTS_PER_ROW = 2  # at least; in a half-full table, two of three rows are in their first slot
_BLOCK = 1 << 16  # rows looked up at a time: their temporaries stay in the cache of a core


def row_hash(rows: pl.DataFrame, seed: int) -> WordArray:
    """Hash rows; equal rows have equal hashes."""
    return rows.hash_rows(seed).to_numpy()


def take(values: pl.Series, positions: NDArray[np.integer]) -> pl.Series:
    """Take values by position, without the query plan of Polars' `gather`."""
    return values[pl.Series(positions.astype(np.uint32, copy=False))]


def _rows(rows: pl.DataFrame, positions: NDArray[np.integer]) -> pl.DataFrame:
    """Take rows by position; name the columns key_0, …."""
    columns = (take(column, positions) for column in rows)
    return pl.DataFrame(dict(zip(key_names(rows.width), columns, strict=True)))


class Codes:
    """The distinct rows of columns of these dtypes, and their codes. Thread-safe. Secret."""

    def __init__(self, dtypes: Sequence[pl.DataType]) -> None:
        self._seed, self._lock = secrets.randbits(64), Lock()
        # Rows by code: many rows in one chunk, then smaller chunks of newer rows.
        names = key_names(len(dtypes))
        self._values, self._in_first_chunk = pl.DataFrame(schema=dict(zip(names, dtypes, strict=True))), 0
        # A slot holds a code plus one, or 0 if it is free; hashes are by code.
        self._slots: Codes32 = np.zeros(1 << _FIRST_BITS, dtype=np.uint32)
        self._hashes: WordArray = np.empty(0, dtype=np.uint64)
        self._size = 0
        # Codes, by the text of a row, of rows whose hash equals the hash of another row. They have no slots.
        self._strays: dict[str, int] = {}

    def values(self) -> pl.DataFrame:
        """Return the distinct rows by code, in one chunk: taking rows is then six times as fast."""
        return self._values.rechunk()

    def codes(self, rows: pl.DataFrame) -> Codes32:
        """Return the codes of rows without nulls, adding codes for new rows; shape (n,)."""
        # If rows are sorted by the first bits of their hash, slots and codes are accessed from left to right, so
        # look-ups rarely wait for memory.
        hashes = row_hash(rows, self._seed)
        order = np.argsort((hashes >> np.uint64(48)).astype(np.uint16), kind="stable")  # a radix sort
        hashes, rows = np.take(hashes, order, mode="clip"), _rows(rows, order)
        codes = np.empty(order.size, dtype=np.uint32)
        with self._lock:
            self._reserve(order.size)
            new = [np.empty(0, dtype=np.intp)]
            for start in range(0, order.size, _BLOCK):
                block = slice(start, start + _BLOCK)
                new.append(self._look_up(hashes[block], codes[block]) + start)
            self._append(_rows(rows, np.concatenate(new)))
            by_code = self._values
        pairs = zip(_rows(by_code, codes), rows, strict=True)
        strays = np.flatnonzero(np.logical_or.reduce([ours.ne(theirs).to_numpy() for ours, theirs in pairs]))
        if strays.size:
            with self._lock:
                codes[strays] = self._stray_codes(_rows(rows, strays))
        in_order = np.empty(order.size, dtype=np.uint32)
        in_order[order] = codes
        return in_order

    def _reserve(self, more: int) -> None:
        """Reserve memory for `more` hashes and slots."""
        most = self._size + more
        if most > MOST_CODES:
            raise DataError("the log has too many distinct values for one machine: count it with Spark")
        if self._hashes.size < most:
            self._hashes = np.append(self._hashes[: self._size], np.empty(more + most // 2, dtype=np.uint64))
        if self._slots.size < _SLOTS_PER_ROW * most:
            self._slots = np.zeros(1 << (_SLOTS_PER_ROW * most).bit_length(), dtype=np.uint32)
            codes = np.delete(np.arange(self._size), list(self._strays.values()))
            slots = self._home(self._hashes[codes])
            while codes.size:
                free = self._slots[slots] == 0
                self._slots[slots[free]] = codes[free] + 1
                lost = self._slots[slots] != codes + 1
                codes, slots = codes[lost], self._next(slots[lost])

    def _home(self, hashes: WordArray) -> IntArray:
        """Return the first slot of each hash."""
        return (hashes >> np.uint64(65 - self._slots.size.bit_length())).view(np.int64)

    def _next(self, slots: IntArray) -> IntArray:
        return (slots + 1) & (self._slots.size - 1)

    def _look_up(self, hashes: WordArray, codes: Codes32) -> IndexArray:
        """Write the code of each hash into `codes`, adding codes for new hashes; return the rows of these by code."""
        slots = self._home(hashes)
        # Without a range check, `take` needs half the time. A free slot gives the largest possible code.
        np.subtract(np.take(self._slots, slots, mode="clip"), np.uint32(1), out=codes)
        rows = np.flatnonzero((np.take(self._hashes, codes, mode="clip") != hashes) | (codes > MOST_CODES))
        slots, new = slots[rows], [np.empty(0, dtype=np.intp)]
        while rows.size:
            free = np.flatnonzero(self._slots[slots] == 0)
            # If several rows claim one slot, the last one to write its number gets it; the others try the next slot.
            mine = np.arange(1, free.size + 1, dtype=np.uint32)
            self._slots[slots[free]] = mine
            first = free[self._slots[slots[free]] == mine]
            end = self._size + first.size
            self._slots[slots[first]] = np.arange(self._size + 1, end + 1, dtype=np.uint32)
            self._hashes[self._size : end] = hashes[rows[first]]
            self._size = end
            new.append(rows[first])
            codes[rows] = self._slots[slots] - np.uint32(1)
            other = self._hashes[codes[rows]] != hashes[rows]
            rows, slots = rows[other], self._next(slots[other])
        return np.concatenate(new)

    def _stray_codes(self, rows: pl.DataFrame) -> Codes32:
        """Return the codes of rows whose hash equals the hash of another row."""
        texts = [repr(row) for row in rows.rows()]
        new = {text: number for number, text in enumerate(texts) if text not in self._strays}
        self._reserve(len(new))
        self._strays.update(zip(new, range(self._size, self._size + len(new)), strict=True))
        self._size += len(new)
        self._append(_rows(rows, np.array(list(new.values()), np.uint32)))
        return np.array([self._strays[text] for text in texts], dtype=np.uint32)

    def _append(self, new: pl.DataFrame) -> None:
        """Append the rows of new codes."""
        if new.is_empty():
            return
        # Copy texts and bytes: a view of a few values would keep the whole batch in memory.
        new = pl.DataFrame(new.to_arrow(compat_level=pl.CompatLevel.oldest()))
        self._values = pl.concat([self._values, new], rechunk=False)
        # Taking rows from one chunk is faster, but joining chunks copies all rows: join when an eighth is new.
        if 8 * (self._size - self._in_first_chunk) > self._size:
            self._values, self._in_first_chunk = self._values.rechunk(), self._size
