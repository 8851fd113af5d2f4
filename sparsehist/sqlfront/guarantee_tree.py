"""A query as DuckDB reads it: its own parser's tree, with nothing in it that is not known here.

The tree comes from DuckDB and not from another parser, since where two parsers read one text differently, what was
checked is not what is run. A part of the tree that has no place in `_PARTS` makes the query refused: a construct
that a later DuckDB adds is not let through for want of being known.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import cache
from typing import Any

import duckdb

from sparsehist.errors import GuaranteeError, raise_alone
from sparsehist.sqlfront.script import Place, line_and_column
from sparsehist.store.statements import statement

Node = dict[str, Any]

_NOWHERE = 2**63
_ANY = "alias query_location query_location_length class type"
_TABLE = "alias sample query_location query_location_length type column_name_alias"
_QUERY = "type modifiers cte_map"
_NAME = "function_name schema catalog qualified_name"

_PARTS = {
    part: frozenset(fields.split())
    for part, fields in {
        "BETWEEN": f"{_ANY} input lower upper",
        "CASE": f"{_ANY} case_checks else_expr",
        "CAST": f"{_ANY} child type_expr try_cast cast_type",
        "COLLATE": f"{_ANY} child collation",
        "COLUMN_REF": f"{_ANY} column_names",
        "COMPARISON": f"{_ANY} left right",
        "CONJUNCTION": f"{_ANY} children",
        "CONSTANT": f"{_ANY} literal value",
        "FUNCTION": f"{_ANY} {_NAME} arguments filter order_bys distinct is_operator",
        "LAMBDA": f"{_ANY} lhs expr syntax_type",
        "OPERATOR": f"{_ANY} children",
        "PARAMETER": f"{_ANY} identifier",
        "POSITIONAL_REFERENCE": f"{_ANY} index",
        "STAR": f"{_ANY} relation_name exclude_list replace_list columns expr qualified_exclude_list rename_list",
        "SUBQUERY": f"{_ANY} subquery_type subquery child comparison_type",
        "TYPE": f"{_ANY} type_name qualified_name children",
        "WINDOW": f"{_ANY} {_NAME} arguments partitions orders start end start_expr end_expr offset_expr default_expr"
        " ignore_nulls has_ignore_nulls filter_expr exclude_clause distinct arg_orders",
        "SELECT_NODE": f"{_QUERY} select_list from_table where_clause group_expressions group_sets"
        " aggregate_handling having sample qualify",
        "SET_OPERATION_NODE": f"{_QUERY} setop_type setop_all children",
        "RECURSIVE_CTE_NODE": f"{_QUERY} cte_name union_all left right aliases",
        "table BASE_TABLE": f"{_TABLE} schema_name table_name catalog_name qualified_name",
        "table SUBQUERY": f"{_TABLE} subquery",
        "table EMPTY": _TABLE,
        "table EXPRESSION_LIST": f"{_TABLE} values expected_names expected_types",
        "table TABLE_FUNCTION": f"{_TABLE} function with_ordinality",
        "table JOIN": f"{_TABLE} left right condition join_type ref_type using_columns is_implicit nearest_count"
        " nearest_order_type",
        "table PIVOT": f"{_TABLE} source aggregates unpivot_names pivots groups include_nulls",
        "ORDER_MODIFIER": "type orders",
        "LIMIT_MODIFIER": "type limit offset limit_type",
        "DISTINCT_MODIFIER": "type distinct_on_targets",
        "ORDER": "type null_order expression",
        "PLAIN": "map key value aliases materialized query_node node named_param_map name expression when_expr"
        " then_expr kind text path column pivot_expressions entries unpivot_names star_expr values alias id"
        " is_percentage method seed sample_rate sample_size is_null type type_info value",
    }.items()
}


def parse(query: str) -> Node:
    """Read one SELECT.

    Raises:
        GuaranteeError: If it is no single SELECT, or has a part that is not known here.
    """
    with _parser(os.getpid()).cursor() as connection:
        found = connection.execute(statement("guarantee_tree"), {"query": query}).fetchone()
    tree: Node = json.loads(found[0]) if found else {"error": True}
    if tree["error"]:
        at = int(tree.get("position", 0))
        why = str(tree.get("error_message", "it cannot be read")).rstrip(".!")
        _refuse(query, Place(at, at + 1), f"a series is made from one SELECT that DuckDB can read: {why}")
    statements = tree["statements"]
    if len(statements) != 1:
        _refuse(query, Place(0, 1), "a series is made from one SELECT, this is more than one statement")
    node: Node = statements[0]["node"]
    _known(query, node)
    return node


@cache
def _parser(process: int) -> duckdb.DuckDBPyConnection:  # noqa: ARG001  a child makes its own
    """An engine that only parses and sees no data: to open one takes 15 ms, more than all that is asked of it."""
    return duckdb.connect(":memory:", config={"threads": 1})


def sub_nodes(part: object) -> Iterator[Node]:
    """Every dictionary right below a part of the tree."""
    for value in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        if isinstance(value, dict):
            yield value
        elif isinstance(value, list):
            yield from sub_nodes(value)


def below(node: Node) -> Iterator[Node]:
    """Every dictionary below a part of the tree, however deep."""
    for part in sub_nodes(node):
        yield part
        yield from below(part)


def _known(query: str, node: Node) -> None:
    """Refuse a tree that says more than is understood here."""
    kind = _kind(node)
    fields = _PARTS.get(kind)
    unknown = [key for key, value in node.items() if value and fields is not None and key not in fields]
    if fields is None or unknown:
        what = (
            kind.replace("table ", "").replace("_", " ").lower() if fields is None else unknown[0].replace("_", " ")
        )
        reason = f"whether this keeps every unit's rows apart is not known ({what}); write it in a plainer way"
        _refuse(query, place(query, node), reason)
    for below in sub_nodes(node):
        _known(query, below)


def _kind(node: Node) -> str:
    if "class" in node:
        return str(node["class"])
    if "null_order" in node:
        return "ORDER"
    kind = str(node["type"]) if isinstance(node.get("type"), str) else "PLAIN"
    return f"table {kind}" if f"table {kind}" in _PARTS and "query_location" in node else kind


def place(query: str, node: Node) -> Place:
    """Where a part of the tree stands in the text; DuckDB counts bytes."""
    at, size = _location(node) or (0, len(query.encode()))
    encoded = query.encode()
    return Place(len(encoded[:at].decode(errors="ignore")), len(encoded[: at + size].decode(errors="ignore")))


def _location(node: Node) -> tuple[int, int] | None:
    at = node.get("query_location", _NOWHERE)
    if isinstance(at, int) and at < _NOWHERE:
        return at, max(int(node.get("query_location_length", 1)), 1)
    found = [location for below in sub_nodes(node) if (location := _location(below)) is not None]
    return min(found) if found else None


def _refuse(query: str, where: Place, reason: str) -> None:
    raise refusal(query, where, reason)


def refusal(query: str, where: Place, reason: str, view: str | None = None) -> GuaranteeError:
    """The error that says where a query may break the guarantee, and why."""
    line, column = line_and_column(query, where.start)
    inside = f"in the view {view}, " if view else ""
    return GuaranteeError(
        f"{inside}line {line}, column {column}: {reason}", reason=reason, start=where.start, end=where.end, view=view
    )


def written(node: Node) -> str:
    """A table reference as SQL, to be asked for its columns."""
    star = {
        "class": "STAR",
        "type": "STAR",
        "relation_name": "",
        "exclude_list": [],
        "replace_list": [],
        "columns": False,
        "expr": None,
        "qualified_exclude_list": [],
        "rename_list": [],
    }
    select: Node = {
        "type": "SELECT_NODE",
        "modifiers": [],
        "cte_map": {"map": []},
        "select_list": [star],
        "from_table": {**node, "sample": None},
        "where_clause": None,
        "group_expressions": [],
        "group_sets": [],
        "aggregate_handling": "STANDARD_HANDLING",
        "having": None,
        "sample": None,
        "qualify": None,
    }
    tree = json.dumps({"error": False, "statements": [{"node": select, "named_param_map": []}]})
    try:
        with _parser(os.getpid()).cursor() as connection:
            found = connection.execute(statement("guarantee_text"), {"tree": tree}).fetchone()
    except duckdb.Error:
        raise_alone(GuaranteeError("a table of the query cannot be named"))
    return str(found[0]) if found else ""
