"""Read the plan of a query, JSON from DuckDB's binder, and the parts of its operators and expressions.

Operators, expressions and fields that are not listed are refused. The lists fit the tested versions of DuckDB.
"""

from __future__ import annotations

import json
from typing import Any

from sparsehist.guarantee.language import (
    RANKED,
    SCALARS,
    UNKNOWN,
    Node,
    is_allowed,
    name_of,
    nodes,
    refused_function,
    require,
)

_KINDS = """
    BOUND_REF BOUND_CONSTANT BOUND_FUNCTION BOUND_CASE BOUND_CONJUNCTION BOUND_OPERATOR BOUND_LAMBDA BOUND_UNNEST
    BOUND_AGGREGATE BOUND_WINDOW PARAMETER PROJECTION GET FILTER COMPARISON_JOIN ANY_JOIN CROSS_PRODUCT
    AGGREGATE_AND_GROUP_BY WINDOW DISTINCT UNION UNNEST MATERIALIZED_CTE CTE_REF
"""
_FIELDS = """
    type expression_class return_type children index value qname arguments positional_arguments named_arguments
    function_data has_serialize is_operator case_checks else_expr lambda_expr parameter_count parameter_names child
    aggregate_type filter order_bys partitions orders start end start_expr end_expr exclude_clause filters distinct
    ignore_nulls sql_range_order_type sql_range_start sql_range_end sql_range_start_boundary sql_range_end_boundary
    table_index expressions returned_types names parameters input_table_types input_table_names column_indexes
    extra_info table_filters table_filters_by_projection ordinality_idx source_ordinality conditions join_type
    mark_index mark_types predicate condition groups grouping_sets group_index aggregate_index groupings_index
    distinct_validity window_index distinct_type distinct_targets column_count setop_all allow_out_of_order
    unnest_index ctename materialize cte_index chunk_types bound_columns
"""
_SUBQUERY = "LIMIT DELIM_GET CHUNK_GET BOUND_COLUMN_REF left_projection_map right_projection_map"
CORRELATED = (
    "a query in parentheses must not use columns of the outer query, nor return one of several rows; write a join "
    "with a query that has the unit in its GROUP BY"
)
_ABSENT: tuple[object, ...] = (None, [], {}, False, "NONE")


def plan_of(text: str) -> Node:
    """Read a plan from JSON without source positions and aliases, so that equal expressions compare equal.

    Parameters of a lambda get the expression class PARAMETER, because they are not columns.
    """

    def plain(node: Node) -> Node:
        return {key: value for key, value in node.items() if key != "alias" and not key.startswith("query_location")}

    try:
        plans = json.loads(text, object_hook=plain).get("plans", ())
    except ValueError:  # DuckDB writes nan, which is not JSON
        plans = ()
    require(
        len(plans) == 1, "DuckDB cannot write the plan of this query: write isnan(x) instead of comparing with nan"
    )
    for node in list(nodes(plans)):
        if "expression_class" in node or str(node.get("type")).startswith("LOGICAL_"):
            _check(node)
            data = node.get("function_data") or {}  # may repeat expressions of the plan
            node["function_data"] = {key: data.get(key) for key in ("qualified_name", "try_cast")}
            for inner in nodes(node.get("lambda_expr")):
                if inner.get("expression_class") == "BOUND_REF":
                    inner["expression_class"] = "PARAMETER"
    return dict(plans[0])


def kind_of(node: Node) -> str:
    return str(node.get("expression_class") or str(node.get("type", "")).removeprefix("LOGICAL_"))


def _check(node: Node) -> None:
    """Refuse an operator or expression outside the language."""
    kind, name, inside = (
        kind_of(node),
        function_of(node),
        [one.get("expression_class") for one in node.get("children", ())],
    )
    unknown = [kind] * (kind not in _KINDS.split())
    unknown += [key for key, value in node.items() if value not in _ABSENT and key not in _FIELDS.split()]
    correlated = str(node.get("ctename", "")).startswith("__duckdb_delim")
    require(not correlated and set(_SUBQUERY.split()).isdisjoint(unknown), CORRELATED)
    require(not unknown, f"{' '.join(unknown[:1]).replace('_', ' ').lower()} is {UNKNOWN}")
    require(
        not {"BOUND_AGGREGATE", "BOUND_WINDOW"} & set(inside), f"a function of rows in an expression is {UNKNOWN}"
    )
    require(kind != "BOUND_FUNCTION" or name in SCALARS, refused_function(name))
    if kind.startswith("BOUND_") and kind != "BOUND_REF":
        require(is_allowed(type_of(node)), f"the type {name_of(type_of(node))} is {UNKNOWN}")


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
