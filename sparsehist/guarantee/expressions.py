"""Expressions of a plan: what is computed from one row, from the rows of one unit, and from nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from sparsehist.guarantee import functions
from sparsehist.guarantee.plan import Planned
from sparsehist.guarantee.relations import Column, Relation
from sparsehist.guarantee.trees import Node, unknown

_PARTS = {
    "BOUND_REF": "index",
    "BOUND_CONSTANT": "value",
    "BOUND_FUNCTION": "qname children arguments function_data has_serialize is_operator named_arguments"
    " positional_arguments",
    "BOUND_CASE": "case_checks else_expr",
    "BOUND_CONJUNCTION": "children",
    "BOUND_OPERATOR": "children",
    "BOUND_LAMBDA": "lambda_expr parameter_count parameter_names",
    "BOUND_UNNEST": "child",
    "BOUND_AGGREGATE": "qname children arguments function_data has_serialize aggregate_type filter order_bys"
    " state_export",
    "BOUND_WINDOW": "qname children arguments function_data has_serialize partitions orders start end start_expr"
    " end_expr exclude_clause filters distinct ignore_nulls arg_orders sql_range_order_type sql_range_start"
    " sql_range_end sql_range_start_boundary sql_range_end_boundary state_export",
}
EQUALITIES = ("COMPARE_EQUAL", "COMPARE_NOTEQUAL", "COMPARE_DISTINCT_FROM", "COMPARE_NOT_DISTINCT_FROM")
ENUM_SORTS = "how an ENUM sorts may come from the rows of all units; order by its text"
_ANY = "expression_class type alias query_location query_location_length return_type"
_FIELDS = {kind: frozenset(f"{_ANY} {fields}".split()) for kind, fields in _PARTS.items()}


def parts(expression: Node) -> Iterator[Node]:
    """The expressions right below one; what a lambda computes comes with what it takes from the row as `children`."""
    for value in expression.get("children", ()):
        yield value
    for one in expression.get("case_checks", ()):
        yield one["when_expr"]
        yield one["then_expr"]
    for name in ("else_expr", "child", "filter", "start_expr", "end_expr", "sql_range_start", "sql_range_end"):
        value = expression.get(name)
        if isinstance(value, dict) and "expression_class" in value:
            yield value
    for name in ("partitions", "filters"):
        yield from (one for one in expression.get(name, ()) if isinstance(one, dict))
    for name in ("sql_range_start_boundary", "sql_range_end_boundary"):
        value = expression.get(name)
        if isinstance(value, dict):
            yield from (
                one for one in [value, *value.values()] if isinstance(one, dict) and "expression_class" in one
            )
    yield from (order["expression"] for order in orders(expression))


def orders(expression: Node) -> list[Node]:
    """All that an aggregate or a window orders by."""
    given = expression.get("order_bys") or {}
    inside = given.get("orders", ()) if isinstance(given, dict) else given
    return [*expression.get("orders", ()), *inside, *expression.get("arg_orders", ())]


def refs(*expressions: Node) -> set[int]:
    """The places of the columns that expressions use."""
    found = set()
    for expression in expressions:
        if expression["expression_class"] == "BOUND_REF":
            found.add(int(expression.get("index", 0)))
        else:
            found |= refs(*parts(expression))
    return found


def place_of(expression: Node) -> int | None:
    """The place of the column an expression is, if it is no more than that."""
    return int(expression.get("index", 0)) if expression["expression_class"] == "BOUND_REF" else None


def kind_of(expression: Node) -> Any:
    """The type of an expression."""
    if expression["expression_class"] == "BOUND_CONSTANT":
        return expression.get("value", {}).get("type")
    if expression["expression_class"] == "BOUND_CONJUNCTION":
        return {"id": "BOOLEAN"}
    return expression.get("return_type")


def function_of(expression: Node) -> str:
    """The name of a function."""
    return str((expression.get("qname") or {}).get("path", [""])[-1]).lower()


def check(planned: Planned, expression: Node, columns: Sequence[Column] | None) -> None:
    """Refuse an expression that looks at more than its row; columns are None inside a lambda, which has its own."""
    kind = expression["expression_class"]
    known = kind in _FIELDS and expression["type"] in functions.OPERATORS
    beside = unknown(expression, _FIELDS.get(kind, ()))
    if not known or beside:
        what = str(beside[0] if known else expression["type"]).replace("_", " ").lower()
        planned.refuse(expression, f"whether {what} looks at one row alone is not known; write it in a plainer way")
    if kind == "BOUND_REF" and columns is not None:
        _check_column(planned, expression, columns[int(expression.get("index", 0))])
    if kind == "BOUND_FUNCTION":
        _check_function(planned, expression)
    if kind == "BOUND_LAMBDA":
        check(planned, expression["lambda_expr"], None)
    for part in parts(expression):
        check(planned, part, columns)


def _check_column(planned: Planned, expression: Node, column: Column) -> None:
    if column.number is not None:
        planned.refuse(
            expression,
            "this numbers the rows of all units; number those of each: over (partition by the unit order by …)",
        )
    if column.if_true:
        planned.refuse(
            expression,
            "whether this is false or null depends on the rows of all units; use it as a condition of its own in "
            "WHERE, or ask with EXISTS for rows of the unit",
        )


def _check_function(planned: Planned, expression: Node) -> None:
    name = function_of(expression)
    taken = [kind_of(part) for part in expression.get("children", ())]
    if name in functions.LIST_AGGREGATES:
        asked = expression["children"][1] if len(expression.get("children", ())) > 1 else expression
        if str(asked.get("value", {}).get("value")).lower() in functions.AGGREGATES_OF_LISTS:
            return
        planned.refuse(expression, f"which aggregate {name} computes is not known; name one such as 'max'")
    if name not in functions.of_rows():
        planned.refuse(
            expression,
            f"{name} is not known to depend on its own row alone (it may be random, count rows, read settings or "
            "hide a query); compute it from columns of the row",
        )
    if expression["type"] == "OPERATOR_CAST" or name == "__try_cast":
        constant = all(part["expression_class"] == "BOUND_CONSTANT" for part in expression["children"])
        if not constant and not functions.sorts(expression.get("return_type")):
            planned.refuse(expression, "which values an ENUM has may come from the rows of all units; cast to text")
    elif expression["type"] not in EQUALITIES and not all(functions.sorts(kind) for kind in taken if kind):
        planned.refuse(
            expression,
            "what an ENUM's values are and how they sort may come from the rows of all units; cast to text",
        )


def check_aggregate(  # noqa: C901  one rule for each kind of aggregate
    planned: Planned, expression: Node, relation: Relation, *, window: bool = False
) -> None:
    """Refuse an aggregate whose result depends on the order its rows come in, where they are private."""
    name = function_of(expression)
    if unknown(expression, _FIELDS[expression["expression_class"]]):
        planned.refuse(
            expression, f"what {name} looks at is not known; only functions DuckDB brings along are checked"
        )
    for part in parts(expression):
        check(planned, part, relation.columns)
    if not all(functions.sorts(kind_of(order["expression"])) for order in orders(expression)):
        planned.refuse(expression, ENUM_SORTS)
    if name in functions.RANDOM_AGGREGATES:
        planned.refuse(expression, f"{name} draws at random; use an exact quantile or count")
    if relation.public:
        return
    taken = [part for part in expression.get("children", ()) if part["expression_class"] != "BOUND_CONSTANT"]
    kinds = [kind_of(part) for part in taken]
    if name in functions.ORDERLESS:
        counted = name.startswith(("count", "regr_count", "bool_", "bit_"))
        if expression.get("aggregate_type") == "DISTINCT" or expression.get("distinct") or not counted:
            _check_alike(planned, expression, kinds, name, sorted_too=not counted)
        return
    if name in functions.ADDING:
        if not all(map(functions.adds_exactly, kinds)):
            planned.refuse(
                expression,
                f"the last digits of a floating-point {name} depend on the order of all rows; cast what is added, "
                f"as in {name}(x::bigint) or {name}(x::decimal(18, 3))",
            )
        return
    if name in functions.ORDERED and not window:
        told = {shape(order["expression"]) for order in orders(expression)}
        if all(shape(part) in told for part in taken) and taken:
            _check_alike(planned, expression, kinds, name, sorted_too=True)
            return
        planned.refuse(
            expression,
            f"{name} takes rows in the order they come, which depends on other units; order by what it takes as "
            f"well, as in {name}(x order by time, x), or use min or max",
        )
    planned.refuse(
        expression,
        f"{name} may depend on the order rows come in, which depends on other units; "
        f"use {', '.join(sorted(functions.ORDERLESS)[:9])} and the like",
    )


def _check_alike(planned: Planned, expression: Node, kinds: list[Any], name: str, *, sorted_too: bool) -> None:
    for kind in kinds:
        if not functions.alike(kind) or (sorted_too and not functions.sorts(kind)):
            planned.refuse(
                expression,
                f"which of several values that are equal but not alike (0.0 and -0.0) {name} keeps depends on other "
                "units; cast to a decimal, a whole number or text",
            )


def shape(expression: object) -> str:
    """An expression without its place, so that two can be compared."""
    return json.dumps(_bare(expression), sort_keys=True)


def _bare(part: object) -> object:
    if isinstance(part, list):
        return [_bare(item) for item in part]
    if not isinstance(part, dict):
        return part
    hidden = ("alias", "query_location", "query_location_length")
    return {key: _bare(value) for key, value in part.items() if key not in hidden}
