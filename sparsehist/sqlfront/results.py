"""Outcomes of statements, and tables between DuckDB and Polars."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import duckdb
import polars as pl

from sparsehist.errors import SparsehistError
from sparsehist.guarantee.statement import quoted
from sparsehist.sqlfront.script import Piece, pointed

if TYPE_CHECKING:
    from sparsehist.release.releases import AnyRelease

_Result = TypeVar("_Result")
TAKEN_NAMES = frozenset({"main", "memory", "temp", "system", "information_schema", "pg_catalog"})
"""Names of DuckDB's own schemas and catalogues, which no series with releases in SQL may have."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of one statement."""

    number: int  # number of the statement in its script, from 1
    line: int  # line in which the statement begins
    kind: str  # "create series", "append to", "release", "plan", "show ledger", …, "duckdb", "failed" or "not run"
    frame: pl.DataFrame | None = field(default=None, repr=False)  # rows of the statement, if it has any
    more: bool = False  # whether there are more rows than in `frame`
    message: str = ""  # what happened, in words
    release: AnyRelease | None = None
    error: SparsehistError | None = None


def failed(piece: Piece, problem: SparsehistError, kind: str = "failed", message: str = "") -> Outcome:
    """Return the outcome of an invalid or failed statement; its error shows the position."""
    text = str(problem)
    if not (text.startswith("line ") and "\n" in text):
        problem.args = (pointed(text, piece.script, piece.span),)
    return Outcome(piece.number, piece.line, kind, message=message, error=problem)


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
