"""The SQL statements the package runs, by name; each is one file with a header comment."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path


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
    return (shipped("sql") / f"{name}.sql").read_text(encoding="utf-8")


def shipped(folder: str) -> Traversable:
    """The folder of files that are no modules: "sql" or "data".

    An installed package has these folders in it; in a checkout they stand beside the source. They are not imported:
    that would put the folder in the place of the function `sparsehist.sql`.
    """
    inside = files("sparsehist") / folder
    return inside if inside.is_dir() else Path(__file__).parents[2] / folder
