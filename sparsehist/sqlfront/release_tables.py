"""Releases as tables of a session, copied in when a statement first names them; SHOW as tables.

A release is `series.release`: schemas are named by series.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import duckdb
import polars as pl
from sqlglot import Token, TokenType

from sparsehist.declaration import Declaration
from sparsehist.guarantee.statement import quoted
from sparsehist.ledger.ledger import Ledger
from sparsehist.ledger.table import DEFAULT_DELTA, SCHEMA, ledger_rows
from sparsehist.release import any_kind
from sparsehist.release.home import Home
from sparsehist.release.metadata import Request
from sparsehist.release.pipeline import RELEASES, rows_of_releases
from sparsehist.release.releases import Release, WorkloadRelease
from sparsehist.release.stored_declaration import declaration_of
from sparsehist.sqlfront.declaring import TAKEN_NAMES
from sparsehist.sqlfront.reading import Statement
from sparsehist.sqlfront.script import is_word, plain
from sparsehist.store.statements import statement

_SHOWN = {"series": str, **RELEASES}


def releases(store: Home, series: str) -> pl.DataFrame:
    """Each release of a series with its public parameters, in order; `workload` is null for one of cells."""
    with store.hold() as state:
        record = state.series(series)
        made = [] if record is None else rows_of_releases(state, record)
    return pl.DataFrame([{"series": series, **row} for row in made], schema=_SHOWN)


def made_before(store: Home, series: str, name: str) -> Release | WorkloadRelease | None:
    """A release that was made, of whichever kind; None if there is none of that name."""
    if releases(store, series).filter(name=name).is_empty():
        return None
    return any_kind.release(store, *declared(store, series), name)


def declared(store: Home, series: str) -> tuple[Declaration, str]:
    """The declaration of a series and its id."""
    with store.hold() as state:
        record = store.find(state, series)
    return declaration_of(record), record.series_id


_CLAUSES = ("threshold", "false_keys", "workload", "strategy", "step", "what", "measures")


def asked_of(statement: Statement) -> dict[str, Any]:
    """What RELEASE or PLAN asks, as `any_kind.release` takes it."""
    levels = {"level": statement.asked["levels"][0]} if "levels" in statement.asked else {}
    asked = {name: value for name, value in statement.asked.items() if name in _CLAUSES}
    share = {"open_delta": statement.asked["delta"]} if "delta" in statement.asked else {}
    return levels | asked | share


def request_of(declaration: Declaration, statement: Statement) -> Request:
    """What a statement asks of a series; refuses wrong parameters, and steps where the series has none."""
    return any_kind.request_of(declaration, statement.name, **asked_of(statement))[0]


ARRIVING = "release_arriving"
"""What the rows of a release are called while they are copied in."""


def dotted_names(tokens: Iterable[Token], script: str) -> Iterator[tuple[str, str]]:
    """Each pair of names with a dot between them, in lower case: what may be a release."""
    words = list(tokens)
    for (one, dot), (_, other) in pairwise(pairwise(words)):
        if dot.token_type == TokenType.DOT and _is_name(one, script) and _is_name(other, script):
            yield plain(one, script).lower(), plain(other, script).lower()


def put(connection: duckdb.DuckDBPyConnection, series: str, release: Release | WorkloadRelease) -> bool:
    """Make a release the table `series.release`, if that is no name of DuckDB's own."""
    if series in TAKEN_NAMES:
        return False
    connection.register(ARRIVING, release.frame)
    try:
        for text in filling(series, release.name):
            connection.execute(text)
    finally:
        connection.unregister(ARRIVING)
    return True


def filling(series: str, release: str) -> list[str]:
    """The statements that make the table of a release from the rows called `ARRIVING`."""
    named = {"series_name": series, "release_name": release}
    return [_named("session_create_schema", **named), _named("session_create_release", **named)]


def remove(connection: duckdb.DuckDBPyConnection, series: str) -> None:
    """Remove the tables of a series that was dropped."""
    if series not in TAKEN_NAMES:
        connection.execute(_named("session_drop_schema", series_name=series))


def has_table(connection: duckdb.DuckDBPyConnection, series: str, release: str) -> bool:
    """Whether the session has a table or view of that name."""
    found = connection.execute(statement("session_has_table"), {"schema": series, "name": release}).fetchall()
    return bool(found)


def has_variables(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether a variable is set, or it cannot be told."""
    try:
        return bool(connection.execute(statement("session_variables")).fetchall())
    except duckdb.Error:
        return True


def is_aborted(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether an error has ended the transaction, so that nothing can be done but to leave it."""
    try:
        has_table(connection, "", "")
    except duckdb.TransactionException:
        return True
    return False


def _named(name: str, **identifiers: str) -> str:
    """Return one of the package's statements with its identifiers put in, in quotes."""
    text = statement(name)
    for placeholder, identifier in identifiers.items():
        text = text.replace(placeholder, quoted(identifier))
    return text


def _is_name(token: Token, script: str) -> bool:
    return token.token_type == TokenType.IDENTIFIER or is_word(token, script)


def shown(store: Home, statement: Statement) -> pl.DataFrame:
    """What a SHOW statement shows; public parameters only."""
    asked = {"delta": DEFAULT_DELTA, **statement.asked}
    if statement.kind == "show ledger":
        with store.hold() as state:
            rows = ledger_rows(Ledger.of(state), asked.pop("delta"), **asked)
        return pl.DataFrame(rows, schema=SCHEMA)
    names = [asked["series"]] if "series" in asked else store.series_names()
    if statement.kind == "show series":
        return pl.DataFrame([_row(store, declared(store, name)[0]) for name in names], schema=_SERIES)
    return pl.concat([releases(store, ""), *(releases(store, name) for name in names)])


def explained(statement: Statement) -> str:
    """What cannot be told from the table."""
    delta = statement.asked.get("delta", DEFAULT_DELTA)
    said = f"epsilon holds at delta {delta:g}, whatever the noise, for what did happen"
    return said if statement.kind == "show ledger" else ""


_SERIES = {
    "name": pl.String,
    "unit": pl.String,
    "key": pl.String,
    "max_keys": pl.Int64,
    "domain": pl.String,
    "noise": pl.String,
    "cap": pl.String,
    "population": pl.String,
    "unverified": pl.Boolean,
    "source": pl.String,
    "steps": pl.Int64,
    "releases": pl.Int64,
}


def _row(store: Home, declaration: Declaration) -> dict[str, object]:
    declared = declaration.as_json()
    kept = {field: declared[field] for field in _SERIES if field in declared}
    return {
        "name": declaration.name,
        **kept,
        "steps": declaration.n_steps,
        "unit": declaration.unit_text,
        "source": declaration.source or None,
        "key": ", ".join(declaration.key),
        "domain": declaration.domain.describe(),
        "releases": releases(store, declaration.name).height,
    }
