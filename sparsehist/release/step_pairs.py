"""Which pairs of a new step count: first come, first kept, in an order of the unit's own within a step.

A pair of a unit and a key counts if it never did, and if fewer than `max_keys` keys of the unit did. Where a step has
more new keys of a unit than it may still count towards, the first ones are kept in an order made of a keyed hash of
unit and key, and of the key where hashes agree. So what a unit adds is a function of the secret salt and of its own
rows up to that step; what others do, the engine that read the log, and the order of its rows change nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from sparsehist.counting.contract import UnitPairs
from sparsehist.counting.in_memory import mixed, multiplier_of
from sparsehist.counting.tuples import types_of_tuple
from sparsehist.errors import DataError
from sparsehist.release.runs import Added, Numbers, PairRun, look_up
from sparsehist.release.step_files import StepFiles
from sparsehist.store.support import hash_keys
from sparsehist.typing import IntArray, WordArray

_TEXT = (pl.String, pl.Categorical, pl.Enum)
_HASHED_AT_ONCE = 1 << 16


def comparable_units(units: pl.Series, columns: str | Sequence[str]) -> tuple[pl.Series, str]:
    """Bring units to whole numbers or text, and say what kind they are: those of two kinds are never compared.

    Tuples of several columns come as text. Without units the kind is empty.
    """
    compared, kind = _compared(units)
    if units.len() and not isinstance(columns, str) and len(columns) > 1:
        kind = types_of_tuple(units[0])
    return compared, kind if units.len() else ""


def kind_of_all(known: str, kind: str, before: str) -> str:
    """The kind of all units so far, empty as long as there are none; `before` says where the known ones were."""
    if known and kind and kind != known:
        raise DataError(
            f"units were {known} in the {before} before and are {kind} now: nobody could tell which of them are the "
            "same; cast the column"
        )
    return known or kind


def _compared(units: pl.Series) -> tuple[pl.Series, str]:
    dtype = units.dtype
    if isinstance(dtype, _TEXT):
        return units.cast(pl.String), "text"
    if dtype in (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32):
        return units.cast(pl.Int64), "whole numbers"
    if dtype.is_temporal():
        return units.to_physical().cast(pl.Int64), str(dtype)
    return (units.bin.encode("hex") if dtype == pl.Binary else units.cast(pl.String)), str(dtype)


@dataclass(frozen=True, repr=False)
class Day:
    """The distinct pairs of a step, with keyed hashes of units and keys. Secret."""

    pairs: UnitPairs
    unit_kind: str
    unit_hashes: WordArray
    key_hashes: WordArray

    @classmethod
    def of_pairs(cls, pairs: UnitPairs, columns: str | Sequence[str], salt: bytes) -> Day:
        """With units, of these columns, that can be compared with those of other steps."""
        units, kind = comparable_units(pairs.units, columns)
        # A product with an odd number tells whole numbers apart as they are.
        hashes = spread(units.to_numpy(), salt) if units.dtype == pl.Int64 else hash_keys(units.to_frame(), salt)
        return cls(replace(pairs, units=units.alias("unit")), kind, hashes, hash_keys(pairs.keys, salt))

    @property
    def starts(self) -> IntArray:
        """Where the pairs of each unit begin."""
        return np.cumsum(self.pairs.sizes) - self.pairs.sizes

    def digest(self, salt: bytes) -> bytes:
        """A keyed digest of the pairs, whatever their order: two sums of hashes of all pairs, and how many there are.

        Who knows no salt cannot aim at a sum; and a step that is taken for another one is not counted, no more.
        """
        sums = np.zeros(2, np.uint64)
        units = np.repeat(self.unit_hashes, self.pairs.sizes)
        for start in range(0, units.size, _HASHED_AT_ONCE):
            block = slice(start, start + _HASHED_AT_ONCE)
            hashes = mixed(units[block] + self.key_hashes[self.pairs.codes[block]])
            sums += [hashes.sum(), mixed(hashes + units[block]).sum()]
        return hashlib.blake2b(
            np.append(sums, np.uint64(units.size)).tobytes(), key=salt, digest_size=16, person=b"appended-pairs"
        ).digest()


def added(day: Day, files: StepFiles, max_keys: int, salt: bytes) -> Added:
    """Choose the pairs of a step that count."""
    unit_numbers, new_texts, new_hashes = _numbered(day, files)
    day, words = _in_order(day, spread(unit_numbers, salt))
    numbers = files.known_keys.find(day.pairs.keys, day.key_hashes)
    sizes, codes = day.pairs.sizes, day.pairs.codes
    unit_of = np.repeat(np.arange(sizes.size, dtype=np.uint32), sizes)
    key_of = numbers[codes]
    used, known = look_up(files.pair_runs, words, sizes, key_of, max_keys)
    fresh, room = ~known, max_keys - used
    asked = np.add.reduceat(fresh, day.starts, dtype=np.int64) if codes.size else used
    kept = fresh & (asked <= room)[unit_of]
    rows = np.flatnonzero(fresh & ((asked > room) & (room > 0))[unit_of])
    kept[rows[_first_of_unit(day, rows, unit_of[rows], room)]] = True
    sizes = np.add.reduceat(kept, day.starts, dtype=np.int64) if codes.size else used
    new_codes = np.unique(codes[kept & (key_of < 0)])
    new_codes = new_codes[np.argsort(day.key_hashes[new_codes])]
    numbers[new_codes] = len(files.known_keys) + np.arange(new_codes.size)
    pairs = PairRun.of_pairs(words[sizes > 0], sizes[sizes > 0], numbers[codes[kept]])
    return Added(day.pairs.keys[new_codes], day.key_hashes[new_codes], new_texts, new_hashes, pairs)


def _numbered(day: Day, files: StepFiles) -> tuple[IntArray, pl.DataFrame, WordArray]:
    """Units as whole numbers; and those texts that have no number yet, with their hashes."""
    units, hashes = day.pairs.units, day.unit_hashes
    if units.dtype == pl.Int64:
        return units.to_numpy(), units.clear().to_frame(), hashes[:0]
    numbers = files.known_units.find(units.to_frame(), hashes)
    new = np.flatnonzero(numbers < 0)
    numbers[new] = len(files.known_units) + np.arange(new.size)
    return numbers, units.gather(new).to_frame(), hashes[new]


def spread(numbers: IntArray, salt: bytes) -> WordArray:
    """One word for each whole number."""
    words: WordArray = numbers.view(np.uint64) * np.uint64(multiplier_of(salt))
    return words


def _in_order(day: Day, words: WordArray) -> tuple[Day, WordArray]:
    """The same step with its units in the order of their words, as Polars has counted those that are numbers."""
    if (words[1:] > words[:-1]).all():
        return day, words
    order, starts = np.argsort(words), day.starts
    sizes = day.pairs.sizes[order]
    rows = np.arange(day.pairs.codes.size) + np.repeat(starts[order] - np.cumsum(sizes) + sizes, sizes)
    pairs = replace(day.pairs, units=day.pairs.units.gather(order), sizes=sizes, codes=day.pairs.codes[rows])
    return replace(day, pairs=pairs, unit_hashes=day.unit_hashes[order]), words[order]


def _first_of_unit(day: Day, rows: IntArray, unit_of: Numbers, room: IntArray) -> IntArray:
    """Of pairs of units that have more of them than room, the places of those that come first."""
    order = pl.Series(mixed(day.unit_hashes[unit_of] + day.key_hashes[day.pairs.codes[rows]]))
    over = day.pairs.keys[day.pairs.codes[rows]].with_columns(unit=unit_of, order=order, room=room[unit_of])
    first = (
        over.with_row_index("place")
        .sort("unit", "order", *day.pairs.keys.columns)
        .filter(pl.int_range(pl.len()).over("unit") < pl.col("room"))
    )
    return first["place"].to_numpy()
