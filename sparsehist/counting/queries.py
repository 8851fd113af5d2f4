"""Check queries of logs in a closed world."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparsehist.counting.contract import ClosedQuery, Query
from sparsehist.counting.sources import as_closed
from sparsehist.guarantee.statement import Lookup


def checked(
    query: Query, unit: str | Sequence[str], key: str | Sequence[str] = (), lookup: Lookup | None = None
) -> ClosedQuery:
    """Return a query as it is to be run; refuses one that does not keep units apart, unless it is unverified."""
    if isinstance(query, ClosedQuery):
        return query
    units, keys = ((names,) if isinstance(names, str) else tuple(names) for names in (unit, key))
    return as_closed(query, lookup, unit=units, key=keys)


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
