"""Check and run a query on new DuckDB connections that contain only the sources which the query names.

Both use the same rewritten text, files and column types. The connection for the check contains empty tables, and the
connection for the run contains views of files, frames and relations. Then external access is switched off.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb

from sparsehist.errors import DeclarationError, InputError, SparsehistError, StatementError, raise_alone
from sparsehist.guarantee.check import Check
from sparsehist.guarantee.extensions import draw_no_progress
from sparsehist.guarantee.statement import Lookup, Rewriting, Source, folded, quoted
from sparsehist.store.layout import spill_directory
from sparsehist.store.statements import statement

if TYPE_CHECKING:
    from sparsehist.counting.contract import Query

_CLOSED: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
}
_BY_STATISTICS = "statistics_propagation,join_filter_pushdown"
"""Optimizers that use minima and maxima from Parquet files. These omit NaN, DuckDB's largest number.

DuckDB also compares them with conditions that it moves into the reader of a file; `_put` prevents this.
"""
_ENUM = re.compile(r"ENUM\('(?:[^']|'')*'(?:, '(?:[^']|'')*')*\)")
Columns = dict[str, str]


@dataclass(frozen=True, repr=False)
class Closed:
    """A query over views of its sources, with the columns and types of each view; `verified` if it was checked."""

    text: str
    sources: Mapping[str, Source]
    columns: Mapping[str, Columns]
    verified: bool

    def relation(self) -> duckdb.DuckDBPyRelation:
        """Return the result of the query as a relation. DuckDB computes the rows when they are read."""
        connection = duckdb.connect(":memory:", config=_CLOSED)
        draw_no_progress(connection)
        spill = ExitStack()
        directory = spill.enter_context(spill_directory())
        connection.execute("set temp_directory = $directory", {"directory": str(directory)})
        # Streams are read once. DuckDB may compute a CTE twice, and reads one relation of a connection at a time.
        once = "WITH " not in self.text.upper() and self.text.count("memory.main.source_") == 1
        if any(_has_floats(kind) for typed in self.columns.values() for kind in typed.values()):
            connection.execute(f"set disabled_optimizers = '{_BY_STATISTICS}'")
        for view, source in self.sources.items():
            _put(connection, view, source, self.columns[view], streamed=once)
        files = [file for source in self.sources.values() for file in source.files]
        connection.execute("set allowed_paths = $files", {"files": files})
        connection.execute(statement("guarantee_lock"))
        relation = connection.sql(self.text)
        weakref.finalize(relation, spill.close)
        return relation


def close(query: Query, lookup: Lookup, units: tuple[str, ...], keys: tuple[str, ...]) -> Closed:
    """Rewrite a query over views of its sources, and check the query without running it.

    The result must have the columns `keys`. The query is not checked if it is unverified or `units` is empty. Raise a
    GuaranteeError if the query may mix units, and a StatementError if DuckDB cannot plan it.
    """
    with duckdb.connect(":memory:", config={"threads": 1, **_CLOSED}) as connection:
        rewritten = Rewriting(connection, query, lookup)
        columns = {view: _columns_of(connection, source) for view, source in rewritten.sources.items()}
        verified = not query.unverified and bool(units)
        if verified:
            for view, typed in columns.items():
                fields = ", ".join(f"{quoted(name)} {kind}" for name, kind in typed.items())
                connection.execute(f"create table {view} ({fields})")
            optimizers = connection.execute("select name from duckdb_optimizers()").fetchall()
            unused = ",".join(name for (name,) in optimizers if name != "filter_pushdown")  # IN becomes a semi join
            connection.execute(f"set disabled_optimizers = '{unused}'")
            connection.execute(statement("guarantee_lock"))
            try:
                _check(rewritten, units, keys)
            except StatementError:  # perhaps only because rows tie in ORDER BY
                rewritten.break_ties()
                _check(rewritten, units, keys)
        return Closed(rewritten.text, rewritten.sources, columns, verified)


def _check(query: Rewriting, units: tuple[str, ...], keys: tuple[str, ...]) -> None:
    """Let DuckDB plan a query over empty tables, and check the plan."""
    try:
        columns = query.parser.sql(query.text).columns
        ((text,),) = query.parser.execute(statement("guarantee_plan"), {"query": query.text}).fetchall()
    except duckdb.Error as problem:
        message = str(problem).partition("\n")[0].split(": ", 1)[-1]  # shows no data, because the tables are empty
        message = re.sub(r"\b(memory\.main\.)?source_(\d+)\b", r"source \2", message)
        raise_alone(StatementError(f"DuckDB cannot plan the query: {message}"))
    Check(query, units).run(text, columns, keys)


def _columns_of(connection: duckdb.DuckDBPyConnection, source: Source) -> Columns:
    """Return the names and types of a source's columns. An ENUM, which lists values of rows, becomes text."""
    try:
        if source.opens is not None:
            table = source.opens()
            is_relation = isinstance(table, duckdb.DuckDBPyRelation)
            connection.register("source", table.limit(0).to_arrow_table() if is_relation else table)
        rows = connection.execute(f"describe from {source.reader or 'source'}").fetchall()
        connection.unregister("source")
    except SparsehistError:
        raise
    except Exception as problem:  # noqa: BLE001  an engine's message may quote the data
        kind = type(problem).__name__.removesuffix("Exception")
        raise_alone(InputError(f"the source {source.name} cannot be read ({kind})"))
    columns = {str(name): _ENUM.sub("VARCHAR", str(kind)) for name, kind, *_ in rows}
    if len({folded(name) for name in columns}) != len(rows):
        raise DeclarationError(f"the source {source.name} has two columns of the same name: rename one")
    return columns


def _has_floats(kind: str) -> bool:
    return "FLOAT" in kind or "DOUBLE" in kind


def _put(
    connection: duckdb.DuckDBPyConnection, view: str, source: Source, columns: Columns, *, streamed: bool
) -> None:
    """Make the view of a source. The rows of a relation are stored first, unless the query reads them once."""
    listed, reader = [], source.reader
    for name, kind in columns.items():
        cast = f"cast({quoted(name)} as {kind})"
        if _has_floats(kind):  # DuckDB moves no condition on two columns into a file's reader
            other = next((other for other in columns if other != name), name)
            cast = f"case when {quoted(name)} is null and {quoted(other)} is null then null else {cast} end"
        listed.append(f"{cast} as {quoted(name)}")
    if source.opens is not None:
        table, reader = source.opens(), f"raw_{view}"
        is_relation = isinstance(table, duckdb.DuckDBPyRelation)
        connection.register(reader, table.to_arrow_reader() if is_relation else table)
        if is_relation and not streamed:
            connection.execute(f"create table stored_{view} as from {reader}")
            connection.unregister(reader)
            reader = f"stored_{view}"
    connection.execute(f"create view {view} as select {', '.join(listed)} from {reader}")  # noqa: S608  quoted
