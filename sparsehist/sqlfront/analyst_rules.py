"""Which statements a reader of releases may run.

Only listed kinds of statements, tables and table functions are allowed, so what a later DuckDB adds is refused until
it was reviewed. In addition, the connection itself is locked: no files, network, extensions or settings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import duckdb

from sparsehist.errors import NotAllowedError, StatementError, raise_alone
from sparsehist.guarantee.statement import Node, nodes
from sparsehist.store.statements import statement

HasTable = Callable[[tuple[str, ...]], bool]
_TABLE_FUNCTIONS = frozenset(
    """
    range generate_series unnest repeat json_each json_tree histogram histogram_values
    duckdb_columns duckdb_functions duckdb_keywords duckdb_schemas duckdb_tables duckdb_types
    duckdb_views pragma_table_info pragma_version
    """.split()
)
_CATALOGUE = frozenset(
    """
    duckdb_columns duckdb_tables duckdb_views duckdb_types duckdb_functions sqlite_master
    information_schema.tables information_schema.columns information_schema.schemata
    """.split()
)
# These functions have effects, wait, plan other statements, or show data of the machine.
_FUNCTIONS = frozenset(
    """
    write_log sleep_ms nextval currval setval getenv current_setting current_query getvariable stats vector_type
    json_execute_serialized_sql json_serialize_plan index_key parse_duckdb_log_message pg_sleep
    """.split()
)
_SHOWN = ('"tables"', "__show_tables_expanded")
_QUERIES = frozenset(("SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"))
_EXPLAIN = re.compile(r"\s*explain\s+(analyze\s+)?", re.IGNORECASE)
_NAME = r'(?:[a-z_][a-z0-9_]*|"(?:[^"]|"")+")'
_OWN = re.compile(
    rf"\s*create\s+(?:or\s+replace\s+)?temp(?:orary)?\s+(?:table|view)\s+(?:if\s+not\s+exists\s+)?({_NAME})\s+as\b",
    re.IGNORECASE,
)
_MAY = "readers may run SELECT, DESCRIBE, SUMMARIZE, SHOW, EXPLAIN and CREATE TEMP TABLE or VIEW … AS SELECT"


def allowed(text: str, connection: duckdb.DuckDBPyConnection, has: HasTable) -> tuple[str, str | None]:
    """Check one statement; return its text, and the name of the temporary table or view that it makes, if any.

    Raises:
        NotAllowedError: If a reader may not run it.
        StatementError: If DuckDB cannot parse it.
    """
    found = _statements(text, connection)
    if len(found) != 1:
        raise NotAllowedError(f"one statement at a time; this has {len(found)}")
    (one,) = found
    try:
        kind = one.type.name
    except ValueError:  # DuckDB's Python enum does not have every kind
        raise_alone(NotAllowedError(f"this kind of statement is not allowed here; {_MAY}"))
    query, makes = one.query, None
    if kind == "EXPLAIN":
        head = _EXPLAIN.match(query)
        if head is None:
            raise NotAllowedError("EXPLAIN is for one query, as in EXPLAIN SELECT …, without options")
        query = query[head.end() :]
    elif kind == "CREATE":
        own = _OWN.match(query)
        if own is None:
            raise NotAllowedError(f"CREATE is allowed only as CREATE TEMP TABLE or VIEW name AS SELECT …; {_MAY}")
        makes = own[1].removeprefix('"').removesuffix('"').replace('""', '"').casefold()
        if makes == "ledger" and has((makes,)):
            raise NotAllowedError("ledger is the public ledger; take another name")
        query = query[own.end() :]
    elif kind != "SELECT":
        raise NotAllowedError(f"{kind.replace('_', ' ')} is not allowed here; {_MAY}")
    _check(query, connection, has)
    return one.query, makes


def _statements(text: str, connection: duckdb.DuckDBPyConnection) -> list[duckdb.Statement]:
    try:
        return connection.extract_statements(text)
    except duckdb.Error as problem:
        raise_alone(StatementError(f"this cannot be read: {first_line(problem)}; {_MAY}"))


def _check(query: str, connection: duckdb.DuckDBPyConnection, has: HasTable) -> None:
    """Check every node of the parse tree of a query."""
    ((found,),) = connection.execute(statement("guarantee_tree"), {"query": query}).fetchall()
    tree: Node = json.loads(found)
    if tree["error"] or len(tree["statements"]) != 1:
        said = tree.get("error_message", "this is not one")
        raise NotAllowedError(f"only a plain query can be checked: {said}; {_MAY}")
    parts = list(nodes(tree))
    ctes = {str(entry["key"]).casefold() for part in parts for entry in (part.get("cte_map") or {}).get("map", [])}
    for part in parts:
        _check_part(part, ctes, has)


def _check_part(part: Node, ctes: set[str], has: HasTable) -> None:
    for key in ("node", "query_node", "query"):
        inner = part.get(key)
        if isinstance(inner, dict) and inner.get("type") not in _QUERIES:
            raise NotAllowedError(f"{str(inner.get('type')).lower().replace('_', ' ')} is not allowed; {_MAY}")
    if part.get("type") == "TABLE_FUNCTION":
        name = str(part["function"]["function_name"]).casefold()
        if name not in _TABLE_FUNCTIONS:
            raise NotAllowedError(f"{name} is not open to readers: it could read files, run texts or change settings")
    elif part.get("class") in ("FUNCTION", "WINDOW"):
        name = str(part["function_name"]).casefold()
        if name in _FUNCTIONS:
            raise NotAllowedError(f"{name} is not open to readers: it acts, or tells of the machine")
    elif part.get("table_name") and not (part.get("type") == "SHOW_REF" and part["table_name"] in _SHOWN):
        path = part.get("qualified_name", {}).get("path") or [part["table_name"]]
        names = tuple(str(name).casefold() for name in path)
        if not (has(names) or ".".join(names) in _CATALOGUE or (len(names) == 1 and names[0] in ctes)):
            raise NotAllowedError(f"there is no table {'.'.join(path)} among the releases; SHOW TABLES lists them")


def first_line(problem: Exception) -> str:
    """Return the first line of an error of DuckDB."""
    return str(problem).split("\n", maxsplit=1)[0]
