"""Check whether readers of releases may run a statement.

Only listed tables and table functions are allowed. Those that a later version of DuckDB adds are refused until they
are reviewed and listed. In addition, the connection cannot use files, network or extensions, or change settings.
"""

from __future__ import annotations

import json
from collections.abc import Container

import duckdb

from sparsehist.errors import NotAllowedError
from sparsehist.guarantee.language import Node, nodes
from sparsehist.store.statements import statement

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
# Refused: functions that plan or run SQL given as text, that sleep or have other side effects, or that reveal facts
# about the machine.
_FUNCTIONS = frozenset(
    """
    write_log sleep_ms nextval currval setval getenv current_setting current_query getvariable stats vector_type
    json_execute_serialized_sql json_serialize_plan index_key parse_duckdb_log_message pg_sleep
    """.split()
)
_SHOWN = ('"tables"', "__show_tables_expanded")
_QUERIES = frozenset(("SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"))
_MAY = "readers may run SELECT, DESCRIBE, SUMMARIZE and SHOW"


def check_allowed(text: str, connection: duckdb.DuckDBPyConnection, tables: Container[tuple[str, ...]]) -> None:
    """Check that readers may run a statement. `tables` contains (schema, name) for each table that they may read.

    Raises:
        NotAllowedError: If readers may not run the statement, or DuckDB cannot parse it.
    """
    ((serialized,),) = connection.execute(statement("guarantee_tree"), {"query": text}).fetchall()
    tree: Node = json.loads(serialized)
    if tree["error"] or len(tree["statements"]) != 1:
        raise NotAllowedError(f"{tree.get('error_message', 'expected one statement')}; {_MAY}")
    parts = list(nodes(tree))
    ctes = {str(entry["key"]).casefold() for part in parts for entry in (part.get("cte_map") or {}).get("map", [])}
    for part in parts:
        _check_part(part, tables, ctes)


def _check_part(part: Node, tables: Container[tuple[str, ...]], ctes: Container[str]) -> None:
    """Refuse a node of a parse tree that readers may not use: a statement, table or function."""
    for key in ("node", "query_node", "query"):
        inner = part.get(key)
        if isinstance(inner, dict) and inner.get("type") not in _QUERIES:
            raise NotAllowedError(f"{str(inner.get('type')).lower().replace('_', ' ')} is not allowed; {_MAY}")
    if part.get("type") == "TABLE_FUNCTION":
        name = str(part["function"]["function_name"]).casefold()
        if name not in _TABLE_FUNCTIONS:
            raise NotAllowedError(f"readers may not call {name}: it could read files, run SQL or change settings")
    elif part.get("class") in ("FUNCTION", "WINDOW"):
        name = str(part["function_name"]).casefold()
        if name in _FUNCTIONS:
            raise NotAllowedError(
                f"readers may not call {name}: it has side effects or reveals facts about the machine"
            )
    elif part.get("table_name") and not (part.get("type") == "SHOW_REF" and part["table_name"] in _SHOWN):
        path = part.get("qualified_name", {}).get("path") or [part["table_name"]]
        names = tuple(str(name).casefold() for name in path)
        released = names[:-2] in ((), ("memory",)) and ("main", *names)[-2:] in tables
        if not released and ".".join(names) not in _CATALOGUE and (len(names) > 1 or names[0] not in ctes):
            raise NotAllowedError(f"there is no table {'.'.join(path)} among the releases; SHOW TABLES lists them")
