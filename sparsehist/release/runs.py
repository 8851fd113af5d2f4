"""What a step is looked up in, as a few sorted runs: each step adds one, and runs of like size become one.

A run is sorted by keyed words, as good as random. Beside them stands where those begin that start with the same bits;
what is looked up is a place or two from there. What was written once is written again only as often as the whole has
grown fourfold since. A run is a file that is written once; those that it takes the place of go with its commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import polars as pl

from sparsehist.errors import promise, raise_alone
from sparsehist.store.private_files import altered, disk_errors
from sparsehist.typing import AnyArray, BoolArray, IndexArray, IntArray, NDArray, WordArray

if TYPE_CHECKING:
    import pyarrow as pa

_FAN_BITS = 2  # four runs of like size become one: fewer would be written more often, more would be searched longer
_MERGED_AT_ONCE = 1 << 18  # pairs: their temporaries stay in the cache of a core
_LOOKED_UP_AT_ONCE = 1 << 15  # units
_PLACES = 8  # looked at one by one: with a word or two to a beginning, hardly any are left then
_SEAL = b"checked\0"
_MOST = 2**32 - 1  # which no key is: so -1 reads as a number of 32 bits
Numbers: TypeAlias = "NDArray[np.uint32]"


def sealed(parts: Sequence[memoryview]) -> list[memoryview | bytes]:
    """The content of a file of a run, with a checksum behind it that is quick to compare."""
    return [*parts, _SEAL + _checksum(parts)]


def _whole(path: Path) -> NDArray[np.uint8]:
    """Map the content of such a file into memory, if it is as it was written."""
    with disk_errors(path):
        content = np.asarray(np.memmap(path, np.uint8, "r"))
    if content[-16:-8].tobytes() != _SEAL:  # written before there were checksums
        return content
    if content[-8:].tobytes() != _checksum([content[:-16].data]):
        raise altered(path)
    return content[:-16]


def _checksum(parts: Sequence[memoryview]) -> bytes:
    """The exclusive or of all words, as fast as memory: it finds bits that were lost, not who wants to go unseen."""
    total, size = 0, 0
    for part in parts:
        content = np.frombuffer(part, np.uint8)
        end = content.size // 8 * 8
        word = int(np.bitwise_xor.reduce(content[:end].view("<u8")))
        word ^= int.from_bytes(content[end:].tobytes(), "little")
        lane = 8 * (size % 8)  # where in a word the part begins
        total ^= word << lane | word >> (64 - lane)
        size += content.size
    return (total % 2**64).to_bytes(8, "little")


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
        begins: What `begins_of` says of the units, if it was read with them.
    """

    units: WordArray
    starts: Numbers
    keys: Numbers
    begins: Numbers | None = None

    @classmethod
    def of_pairs(cls, units: WordArray, sizes: IndexArray, keys: IntArray) -> PairRun:
        """From pairs that stand side by side by unit; units ascending, and all with at least one."""
        promise(max(keys.size, int(keys.max(initial=0))) < _MOST, "more than 2**32 keys or pairs in one run")
        words = np.repeat(np.arange(units.size, dtype=np.uint64) << np.uint64(32), sizes) | keys.astype(np.uint64)
        words.sort()
        starts = np.zeros(units.size + 1, np.uint32)
        np.cumsum(sizes, out=starts[1:])
        return cls(units, starts, words.astype(np.uint32))

    @classmethod
    def read(cls, path: Path) -> PairRun:
        """Map a file into memory."""
        words = _whole(path).view("<u8")
        n, numbers = int(words[0]), words[int(words[0]) + 1 :].view("<u4")
        starts = numbers[_n_begins(n) : _n_begins(n) + n + 1]
        if starts.size < n + 1 or starts.size + _n_begins(n) + int(starts[-1]) > numbers.size:
            raise altered(path)
        keys = numbers[_n_begins(n) + n + 1 :][: int(starts[-1])]
        return cls(words[1 : n + 1], starts, keys, numbers[: _n_begins(n)])

    def parts(self) -> list[memoryview]:
        """The content of its file."""
        numbers = (begins_of(self.units) if self.begins is None else self.begins, self.starts, self.keys)
        tail = np.zeros(sum(part.size for part in numbers) % 2, "<u4")
        blocks = (np.array([self.units.size], "<u8"), self.units, *numbers, tail)
        return [np.ascontiguousarray(block).view(np.uint8).data for block in blocks if block.size]


def look_up(
    runs: Sequence[PairRun], units: WordArray, sizes: IndexArray, keys: IntArray, max_keys: int
) -> tuple[IntArray, BoolArray]:
    """Look pairs up that stand side by side by unit; `keys` are their numbers, negative for new ones.

    Returns how many pairs of each unit counted, at least `max_keys` if it is not less, shape (n,); and which pairs
    are in a run, shape (pairs,), right for units that have fewer: what others ask for is not looked at.
    """
    used, known = np.zeros(units.size, np.int64), np.zeros(keys.size, bool)
    firsts = np.cumsum(sizes) - sizes
    # Block by block, so that temporaries stay in the cache of a core.
    for start in range(0, units.size, _LOOKED_UP_AT_ONCE):
        block = slice(start, start + _LOOKED_UP_AT_ONCE)
        for run, rows, at in _units_met(runs, units[block], used[block], max_keys):
            with_room = used[block].take(rows) < max_keys
            its_units, at = rows[with_room], at[with_room]  # noqa: PLW2901
            asked = sizes[block].take(its_units)
            spread_out = np.repeat(np.arange(asked.size), asked)
            before = np.cumsum(asked) - asked
            pairs = np.arange(spread_out.size) + (firsts[block].take(its_units) - before).take(spread_out)
            low, high = (run.starts.take(at + i).astype(np.int64).take(spread_out) for i in (0, 1))
            known[pairs[_held(run.keys, keys.take(pairs).astype(np.uint32), low, high)]] = True
    return used, known


def _units_met(
    runs: Sequence[PairRun], units: WordArray, used: IntArray, max_keys: int
) -> list[tuple[PairRun, IntArray, IntArray]]:
    """Which units a run has, and where; adds to how many pairs of each counted, as long as it may matter."""
    met = []
    for run in runs:
        with_room = np.flatnonzero(used < max_keys)
        begins = begins_of(run.units) if run.begins is None else run.begins
        rows, at = found_at(run.units, begins, units[with_room])
        rows = with_room[rows]
        used[rows] += run.starts.take(at + 1) - run.starts.take(at)
        met.append((run, rows, at))
    return met


def _held(keys: Numbers, asked: Numbers, low: IntArray, high: IntArray) -> IntArray:
    """Which of the keys asked for stand between their places, of which there is at least one each."""
    rows, wanted = np.arange(asked.size), asked
    last = low
    while rows.size:
        wide = np.flatnonzero(high - low > 1)
        rows, wanted, low, high = rows[wide], wanted[wide], low[wide], high[wide]
        middle = (low + high) >> 1
        above = keys.take(middle) > wanted
        low, high = np.where(above, low, middle), np.where(above, middle, high)
        last[rows] = low
    return np.flatnonzero(keys.take(last) == asked)


def _n_begins(n: int) -> int:
    return 1 << max(n.bit_length() - 1, 0)


def begins_of(words: WordArray) -> Numbers:
    """Where ascending words begin that start with the same bits, so many bits that there is a word or two to each."""
    n = _n_begins(words.size)
    counts = np.bincount((words >> np.uint64(65 - n.bit_length())).astype(np.int64), minlength=n)
    return (np.cumsum(counts) - counts).astype(np.uint32)


def found_at(words: WordArray, begins: Numbers, asked: WordArray) -> tuple[IntArray, IntArray]:
    """Which of the words asked for are there, and where each is first; words ascend and begin as `begins` says.

    The words of a salt are as good as random, so that few stand between where one would begin and itself; whatever is
    not found within some places is searched for among all of them.
    """
    if not words.size:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    at = begins.take((asked >> np.uint64(65 - begins.size.bit_length())).view(np.int64)).astype(np.int64)
    rows, wanted, here = np.arange(asked.size), asked, at
    for _ in range(_PLACES):
        below = np.flatnonzero(words.take(here, mode="clip") < wanted)
        rows, wanted, here = rows[below], wanted[below], here[below] + 1
        at[rows] = here
    at[rows] = np.searchsorted(words, wanted)
    found = np.flatnonzero(words.take(at, mode="clip") == asked)
    return found, at[found]


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

    A run has some of them, one after another; beside them stand their hashes, sorted, each with its row, and where
    those begin (`begins_of`). A hash only finds a row: whether a value is there is decided by the value itself.
    Polars would copy the text of a run to look at a few rows of it, so runs are Arrow tables.

    Args:
        runs: Columns of the values, hash, row and begin; each column in one piece.
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
                runs.append(pa.ipc.open_file(pa.py_buffer(_whole(path))).read_all())
            except (pa.ArrowException, OSError):
                raise_alone(altered(path))
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
            known, row_of, begins = (_numbers(run, name) for name in ("hash", "row", "begin"))
            here, at = found_at(known, begins[: _n_begins(known.size)], hashes[order])
            rows = order[here]
            while rows.size:
                candidates = row_of[at]
                equal = np.ones(rows.size, bool)
                for wanted in values.iter_columns():
                    stored = pl.Series(run[wanted.name].chunk(0).take(candidates))
                    equal &= (wanted.gather(rows) == stored.cast(wanted.dtype)).to_numpy()
                found[rows[equal]] = before + candidates[equal].astype(np.int64)
                rows, at = rows[~equal], at[~equal] + 1
                like = known.take(at, mode="clip") == hashes[rows]
                like &= at < known.size
                rows, at = rows[like], at[like]
            before += run.num_rows
        return found


@dataclass(frozen=True, repr=False)
class Added:
    """What a step adds: new keys and texts of units, numbered after the others, and the pairs that count. Secret."""

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
    begins = np.zeros(hashes.size, np.uint32)
    begins[: _n_begins(hashes.size)] = begins_of(hashes[order])[: hashes.size]
    sorted_by_hash = {
        "hash": pl.Series(hashes[order]),
        "row": pl.Series(rows[order], dtype=pl.UInt32),
        "begin": pl.Series(begins),
    }
    return values.with_columns(**sorted_by_hash).rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())


def _numbers(run: pa.Table, name: str) -> AnyArray:
    return np.asarray(run[name].chunk(0).to_numpy(zero_copy_only=True))


def _values(run: pa.Table) -> pl.DataFrame:
    return pl.DataFrame(pl.from_arrow(run.drop_columns(["hash", "row", "begin"])))
