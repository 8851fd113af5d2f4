"""What a statement did, and results of DuckDB as Polars frames."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import duckdb
import polars as pl

from sparsehist.errors import SparsehistError

if TYPE_CHECKING:
    from sparsehist.release.releases import Release, WorkloadRelease

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Outcome:
    """What one statement did.

    Attributes:
        number: Of the statement in its script, from 1.
        line: Where it begins.
        kind: "create series", "append", "release", "plan", "show", "drop series", or "duckdb".
        frame: Rows that came out; None where none do.
        more: Whether there were more rows than are in `frame`.
        said: What happened, in words.
    """

    number: int
    line: int
    kind: str
    frame: pl.DataFrame | None = field(default=None, repr=False)
    more: bool = False
    said: str = ""
    release: Release | WorkloadRelease | None = None
    error: SparsehistError | None = None


@dataclass(frozen=True)
class SqlResult:
    """What the statements of a script did; `frame` and `release` are those of the last one.

    Example:
        >>> SqlResult((Outcome(1, 1, "duckdb", pl.DataFrame({"n": [3]})),)).frame["n"].to_list()
        [3]
    """

    outcomes: tuple[Outcome, ...]

    @property
    def frame(self) -> pl.DataFrame:
        """Rows of the last statement; of a release, the published ones. Empty where it has none."""
        last = self.outcomes[-1].frame if self.outcomes else None
        return pl.DataFrame() if last is None else last

    @property
    def release(self) -> Release | WorkloadRelease | None:
        """The release the last statement made or gave back."""
        return self.outcomes[-1].release if self.outcomes else None


# Polars has no such types; they come as the text that DuckDB writes.
_AS_TEXT = frozenset({"interval", "time with time zone", "bit", "union", "varint", "bignum", "geometry", "variant"})


def rows_of(relation: duckdb.DuckDBPyRelation | None, limit: int | None) -> tuple[pl.DataFrame | None, bool]:
    """Read at most `limit` rows, and say whether there were more; None where a statement only says "Success"."""
    if relation is None:
        return None, False
    if relation.type == "MATERIALIZED_RELATION" and relation.columns in (["Success"], ["Count"]):
        relation.fetchall()
        return None, False
    columns = map(duckdb.ColumnExpression, relation.columns)
    typed = zip(relation.columns, columns, relation.types, strict=True)
    relation = relation.select(
        *(one.cast("varchar").alias(name) if kind.id in _AS_TEXT else one for name, one, kind in typed)
    )
    cut = relation if limit is None else relation.limit(limit + 1)
    try:
        frame: pl.DataFrame = cut.pl()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        frame = cut.select(duckdb.StarExpression().cast("varchar")).pl()
    if limit is not None and frame.height > limit:
        return frame.head(limit), True
    return frame, False


def stoppable(
    connection: duckdb.DuckDBPyConnection, run: Callable[[], _Result], seconds: float | None = None
) -> _Result:
    """Run a query in a thread of its own: DuckDB itself does not always notice Ctrl-C.

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
