"""What a step is looked up in, as a few sorted runs: each step adds one, and runs of like size become one.

So a step is looked up by a few binary searches, and what was written once is written again only as often as the whole
has grown fourfold since. A run is a file that is written once; those that it takes the place of go with its commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import polars as pl

from sparsehist.errors import StoreDamagedError, promise, raise_alone
from sparsehist.store.private_files import disk_errors
from sparsehist.typing import AnyArray, BoolArray, IndexArray, IntArray, NDArray, WordArray

if TYPE_CHECKING:
    import pyarrow as pa

_FAN_BITS = 2  # four runs of like size become one: fewer would be written more often, more would be searched longer
_MERGED_AT_ONCE = 1 << 18  # pairs: their temporaries stay in the cache of a core
_MOST = 2**32
Numbers: TypeAlias = "NDArray[np.uint32]"


def n_replaced(sizes: Sequence[int], new: int) -> int:
    """How many of the last runs, given their sizes, one of a new size is merged with.

    All that are smaller by a power of the fan, and those of like size as soon as there would be as many as the fan.
    """
    left, total = list(sizes), new
    while left:
        own = _class_of(total)
        like = sum(1 for _ in takewhile(own.__eq__, map(_class_of, reversed(left))))
        n = 1 if _class_of(left[-1]) < own else like
        if n == like and like < (1 << _FAN_BITS) - 1:
            break
        total += sum(left[len(left) - n :])
        del left[len(left) - n :]
    return len(sizes) - len(left)


def _class_of(size: int) -> int:
    return size.bit_length() // _FAN_BITS


@dataclass(frozen=True, repr=False)
class PairRun:
    """Pairs that counted, by unit. Secret.

    Attributes:
        units: Ascending; shape (n,).
        starts: Where the keys of each begin; shape (n + 1,).
        keys: Numbers of the keys, ascending within a unit; shape (pairs,).
    """

    units: WordArray
    starts: Numbers
    keys: Numbers

    @classmethod
    def of_pairs(cls, units: WordArray, sizes: IndexArray, keys: IntArray) -> PairRun:
        """From pairs that stand side by side by unit; units ascending, and all with at least one."""
        promise(keys.size < _MOST and int(keys.max(initial=0)) < _MOST, "more than 2**32 keys or pairs in one run")
        words = np.repeat(np.arange(units.size, dtype=np.uint64) << np.uint64(32), sizes) | keys.astype(np.uint64)
        words.sort()
        starts = np.zeros(units.size + 1, np.uint32)
        np.cumsum(sizes, out=starts[1:])
        return cls(units, starts, words.astype(np.uint32))

    @classmethod
    def read(cls, path: Path) -> PairRun:
        """Map a file into memory."""
        with disk_errors(path):
            words = np.memmap(path, "<u8", "r")
        n = int(words[0])
        numbers = words[n + 1 :].view("<u4")
        if int(words[n + 1 :].size) * 2 < n + 1:
            raise StoreDamagedError(f"{path} was altered; restore the store from a backup")
        return cls(words[1 : n + 1], numbers[: n + 1], numbers[n + 1 : n + 1 + int(numbers[n])])

    def parts(self) -> list[memoryview]:
        """The content of its file."""
        head, tail = np.array([self.units.size], "<u8"), np.zeros((self.starts.size + self.keys.size) % 2, "<u4")
        blocks = (head, self.units, self.starts, self.keys, tail)
        return [np.ascontiguousarray(block).view(np.uint8).data for block in blocks if block.size]

    def look_up(self, units: WordArray, used: IntArray, unit_of: Numbers, keys: IntArray, known: BoolArray) -> None:
        """Add to what units have used, and mark the pairs that are there.

        Args:
            units: Ascending; shape (n,).
            used: How many pairs of each counted, added to; shape (n,).
            unit_of: Place of the unit of each pair; shape (pairs,).
            keys: Number of the key of each pair, negative for a new one; shape (pairs,).
            known: Set where the pair is in the run; shape (pairs,).
        """
        place = np.searchsorted(self.units, units)
        np.minimum(place, self.units.size - 1, out=place)
        met = self.units[place] == units
        low, high = self.starts[place].astype(np.int64), self.starts[place + 1].astype(np.int64)
        used += np.where(met, high - low, 0)
        rows = np.flatnonzero(met[unit_of] & (keys >= 0))
        low, high, wanted = low[unit_of[rows]], high[unit_of[rows]], keys[rows]
        while rows.size:
            middle = (low + high) >> 1
            at = self.keys[middle]
            known[rows[at == wanted]] = True
            low, high = np.where(at < wanted, middle + 1, low), np.where(at > wanted, middle, high)
            open_still = (low < high) & (at != wanted)
            rows, low, high, wanted = rows[open_still], low[open_still], high[open_still], wanted[open_still]


def merged_pairs(runs: Sequence[PairRun]) -> PairRun:
    """All pairs of some runs as one, block by block of units."""
    total = sum(run.keys.size for run in runs)
    largest = max(runs, key=lambda run: run.units.size).units
    bounds = largest[np.linspace(0, largest.size, total // _MERGED_AT_ONCE + 1, dtype=np.int64)[1:-1]]
    ends = [[0, *np.searchsorted(run.units, bounds), run.units.size] for run in runs]
    blocks = [_merged_block(runs, [own[i : i + 2] for own in ends]) for i in range(bounds.size + 1)]
    units, sizes, keys = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    starts = np.zeros(units.size + 1, np.uint32)
    np.cumsum(sizes, out=starts[1:])
    return PairRun(units, starts, keys)


def _merged_block(runs: Sequence[PairRun], ends: Sequence[Sequence[int]]) -> tuple[WordArray, IntArray, Numbers]:
    parts = [run.units[low:high] for run, (low, high) in zip(runs, ends, strict=True)]
    units = np.sort(np.concatenate(parts))
    units = units[np.diff(units, prepend=~units[:1]) != 0]
    words, sizes = [], np.zeros(units.size, np.int64)
    for run, part, (low, high) in zip(runs, parts, ends, strict=True):
        place = np.searchsorted(units, part)
        own = np.diff(run.starts[low : high + 1])
        sizes[place] += own
        keys = run.keys[run.starts[low] : run.starts[high]]
        words.append(np.repeat(place.astype(np.uint64) << np.uint64(32), own) | keys)
    ordered = np.sort(np.concatenate(words))
    return units, sizes, ordered.astype(np.uint32)


class Numbering:
    """Values with numbers in the order in which they came, for good. Secret.

    A run has some of them, one after another; beside them stand their hashes, sorted, each with its row. A hash only
    finds a row: whether a value is there is decided by the value itself. Polars would copy the text of a run to look
    at a few rows of it, so runs are Arrow tables.

    Args:
        runs: Columns of the values, hash and row; each column in one piece.
    """

    def __init__(self, runs: Sequence[pa.Table]) -> None:
        self.runs = runs

    @classmethod
    def read(cls, paths: Sequence[Path]) -> Numbering:
        """Map files into memory."""
        import pyarrow as pa

        runs = []
        for path in paths:
            try:
                runs.append(pa.ipc.open_file(pa.memory_map(str(path))).read_all())
            except (pa.ArrowException, OSError):
                raise_alone(StoreDamagedError(f"{path} was altered; restore the store from a backup"))
        return cls(runs)

    def __len__(self) -> int:
        return sum(run.num_rows for run in self.runs)

    def values(self) -> list[pl.DataFrame]:
        """The values of each run, by number."""
        return [_values(run) for run in self.runs]

    def find(self, values: pl.DataFrame, hashes: WordArray) -> IntArray:
        """The number of each value, -1 for those that have none."""
        found = np.full(values.height, -1, np.int64)
        order, before = np.argsort(hashes), 0
        for run in self.runs:
            known, row_of = _numbers(run, "hash"), _numbers(run, "row")
            rows, at = order, np.searchsorted(known, hashes[order])
            while rows.size:
                here = at < known.size
                here[here] = known[at[here]] == hashes[rows[here]]
                rows, at = rows[here], at[here]
                candidates = row_of[at]
                found_values = _values(run.take(candidates))
                equal = np.ones(rows.size, bool)
                for name in values.columns:
                    equal &= (values[name].gather(rows) == found_values[name].cast(values[name].dtype)).to_numpy()
                found[rows[equal]] = before + candidates[equal].astype(np.int64)
                rows, at = rows[~equal], at[~equal] + 1
            before += run.num_rows
        return found


@dataclass(frozen=True, repr=False)
class Added:
    """What a step adds. Secret.

    Attributes:
        keys: Those that occur for the first time, numbered after the others; columns key_0, …
        key_hashes: Theirs.
        units: Text of units that occur for the first time, numbered likewise; empty where units are whole numbers.
        unit_hashes: Theirs.
        pairs: Those that count.
    """

    keys: pl.DataFrame
    key_hashes: WordArray
    units: pl.DataFrame
    unit_hashes: WordArray
    pairs: PairRun


def numbering_run(values: pl.DataFrame, hashes: WordArray) -> pa.Table:
    """A run of new values."""
    return _run(values, hashes, np.arange(hashes.size))


def merged_numbering(runs: Sequence[pa.Table]) -> pa.Table:
    """Runs that follow each other as one."""
    offsets = np.cumsum([0, *(run.num_rows for run in runs[:-1])])
    rows = np.concatenate([_numbers(run, "row") + offset for run, offset in zip(runs, offsets, strict=True)])
    hashes = np.concatenate([_numbers(run, "hash") for run in runs])
    return _run(pl.concat([_values(run) for run in runs]), hashes, rows)


def _run(values: pl.DataFrame, hashes: WordArray, rows: IndexArray) -> pa.Table:
    order = np.argsort(hashes)
    sorted_by_hash = {"hash": pl.Series(hashes[order]), "row": pl.Series(rows[order], dtype=pl.UInt32)}
    return values.with_columns(**sorted_by_hash).rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())


def _numbers(run: pa.Table, name: str) -> AnyArray:
    return np.asarray(run[name].combine_chunks().to_numpy(zero_copy_only=True))


def _values(run: pa.Table) -> pl.DataFrame:
    return pl.DataFrame(pl.from_arrow(run.drop_columns(["hash", "row"])))
