"""Exact codes of values: 0, 1, 2, …, equal exactly where the values are equal.

Values are looked up by a 64-bit hash in an open-addressing table, a whole batch at once; then every value is compared
with the value of its code. So a hash collision costs time, but never merges two values. (Polars' categoricals are
exact too, but take up to twice as long.) Codes depend on the order of the log, so they must not decide which keys
count.
"""

from __future__ import annotations

import secrets
from threading import Lock
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from sparsehist.errors import DataError
from sparsehist.typing import IndexArray, IntArray, NDArray, WordArray

Codes32: TypeAlias = "NDArray[np.uint32]"
CODE_BITS = 32
MOST_CODES = 2**CODE_BITS - 2
_FIRST_BITS = 15
_SLOTS_PER_VALUE = 2  # at least; in a half-full table, two of three values are found in the first slot
_MANY = 1 << 22  # values, whose 64 MB take as long to copy as a batch loses by several chunks
_BLOCK = 1 << 16  # rows looked up at a time: their temporaries stay in the cache of a core


def value_hash(values: pl.Series, seed: int) -> WordArray:
    """Hash values; equal values have equal hashes."""
    return values.hash(seed).to_numpy()


def taken(values: pl.Series, places: NDArray[np.integer]) -> pl.Series:
    """Take values by position, without the query plan of Polars' `gather`."""
    return values[pl.Series(places.astype(np.uint32, copy=False))]


class Codes:
    """The distinct values read so far, and their codes. Thread-safe. Secret."""

    def __init__(self, dtype: pl.DataType) -> None:
        self._seed, self._lock = secrets.randbits(64), Lock()
        # Values by code: many values in one chunk, then smaller chunks of newer values.
        self._values, self._settled = pl.Series([], dtype=dtype), 0
        # A slot holds a code plus one, or 0 if it is free; hashes are by code.
        self._slots: Codes32 = np.zeros(1 << _FIRST_BITS, dtype=np.uint32)
        self._hashes: WordArray = np.empty(0, dtype=np.uint64)
        self._size = 0
        # Values whose hash equals the hash of another value. They have codes, but no slots.
        self._strays: dict[Any, int] = {}

    @property
    def memory(self) -> int:
        """Bytes of values, hashes and slots, without reserves."""
        of_value = self._hashes.itemsize + _SLOTS_PER_VALUE * self._slots.itemsize
        return int(self._values.estimated_size()) + self._size * of_value

    def values(self) -> pl.Series:
        """Return the distinct values by code, in one chunk: taking rows is then six times as fast."""
        return self._values.rechunk()

    def codes(self, values: pl.Series) -> Codes32:
        """Return the codes of values without nulls, adding codes for new values; shape (n,)."""
        # If values are sorted by their first bits, slots and codes are accessed from left to right, so look-ups
        # rarely wait for memory.
        hashes = value_hash(values, self._seed)
        order = np.argsort((hashes >> np.uint64(48)).astype(np.uint16), kind="stable")  # a radix sort
        hashes, values = np.take(hashes, order, mode="clip"), taken(values, order)
        codes = np.empty(order.size, dtype=np.uint32)
        with self._lock:
            self._reserve(order.size)
            new = [np.empty(0, dtype=np.intp)]
            for start in range(0, order.size, _BLOCK):
                block = slice(start, start + _BLOCK)
                new.append(self._look_up(hashes[block], codes[block]) + start)
            self._append(taken(values, np.concatenate(new)))
            by_code = self._values
        strays = np.flatnonzero(taken(by_code, codes).ne(values).to_numpy())
        if strays.size:
            with self._lock:
                codes[strays] = self._stray_codes(taken(values, strays))
        found = np.empty(order.size, dtype=np.uint32)
        found[order] = codes
        return found

    def _reserve(self, more: int) -> None:
        """Make room for `more` hashes and slots."""
        most = self._size + more
        if most > MOST_CODES:
            raise DataError("the log has too many distinct values for one machine: count it with Spark")
        if self._hashes.size < most:
            self._hashes = np.append(self._hashes[: self._size], np.empty(more + most // 2, dtype=np.uint64))
        if self._slots.size < _SLOTS_PER_VALUE * most:
            self._slots = np.zeros(1 << (_SLOTS_PER_VALUE * most).bit_length(), dtype=np.uint32)
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
        """Fill `codes` for hashes, adding codes for new hashes; return the rows of the new hashes, by code."""
        slots = self._home(hashes)
        # Without a range check, `take` needs half the time. A free slot gives the largest possible code.
        np.subtract(np.take(self._slots, slots, mode="clip"), np.uint32(1), out=codes)
        rows = np.flatnonzero((np.take(self._hashes, codes, mode="clip") != hashes) | (codes > MOST_CODES))
        slots, new = slots[rows], [np.empty(0, dtype=np.intp)]
        while rows.size:
            free = np.flatnonzero(self._slots[slots] == 0)
            # If several rows claim one slot, the last to write its number gets it; the others look again.
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

    def _stray_codes(self, values: pl.Series) -> Codes32:
        """Return the codes of values whose hash equals the hash of another value."""
        listed = values.to_list()
        new = [value for value in dict.fromkeys(listed) if value not in self._strays]
        self._reserve(len(new))
        self._strays.update(zip(new, range(self._size, self._size + len(new)), strict=True))
        self._size += len(new)
        self._append(pl.Series(new, dtype=values.dtype))
        return np.array([self._strays[value] for value in listed], dtype=np.uint32)

    def _append(self, new: pl.Series) -> None:
        """Append the values of new codes."""
        if not new.len():
            return
        if new.dtype == pl.Binary:
            # A copy: a view would keep the whole batch in memory for a few values.
            new = pl.DataFrame(new.to_frame().to_arrow(compat_level=pl.CompatLevel.oldest())).to_series()
        self._values = pl.concat([self._values, new.alias("")], rechunk=False)
        # To join all values costs less than to take them from several chunks, unless there are many.
        if self._size < _MANY or 8 * (self._size - self._settled) > self._size:
            self._values, self._settled = self._values.rechunk(), self._size
