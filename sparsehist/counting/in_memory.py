"""Count a log on all cores of one machine.

Units and keys are converted to *words*: integers of at most 64 bits, which differ if the values differ (`words.py`).
Rows are split into groups of units that fit the cache of a core, and units are bounded group by group.

In a group, sorting one 64-bit integer per row brings the rows of each (unit, key) pair together and orders the keys
of each unit. This sort key has some bits of the unit, some bits of a hash of unit and key, and the position of the
row. If different pairs collide in these bits, their rows are sorted again by unit, hash and key. So units are never
merged, and the keys that a unit keeps depend only on the salt and on the values of the unit and its keys.
Rows that do not fit in memory are written to disk; distinct texts stay in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from sparsehist.counting.batches import batches, is_present, is_whole, kept
from sparsehist.counting.contract import CountedKeys, CountRequest, UnitPairs
from sparsehist.counting.keys import missing_error, outside_error
from sparsehist.counting.log import Log, engine_errors
from sparsehist.counting.measured import row_columns, row_steps, sum_names, unmeasured_error
from sparsehist.counting.progress import memory_bytes
from sparsehist.counting.rows import GROUP_BITS, Rows
from sparsehist.counting.tuples import sha256_of, tuple_text
from sparsehist.counting.words import Numbers32or64, Words, key_range, odd
from sparsehist.domain.base import key_names
from sparsehist.threads import cores, in_threads
from sparsehist.typing import AnyArray, BoolArray, IndexArray, IntArray, NDArray, WordArray, secret

ENGINE = f"polars {pl.__version__}"
GROUP_ROWS = 1 << 16
AHEAD = 16  # number of finished groups that may wait for an earlier group; if fewer could wait, threads would be idle
UNIT_BITS = 24  # number of bits of the unit in a sort key, after the leading bits that all units of a group share
DENSE = 2  # totals are kept in arrays with one entry per cell if there are at most DENSE * (rows of the log) cells


@secret
class Pairs(NamedTuple):
    """The distinct (unit, key) pairs of a group of units, ordered by unit, after each unit was bounded. Secret.

    Attributes:
        units: The word of each unit; shape (units,).
        sizes: Number of kept pairs of each unit; shape (units,).
        cells: The cell of each kept pair; shape (pairs,).
        added: Dict from the name of a sum to the clipped steps that each kept pair adds to it; shape (pairs,). The
            entry "count" contains the weights of the pairs. It is left out if every weight is 1.
    """

    units: Numbers32or64
    sizes: IntArray
    cells: Numbers32or64
    added: dict[str, IntArray]


def count(log: Log, request: CountRequest) -> CountedKeys:
    """Count the units of each key, after bounding the keys of each unit."""
    read, parts = WordLog(log, request), list[pl.DataFrame]()
    keys, dense = read.keys, read.keys.n_cells <= DENSE * len(read.rows)
    names = ["count", *sum_names(request.measures)]
    totals = {name: np.zeros(keys.n_cells if dense else 0, np.int64) for name in names}
    for pairs in read.pairs():
        if dense:
            for name, total in totals.items():
                np.add.at(total, pairs.cells, pairs.added.get(name, 1))
        else:
            parts.append(pl.DataFrame({"cell": pairs.cells, **pairs.added}))
    del read  # free the rows
    request.report("counting")
    if dense:
        cells = np.flatnonzero(totals["count"]).astype(np.uint64)
        sums = pl.DataFrame({name: total[cells] for name, total in totals.items()})
    else:
        sums = _added_up(pl.concat(parts), names)
        cells = sums.drop_in_place("cell").to_numpy()
    return CountedKeys(sums, lambda positions: keys.frame(cells[positions]), ENGINE)


def kept_pairs(log: Log, request: CountRequest) -> UnitPairs:
    """Return the (unit, key) pairs that remain after bounding the keys of each unit."""
    read = WordLog(log, request)
    units, sizes, cells, _ = zip(*read.pairs(), strict=True)
    distinct, codes = np.unique(np.concatenate(cells), return_inverse=True)
    frame = read.units.frame(np.concatenate(units))
    unit = _texts(frame) if frame.width > 1 else frame.to_series()
    return UnitPairs(unit.alias("unit"), np.concatenate(sizes), codes.astype(np.uint32), read.keys.frame(distinct))


class WordLog:
    """A log as integers: for each row, words for unit and key, and each measured value as a number of steps. Secret.

    Attributes:
        units: Converts units to words and back.
        keys: Converts keys to words and back.
        rows: The converted rows. The group of a row is the leading bits of (word of the unit) * (secret odd number)
            modulo 2**64. The product mixes the units, so all groups have about the same number of units.
    """

    def __init__(self, log: Log, request: CountRequest) -> None:
        self._request, dtypes, steps = request, log.dtypes, row_steps(request.measures, log)
        self.units = Words(request.unit, [dtypes[name] for name in request.unit], None)
        self.keys = Words(key_names(len(request.key)), [dtypes[name] for name in request.key], request.domain)
        self.rows = Rows(request.temporary_directory, memory_bytes(request.memory_limit) // 2)
        self._multiplier = odd(request.salt, b"multiplier")
        rules = {name: is_present(name, dtypes[name]) for name in request.read}
        rules |= {name: pl.col(name).is_not_null() for name in steps}
        ranges = {}
        for name, part in zip(request.key, request.domain.parts, strict=True):
            if is_whole(dtypes[name]) and (limits := key_range(part)):
                ranges[name] = pl.col(name).reinterpret(signed=dtypes[name] != pl.UInt64).is_between(*limits)
        missing, beyond = set[str](), set[str]()

        def add(batch: pl.DataFrame) -> None:
            batch = kept(kept(batch, rules, missing), ranges, beyond).rechunk()
            keys = self.keys.numbers(batch.select(request.key))
            units = self.units.numbers(batch.select(request.unit))
            group = (units * self._multiplier >> np.uint64(64 - GROUP_BITS)).astype(np.uint8)
            self.rows.add(group, units, keys, *(batch[name].to_numpy() for name in steps))

        pl.Series(np.zeros(0))  # Polars imports numpy on first use, which is not thread-safe
        with engine_errors(log.label, log):
            list(in_threads(add, batches(log, request.read, steps), request.threads or cores()))
            if missing and request.on_null == "error":
                first = next(name for name in rules if name in missing)
                if first in steps:
                    raise unmeasured_error(row_columns(request.measures)[first])
                raise missing_error(first, "unit" if first in request.unit else "key")
            request.report("placing keys")
            self.units.place(request.salt, b"unit")
            self.keys.place(request.salt, b"key")
        outside = sorted({*self.keys.outside, *map(request.key.index, beyond)})
        if outside and request.on_outside == "error":
            text = [dtypes[name] == pl.String and name not in request.key_types for name in request.key]
            raise outside_error(outside, request.key, request.domain, text)

    def pairs(self) -> Iterator[Pairs]:
        """Bound the keys of each unit in parallel, and yield the pairs of one group of units at a time."""
        self._request.report("bounding")
        bits = min(max((len(self.rows) // GROUP_ROWS).bit_length(), 1), GROUP_BITS)
        threads = self._request.threads or cores()
        return in_threads(lambda group: self._bounded(group, bits), range(1 << bits), threads, AHEAD)

    def _bounded(self, group: int, bits: int) -> Pairs:
        request = self._request
        units, keys, *steps = self.rows.group(group, bits)
        cells, inside = self.keys.cells(keys)
        units, cells, *steps = (column[inside] for column in (units, cells, *steps))
        hashes = mixed(self.units.hashes(units) + self.keys.hashes(cells))
        products = units * self._multiplier  # the multiplier is odd, so different units have different products
        order, starts = distinct_pairs(
            products, cells, hashes, bits, lambda some: self.keys.frame(some).to_struct().rank("dense").to_numpy()
        )
        units, cells = (np.take(column, order[starts], mode="clip") for column in (units, cells))
        of_rows = iter(steps)
        sums = [
            np.diff(starts, append=order.size)
            if measure.column is None
            else np.add.reduceat(np.take(next(of_rows), order, mode="clip"), starts, dtype=np.int64)
            for measure in request.measures
        ]
        begins = np.flatnonzero(first_of_runs(units))
        sizes = np.diff(begins, append=units.size)
        if sizes.max(initial=0) > request.most_keys:
            chosen = np.arange(units.size) - np.repeat(begins, sizes) < request.most_keys
            if request.portable:
                above = np.repeat(sizes > request.most_keys, sizes)
                texts = _texts(self.units.frame(units[above])) + _texts(self.keys.frame(cells[above]))
                digests = sha256_of(texts, request.salt).to_frame("digest")
                rank = digests.select(pl.col("digest").rank("ordinal").over(pl.Series(units[above])))
                chosen[above] = rank.to_series().to_numpy() <= request.most_keys
            cells, sums = cells[chosen], [each[chosen] for each in sums]
        sizes = np.minimum(sizes, request.most_keys)
        weights, added = np.ones(1, np.int64), dict(zip(sum_names(request.measures), sums, strict=True))
        if request.full != 1:
            weight, most_keys = np.array(request.weights, np.int64).T
            weights = added["count"] = np.repeat(weight[np.searchsorted(most_keys, sizes)], sizes)
        for measure, each in zip(request.measures, sums, strict=True):
            most = measure.most_steps * weights // request.full
            np.clip(each, -most if measure.signed else 0, most, out=each)
        return Pairs(units[begins], sizes, cells, added)


def _texts(frame: pl.DataFrame) -> pl.Series:
    return frame.select(tuple_text(frame.columns, frame.schema)).to_series()


def distinct_pairs(
    units: WordArray, cells: Numbers32or64, hashes: WordArray, bits: int, rank: Callable[[Numbers32or64], IndexArray]
) -> tuple[NDArray[np.uint32], IndexArray]:
    """Sort rows by unit, then by hash, then by value of the key, and find the distinct (unit, key) pairs.

    Each row has an integer for its unit, the cell of its key, and a hash of both. The integers of all units begin
    with the same `bits` bits. `rank` returns the ranks of cells by value. It is called only if different keys of a
    unit have equal hashes. Return the positions of the rows in sorted order, and where each pair begins in it.
    """
    for_position = np.uint64(max(units.size - 1, 1).bit_length())
    for_hash = np.uint64(64 - UNIT_BITS) - for_position
    words = units << np.uint64(bits) >> np.uint64(64 - UNIT_BITS) << for_hash | hashes >> np.uint64(64) - for_hash
    words = words << for_position | np.arange(units.size, dtype=np.uint64)
    words = pl.Series(words).sort(multithreaded=False).to_numpy()  # sorting in numpy takes three times as long
    order = (words & ((np.uint64(1) << for_position) - np.uint64(1))).astype(np.uint32)
    words = words >> for_position
    by_bits = words >> for_hash
    first = first_of_runs(np.take(units, order, mode="clip"))
    new = first | first_of_runs(np.take(cells, order, mode="clip"))
    mistaken = (new & ~first_of_runs(words)) | (first & ~first_of_runs(by_bits))
    if mistaken.any():
        # Sort keys contain only some bits of units and hashes, so they may be equal for different units or pairs.
        # Then the rows of these units, and of all units with the same bits, are sorted again by full values.
        run = np.cumsum(first_of_runs(by_bits))
        positions = np.flatnonzero(np.isin(run, run[mistaken]))
        rows = order[positions]
        exact = np.lexsort((cells[rows], hashes[rows], units[rows]))
        tied = ~(first_of_runs(units[rows][exact]) | first_of_runs(hashes[rows][exact]))
        if (tied & first_of_runs(cells[rows][exact])).any():
            exact = np.lexsort((rank(cells[rows]), hashes[rows], units[rows]))
        order[positions] = rows[exact]
        new = first_of_runs(units[order]) | first_of_runs(cells[order])
    return order, np.flatnonzero(new)


def first_of_runs(ordered: AnyArray) -> BoolArray:
    """Return an array that is true at the first of each run of equal values."""
    return np.append(np.ones(1, dtype=bool), ordered[1:] != ordered[:-1])[: ordered.size]


def mixed(words: WordArray) -> WordArray:
    """Mix the bits of 64-bit integers in place, by the last steps of SplitMix64, and return the same array."""
    words ^= words >> np.uint64(30)
    words *= np.uint64(0xBF58476D1CE4E5B9)
    words ^= words >> np.uint64(27)
    words *= np.uint64(0x94D049BB133111EB)
    words ^= words >> np.uint64(31)
    return words


def _added_up(pairs: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Return one row for each distinct cell in a frame of pairs, with its count and sums."""
    if pairs.width == 1:  # sorting is twice as fast as `group_by`
        runs = pairs["cell"].sort().rle().struct.unnest()
        return runs.select(cell="value", count=pl.col("len").cast(pl.Int64))
    totals = [pl.col(name).sum() if name in pairs else pl.len().cast(pl.Int64).alias(name) for name in names]
    return pairs.lazy().group_by("cell").agg(totals).collect(engine="streaming")
