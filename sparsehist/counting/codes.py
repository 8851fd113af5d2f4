"""Give rows exact codes (0, 1, 2, …): two rows have the same code if and only if all their values are equal.

A hash table with open addressing finds the codes of a whole batch of rows at once. Then each row is compared with the
row that first got its code, so a hash collision costs time but never merges two rows. (Polars' categoricals are exact
too, but take up to twice as long.) Codes depend on the order of the log, so they must not decide which keys are kept.
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
_LEAST_SLOTS_PER_CODE = 2  # at most half of the slots are in use, so most searches end at the first slot


def row_hash(rows: pl.DataFrame, seed: int) -> WordArray:
    """Hash rows; equal rows have equal hashes."""
    return rows.hash_rows(seed).to_numpy()


def take(rows: pl.DataFrame, positions: NDArray[np.integer]) -> pl.DataFrame:
    """Return the rows at the given positions. The expression `gather` would be slower, as it needs a query plan."""
    return rows[pl.Series(positions.astype(np.uint32, copy=False))]


class Codes:
    """A thread-safe table with the distinct rows of some columns and a code for each row. The rows are secret."""

    def __init__(self, dtypes: Sequence[pl.DataType]) -> None:
        self._seed, self._lock = secrets.randbits(64), Lock()
        # `_values` contains the row of each code, in one large chunk and then in smaller chunks of newer rows.
        names = key_names(len(dtypes))
        self._values, self._in_first_chunk = pl.DataFrame(schema=dict(zip(names, dtypes, strict=True))), 0
        # A slot contains a code plus one, or 0 if it is free. `_hashes` contains the hash of each code.
        self._slots: Codes32 = np.zeros(1 << _FIRST_BITS, dtype=np.uint32)
        self._hashes: WordArray = np.empty(0, dtype=np.uint64)
        self._size = 0
        # If distinct rows have equal hashes, only the first has a slot. `_strays` maps the other rows to their codes.
        self._strays: dict[str, int] = {}

    def values(self) -> pl.DataFrame:
        """Return the rows in the order of their codes, in one chunk, which makes `take` six times as fast."""
        return self._values.rechunk()

    def codes(self, rows: pl.DataFrame) -> Codes32:
        """Return the codes of rows without nulls, shape (n,); new rows get new codes."""
        # Rows are sorted by the leading bits of their hashes, so that slots and codes are read sequentially, and the
        # processor rarely waits for memory.
        hashes = row_hash(rows, self._seed)
        order = np.argsort((hashes >> np.uint64(48)).astype(np.uint16), kind="stable")  # radix sort
        hashes, rows = np.take(hashes, order, mode="clip"), take(rows, order)
        rows.columns = self._values.columns
        with self._lock:
            self._reserve(order.size)
            codes, new = self._look_up(hashes)
            self._append(take(rows, new))
            by_code = self._values
        pairs = zip(take(by_code, codes), rows, strict=True)
        strays = np.flatnonzero(np.logical_or.reduce([ours.ne(theirs).to_numpy() for ours, theirs in pairs]))
        if strays.size:
            with self._lock:
                codes[strays] = self._stray_codes(take(rows, strays))
        unsorted = np.empty_like(codes)
        unsorted[order] = codes
        return unsorted

    def _reserve(self, more: int) -> None:
        """Enlarge the hash table and the array of hashes if they have no room for `more` new codes."""
        most = self._size + more
        if most > MOST_CODES:
            raise DataError("the log has too many distinct values for one machine: count it with Spark")
        if self._hashes.size < most:
            self._hashes = np.append(self._hashes[: self._size], np.empty(more + most // 2, dtype=np.uint64))
        if self._slots.size < _LEAST_SLOTS_PER_CODE * most:
            self._slots = np.zeros(1 << (_LEAST_SLOTS_PER_CODE * most).bit_length(), dtype=np.uint32)
            codes = np.delete(np.arange(self._size), list(self._strays.values()))
            slots = self._home(self._hashes[codes])
            while codes.size:
                free = self._slots[slots] == 0
                self._slots[slots[free]] = codes[free] + 1
                lost = self._slots[slots] != codes + 1
                codes, slots = codes[lost], self._next(slots[lost])

    def _home(self, hashes: WordArray) -> IntArray:
        """Return the slot at which the search for each hash begins."""
        return (hashes >> np.uint64(65 - self._slots.size.bit_length())).view(np.int64)

    def _next(self, slots: IntArray) -> IntArray:
        return (slots + 1) & (self._slots.size - 1)

    def _look_up(self, hashes: WordArray) -> tuple[Codes32, IndexArray]:
        """Return the code of each hash, and the positions of the hashes that got a new code, sorted by this code."""
        slots = self._home(hashes)
        # With mode="clip", numpy does not check indices, which halves the time. A free slot contains 0; subtracting
        # 1 wraps around to 2**32 - 1, which is not the code of any row.
        codes = np.take(self._slots, slots, mode="clip") - np.uint32(1)
        rows = np.flatnonzero((np.take(self._hashes, codes, mode="clip") != hashes) | (codes > MOST_CODES))
        slots, new = slots[rows], [np.empty(0, dtype=np.intp)]
        while rows.size:
            free = np.flatnonzero(self._slots[slots] == 0)
            # Several hashes may find the same free slot. Each writes a number into it, and the one that writes
            # last gets the slot. Other hashes try the next slot.
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
        return codes, np.concatenate(new)

    def _stray_codes(self, rows: pl.DataFrame) -> Codes32:
        """Return the codes of rows whose hash is that of a different row. Give a new code to each new row."""
        texts = [repr(row) for row in rows.rows()]
        new = {text: number for number, text in enumerate(texts) if text not in self._strays}
        self._reserve(len(new))
        self._strays.update(zip(new, range(self._size, self._size + len(new)), strict=True))
        self._size += len(new)
        self._append(take(rows, np.array(list(new.values()), np.uint32)))
        return np.array([self._strays[text] for text in texts], dtype=np.uint32)

    def _append(self, new: pl.DataFrame) -> None:
        if new.is_empty():
            return
        # Copy the values, as a view of a few values would keep the whole batch in memory.
        new = pl.DataFrame(new.to_arrow(compat_level=pl.CompatLevel.oldest()))
        self._values = pl.concat([self._values, new], rechunk=False)
        # `take` is faster from one chunk, but joining chunks copies all rows. So join them only when more than an
        # eighth of the rows are outside the first chunk.
        if 8 * (self._size - self._in_first_chunk) > self._size:
            self._values, self._in_first_chunk = self._values.rechunk(), self._size
