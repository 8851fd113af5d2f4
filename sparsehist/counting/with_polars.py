"""Count with Polars and numpy: codes are packed into words, and one sort does the rest.

A (unit, key) pair is one 64-bit word of two exact codes. Sorting the words removes duplicates and brings the
pairs of a unit together; only units above the bound need their keys put in order. On ten million rows two thirds
of the time go into reading and coding.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sparsehist.counting import bounding
from sparsehist.counting.columns import KeyCodes, UnitCodes, plain
from sparsehist.counting.contract import Request
from sparsehist.counting.keys import missing_error, place
from sparsehist.counting.sources import Log, engine_errors
from sparsehist.counting.words import CODE_BITS, Words, distinct, first_of_runs, key_totals, low_codes, unit_starts
from sparsehist.domain.base import key_names

BATCH_ROWS = 500_000


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


def count(log: Log, wanted: Request) -> pl.DataFrame:
    """Count units by key: columns key_0, …, count."""
    pairs, dropped = _bounded_pairs(log, wanted)
    wanted.report("counting")
    counts = pairs.totals - key_totals(pairs.words[dropped], pairs.totals.size)
    result = pairs.cells.with_columns(count=pl.Series(counts))
    return result if counts.all() else result.filter(pl.col("count") > 0)


def kept_pairs(log: Log, wanted: Request) -> pl.DataFrame:
    """List the pairs that count: columns unit, key_0, …."""
    pairs, dropped = _bounded_pairs(log, wanted)
    words = np.delete(pairs.words, dropped)
    units = pairs.units.values(low_codes(words >> np.uint64(CODE_BITS))).alias("unit")
    return pairs.cells[low_codes(words)].select(units, pl.all())


def _bounded_pairs(log: Log, wanted: Request) -> tuple[Pairs, NDArray[np.intp]]:
    """Find the distinct pairs, and the positions of those that their units must give up."""
    words, units, keys = _read(log, wanted)
    wanted.report("sorting")
    words = distinct(words)
    wanted.report("placing keys")
    pairs = _placed(words, units, keys, wanted)
    wanted.report("bounding")
    return pairs, _dropped(pairs, wanted)


def _read(log: Log, wanted: Request) -> tuple[NDArray[np.uint64], UnitCodes, pl.DataFrame]:
    """Read the log batch by batch into words; besides, what codes of units stand for, and the distinct keys."""
    unit, *key = wanted.columns
    units, keys = UnitCodes(log.dtypes[unit]), KeyCodes([log.dtypes[name] for name in key])
    with engine_errors(log.label, log):
        words = Words(_rows_known(log))
        incomplete: set[str] = set()
        rows = log.lazy(wanted.columns).select(plain(name, log.dtypes[name]) for name in wanted.columns)
        # Values are coded here and not inside the query: threads that wait for one another's turn burn time.
        for batch in rows.collect_batches(chunk_size=BATCH_ROWS, maintain_order=False):
            complete = _without_missing(batch, unit, incomplete)
            column = complete[unit].rechunk()
            if not units.fit(column):
                units.recode(words.array())
            words.append(units.codes(column), keys.codes([complete[name].rechunk() for name in key]))
    for name in wanted.columns if wanted.on_null == "error" else ():
        if name in incomplete:
            raise missing_error(name, "unit" if name == unit else "key")
    return words.array(), units, keys.keys()


def _rows_known(log: Log) -> int:
    """How many rows there will be, if that can be told without reading them; 0 if not."""
    if log.kind == "frame":
        return int(log.content.height)
    if log.kind == "parquet":
        return sum(pl.scan_parquet(file, glob=False).select(pl.len()).collect().item() for file in log.files)
    return 0


def _without_missing(batch: pl.DataFrame, unit: str, incomplete: set[str]) -> pl.DataFrame:
    """Leave out rows without unit or key, noting the columns; keys that are empty are left to the domain."""
    empty = batch[unit] == "" if batch.schema[unit] == pl.String else None
    if empty is not None and empty.any():
        incomplete.add(unit)
        batch = batch.filter(~empty)
    holes = {column.name for column in batch if column.null_count()}
    incomplete |= holes
    return batch.drop_nulls() if holes else batch


def _placed(words: NDArray[np.uint64], units: UnitCodes, keys: pl.DataFrame, wanted: Request) -> Pairs:
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


def _dropped(pairs: Pairs, wanted: Request) -> NDArray[np.intp]:
    """Find the pairs that units above the bound must give up."""
    starts = unit_starts(pairs.words)
    sizes = np.diff(starts, append=pairs.words.size)
    over = np.flatnonzero(sizes > wanted.max_keys)
    if not over.size:
        return over
    starts, sizes = starts[over], sizes[over]
    group = np.repeat(np.arange(over.size, dtype=np.uint32), sizes)
    rows = np.arange(group.size) + np.repeat(starts - np.cumsum(sizes) + sizes, sizes)
    keys = low_codes(pairs.words[rows])
    over_units = pairs.units.values(low_codes(pairs.words[starts] >> np.uint64(CODE_BITS))).to_frame("unit")
    unit_hashes = bounding.salted_hash(over_units, wanted.salt, b"unit")
    key_hashes = bounding.salted_hash(pairs.cells, wanted.salt, b"key")
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
