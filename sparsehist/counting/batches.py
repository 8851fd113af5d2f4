"""A log in batches of rows, each read by whichever thread is free.

Arrow reads Parquet files in whole row groups: nothing is decoded twice, and text that a file holds as a dictionary
stays one. Polars reads everything else. Rows with a null or an empty text are left out here. Text is read as bytes
and checked to be UTF-8 later, once per distinct value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from sparsehist.counting.codes import taken
from sparsehist.counting.log import Log
from sparsehist.typing import BoolArray, NDArray

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import parquet

BATCH_ROWS = 600_000
READ_AT_ONCE = 1 << 20  # bytes of a column: all of it would be held beside what it is decoded to
LARGEST_ROW_GROUP = 4_000_000  # larger ones are left to Polars, which reads them in pieces
RELEASE_FROM = 0.4  # share of a log from which Arrow gives back the memory of large row groups
TEXTS = (pl.String, pl.Categorical, pl.Enum, pl.Binary)
WHOLE = (
    pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64, pl.Boolean, pl.Date, pl.Time,
    pl.Datetime, pl.Duration,
)  # fmt: skip
_NOTHING: Mapping[str, pl.Expr] = {}
_DICTIONARIES = {"RLE_DICTIONARY", "PLAIN_DICTIONARY"}


@dataclass(frozen=True)
class Column:
    """Some rows of a column, none of them null. Secret.

    Attributes:
        values: Int64 or Binary, as `plain` makes them.
        places: Position in the values of each row, every value used; None if the values are the rows.
    """

    values: pl.Series = field(repr=False)
    places: NDArray[np.integer] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Batch:
    """The rows of a part of a log that have a unit and a key. Secret.

    Attributes:
        columns: The columns asked for.
        incomplete: Names of the columns for which rows were left out: nulls or empty texts.
    """

    columns: list[Column] = field(repr=False)
    incomplete: frozenset[str]


@dataclass(frozen=True)
class InFile:
    """Some row groups of one Parquet file, next to each other."""

    file: str
    metadata: parquet.FileMetaData
    numbers: range

    @property
    def dictionaries(self) -> set[str]:
        """Columns that the file holds as dictionaries, or begins to."""
        chunks = self.metadata.row_group(self.numbers[0])
        found = (chunks.column(i) for i in range(chunks.num_columns))
        return {chunk.path_in_schema for chunk in found if _DICTIONARIES.intersection(chunk.encodings)}

    @property
    def slice(self) -> tuple[int, int]:
        """Number of the first row, and how many rows there are."""
        sizes = [self.metadata.row_group(number).num_rows for number in range(self.numbers.stop)]
        return sum(sizes[: self.numbers.start]), sum(sizes[self.numbers.start :])


@dataclass(frozen=True)
class RowGroups:
    """Row groups of one or several Parquet files that are read together.

    Attributes:
        parts: The row groups, file by file.
        rows: How many rows they have.
        before: Share of the pieces of the log that come before this one.
    """

    parts: list[InFile]
    rows: int
    before: float


Piece = RowGroups | pl.DataFrame


def is_whole(dtype: pl.DataType) -> bool:
    """Say whether values of this dtype are whole numbers of at most 64 bits."""
    return dtype in WHOLE


def plain_dtype(dtype: pl.DataType) -> pl.DataType:
    """Return the dtype that `plain` gives."""
    return pl.Int64() if is_whole(dtype) else pl.Binary()


def plain(name: str, dtype: pl.DataType) -> pl.Expr:
    """Turn a column into Int64, the bits of its whole numbers, or into bytes."""
    column = pl.col(name)
    if dtype == pl.UInt64:
        return column.reinterpret(signed=True)
    if is_whole(dtype):
        return column.to_physical().cast(pl.Int64)
    return column if dtype == pl.Binary else column.cast(pl.String).cast(pl.Binary)


def restored(values: pl.Series, dtype: pl.DataType) -> pl.Series:
    """Undo `plain`; text of any kind becomes String, and is refused if it is not UTF-8."""
    if dtype == pl.UInt64:
        return values.reinterpret(signed=False)
    if is_whole(dtype):
        return values.cast(dtype)
    if dtype == pl.Binary:
        return values
    text = values.cast(pl.String)
    return text if dtype in TEXTS else text.cast(dtype)


def pieces(log: Log, columns: Sequence[str], computed: Mapping[str, pl.Expr] = _NOTHING) -> Iterator[Piece]:
    """Divide a log into pieces that `read` makes batches of; `computed` are further columns of whole numbers."""
    plainly = [*(plain(name, log.dtypes[name]) for name in columns), *computed.values()]
    found = _row_groups(log, columns) if log.in_row_groups else None
    if found is None:
        yield from _joined(log.rows.select(plainly).collect_batches(chunk_size=BATCH_ROWS, maintain_order=False))
    else:
        yield from found


def _joined(frames: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Join frames that follow one another into ones of at least `BATCH_ROWS` rows."""
    waiting: list[pl.DataFrame] = []
    for frame in frames:
        waiting.append(frame)
        if sum(one.height for one in waiting) >= BATCH_ROWS:
            yield pl.concat(waiting)
            waiting = []
    if waiting:
        yield pl.concat(waiting)


def release_unused() -> None:
    """Return memory to the system that Arrow keeps for further reading."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()


def read(
    piece: Piece,
    columns: Sequence[str],
    dtypes: Mapping[str, pl.DataType],
    computed: Mapping[str, pl.Expr] = _NOTHING,
) -> Batch:
    """Read a batch.

    Args:
        piece: From `pieces`.
        columns: Columns of the unit, then those of the key.
        dtypes: Dtype of each column in the log.
        computed: Further columns of whole numbers, which come after those.
    """
    if isinstance(piece, pl.DataFrame):
        found = {column.name: _of_series(column.rechunk()) for column in piece}
    else:
        found = _by_polars(piece, columns, dtypes, computed)
        for name in reversed(columns):  # keys first: they take most memory on the way
            if name not in found:
                found[name] = _of_chunks(_chunks(piece, name), dtypes[name])
        if piece.rows > BATCH_ROWS and piece.before > RELEASE_FROM:
            release_unused()
    usable = {name: mask for name, (_, mask) in found.items() if mask is not None}
    kept = np.logical_and.reduce(list(usable.values())) if usable else None
    return Batch([_filtered(found[name][0], kept) for name in (*columns, *computed)], frozenset(usable))


def _row_groups(log: Log, columns: Sequence[str]) -> list[RowGroups] | None:
    """Divide Parquet files into pieces of `BATCH_ROWS` rows or more; None where Polars has to read them."""
    import pyarrow as pa
    from pyarrow import parquet

    if not all("." not in name and (is_whole(log.dtypes[name]) or log.dtypes[name] in TEXTS) for name in columns):
        return None
    found: list[list[InFile]] = [[]]
    sizes: list[int] = [0]
    for file in log.files:
        try:
            metadata = parquet.read_metadata(file)
        except (pa.ArrowException, OSError):  # Polars will say what is wrong
            return None
        names = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
        rows = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        if any(names.count(name) != 1 for name in columns) or max(rows, default=0) > LARGEST_ROW_GROUP:
            return None
        first = 0
        for number, size in enumerate(rows):
            sizes[-1] += size
            if sizes[-1] >= BATCH_ROWS or number == len(rows) - 1:
                found[-1].append(InFile(file, metadata, range(first, number + 1)))
                first = number + 1
            if sizes[-1] >= BATCH_ROWS:
                found.append([])
                sizes.append(0)
    whole = [piece for piece in zip(found, sizes, strict=True) if piece[0]]
    return [RowGroups(*piece, before=place / len(whole)) for place, piece in enumerate(whole)]


def _by_polars(
    piece: RowGroups, columns: Sequence[str], dtypes: Mapping[str, pl.DataType], computed: Mapping[str, pl.Expr]
) -> dict[str, tuple[Column, BoolArray | None]]:
    """Read with Polars what is computed, and text that is no dictionary, in half of Arrow's time."""
    dictionaries = set.union(*(part.dictionaries for part in piece.parts))
    names = [name for name in columns if dtypes[name] in TEXTS and name not in dictionaries]
    wanted = [*(plain(name, dtypes[name]) for name in names), *computed.values()]
    if not wanted:
        return {}
    scans = [
        pl.scan_parquet(part.file, glob=False, hive_partitioning=False).slice(*part.slice).select(wanted)
        for part in piece.parts
    ]
    frame = pl.concat(scans).collect()
    return {column.name: _of_series(column.rechunk()) for column in frame}


def _chunks(piece: RowGroups, name: str) -> list[pa.Array]:
    from pyarrow import parquet

    tables = []
    for part in piece.parts:
        dictionaries = [name] if name in part.dictionaries else None
        options = {"read_dictionary": dictionaries, "pre_buffer": False, "buffer_size": READ_AT_ONCE}
        with parquet.ParquetFile(part.file, metadata=part.metadata, **options) as file:
            tables += [file.read_row_group(number, columns=[name], use_threads=False) for number in part.numbers]
    return [chunk for table in tables for chunk in table[name].chunks]


def _of_chunks(chunks: list[pa.Array], dtype: pl.DataType) -> tuple[Column, BoolArray | None]:
    """Put the chunks of a column together; dictionaries stand one after another, whatever they share."""
    import pyarrow as pa

    if not chunks or not all(pa.types.is_dictionary(chunk.type) for chunk in chunks):
        decoded = [chunk.dictionary_decode() if pa.types.is_dictionary(chunk.type) else chunk for chunk in chunks]
        parts = [_bytes(chunk) if dtype in TEXTS else pl.Series(chunk).cast(dtype) for chunk in decoded]
        empty = pl.Series([], dtype=pl.Binary if dtype in TEXTS else dtype)
        column = pl.concat([empty, *parts], rechunk=True).alias("")
        return _of_series(column if dtype in TEXTS else column.to_frame().select(plain("", dtype)).to_series())
    places = np.empty(sum(map(len, chunks)), dtype=np.int32)
    valid = np.ones(places.size, dtype=bool) if any(chunk.null_count for chunk in chunks) else None
    values, row, start = [], 0, 0
    for chunk in chunks:
        own = slice(row, row + len(chunk))
        numbers = np.frombuffer(chunk.indices.buffers()[1], np.int32)[chunk.indices.offset :][: len(chunk)]
        np.add(numbers, start, out=places[own])
        if valid is not None and chunk.null_count:
            valid[own] = chunk.is_valid().to_numpy(zero_copy_only=False)
        values.append(_bytes(chunk.dictionary))
        row, start = own.stop, start + len(chunk.dictionary)
    column = pl.concat(values, rechunk=True)
    if valid is not None:
        places[~valid] = 0
    full = _full(column)
    if full is not None:
        valid = full[places] if valid is None else valid & full[places]
    return Column(column, places), valid


def _bytes(values: pa.Array) -> pl.Series:
    """Take text or bytes from Arrow as bytes, without a copy: Arrow has not looked whether it is UTF-8."""
    import pyarrow as pa

    views = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}
    return pl.Series(values.view(views[values.type]) if values.type in views else values, dtype=pl.Binary)


def _full(values: pl.Series) -> BoolArray | None:
    """Mark the texts that are not empty; None if all are."""
    sizes = values.bin.size()
    return None if (sizes > 0).all() else (sizes > 0).to_numpy()


def _of_series(values: pl.Series) -> tuple[Column, BoolArray | None]:
    """Fill the nulls of a column; return it, and which rows are neither null nor empty, None if all are."""
    valid = values.is_not_null().to_numpy() if values.null_count() else None
    if values.dtype == pl.Binary:
        values = values.fill_null(b"")
        return Column(values), _full(values)
    return Column(values.fill_null(0) if valid is not None else values), valid


def _filtered(column: Column, kept: BoolArray | None) -> Column:
    """Leave rows out, and values that no row has: they are not of the log."""
    if column.places is None:
        return column if kept is None else Column(column.values.filter(pl.Series(kept)))
    places = column.places if kept is None else column.places[kept]
    used = np.zeros(column.values.len(), dtype=bool)
    used[places] = True
    if used.all():
        return Column(column.values, places)
    numbers = np.cumsum(used, dtype=np.int32) - np.int32(1)
    return Column(taken(column.values, np.flatnonzero(used)), numbers[places])
