"""DuckDB's messages about a statement, without quotations from the data.

Errors of parser, binder and catalog depend on the statement's text, so their first line is shown; further lines may
list columns, whose names may come from the first row of a file. Quoted parts are shown only if they are in the
statement, since types and names may also come from rows (an ENUM, a pivot). Of other errors only the kind is shown,
and of all errors if a variable is set, because the binder inserts its value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import duckdb

from sparsehist.guarantee.extensions import LACKING, lacks_extension

_FROM_WORDS_ALONE = (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException, duckdb.SyntaxException)
_EXPLAIN = "explain "
_MISSING_FILE = "No files found that match the pattern"
_NESTED = re.compile(r"\b(ENUM|STRUCT|UNION|MAP)\(")
_QUOTED = re.compile(r"\"(?:[^\"]|\"\")*\"|'(?:[^']|'')*'")
_TYPES = frozenset(
    """
    any array bigint bignum bit blob boolean date decimal double enum float geometry hugeint integer integer_literal
    interval json k list literal map null real smallint string_literal struct t time timestamp tinyint ubigint
    uhugeint uinteger union usmallint utinyint uuid v varchar variant with zone
    """.split()
)


def parser_failure(script: str, problem: duckdb.Error) -> tuple[str, int | None]:
    """Return the message of an error that DuckDB wrote as JSON, and its position in characters of the script."""
    raw = str(problem)
    try:
        told = json.loads(raw.split(": ", 1)[1])
    except (ValueError, IndexError):
        return raw.split("\n", maxsplit=1)[0].partition("Error: ")[2], None
    message = str(told.get("exception_message", "")).split("\n")[0]
    at = told.get("position")
    return message, None if at is None else len(script.encode()[: int(at)].decode(errors="ignore"))


def told(
    connection: duckdb.DuckDBPyConnection, text: str, parameters: Mapping[str, Any], problem: duckdb.Error
) -> tuple[str, int | None]:
    """Return the public part of an engine's error, written as JSON, and its position in the statement."""
    if lacks_extension(problem):
        return LACKING, None
    message, at = parser_failure(text, problem)
    if at is None:
        at = _place_by_plan(connection, text, parameters)
    from_words = isinstance(problem, _FROM_WORDS_ALONE) or message.startswith(_MISSING_FILE)
    if from_words and not _has_variables(connection):
        return _in_words_of(message, f"{text} {' '.join(map(str, parameters.values()))}"), at
    kind = type(problem).__name__.removesuffix("Exception")
    return f"DuckDB cannot run this ({kind}); what it says is withheld, because it may quote the log", at


def _has_variables(connection: duckdb.DuckDBPyConnection) -> bool:
    """Return whether a variable, which may hold a value of the log, is set, or whether this is unknown."""
    try:
        return bool(connection.execute("select name from duckdb_variables()").fetchall())
    except duckdb.Error:
        return True


def _in_words_of(message: str, text: str) -> str:
    """Return a message without values from the data.

    It ends at the first nested type. Quotations stay where the statement has their words, or they name a plain type.

    Example:
        >>> _in_words_of("no 'x', no 'a@b.org', no abs(ENUM('a@b.org', 'b'))", "select abs(x) from t")
        "no 'x', no …, no abs(ENUM(…)"
    """
    if nested := _NESTED.search(message):
        message = f"{message[: nested.end()]}…)"
    known = set(re.findall(r"\w+", text.lower())) | _TYPES
    return _QUOTED.sub(lambda found: found[0] if set(re.findall(r"\w+", found[0].lower())) <= known else "…", message)


def _place_by_plan(connection: duckdb.DuckDBPyConnection, text: str, parameters: Mapping[str, Any]) -> int | None:
    """Return the position of an error by planning the statement again: binding a relation records no positions."""
    try:
        connection.execute(_EXPLAIN + text, parameters or None)
    except duckdb.Error as problem:
        at = parser_failure(_EXPLAIN + text, problem)[1]
        return None if at is None or at < len(_EXPLAIN) else at - len(_EXPLAIN)
    return None
