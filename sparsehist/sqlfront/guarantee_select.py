"""Queries: what a SELECT, a union and a common table expression make of the relations they read."""

from __future__ import annotations

from collections.abc import Mapping

from sparsehist.sqlfront.guarantee_expressions import (
    check,
    conditions,
    equalities,
    has_aggregate,
    has_star,
    is_exact,
    shape,
)
from sparsehist.sqlfront.guarantee_from import add_tables, check_one_unit, star_items
from sparsehist.sqlfront.guarantee_relations import (
    Column,
    Context,
    Found,
    Item,
    Relation,
    Scope,
    Unknown,
    carriers,
    lookup,
)
from sparsehist.sqlfront.guarantee_tree import Node, below
from sparsehist.sqlfront.guarantee_windows import check_ties
from sparsehist.sqlfront.identifiers import folded


def relation(ctx: Context, node: Node, outer: Scope | None, ctes: Mapping[str, Relation]) -> Relation:
    """What a query returns.

    Args:
        ctx: What it is checked against.
        node: The query.
        outer: What a query around it sees, or the tables to its left.
        ctes: Common table expressions of the queries around it.

    Raises:
        GuaranteeError: If rows of one unit may depend on those of another.
    """
    known = dict(ctes)
    for entry in node.get("cte_map", {}).get("map", ()):
        value = entry["value"]
        body, name = value["query_node"], folded(str(entry["key"]))
        made = _recursive(ctx, body, name, outer, known) if body["type"] == "RECURSIVE_CTE_NODE" else None
        known[name] = (made or ctx.relation(ctx, body, outer, known)).renamed(value.get("aliases", ()))
    if node["type"] not in ("SELECT_NODE", "SET_OPERATION_NODE"):
        ctx.refuse(node, f"{node['type'].lower().replace('_', ' ')} is not followed; write it as SELECT")
    if node["type"] == "SELECT_NODE":
        return _select(ctx, node, Scope(outer, known))
    return _set_operation(ctx, node, outer, known)


def _recursive(ctx: Context, node: Node, name: str, outer: Scope | None, ctes: Mapping[str, Relation]) -> Relation:
    """A recursion whose every step keeps to the unit of the step before."""
    first = ctx.relation(ctx, node["left"], outer, ctes).renamed(node.get("aliases", ()))
    again = ctx.relation(ctx, node["right"], outer, {**ctes, name: first})
    together = _union(ctx, node, [first, again])
    if together.items != first.items:  # what a step gives may not be as exact as what it began with
        again = ctx.relation(ctx, node["right"], outer, {**ctes, name: together})
        together = _union(ctx, node, [together, again])
    if carriers(together.items) != carriers(first.items):
        ctx.refuse(node, f"a step of the recursion loses {ctx.unit}; take it from {name}, unchanged, in its place")
    return together


def _select(ctx: Context, node: Node, scope: Scope) -> Relation:
    items = node["select_list"]
    scope.aliases = {folded(str(item["alias"])): item for item in items if item.get("alias")}
    add_tables(ctx, scope, node["from_table"])
    scope.alone = _stands_alone(scope, node)
    if node.get("sample"):
        ctx.refuse(node, "a sample is drawn from the rows of all units; keep rows by a condition on the row itself")
    for one, other in equalities(scope, node.get("where_clause")):
        scope.equate(one, other)
    scope.whose = check_one_unit(ctx, scope, node)
    private = scope.whose is not None and not scope.confined
    for part in conditions(node.get("where_clause")):
        check(ctx, scope, part, keeps_rows=True)
    last = [part for part in (node.get("having"), node.get("qualify")) if part]
    for part in [*node.get("group_expressions", ()), *items, *last]:
        check(ctx, scope, part)
    keys = _keys(ctx, node, scope)
    if private and keys is not None:
        _check_grouped(ctx, node, scope, keys)
    several = len(node.get("group_sets", ())) > 1
    kept = {shape(scope, key) for key in keys or ()} if several else None
    qualified = [node["qualify"]] if node.get("qualify") else []
    check_ties(ctx, scope, [*items, *qualified], keys)
    made = [column for item in items for column in _columns(ctx, scope, item, kept)]
    result = Relation(tuple(made), private=private, confined=scope.whose if scope.confined else None)
    _modifiers(ctx, node, result, scope)
    return result


def _stands_alone(scope: Scope, node: Node) -> bool:
    """Whether a SELECT reads tables by their names alone, and no column of a query around it."""
    parts = [node, *below(node)]
    tables = [part for part in parts if "table_name" in part]
    plain = all(part.get("type", "JOIN") not in _NOT_ALONE for part in parts)
    named = all(len(path) > 1 or folded(path[0]) not in scope.ctes for path in map(_path, tables))
    columns = [part["column_names"] for part in parts if part.get("class") == "COLUMN_REF"]
    return plain and bool(tables) and named and all(map(scope.holds, columns))


_NOT_ALONE = ("SUBQUERY", "TABLE_FUNCTION", "PIVOT", "EXPRESSION_LIST", "POSITIONAL_REFERENCE")


def _path(table: Node) -> list[str]:
    return [str(part) for part in table.get("qualified_name", {}).get("path", [table["table_name"]])]


def _keys(ctx: Context, node: Node, scope: Scope) -> list[Node] | None:
    """What a SELECT groups by; None if it does not."""
    items = node["select_list"]
    if node.get("aggregate_handling") == "FORCE_AGGREGATES":
        return [item for item in items if not has_aggregate(item)]
    given = [_meant(ctx, item, items, scope) for item in node.get("group_expressions", ())]
    sets = node.get("group_sets", [])
    if given and sets:  # what stands in every set; a key that is missing from one is null there
        given = [key for number, key in enumerate(given) if all(number in some for some in sets)]
    if given or sets or node.get("having") or any(map(has_aggregate, items)):
        return given
    return [] if node.get("qualify") and has_aggregate(node["qualify"]) else None


def _meant(ctx: Context, key: Node, items: list[Node], scope: Scope) -> Node:
    """The expression a key of GROUP BY stands for: itself, a column by number, or one by its alias."""
    literal = key.get("literal", {})
    if key.get("class") == "CONSTANT" and literal.get("kind") == "INTEGER":
        number = int(literal["text"])
        if any(map(has_star, items[:number])):
            ctx.refuse(key, "which column this number means is not known beside *; name it")
        return items[number - 1] if 1 <= number <= len(items) else key
    if key.get("class") == "COLUMN_REF" and scope.carrier(key) is None and len(key["column_names"]) == 1:
        return scope.aliases.get(folded(key["column_names"][0]), key)
    return key


def _check_grouped(ctx: Context, node: Node, scope: Scope, keys: list[Node]) -> None:
    """Refuse groups of rows of several units."""
    starred = any(key.get("class") == "STAR" and carriers(_columns(ctx, scope, key, None)) for key in keys)
    if not starred and not any(scope.names_unit(key) for key in keys):
        right = f"add {ctx.unit} to GROUP BY (to every set of it)"
        if scope.outer is not None and scope.outer.strict:
            right = f"keep to the unit of the row, by WHERE {ctx.unit} = <outer table>.{ctx.unit}, or {right}"
        what = next((item for item in node["select_list"] if has_aggregate(item)), node)
        ctx.refuse(
            what if what is not node else node.get("having") or next(iter(node.get("group_expressions", ())), node),
            f"this gathers the rows of all units: {right}",
        )


def _columns(ctx: Context, scope: Scope, item: Node, kept: set[str] | None) -> list[Item]:
    """The columns an entry of the select list stands for; `kept` are the keys in every grouping set."""
    if item["class"] == "STAR" and not item.get("columns") and not item.get("expr"):
        return _star(ctx, scope, item) if kept is None else [Unknown()]
    made = item["class"] == "FUNCTION" and folded(item["function_name"]) == "unnest"
    if made or has_star(item) or item["class"] == "POSITIONAL_REFERENCE":
        return [Unknown()]
    names = item.get("column_names", ())
    carries = scope.names_unit(item) and (kept is None or shape(scope, item) in kept)
    name = str(item.get("alias") or (names[-1] if names else ""))
    return [Column(name, carries, is_exact(scope, item))]


def _star(ctx: Context, scope: Scope, item: Node) -> list[Item]:
    """Columns of *, t.*, with EXCLUDE, REPLACE and RENAME."""
    asked = folded(str(item.get("relation_name") or ""))
    leaves = [leaf for leaf in scope.leaves if not asked or leaf.alias == asked]
    if not leaves or (asked and len(leaves) > 1):
        return [Unknown()]
    if item.get("qualified_exclude_list"):
        ctx.refuse(item, "columns left out by table and name are not followed; name the columns that stay")
    for entry in item.get("replace_list", ()):
        check(ctx, scope, entry["value"])
    items = star_items(scope, leaves)
    gone = {folded(str(name)) for name in item.get("exclude_list", ())}
    replaced = {folded(str(entry["key"])): entry["value"] for entry in item.get("replace_list", ())}
    renamed: dict[str, str] = {}
    for entry in item.get("rename_list", ()):
        key = entry["key"]
        if set(key) - {"column"}:
            ctx.refuse(item, "columns renamed by table and name are not followed; name the columns")
        renamed[folded(str(key["column"]))] = str(entry["value"])
    return [made for one in items for made in _starred(scope, one, gone, replaced, renamed)]


def _starred(
    scope: Scope, item: Item, gone: set[str], replaced: dict[str, Node], renamed: dict[str, str]
) -> list[Item]:
    if isinstance(item, Unknown):
        kept = {name for name in item.carriers - gone if name not in replaced or scope.names_unit(replaced[name])}
        # Another column may have been given the name of one that is kept.
        given = {folded(new) for old, new in renamed.items() if old not in kept}
        called = {folded(renamed.get(name, name)) for name in kept} - given
        return [Unknown(frozenset(called), (item.without | frozenset(gone)) - given, item.asked)]
    name = folded(item.name)
    if name in gone:
        return []
    if name in replaced:
        return [Column(item.name, scope.names_unit(replaced[name]), is_exact(scope, replaced[name]))]
    return [Column(renamed.get(name, item.name), item.carries, item.exact)]


def _set_operation(ctx: Context, node: Node, outer: Scope | None, ctes: Mapping[str, Relation]) -> Relation:
    parts = [ctx.relation(ctx, child, outer, ctes) for child in node["children"]]
    kind = node["setop_type"]
    if kind in ("UNION", "UNION_BY_NAME"):
        result = _union(ctx, node, parts, by_name=kind == "UNION_BY_NAME")
    elif kind in ("EXCEPT", "INTERSECT"):
        result = _difference(ctx, node, parts, both=kind == "INTERSECT")
    else:
        ctx.refuse(node, f"{kind.lower()} is not followed; use union, except or intersect")
    _modifiers(ctx, node, result, Scope(outer, ctes))
    return result


def _union(ctx: Context, node: Node, parts: list[Relation], *, by_name: bool = False) -> Relation:
    first = parts[0]
    if all(part.public for part in parts):
        return Relation((Unknown(),) if by_name else tuple(_plain(first.items)))
    if any(part.private != first.private or part.confined is not first.confined for part in parts):
        ctx.refuse(
            node,
            "rows of a public table would stand beside rows of units, as if they were theirs; "
            "union private tables only, and join to public ones",
        )
    items = _by_name(parts) if by_name else _by_place(parts)
    if first.private and not carriers(items):
        ctx.refuse(
            node,
            f"{ctx.unit} does not stand in one place in all parts of the union; name the columns of each part, "
            f"{ctx.unit} first",
        )
    return Relation(tuple(items), private=first.private, confined=first.confined)


def _difference(ctx: Context, node: Node, parts: list[Relation], *, both: bool) -> Relation:
    first = parts[0]
    if all(part.public for part in parts):
        return Relation(tuple(_plain(first.items)))
    if first.public or any(not part.public and part.confined is not first.confined for part in parts):
        ctx.refuse(
            node,
            f"which rows of the first part stay depends on the rows of all units; begin with the private part "
            f"and keep {ctx.unit} in both",
        )
    items = _by_place([part for part in parts if not part.public])
    if not carriers(items) and first.confined is None:
        rows = "common to both" if both else "of the first alone"
        ctx.refuse(node, f"rows {rows} are told across units; select {ctx.unit} in the same place of each part")
    return Relation(tuple(items), private=first.private, confined=first.confined)


def _plain(items: tuple[Item, ...]) -> list[Item]:
    return [Column(item.name, exact=False) if isinstance(item, Column) else Unknown() for item in items]


def _by_place(parts: list[Relation]) -> list[Item]:
    """Columns put together by their place, up to where it is not known any more."""
    items: list[Item] = []
    for column in zip(*(part.items for part in parts), strict=False):
        if any(isinstance(item, Unknown) for item in column):
            return [*items, *([column[0]] if len(parts) == 1 else [Unknown()])]
        known = [item for item in column if isinstance(item, Column)]
        items.append(Column(known[0].name, all(c.carries for c in known), all(c.exact for c in known)))
    return items


def _by_name(parts: list[Relation]) -> list[Item]:
    everywhere = [
        name for name in carriers(parts[0].items) if all(lookup(part.items, name) is Found.CARRIES for part in parts)
    ]
    return [*(Column(name, carries=True) for name in everywhere), Unknown()]


def _modifiers(ctx: Context, node: Node, result: Relation, scope: Scope) -> None:
    """ORDER BY, DISTINCT and LIMIT."""
    kinds = [modifier["type"] for modifier in node.get("modifiers", ())]
    for modifier in node.get("modifiers", ()):
        for order in modifier.get("orders", ()):
            check(ctx, scope, order["expression"])
        if modifier["type"] == "LIMIT_MODIFIER":
            _limit(ctx, node, result, scope, ordered="ORDER_MODIFIER" in kinds, modifier=modifier)
        if modifier["type"] == "DISTINCT_MODIFIER":
            if modifier.get("distinct_on_targets"):
                ctx.refuse(
                    modifier,
                    "DISTINCT ON keeps whichever row comes first, which depends on other units; use GROUP BY "
                    f"{ctx.unit}, … with min or max",
                )
            if result.private and not carriers(result.items):
                ctx.refuse(node, f"DISTINCT merges rows of different units; select {ctx.unit} too")


def _limit(ctx: Context, node: Node, result: Relation, scope: Scope, *, ordered: bool, modifier: Node) -> None:
    for count in ("limit", "offset"):
        if modifier.get(count):
            check(ctx, scope, modifier[count])
    place = modifier.get("limit") or modifier.get("offset") or node
    if not result.public:
        ctx.refuse(
            place,
            "LIMIT and OFFSET count the rows of all units; leave them out, or number the rows of each unit: "
            f"qualify row_number() over (partition by {ctx.unit} order by …) <= …",
        )
    if scope.strict or not ordered:
        ctx.refuse(
            place,
            "LIMIT on a public table needs ORDER BY, and a place of its own: with top as (select … order by … "
            "limit …) select …",
        )
