"""Outcomes of statements, and tables between DuckDB and Polars."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import duckdb
import polars as pl

from sparsehist.errors import SparsehistError
from sparsehist.guarantee.statement import quoted

if TYPE_CHECKING:
    from sparsehist.release.releases import AnyRelease

_Result = TypeVar("_Result")
TAKEN_NAMES = frozenset({"main", "memory", "temp", "system", "information_schema", "pg_catalog"})
"""DuckDB's own schemas and catalogues: no series with releases in SQL has such a name."""
# Polars has no such types; they are returned as DuckDB's text.
_AS_TEXT = re.compile("INTERVAL|TIME WITH TIME ZONE|BIT|UNION|VARINT|BIGNUM|GEOMETRY|VARIANT")


@dataclass(frozen=True)
class Outcome:
    """The outcome of one statement.

    Attributes:
        number: Number of the statement in its script, from 1.
        line: Line in which it begins.
        kind: "create series", "append", "release", "plan", "show", "drop series", …, "duckdb", "failed" or "not run".
        frame: Its rows; None if it has none.
        more: Whether there are more rows than in `frame`.
        said: What happened, in words.
        release: The release that it made or returned.
        error: The error, if it failed.
    """

    number: int
    line: int
    kind: str
    frame: pl.DataFrame | None = field(default=None, repr=False)
    more: bool = False
    said: str = ""
    release: AnyRelease | None = None
    error: SparsehistError | None = None


@dataclass(frozen=True)
class SqlResult:
    """The outcomes of a script; `frame` and `release` are those of the last statement.

    Example:
        >>> SqlResult((Outcome(1, 1, "duckdb", pl.DataFrame({"n": [3]})),)).frame["n"].to_list()
        [3]
    """

    outcomes: tuple[Outcome, ...]

    @property
    def frame(self) -> pl.DataFrame:
        """Rows of the last statement; for a release, the published rows. Empty if there are none."""
        last = self.outcomes[-1].frame if self.outcomes else None
        return pl.DataFrame() if last is None else last

    @property
    def release(self) -> AnyRelease | None:
        """The release that the last statement made or returned."""
        return self.outcomes[-1].release if self.outcomes else None


def rows_of(relation: duckdb.DuckDBPyRelation | None, limit: int | None) -> tuple[pl.DataFrame | None, bool]:
    """Return at most `limit` rows, and whether there are more; None for a statement without rows."""
    if relation is None:
        return None, False
    if relation.type == "MATERIALIZED_RELATION" and relation.columns in (["Success"], ["Count"]):
        relation.fetchall()
        return None, False
    columns = []
    for name, kind in zip(relation.columns, relation.types, strict=True):
        column = duckdb.ColumnExpression(name)
        columns.append(column.cast("varchar").alias(name) if _AS_TEXT.search(str(kind)) else column)
    relation = relation.select(*columns)
    frame: pl.DataFrame = (relation if limit is None else relation.limit(limit + 1)).pl()
    return frame if limit is None else frame.head(limit), limit is not None and frame.height > limit


def put(connection: duckdb.DuckDBPyConnection, rows: pl.DataFrame, schema: str, name: str) -> None:
    """Make a table of rows: `series.release`, or a name in "main"."""
    connection.register("release_arriving", rows)
    try:
        connection.execute(f"create schema if not exists memory.{quoted(schema)}")
        connection.execute(f"create or replace table memory.{quoted(schema)}.{quoted(name)} as from release_arriving")
    finally:
        connection.unregister("release_arriving")


def stoppable(
    connection: duckdb.DuckDBPyConnection, run: Callable[[], _Result], seconds: float | None = None
) -> _Result:
    """Run a query in a separate thread, because DuckDB does not always notice Ctrl-C.

    Raises:
        TimeoutError: If it took longer than `seconds`.
    """
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run)
        try:
            return running.result(seconds)
        finally:
            while not running.done():
                connection.interrupt()
                wait([running], 0.1)
