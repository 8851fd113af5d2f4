"""Show DuckDB's messages about a statement without quotations from the data.

Errors of the parser, binder and catalog are about the words of the statement, so their first line is shown. Further
lines may list columns of a file. Even the first line may contain data: an ENUM type lists its values, and a pivot
turns values into column names. Therefore ENUM types, and types that may contain one, are shown without their details,
and a quotation is shown only if all its words occur in the statement.
For other errors, only the kind of the error is shown. While a DuckDB variable is set, this applies to every error,
because a message may contain the value of the variable.
"""

from __future__ import annotations

import re

import duckdb

from sparsehist.guarantee.language import LACKING, lacks_extension

_FROM_WORDS_ALONE = (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException, duckdb.SyntaxException)
_NESTED = re.compile(r"\b(ENUM|STRUCT|UNION|MAP)\(.*")
_QUOTED = re.compile(r"\"(?:[^\"]|\"\")*\"|'(?:[^']|'')*'")


def first_line(problem: Exception) -> str:
    """Return the first line of a DuckDB error message, without the error type."""
    return re.sub(r"^[\w -]*Error: ", "", str(problem).split("\n", maxsplit=1)[0])


def public_message(connection: duckdb.DuckDBPyConnection, text: str, problem: duckdb.Error) -> str:
    """Return DuckDB's message about a statement, without parts that may show data."""
    message, words = first_line(problem), set(re.findall(r"\w+", text.lower()))
    if lacks_extension(problem) or message.startswith("Current transaction is aborted"):
        return LACKING if lacks_extension(problem) else message
    from_words = isinstance(problem, _FROM_WORDS_ALONE) or message.startswith("No files found that match")
    if not from_words or _has_variables(connection):
        kind = type(problem).__name__.removesuffix("Exception")
        return f"DuckDB cannot run this ({kind}); its message is withheld, because it may quote the log"
    message = _NESTED.sub(r"\1(…)", message)
    return _QUOTED.sub(
        lambda quoted: quoted[0] if set(re.findall(r"\w+", quoted[0].lower())) <= words else "…", message
    )


def _has_variables(connection: duckdb.DuckDBPyConnection) -> bool:
    """Return whether a variable is set in DuckDB, as its value could come from the log. If in doubt, return True."""
    try:
        return bool(connection.execute("select name from duckdb_variables()").fetchall())
    except duckdb.Error:
        return True
