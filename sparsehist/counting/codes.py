"""Exact codes of values: 0, 1, 2, …, equal exactly where the values are equal.

Values are looked up by a 64-bit hash in an open-addressing table, a whole batch at once; then every value is compared
with the value of its code. A hash collision therefore costs time and never merges two values. (Polars' categoricals
are exact too, and take up to twice as long.) Codes depend on the order of the log: nothing may be chosen by them.
"""

from __future__ import annotations

import secrets
from threading import Lock
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from sparsehist.errors import DataError
from sparsehist.typing import BoolArray, IndexArray, IntArray, NDArray, WordArray

Codes32: TypeAlias = "NDArray[np.uint32]"
CODE_BITS = 32
MOST_CODES = 2**CODE_BITS - 2
_FIRST_BITS = 15
_SLOTS_PER_VALUE = 2  # at least: in a half-full table, two of three values are found at once
_FREE = np.uint32(0)
_BLOCK = 1 << 16  # rows looked up at a time: their temporaries stay in the cache of a core


def value_hash(values: pl.Series, seed: int) -> WordArray:
    """Hash values; equal values have equal hashes."""
    return values.hash(seed).to_numpy()


def sorted_words(words: NDArray[np.unsignedinteger]) -> NDArray[np.unsignedinteger]:
    """Sort words in the calling thread; Polars takes a third of numpy's time."""
    found: NDArray[np.unsignedinteger] = pl.Series(words).sort(multithreaded=False).to_numpy()
    return found


def first_of_runs(ordered: NDArray[np.generic]) -> BoolArray:
    """Mark the first of each run of equal values."""
    first = np.empty(ordered.size, dtype=bool)
    first[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return first


def taken(values: pl.Series, places: NDArray[np.integer]) -> pl.Series:
    """Take values by position, without the query plan that Polars makes for `gather`."""
    return values[pl.Series(places.astype(np.uint32, copy=False))]


class Codes:
    """The distinct values met so far, and the code of each. Several threads may use it at once. Secret."""

    def __init__(self, dtype: pl.DataType) -> None:
        self._seed, self._lock = secrets.randbits(64), Lock()
        # Values by code, in one chunk each. Recent values are a chunk of their own: otherwise every batch would copy
        # all values before it.
        self._settled = self._recent = pl.Series("value", [], dtype=dtype)
        # A slot holds a code plus one, or 0 while it is free; hashes are by code.
        self._slots: Codes32 = np.zeros(1 << _FIRST_BITS, dtype=np.uint32)
        self._hashes: WordArray = np.empty(0, dtype=np.uint64)
        # Values whose hash belongs to another value. They have codes, but no slots.
        self._strays: dict[Any, int] = {}

    def __repr__(self) -> str:
        return "Codes()"

    def __len__(self) -> int:
        return self._settled.len() + self._recent.len()

    @property
    def memory(self) -> int:
        """Bytes that the values, their hashes and their slots take, without room for more."""
        held = self._settled.estimated_size() + self._recent.estimated_size()
        return int(held) + len(self) * (self._hashes.itemsize + _SLOTS_PER_VALUE * self._slots.itemsize)

    def values(self) -> pl.Series:
        """Return the distinct values by code, in one chunk, from which rows are taken in a sixth of the time."""
        return pl.concat([self._settled, self._recent], rechunk=True)

    def codes(self, values: pl.Series) -> Codes32:
        """Return the codes of values without nulls, giving new codes to new values; shape (n,)."""
        # In the order of their first bits, values meet the slots and the codes, which were given in that order, from
        # left to right: hardly any look-up waits for memory.
        hashes = value_hash(values, self._seed)
        order = np.argsort((hashes >> np.uint64(48)).astype(np.uint16), kind="stable")  # a radix sort
        hashes, values = np.take(hashes, order, mode="clip"), taken(values, order)
        with self._lock:
            self._reserve(values.len())
            codes, new = self._by_hash(hashes)
            self._append(taken(values, new))
            settled, recent = self._settled, self._recent
        strays = _differing(values, codes, settled, recent)
        if strays.size:
            with self._lock:
                codes[strays] = self._stray_codes(taken(values, strays))
        found = np.empty(order.size, dtype=np.uint32)
        found[order] = codes
        return found

    def _reserve(self, more: int) -> None:
        """Make room for some more hashes and slots."""
        most = len(self) + more
        if most > MOST_CODES:
            raise DataError("the log has too many distinct values for one machine: count it with Spark")
        if self._hashes.size < most:
            hashes = np.empty(most + most // 2, dtype=np.uint64)
            hashes[: len(self)] = self._hashes[: len(self)]
            self._hashes = hashes
        if self._slots.size < _SLOTS_PER_VALUE * most:
            self._slots = np.zeros(1 << (_SLOTS_PER_VALUE * most).bit_length(), dtype=np.uint32)
            codes = np.delete(np.arange(len(self)), list(self._strays.values()))
            slots = self._home(self._hashes[codes])
            while codes.size:
                free = self._slots[slots] == _FREE
                self._slots[slots[free]] = codes[free] + 1
                lost = self._slots[slots] != codes + 1
                codes, slots = codes[lost], self._next(slots[lost])

    def _home(self, hashes: WordArray) -> IntArray:
        """Return the first slot to look at."""
        return (hashes >> np.uint64(65 - self._slots.size.bit_length())).view(np.int64)

    def _next(self, slots: IntArray) -> IntArray:
        return (slots + 1) & (self._slots.size - 1)

    def _by_hash(self, hashes: WordArray) -> tuple[Codes32, IndexArray]:
        """Give every distinct hash a code; return codes, and the rows whose hashes are new, by code."""
        codes = np.empty(hashes.size, dtype=np.uint32)
        new, size = [np.empty(0, dtype=np.intp)], len(self)
        for start in range(0, hashes.size, _BLOCK):
            block = slice(start, start + _BLOCK)
            rows = self._look_up(hashes[block], codes[block], size)
            new.append(rows + start)
            size += rows.size
        return codes, np.concatenate(new)

    def _look_up(self, hashes: WordArray, codes: Codes32, size: int) -> IndexArray:
        """Write the codes of hashes, from `size` on for new ones; return the rows of the new ones, by code."""
        slots = self._home(hashes)
        # Without a check of the range `take` needs half the time. A free slot becomes the greatest code there is.
        np.subtract(np.take(self._slots, slots, mode="clip"), np.uint32(1), out=codes)
        rows = np.flatnonzero((np.take(self._hashes, codes, mode="clip") != hashes) | (codes > MOST_CODES))
        slots, new = slots[rows], [np.empty(0, dtype=np.intp)]
        while rows.size:
            free = np.flatnonzero(self._slots[slots] == _FREE)
            # Of the rows that want one slot, the last to write its number has it; the others look again.
            mine = np.arange(1, free.size + 1, dtype=np.uint32)
            self._slots[slots[free]] = mine
            first = free[self._slots[slots[free]] == mine]
            self._slots[slots[first]] = np.arange(size + 1, size + first.size + 1, dtype=np.uint32)
            self._hashes[size : size + first.size] = hashes[rows[first]]
            size += first.size
            new.append(rows[first])
            codes[rows] = self._slots[slots] - np.uint32(1)
            other = self._hashes[codes[rows]] != hashes[rows]
            rows, slots = rows[other], self._next(slots[other])
        return np.concatenate(new)

    def _stray_codes(self, values: pl.Series) -> Codes32:
        """Return the codes of values whose hash belongs to another value."""
        listed = values.to_list()
        new = [value for value in dict.fromkeys(listed) if value not in self._strays]
        self._reserve(len(new))
        self._strays.update(zip(new, range(len(self), len(self) + len(new)), strict=True))
        self._append(pl.Series(new, dtype=values.dtype))
        return np.array([self._strays[value] for value in listed], dtype=np.uint32)

    def _append(self, new: pl.Series) -> None:
        if not new.len():
            return
        if new.dtype == pl.Binary:
            # A copy: a view would keep the buffers of its whole batch for a few of their values.
            new = pl.DataFrame(new.to_frame().to_arrow(compat_level=pl.CompatLevel.oldest())).to_series()
        self._recent = pl.concat([self._recent, new.alias("value")], rechunk=True)
        if 8 * self._recent.len() > self._settled.len():
            self._settled = pl.concat([self._settled, self._recent], rechunk=True)
            self._recent = self._recent.clear()


def _differing(values: pl.Series, codes: Codes32, settled: pl.Series, recent: pl.Series) -> IndexArray:
    """Find the rows whose value is not the one of their code: by code, values are those settled, then the recent."""
    first = settled.len()
    if not first:
        return np.empty(0, dtype=np.intp)
    late = np.flatnonzero(codes >= first)
    differs = taken(settled, np.minimum(codes, np.uint32(first - 1))).ne(values).to_numpy(writable=True)
    if late.size:
        differs[late] = taken(recent, codes[late] - np.uint32(first)).ne(taken(values, late)).to_numpy()
    return np.flatnonzero(differs)
