"""Queries of logs: rewrite them over named sources, check them, and run them on a new, closed DuckDB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from sparsehist.counting.contract import ClosedQuery, Query
from sparsehist.counting.files import open_files
from sparsehist.counting.log import Log, engine_errors
from sparsehist.errors import SparsehistError, raise_alone

if TYPE_CHECKING:
    from sparsehist.guarantee.statement import Lookup


def checked(
    query: Query, unit: str | Sequence[str], key: str | Sequence[str] = (), lookup: Lookup | None = None
) -> ClosedQuery:
    """Return a query with its current sources, files and types fixed. The query is not run.

    Args:
        query: Refused if it may mix units, unless it is unverified or `unit` is empty.
        unit: Columns of the result that name the unit.
        key: Columns that the result must have.
        lookup: Function that returns the meaning of further names in FROM.
    """
    if isinstance(query, ClosedQuery):
        return query
    from sparsehist.guarantee.closed import close  # imports DuckDB, which files do not need
    from sparsehist.guarantee.statement import Source, folded

    units, keys = ((names,) if isinstance(names, str) else tuple(names) for names in (unit, key))
    known = {
        folded(name): Source(name, public=public, opens=partial(_named_table, name, table), origin=table)
        for public, tables in ((False, query.tables), (True, query.public))
        for name, table in tables.items()
    }

    def source_of(path: tuple[str, ...]) -> Source | None:
        source = lookup(path) if lookup is not None else None
        return known.get(".".join(path)) if source is None else source

    world = close(
        query.sql, source_of, query.parameters or {}, public_files=query.public, unit=units, key=keys,
        restricted=not query.unverified,
    )  # fmt: skip
    return ClosedQuery(query.sql, query.tables, query.public, query.parameters, query.unverified, world)


def as_table(source: object) -> object:
    """Read files and lazy frames with Polars; leave other sources to DuckDB."""
    log = Log(source, {}, "the lazy frame") if isinstance(source, pl.LazyFrame) else open_files(source)
    if log is None:
        return source
    with engine_errors(log.label, log):
        return log.rows.collect(engine="streaming")


def _named_table(name: str, table: object) -> object:
    try:
        return as_table(table)
    except SparsehistError as problem:
        raise_alone(type(problem)(f"tables={{{name!r}: …}}: {problem}"))


def check_query(
    query: str,
    *,
    unit: str | Sequence[str],
    key: str | Sequence[str] = (),
    tables: Mapping[str, object] | None = None,
    public: Mapping[str, object] | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> None:
    """Refuse a query unless each unit's rows depend only on that unit's own rows and on public tables.

    The query is not run: DuckDB plans it over empty tables. docs/sql.md describes allowed queries.

    Args:
        query: One SELECT.
        unit: Column of the result that names the unit, or several that name it together.
        key: Key columns that the result must have.
        tables: What the query reads, by name: frames, Arrow tables, relations, paths, `Files`.
        public: Tables without data of any unit; a file that the query names is public if its path is given here.
        parameters: Values for $name.

    Raises:
        GuaranteeError: If rows may depend on other units; the message says why and what to change.
        StatementError: If DuckDB cannot plan it.

    Example:
        >>> import polars as pl
        >>> log = pl.DataFrame({"user_id": [1, 2], "query": ["a", "b"]})
        >>> check_query("select user_id, query from log where query <> ''", unit="user_id", tables={"log": log})
        >>> check_query("select user_id, query from log limit 10", unit="user_id", tables={"log": log})
        Traceback (most recent call last):
        ...
        sparsehist.errors.GuaranteeError: LIMIT and OFFSET count the rows of all units; ...
    """
    checked(Query(query, tables or {}, public or {}, parameters), unit, key)
