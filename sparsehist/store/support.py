"""Derive salts, and hash keys with a keyed 64-bit hash that never changes.

Stores keep these hashes, so the hashes of Polars and DuckDB, which may change with a new version, cannot be used.
Tests compare this hash with fixed values. A hash only finds candidate rows, whose keys are then compared, so a
collision only costs time. The salt prevents outsiders from choosing keys that collide.

    state = seed0; for each column: state = step(state, length of the value in bytes), then step for each of its
    8-byte little-endian words, the last one padded with zeros; result = finish(state, seed1)
    step(s, w): s = (s ^ w)·M mod 2⁶⁴; s ^ (s >> 32)

Integers, booleans and dates are one word in two's complement, with length 8.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from sparsehist.errors import promise
from sparsehist.typing import WordArray

if TYPE_CHECKING:
    import pyarrow as pa

# Purposes of salts. BOUNDING is for choosing which keys of a unit are kept, ORDER for shuffling keys of equal count.
# The salts for BOUNDING and ORDER are sent to the warehouse or cluster that counts; all others stay in the store.
BOUNDING, ORDER, ROUNDING, _SUPPORT = b"bounding", b"order", b"lots", b"support-keys"

_STEP = 0x9E3779B97F4A7C15  # 2⁶⁴ divided by the golden ratio, as in splitmix64
_FINISH = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # the multipliers of splitmix64
_WORD = 8
_MASKS = np.array([(1 << 8 * n) - 1 for n in range(_WORD + 1)], dtype=np.uint64)  # _MASKS[n] keeps the n lowest bytes
_SORTED = 1 << 24  # largest number of hashes that are sorted at once


def salt_for(purpose: bytes, secret: bytes) -> bytes:
    """Derive the salt for one purpose from the secret of a series; salts for different purposes are independent."""
    return hashlib.blake2b(secret, digest_size=16, person=purpose).digest()


def plain(rows: pl.DataFrame) -> pa.Table:
    """Return rows in the oldest Arrow layout (offsets and bytes, no views), which every Arrow reader supports."""
    return rows.to_arrow(compat_level=pl.CompatLevel.oldest())


def hash_keys(keys: pl.DataFrame, salt: bytes, table: pa.Table | None = None) -> WordArray:
    """Hash each row of `keys`, which must not have nulls. If `plain(keys)` exists already, pass it as `table`."""
    table = plain(keys) if table is None else table
    seeds = np.frombuffer(salt_for(_SUPPORT, salt), dtype="<u8")
    state = np.full(keys.height, seeds[0], dtype=np.uint64)
    for column in keys.iter_columns():
        promise(column.null_count() == 0, "a key without a value")
        if column.dtype in {pl.String, pl.Binary}:
            _absorb_texts(state, table[column.name])
        else:
            dtype = pl.UInt64 if column.dtype == pl.UInt64 else pl.Int64
            _absorb(state, np.full(len(column), _WORD, dtype=np.uint64))
            _absorb(state, column.cast(dtype).to_numpy().view(np.uint64))
    state ^= seeds[1]
    for shift, factor in zip((30, 27), _FINISH, strict=True):
        state ^= state >> np.uint64(shift)
        state *= factor
    state ^= state >> np.uint64(31)
    return state


def _absorb_texts(state: WordArray, column: pa.ChunkedArray) -> None:
    """Update the hash state of every row with the string of that row, eight bytes at a time."""
    for chunk in column.chunks:
        of_chunk, state = state[: len(chunk)], state[len(chunk) :]
        _, offsets, content = chunk.buffers()
        bounds = np.frombuffer(offsets, "<i8")[chunk.offset : chunk.offset + len(chunk) + 1]
        padded = (b"" if content is None else content.to_pybytes()) + bytes(_WORD)
        words: WordArray = np.ndarray((len(padded) - _WORD + 1,), dtype="<u8", buffer=padded, strides=(1,))
        start, remaining = bounds[:-1], np.diff(bounds)
        _absorb(of_chunk, remaining.view(np.uint64))
        rows = np.flatnonzero(remaining > 0)
        while len(rows):
            part, at = of_chunk[rows], start[rows]
            _absorb(part, words[at] & _MASKS[np.minimum(remaining[rows], _WORD)])
            of_chunk[rows] = part
            start, remaining = start + _WORD, remaining - _WORD
            rows = rows[remaining[rows] > 0]


def _absorb(state: WordArray, word: WordArray) -> None:
    state ^= word
    state *= _STEP
    state ^= state >> np.uint64(32)


def in_order(hashes: WordArray, rows: int) -> Iterator[WordArray]:
    """Sort hashes in bounded memory. Yield a 64-bit integer for each hash, in arrays of up to `rows` integers.

    An integer consists of the leading bits of a hash, followed by the position of this hash in `hashes`, in
    `len(hashes).bit_length()` bits. The integers are in increasing order. The hashes may be memory-mapped: only
    those that begin with the same few bits are kept in memory and sorted together.
    """
    of_position, bits = np.uint64(len(hashes).bit_length()), (len(hashes) // _SORTED).bit_length()
    for number in range(1 << bits):
        partition = []
        for low in range(0, max(len(hashes), 1), _SORTED):
            words = np.asarray(hashes[low : low + _SORTED]) >> of_position << of_position
            words |= np.arange(low, low + len(words), dtype=np.uint64)
            partition.append(words[words >> np.uint64(64 - bits) == number])
        words = pl.Series(np.concatenate(partition)).sort(multithreaded=False).to_numpy()
        yield from (words[low : low + rows] for low in range(0, len(words), rows))
