"""What DuckDB says about a statement, told without what it might quote of the data.

Errors of the parser, the binder and the catalog come from the words of the statement and are passed on, up to their
first line: the next ones may list columns, whose names a reader may have taken from the first row of a file. Of the
others only the kind is told.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import duckdb

_FROM_WORDS_ALONE = (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException, duckdb.SyntaxException)
_EXPLAIN = "explain "
_MISSING_FILE = "No files found that match the pattern"


def parser_failure(script: str, problem: duckdb.Error) -> tuple[str, int | None]:
    """Message and place of an error that DuckDB wrote as JSON; the place in characters of the script."""
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
    """What of an engine's error may be shown, and its place in the statement.

    Args:
        connection: Where it was run.
        text: The statement.
        parameters: What was bound.
        problem: The error, written as JSON (`set errors_as_json = true`).

    Returns:
        The message, and the character of the statement it is about if DuckDB says which.
    """
    message, at = parser_failure(text, problem)
    if at is None:
        at = _place_by_plan(connection, text, parameters)
    if isinstance(problem, _FROM_WORDS_ALONE) or message.startswith(_MISSING_FILE):
        return message, at
    kind = type(problem).__name__.removesuffix("Exception")
    return f"DuckDB cannot run this ({kind}); what it says is withheld, because it may quote the log", at


def _place_by_plan(connection: duckdb.DuckDBPyConnection, text: str, parameters: Mapping[str, Any]) -> int | None:
    """Where a statement is wrong, from planning it once more: relations are bound without noting places."""
    try:
        connection.execute(_EXPLAIN + text, parameters or None)
    except duckdb.Error as problem:
        at = parser_failure(_EXPLAIN + text, problem)[1]
        return None if at is None or at < len(_EXPLAIN) else at - len(_EXPLAIN)
    return None
