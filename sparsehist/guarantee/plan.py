"""Read the plan of a query, JSON from DuckDB's binder: operators, expressions and their fields.

Operators, expressions and fields that are not listed are refused. The lists fit the tested versions of DuckDB.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from sparsehist.guarantee.language import RANKED, UNKNOWN, require
from sparsehist.guarantee.statement import Node, nodes

_CALL = "qname arguments positional_arguments function_data has_serialize"
_JOIN = "conditions join_type mark_index mark_types predicate"
_FIELDS = {
    "BOUND_REF": "index",
    "BOUND_CONSTANT": "value",
    "BOUND_FUNCTION": f"{_CALL} is_operator named_arguments",
    "BOUND_CASE": "case_checks else_expr",
    "BOUND_CONJUNCTION": "",
    "BOUND_OPERATOR": "",
    "BOUND_LAMBDA": "lambda_expr parameter_count parameter_names",
    "BOUND_UNNEST": "child",
    "BOUND_AGGREGATE": f"{_CALL} aggregate_type filter order_bys",
    "BOUND_WINDOW": f"{_CALL} partitions orders start end start_expr end_expr exclude_clause filters distinct "
    "ignore_nulls sql_range_order_type sql_range_start sql_range_end sql_range_start_boundary "
    "sql_range_end_boundary",
    "PROJECTION": "table_index expressions",
    "GET": f"{_CALL} table_index returned_types names parameters input_table_types input_table_names column_indexes "
    "extra_info table_filters_by_projection ordinality_idx source_ordinality",
    "FILTER": "expressions",
    "COMPARISON_JOIN": _JOIN,
    "ANY_JOIN": f"{_JOIN} condition",
    "CROSS_PRODUCT": "",
    "AGGREGATE_AND_GROUP_BY": "expressions groups grouping_sets group_index aggregate_index groupings_index "
    "distinct_validity",
    "WINDOW": "expressions window_index",
    "DISTINCT": "distinct_type distinct_targets",
    "UNION": "table_index column_count setop_all allow_out_of_order",
    "UNNEST": "unnest_index expressions",
    "MATERIALIZED_CTE": "table_index column_count ctename materialize",
    "CTE_REF": "table_index cte_index chunk_types bound_columns",
}
"""Allowed fields of each expression and operator."""
_SUBQUERY = "EMPTY_RESULT LIMIT DELIM_GET CHUNK_GET BOUND_COLUMN_REF left_projection_map right_projection_map".split()
CORRELATED = (
    "a query in parentheses must not use columns of the outer query, nor return one of several rows; write a join "
    "with a query that has the unit in its GROUP BY"
)
_ABSENT: tuple[object, ...] = (None, [], {}, False, "NONE")


def plan_of(text: str) -> Node:
    """Read a plan from JSON without source positions and aliases, so that equal expressions compare equal."""

    def plain(node: Node) -> Node:
        return {key: value for key, value in node.items() if key != "alias" and not key.startswith("query_location")}

    try:
        read = json.loads(text, object_hook=plain)
    except ValueError:  # JSON cannot represent values such as nan
        read = {}
    plans = read.get("plans", ())
    require(len(plans) == 1, "DuckDB cannot write the plan of this query; avoid values such as nan in the query")
    return dict(plans[0])


def kind_of(node: Node) -> str:
    return str(node.get("expression_class") or str(node.get("type", "")).removeprefix("LOGICAL_"))


def check_fields(node: Node) -> None:
    """Refuse an operator or expression with a field that is not listed."""
    kind = kind_of(node)
    allowed = {"type", "children", "expression_class", "return_type", *_FIELDS.get(kind, "").split()}
    unknown = [] if kind in _FIELDS else [str(node["type"]).removeprefix("LOGICAL_")]
    unknown += [key for key, value in node.items() if value not in _ABSENT and key not in allowed]
    correlated = str(node.get("ctename", "")).startswith("__duckdb_delim") or not set(_SUBQUERY).isdisjoint(unknown)
    require(not correlated, CORRELATED)
    require(not unknown, f"{' '.join(unknown[:1]).replace('_', ' ').lower()} is {UNKNOWN}")


def type_of(expression: Node) -> Any:
    if expression["expression_class"] == "BOUND_CONJUNCTION":
        return {"id": "BOOLEAN"}
    constant = expression["expression_class"] == "BOUND_CONSTANT"
    return expression.get("value", {}).get("type") if constant else expression.get("return_type")


def function_of(node: Node) -> str:
    return str((node.get("qname") or {}).get("path", [""])[-1]).lower()


def column_of(expression: Node) -> int | None:
    """Return the column's number if an expression is just a column; else None."""
    return int(expression.get("index", 0)) if expression["expression_class"] == "BOUND_REF" else None


def parts(part: object) -> Iterator[Node]:
    """Yield the direct parts of an expression, without the body of a lambda: it has its own columns."""
    for key, value in part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ():
        if isinstance(value, dict) and "expression_class" in value:
            if key != "lambda_expr":
                yield value
        elif key not in ("function_data", "return_type", "qname"):
            yield from parts(value)


def columns_in(*expressions: Node) -> set[int]:
    return {int(node.get("index", 0)) for node in nodes(expressions) if node.get("expression_class") == "BOUND_REF"}


def orders_of(expression: Node) -> list[Node]:
    orders = (expression.get("order_bys") or {}).get("orders", ())
    return [order["expression"] for order in (*expression.get("orders", ()), *orders)]


def picks_rows(window: Node) -> bool:
    """Return whether a window function may give different results for rows that tie in its order."""
    if window["type"] in RANKED:
        return False
    frame = f"{window.get('start')} {window.get('end')} {window.get('exclude_clause', 'NO_OTHER')}"
    return window["type"] != "WINDOW_AGGREGATE" or "_ROWS" in frame or not frame.endswith("NO_OTHER")


def conditions_of(expressions: list[Node]) -> list[Node]:
    """Return the conditions that must all be true."""
    split = (conditions_of(one["children"]) if one["type"] == "CONJUNCTION_AND" else [one] for one in expressions)
    return [one for some in split for one in some]
