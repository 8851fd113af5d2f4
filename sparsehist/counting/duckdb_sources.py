"""A log as DuckDB reads it: nothing guessed, columns taken by their place.

Left to itself, DuckDB takes names that differ in case for one, takes columns from names of folders, and reads the
name of a file as a pattern. Here columns are counted and not named, and names of files are taken literally.

CSV files pass through Polars. DuckDB 2.0 guesses the dialect from the rows, so that a row of one unit may change the
rows of all others; told the dialect, it drops without a word what follows an open quote if one thread reads, and
refuses line breaks inside quotes if several do.
"""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from sparsehist.counting.sources import Log, open_file
from sparsehist.counting.tuples import tuple_sql

if TYPE_CHECKING:
    import duckdb

Layout = tuple[tuple[str, pl.DataType], ...]


def relation(
    connection: duckdb.DuckDBPyConnection, directory: Path, log: Log, columns: Sequence[str]
) -> duckdb.DuckDBPyRelation:
    """Make columns of a log a relation with columns c0, c1, …, in the order asked for.

    Args:
        connection: Connection of our own.
        directory: Private directory for what has to be written first.
        log: The log.
        columns: Names of columns that the log has.
    """
    if log.kind == "stream":
        return _taken(connection, log, columns)
    if log.kind == "frame":
        connection.register("frame", _exact(log, columns).collect())
        return connection.table("frame")
    if log.kind == "parquet" and log.as_it_is:
        layouts: dict[Layout, list[str]] = {}
        for file in log.files:
            layouts.setdefault(tuple(open_file(file).dtypes.items()), []).append(file)
        if not any(
            dict(layout)[name] in (pl.Int128, pl.UInt128) for layout in layouts for name in log.parts_of(columns)
        ):
            parts = [
                part for layout, files in layouts.items() for part in _read(connection, log, layout, files, columns)
            ]
            return _union(parts)
    path = directory / "log.parquet"
    _exact(log, columns).sink_parquet(path, compression="lz4")
    return connection.read_parquet([_literal(str(path))], hive_partitioning=False)


def _read(
    connection: duckdb.DuckDBPyConnection, log: Log, layout: Layout, files: Sequence[str], columns: Sequence[str]
) -> list[duckdb.DuckDBPyRelation]:
    """Read Parquet files of one schema; one by one if names collide, since DuckDB matches files by names."""
    names = [name for name, _ in layout]
    collide = len({name.casefold() for name in names}) < len(names)
    selected = _selected(log, names, columns)
    places = ", ".join(f"f{i}" for i in range(len(names)))
    found = []
    for some in [[file] for file in files] if collide else [files]:
        listed = ", ".join(map(_quoted, some))
        source = f"read_parquet([{listed}], hive_partitioning = false) as file({places})"
        found.append(connection.sql(f"select {selected} from {source}"))  # noqa: S608  paths are quoted
    return found


def _selected(log: Log, names: Sequence[str], columns: Sequence[str]) -> str:
    """Columns c0, c1, … of a relation whose columns are f0, f1 and so on."""

    def written(name: str) -> str:
        if name not in log.tuples:
            return f"f{names.index(name)}"
        return tuple_sql([(f"f{names.index(part)}", part, log.dtypes[part]) for part in log.tuples[name]])

    return ", ".join(f"{written(name)} as c{i}" for i, name in enumerate(columns))


def _taken(connection: duckdb.DuckDBPyConnection, log: Log, columns: Sequence[str]) -> duckdb.DuckDBPyRelation:
    """Take the rows of a stream over, without their order: it can be read once, and by one reader."""
    names: list[str] = log.content.columns
    selected = _selected(log, names, columns)
    places = ", ".join(f"f{i}" for i in range(len(names)))
    connection.register("stream", log.content.to_arrow_reader())
    connection.execute(
        f"create temp table taken as select {selected} from stream as stream({places})"  # noqa: S608  numbers only
    )
    connection.unregister("stream")
    return connection.table("taken")


def _exact(log: Log, columns: Sequence[str]) -> pl.LazyFrame:
    """Rename columns to c0, c1, … and bring those that DuckDB would round or refuse to what it holds exactly."""
    expressions = []
    for i, name in enumerate(columns):
        dtype, column = log.dtypes[name], pl.col(name).alias(f"c{i}")
        if dtype == pl.Time or isinstance(dtype, (pl.Datetime, pl.Duration)):
            column = column.to_physical()
        elif dtype in (pl.Int128, pl.UInt128):
            column = column.cast(pl.String)
        expressions.append(column)
    return log.lazy(columns).select(expressions)


def _union(parts: list[duckdb.DuckDBPyRelation]) -> duckdb.DuckDBPyRelation:
    """Put relations of the same columns together, in a tree that is no deeper than it must be."""
    while len(parts) > 1:
        pairs = [parts[i : i + 2] for i in range(0, len(parts), 2)]
        parts = [pair[0].union(pair[1]) if len(pair) == 2 else pair[0] for pair in pairs]
    return parts[0]


def _literal(file: str) -> str:
    """Write a path as the pattern that matches it alone; an absolute one is no URL and has no `~`."""
    return glob.escape(str(Path(file).absolute()))


def _quoted(file: str) -> str:
    return "'" + _literal(file).replace("'", "''") + "'"
