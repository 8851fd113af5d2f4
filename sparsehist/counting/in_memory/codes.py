"""Exact codes: values of the columns of a log → 0, 1, 2, …, equal exactly where the values are equal.

Values are looked up by a 64-bit hash in a table of our own, all of a batch at once; then every value is compared
with the one its code stands for, so a collision of hashes costs time and never merges two values. (The categoricals
of Polars are as exact, and take two to four times as long.) The first bits of the hash choose one of several tables,
so that threads seldom wait for one another. Codes say nothing about order: nothing may be chosen by them.

Units become numbers of 64 bits, keys, which may be several columns, become codes. A column comes as its values, or as
some values and the place among them of each row: a Parquet file holds most columns that way, and only the values of
its dictionaries need be looked up.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import cast

import numpy as np
import polars as pl

from sparsehist.counting.contract import Codes32
from sparsehist.errors import DataError
from sparsehist.store.ordering import sort_with_positions
from sparsehist.threads import each_locked
from sparsehist.typing import BoolArray, IndexArray, IntArray, NDArray, WordArray

CODE_BITS = 32
MOST_CODES = 2**CODE_BITS - 2
WHOLE_DTYPES = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.Boolean, pl.Date, pl.Time)
_TABLE_BITS = 3
_TABLES = 1 << _TABLE_BITS
_FIRST_HASHES = np.arange(_TABLES, dtype=np.uint64) << np.uint64(64 - _TABLE_BITS)
_FIRST_BITS = 12
_SPACIOUS = 2  # slots per code at least: half full, two of three values are found at once
_FREE = np.uint32(0)
_BLOCK = 1 << 16  # rows looked up at a time: their temporaries stay in the cache of a core


def value_hash(values: pl.Series, seed: int) -> WordArray:
    """Hash values, alike wherever they stand."""
    return values.hash(seed).to_numpy()


def first_of_runs(ordered: NDArray[np.generic]) -> BoolArray:
    """Mark the first of each run of equal values."""
    first = np.empty(ordered.size, dtype=bool)
    first[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return first


def by_first_bits(words: WordArray, bits: int) -> tuple[IndexArray, list[int]]:
    """Bring words with equal first bits together.

    Args:
        words: Shape (n,).
        bits: How many bits, from 1 to 8.

    Returns:
        Positions of the words in their new order, shape (n,), and where each of the 2**bits parts begins and ends.
    """
    part = (words >> np.uint64(64 - bits)).astype(np.uint8)
    order = np.argsort(part, kind="stable")  # a radix sort: the numbers have 8 bits
    ends = np.searchsorted(part[order], np.arange(1 << bits, dtype=np.uint8), side="right")
    return order, [0, *ends.tolist()]


def taken(values: pl.Series, places: NDArray[np.integer]) -> pl.Series:
    """Take values by place, without the plan that Polars makes for `gather`."""
    return values[pl.Series(places.astype(np.uint32, copy=False))]


class Codes:
    """The distinct values seen so far, and the code of each. May be used by several threads at once. Secret."""

    def __init__(self, dtype: pl.DataType) -> None:
        self._seed = secrets.randbits(64)
        self._tables = [_Table(dtype) for _ in range(_TABLES)]
        self._locks = [Lock() for _ in range(_TABLES)]

    def __repr__(self) -> str:
        return "Codes()"

    def __len__(self) -> int:
        return sum(map(len, self._tables))

    def codes(self, values: pl.Series) -> Codes32:
        """Find the codes of values, giving new ones to those not seen before.

        Args:
            values: Of the dtype of the column, without nulls; shape (n,).

        Returns:
            Shape (n,). There are gaps between codes: `dense` closes them once all values have been seen.
        """
        # In the order of their hashes, values meet the slots and, as codes were given in that order, one another's
        # codes from left to right: hardly any look-up waits for memory.
        hashes, order = sort_with_positions(value_hash(values, self._seed))
        ends = [*np.searchsorted(hashes, _FIRST_HASHES).tolist(), hashes.size]
        values = taken(values, order)
        found = np.empty(order.size, dtype=np.uint32)
        for number in each_locked(self._locks):
            own = slice(*ends[number : number + 2])
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
        """List the distinct values, in one chunk, from which they are taken in a sixth of the time."""
        return pl.concat([part for table in self._tables for part in table.parts()], rechunk=True)

    def dense(self) -> Codes32:
        """Tell for each code at which place of `values` its value stands."""
        sizes = [len(table) for table in self._tables]
        places = np.zeros((max(sizes), _TABLES), dtype=np.uint32)
        start = 0
        for number, size in enumerate(sizes):
            places[:size, number] = np.arange(start, start + size, dtype=np.uint32)
            start += size
        return places.ravel()


class _Table:
    """Some of the values, coded without gaps."""

    def __init__(self, dtype: pl.DataType) -> None:
        # By code, each in one chunk: from several, values are taken in six times the time. Values that came lately
        # stand apart, or every batch would copy all before it.
        self._settled = self._recent = pl.Series("value", [], dtype=dtype)
        # An open table: a slot holds one more than a code, or 0 while it is free; hashes are those of the codes.
        self._slots: Codes32 = np.zeros(1 << _FIRST_BITS, dtype=np.uint32)
        self._hashes: WordArray = np.empty(0, dtype=np.uint64)
        self._strays = pl.DataFrame(schema={"value": dtype, "code": pl.UInt32})

    def __len__(self) -> int:
        return self._settled.len() + self._recent.len()

    @property
    def memory(self) -> int:
        """Bytes that the values, their hashes and their slots take, without room for more."""
        held = self._settled.estimated_size() + self._recent.estimated_size()
        return int(held) + len(self) * (self._hashes.itemsize + _SPACIOUS * self._slots.itemsize)

    def parts(self) -> tuple[pl.Series, pl.Series]:
        """The values, by code, in two parts."""
        return self._settled, self._recent

    def codes(self, values: pl.Series, hashes: WordArray) -> Codes32:
        """Find the codes of values with these hashes."""
        if len(self) + values.len() > MOST_CODES >> _TABLE_BITS:
            raise DataError("the log has too many distinct values for one machine: count it with Spark")
        self._make_room(values.len())
        codes, new = self._by_hash(hashes)
        self._append(taken(values, new))
        strays = self._differing(values, codes)
        if strays.size:
            codes[strays] = self._stray_codes(taken(values, strays))
        return codes

    def _make_room(self, more: int) -> None:
        """Take slots and places for hashes for so many values more."""
        most = len(self) + more
        if self._hashes.size < most:
            hashes = np.empty(most + most // 2, dtype=np.uint64)
            hashes[: len(self)] = self._hashes[: len(self)]
            self._hashes = hashes
        if self._slots.size < _SPACIOUS * most:
            self._slots = np.zeros(1 << (_SPACIOUS * most).bit_length(), dtype=np.uint32)
            # Strays stand outside the table: each has the hash of a code that stands inside.
            codes = np.delete(np.arange(len(self)), self._strays["code"].to_numpy())
            slots = self._home(self._hashes[codes])
            while codes.size:
                free = self._slots[slots] == _FREE
                self._slots[slots[free]] = codes[free] + 1
                lost = self._slots[slots] != codes + 1
                codes, slots = codes[lost], self._next(slots[lost])

    def _home(self, hashes: WordArray) -> IntArray:
        """Where a hash belongs; its first bits chose the table."""
        bits = (self._slots.size - 1).bit_length()
        return ((hashes << np.uint64(_TABLE_BITS)) >> np.uint64(64 - bits)).view(np.int64)

    def _next(self, slots: IntArray) -> IntArray:
        return (slots + 1) & (self._slots.size - 1)

    def _by_hash(self, hashes: WordArray) -> tuple[Codes32, IndexArray]:
        """Give every distinct hash a code of its own; returns codes and the rows whose hashes are new, by code."""
        codes = np.empty(hashes.size, dtype=np.uint32)
        new, size = [np.empty(0, dtype=np.intp)], len(self)
        for start in range(0, hashes.size, _BLOCK):
            block = slice(start, start + _BLOCK)
            rows = self._look_up(hashes[block], codes[block], size)
            new.append(rows + start)
            size += rows.size
        return codes, np.concatenate(new)

    def _look_up(self, hashes: WordArray, codes: Codes32, size: int) -> IndexArray:
        """Find codes by hash, giving those from `size` on to new hashes; returns the rows of these, by code."""
        slots = self._home(hashes)
        # Without a check of the range `take` needs half the time. A free slot gives the greatest code there is.
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
        """Find the rows whose value is not the one that its code stands for."""
        first = self._settled.len()
        if not first:
            return np.empty(0, dtype=np.intp)
        late = np.flatnonzero(codes >= first)
        differs = taken(self._settled, np.minimum(codes, np.uint32(first - 1))).ne(values).to_numpy(writable=True)
        if late.size:
            differs[late] = taken(self._recent, codes[late] - np.uint32(first)).ne(taken(values, late)).to_numpy()
        return np.flatnonzero(differs)

    def _stray_codes(self, values: pl.Series) -> Codes32:
        """Find the codes of values whose hash is that of another value."""
        wanted = values.alias("value").to_frame()
        new = wanted.unique().join(self._strays, on="value", how="anti")
        numbers = pl.Series("code", np.arange(len(self), len(self) + new.height, dtype=np.uint32))
        self._strays = self._strays.vstack(new.with_columns(numbers))
        self._make_room(new.height)
        self._append(new["value"])
        codes = wanted.join(self._strays, on="value", how="left", maintain_order="left")["code"]
        return codes.to_numpy()

    def _append(self, new: pl.Series) -> None:
        if not new.len():
            return
        if new.dtype == pl.String:
            # Taken out of the buffers of its batch, which would be kept for a few of their strings.
            new = pl.Series(new.to_arrow(compat_level=pl.CompatLevel.oldest()))
        self._recent = pl.concat([self._recent, new.alias("value")], rechunk=True)
        if 8 * self._recent.len() > self._settled.len():
            self._settle()

    def _settle(self) -> None:
        if self._recent.len():
            self._settled = pl.concat([self._settled, self._recent], rechunk=True)
            self._recent = self._recent.clear()


@dataclass(frozen=True)
class LogColumn:
    """Some rows of a column, without nulls. Secret.

    Attributes:
        values: As `plain` makes them.
        places: Place among the values of each row; None if the values are the rows.
    """

    values: pl.Series = field(repr=False)
    places: NDArray[np.integer] | None = field(default=None, repr=False)

    def codes(self, table: Codes) -> Codes32:
        """Code the rows."""
        values, places = self.values, self.places
        if places is None and values.dtype.is_integer():
            distinct, places = np.unique(values.to_numpy(), return_inverse=True)
            values = pl.Series(distinct)
        codes = table.codes(values)
        return codes if places is None else codes[places]


def whole(dtype: pl.DataType) -> bool:
    """Say whether values of this dtype are whole numbers inside, of 64 bits at most."""
    return dtype in WHOLE_DTYPES or isinstance(dtype, (pl.Datetime, pl.Duration))


def plain_dtype(dtype: pl.DataType) -> pl.DataType:
    """Tell what `plain` brings a column to."""
    return pl.Int64() if whole(dtype) else pl.String()


def plain(name: str, dtype: pl.DataType) -> pl.Expr:
    """Bring a column to what it is coded from: Int64 or String."""
    column = pl.col(name)
    if whole(dtype):
        return column.to_physical().cast(pl.Int64)
    if dtype == pl.Binary:
        return column.bin.encode("hex")
    if dtype.is_float():
        # −0.0 and 0.0 are one number and have to be one text; Polars optimises the addition of zero away.
        return pl.when(column == 0).then(0.0).otherwise(column.cast(pl.Float64)).cast(pl.String).alias(name)
    return column.cast(pl.String)


def _restored(values: pl.Series, dtype: pl.DataType) -> pl.Series:
    """Undo `plain`, up to the kind of text."""
    if dtype == pl.Boolean:
        return values.cast(pl.Boolean)
    if whole(dtype):
        return values.cast(dtype)
    if dtype == pl.Binary:
        return values.str.decode("hex")
    return values if dtype in (pl.String, pl.Categorical, pl.Enum) else values.cast(dtype)


def multiplier_of(salt: bytes) -> np.uint64:
    """The odd number by which units are multiplied."""
    digest = hashlib.blake2b(b"multiplier", key=salt, digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little") | 1)


class Units:
    """Units as numbers of 64 bits, equal where units are equal, whose first bits are even. Secret.

    A whole number needs no code, and any other unit has one; either is multiplied by a secret odd number, which is a
    bijection and spreads numbers of any pattern.
    """

    def __init__(self, dtype: pl.DataType, salt: bytes) -> None:
        self._multiplier = multiplier_of(salt)
        self._inverse = np.uint64(pow(int(self._multiplier), -1, 2**64))
        self._dtype = dtype
        self._table = None if whole(dtype) else Codes(pl.String())

    def numbers(self, column: LogColumn) -> WordArray:
        """Number rows."""
        if self._table is not None:
            numbers = column.codes(self._table).astype(np.uint64)
            numbers *= self._multiplier
            return numbers
        numbers = np.empty(column.values.len(), dtype=np.uint64)
        start = 0
        for chunk in column.values.get_chunks():
            values = chunk.to_numpy().view(np.uint64)
            np.multiply(values, self._multiplier, out=numbers[start : start + values.size])
            start += values.size
        return numbers if column.places is None else numbers[column.places]

    def values(self, numbers: WordArray) -> pl.Series:
        """Turn numbers back into units, in the dtype of the log up to the kind of text."""
        plain = numbers * self._inverse
        if self._table is None:
            return _restored(pl.Series(plain.view(np.int64)), self._dtype)
        values, places = self._coded
        return _restored(taken(values, places[plain]), self._dtype)

    @cached_property
    def _coded(self) -> tuple[pl.Series, Codes32]:
        """Every unit that has a code, and its place by code; once all have been seen."""
        table = cast("Codes", self._table)
        return table.values(), table.dense()


class Keys:
    """Codes of keys. Secret.

    A key of several columns is coded from the left: the code of what stands before beside the code of a column
    makes a number, and that is coded in turn.
    """

    def __init__(self, dtypes: Sequence[pl.DataType]) -> None:
        self._dtypes = dtypes
        self._columns = [Codes(plain_dtype(dtype)) for dtype in dtypes]
        self._joints = [Codes(pl.UInt64()) for _ in dtypes[1:]]

    @property
    def memory(self) -> int:
        """Bytes that all keys seen so far take."""
        return sum(codes.memory for codes in (*self._columns, *self._joints))

    def codes(self, columns: Sequence[LogColumn]) -> Codes32:
        """Code the key of each row."""
        codes = columns[0].codes(self._columns[0])
        for joint, table, column in zip(self._joints, self._columns[1:], columns[1:], strict=True):
            pairs = codes.astype(np.uint64) << np.uint64(CODE_BITS)
            pairs |= column.codes(table)
            codes = LogColumn(pl.Series(pairs)).codes(joint)
        return codes

    def keys(self) -> tuple[pl.DataFrame, Codes32]:
        """List the keys: columns key_0, … in the dtypes of the log, up to the kind of text; and the row by code."""
        columns: list[pl.Series] = []
        codes: Codes32 | None = None
        for joint, table in zip(reversed(self._joints), reversed(self._columns[1:]), strict=True):
            pairs = _taken(joint, codes).to_numpy()
            columns.append(_taken(table, pairs.astype(np.uint32)))
            codes = (pairs >> np.uint64(CODE_BITS)).astype(np.uint32)
        columns.append(_taken(self._columns[0], codes))
        keys = pl.DataFrame(
            [
                _restored(column, dtype).alias(f"key_{i}")
                for i, (column, dtype) in enumerate(zip(reversed(columns), self._dtypes, strict=True))
            ]
        )
        return keys, (self._joints or self._columns)[-1].dense()


def _taken(table: Codes, codes: Codes32 | None) -> pl.Series:
    """Take the values of these codes, or all of them."""
    values = table.values()
    return values if codes is None else taken(values, table.dense()[codes])
