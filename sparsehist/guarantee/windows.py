"""Windows: over the rows of one unit, and in an order that leaves no choice.

Which of two rows that tie comes first depends on how the engine met them, and so on the rows of other units. That
does not matter if the rows are alike in all that is used above: then any order of them gives the same rows. But two
windows that number tied rows in two orders may pair their numbers in any way, so that all that do share one order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from sparsehist.guarantee import functions
from sparsehist.guarantee.expressions import (
    ENUM_SORTS,
    check,
    check_aggregate,
    function_of,
    kind_of,
    orders,
    parts,
    place_of,
    refs,
    shape,
)
from sparsehist.guarantee.plan import Planned
from sparsehist.guarantee.relations import Relation
from sparsehist.guarantee.trees import Node


def check_windows(
    planned: Planned,
    child: Relation,
    live: frozenset[int],
    windows: list[Node],
    unit: str,
    refuse_units: Callable[[Node], NoReturn],
) -> None:
    """Refuse windows, of those used above, over more than one unit, or in an order that leaves a choice.

    `live` are the columns of their rows that are used above; `refuse_units` says that rows of different units meet.
    """
    for window in windows:
        _check_window(planned, child, window)
    if child.public or not windows:
        return
    if len(child.slots) > 1:
        refuse_units(windows[0])
    for window in windows:
        named = [at for part in window.get("partitions", ()) if (at := place_of(part)) is not None]
        if not child.names(child.slot, named):
            planned.refuse(
                _located(window),
                f"the window looks at rows of several units; add {unit} to it: over (partition by {unit} …)",
            )
    computed = [part for window in windows for part in _computed_from(window)]
    _check_ties(planned, child, live | refs(*computed), windows)


def _computed_from(window: Node) -> list[Node]:
    """What a window computes its result from, besides the order of rows."""
    bare = {name: value for name, value in window.items() if name not in ("partitions", "orders")}
    return list(parts(bare))


def _located(window: Node) -> object:
    return [window, *window.get("children", ())]


def tells_rows_apart(window: Node) -> bool:
    """Whether it numbers all rows in no order, as DuckDB does to tell the rows of a lateral join apart."""
    asked = ("partitions", "orders", "filters", "arg_orders", "children")
    return window["type"] == "WINDOW_ROW_NUMBER" and not any(window.get(name) for name in asked)


def _check_window(planned: Planned, child: Relation, window: Node) -> None:
    kind = window["type"]
    if kind == "WINDOW_AGGREGATE":
        name = function_of(window)
        if window.get("arg_orders") and name not in functions.ORDERLESS | functions.ADDING:
            planned.refuse(
                window, "an order inside a window function is not followed; put it into OVER (… ORDER BY …)"
            )
        check_aggregate(planned, window, child, window=True)
        return
    if kind not in functions.RANKS | functions.PLACES or window.get("arg_orders"):
        name = kind.removeprefix("WINDOW_").lower()
        planned.refuse(
            window, f"the window function {name} is not known to look at its partition alone; use another one"
        )
    for part in [*window.get("children", ()), *window.get("partitions", ()), *window.get("filters", ())]:
        if isinstance(part, dict):
            check(planned, part, child.columns)
    for order in window.get("orders", ()):
        check(planned, order["expression"], child.columns)
    for name in ("start_expr", "end_expr"):
        if window.get(name):
            check(planned, window[name], child.columns)


def _places_rows(window: Node) -> bool:
    by_rows = "_ROWS" in f"{window.get('start', '')} {window.get('end', '')}"
    return window["type"] in functions.PLACES or (
        window["type"] not in functions.RANKS and (by_rows or window.get("exclude_clause", "NO_OTHER") != "NO_OTHER")
    )


def _check_ties(planned: Planned, child: Relation, used: frozenset[int] | set[int], windows: list[Node]) -> None:
    for window in windows:
        if not all(functions.sorts(kind_of(order["expression"])) for order in orders(window)):
            planned.refuse(_located(window), ENUM_SORTS)
    placing = [window for window in windows if _places_rows(window)]
    if not placing:
        return
    if len({shape([window.get("partitions"), window.get("orders")]) for window in placing}) > 1:
        planned.refuse(
            _located(placing[-1]),
            "two windows that number rows, each in its own order, may pair rows that tie in any way; use one order, "
            "or compute the second window in a query around the first",
        )
    told = [*placing[0].get("partitions", ()), *(order["expression"] for order in placing[0].get("orders", ()))]
    ordered = {at for part in told if (at := place_of(part)) is not None and functions.alike(child.columns[at].kind)}
    missing = sorted(at for at in used if at not in ordered)
    if missing:
        names = [name for at in missing if (name := _name(windows, at))]
        planned.refuse(
            _located(placing[0]),
            "rows that tie in ORDER BY are taken in any order, which depends on other units; add "
            f"{', '.join(names) or 'every column that is used'} to the ORDER BY of the window, or use rank "
            "(floating-point numbers, intervals and texts with a collation tell no rows apart: cast them first)",
        )


def _name(windows: list[Node], at: int) -> str:
    left = list(windows)
    while left:
        one = left.pop()
        if place_of(one) == at and one.get("alias"):
            return str(one["alias"])
        left += parts(one)
    return ""
