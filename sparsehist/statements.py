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

    Where Python runs in a checkout, the source shadows an installed package that has these folders in it; in the
    checkout they stand beside the source.
    """
    try:
        return files(f"sparsehist.{folder}")
    except ModuleNotFoundError:
        return Path(__file__).parents[1] / folder
