"""Expressions: what is computed from one row, from the rows of one unit, and from nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator

from sparsehist.sqlfront import guarantee_functions as functions
from sparsehist.sqlfront.guarantee_relations import Column, Context, Relation, Scope, Whose, carriers
from sparsehist.sqlfront.guarantee_tree import Node, below, sub_nodes
from sparsehist.sqlfront.identifiers import folded

_ROW_NUMBERS = ("rowid", "file_row_number", "file_index")
_ARITHMETIC = ("+", "-", "*", "//", "%", "@", "abs", "greatest", "least")


def check(ctx: Context, scope: Scope, node: Node, *, keeps_rows: bool = False) -> None:
    """Refuse an expression that may depend on rows of other units.

    Args:
        ctx: What it is checked against.
        scope: The tables it sees.
        node: The expression.
        keeps_rows: Whether rows are kept exactly where it is true, so that false and null are the same.

    Raises:
        GuaranteeError: If it may.
    """
    kind = node.get("class")
    if kind == "CONJUNCTION" and node["type"] == "CONJUNCTION_AND":
        for part in node["children"]:
            check(ctx, scope, part, keeps_rows=keeps_rows)
        return
    if kind == "SUBQUERY":
        _check_subquery(ctx, scope, node, keeps_rows=keeps_rows)
        return
    _check_kind(ctx, scope, node)
    for part in sub_nodes(node):
        compared = kind in ("COMPARISON", "BETWEEN") and part.get("class") == "COLLATE"
        check(ctx, scope, part["child"] if compared else part)


def _check_kind(ctx: Context, scope: Scope, node: Node) -> None:
    """Refuse what one kind of expression may look at besides the row, apart from the expressions below it."""
    kind = node.get("class")
    if kind == "COLUMN_REF" and folded(node["column_names"][-1]) in _ROW_NUMBERS:
        ctx.refuse(node, f"{node['column_names'][-1]} counts the rows of all units; use a column of the row's own")
    elif kind == "TYPE" and folded(str(node.get("type_name", ""))) in ctx.functions:
        ctx.refuse(node, f"of what the type {node['type_name']} was made is not known; cast to another")
    elif kind == "FUNCTION":
        _check_function(ctx, scope, node)
    elif kind == "WINDOW":
        _check_window(ctx, scope, node)
    elif kind == "COLLATE" and scope.strict:
        ctx.refuse(
            node,
            "which of several texts that a collation takes for one is kept depends on other units; compare with it, "
            "or write lower(…), strip_accents(…)",
        )
    elif kind == "LAMBDA" and any(part.get("class") == "SUBQUERY" for part in below(node)):
        ctx.refuse(node, "a query inside a lambda is not followed; write it outside")


def conditions(node: Node | None) -> Iterator[Node]:
    """The parts of a condition that all have to be true."""
    if node and node.get("type") == "CONJUNCTION_AND":
        for part in node["children"]:
            yield from conditions(part)
    elif node:
        yield node


def equalities(scope: Scope, node: Node | None) -> Iterator[tuple[Whose, Whose]]:
    """The units a condition makes equal."""
    for part in conditions(node):
        if part.get("type") in ("COMPARE_EQUAL", "COMPARE_NOT_DISTINCT_FROM"):
            left, right = scope.carrier(part["left"]), scope.carrier(part["right"])
            if left and right:
                yield left, right


def shape(scope: Scope, node: Node) -> str:
    """An expression without its place, so that two can be compared."""
    return json.dumps(_bare(node, scope.leaves[0].alias if len(scope.leaves) == 1 else None), sort_keys=True)


def _bare(part: object, table: str | None) -> object:
    if isinstance(part, list):
        return [_bare(item, table) for item in part]
    if not isinstance(part, dict):
        return part
    if part.get("class") == "COLUMN_REF":
        names = [folded(name) for name in part["column_names"]]
        return names[-1:] if len(names) == 2 and names[0] == table else names
    hidden = ("alias", "query_location", "query_location_length")
    return {key: _bare(value, table) for key, value in part.items() if key not in hidden}


def is_exact(scope: Scope, node: Node) -> bool:
    """Whether the value is known to be a whole number or a decimal."""
    kind = node.get("class")
    if kind == "CONSTANT":
        return bool(node.get("literal", {}).get("kind") in ("INTEGER", "BOOLEAN", "NULL_LITERAL"))
    if kind == "CAST":
        return functions.exact_type(str(node["type_expr"].get("type_name", "")))
    if kind in ("COMPARISON", "CONJUNCTION", "BETWEEN"):
        return True
    if kind == "CASE":
        parts = [check["then_expr"] for check in node["case_checks"]]
        return all(
            is_exact(scope, part) for part in [*parts, *([node["else_expr"]] if node.get("else_expr") else [])]
        )
    if kind == "OPERATOR" and node["type"] == "OPERATOR_COALESCE":
        return all(is_exact(scope, part) for part in node["children"])
    if kind in ("FUNCTION", "WINDOW"):
        name, arguments = folded(node["function_name"]), _arguments(node)
        if name in functions.WHOLE_NUMBERS or name.startswith("count"):
            return True
        return name in (*_ARITHMETIC, "sum", "min", "max") and all(is_exact(scope, part) for part in arguments)
    return kind == "COLUMN_REF" and _exact_column(scope, [folded(name) for name in node["column_names"]])


def _exact_column(scope: Scope, names: list[str]) -> bool:
    leaves = scope.leaves if len(names) == 1 else [leaf for leaf in scope.leaves if leaf.alias == names[0]]
    columns = [leaf.items for leaf in leaves if len(names) <= 2]
    if not columns or not all(isinstance(item, Column) for items in columns for item in items):
        return False
    held = [item for items in columns for item in items if isinstance(item, Column)]
    meant = [item for item in held if folded(item.name) == names[-1]]
    return bool(meant) and all(item.exact for item in meant)


def is_aggregate(node: Node) -> bool:
    """Whether an expression is an aggregate itself."""
    return node.get("class") == "FUNCTION" and folded(node["function_name"]) in functions.aggregates()


def has_aggregate(node: Node) -> bool:
    """Whether an expression holds an aggregate of its own query, outside windows."""
    if node.get("class") == "SUBQUERY":
        return False
    return is_aggregate(node) or any(has_aggregate(part) for part in sub_nodes(node))


def has_star(node: Node) -> bool:
    """Whether an expression stands for as many columns as a table has."""
    if node.get("class") == "SUBQUERY":
        return False
    return node.get("class") == "STAR" or any(has_star(part) for part in sub_nodes(node))


def _arguments(node: Node) -> list[Node]:
    return [argument["expression"] for argument in node.get("arguments", ())]


def _known(ctx: Context, node: Node) -> str:
    """The name of a function of DuckDB's own."""
    path = node.get("qualified_name", {}).get("path", [node["function_name"]])
    name = folded(str(node["function_name"]))
    if len(path) > 1 or node.get("schema") or node.get("catalog") or name in ctx.functions:
        ctx.refuse(
            node, f"what {'.'.join(path)} looks at is not known; only functions DuckDB brings along are checked"
        )
    return name


def _check_function(ctx: Context, scope: Scope, node: Node) -> None:
    name = _known(ctx, node)
    if name in functions.aggregates():
        _check_aggregate(ctx, scope, node, name)
    elif name not in functions.of_rows() and name != "unnest":
        ctx.refuse(
            node,
            f"{name} is not known to depend on its own row alone (it may be random, count rows, read settings or "
            "hide a query); compute it from columns of the row",
        )


def _check_aggregate(ctx: Context, scope: Scope, node: Node, name: str) -> None:
    """Refuse an aggregate whose result hangs on the order its rows come in, where private rows are in sight."""
    if name in functions.RANDOM_AGGREGATES:
        ctx.refuse(node, f"{name} draws at random; use an exact quantile or count")
    if not scope.strict or name in functions.ORDERLESS:
        return
    if name in functions.ADDING:
        if not all(is_exact(scope, part) for part in _arguments(node)):
            ctx.refuse(
                node,
                f"the last digits of a floating-point {name} depend on the order of all rows; cast what is added, "
                f"as in {name}(x::bigint) or {name}(x::decimal(18, 3))",
            )
        return
    if name in functions.ORDERED:
        orders = node.get("order_bys", {}).get("orders", ())
        sorted_by = {shape(scope, order["expression"]) for order in orders}
        taken = [part for part in _arguments(node) if part.get("class") != "CONSTANT"]
        if all(shape(scope, part) in sorted_by for part in taken):
            return
        ctx.refuse(
            node,
            f"{name} takes rows in the order they come, which depends on other units; order by what it takes as "
            f"well, as in {name}(x order by time, x), or use min or max",
        )
    ctx.refuse(
        node,
        f"{name} may depend on the order rows come in, which depends on other units; "
        f"use {', '.join(sorted(functions.ORDERLESS)[:9])} and the like",
    )


def _check_window(ctx: Context, scope: Scope, node: Node) -> None:
    """Refuse a window over more than the rows of one unit; which rows tie is looked at where all windows are."""
    name = _known(ctx, node)
    if name in functions.aggregates() and name not in ("first", "last"):
        _check_aggregate(ctx, scope, node, name)
    elif name not in functions.RANKS | functions.PLACES:
        ctx.refuse(node, f"the window function {name} is not known to look at its partition alone; use another one")
    if node.get("arg_orders") and name not in functions.ORDERLESS | functions.ADDING:
        ctx.refuse(node, "an order inside a window function is not followed; put it into OVER (… ORDER BY …)")
    if not any(leaf.whose for leaf in scope.leaves) or scope.confined:
        return
    if not any(scope.names_unit(part) for part in node.get("partitions", ())):
        ctx.refuse(
            node, f"the window looks at rows of several units; add {ctx.unit} to it: over (partition by {ctx.unit} …)"
        )


def _check_subquery(ctx: Context, scope: Scope, node: Node, *, keeps_rows: bool) -> None:
    """Refuse a query inside an expression that reads rows of more units than that of the row it stands in."""
    child, body = node.get("child"), node["subquery"]["node"]
    if child:
        check(ctx, scope, child)
    relation = ctx.relation(ctx, body, scope, scope.ctes)
    if relation.public:
        return
    if relation.confined is not None:
        single = body["type"] == "SELECT_NODE" and not body.get("group_expressions") and not body.get("group_sets")
        if node["subquery_type"] == "SCALAR" and not (single and any(map(has_aggregate, body["select_list"]))):
            ctx.refuse(node, "which row of several it takes is not known; take one by min, max or another aggregate")
        return
    if child and keeps_rows and node.get("comparison_type") == "COMPARE_EQUAL" and _same_unit(scope, child, relation):
        return
    ctx.refuse(
        node,
        f"the query in parentheses reads rows of all units; keep to the unit of the row, with {ctx.unit} = "
        f"<outer table>.{ctx.unit} in its WHERE (or, as a condition of its own in WHERE, {ctx.unit} in (select "
        f"{ctx.unit} …)), or declare its table public",
    )


def _same_unit(scope: Scope, child: Node, relation: Relation) -> bool:
    """Whether `child in (relation)` asks for the unit of the row among the units of the relation."""
    row = child.get("class") == "FUNCTION" and child["function_name"] == "row"
    asked = _arguments(child) if row else [child]
    if len(asked) == 1 and len(relation.items) == 1 and carriers(relation.items):
        return scope.carrier(asked[0]) is not None
    return any(
        scope.carrier(part) is not None and isinstance(item, Column) and item.carries
        for part, item in zip(asked, relation.items, strict=False)
        if all(isinstance(column, Column) for column in relation.items)
    )
