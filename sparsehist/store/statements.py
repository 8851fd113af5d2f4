"""Look up the package's SQL statements by name. Each file in the folder `sql` contains several statements.

A statement begins with a line `-- name: …`, followed by a comment with its parameters and rows, and ends where the
next statement begins. No two statements have the same name.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path


def statement(name: str) -> str:
    return _statements()[name]


def shipped(folder: str) -> Path:
    """Return the path of a resource folder: "sql" or "data".

    An installed package contains these folders; in a checkout they are beside the package. They cannot be
    Python packages, because a package `sparsehist.sql` would replace the function `sparsehist.sql`.
    """
    package = Path(__file__).parents[1]
    inside = package / folder
    return inside if inside.is_dir() else package.parent / folder


@cache
def _statements() -> dict[str, str]:
    texts = [file.read_text(encoding="utf-8") for file in shipped("sql").glob("*.sql")]
    named = [part.partition("\n") for text in texts for part in text.split("\n-- name: ")[1:]]
    return {name: body for name, _, body in named}
