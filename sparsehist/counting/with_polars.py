"""Count with Polars and numpy: codes are packed into words, and one sort does the rest.

A (unit, key) pair is one 64-bit word of two exact codes. Sorting the words removes duplicates and brings the
pairs of a unit together; only units above the bound need their keys put in order. On ten million rows the
time goes into reading and coding (half), the sort (a fifth) and passes over the words.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sparsehist.counting import bounding
from sparsehist.counting.codes import WORD_BITS, CodedColumn, plain, shifted, split
from sparsehist.counting.contract import Request
from sparsehist.counting.keys import is_missing, missing_error, place
from sparsehist.counting.sources import Log, engine_errors
from sparsehist.counting.words import distinct, first_of_runs, key_totals, low_bits, unit_starts
from sparsehist.domain.base import key_names
from sparsehist.errors import DataError

FEW_CODES = 1 << 20
BATCH_ROWS = 250_000


@dataclass(frozen=True)
class Pairs:
    """Distinct (unit, key) pairs, those of a unit side by side. Secret.

    Attributes:
        words: Code of the unit above code of the key; shape (pairs,).
        key_bits: Bits of the code of the key.
        unit: Resolves unit codes.
        cells: Cell of each key code; columns key_0, … in canonical dtypes.
        totals: How many pairs each key code has; shape (cells,).
    """

    words: NDArray[np.uint64] = field(repr=False)
    key_bits: int
    unit: CodedColumn = field(repr=False)
    cells: pl.DataFrame = field(repr=False)
    totals: NDArray[np.int64] = field(repr=False)


def name() -> str:
    """Name the engine and its version."""
    return f"polars {pl.__version__}"


def count(log: Log, wanted: Request) -> pl.DataFrame:
    """Count units by key: columns key_0, …, count."""
    pairs, dropped = _bounded_pairs(log, wanted)
    wanted.report("counting")
    counts = pairs.totals - key_totals(pairs.words[dropped], pairs.key_bits, pairs.totals.size)
    result = pairs.cells.with_columns(count=pl.Series(counts))
    return result if counts.all() else result.filter(pl.col("count") > 0)


def kept_pairs(log: Log, wanted: Request) -> pl.DataFrame:
    """List the pairs that count: columns unit, key_0, …."""
    pairs, dropped = _bounded_pairs(log, wanted)
    words = np.delete(pairs.words, dropped)
    units = pairs.unit.values(words >> np.uint64(pairs.key_bits)).alias("unit")
    return pairs.cells[low_bits(words, pairs.key_bits)].select(units, pl.all())


def _bounded_pairs(log: Log, wanted: Request) -> tuple[Pairs, NDArray[np.intp]]:
    """Find the distinct pairs, and the positions of those that their units must give up."""
    unit, keys = _read(log, wanted)
    wanted.report("sorting")
    words, widths = _distinct_pairs(unit, keys, wanted)
    wanted.report("placing keys")
    pairs = _placed(words, widths, unit, keys, wanted)
    wanted.report("bounding")
    return pairs, _dropped(pairs, wanted)


def _read(log: Log, wanted: Request) -> tuple[CodedColumn, list[CodedColumn]]:
    """Read the columns as codes, in one streaming pass."""
    names = wanted.columns
    categories = {name: pl.Categorical(pl.Categories.random()) for name in names}
    stored = pl.Schema({name: pl.Int64() if shifted(log.dtypes[name]) else categories[name] for name in names})
    parts = [pl.DataFrame(schema=stored)]
    with engine_errors(log.label, log):
        texts = log.lazy(names).select(plain(name, log.dtypes[name]) for name in names)
        # Text is coded here, batch by batch, and not inside the query: threads that wait for one another's turn at a
        # categorical burn time, on a busy machine five times what the coding takes.
        for batch in texts.collect_batches(chunk_size=BATCH_ROWS, maintain_order=False):
            parts.append(batch.cast(stored))  # noqa: PERF401  the batch is to be freed at once
        frame = pl.concat(parts, rechunk=False)
    del parts
    coded = [CodedColumn(frame[name], log.dtypes[name], categories[name]) for name in names]
    return coded[0], coded[1:]


def _distinct_pairs(
    unit: CodedColumn, keys: list[CodedColumn], wanted: Request
) -> tuple[NDArray[np.uint64], list[int]]:
    """Pack the columns into words, one for each distinct pair, sorted; they free their rows."""
    usable = _usable_rows(unit, keys, wanted)
    if unit.bits + sum(column.bits for column in keys) > WORD_BITS:
        for column in (unit, *keys):
            column.densify()
    widths = [column.coded_bits for column in keys]
    if unit.coded_bits + sum(widths) > WORD_BITS:
        raise DataError('the log has too many distinct units and keys for 64-bit words: pass engine="duckdb"')
    words = np.zeros(unit.physical.len(), dtype=np.uint64)
    for column in (unit, *keys):
        column.add_to(words)
        column.physical = column.physical.clear()
    if usable is not None:
        words = words[usable]
    return distinct(words), widths


def _usable_rows(unit: CodedColumn, keys: list[CodedColumn], wanted: Request) -> NDArray[np.bool_] | None:
    """Find the rows without null or empty unit and without null key; None if that is all of them."""
    missing = [column.missing() for column in (unit, *keys)]
    missing[0] = _with_empty(unit, missing[0])
    for role, name, mask in zip(["unit", *["key"] * len(keys)], wanted.columns, missing, strict=True):
        if mask is not None and wanted.on_null == "error":
            raise missing_error(name, role)
    found = [mask for mask in missing if mask is not None]
    return ~np.logical_or.reduce(found) if found else None


def _with_empty(unit: CodedColumn, missing: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
    """Add rows whose unit is empty text to the missing ones."""
    if unit.dtype not in (pl.String, pl.Categorical, pl.Enum, pl.Binary) or unit.physical.max() is None:
        return missing
    codes = np.arange(int(unit.physical.max()) + 1, dtype=np.uint32)  # type: ignore[arg-type]
    empty = np.flatnonzero(is_missing(unit.values(codes)).to_numpy())
    if not empty.size:
        return missing
    rows = unit.physical.is_in(pl.Series(empty.astype(np.uint32))).fill_null(value=False).to_numpy()
    return rows if missing is None else rows | missing


def _placed(
    words: NDArray[np.uint64], widths: list[int], unit: CodedColumn, keys: list[CodedColumn], wanted: Request
) -> Pairs:
    """Bring the distinct keys to the domain; pairs whose keys share a cell become one."""
    words, key_bits, codes, totals = _with_dense_keys(words, sum(widths))
    parts = split(codes, widths)
    keys_seen = pl.DataFrame(
        [column.values(part).alias(f"key_{i}") for i, (column, part) in enumerate(zip(keys, parts, strict=True))]
    )
    placed = place(keys_seen, wanted.key, wanted.domain, on_null=wanted.on_null, on_outside=wanted.on_outside)
    if placed.unchanged:
        return Pairs(words, key_bits, unit, placed.cells, totals)
    cells = placed.cells.unique(maintain_order=True)
    numbered = placed.cells.join(
        cells.with_row_index("cell"), on=key_names(wanted.domain.columns), how="left", maintain_order="left"
    )
    cell_of = np.zeros(keys_seen.height, dtype=np.uint64)
    cell_of[placed.usable] = numbered["cell"].to_numpy()
    old = low_bits(words, key_bits)
    if not placed.usable.all():
        inside = placed.usable[old]
        words, old = words[inside], old[inside]
    words = (words >> np.uint64(key_bits) << np.uint64(key_bits)) | cell_of[old]
    words = distinct(words)
    return Pairs(words, key_bits, unit, cells, key_totals(words, key_bits, cells.height))


def _with_dense_keys(
    words: NDArray[np.uint64], key_bits: int
) -> tuple[NDArray[np.uint64], int, NDArray[np.uint64], NDArray[np.int64]]:
    """Renumber the keys that occur from 0 on, unless they are so numbered.

    Returns:
        Words, bits of the key in them, the old code of each new one, and how many pairs each has.
    """
    if 1 << key_bits <= 4 * words.size + FEW_CODES:
        totals = np.trim_zeros(key_totals(words, key_bits, 1 << key_bits), "b")
        occurs = totals > 0
        if occurs.all():
            return words, key_bits, np.arange(totals.size, dtype=np.uint64), totals
        codes = np.flatnonzero(occurs).astype(np.uint64)
        number = (np.cumsum(occurs) - 1).astype(np.uint64)
        keys = number[low_bits(words, key_bits)]
    else:
        old = words & np.uint64((1 << key_bits) - 1)
        order = np.argsort(old)
        first = first_of_runs(old[order])
        codes = old[order[first]]
        keys = np.empty(old.size, dtype=np.uint64)
        keys[order] = (np.cumsum(first) - 1).astype(np.uint64)
    bits = max(codes.size - 1, 0).bit_length()
    units = words >> np.uint64(key_bits) if key_bits < WORD_BITS else np.zeros_like(words)
    words = (units << np.uint64(bits)) | keys
    return words, bits, codes, key_totals(words, bits, codes.size)


def _dropped(pairs: Pairs, wanted: Request) -> NDArray[np.intp]:
    """Find the pairs that units above the bound must give up."""
    starts = unit_starts(pairs.words, pairs.key_bits)
    sizes = np.diff(starts, append=pairs.words.size)
    over = np.flatnonzero(sizes > wanted.max_keys)
    if not over.size:
        return over
    starts, sizes = starts[over], sizes[over]
    group = np.repeat(np.arange(over.size, dtype=np.uint32), sizes)
    rows = np.arange(group.size) + np.repeat(starts - np.cumsum(sizes) + sizes, sizes)
    keys = low_bits(pairs.words[rows], pairs.key_bits)
    over_units = pairs.unit.values(pairs.words[starts] >> np.uint64(pairs.key_bits)).to_frame("unit")
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
