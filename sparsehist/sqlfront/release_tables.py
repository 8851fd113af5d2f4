"""Releases as tables of a session, copied in when a statement first names them; SHOW as tables.

A release is `series.release`: schemas are named by series.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import duckdb
import polars as pl
from sqlglot import TokenType

from sparsehist.errors import DeclarationError, NotFoundError
from sparsehist.guarantee.statement import quoted
from sparsehist.ledger.ledger import Ledger
from sparsehist.ledger.table import DEFAULT_DELTA, SCHEMA, ledger_rows
from sparsehist.release import any_kind
from sparsehist.release.home import Home
from sparsehist.release.pipeline import RELEASES, rows_of_releases
from sparsehist.release.releases import Release, WorkloadRelease
from sparsehist.release.stored_declaration import declaration_of
from sparsehist.sqlfront.reading import Statement
from sparsehist.sqlfront.script import Piece, is_word, plain
from sparsehist.store import SeriesRecord, State
from sparsehist.store.statements import statement

_ARRIVING = "release_arriving"
"""What the rows of a release are called while they are copied in."""
TAKEN_NAMES = frozenset({"main", "memory", "temp", "system", "information_schema", "pg_catalog"})
"""Schemas and catalogs of DuckDB's own, which no series with releases in SQL is called."""
_COUNTED = ("max_keys", "steps", "releases")
_SERIES = {
    name: pl.Int64 if name in _COUNTED else pl.Boolean if name == "unverified" else pl.String
    for name in "name unit key max_keys domain noise cap population unverified source steps releases".split()
}


def made_before(store: Home, series: str, name: str) -> Release | WorkloadRelease | None:
    """Return a release that was made, of whichever kind; None if there is none of that name."""
    try:
        return any_kind.release(store, series, None, name)
    except (DeclarationError, NotFoundError):  # it cannot be one's name, or is nobody's
        return None


def dotted_names(piece: Piece) -> Iterator[tuple[str, str]]:
    """Each pair of names with a dot between them, in lower case: what may be a release."""
    for (one, dot), (_, other) in pairwise(pairwise(piece.tokens)):
        if dot.token_type == TokenType.DOT and all(
            token.token_type == TokenType.IDENTIFIER or is_word(token, piece.script) for token in (one, other)
        ):
            yield plain(one, piece.script).lower(), plain(other, piece.script).lower()


def put(connection: duckdb.DuckDBPyConnection, rows: pl.DataFrame, *path: str) -> None:
    """Make rows the table of this name: the series and the release, or one name."""
    connection.register(_ARRIVING, rows)
    schema, name = path if len(path) > 1 else ("main", *path)
    try:
        connection.execute(f"create schema if not exists memory.{quoted(schema)}")
        connection.execute(f"create or replace table memory.{quoted(schema)}.{quoted(name)} as from {_ARRIVING}")
    finally:
        connection.unregister(_ARRIVING)


def remove(connection: duckdb.DuckDBPyConnection, series: str) -> None:
    """Remove the tables of a series that was dropped."""
    if series not in TAKEN_NAMES:
        connection.execute(f"drop schema if exists memory.{quoted(series)} cascade")


def has_table(connection: duckdb.DuckDBPyConnection, series: str, release: str) -> bool:
    """Return whether the session has a table or view of that name."""
    return bool(connection.execute(statement("session_has_table"), {"schema": series, "name": release}).fetchall())


def has_variables(connection: duckdb.DuckDBPyConnection) -> bool:
    """Return whether a variable is set, or it cannot be told."""
    try:
        return bool(connection.execute("select name from duckdb_variables()").fetchall())
    except duckdb.Error:
        return True


def is_aborted(connection: duckdb.DuckDBPyConnection) -> bool:
    """Return whether an error has ended the transaction, so that nothing can be done but to leave it."""
    try:
        connection.execute("select 1").fetchall()
    except duckdb.TransactionException:
        return True
    return False


def shown(store: Home, statement: Statement) -> pl.DataFrame:
    """What a SHOW statement shows; public parameters only."""
    asked = {"delta": DEFAULT_DELTA, **statement.asked}
    with store.hold() as state:
        if statement.kind == "show ledger":
            rows = ledger_rows(Ledger.of(state), asked.pop("delta"), **asked)
            return pl.DataFrame(rows, schema=SCHEMA)
        records = [store.find(state, asked["series"])] if "series" in asked else state.all_series()
        records.sort(key=lambda record: record.name)
        if statement.kind == "show series":
            return pl.DataFrame([_row(state, record) for record in records], schema=_SERIES)
        made = [{"series": record.name, **row} for record in records for row in rows_of_releases(state, record)]
    return pl.DataFrame(made, schema={"series": str, **RELEASES})


def _row(state: State, record: SeriesRecord) -> dict[str, Any]:
    declaration = declaration_of(record)
    stored = declaration.as_json()
    return {name: stored.get(name) for name in _SERIES} | {
        "steps": declaration.n_steps,
        "unit": declaration.unit_text,
        "source": declaration.source or None,
        "key": ", ".join(declaration.key),
        "domain": declaration.domain.describe(),
        "releases": len(rows_of_releases(state, record)),
    }
