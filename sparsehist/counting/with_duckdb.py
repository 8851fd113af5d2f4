"""Count with DuckDB, which spills to disk what `memory_limit` has no room for.

Everything happens on a fresh connection in memory, so nothing of the log stays in anybody's catalog; a caller's
relation is only read. Distinct keys pass through Polars once, where the domain looks at them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import polars as pl

from sparsehist.counting.contract import Bounding, CountRequest, UnitPairs
from sparsehist.counting.duckdb_sources import relation
from sparsehist.counting.keys import missing_error, place
from sparsehist.counting.memory import available_memory
from sparsehist.counting.sources import Log, engine_errors
from sparsehist.counting.tuples import order_sql
from sparsehist.domain.base import key_names
from sparsehist.guarantee.extensions import draw_no_progress
from sparsehist.store.layout import spill_directory
from sparsehist.store.statements import statement


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
    """Name the engine and its version."""
    return f"duckdb {duckdb.__version__}"


def count(log: Log, wanted: CountRequest) -> pl.DataFrame:
    """Count units by key: columns key_0, …, count."""
    with engine_errors(log.label, log), open_session(wanted) as session:
        _pairs(session, log, wanted)
        keys: pl.Series | None = None
        if [log.dtypes[name] for name in wanted.key] == list(wanted.domain.dtypes):
            # Most keys are cells as they are: they are counted with their pairs, and looked at once that is done.
            counted = _bounded(session, "pairs", wanted).read("count_keys", full=wanted.full, salt=wanted.salt)
            keys = counted["key"]
        table = _place(session, wanted, keys)
        if keys is None or table != "pairs":
            counted = _bounded(session, table, wanted).read("count_keys", full=wanted.full, salt=wanted.salt)
        wanted.report("counting")
        wanted.note(Bounding(*session.read("count_bounding").row(0)))
        counted = counted.filter(pl.col("count") > 0)
        return _cells(counted["key"], wanted).with_columns(counted["count"].cast(pl.Int64))


def kept_pairs(log: Log, wanted: CountRequest) -> UnitPairs:
    """List the pairs that count."""
    with engine_errors(log.label, log), open_session(wanted) as session:
        _pairs(session, log, wanted)
        kept = _bounded(session, _place(session, wanted), wanted).read("count_kept_pairs", salt=wanted.salt)
        return UnitPairs.of_frame(_cells(kept["key"], wanted).select(kept["unit"], pl.all()))


def _cells(keys: pl.Series, wanted: CountRequest) -> pl.DataFrame:
    """Give cells that come back from DuckDB their columns and canonical dtypes."""
    cells = unpacked(keys, wanted)
    return cells.cast(dict(zip(cells.columns, wanted.domain.dtypes, strict=True)))


@contextmanager
def open_session(wanted: CountRequest) -> Iterator[CountingSession]:
    """Open a connection with the limits asked for; clean up after it."""
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


def _pairs(session: CountingSession, log: Log, wanted: CountRequest) -> None:
    """Make the table pairs (unit, key)."""
    load(session, log, wanted)
    wanted.report("sorting")
    session.run("count_pairs")
    make_order(session.connection, log, wanted)
    if session.run("count_missing_units").fetchall()[0][0]:
        if wanted.on_null == "error":
            raise missing_error(wanted.columns[0], "unit")
        session.run("count_drop_missing_units")


def make_order(connection: duckdb.DuckDBPyConnection, log: Log, wanted: CountRequest) -> None:
    """Make the macro salted_hash, by which the keys of a unit are put in order."""
    if not wanted.portable:
        connection.execute(statement("count_hash"))
        return
    unit = None if wanted.unit in log.tuples else log.dtypes[wanted.columns[0]]
    order = order_sql(unit, wanted.domain.dtypes)
    connection.execute(f"create or replace macro salted_hash(salt, unit, key) as {order}")


def _bounded(session: CountingSession, table: str, wanted: CountRequest) -> CountingSession:
    """Find out which pairs of a table count."""
    wanted.report("bounding")
    session.connection.table(table).create_view("bounded", replace=True)
    weights = pl.DataFrame(wanted.weights, schema={"weight": pl.Int64, "most": pl.Int64}, orient="row")
    session.connection.register("weights", weights)
    session.run("count_cutoffs", max_keys=wanted.max_keys, most_keys=wanted.most_keys, salt=wanted.salt)
    session.connection.unregister("weights")
    session.run("count_last_kept", most_keys=wanted.most_keys, salt=wanted.salt)
    session.run("count_kept")
    return session


def _place(session: CountingSession, wanted: CountRequest, keys: pl.Series | None = None) -> str:
    """Bring the distinct keys to the domain; returns the table that holds the pairs then."""
    wanted.report("placing keys")
    keys = session.read("count_distinct_keys")["key"] if keys is None else keys
    placed = place(
        unpacked(keys, wanted), wanted.key, wanted.domain, on_null=wanted.on_null, on_outside=wanted.on_outside
    )
    # Cells, not keys, are put in order: were keys that map one to one left as they are, a single key of somebody
    # else's that does not would change the order of all.
    if placed.identical:
        return "pairs"
    cells = pl.DataFrame([keys.filter(pl.Series(placed.usable)), packed(placed.cells)])
    session.connection.register("cells", cells)
    session.run("count_placed")
    session.connection.unregister("cells")
    return "placed"


def unpacked(keys: pl.Series, wanted: CountRequest) -> pl.DataFrame:
    """Give each part of the key its column."""
    names = key_names(wanted.domain.columns)
    if len(names) == 1:
        return keys.alias(names[0]).to_frame()
    return keys.struct.unnest()


def packed(cells: pl.DataFrame) -> pl.Series:
    """Undo `unpacked`."""
    return cells.to_series().alias("cell") if cells.width == 1 else cells.to_struct("cell")


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
    elif wanted.portable and isinstance(dtype, pl.Datetime) and source.types[0] == "BIGINT":
        unit = "make_timestamp(c0 * 1000)" if dtype.time_unit == "ms" else "make_timestamp(c0)"
    source.project(f"{unit} as unit, {key} as key").create_view("log")
