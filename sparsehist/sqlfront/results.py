"""Define the outcomes of statements. Copy rows into DuckDB, and run queries that Ctrl-C can stop."""

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
"""Names of DuckDB's own schemas and catalogues. A series that is used in SQL cannot have one of these names."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of one statement."""

    number: int  # number of the statement in its script, from 1
    line: int  # line in which the statement begins
    kind: str  # "create series", "append to", "release", "plan", "show ledger", …, "duckdb", "failed" or "not run"
    frame: pl.DataFrame | None = field(default=None, repr=False)  # rows of the result, if there is one
    more: bool = False  # whether the result has more rows than `frame` contains
    message: str = ""  # a sentence that says what happened
    release: AnyRelease | None = None
    error: SparsehistError | None = None


def failed(piece: Piece, problem: SparsehistError, kind: str = "failed", message: str = "") -> Outcome:
    """Return the outcome of a statement that is invalid or has failed. Its error shows the position in the script."""
    text = str(problem)
    if not (text.startswith("line ") and "\n" in text):
        problem.args = (pointed(text, piece.script, piece.span),)
    return Outcome(piece.number, piece.line, kind, message=message, error=problem)


@dataclass(frozen=True)
class SqlResult:
    """The outcomes of the statements of a script.

    Example:
        >>> SqlResult((Outcome(1, 1, "duckdb", pl.DataFrame({"n": [3]})),)).frame["n"].to_list()
        [3]
    """

    outcomes: tuple[Outcome, ...]

    @property
    def frame(self) -> pl.DataFrame:
        """The rows of the last statement, such as the published rows of a release; empty if there are none."""
        last = self.outcomes[-1].frame if self.outcomes else None
        return pl.DataFrame() if last is None else last

    @property
    def release(self) -> AnyRelease | None:
        """The release of the last statement, new or repeated; None if this statement was not a RELEASE."""
        return self.outcomes[-1].release if self.outcomes else None


def put(connection: duckdb.DuckDBPyConnection, rows: pl.DataFrame, schema: str, name: str) -> None:
    """Copy rows into the DuckDB table `schema.name`, and replace the table if it exists."""
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
        TimeoutError: If the query took longer than `seconds`.
    """
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run)
        try:
            return running.result(seconds)
        finally:
            while not running.done():
                connection.interrupt()
                wait([running], 0.1)
