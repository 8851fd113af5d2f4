"""What a reader of releases may run: queries over the tables that are there, and nothing that acts.

Everything is on a list: kinds of statements, tables, table functions. So what a later DuckDB adds is refused until
somebody has looked at it. The session is shut in besides, by settings that cannot be changed back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import duckdb

from sparsehist.errors import NotAllowedError, StatementError, raise_alone
from sparsehist.store.statements import statement

Node = dict[str, Any]

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
# They act, wait, or tell of the machine rather than of the releases.
_FUNCTIONS = frozenset(
    """
    write_log sleep_ms nextval currval setval getenv current_setting current_query getvariable stats vector_type
    json_execute_serialized_sql index_key parse_duckdb_log_message pg_sleep
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


@dataclass(frozen=True)
class Allowed:
    """A statement that may be run; `makes` is the table or view of the reader's own that it makes."""

    text: str
    makes: str | None = None


def allow(text: str, tables: Callable[[tuple[str, ...]], bool], connection: duckdb.DuckDBPyConnection) -> Allowed:
    """Check one statement.

    Args:
        text: What a reader wrote.
        tables: Tells whether a name, in parts and in lower case, is one of the session's tables.
        connection: Reads statements; runs none here.

    Raises:
        NotAllowedError: If it is none that a reader may run.
        StatementError: If it cannot be read.
    """
    one = _single(text, connection)
    kind = one.type.name
    if kind == "EXPLAIN":
        head = _EXPLAIN.match(one.query)
        if head is None:
            raise NotAllowedError("EXPLAIN is for one query, as in EXPLAIN SELECT …, without options")
        _check(one.query[head.end() :], tables, connection)
        return Allowed(one.query)
    if kind == "CREATE":
        own = _OWN.match(one.query)
        if own is None:
            raise NotAllowedError(f"CREATE is not allowed but for CREATE TEMP TABLE or VIEW name AS SELECT …; {_MAY}")
        name = own[1].removeprefix('"').removesuffix('"').replace('""', '"').casefold()
        if tables((name,)) and name == "ledger":
            raise NotAllowedError("ledger is the public ledger; take another name")
        _check(one.query[own.end() :], tables, connection)
        return Allowed(one.query, name)
    if kind != "SELECT":
        raise NotAllowedError(f"{kind.replace('_', ' ')} is not allowed here; {_MAY}")
    _check(one.query, tables, connection)
    return Allowed(one.query)


def _single(text: str, connection: duckdb.DuckDBPyConnection) -> duckdb.Statement:
    try:
        found = connection.extract_statements(text)
    except duckdb.Error as problem:
        raise_alone(StatementError(f"this cannot be read: {first_line(problem)}"))
    if len(found) != 1:
        raise NotAllowedError(f"one statement at a time; this has {len(found)}")
    return found[0]


def _check(query: str, tables: Callable[[tuple[str, ...]], bool], connection: duckdb.DuckDBPyConnection) -> None:
    """Check a query by the tree DuckDB makes of it."""
    found = connection.execute(statement("guarantee_tree"), {"query": query}).fetchall()
    tree: Node = json.loads(found[0][0])
    if tree["error"] or len(tree["statements"]) != 1:
        raise NotAllowedError(
            f"only a plain query can be checked: {tree.get('error_message', 'this is none')}; {_MAY}"
        )
    named = {str(entry["key"]).casefold() for part in _parts(tree) for entry in _entries(part)}
    for part in _parts(tree):
        _check_part(part, named, tables)


def _check_part(part: Node, named: set[str], tables: Callable[[tuple[str, ...]], bool]) -> None:
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
        known = tables(names) or ".".join(names) in _CATALOGUE or (len(names) == 1 and names[0] in named)
        if not known:
            raise NotAllowedError(f"there is no table {'.'.join(path)} among the releases; tables() lists them")


def _parts(tree: object) -> Iterator[Node]:
    if isinstance(tree, dict):
        yield tree
    for value in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _parts(value)


def _entries(part: Node) -> list[Node]:
    """The common table expressions a query names."""
    cte_map = part.get("cte_map")
    return list(cte_map.get("map", ())) if isinstance(cte_map, dict) else []


def first_line(problem: Exception) -> str:
    """What DuckDB says, without the lines that follow."""
    return str(problem).split("\n", maxsplit=1)[0]
