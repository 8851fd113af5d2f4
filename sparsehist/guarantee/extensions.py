"""Switch off automatic features of DuckDB (installing extensions, progress bars), and explain its errors."""

from __future__ import annotations

import re
from typing import Any

INSTALL_NOTHING: dict[str, str | bool | int | float | list[str]] = {"autoinstall_known_extensions": False}
"""Settings of every connection that runs a user's SQL."""
_LACKING = r"required extension|Extension \"[^\n]*\" not found|exists in the \w+ extension"
LACKING = (
    "DuckDB lacks the extension for this source, and sparsehist does not let it install one: read URLs as "
    "tables={'log': sh.Files('s3://…')}, in a shell --table log=s3://…; Delta and Iceberg as tables={'log': "
    "pl.scan_delta(…)}"
)


def draw_no_progress(connection: Any) -> None:
    """Switch off DuckDB's progress bar if it is on: a notebook without ipywidgets cannot change the setting."""
    ((drawn,),) = connection.execute("select current_setting('enable_progress_bar')").fetchall()
    if drawn:
        connection.execute("set enable_progress_bar = false")


def lacks_extension(problem: BaseException) -> bool:
    """Return whether DuckDB failed because an extension is missing."""
    return type(problem).__module__ in ("duckdb", "_duckdb") and bool(re.search(_LACKING, str(problem)))


def unseen(problem: BaseException) -> str:
    """Return a hint if DuckDB did not find a table, or an empty text for other errors."""
    if type(problem).__name__ != "CatalogException":
        return ""
    return "; a query does not see tables and variables of your program: pass the tables in tables="
