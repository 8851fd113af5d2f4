"""Which keys an over-full unit keeps: the first ones in an order made of hashes of values.

A pair stands at the place that a mix of the salted hash of its unit and the salted hash of its key gives it
among the pairs of that unit; pairs whose mixes agree are ordered by the keys themselves. Nothing else enters,
so no other unit can change the choice, and a collision of hashes costs nothing but a comparison.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

from sparsehist.counting.in_memory.codes import first_of_runs
from sparsehist.typing import BoolArray, IndexArray, IntArray, NDArray, WordArray

WORD_BITS = 64


def salted_hash(values: pl.DataFrame, salt: bytes, purpose: bytes) -> WordArray:
    """Hash rows by value; shape (rows,).

    Polars takes 64 bits of seed, so two hashes carry the 128 bits of the salt. Of one column it hashes rows as it
    hashes the column, which needs no thread of its own pool: our threads would wait for one.
    """
    seeds = hashlib.blake2b(purpose, key=salt, digest_size=16).digest()
    hashed = values.to_series().hash if values.width == 1 else values.hash_rows
    first, second = (hashed(int.from_bytes(seed, "little")).to_numpy() for seed in (seeds[:8], seeds[8:]))
    return mix(first, second)


def mix(first: WordArray, second: WordArray) -> WordArray:
    """Mix two hashes into one (the finaliser of SplitMix64 on their sum)."""
    mixed = first + second
    mixed ^= mixed >> np.uint64(30)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def weight_of(sizes: IndexArray, weights: Sequence[tuple[int, int]]) -> IntArray:
    """What units with so many keys add to each that they keep, in parts of a count; shape (units,).

    Args:
        sizes: Distinct keys of each unit.
        weights: What a unit may add, falling, with the most keys it may add it to.
    """
    weight, most = np.array(weights, np.int64).T
    found: IntArray = weight[np.searchsorted(most, np.minimum(sizes, most[-1]))]
    return found


def first_keys(
    group: NDArray[np.unsignedinteger],
    hashes: WordArray,
    max_keys: int,
    rank_keys: Callable[[IndexArray], NDArray[np.unsignedinteger]],
) -> BoolArray:
    """Keep the first pairs of each unit.

    Args:
        group: Number of the unit of each pair, beginning at 0, not decreasing; shape (pairs,).
        hashes: Hash of each pair; shape (pairs,).
        max_keys: How many pairs a unit may keep.
        rank_keys: Given positions of pairs, ranks their keys by value; asked only where hashes agree.

    Returns:
        True where a pair is kept; shape (pairs,).
    """
    if not group.size:
        return np.zeros(0, dtype=bool)
    group_bits = np.uint64(int(group[-1]).bit_length())
    # What a word has no room for only matters where words tie, and ties are put in order by all 64 bits.
    words = hashes >> group_bits
    if group_bits:
        words |= group.astype(np.uint64) << np.uint64(WORD_BITS - int(group_bits))
    starts = np.flatnonzero(first_of_runs(group))
    sizes = np.diff(starts, append=group.size)
    ordered = np.sort(words)  # in less time than finding an order takes
    if first_of_runs(ordered).all():
        last_kept = ordered[starts + np.minimum(sizes, max_keys) - 1]
        return np.asarray(words <= last_kept[group])
    order = _ordered_with_ties(words, hashes, group, rank_keys)
    position = np.arange(group.size) - starts[group]
    kept = np.zeros(group.size, dtype=bool)
    kept[order[position < max_keys]] = True
    return kept


def _ordered_with_ties(
    words: WordArray,
    hashes: WordArray,
    group: NDArray[np.unsignedinteger],
    rank_keys: Callable[[IndexArray], NDArray[np.unsignedinteger]],
) -> IndexArray:
    """Order pairs by word, and those with equal words by all bits of their hashes, then by their keys."""
    order = np.argsort(words)
    first = first_of_runs(words[order])
    tied = ~first
    tied[:-1] |= ~first[1:]
    places = np.flatnonzero(tied)
    rows = order[places]
    order[places] = rows[np.lexsort((rank_keys(rows), hashes[rows], group[rows]))]
    return order
