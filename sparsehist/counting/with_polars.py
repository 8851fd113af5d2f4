"""Count with Polars and numpy: codes are packed into words, and one sort does the rest.

A (unit, key) pair is one 64-bit word of two exact codes. Sorting the words removes duplicates and brings the
pairs of a unit together; only units above the bound need their keys put in order. On ten million rows two thirds
of the time go into reading and coding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sparsehist.counting import bounding
from sparsehist.counting.coded_pairs import (
    CODE_BITS,
    CodedPairs,
    distinct,
    first_of_runs,
    key_totals,
    low_codes,
    unit_starts,
)
from sparsehist.counting.columns import KeyCodes, UnitCodes, plain
from sparsehist.counting.contract import CountRequest
from sparsehist.counting.keys import missing_error, place
from sparsehist.counting.row_groups import pieces, row_group_sizes
from sparsehist.counting.sources import Log, engine_errors
from sparsehist.domain.base import key_names

BATCH_ROWS = 400_000
LARGEST_PIECE = 4_000_000
PAIRS_AT_ONCE = 1 << 18


@dataclass(frozen=True)
class Pairs:
    """Distinct (unit, key) pairs, those of a unit side by side. Secret.

    Attributes:
        words: Code of the unit above code of the key; shape (pairs,).
        units: Resolves unit codes.
        cells: Cell of each key code; columns key_0, … in canonical dtypes.
        totals: How many pairs each key code has; shape (cells,).
    """

    words: NDArray[np.uint64] = field(repr=False)
    units: UnitCodes = field(repr=False)
    cells: pl.DataFrame = field(repr=False)
    totals: NDArray[np.int64] = field(repr=False)


def name() -> str:
    """Name the engine and its version."""
    return f"polars {pl.__version__}"


def count(log: Log, wanted: CountRequest) -> pl.DataFrame:
    """Count units by key: columns key_0, …, count."""
    pairs, dropped = _bounded_pairs(log, wanted)
    wanted.report("counting")
    counts = pairs.totals - key_totals(pairs.words[dropped], pairs.totals.size)
    result = pairs.cells.with_columns(count=pl.Series(counts))
    return result if counts.all() else result.filter(pl.col("count") > 0)


def kept_pairs(log: Log, wanted: CountRequest) -> pl.DataFrame:
    """List the pairs that count: columns unit, key_0, …."""
    pairs, dropped = _bounded_pairs(log, wanted)
    words = np.delete(pairs.words, dropped)
    units = pairs.units.values(low_codes(words >> np.uint64(CODE_BITS))).alias("unit")
    return pairs.cells[low_codes(words)].select(units, pl.all())


def _bounded_pairs(log: Log, wanted: CountRequest) -> tuple[Pairs, NDArray[np.intp]]:
    """Find the distinct pairs, and the positions of those that their units must give up."""
    words, units, keys = _read(log, wanted)
    wanted.report("sorting")
    words = distinct(words)
    wanted.report("placing keys")
    pairs = _placed(words, units, keys, wanted)
    wanted.report("bounding")
    return pairs, _dropped(pairs, wanted)


def _read(log: Log, wanted: CountRequest) -> tuple[NDArray[np.uint64], UnitCodes, pl.DataFrame]:
    """Read the log batch by batch into words; besides, what codes of units stand for, and the distinct keys."""
    unit, *key = wanted.columns
    units, keys = UnitCodes(log.dtypes[unit]), KeyCodes([log.dtypes[name] for name in key])
    with engine_errors(log.label, log):
        row_groups = _row_groups(log)
        words = CodedPairs(log.content.height if log.kind == "frame" else sum(map(sum, row_groups.values())))
        incomplete: set[str] = set()
        # Values are coded here and not inside the query: threads that wait for one another's turn burn time.
        for batch in _batches(log, wanted, row_groups):
            complete = _without_missing(batch, unit, incomplete)
            column = complete[unit].rechunk()
            if not units.fit(column):
                units.recode(words.array())
            words.append(units.codes(column), keys.codes([complete[name].rechunk() for name in key]))
    for name in wanted.columns if wanted.on_null == "error" else ():
        if name in incomplete:
            raise missing_error(name, "unit" if name == unit else "key")
    return words.array(), units, keys.keys()


def _row_groups(log: Log) -> dict[str, list[int]]:
    """Sizes of the row groups of each file, if it is Parquet and they can all be told."""
    found = {file: row_group_sizes(file) for file in log.files} if log.kind == "parquet" else {}
    return {} if None in found.values() else {file: sizes or [] for file, sizes in found.items()}


def _batches(log: Log, wanted: CountRequest, row_groups: Mapping[str, Sequence[int]]) -> Iterator[pl.DataFrame]:
    """Read the columns in batches, as what codes are made of."""
    values = [plain(name, log.dtypes[name]) for name in wanted.columns]
    if not row_groups or max(max(sizes, default=0) for sizes in row_groups.values()) > LARGEST_PIECE:
        rows = log.lazy(wanted.columns).select(values)
        yield from rows.collect_batches(chunk_size=BATCH_ROWS, maintain_order=False)
        return
    # A stream reads ahead as far as it gets, and holds what it has read: here that took a third of all memory.
    scans = {file: replace(log, files=(file,)).lazy(wanted.columns) for file in row_groups}
    for piece in pieces(row_groups, BATCH_ROWS):
        yield pl.concat([scans[file].slice(start, size) for file, start, size in piece]).select(values).collect()


def _without_missing(batch: pl.DataFrame, unit: str, incomplete: set[str]) -> pl.DataFrame:
    """Leave out rows without unit or key, noting the columns; keys that are empty are left to the domain."""
    empty = batch[unit] == "" if batch.schema[unit] == pl.String else None
    if empty is not None and empty.any():
        incomplete.add(unit)
        batch = batch.filter(~empty)
    holes = {column.name for column in batch if column.null_count()}
    incomplete |= holes
    return batch.drop_nulls() if holes else batch


def _placed(words: NDArray[np.uint64], units: UnitCodes, keys: pl.DataFrame, wanted: CountRequest) -> Pairs:
    """Bring the distinct keys to the domain; pairs whose keys share a cell become one."""
    placed = place(keys, wanted.key, wanted.domain, on_null=wanted.on_null, on_outside=wanted.on_outside)
    if placed.unchanged:
        return Pairs(words, units, placed.cells, key_totals(words, placed.cells.height))
    cells = placed.cells.unique(maintain_order=True)
    numbered = placed.cells.join(
        cells.with_row_index("cell"), on=key_names(wanted.domain.columns), how="left", maintain_order="left"
    )
    cell_of = np.zeros(keys.height, dtype=np.uint64)
    cell_of[placed.usable] = numbered["cell"].to_numpy()
    old = low_codes(words)
    if not placed.usable.all():
        inside = placed.usable[old]
        words, old = words[inside], old[inside]
    words = (words >> np.uint64(CODE_BITS) << np.uint64(CODE_BITS)) | cell_of[old]
    words = distinct(words)
    return Pairs(words, units, cells, key_totals(words, cells.height))


def _dropped(pairs: Pairs, wanted: CountRequest) -> NDArray[np.intp]:
    """Find the pairs that units above the bound must give up."""
    starts = unit_starts(pairs.words)
    sizes = np.diff(starts, append=pairs.words.size)
    over = np.flatnonzero(sizes > wanted.max_keys)
    if not over.size:
        return over
    starts, sizes = starts[over], sizes[over]
    key_hashes = bounding.salted_hash(pairs.cells, wanted.salt, b"key")
    block = np.cumsum(sizes) // PAIRS_AT_ONCE
    cuts = [0, *(np.flatnonzero(np.diff(block)) + 1).tolist(), over.size]
    return np.concatenate(
        [
            _dropped_of_units(pairs, starts[low:high], sizes[low:high], key_hashes, wanted)
            for low, high in pairwise(cuts)
        ]
    )


def _dropped_of_units(
    pairs: Pairs,
    starts: NDArray[np.intp],
    sizes: NDArray[np.intp],
    key_hashes: NDArray[np.uint64],
    wanted: CountRequest,
) -> NDArray[np.intp]:
    """Find what some units above the bound must give up, given where their pairs begin and how many there are."""
    group = np.repeat(np.arange(starts.size, dtype=np.uint32), sizes)
    rows = np.arange(group.size) + np.repeat(starts - np.cumsum(sizes) + sizes, sizes)
    keys = low_codes(pairs.words[rows])
    units = pairs.units.values(low_codes(pairs.words[starts] >> np.uint64(CODE_BITS))).to_frame("unit")
    unit_hashes = bounding.salted_hash(units, wanted.salt, b"unit")
    hashes = bounding.mix(unit_hashes[group], key_hashes[keys])
    kept = bounding.first_keys(group, hashes, wanted.max_keys, lambda tied: _ranks(pairs.cells, keys[tied]))
    dropped: NDArray[np.intp] = rows[~kept]
    return dropped


def _ranks(cells: pl.DataFrame, keys: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Rank keys by value, equal keys alike."""
    ordered = np.sort(keys)
    tied = ordered[first_of_runs(ordered)]
    order = cells[tied].with_row_index("number").sort(cells.columns)["number"].to_numpy()
    rank = np.empty(tied.size, dtype=np.uint32)
    rank[order] = np.arange(tied.size, dtype=np.uint32)
    return rank[np.searchsorted(tied, keys)]
