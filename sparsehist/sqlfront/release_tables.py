"""Releases as tables of a session: `series.release`, copied in when a statement first names them.

Schemas are named by series. The identifiers are written by sqlglot; they match [a-z][a-z0-9_]* and are quoted, since
they may be keywords.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import duckdb
from sqlglot import Token, TokenType, exp, parse_one

from sparsehist.series.release import Release
from sparsehist.sqlfront.declaring import TAKEN_NAMES
from sparsehist.sqlfront.script import is_word, spelled
from sparsehist.store.statements import statement

_ARRIVING = "release_arriving"


def dotted_names(tokens: Iterable[Token], script: str) -> Iterator[tuple[str, str]]:
    """Each pair of names with a dot between them, in lower case: what may be a release."""
    words = list(tokens)
    for (one, dot), (_, other) in pairwise(pairwise(words)):
        if dot.token_type == TokenType.DOT and _is_name(one, script) and _is_name(other, script):
            yield _name(one, script), _name(other, script)


def put(connection: duckdb.DuckDBPyConnection, series: str, release: Release) -> bool:
    """Make a release the table `series.release`, in place of what has that name.

    Returns:
        Whether it was made: not where the name of the series is DuckDB's own.
    """
    if series in TAKEN_NAMES:
        return False
    connection.execute(_named("session_create_schema", series_name=series))
    connection.register(_ARRIVING, release.frame)
    try:
        connection.execute(_named("session_create_release", series_name=series, release_name=release.name))
    finally:
        connection.unregister(_ARRIVING)
    return True


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
        return bool(connection.execute(statement("guarantee_variables")).fetchall())
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
    """One of the package's statements with its identifiers, quoted."""

    def meant(node: exp.Expression) -> exp.Expression:
        found = identifiers.get(node.name) if isinstance(node, exp.Identifier) else None
        return node if found is None else exp.to_identifier(found, quoted=True)

    text: str = parse_one(statement(name), dialect="duckdb").transform(meant).sql("duckdb")
    return text


def _is_name(token: Token, script: str) -> bool:
    return token.token_type == TokenType.IDENTIFIER or is_word(token, script)


def _name(token: Token, script: str) -> str:
    return str(token.text if token.token_type == TokenType.IDENTIFIER else spelled(token, script)).lower()
