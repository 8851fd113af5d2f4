"""Which keys have a count: a keyed 64-bit hash of keys, and sorted hashes with the positions of their rows.

The file, memory-mapped: magic · version of the hash · k · bytes of a position · hashes, sorted (k × 8) · positions
(k × 4 or 8).

The hashes that come with Polars and DuckDB may change with any version of theirs; a store outlives them. This one
is defined here, once and for all (`HASH_VERSION`), and pinned by fixed vectors in the tests. It only finds rows:
whether a key is there is always decided by the key itself, so a collision costs a comparison and no more. The
salt keeps an outsider from knowing which keys collide.

    state = seed0; for each column: state = step(state, length of the value in bytes), then step for each of its
    8-byte little-endian words, the last one padded with zeros; result = finish(state, seed1)
    step(s, w): s = (s ^ w)·M mod 2⁶⁴; s ^ (s >> 32)

Integers, booleans and dates are one word of two's complement, of length 8.
"""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from sparsehist.errors import promise
from sparsehist.store.ordering import sort_with_positions
from sparsehist.store.private_files import altered, atomic_file, disk_errors
from sparsehist.store.records import RegisteredFile
from sparsehist.typing import ByteArray, IntArray, NDArray, WordArray

if TYPE_CHECKING:
    import pyarrow as pa

SUPPORT = "support"
# What salts are for: which keys a unit keeps, which a warehouse or a cluster that counts gets to know; in which order
# keys of equal count stand; which keys there are; and whether noise is rounded up or down. All but the first stay
# with the store and what it writes.
BOUNDING, ORDER, LOOK_UP, LOTS, _SUPPORT = b"bounding", b"order", b"look-up", b"lots", b"support-keys"
_MAGIC = int.from_bytes(b"SHSUPPRT", "little")
_HEADER_WORDS = 4
_WRITTEN_AT_ONCE = 1 << 20
HASH_VERSION = 1

_STEP = 0x9E3779B97F4A7C15  # 2⁶⁴ over the golden ratio, as in splitmix64
_FINISH = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # the multipliers of splitmix64
_WORD = 8
_MASKS = [(1 << 8 * n) - 1 for n in range(_WORD + 1)]  # of n bytes
_BLOCK = 1 << 14  # rows at a time: the temporaries of a block stay in the cache of a core


def salt_for(purpose: bytes, secret: bytes) -> bytes:
    """Derive the salt for one purpose from the secret of a series; one tells nothing of another."""
    return hashlib.blake2b(secret, digest_size=16, person=purpose).digest()


def plain(rows: pl.DataFrame) -> pa.Table:
    """The oldest Arrow layout: offsets and bytes in place of views, known to every later reader."""
    return rows.to_arrow(compat_level=pl.CompatLevel.oldest())


def hash_keys(keys: pl.DataFrame, salt: bytes, table: pa.Table | None = None) -> WordArray:
    """Hash every row.

    Args:
        keys: Columns of strings, bytes, integers, booleans or dates, without nulls.
        salt: Of the series.
        table: What `plain` makes of them, if that is at hand.

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
    """Absorb texts word by word, all rows at once; rows drop out when they are through."""
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


def write_support(directory: Path, hashes: WordArray, *, durable: bool) -> RegisteredFile:
    """Write the hashes of the rows 0 … k−1, sorted."""
    ordered, positions = sort_with_positions(hashes)
    header = np.array([_MAGIC, HASH_VERSION, len(hashes), positions.itemsize], dtype="<u8")
    with atomic_file(directory / SUPPORT, durable=durable) as file:
        file.write(header.tobytes())
        for block in chain(_blocks(ordered), _blocks(positions)):
            file.write(block)
    return file.registered


def _blocks(array: NDArray[np.uint32 | np.uint64]) -> Iterator[memoryview]:
    for low in range(0, len(array), _WRITTEN_AT_ONCE):
        block = array[low : low + _WRITTEN_AT_ONCE]
        yield block.astype(block.dtype.newbyteorder("<"), copy=False).view(np.uint8).data


class Support:
    """Looks up hashes; opening reads the header only."""

    def __init__(self, path: Path) -> None:
        with disk_errors(path), path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        header = np.frombuffer(mapped, dtype="<u8", count=min(_HEADER_WORDS, len(mapped) // 8)).tolist()
        _, _, count, width = header if len(header) == _HEADER_WORDS else (0, 0, 0, 0)
        start = 8 * _HEADER_WORDS
        sized = width in {4, 8} and len(mapped) == start + (8 + width) * count
        if header[:2] != [_MAGIC, HASH_VERSION] or not sized:
            raise altered(path)
        self._hashes: WordArray = np.frombuffer(mapped, dtype="<u8", count=count, offset=start)
        self._positions = np.frombuffer(mapped, dtype=f"<u{width}", count=count, offset=start + 8 * count)

    def candidates(self, hashes: WordArray) -> Iterator[tuple[IntArray, IntArray]]:
        """The rows with the hashes asked for: pairs of (index into `hashes`, position), most often one pair.

        Each pair holds at most one row for each hash; rows with equal hashes come in further pairs.
        """
        asked = np.arange(len(hashes))
        place = np.searchsorted(self._hashes, hashes)
        while True:
            inside = place < len(self._hashes)
            asked, place = asked[inside], place[inside]
            hit = self._hashes[place] == hashes[asked]
            asked, place = asked[hit], place[hit]
            if len(asked) == 0:
                return
            yield asked, self._positions[place].astype(np.int64)
            place = place + 1
