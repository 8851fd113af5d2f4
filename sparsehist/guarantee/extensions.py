"""DuckDB without extensions that it would fetch by itself: what it reads may not hang on a network."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import duckdb

INSTALL_NOTHING: dict[str, str | bool | int | float | list[str]] = {"autoinstall_known_extensions": False}
"""Settings of every connection of our own that runs somebody's SQL."""
_LACKING = re.compile(r"required extension|Extension \"[^\n]*\" not found|exists in the \w+ extension")
LACKING = (
    "DuckDB has no extension for what is read here, and fetches none by itself: s3, gs, az and https, Delta and "
    "Iceberg are read as tables={'log': sh.Files('s3://…')}, 'delta:path' or 'iceberg:path', in a shell --table "
    "log=s3://…"
)


@contextmanager
def installing_nothing(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Keep somebody's connection from fetching extensions meanwhile."""
    ((before,),) = connection.execute("select current_setting('autoinstall_known_extensions')").fetchall()
    connection.execute("set autoinstall_known_extensions = false")
    try:
        yield
    finally:
        with suppress(duckdb.Error):  # an error may have ended a transaction of theirs
            connection.execute(f"set autoinstall_known_extensions = {before}")


def lacks_extension(problem: BaseException) -> bool:
    """Whether DuckDB failed because it has no extension for something."""
    return isinstance(problem, duckdb.Error) and _LACKING.search(str(problem)) is not None
