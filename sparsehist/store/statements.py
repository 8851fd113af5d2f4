"""The SQL statements that the package runs, by name; each file holds many.

A statement begins with a line `-- name: …`, followed by a comment with its parameters and rows, and ends where the
next one begins. Names are unique over all files. A file without such a line is one statement, named like the file.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

_NAME = "-- name: "


def statement(name: str) -> str:
    """Return the statement of this name."""
    return _statements()[name]


def named_statements(text: str) -> dict[str, str]:
    """Return the statements of a file by name; empty if it names none."""
    _, *parts = ("\n" + text).split("\n" + _NAME)
    named = (part.partition("\n") for part in parts)
    return {name.strip(): body.strip() for name, _, body in named}


def shipped(folder: str) -> Path:
    """Return the path of a folder of files that are not modules: "sql" or "data".

    An installed package contains these folders; in a checkout they are beside the package. They are not imported,
    because a module `sparsehist.sql` would replace the function `sparsehist.sql`.
    """
    package = Path(__file__).parents[1]
    inside = package / folder
    return inside if inside.is_dir() else package.parent / folder


@cache
def _statements() -> dict[str, str]:
    known: dict[str, str] = {}
    for file in sorted(shipped("sql").glob("*.sql")):
        text = file.read_text(encoding="utf-8")
        known |= named_statements(text) or {file.stem: text}
    return known
