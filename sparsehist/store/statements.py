"""The SQL statements the package runs, by name: a handful of files, each with many of them.

In a file every statement begins with a line `-- name: …`, says below it what goes in and what rows come out, and
ends where the next one begins. A name stands for one statement, whatever file it is in. A file without such a line is
one statement, named like the file.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

_NAME = "-- name: "


def statement(name: str) -> str:
    """Return one statement."""
    return _statements()[name]


def named_statements(text: str) -> dict[str, str]:
    """Return the statements of one file by name; none if it names none."""
    _, *parts = ("\n" + text).split("\n" + _NAME)
    named = (part.partition("\n") for part in parts)
    return {name.strip(): body.strip() for name, _, body in named}


def shipped(folder: str) -> Path:
    """Return the folder of files that are no modules: "sql" or "data".

    An installed package has these folders in it; in a checkout they stand beside the source. They are not imported:
    that would put the folder in the place of the function `sparsehist.sql`.
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
