"""A log in batches of rows, each read by whichever thread is free.

Parquet files are read by Arrow in whole row groups, so that nothing is decoded twice and no thread reads for another;
text that a file holds as a dictionary stays one. Everything else comes from Polars, one batch after another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from sparsehist.counting.in_memory.codes import LogColumn, plain, whole
from sparsehist.counting.sources import Log
from sparsehist.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import parquet

BATCH_ROWS = 600_000
READ_AT_ONCE = 1 << 20  # bytes of a column: all of it would be held beside what it is decoded to
LARGEST_ROW_GROUP = 4_000_000
KEPT = 0.4  # share of a log after which Arrow gives back the memory of large row groups; before, all rows take less
TEXTS = (pl.String, pl.Categorical, pl.Enum)
DICTIONARIES = {"RLE_DICTIONARY", "PLAIN_DICTIONARY"}


@dataclass(frozen=True)
class Batch:
    """Some rows of a log: those that have a unit and a key. Secret.

    Attributes:
        columns: The columns asked for.
        incomplete: Names of the columns for which rows were left out: nulls, or empty units.
    """

    columns: list[LogColumn] = field(repr=False)
    incomplete: frozenset[str]


@dataclass(frozen=True)
class RowGroups:
    """Some row groups of a Parquet file.

    Attributes:
        file: Its name.
        metadata: What its footer says.
        numbers: Of the row groups.
        rows: How many they have.
        before: Share of the pieces of the log that come before this one.
    """

    file: str
    metadata: parquet.FileMetaData
    numbers: list[int]
    rows: int
    before: float


Piece = RowGroups | pl.DataFrame


def unread(log: Log, columns: Sequence[str]) -> Iterator[Piece]:
    """Divide a log into what `read` makes batches of."""
    if log.kind == "stream":
        for batch in log.batches(columns):
            yield batch.select(plain(name, log.dtypes[name]) for name in columns)
        return
    pieces = _pieces(log, columns) if log.kind == "parquet" and log.as_it_is and not log.tuples else None
    if pieces is None:
        rows = log.lazy(columns).select(plain(name, log.dtypes[name]) for name in columns)
        yield from rows.collect_batches(chunk_size=BATCH_ROWS, maintain_order=False)
    else:
        yield from pieces


def release_unused() -> None:
    """Give memory back that Arrow keeps for reading more."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()


def read(piece: Piece, columns: Sequence[str], dtypes: Mapping[str, pl.DataType]) -> Batch:
    """Read a batch.

    Args:
        piece: What `unread` gave.
        columns: The column of the unit, then those of the key.
        dtypes: Dtype of each column in the log.
    """
    if isinstance(piece, pl.DataFrame):
        incomplete = {column.name for column in piece if column.null_count()}
        frame = piece.drop_nulls() if incomplete else piece
        found = [LogColumn(column.rechunk()) for column in frame]
    else:
        incomplete = set()
        if (whole_columns := _columns(piece, columns, dtypes)) is not None:
            found = whole_columns
        else:  # rows are left out, and all columns have to be read together
            tables = _tables(piece, columns)
            incomplete = {name for table in tables for name in table.column_names if table[name].null_count}
            tables = [table.drop_null() for table in tables]
            found = [_column([table[name] for table in tables], dtypes[name]) for name in columns]
    unit = found[0]
    if unit.values.dtype == pl.String and (empty := unit.values == "").any():
        incomplete.add(columns[0])
        full = ~(empty if unit.places is None else empty.gather(unit.places))
        found = [_filtered(column, full) for column in found]
    return Batch(found, frozenset(incomplete))


def _pieces(log: Log, columns: Sequence[str]) -> list[RowGroups] | None:
    """Divide Parquet files into pieces of `BATCH_ROWS` rows or more; None where it is for Polars to read them."""
    import pyarrow as pa
    from pyarrow import parquet

    if not all("." not in name and (whole(log.dtypes[name]) or log.dtypes[name] in TEXTS) for name in columns):
        return None
    pieces = []
    for file in log.files:
        try:
            metadata = parquet.read_metadata(file)
        except (pa.ArrowException, OSError):  # it is for Polars to say what is wrong
            return None
        names = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
        sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        if any(names.count(name) != 1 for name in columns) or max(sizes, default=0) > LARGEST_ROW_GROUP:
            return None
        numbers: list[int] = []
        rows = 0
        for number, size in enumerate(sizes):
            numbers, rows = [*numbers, number], rows + size
            if rows >= BATCH_ROWS or number == len(sizes) - 1:
                pieces.append((file, metadata, numbers, rows))
                numbers, rows = [], 0
    return [RowGroups(*piece, before=place / len(pieces)) for place, piece in enumerate(pieces)]


def _dictionaries(piece: RowGroups) -> set[str]:
    """Names of the columns that the file holds as dictionaries, or begins to."""
    chunks = piece.metadata.row_group(piece.numbers[0])
    found = (chunks.column(i) for i in range(chunks.num_columns))
    return {chunk.path_in_schema for chunk in found if DICTIONARIES.intersection(chunk.encodings)}


def _columns(piece: RowGroups, columns: Sequence[str], dtypes: Mapping[str, pl.DataType]) -> list[LogColumn] | None:
    """Read columns one by one, keys first, which take most memory on the way; None if one has nulls."""
    found = _plain_texts(piece, columns, dtypes)
    for name in reversed(columns):
        if name not in found:
            parts = [table[name] for table in _tables(piece, [name])]
            if any(part.null_count for part in parts):
                return None
            found[name] = _column(parts, dtypes[name])
            del parts
    if piece.rows > BATCH_ROWS and piece.before > KEPT:
        release_unused()
    return [found[name] for name in columns]


def _plain_texts(piece: RowGroups, columns: Sequence[str], dtypes: Mapping[str, pl.DataType]) -> dict[str, LogColumn]:
    """Read text that the file holds as it is with Polars, in half of Arrow's time; no column if one has nulls."""
    dictionaries = _dictionaries(piece)
    names = [name for name in columns if dtypes[name] in TEXTS and name not in dictionaries]
    if not names:
        return {}
    sizes = [piece.metadata.row_group(number).num_rows for number in range(piece.numbers[-1] + 1)]
    first = sum(sizes[: piece.numbers[0]])
    scan = pl.scan_parquet(piece.file, glob=False, hive_partitioning=False).slice(first, sum(sizes) - first)
    frame = scan.select(plain(name, dtypes[name]) for name in names).collect()
    if any(column.null_count() for column in frame):
        return {}
    return {name: LogColumn(frame[name].rechunk()) for name in names}


def _tables(piece: RowGroups, columns: Sequence[str]) -> list[pa.Table]:
    from pyarrow import parquet

    dictionaries = [name for name in _dictionaries(piece) if name in columns]
    with parquet.ParquetFile(
        piece.file, metadata=piece.metadata, read_dictionary=dictionaries, pre_buffer=False, buffer_size=READ_AT_ONCE
    ) as file:
        return [file.read_row_group(number, columns=list(columns), use_threads=False) for number in piece.numbers]


def _column(parts: list[pa.ChunkedArray], dtype: pl.DataType) -> LogColumn:
    """Put the parts of a column together: dictionaries stand one after another, whatever they share."""
    import pyarrow as pa

    chunks = [chunk for part in parts for chunk in part.chunks]
    if chunks and all(pa.types.is_dictionary(chunk.type) for chunk in chunks):
        if len(chunks) == 1:
            return LogColumn(_text(chunks[0].dictionary), _numbers(chunks[0].indices))
        places = np.empty(sum(map(len, chunks)), dtype=np.int32)
        values, row, start = [], 0, 0
        for chunk in chunks:
            np.add(_numbers(chunk.indices), start, out=places[row : row + len(chunk)])
            values.append(_text(chunk.dictionary))
            row, start = row + len(chunk), start + len(chunk.dictionary)
        return LogColumn(pl.concat(values, rechunk=True), places)
    if dtype in TEXTS:
        return LogColumn(pl.concat([pl.Series([], dtype=pl.String), *map(_text, chunks)], rechunk=True))
    pieces = [pl.Series(chunk).cast(dtype) for chunk in chunks] or [pl.Series([], dtype=dtype)]
    return LogColumn(pl.concat(pieces, rechunk=False).to_physical().cast(pl.Int64))


def _numbers(values: pa.Array) -> NDArray[np.integer]:
    """The numbers of an array without nulls; its `to_numpy` would import pandas where that is installed."""
    return np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values)]


def _is_text(values: pa.Array) -> bool:
    """Whether bytes, which Arrow takes from a file without a look, are UTF-8: as a whole, and cut between characters.

    Arrow's own check, value by value, takes five times as long.
    """
    import pyarrow as pa

    _, offsets, content = values.buffers()
    if not pa.types.is_string(values.type) or content is None:
        return False
    held = np.frombuffer(content, np.uint8)
    ends = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    if (held[ends[ends < held.size]] & 0xC0 == 0x80).any():  # inside a character
        return False
    bounds = pa.py_buffer(np.array([0, held.size]))
    whole = pl.Series(pa.Array.from_buffers(pa.large_binary(), 1, [None, bounds, content]))
    try:
        whole.cast(pl.String)
    except pl.exceptions.ComputeError:
        return False
    return True


def _text(values: pa.Array) -> pl.Series:
    if not _is_text(values):
        values.validate(full=True)  # says what is wrong
    return pl.Series(values).cast(pl.String)


def _filtered(column: LogColumn, kept: pl.Series) -> LogColumn:
    if column.places is None:
        return LogColumn(column.values.filter(kept))
    return LogColumn(column.values, column.places[kept.to_numpy()])
