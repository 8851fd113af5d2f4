"""What DuckDB says about a statement, told without what it might quote of the data.

Errors of the parser, the binder and the catalog come from the words of the statement and are passed on, up to their
first line: the next ones may list columns, whose names a reader may have taken from the first row of a file. Of the
others only the kind is told.
"""

from __future__ import annotations

import json

import duckdb

_FROM_WORDS_ALONE = (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException, duckdb.SyntaxException)
_MISSING_FILE = "No files found that match the pattern"


def parser_failure(script: str, problem: duckdb.Error) -> tuple[str, int | None]:
    """Message and place of an error that DuckDB wrote as JSON; the place in characters of the script."""
    try:
        told = json.loads(str(problem).split(": ", 1)[1])
    except (ValueError, IndexError):
        return str(problem).split("\n")[0].partition("Error: ")[2], None
    message = str(told.get("exception_message", "")).split("\n")[0]
    at = told.get("position")
    return message, None if at is None else len(script.encode()[: int(at)].decode(errors="ignore"))


def told(text: str, problem: duckdb.Error) -> tuple[str, int | None]:
    """What of an engine's error may be shown, and its place in the statement.

    Args:
        text: The statement.
        problem: The error, written as JSON (`set errors_as_json = true`).

    Returns:
        The message, and the character of the statement it is about if DuckDB says which.
    """
    message, at = parser_failure(text, problem)
    if isinstance(problem, _FROM_WORDS_ALONE) or message.startswith(_MISSING_FILE):
        return message, at
    kind = type(problem).__name__.removesuffix("Exception")
    return f"DuckDB cannot run this ({kind}); what it says is withheld, because it may quote the log", at
