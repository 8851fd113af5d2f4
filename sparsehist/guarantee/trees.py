"""The trees that DuckDB makes of queries, as JSON."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

Node = dict[str, Any]


def nodes(part: object) -> Iterator[Node]:
    """Every dictionary of a tree, the first ones first."""
    if isinstance(part, dict):
        yield part
    for value in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from nodes(value)


def unknown(node: Node, fields: Collection[str]) -> list[str]:
    """The fields of a node that say something and are not among these."""
    return [key for key, value in node.items() if value not in (None, [], {}) and key not in fields]


def entries(node: Node) -> list[Node]:
    """The common table expressions a query names."""
    ctes = node.get("cte_map")
    return list(ctes.get("map", ())) if isinstance(ctes, dict) else []
