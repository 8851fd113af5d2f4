"""Count on one machine, on all its cores: rows are words, grouped by unit, and each group fits a cache.

In a group, one sort of words brings the pairs of a unit together, removes duplicates, and puts the keys of the unit
in order. A word holds some bits of the unit, some bits of a hash of unit and key, and the position of the row. Where
bits agree that should not, whole units, whole hashes and then the values of keys decide. So which keys an over-full
unit keeps is a function of the salt and of the values of that unit and its keys, and no two units are ever merged.
Rows that memory has no room for wait on disk; distinct texts stay in memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from sparsehist.counting.batches import batches, is_whole, kept, present
from sparsehist.counting.codes import first_of_runs, sorted_words
from sparsehist.counting.contract import Bounding, CountRequest, UnitPairs
from sparsehist.counting.keys import missing_error, outside_error
from sparsehist.counting.log import Log, engine_errors
from sparsehist.counting.measured import row_columns, row_steps, sum_names, unmeasured_error
from sparsehist.counting.memory import allowed_memory
from sparsehist.counting.rows import GROUP_BITS, Rows
from sparsehist.counting.tuples import sha256_of, tuple_text
from sparsehist.counting.words import Numbers32or64, Words, key_range
from sparsehist.declaration.measures import Measure
from sparsehist.errors import DeclarationError
from sparsehist.store.layout import spill_directory
from sparsehist.threads import cores, in_threads
from sparsehist.typing import AnyArray, IndexArray, IntArray, NDArray, WordArray, secret

GROUP_ROWS = 1 << 16
AHEAD = 16  # groups bounded ahead, so that no thread waits
UNIT_BITS = 24  # of a unit in the words that are sorted, besides those that its group has in common
DENSE = 8  # numbers of cells per pair up to which totals stand in an array


@secret
class Pairs(NamedTuple):
    """The distinct (unit, key) pairs of some units that count; those of a unit side by side. Secret.

    Attributes:
        units: Each unit once; shape (units,).
        sizes: Number of distinct keys of each unit; shape (units,).
        kept: How many of them count; shape (units,).
        cells: Cells of the pairs that count; shape (pairs,).
        weights: What each of them adds to its count, in parts; shape (pairs,), or 1 for all.
        sums: By measure, the sum of the rows of each pair, in steps, cut to its weight times the bounds; shape
            (pairs,) each.
    """

    units: WordArray
    sizes: IntArray
    kept: IntArray
    cells: Numbers32or64
    weights: IntArray | int
    sums: list[IntArray]


@secret
class Reading(NamedTuple):
    """A log that was read. Secret.

    Attributes:
        units: Turns words back into units.
        keys: Turns words back into keys.
        rows: Words of units and of keys, and the steps of measures. Words of units are multiplied by a secret odd
            number, a bijection that spreads any pattern of numbers.
        inverse: Undoes the multiplication.
    """

    units: Words
    keys: Words
    rows: Rows
    inverse: np.uint64


def name() -> str:
    """Name the engine and its version."""
    return f"polars {pl.__version__}"


def count(log: Log, wanted: CountRequest) -> tuple[pl.DataFrame, Bounding]:
    """Count units by key: columns key_0, …, count, sum_0, … of keys that somebody keeps; and what bounding met."""
    cells, weights = [np.zeros(0, np.uint32)], [np.zeros(0, np.int64)]
    sums: list[list[IntArray]] = [[np.zeros(0, np.int64)] for _ in wanted.measures]
    met = above = 0
    with spill_directory(wanted.temporary_directory) as directory:
        found = read_log(log, wanted, directory)
        for pairs in bounded(found, log, wanted):
            cells.append(pairs.cells)
            if wanted.full != 1:
                weights.append(np.asarray(pairs.weights))
            for own, more in zip(sums, pairs.sums, strict=True):
                own.append(more)
            met, above = met + int(pairs.sizes.sum()), above + int((pairs.sizes > wanted.max_keys).sum())
    wanted.report("counting")
    counted = np.concatenate(weights) if wanted.full != 1 else None
    distinct, totals = _added_up(np.concatenate(cells), [counted, *map(np.concatenate, sums)])
    names = ["count", *sum_names(wanted.measures)]
    columns = [pl.Series(name, total, pl.Int64) for name, total in zip(names, totals, strict=True)]
    return found.keys.frame(distinct).with_columns(columns), Bounding(met, above)


def kept_pairs(log: Log, wanted: CountRequest) -> UnitPairs:
    """List the pairs that count."""
    with spill_directory(wanted.temporary_directory) as directory:
        found = read_log(log, wanted, directory)
        parts = list(bounded(found, log, wanted))
    none = np.zeros(0, np.uint32)
    distinct, codes = np.unique(np.concatenate([none, *(part.cells for part in parts)]), return_inverse=True)
    words = np.concatenate([none.astype(np.uint64), *(part.units for part in parts)])
    units = found.units.values(words)[0] if len(wanted.unit_parts) == 1 else unit_texts(found, log, wanted, words)
    sizes = np.concatenate([none.astype(np.int64), *(part.kept for part in parts)])
    return UnitPairs(units.alias("unit"), sizes, codes.astype(np.uint32), found.keys.frame(distinct))


def read_log(log: Log, wanted: CountRequest, directory: Path) -> Reading:
    """Read the log batch by batch into words, and bring its keys to the domain."""
    allowed = allowed_memory(wanted.memory_limit)
    parts, dtypes, steps = wanted.unit_parts, log.dtypes, row_steps(wanted.measures, log)
    units = Words.of_columns([dtypes[name] for name in parts], [None] * len(parts))
    keys = Words.of_columns([dtypes[name] for name in wanted.key], wanted.domain.parts)
    rows = Rows(directory, allowed // 2, len(steps))
    multiplier = multiplier_of(wanted.salt)
    missing = {name: present(name, dtypes[name]) for name in wanted.read}
    missing |= {name: pl.col(name).is_not_null() for name in steps}
    limits = {name: key_range(part) for name, part in zip(wanted.key, wanted.domain.parts, strict=True)}
    ranges = {name: pl.col(name).is_between(*own) for name, own in limits.items() if own and is_whole(dtypes[name])}
    incomplete: set[str] = set()
    beyond: set[str] = set()

    def add(batch: pl.DataFrame) -> None:
        batch = kept(kept(batch, missing, incomplete), ranges, beyond)
        words = keys.numbers([batch[name].rechunk() for name in wanted.key])
        of_units = units.numbers([batch[name].rechunk() for name in parts]) * np.uint64(multiplier)
        rows.add(of_units, words, *(batch[name].to_numpy() for name in steps))
        if units.memory + keys.memory > allowed:
            raise DeclarationError(
                "memory_limit is too small for the distinct texts of units and keys of this log: allow more memory"
            )

    pl.Series(np.zeros(0))  # Polars takes up numpy with the first array, which threads must not do at once
    with engine_errors(log.label, log):
        for _ in in_threads(add, batches(log, wanted.read, steps), wanted.threads or cores()):
            pass
        if wanted.on_null == "error":
            _refuse_missing(incomplete, wanted)
        wanted.report("placing keys")
        units.place(wanted.salt)
        keys.place(wanted.salt)
    outside = sorted({*keys.outside, *map(wanted.key.index, beyond)})
    if outside and wanted.on_outside == "error":
        text = [dtypes[name] == pl.String and name not in wanted.key_types for name in wanted.key]
        raise outside_error(outside, wanted.key, wanted.domain, text)
    return Reading(units, keys, rows, np.uint64(pow(multiplier, -1, 2**64)))


def _refuse_missing(incomplete: set[str], wanted: CountRequest) -> None:
    for name in wanted.read:
        if name in incomplete:
            raise missing_error(name, "unit" if name in wanted.unit_parts else "key")
    for name, measure in row_columns(wanted.measures).items():
        if name in incomplete:
            raise unmeasured_error(measure)


def bounded(found: Reading, log: Log, wanted: CountRequest) -> Iterator[Pairs]:
    """Find the distinct pairs, and those that count, group by group of units, in threads."""
    wanted.report("bounding")
    bits = min(max((len(found.rows) // GROUP_ROWS).bit_length(), 1), GROUP_BITS)

    def bound(group: int) -> Pairs:
        units, keys, *beside = found.rows.group(group, bits)
        cells, inside = found.keys.cells(keys)
        if inside is not None:
            units, cells, *beside = (column[inside] for column in (units, cells, *beside))
        hashes = found.units.hashes(units * found.inverse)
        hashes += found.keys.hashes(cells)
        units, cells, order, starts = distinct_pairs(
            units, cells, mixed(hashes), bits, lambda some: _ranks(found.keys, some)
        )
        sums = _sums(wanted.measures, beside, order, starts)
        first = first_of_runs(units)
        own = np.flatnonzero(first)
        sizes = np.diff(own, append=units.size)
        if sizes.max(initial=0) > wanted.most_keys:
            number = np.cumsum(first) - 1
            kept = np.arange(units.size) - np.take(own, number, mode="clip") < wanted.most_keys
            if wanted.portable:
                above = np.flatnonzero(np.repeat(sizes > wanted.most_keys, sizes))
                texts = pair_texts(found, log, wanted, units[above] * found.inverse, cells[above])
                digests = sha256_of(texts, wanted.salt).alias("digest").to_frame()
                place = digests.select(pl.col("digest").rank("ordinal").over(pl.Series(number[above])))
                kept[above] = place.to_series().to_numpy() <= wanted.most_keys
            cells, sums = cells[kept], [each[kept] for each in sums]
        distinct = np.take(units, own, mode="clip") * found.inverse
        counting = np.minimum(sizes, wanted.most_keys)
        weights = 1 if wanted.full == 1 else np.repeat(weight_of(sizes, wanted.weights), counting)
        for i, measure in enumerate(wanted.measures):
            most = measure.most_steps * weights // wanted.full
            sums[i] = np.clip(sums[i], -most if measure.signed else 0, most)
        return Pairs(distinct, sizes, counting, cells, weights, sums)

    return in_threads(bound, range(1 << bits if len(found.rows) else 0), wanted.threads or cores(), AHEAD)


def distinct_pairs(
    units: WordArray,
    cells: Numbers32or64,
    hashes: WordArray,
    bits: int,
    rank: Callable[[Numbers32or64], IndexArray],
) -> tuple[WordArray, Numbers32or64, NDArray[np.uint32], IndexArray]:
    """Find the distinct pairs of rows, in the order of units, then of hashes, then of the values of keys.

    Args:
        units: Words of units that agree in their first bits; shape (n,).
        cells: Shape (n,).
        hashes: Of each pair; shape (n,).
        bits: In which units agree.
        rank: Ranks cells by value; called only where hashes agree.

    Returns:
        Units and cells of the pairs, shape (pairs,); the rows in that order, those of a pair side by side, shape
        (n,); and where among these each pair begins, shape (pairs,).
    """
    for_position = np.uint64(max(units.size - 1, 1).bit_length())
    for_hash = np.uint64(64 - UNIT_BITS) - for_position
    words = units << np.uint64(bits) >> np.uint64(64 - UNIT_BITS) << for_hash
    words |= hashes >> np.uint64(64) - for_hash
    words <<= for_position
    words |= np.arange(units.size, dtype=np.uint64)
    words = sorted_words(words)
    order = (words & ((np.uint64(1) << for_position) - np.uint64(1))).astype(np.uint32)
    words = words >> for_position
    ordered, own = np.take(units, order, mode="clip"), np.take(cells, order, mode="clip")
    first = first_of_runs(ordered)
    new = first | first_of_runs(own)
    of_units = words >> for_hash
    mistaken = (new & ~first_of_runs(words)) | (first & ~first_of_runs(of_units))
    if mistaken.any():
        # Two pairs share a word, or two units their bits: such runs are put in order by all there is.
        run = np.cumsum(first_of_runs(of_units))
        places = np.flatnonzero(np.isin(run, run[mistaken]))
        rows = order[places]
        exact = np.lexsort((cells[rows], hashes[rows], units[rows]))
        tied = ~(first_of_runs(units[rows][exact]) | first_of_runs(hashes[rows][exact]))
        if (tied & first_of_runs(cells[rows][exact])).any():
            exact = np.lexsort((rank(cells[rows]), hashes[rows], units[rows]))
        order[places] = rows[exact]
        ordered, own = np.take(units, order, mode="clip"), np.take(cells, order, mode="clip")
        new = first_of_runs(ordered) | first_of_runs(own)
    kept = np.flatnonzero(new)
    return np.take(ordered, kept, mode="clip"), np.take(own, kept, mode="clip"), order, kept


def _sums(
    measures: Sequence[Measure], beside: Sequence[AnyArray], order: NDArray[np.uint32], starts: IndexArray
) -> list[IntArray]:
    """Sum the steps of each pair's rows; one array of shape (pairs,) for each measure."""
    found, read_steps = [], iter(beside)
    for measure in measures:
        if measure.column is None:
            found.append(np.diff(starts, append=order.size))
        else:
            found.append(_run_sums(np.take(next(read_steps), order, mode="clip"), starts))
    return found


def mixed(words: WordArray) -> WordArray:
    """Mix words in place (the finaliser of SplitMix64)."""
    words ^= words >> np.uint64(30)
    words *= np.uint64(0xBF58476D1CE4E5B9)
    words ^= words >> np.uint64(27)
    words *= np.uint64(0x94D049BB133111EB)
    words ^= words >> np.uint64(31)
    return words


def weight_of(sizes: IntArray, weights: Sequence[tuple[int, int]]) -> IntArray:
    """Return what units with this many distinct keys add to each key that they keep, in parts of a count.

    Args:
        sizes: Distinct keys of each unit; shape (units,).
        weights: What a unit may add, falling, with the most keys it may add it to.
    """
    weight, most = np.array(weights, np.int64).T
    found: IntArray = weight[np.searchsorted(most, np.minimum(sizes, most[-1]))]
    return found


def multiplier_of(salt: bytes) -> int:
    """Return the odd number by which units are multiplied."""
    return int.from_bytes(hashlib.blake2b(b"multiplier", key=salt, digest_size=8).digest(), "little") | 1


def unit_texts(found: Reading, log: Log, wanted: CountRequest, words: WordArray) -> pl.Series:
    """Turn words back into units, and write each unit as one text."""
    frame = pl.DataFrame(dict(zip(wanted.unit_parts, found.units.values(words), strict=True)))
    return frame.select(tuple_text(wanted.unit_parts, log.dtypes)).to_series()


def pair_texts(found: Reading, log: Log, wanted: CountRequest, units: WordArray, cells: Numbers32or64) -> pl.Series:
    """Write pairs of a unit and a key as texts."""
    keys = found.keys.frame(cells)
    return unit_texts(found, log, wanted, units) + keys.select(tuple_text(keys.columns, keys.schema)).to_series()


def _added_up(cells: Numbers32or64, added: Sequence[IntArray | None]) -> tuple[Numbers32or64, list[IntArray]]:
    """Return the distinct cells, and sums over the pairs of each; of `added`, None adds 1 for every pair."""
    most = int(cells.max(initial=0)) + 1
    if most <= DENSE * cells.size:
        present = np.bincount(cells, minlength=most)
        distinct, totals = np.flatnonzero(present), []
        for weights in added:
            total = present if weights is None else np.zeros(most, np.int64)
            if weights is not None:
                np.add.at(total, cells.astype(np.intp), weights)
            totals.append(total[distinct])
        return distinct.astype(cells.dtype), totals
    if all(weights is None for weights in added):
        ordered = sorted_words(cells)
        starts = np.flatnonzero(first_of_runs(ordered))
        return ordered[starts], [np.diff(starts, append=ordered.size) for _ in added]
    named = {f"added_{number}": weights for number, weights in enumerate(added)}
    of_pairs = pl.LazyFrame({"cell": cells} | {name: each for name, each in named.items() if each is not None})
    sums = [pl.len().alias(name) if each is None else pl.col(name).sum() for name, each in named.items()]
    found = of_pairs.group_by("cell").agg(sums).sort("cell").collect(engine="streaming")
    return found["cell"].to_numpy(), [found[name].cast(pl.Int64).to_numpy() for name in named]


def _run_sums(values: AnyArray, starts: IndexArray) -> IntArray:
    """Sums over runs of values that begin at `starts`."""
    return np.add.reduceat(values, starts, dtype=np.int64) if starts.size else np.zeros(0, np.int64)


def _ranks(keys: Words, cells: Numbers32or64) -> IndexArray:
    """Rank cells by value; equal ones have equal ranks."""
    frame = keys.frame(cells)
    ranks: IndexArray = frame.select(pl.struct(pl.all()).rank("dense")).to_series().to_numpy()
    return ranks
