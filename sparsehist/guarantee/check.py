"""A query may not break the guarantee.

A series protects units: taking all rows of one unit away changes what that unit contributes, and nothing else. So in
the log a query makes, **the rows of each unit must be a function of that unit's own input rows and of public tables,
and a unit without input rows must have none**. `check_planned` lets through only what it can show to be so.

It follows the plan DuckDB's binder makes (`plan`), operator by operator (`operators`). Every private table has a unit
in each of its rows; a join makes the units of two tables one only where the plan compares the columns that name them,
and groups, windows, DISTINCT, EXCEPT and the like have to keep those columns. The unit has to come through unchanged,
or by a cast that keeps all values apart: any other function of it may merge two units, or split one in two.

What is taken on trust: that the tables not declared public hold their unit in the column of that name; that ties in a
public table, where they decide, are decided alike; that files of rows are well formed. An engine's error (a failed
cast, a sum that overflows) tells that some row caused it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import duckdb

from sparsehist.errors import GuaranteeError, InputError, StatementError, raise_alone
from sparsehist.guarantee.extensions import INSTALL_NOTHING, LACKING, installing_nothing, lacks_extension, unseen
from sparsehist.guarantee.operators import NO_UNIT, UNITS_MEET, OfOnePlan, Protected
from sparsehist.guarantee.plan import Origins, Planned, Source, plan


def check_query(
    query: str,
    *,
    unit: str | Sequence[str],
    key: str | Sequence[str] = (),
    connection: duckdb.DuckDBPyConnection | None = None,
    tables: Mapping[str, object] | None = None,
    parameters: Mapping[str, Any] | None = None,
    public_tables: Collection[str] = (),
) -> None:
    """Refuse a query unless each unit's rows depend on that unit's own rows and on public tables alone.

    Nothing of the query is run: DuckDB only plans it, with the views, macros and types the connection has.

    Args:
        query: One SELECT.
        unit: Column of the result that names the unit, or several that do together.
        key: Key columns of the result; checked to be there if given.
        connection: Where it is to run; a new one if None.
        tables: Frames and Arrow tables it sees, by name, if no connection is given.
        parameters: Values for $name.
        public_tables: Names of tables, as the query may write them, and of files that hold nothing of any unit.

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
    with ExitStack() as stack:
        if connection is None:
            connection = stack.enter_context(duckdb.connect(":memory:", config={"threads": 1, **INSTALL_NOTHING}))
            connection.execute("set python_enable_replacements = false")
            for name, table in (tables or {}).items():
                try:
                    connection.register(name, table)
                except duckdb.Error:
                    said = f"tables={{{name!r}: …}} takes frames and Arrow tables, got {type(table)}"
                    raise_alone(InputError(said))
        try:
            with installing_nothing(connection):
                planned = plan(query, connection, parameters=parameters)
                public = PublicSources(public_tables, connection)
        except duckdb.Error as problem:
            if lacks_extension(problem):
                raise_alone(StatementError(LACKING))
            kind = type(problem).__name__.removesuffix("Exception")
            why = f"try it in DuckDB on its own{unseen(problem)}"
            raise_alone(StatementError(f"DuckDB cannot plan the query ({kind}): {why}"))
        check_planned(planned, unit=unit, key=key, public=public)


class PublicSources:
    """Which tables and files were declared public; a name is looked up as a query on the connection would."""

    def __init__(
        self, names: Collection[str], connection: duckdb.DuckDBPyConnection, origins: Origins | None = None
    ) -> None:
        self._names = frozenset(names)
        self._folded = frozenset(name.lower() for name in names)
        self.views = {name: made for name in names if (made := _view(name, connection, origins)) is not None}
        self._paths = {path for made in self.views.values() for path in _paths(made)}

    def __call__(self, source: Source) -> bool:
        """Whether this one was."""
        if source.kind == "files":
            return bool(source.path) and set(source.path) <= self._names
        if source.kind == "frame":
            return source.name.lower() in self._folded
        return source.public or source.path in self._paths


def _quoted(name: str) -> str:
    return ".".join('"' + part.strip('"').replace('"', '""') + '"' for part in name.split("."))


def _view(name: str, connection: duckdb.DuckDBPyConnection, origins: Origins | None) -> Planned | None:
    """The query behind a name, if there is a table or view of it."""
    try:
        return plan(f"select * from {_quoted(name)}", connection, origins=origins)  # noqa: S608  names are quoted
    except (duckdb.Error, GuaranteeError):
        return None


def _paths(planned: Planned) -> tuple[tuple[str, ...], ...]:
    """The table a name means; none for a view, which is followed."""
    return tuple(planned.tables) if planned.root["children"][0]["type"] == "LOGICAL_GET" else ()


def check_planned(
    planned: Planned, *, unit: str | Sequence[str], key: str | Sequence[str] = (), public: PublicSources
) -> None:
    """Refuse a planned query unless each unit's rows depend on that unit's own rows and on public tables alone."""
    units = (unit,) if isinstance(unit, str) else tuple(unit)
    keys = (key,) if isinstance(key, str) else tuple(key)
    _check_columns(planned, (*units, *keys))
    places = [planned.columns.index(name) for name in units]
    plain = OfOnePlan(planned, Protected(tuple((name,) for name in units), public))
    named = [(name, *plain.names_at_source(at)) for name, at in zip(units, places, strict=True)]
    asked = Protected(tuple(named), public)
    for name, made in public.views.items():
        if not OfOnePlan(made, asked).result().public:
            planned.refuse(None, f"{name} was declared public, but it is made from private tables")
    result = OfOnePlan(planned, asked).result()
    if result.public:
        planned.refuse(
            None, f"no private table is read: name one that holds {', '.join(units)}, or do not declare it public"
        )
    if len(result.slots) > 1:
        planned.refuse(None, UNITS_MEET.format(units[0]))
    if result.slot.values:
        planned.refuse(None, NO_UNIT)
    for part, (name, at) in enumerate(zip(units, places, strict=True)):
        named_by = result.columns[at].name
        if named_by is None or named_by.part != part or named_by.slot is not result.slot:
            planned.refuse(
                None,
                f"{name} must be the column {name} of a private table, unchanged or cast so that all values stay "
                "apart: another function of it may merge or split units",
            )
    if any(column.number is not None or column.if_true for column in result.columns):
        planned.refuse(None, "a column of the result depends on the rows of all units")


def _check_columns(planned: Planned, names: Sequence[str]) -> None:
    """Refuse a result that lacks a column, or has two of a name."""
    for name in names:
        if sum(column.lower() == name.lower() for column in planned.columns) != 1 or name not in planned.columns:
            planned.refuse(
                None, f"the result must have one column {name}; its columns are {', '.join(planned.columns)}"
            )
