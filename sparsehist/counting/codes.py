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
_HASH_STEP = np.uint64(0x9E3779B97F4A7C15)  # it is odd, so repeated addition visits all 2**64 hashes


def row_hash(rows: pl.DataFrame, seed: int) -> WordArray:
    """Hash rows; equal rows have equal hashes."""
    return rows.hash_rows(seed).to_numpy()


def take(rows: pl.DataFrame, positions: NDArray[np.integer]) -> pl.DataFrame:
    """Return the rows at the given positions. Indexing is faster than `gather`, which needs a query plan."""
    return rows[pl.Series(positions.astype(np.uint32, copy=False))]


class Codes:
    """A thread-safe table with the distinct rows of some columns and a code for each row. The rows are secret."""

    def __init__(self, dtypes: Sequence[pl.DataType]) -> None:
        self._seed, self._lock = secrets.randbits(64), Lock()
        # `_values` contains the row of each code, in one large chunk and then in smaller chunks of newer rows.
        self._values = pl.DataFrame(schema=dict(zip(key_names(len(dtypes)), dtypes, strict=True)))
        # A slot contains a code plus one, or 0 if it is free. `_hashes` contains the hash of each code.
        self._slots: Codes32 = np.zeros(0, dtype=np.uint32)
        self._hashes: WordArray = np.empty(0, dtype=np.uint64)
        self._size = 0

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
        codes = np.empty(order.size, dtype=np.uint32)
        while order.size:
            with self._lock:
                self._reserve(order.size)
                found, new = self._look_up(hashes)
                self._append(take(rows, new))
                by_code = self._values
            codes[order] = found
            pairs = zip(take(by_code, found), rows, strict=True)
            strays = np.flatnonzero(np.logical_or.reduce([ours.ne(theirs).to_numpy() for ours, theirs in pairs]))
            # Each of these rows has the same hash as a different row. Look it up again with a new hash.
            order, hashes, rows = order[strays], hashes[strays] + _HASH_STEP, take(rows, strays)
        return codes

    def _reserve(self, more: int) -> None:
        """Enlarge the hash table and the array of hashes if they have no room for `more` new codes."""
        most = self._size + more
        if most > MOST_CODES:
            raise DataError("the log has too many distinct values for one machine: count it with Spark")
        if self._slots.size < 2 * most:  # at least half of the slots are free, so most searches are short
            hashes, codes = self._hashes[: self._size], np.arange(self._size)
            self._slots = np.zeros(1 << (2 * most).bit_length(), dtype=np.uint32)
            self._hashes = np.append(hashes, np.empty(self._slots.size // 2 - self._size, dtype=np.uint64))
            slots = self._home(hashes)
            while codes.size:
                free = self._slots[slots] == 0
                self._slots[slots[free]] = codes[free] + 1
                lost = self._slots[slots] != codes + 1
                codes, slots = codes[lost], (slots[lost] + 1) & (self._slots.size - 1)

    def _home(self, hashes: WordArray) -> IntArray:
        """Return the slot at which the search for each hash begins."""
        return (hashes >> np.uint64(65 - self._slots.size.bit_length())).view(np.int64)

    def _look_up(self, hashes: WordArray) -> tuple[Codes32, IndexArray]:
        """Return the codes of hashes, and the positions of the hashes with new codes, in the order of these codes."""
        slots = self._home(hashes)
        # With mode="clip", numpy does not check indices, which halves the time. A free slot contains 0; subtracting
        # 1 wraps around to 2**32 - 1, which is not the code of any row.
        codes = np.take(self._slots, slots, mode="clip") - np.uint32(1)
        rows = np.flatnonzero((np.take(self._hashes, codes, mode="clip") != hashes) | (codes > MOST_CODES))
        slots, new = slots[rows], [np.empty(0, dtype=np.intp)]
        while rows.size:
            free = np.flatnonzero(self._slots[slots] == 0)
            # Several hashes may find the same free slot. Each writes its index to the slot, and the hash that
            # writes last gets the slot. Hashes that differ from this hash try the next slot.
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
            rows, slots = rows[other], (slots[other] + 1) & (self._slots.size - 1)
        return codes, np.concatenate(new)

    def _append(self, new: pl.DataFrame) -> None:
        # Copy the values, as a view of a few values would keep the whole batch in memory.
        new = pl.DataFrame(new.to_arrow(compat_level=pl.CompatLevel.oldest()))
        self._values = pl.concat([self._values, new], rechunk=False)
        # `take` is faster from one chunk, but joining chunks copies all rows. So join them only when more than an
        # eighth of the rows are outside the first chunk.
        if self._values.to_series().chunk_lengths()[0] < 7 / 8 * self._size:
            self._values = self._values.rechunk()
