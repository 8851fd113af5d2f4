"""Rows that tie: what numbers rows or takes them by place may not tell rows apart that it was not told to order.

Which of two rows that tie comes first depends on how the engine met them, and so on the rows of other units. It does
not matter if the rows are alike in all that the query goes on to use.
"""

from __future__ import annotations

from collections.abc import Iterator

from sparsehist.sqlfront import guarantee_functions as functions
from sparsehist.sqlfront.guarantee_expressions import shape
from sparsehist.sqlfront.guarantee_relations import Column, Context, Found, Scope, Unknown
from sparsehist.sqlfront.guarantee_tree import Node, below, sub_nodes
from sparsehist.sqlfront.identifiers import folded


def check_ties(ctx: Context, scope: Scope, parts: list[Node], keys: list[Node] | None) -> None:
    """Refuse windows in which rows that tie are told apart.

    Args:
        ctx: What it is checked against.
        scope: The tables of the query.
        parts: Its select list, QUALIFY and ORDER BY.
        keys: What it groups by; None if it does not.

    Raises:
        GuaranteeError: If such a window is there.
    """
    placing = [window for part in parts for window in _windows(part) if _places_rows(window)]
    if not placing or not scope.strict:
        return
    told = {_told(scope, window) for window in placing}
    if len(told) > 1:
        ctx.refuse(
            placing[-1],
            "two windows that number rows, each in its own order, may pair rows that tie in any way; use one "
            "order, or compute the second window in a query around the first",
        )
    ordered = set(told.pop())
    used = _used(ctx, scope, parts) if keys is None else [(key, shape(scope, key)) for key in keys]
    missing = [(node, text) for node, text in used if text not in ordered]
    if missing:
        for node, _ in missing:
            name = str(node.get("column_names", [""])[-1])
            stands_for = scope.aliases.get(folded(name), {})
            if stands_for.get("class") == "WINDOW" and all(part is not node for part in below(stands_for)):
                ctx.refuse(node, f"{name} may be a column of the table too; write the window function itself here")
        names = sorted({_name(node) for node, _ in missing})
        ctx.refuse(
            placing[0],
            f"rows that tie in ORDER BY are taken in any order, which depends on other units; add "
            f"{', '.join(names)} to the ORDER BY of the window, or use rank",
        )


def _windows(node: Node) -> Iterator[Node]:
    if node.get("class") == "SUBQUERY":
        return
    if node.get("class") == "WINDOW":
        yield node
    for part in sub_nodes(node):
        yield from _windows(part)


def _places_rows(window: Node) -> bool:
    frame = f"{window.get('start', '')} {window.get('end', '')}"
    by_rows = "_ROWS" in frame or window.get("exclude_clause", "NO_OTHER") != "NO_OTHER"
    name = folded(window["function_name"])
    return name in functions.PLACES or (by_rows and name not in functions.RANKS)


def _told(scope: Scope, window: Node) -> tuple[str, ...]:
    """What rows are told apart by: partition, then order."""
    partitions = [shape(scope, part) for part in window.get("partitions", ())]
    return (*partitions, *(shape(scope, order["expression"]) for order in window.get("orders", ())))


def _used(ctx: Context, scope: Scope, parts: list[Node]) -> list[tuple[Node, str]]:
    """The columns a query uses, in whatever expression."""
    return [(node, shape(scope, node)) for part in parts for node in _columns(ctx, scope, part)]


def _columns(ctx: Context, scope: Scope, node: Node) -> Iterator[Node]:
    kind = node.get("class")
    if kind == "COLUMN_REF" and not _is_alias(scope, node):
        yield node
    if kind == "POSITIONAL_REFERENCE":
        ctx.refuse(node, "a column by number cannot be followed beside a window that numbers rows; name it")
    if kind == "STAR":
        for leaf in scope.leaves:
            for item in leaf.items:
                if isinstance(item, Unknown):
                    ctx.refuse(
                        node, "which columns * stands for is not known; name them, and order the window by them"
                    )
                if isinstance(item, Column):
                    names = [item.name] if len(scope.leaves) == 1 else [leaf.alias, item.name]
                    yield {"class": "COLUMN_REF", "column_names": names}
    for part in sub_nodes(node):
        yield from _columns(ctx, scope, part)


def _is_alias(scope: Scope, node: Node) -> bool:
    """Whether a name is that of an expression of the select list: a column of that name would come first."""
    names = node["column_names"]
    if len(names) != 1 or folded(names[0]) not in scope.aliases:
        return False
    return {leaf.find(names[0]) for leaf in scope.leaves} == {Found.ABSENT}


def _name(node: Node) -> str:
    return ".".join(node["column_names"]) if node.get("class") == "COLUMN_REF" else "what it is grouped by"
