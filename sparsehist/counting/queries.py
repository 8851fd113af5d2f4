"""Queries of logs in a closed world: rewritten over named sources, checked, and run on a fresh DuckDB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from sparsehist.counting.contract import ClosedQuery, Query
from sparsehist.counting.files import open_files
from sparsehist.counting.log import engine_errors
from sparsehist.errors import InputError, SparsehistError, raise_alone

if TYPE_CHECKING:
    from sparsehist.guarantee.statement import Lookup


def checked(
    query: Query, unit: str | Sequence[str], key: str | Sequence[str] = (), lookup: Lookup | None = None
) -> ClosedQuery:
    """Return a query with its sources, files and types as they are now. Nothing of it is run.

    Args:
        query: Refused if it does not keep units apart, unless it is unverified or `unit` is empty.
        unit: Columns of the result that name the unit.
        key: Columns that the result must have.
        lookup: What further names in FROM stand for.
    """
    if isinstance(query, ClosedQuery):
        return query
    from sparsehist.guarantee.closed import close  # and with it DuckDB, which a file does not need
    from sparsehist.guarantee.statement import Source, folded

    units, keys = ((names,) if isinstance(names, str) else tuple(names) for names in (unit, key))
    given = {
        folded(name): Source(name, public=public, opens=partial(_opened, name, table), origin=table)
        for public, tables in ((False, query.tables), (True, query.public))
        for name, table in tables.items()
    }

    def source_of(path: tuple[str, ...]) -> Source | None:
        found = lookup(path) if lookup is not None else None
        return given.get(".".join(path)) if found is None else found

    world = close(
        query.sql, source_of, query.parameters or {}, public_files=query.public, unit=units, key=keys,
        restricted=not query.unverified,
    )  # fmt: skip
    return ClosedQuery(query.sql, query.tables, query.public, query.parameters, query.unverified, world)


def as_table(source: object) -> object:
    """Read what Polars reads, for DuckDB; leave anything else to DuckDB."""
    log = None if isinstance(source, (pl.DataFrame, pl.LazyFrame)) else open_files(source)
    if log is not None:
        with engine_errors(log.label, log):
            return log.rows.collect(engine="streaming")
    return source.collect() if isinstance(source, pl.LazyFrame) else source


def _opened(name: str, table: object) -> object:
    """Return a source as DuckDB takes it; its error names it."""
    try:
        return as_table(table)
    except SparsehistError as problem:
        raise_alone(type(problem)(f"tables={{{name!r}: …}}: {problem}"))
    except Exception:  # noqa: BLE001  whatever an engine says may quote the data
        raise_alone(InputError(f"tables={{{name!r}: …}} cannot be read"))


def check_query(
    query: str,
    *,
    unit: str | Sequence[str],
    key: str | Sequence[str] = (),
    tables: Mapping[str, object] | None = None,
    public: Mapping[str, object] | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> None:
    """Refuse a query unless each unit's rows depend on that unit's own rows and on public tables alone.

    Nothing of the query is run: DuckDB plans it over empty tables. docs/sql.md says what a query may do.

    Args:
        query: One SELECT.
        unit: Column of the result that names the unit, or several that do together.
        key: Key columns of the result; checked to be there if given.
        tables: What the query reads, by name: frames, Arrow tables, relations, paths, `Files`.
        public: The same for what holds nothing of any unit; a file that the query names is public by its path here.
        parameters: Values for $name.

    Raises:
        GuaranteeError: If it may depend on other rows; the message says where, why and what would be right.
        StatementError: If DuckDB cannot plan it.

    Example:
        >>> import polars as pl
        >>> log = pl.DataFrame({"user_id": [1, 2], "query": ["a", "b"]})
        >>> check_query("select user_id, query from log where query <> ''", unit="user_id", tables={"log": log})
        >>> check_query("select user_id, query from log limit 10", unit="user_id", tables={"log": log})
        Traceback (most recent call last):
        ...
        sparsehist.errors.GuaranteeError: line 1, column 38: LIMIT and OFFSET count the rows of all units; ...
    """
    checked(Query(query, tables or {}, public or {}, parameters), unit, key)
