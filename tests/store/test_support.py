from __future__ import annotations

import hashlib

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparsehist.store import support
from sparsehist.store.support import hash_keys

SALT = b"fixed for ever"
M, TOP = 0x9E3779B97F4A7C15, 2**64


def reference(row: tuple[str | int, ...], salt: bytes) -> int:
    """Return the hash of one key, computed step by step from the definition of the hash."""
    seeds = hashlib.blake2b(salt, digest_size=16, person=b"support-keys").digest()
    state = int.from_bytes(seeds[:8], "little")
    for value in row:
        content = value.encode() if isinstance(value, str) else value.to_bytes(8, "little", signed=True)
        words = [int.from_bytes(content[at : at + 8], "little") for at in range(0, len(content), 8)]
        for word in (len(content), *words):
            state = (state ^ word) * M % TOP
            state ^= state >> 32
    state ^= int.from_bytes(seeds[8:], "little")
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        state = (state ^ (state >> shift)) * factor % TOP
    return state


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.text(max_size=40), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=20))
def test_hash_follows_its_definition(rows):
    """The vectorised hash of a key equals its definition, whatever other keys are in the frame."""
    keys = pl.DataFrame(rows, schema={"key_0": pl.String, "key_1": pl.Int64}, orient="row")
    assert hash_keys(keys, SALT).tolist() == [reference(row, SALT) for row in rows]
    assert hash_keys(keys[1:], SALT).tolist() == [reference(row, SALT) for row in rows[1:]]


@pytest.mark.parametrize("number", [0, 1, 50, 1000])
def test_sorted_hashes_rise_and_keep_their_positions(monkeypatch, number):
    """Hashes are returned in ascending order with their positions, even if there are too many to sort at once."""
    monkeypatch.setattr(support, "_SORTED", 100)
    hashes = np.random.default_rng(3).integers(0, 2**64, number, dtype=np.uint64)
    pieces = list(support.in_order(hashes, 37))
    assert all(0 < len(words) <= 37 for words in pieces)
    words, bits = np.concatenate([*pieces, hashes[:0]]), number.bit_length()
    positions = words & np.uint64(2**bits - 1)
    assert np.array_equal(words, np.sort(words)) and sorted(positions.tolist()) == [*range(number)]
    assert np.array_equal(words >> bits, hashes[positions] >> bits)
