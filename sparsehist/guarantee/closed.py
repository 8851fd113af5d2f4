"""Check and run a query on new DuckDB connections that contain only the sources which the query names.

The check and the run use the same rewritten text, files and column types. The check sees only empty tables; the run
sees views of files, frames and relations. External access is switched off before the query is planned.
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
from sparsehist.guarantee.statement import Lookup, Rewriting, Source, folded, quoted
from sparsehist.store.layout import spill_directory
from sparsehist.store.statements import statement

if TYPE_CHECKING:
    from sparsehist.counting.contract import Query

_ENUM = re.compile(r"ENUM\('(?:[^']|'')*'(?:, '(?:[^']|'')*')*\)")
_FLOATS = re.compile("FLOAT|DOUBLE")


@dataclass(frozen=True, repr=False)
class Closed:
    """A query over views of its sources, with the columns and types of each view."""

    text: str
    sources: Mapping[str, Source]
    columns: Mapping[str, dict[str, str]]
    verified: bool  # whether the query was checked

    def relation(self) -> duckdb.DuckDBPyRelation:
        """Return the result of the query as a relation. DuckDB computes the rows when they are read."""
        spill = ExitStack()
        connection = connected(spill, autoload_known_extensions=False)
        if _FLOATS.search(str(self.columns)):
            # DuckDB sorts NaN above all other numbers, but the min/max statistics of Parquet files omit NaN. Disable
            # optimizers that use these statistics. `_put` prevents filters in file scans, which would use them too.
            connection.execute("set disabled_optimizers = 'statistics_propagation,join_filter_pushdown'")
        for view in self.sources:
            self._put(connection, view)
        files = [file for source in self.sources.values() for file in source.files]
        connection.execute("set allowed_paths = $files", {"files": files})
        connection.execute(statement("guarantee_lock"))
        relation = connection.sql(self.text)
        weakref.finalize(relation, spill.close)
        return relation

    def _put(self, connection: duckdb.DuckDBPyConnection, view: str) -> None:
        """Make the view of a source. The rows of a relation are stored first if the query may read them twice."""
        source, columns, listed = self.sources[view], self.columns[view], []
        for name, kind in columns.items():
            cast = f"cast({quoted(name)} as {kind})"
            if _FLOATS.search(kind):  # DuckDB never pushes a filter on two columns down into a file scan
                other = next((other for other in columns if other != name), name)
                cast = f"case when {quoted(name)} is null and {quoted(other)} is null then null else {cast} end"
            listed.append(f"{cast} as {quoted(name)}")
        reader = source.reader or f"raw_{view}"
        if source.opens is not None:
            table = source.opens()
            is_relation = isinstance(table, duckdb.DuckDBPyRelation)
            connection.register(reader, table.to_arrow_reader() if is_relation else table)
            # A connection can read only one stream, and only once. If the query reads several tables, or has a CTE,
            # which DuckDB may compute twice, the rows of a relation must be stored.
            once = "WITH " not in self.text.upper() and self.text.count("memory.main.source_") == 1
            if is_relation and not once:
                connection.execute(f"create table stored_{view} as from {reader}")
                connection.unregister(reader)
                reader = f"stored_{view}"
        connection.execute(f"create view {view} as select {', '.join(listed)} from {reader}")  # noqa: S608  quoted


def connected(spill: ExitStack, **settings: bool | int) -> duckdb.DuckDBPyConnection:
    """Open a DuckDB connection that sees no Python variables. `spill.close()` deletes its temporary files."""
    alone = {"autoinstall_known_extensions": False, "python_enable_replacements": False}
    connection = duckdb.connect(":memory:", config={**alone, **settings})
    ((progress,),) = connection.execute("select current_setting('enable_progress_bar')").fetchall()
    if progress:  # a notebook without ipywidgets has no progress bar, and switching it off would fail
        connection.execute("set enable_progress_bar = false")
    connection.execute("set temp_directory = $path", {"path": str(spill.enter_context(spill_directory()))})
    return connection


def close(query: Query, lookup: Lookup, units: tuple[str, ...], keys: tuple[str, ...]) -> Closed:
    """Rewrite a query so that it reads views of its sources, and check it without running it.

    The result must have the columns `keys`. A query is not checked if it was declared unverified or `units` is empty.
    Raise a GuaranteeError if the query may mix units, and a StatementError if DuckDB cannot plan it.
    """
    with ExitStack() as spill:
        connection = spill.enter_context(connected(spill, autoload_known_extensions=False, threads=1))
        rewritten = Rewriting(connection, query, lookup)
        columns = {view: _columns_of(connection, source) for view, source in rewritten.sources.items()}
        verified = not query.unverified and bool(units)
        if verified:
            for view, typed in columns.items():
                fields = ", ".join(f"{quoted(name)} {kind}" for name, kind in typed.items())
                connection.execute(f"create table {view} ({fields})")
            # Use only the optimizer filter_pushdown: it turns IN into a semi join, which `Check` can verify.
            others = "select name from duckdb_optimizers() where name <> 'filter_pushdown'"
            unused = ",".join(name for (name,) in connection.execute(others).fetchall())
            connection.execute(f"set disabled_optimizers = '{unused}'")
            connection.execute(statement("guarantee_lock"))
            try:
                Check(rewritten, units).run(keys)
            except StatementError:  # perhaps the only problem is ties in an ORDER BY: break them and check again
                rewritten.break_ties()
                Check(rewritten, units).run(keys)
        return Closed(rewritten.text, rewritten.sources, columns, verified)


def _columns_of(connection: duckdb.DuckDBPyConnection, source: Source) -> dict[str, str]:
    """Return the names and types of a source's columns. ENUM types, which list values of the data, become VARCHAR."""
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
