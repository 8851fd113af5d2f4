"""A log in batches of rows, each read by whichever thread is free.

Arrow reads Parquet files in whole row groups: nothing is decoded twice, and text that a file holds as a dictionary
stays one. Polars reads everything else. Rows with a null or an empty text are left out here. Text is read as bytes
and checked to be UTF-8 later, once per distinct value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from sparsehist.counting.codes import taken
from sparsehist.counting.log import Log
from sparsehist.typing import BoolArray, NDArray, secret

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import parquet

BATCH_ROWS = 600_000
READ_AT_ONCE = 1 << 20  # bytes of a column: all of it would be held beside what it is decoded to
SMALL_FILE = 100_000  # rows: for each of several files, Arrow would make a batch
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


@secret
class Batch(NamedTuple):
    """The rows of a part of a log that have a unit and a key: their columns, and names of columns with gaps.

    A gap is a null or an empty text, for which a row was left out.
    """

    columns: list[Column]
    incomplete: frozenset[str]


@dataclass(frozen=True)
class RowGroups:
    """Some row groups of a Parquet file, next to each other; `late` if a good part of the log comes before."""

    file: str
    metadata: parquet.FileMetaData
    numbers: range
    late: bool

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
    found = _by_arrow(piece, columns, dtypes) if isinstance(piece, RowGroups) else {}
    if isinstance(piece, RowGroups):
        # Polars reads text that is no dictionary in half of Arrow's time.
        rest = [*(plain(name, dtypes[name]) for name in columns if name not in found), *computed.values()]
        scan = pl.scan_parquet(piece.file, glob=False, hive_partitioning=False).slice(*piece.slice)
        frame = scan.select(rest).collect() if rest else pl.DataFrame()
        if piece.late:
            release_unused()
    else:
        frame = piece
    found |= {column.name: _of_series(column.rechunk()) for column in frame}
    usable = {name: mask for name, (_, mask) in found.items() if mask is not None}
    kept = np.logical_and.reduce(list(usable.values())) if usable else None
    return Batch([_filtered(found[name][0], kept) for name in (*columns, *computed)], frozenset(usable))


def _row_groups(log: Log, columns: Sequence[str]) -> list[RowGroups] | None:
    """Divide Parquet files into pieces of `BATCH_ROWS` rows or more; None where Polars has to read them."""
    import pyarrow as pa
    from pyarrow import parquet

    if not all("." not in name and (is_whole(log.dtypes[name]) or log.dtypes[name] in TEXTS) for name in columns):
        return None
    found = []
    for place, file in enumerate(log.files):
        try:
            metadata = parquet.read_metadata(file)
        except (pa.ArrowException, OSError):  # Polars will say what is wrong
            return None
        names = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
        rows = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        if any(names.count(name) != 1 for name in columns) or max(rows, default=0) > LARGEST_ROW_GROUP:
            return None
        if len(log.files) > 1 and metadata.num_rows < SMALL_FILE:  # Polars reads many files at once
            return None
        first = size = 0
        for number, own in enumerate(rows):
            size += own
            if size >= BATCH_ROWS or number == len(rows) - 1:
                late = (place + number / len(rows)) / len(log.files) > RELEASE_FROM
                found.append(RowGroups(file, metadata, range(first, number + 1), late and size > BATCH_ROWS))
                first, size = number + 1, 0
    return found


def _by_arrow(
    piece: RowGroups, columns: Sequence[str], dtypes: Mapping[str, pl.DataType]
) -> dict[str, tuple[Column, BoolArray | None]]:
    """Read whole numbers, and text that is a dictionary, one column after another: both would take more memory."""
    from pyarrow import parquet

    found, texts = {}, [name for name in columns if name in piece.dictionaries and dtypes[name] in TEXTS]
    options = {"read_dictionary": texts, "pre_buffer": False, "buffer_size": READ_AT_ONCE}
    with parquet.ParquetFile(piece.file, metadata=piece.metadata, **options) as file:
        for name in reversed(columns):  # keys first: they take most memory on the way
            if name not in texts and not is_whole(dtypes[name]):
                continue
            tables = [file.read_row_group(number, columns=[name], use_threads=False) for number in piece.numbers]
            chunks = [chunk for table in tables for chunk in table[name].chunks]
            if name in texts:
                found[name] = _of_dictionaries(chunks)
            else:
                parts = [pl.Series(name, chunk).cast(dtypes[name]) for chunk in chunks]
                numbers = pl.concat(parts, rechunk=True).to_frame().select(plain(name, dtypes[name]))
                found[name] = _of_series(numbers.to_series())
    return found


def _of_dictionaries(chunks: Sequence[pa.Array]) -> tuple[Column, BoolArray | None]:
    """Put dictionaries one after another, whatever they share; mark the rows that are neither null nor empty."""
    places, values, start = [np.zeros(0, np.int32)], [pl.Series([], dtype=pl.Binary)], 0
    for chunk in chunks:
        numbers = np.frombuffer(chunk.indices.buffers()[1], np.int32)[chunk.indices.offset :][: len(chunk)]
        places.append(numbers + np.int32(start))
        values.append(_bytes(chunk.dictionary))
        start += len(chunk.dictionary)
    column, rows = pl.concat(values, rechunk=True), np.concatenate(places)
    valid = None
    if any(chunk.null_count for chunk in chunks):
        valid = np.concatenate([chunk.is_valid().to_numpy(zero_copy_only=False) for chunk in chunks])
        rows[~valid] = 0
    full = _full(column)
    if full is not None and rows.size:
        valid = full[rows] if valid is None else valid & full[rows]
    return Column(column, rows), valid


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
    """Remove rows, and then the values that no remaining row uses."""
    if column.places is None:
        return column if kept is None else Column(column.values.filter(pl.Series(kept)))
    places = column.places if kept is None else column.places[kept]
    used = np.zeros(column.values.len(), dtype=bool)
    used[places] = True
    if used.all():
        return Column(column.values, places)
    numbers = np.cumsum(used, dtype=np.int32) - np.int32(1)
    return Column(taken(column.values, np.flatnonzero(used)), numbers[places])
