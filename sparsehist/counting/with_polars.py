"""Count with Polars, Arrow and numpy, on all cores: rows are parted by their units, and each part fits a cache.

A unit is a number of 64 bits, a key a code of 32. Rows whose units begin with the same bits are one part. In a part,
a (unit, key) pair is one word, made of the next 32 bits of the unit and the code of the key; one sort of the words
removes duplicates and brings the pairs of a unit together, and only units above the bound need their keys put in
order. (Where units of a part agree in those bits too, they are numbered instead.) Memory that a process touches for
the first time costs more than the arithmetic done in it, so rows are put in order where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import TypeVar

import numpy as np
import polars as pl

from sparsehist.counting.contract import Bounding, Codes32, CountRequest, UnitPairs
from sparsehist.counting.in_memory import bounding
from sparsehist.counting.in_memory.batches import Piece, read, release_unused, unread
from sparsehist.counting.in_memory.codes import CODE_BITS, Keys, LogColumn, Units, first_of_runs, plain_dtype, taken
from sparsehist.counting.in_memory.parted_rows import PART_BITS, PartedRows
from sparsehist.counting.in_memory.spill import Spill
from sparsehist.counting.keys import PlacedKeys, missing_error, packed, place
from sparsehist.counting.memory import allowed_memory
from sparsehist.counting.sources import Log, engine_errors
from sparsehist.counting.tuples import order_sql
from sparsehist.domain.base import key_names
from sparsehist.errors import DeclarationError, present
from sparsehist.store.statements import statement
from sparsehist.threads import cores, each_locked, in_threads
from sparsehist.typing import BoolArray, IndexArray, IntArray, WordArray

PART_ROWS = 1 << 17
HASHED_AT_ONCE = 1 << 15
BOUNDED_AHEAD = 16  # so that no thread waits while pairs are added up
NO_CELL = np.uint32(2**CODE_BITS - 1)
NO_UNITS: WordArray = np.empty(0, dtype=np.uint64)
Result = TypeVar("Result")


@dataclass(frozen=True)
class Pairs:
    """The distinct (unit, key) pairs of some units, those of a unit side by side. Secret.

    Attributes:
        units: Number of each unit, increasing; shape (units,).
        starts: Where the pairs of each unit begin; shape (units,).
        cells: Cell of the key of each pair; shape (pairs,).
    """

    units: WordArray = field(repr=False)
    starts: IndexArray = field(repr=False)
    cells: Codes32 = field(repr=False)

    @property
    def sizes(self) -> IndexArray:
        """How many pairs each unit has; shape (units,)."""
        return np.diff(self.starts, append=self.cells.size)


@dataclass(frozen=True)
class BoundedPart:
    """What some units count for. Secret.

    Attributes:
        pairs: Their pairs.
        counts: Which of these count; shape (pairs,).
        cells: The cells of those that do.
        units: Leads from the numbers of units back to them.
    """

    pairs: Pairs = field(repr=False)
    counts: BoolArray = field(repr=False)
    cells: Codes32 = field(repr=False)
    units: Units = field(repr=False)


def name() -> str:
    """Name the engine and its version."""
    return f"polars {pl.__version__}"


def count(log: Log, wanted: CountRequest, spill: Path | None = None) -> pl.DataFrame:
    """Count units by key: columns key_0, …, count; 0 where every unit with a key keeps others.

    Args:
        log: The log.
        wanted: What to count.
        spill: A private directory where rows wait until all are read; in memory if None.
    """

    def summed(part: BoundedPart) -> tuple[Codes32, IntArray, int, int]:
        above = int((part.pairs.sizes > wanted.max_keys).sum())
        return *_added_up(part.cells, _weights(part, wanted)), part.counts.size, above

    cells, parts = _bounded(log, wanted, spill, summed)
    totals = np.zeros(cells.height, dtype=np.int64)
    met = above = 0
    for own, sums, own_met, own_above in parts:
        totals[own] += sums
        met, above = met + own_met, above + own_above
    wanted.report("counting")
    wanted.note(Bounding(met, above))
    return cells.with_columns(count=pl.Series(totals))


def _weights(part: BoundedPart, wanted: CountRequest) -> IntArray | None:
    """What each pair that counts adds, in parts of a count; None where each adds 1."""
    if wanted.full == 1:
        return None
    sizes = part.pairs.sizes
    return np.repeat(bounding.weight_of(sizes, wanted.weights), sizes)[part.counts]


def _added_up(cells: Codes32, weights: IntArray | None) -> tuple[Codes32, IntArray]:
    """The distinct cells, and what pairs add to each; `bincount` would keep all other threads waiting."""
    ordered = np.sort(cells)
    first = np.flatnonzero(first_of_runs(ordered))
    distinct = ordered[first]
    if weights is None:
        return distinct, np.diff(first, append=ordered.size)
    sums = np.zeros(distinct.size, dtype=np.int64)
    np.add.at(sums, np.searchsorted(distinct, cells), weights)
    return distinct, sums


def kept_pairs(log: Log, wanted: CountRequest, spill: Path | None = None) -> UnitPairs:
    """List the pairs that count; the arguments are those of `count`."""

    def listed(part: BoundedPart) -> tuple[pl.Series, IndexArray, Codes32]:
        sizes = np.add.reduceat(part.counts, part.pairs.starts, dtype=np.intp)
        return part.units.values(part.pairs.units), sizes, part.cells

    cells, parts = _bounded(log, wanted, spill, listed)
    none = Units(log.dtypes[wanted.columns[0]], wanted.salt).values(NO_UNITS)
    units, sizes, codes = zip((none, np.empty(0, np.intp), np.empty(0, np.uint32)), *parts, strict=True)
    return UnitPairs(pl.concat(units), np.concatenate(sizes), np.concatenate(codes), cells)


def _bounded(
    log: Log, wanted: CountRequest, directory: Path | None, made_of: Callable[[BoundedPart], Result]
) -> tuple[pl.DataFrame, Iterator[Result]]:
    """Read the log, bring its keys to the domain and bound its units.

    Gives the cells of the domain that the log has, columns key_0, … in canonical dtypes; and what a function makes of
    each part of the units, in threads.
    """
    threads = wanted.threads or cores()
    of_unit = log.dtypes[wanted.columns[0]]
    spill = Spill(directory, plain_dtype(of_unit)) if directory is not None else None
    units, keys, rows = _read(log, wanted, threads, spill)
    wanted.report("placing keys")
    found, places = keys.keys()
    del keys
    placed = place(found, wanted.key, wanted.domain, on_null=wanted.on_null, on_outside=wanted.on_outside)
    cells, cell_of = _cells(placed, wanted)
    cell_of = cell_of[places]
    order = (_PortableOrder if wanted.portable else _Order)(cells, log, wanted)

    def bounded(units: Units, rows: PartedRows, threads: int) -> Iterator[Result]:
        bits = min(max((len(rows) // PART_ROWS).bit_length(), 1), PART_BITS)

        def bound(part: int) -> Result:
            numbers, codes = rows.part(part, bits)
            own = np.take(cell_of, codes, mode="clip")
            if not placed.unchanged and (outside := own == NO_CELL).any():
                numbers, own = numbers[~outside], own[~outside]
            pairs = _pairs(numbers, own, bits)
            counts = _counting(pairs, order, units, wanted.most_keys)
            return made_of(BoundedPart(pairs, counts, pairs.cells if counts.all() else pairs.cells[counts], units))

        return in_threads(bound, range(1 << bits if len(rows) else 0), threads, BOUNDED_AHEAD)

    def read_back(parts: Sequence[int]) -> list[Result]:
        values, codes = present(spill).read(parts)
        units, rows = Units(of_unit, wanted.salt), PartedRows()
        rows.add(units.numbers(LogColumn(values)), codes)
        return list(bounded(units, rows, 1))

    wanted.report("bounding")
    if spill is None:
        return cells, bounded(units, rows, threads)
    return cells, chain.from_iterable(in_threads(read_back, spill.together(), threads))


def _read(log: Log, wanted: CountRequest, threads: int, spill: Spill | None) -> tuple[Units, Keys, PartedRows]:
    """Read the log batch by batch into numbers of units and codes of keys; besides, what these stand for.

    With a spill, that has the rows.
    """
    unit, *key = wanted.columns
    units, keys = Units(log.dtypes[unit], wanted.salt), Keys([log.dtypes[name] for name in key])
    incomplete: set[str] = set()

    def columns(piece: Piece) -> list[LogColumn]:
        batch = read(piece, wanted.columns, log.dtypes)
        incomplete.update(batch.incomplete)
        return batch.columns

    def coded(piece: Piece) -> tuple[LogColumn, Codes32]:
        own, *rest = columns(piece)
        return own, keys.codes(rest)

    def add(piece: Piece) -> None:
        own, *rest = columns(piece)
        numbers = units.numbers(own)
        del own  # while keys are coded
        rows.add(numbers, keys.codes(rest))

    rows = PartedRows()
    with engine_errors(log.label, log):
        pieces = unread(log, wanted.columns)
        if spill is None:
            for _ in in_threads(add, pieces, threads):
                pass
        else:
            allowed = allowed_memory(wanted.memory_limit)
            with spill.writing():
                for parted in in_threads(lambda piece: spill.parted(*coded(piece)), pieces, threads):
                    spill.write(*parted)
                    if keys.memory > allowed:
                        raise DeclarationError(
                            "memory_limit is too small for the distinct keys of this log: allow more memory"
                        )
    release_unused()
    for name in wanted.columns if wanted.on_null == "error" else ():
        if name in incomplete:
            raise missing_error(name, "unit" if name == unit else "key")
    return units, keys, rows


def _cells(placed: PlacedKeys, wanted: CountRequest) -> tuple[pl.DataFrame, Codes32]:
    """List the cells that keys fall into, and the cell of each key or `NO_CELL`."""
    if placed.unchanged:
        return placed.cells, np.arange(placed.cells.height, dtype=np.uint32)
    cells = placed.cells.unique(maintain_order=True)
    numbered = placed.cells.join(
        cells.with_row_index("cell"), on=key_names(wanted.domain.columns), how="left", maintain_order="left"
    )
    cell_of = np.full(placed.usable.size, NO_CELL)
    cell_of[placed.usable] = numbered["cell"].to_numpy()
    return cells, cell_of


def _pairs(units: WordArray, cells: Codes32, bits: int) -> Pairs:
    """Find the distinct pairs of one part, whose units agree in so many bits."""
    distinct = np.sort(units)
    distinct = distinct[first_of_runs(distinct)]
    # All begin with the same bits; in what follows these, the last ones seldom matter.
    shift, low = np.uint64(bits), np.uint64(CODE_BITS)
    if first_of_runs(distinct << shift >> low).all():
        words = units << shift >> low << low
    else:
        words = np.searchsorted(distinct, units).astype(np.uint64) << low
    words |= cells
    words.sort()
    words = words[first_of_runs(words)]
    return Pairs(distinct, np.flatnonzero(first_of_runs(words >> low)), words.astype(np.uint32))


class _Order:
    """Hashes that put the keys of a unit in order. Secret."""

    def __init__(self, cells: pl.DataFrame, log: Log, wanted: CountRequest) -> None:
        del log
        self._cells, self._salt = cells, wanted.salt
        self._keys: WordArray = np.empty(cells.height, dtype=np.uint64)
        self._hashed: set[int] = set()
        self._locks = [Lock() for _ in range(0, cells.height, HASHED_AT_ONCE)]

    def first(self, units: pl.Series, group: Codes32, cells: Codes32, max_keys: int) -> BoolArray:
        """Mark the first pairs of each unit, given units, and the number of the unit and the cell of each pair."""
        hashes = self._hashes(units, group, cells)
        return bounding.first_keys(group, hashes, max_keys, lambda tied: self._ranks(cells[tied]))

    def _hashes(self, units: pl.Series, group: Codes32, cells: Codes32) -> WordArray:
        if len(self._hashed) < len(self._locks):  # all threads that come by help
            for number in each_locked(self._locks):
                if number not in self._hashed:
                    some = slice(number * HASHED_AT_ONCE, (number + 1) * HASHED_AT_ONCE)
                    self._keys[some] = bounding.salted_hash(self._cells[some], self._salt, b"key")
                    self._hashed.add(number)
        own = bounding.salted_hash(units.to_frame("unit"), self._salt, b"unit")
        return bounding.mix(own[group], self._keys[cells])

    def _ranks(self, cells: Codes32) -> Codes32:
        """Rank cells by value, equal ones alike."""
        ordered = np.sort(cells)
        tied = ordered[first_of_runs(ordered)]
        order = self._cells[tied].with_row_index("number").sort(self._cells.columns)["number"].to_numpy()
        rank = np.empty(tied.size, dtype=np.uint32)
        rank[order] = np.arange(tied.size, dtype=np.uint32)
        return rank[np.searchsorted(tied, cells)]


class _PortableOrder:
    """The order that every engine knows, by SHA-256, which DuckDB has and Polars has not. Secret."""

    def __init__(self, cells: pl.DataFrame, log: Log, wanted: CountRequest) -> None:
        import duckdb

        self._cells, self._salt = packed(cells), wanted.salt
        self._connection = duckdb.connect(":memory:")
        unit = None if wanted.unit in log.tuples else log.dtypes[wanted.columns[0]]
        order = order_sql(unit, wanted.domain.dtypes)
        self._connection.execute(f"create macro salted_hash(salt, unit, key) as {order}")

    def first(self, units: pl.Series, group: Codes32, cells: Codes32, max_keys: int) -> BoolArray:
        """Mark the first pairs of each unit, given units, and the number of the unit and the cell of each pair."""
        pairs = pl.DataFrame(
            {
                "place": np.arange(cells.size),
                "number": group,
                "unit": taken(units, group),
                "key": taken(self._cells, cells),
            }
        )
        with self._connection.cursor() as cursor:  # threads need one each
            cursor.register("pairs", pairs)
            asked = {"most_keys": max_keys, "salt": self._salt}
            kept: BoolArray = cursor.execute(statement("count_first"), asked).fetchnumpy()["kept"]
        return kept


def _groups(sizes: IndexArray) -> Codes32:
    """Number the unit of each pair; each has at least one. `repeat` would keep all other threads waiting."""
    ends = np.cumsum(sizes)
    group = np.zeros(ends[-1], dtype=np.uint32)
    group[ends[:-1]] = 1
    return np.cumsum(group, dtype=np.uint32, out=group)


def _counting(pairs: Pairs, order: _Order | _PortableOrder, units: Units, max_keys: int) -> BoolArray:
    """Mark the pairs that count: units above the bound keep the first ones in their own order."""
    counts = np.ones(pairs.cells.size, dtype=bool)
    sizes = pairs.sizes
    over = np.flatnonzero(sizes > max_keys)
    if over.size:
        sizes = sizes[over]
        group = _groups(sizes)
        rows = np.arange(group.size) + (pairs.starts[over] - np.cumsum(sizes) + sizes)[group]
        counts[rows] = order.first(units.values(pairs.units[over]), group, pairs.cells[rows], max_keys)
    return counts
