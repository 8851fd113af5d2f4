"""The SQL statements the package runs, by name; each is one file with a header comment."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def statement(name: str) -> str:
    """Read one statement.

    Args:
        name: File name without its ending, such as "count_keys".

    Returns:
        The text of the file, header comment and all.

    Example:
        >>> "group by key" in statement("count_keys")
        True
    """
    return (files("sparsehist.sql") / f"{name}.sql").read_text(encoding="utf-8")
