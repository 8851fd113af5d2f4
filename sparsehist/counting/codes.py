"""Exact codes of values: 0, 1, 2, …, equal exactly where the values are equal.

Values are looked up by a 64-bit hash in an open-addressing table, a whole batch at once; then every value is compared
with the value of its code. A hash collision therefore costs time and never merges two values. (Polars' categoricals
are exact too, and take two to four times as long.) The first bits of the hash choose one of several tables, so
threads seldom wait for one another. Codes depend on the order of the log: nothing may be chosen by them.
"""

from __future__ import annotations

import secrets
from itertools import pairwise
from threading import Lock
from typing import TypeAlias

import numpy as np
import polars as pl

from sparsehist.errors import DataError
from sparsehist.threads import each_locked
from sparsehist.typing import BoolArray, IndexArray, IntArray, NDArray, WordArray

Codes32: TypeAlias = "NDArray[np.uint32]"
CODE_BITS = 32
MOST_CODES = 2**CODE_BITS - 2
_TABLE_BITS = 3
_TABLES = 1 << _TABLE_BITS
_FIRST_BITS = 12
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


def by_first_bits(words: WordArray, bits: int) -> tuple[IndexArray, list[int]]:
    """Group words by their first bits, in a stable order.

    Args:
        words: Shape (n,).
        bits: From 1 to 8.

    Returns:
        Positions of the words in their new order, shape (n,); and 2**bits + 1 offsets, between which the groups lie.
    """
    part = (words >> np.uint64(64 - bits)).astype(np.uint8)
    order = np.argsort(part, kind="stable")  # a radix sort: the numbers have 8 bits
    ends = np.cumsum(np.bincount(part, minlength=1 << bits))
    return order, [0, *ends.tolist()]


def taken(values: pl.Series, places: NDArray[np.integer]) -> pl.Series:
    """Take values by position, without the query plan that Polars makes for `gather`."""
    return values[pl.Series(places.astype(np.uint32, copy=False))]


class Codes:
    """The distinct values met so far, and the code of each. Several threads may use it at once. Secret."""

    def __init__(self, dtype: pl.DataType) -> None:
        self._seed = secrets.randbits(64)
        self._tables = [_Table(dtype) for _ in range(_TABLES)]
        self._locks = [Lock() for _ in range(_TABLES)]

    def __repr__(self) -> str:
        return "Codes()"

    def __len__(self) -> int:
        return sum(map(len, self._tables))

    def codes(self, values: pl.Series) -> Codes32:
        """Return the codes of values without nulls, giving new codes to new values; shape (n,).

        There are gaps between codes: `positions` closes them once all values have been met.
        """
        # In the order of their hashes, values meet the slots and the codes, which were given in that order, from left
        # to right: hardly any look-up waits for memory. Words that end in their position are sorted for it.
        hashes = value_hash(values, self._seed)
        spare = np.uint64(max(hashes.size - 1, 1).bit_length())
        words = sorted_words(hashes >> spare << spare | np.arange(hashes.size, dtype=np.uint64))
        order = (words & ((np.uint64(1) << spare) - np.uint64(1))).astype(np.uint32)
        starts = np.searchsorted(words, np.arange(_TABLES, dtype=np.uint64) << np.uint64(64 - _TABLE_BITS))
        bounds = list(pairwise([*starts.tolist(), hashes.size]))
        hashes, values = np.take(hashes, order, mode="clip"), taken(values, order)
        found = np.empty(order.size, dtype=np.uint32)
        for number in each_locked(self._locks):
            own = slice(*bounds[number])
            codes = self._tables[number].codes(values[own], hashes[own])
            codes <<= np.uint32(_TABLE_BITS)
            codes |= np.uint32(number)
            found[order[own]] = codes
        return found

    @property
    def memory(self) -> int:
        """Bytes that the values, their hashes and their slots take, without room for more."""
        return sum(table.memory for table in self._tables)

    def values(self) -> pl.Series:
        """Return the distinct values in one chunk, from which rows are taken in a sixth of the time."""
        return pl.concat([part for table in self._tables for part in table.parts()], rechunk=True)

    def positions(self) -> Codes32:
        """Return for each code the position of its value in `values`; codes without a value have any."""
        sizes = [len(table) for table in self._tables]
        places = np.zeros((max(sizes), _TABLES), dtype=np.uint32)
        start = 0
        for number, size in enumerate(sizes):
            places[:size, number] = np.arange(start, start + size, dtype=np.uint32)
            start += size
        return places.ravel()


class _Table:
    """Some of the values, with codes 0, 1, 2, … without gaps."""

    def __init__(self, dtype: pl.DataType) -> None:
        # Values by code, in one chunk each. Recent values are a chunk of their own: otherwise every batch would copy
        # all values before it.
        self._settled = self._recent = pl.Series("value", [], dtype=dtype)
        # A slot holds a code plus one, or 0 while it is free; hashes are by code.
        self._slots: Codes32 = np.zeros(1 << _FIRST_BITS, dtype=np.uint32)
        self._hashes: WordArray = np.empty(0, dtype=np.uint64)
        # Values whose hash belongs to another value. They have codes, but no slots.
        self._strays = pl.DataFrame(schema={"value": dtype, "code": pl.UInt32})

    def __len__(self) -> int:
        return self._settled.len() + self._recent.len()

    @property
    def memory(self) -> int:
        """Bytes that the values, their hashes and their slots take, without room for more."""
        held = self._settled.estimated_size() + self._recent.estimated_size()
        return int(held) + len(self) * (self._hashes.itemsize + _SLOTS_PER_VALUE * self._slots.itemsize)

    def parts(self) -> tuple[pl.Series, pl.Series]:
        """Return the values by code, in two parts."""
        return self._settled, self._recent

    def codes(self, values: pl.Series, hashes: WordArray) -> Codes32:
        """Return the codes of values with these hashes."""
        if len(self) + values.len() > MOST_CODES >> _TABLE_BITS:
            raise DataError("the log has too many distinct values for one machine: count it with Spark")
        self._reserve(values.len())
        codes, new = self._by_hash(hashes)
        self._append(taken(values, new))
        strays = self._differing(values, codes)
        if strays.size:
            codes[strays] = self._stray_codes(taken(values, strays))
        return codes

    def _reserve(self, more: int) -> None:
        """Make room for some more hashes and slots."""
        most = len(self) + more
        if self._hashes.size < most:
            hashes = np.empty(most + most // 2, dtype=np.uint64)
            hashes[: len(self)] = self._hashes[: len(self)]
            self._hashes = hashes
        if self._slots.size < _SLOTS_PER_VALUE * most:
            self._slots = np.zeros(1 << (_SLOTS_PER_VALUE * most).bit_length(), dtype=np.uint32)
            codes = np.delete(np.arange(len(self)), self._strays["code"].to_numpy())
            slots = self._home(self._hashes[codes])
            while codes.size:
                free = self._slots[slots] == _FREE
                self._slots[slots[free]] = codes[free] + 1
                lost = self._slots[slots] != codes + 1
                codes, slots = codes[lost], self._next(slots[lost])

    def _home(self, hashes: WordArray) -> IntArray:
        """Return the first slot to look at; the first bits of the hash have chosen the table."""
        bits = (self._slots.size - 1).bit_length()
        return ((hashes << np.uint64(_TABLE_BITS)) >> np.uint64(64 - bits)).view(np.int64)

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

    def _differing(self, values: pl.Series, codes: Codes32) -> IndexArray:
        """Find the rows whose value is not the value of their code."""
        first = self._settled.len()
        if not first:
            return np.empty(0, dtype=np.intp)
        late = np.flatnonzero(codes >= first)
        differs = taken(self._settled, np.minimum(codes, np.uint32(first - 1))).ne(values).to_numpy(writable=True)
        if late.size:
            differs[late] = taken(self._recent, codes[late] - np.uint32(first)).ne(taken(values, late)).to_numpy()
        return np.flatnonzero(differs)

    def _stray_codes(self, values: pl.Series) -> Codes32:
        """Return the codes of values whose hash belongs to another value."""
        wanted = values.alias("value").to_frame()
        new = wanted.unique().join(self._strays, on="value", how="anti")
        numbers = pl.Series("code", np.arange(len(self), len(self) + new.height, dtype=np.uint32))
        self._strays = self._strays.vstack(new.with_columns(numbers))
        self._reserve(new.height)
        self._append(new["value"])
        codes = wanted.join(self._strays, on="value", how="left", maintain_order="left")["code"]
        return codes.to_numpy()

    def _append(self, new: pl.Series) -> None:
        if not new.len():
            return
        if new.dtype == pl.Binary:
            # A copy: a view would keep the buffers of its whole batch for a few of their values.
            new = pl.Series(new.to_arrow(compat_level=pl.CompatLevel.oldest()))
        self._recent = pl.concat([self._recent, new.alias("value")], rechunk=True)
        if 8 * self._recent.len() > self._settled.len():
            self._settled = pl.concat([self._settled, self._recent], rechunk=True)
            self._recent = self._recent.clear()
