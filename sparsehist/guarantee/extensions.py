"""Switch off automatic features of DuckDB: fetching extensions, progress bars, reading Python variables."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb


INSTALL_NOTHING: dict[str, str | bool | int | float | list[str]] = {"autoinstall_known_extensions": False}
"""Settings of every connection that runs a user's SQL."""
_LACKING = re.compile(r"required extension|Extension \"[^\n]*\" not found|exists in the \w+ extension")
LACKING = (
    "DuckDB has no extension for this source, and fetches none by itself: read URLs as tables={'log': "
    "sh.Files('s3://…')}, in a shell --table log=s3://…; Delta and Iceberg as tables={'log': pl.scan_delta(…)}"
)


def draw_no_progress(connection: duckdb.DuckDBPyConnection) -> None:
    """Switch off DuckDB's progress bar if it is on; in a notebook without ipywidgets it cannot be set."""
    ((drawn,),) = connection.execute("select current_setting('enable_progress_bar')").fetchall()
    if drawn:
        connection.execute("set enable_progress_bar = false")


def lacks_extension(problem: BaseException) -> bool:
    """Return whether DuckDB failed because an extension is missing."""
    import duckdb

    return isinstance(problem, duckdb.Error) and _LACKING.search(str(problem)) is not None


def unseen(problem: BaseException) -> str:
    """Return a hint for errors about tables that DuckDB does not find."""
    if type(problem).__name__ != "CatalogException":
        return ""
    return "; tables and variables of your program are not seen: give the tables in tables="
