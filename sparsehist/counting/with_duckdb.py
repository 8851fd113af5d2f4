"""Logs larger than memory: rows wait on disk while they are read, and DuckDB reads relations and checks logs.

Counting is that of `with_polars.py`, part by part: the distinct keys stay in memory, and one part per thread. Checks
run on a fresh connection in memory, so nothing of the log stays in anybody's catalog; a caller's relation is only
read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from sparsehist.counting import with_polars
from sparsehist.counting.contract import CountRequest, UnitPairs
from sparsehist.counting.duckdb_sources import relation
from sparsehist.counting.memory import available_memory
from sparsehist.counting.sources import Log
from sparsehist.guarantee.extensions import draw_no_progress
from sparsehist.store.layout import spill_directory
from sparsehist.store.statements import statement

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True)
class CountingSession:
    """A connection of our own and the private directory it spills to."""

    connection: duckdb.DuckDBPyConnection = field(repr=False)
    directory: Path

    def run(self, name: str, **values: object) -> duckdb.DuckDBPyConnection:
        """Run one of the package's statements."""
        return self.connection.execute(statement(name), values or None)

    def read(self, name: str, **values: object) -> pl.DataFrame:
        """Read the result of one of the package's statements."""
        result: pl.DataFrame = self.connection.sql(statement(name), params=values or None).pl()
        return result


def name() -> str:
    """Name what counts and its version."""
    import duckdb

    return f"duckdb {duckdb.__version__}, {with_polars.name()}"


def count(log: Log, wanted: CountRequest) -> pl.DataFrame:
    """Count units by key: columns key_0, …, count."""
    with spill_directory(wanted.temporary_directory) as directory:
        return with_polars.count(log, wanted, directory)


def kept_pairs(log: Log, wanted: CountRequest) -> UnitPairs:
    """List the pairs that count."""
    with spill_directory(wanted.temporary_directory) as directory:
        return with_polars.kept_pairs(log, wanted, directory)


@contextmanager
def open_session(wanted: CountRequest) -> Iterator[CountingSession]:
    """Open a connection with the limits asked for; clean up after it."""
    import duckdb

    with (
        spill_directory(wanted.temporary_directory) as directory,
        duckdb.connect(":memory:") as connection,
    ):
        settings = {
            "temp_directory": str(directory),
            "preserve_insertion_order": False,
            "memory_limit": wanted.memory_limit or f"{available_memory() // 2}B",
            "threads": wanted.threads,
        }
        draw_no_progress(connection)
        for setting, value in settings.items():
            if value is not None:
                connection.execute(f"set {setting} = $value", {"value": value})
        yield CountingSession(connection, directory)


def load(session: CountingSession, log: Log, wanted: CountRequest) -> None:
    """Make the view log (unit, key): an empty unit is null, a key of several columns is a struct."""
    source = relation(session.connection, session.directory, log, wanted.columns)
    parts = [f"c{i}" for i in range(1, len(wanted.columns))]
    key = parts[0]
    if len(parts) > 1:
        key = "struct_pack(" + ", ".join(f"key_{i} := {part}" for i, part in enumerate(parts)) + ")"
    unit, dtype = "c0", log.dtypes[wanted.columns[0]]
    if dtype in (pl.String, pl.Categorical, pl.Enum):
        unit = "nullif(cast(c0 as varchar), '')"
    elif dtype == pl.Binary:
        unit = "nullif(c0, ''::blob)"
    source.project(f"{unit} as unit, {key} as key").create_view("log")
