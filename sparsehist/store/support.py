"""Salts, and a keyed 64-bit hash of keys that never changes.

The hashes of Polars and DuckDB may change with their versions; a store outlives them. This one is pinned by fixed
vectors in the tests. It only finds rows: the key itself decides whether it is there, so a collision costs a
comparison. The salt keeps outsiders from choosing keys that collide.

    state = seed0; for each column: state = step(state, length of the value in bytes), then step for each of its
    8-byte little-endian words, the last one padded with zeros; result = finish(state, seed1)
    step(s, w): s = (s ^ w)·M mod 2⁶⁴; s ^ (s >> 32)

Integers, booleans and dates are one word of two's complement, of length 8.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Self

import numpy as np
import polars as pl

from sparsehist.errors import promise
from sparsehist.store.ordering import sort_with_positions
from sparsehist.store.private_files import disk_errors
from sparsehist.typing import ByteArray, IntArray, WordArray

if TYPE_CHECKING:
    import pyarrow as pa

# Purposes of salts: the choice of a unit's keys, which a warehouse or cluster that counts gets to know; the order of
# keys of equal count; the look-up of keys; and the rounding of noise. All but the first stay with the store.
BOUNDING, ORDER, LOTS, _SUPPORT = b"bounding", b"order", b"lots", b"support-keys"
_HELD = 1 << 24
_PART_BITS = 6

_STEP = 0x9E3779B97F4A7C15  # 2⁶⁴ over the golden ratio, as in splitmix64
_FINISH = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # the multipliers of splitmix64
_WORD = 8
_MASKS = [(1 << 8 * n) - 1 for n in range(_WORD + 1)]  # of n bytes
_BLOCK = 1 << 14  # rows at a time: the temporaries of a block stay in the cache of a core


def salt_for(purpose: bytes, secret: bytes) -> bytes:
    """Derive the salt for one purpose from the secret of a series; salts are independent."""
    return hashlib.blake2b(secret, digest_size=16, person=purpose).digest()


def plain(rows: pl.DataFrame) -> pa.Table:
    """The oldest Arrow layout: offsets and bytes instead of views, which every reader knows."""
    return rows.to_arrow(compat_level=pl.CompatLevel.oldest())


def hash_keys(keys: pl.DataFrame, salt: bytes, table: pa.Table | None = None) -> WordArray:
    """Hash every row.

    Args:
        keys: Columns of strings, bytes, integers, booleans or dates, without nulls.
        salt: Of the series.
        table: The result of `plain`, if it is at hand.

    Returns:
        Shape (n,).
    """
    table = plain(keys) if table is None else table
    seeds = np.frombuffer(salt_for(_SUPPORT, salt), dtype="<u8")
    state = np.full(keys.height, seeds[0], dtype=np.uint64)
    for column in keys.iter_columns():
        promise(column.null_count() == 0, "a key without a value")
        if column.dtype in {pl.String, pl.Binary}:
            _absorb_texts(state, table[column.name])
        else:
            _absorb_numbers(state, column)
    return _finish(state, seeds[1])


def _absorb_numbers(state: WordArray, column: pl.Series) -> None:
    physical = column.to_physical()
    wide = pl.UInt64 if physical.dtype.is_unsigned_integer() else pl.Int64
    words = physical.cast(wide).to_numpy().view(np.uint64)
    _absorb(state, np.full(len(words), _WORD, dtype=np.uint64))
    _absorb(state, words)


def _absorb_texts(state: WordArray, column: pa.ChunkedArray) -> None:
    for chunk in column.chunks:
        own, state = state[: len(chunk)], state[len(chunk) :]
        _, offsets_buffer, data_buffer = chunk.buffers()
        offsets = np.frombuffer(offsets_buffer, dtype="<i8")[chunk.offset : chunk.offset + len(chunk) + 1]
        data = np.zeros((0 if data_buffer is None else data_buffer.size) + _WORD, dtype=np.uint8)
        if data_buffer is not None:
            data[:-_WORD] = np.frombuffer(data_buffer, dtype=np.uint8)
        for low in range(0, len(chunk), _BLOCK):
            block = slice(low, low + _BLOCK)
            _absorb_block(own[block], offsets[low : low + _BLOCK + 1], data)


def _absorb_block(state: WordArray, offsets: IntArray, data: ByteArray) -> None:
    """Absorb texts word by word, all rows at once; a row drops out at its end."""
    words: WordArray = np.ndarray((len(data) - _WORD + 1,), dtype="<u8", buffer=data, strides=(1,))
    start, remaining = offsets[:-1], np.diff(offsets)
    _absorb(state, remaining.view(np.uint64))
    rows = None
    part = state
    while True:
        live = np.flatnonzero(remaining > 0)
        if len(live) < len(remaining):
            if rows is not None:
                state[rows] = part
            rows = live if rows is None else rows[live]
            start, remaining, part = start[live], remaining[live], state[rows]
        if len(start) == 0:
            return
        word = words[start]
        word &= np.array(_MASKS, dtype=np.uint64)[np.minimum(remaining, _WORD)]
        _absorb(part, word)
        start, remaining = start + _WORD, remaining - _WORD


def _absorb(state: WordArray, word: WordArray) -> None:
    state ^= word
    state *= _STEP
    state ^= state >> np.uint64(32)


def _finish(state: WordArray, seed: np.uint64) -> WordArray:
    state ^= seed
    state ^= state >> np.uint64(30)
    state *= _FINISH[0]
    state ^= state >> np.uint64(27)
    state *= _FINISH[1]
    state ^= state >> np.uint64(31)
    return state


class SortedHashes:
    """Sorts hashes with their positions; beyond `_HELD` of them, in temporary files by their highest bits."""

    def __init__(self, directory: Path) -> None:
        """Temporary files are made in `directory`."""
        self._directory, self._held, self._n_held, self._n = directory, list[WordArray](), 0, 0
        self._files: list[BinaryIO] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files:
            file.close()

    def add(self, hashes: WordArray) -> None:
        """Add the hashes of the next positions."""
        self._held.append(hashes)
        self._n_held += len(hashes)
        if self._n_held >= _HELD:
            self._spill()

    def in_order(self, rows: int) -> Iterator[tuple[WordArray, WordArray]]:
        """All hashes, rising, with their positions, `rows` at a time."""
        left = (np.empty(0, np.uint64), np.empty(0, np.uint64))
        for hashes, positions in self._parts():
            ordered, order = sort_with_positions(hashes)
            both = np.concatenate([left[0], ordered]), np.concatenate([left[1], positions[order]])
            whole = len(both[0]) - len(both[0]) % rows
            for low in range(0, whole, rows):
                yield both[0][low : low + rows], both[1][low : low + rows]
            left = both[0][whole:], both[1][whole:]
        if len(left[0]):
            yield left

    def _parts(self) -> Iterator[tuple[WordArray, WordArray]]:
        """Hashes and positions, part by part in the order of their highest bits."""
        if not self._files:
            yield np.concatenate([np.empty(0, np.uint64), *self._held]), np.arange(self._n_held, dtype=np.uint64)
            return
        self._spill()
        for file in self._files:
            file.seek(0)
            yield tuple(np.frombuffer(file.read(), np.uint64).reshape(-1, 2).T.copy())  # type: ignore[misc]

    def _spill(self) -> None:
        if not self._files:
            self._files = [tempfile.TemporaryFile(dir=self._directory) for _ in range(1 << _PART_BITS)]  # noqa: SIM115
        hashes = np.concatenate([np.empty(0, np.uint64), *self._held])
        rows = np.stack([hashes, np.arange(self._n, self._n + len(hashes), dtype=np.uint64)], axis=1)
        part = hashes >> np.uint64(64 - _PART_BITS)
        order = np.argsort(part, kind="stable")
        bounds = np.searchsorted(part[order], np.arange((1 << _PART_BITS) + 1))
        with disk_errors(self._directory):
            for number, file in enumerate(self._files):
                file.write(rows[order[bounds[number] : bounds[number + 1]]].tobytes())
        self._n += len(hashes)
        self._held, self._n_held = [], 0
