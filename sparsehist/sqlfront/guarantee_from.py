"""FROM: which tables a query reads, and that rows of different units never meet in a join."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from sparsehist.errors import GuaranteeError
from sparsehist.sqlfront.guarantee_expressions import check, equalities
from sparsehist.sqlfront.guarantee_files import (
    READERS,
    check_file_name,
    check_no_file,
    check_reader,
    looks_like_file,
    paths_of,
)
from sparsehist.sqlfront.guarantee_functions import exact_type, whole_number
from sparsehist.sqlfront.guarantee_relations import (
    Behind,
    Column,
    Context,
    Found,
    Item,
    Leaf,
    Relation,
    Scope,
    Unknown,
    Whose,
    carriers,
    lookup,
)
from sparsehist.sqlfront.guarantee_tree import Node, below, parse, sub_nodes, written
from sparsehist.sqlfront.identifiers import folded

# They list values of their arguments: numbers, or what a row of a table to their left holds.
_OF_ARGUMENTS = frozenset(("unnest", "range", "generate_series", "repeat", "json_each", "json_tree"))
# Catalogues and schemas that a session begins with.
_USUAL = frozenset(("main", "memory", "temp"))
_SAMPLED = "a sample is drawn from the rows of all units; keep rows by a condition on the row itself"


def add_tables(ctx: Context, scope: Scope, node: Node) -> None:
    """Put the tables of a FROM clause into a scope.

    Raises:
        GuaranteeError: If one cannot be followed, or rows of different units meet.
    """
    kind = node["type"]
    if node.get("sample"):
        ctx.refuse(node, _SAMPLED)
    if kind == "JOIN":
        _join(ctx, scope, node)
    elif kind == "BASE_TABLE":
        _add(scope, node, _table(ctx, scope, node), tuple(_path(node)))
    elif kind == "SUBQUERY":
        _add(scope, node, ctx.relation(ctx, node["subquery"]["node"], scope, scope.ctes))
    elif kind == "TABLE_FUNCTION":
        _add(scope, node, _table_function(ctx, scope, node))
    elif kind == "EXPRESSION_LIST":
        for part in sub_nodes(node.get("values", [])):
            check(ctx, scope, part)
        _add(scope, node, Relation((Unknown(),)))
    elif kind == "PIVOT":
        _add(scope, node, _unpivot(ctx, scope, node))
    elif kind != "EMPTY":
        ctx.refuse(node, f"{kind.lower().replace('_', ' ')} in FROM is not followed; name tables and queries")


def _add(scope: Scope, node: Node, relation: Relation, path: tuple[str, ...] = ()) -> None:
    whose = relation.confined or (Whose() if relation.private else None)
    if whose and relation.confined is None:
        scope.own.add(whose)
    alias = folded(str(node.get("alias") or (path[-1] if path else "")))
    items = relation.renamed(node.get("column_name_alias", ())).items
    scope.leaves.append(Leaf(alias, () if node.get("alias") else path, items, whose))


def _path(node: Node) -> list[str]:
    parts = node.get("qualified_name", {}).get("path") or [node["table_name"]]
    return [folded(str(part)) for part in parts]


def _table(ctx: Context, scope: Scope, node: Node) -> Relation:
    """What a name in FROM stands for: a common table expression, a view, a public table or a private one."""
    path = _path(node)
    if len(path) == 1 and path[0] in scope.ctes:
        return scope.ctes[path[0]]
    name = ".".join(path)
    if path[-1] in ctx.unclear:
        ctx.refuse(node, f"{name} {ctx.unclear[path[-1]]}")
    if any(_may_be(path, view.split(".")) for view in ctx.views):
        ctx.refuse(node, f"{name} may be a view of the session; write its name as the session has it")
    if name in ctx.views:
        relation = _view(ctx, node, name)
        if name in ctx.public and not relation.public:
            ctx.refuse(node, f"{name} was declared public, but it is a view that reads private tables")
        return relation
    as_written = str(node["table_name"])
    is_file = len(path) == 1 and looks_like_file(as_written)
    public = (as_written if is_file else name) in ctx.public or tuple(path) in ctx.releases
    if is_file and not public:
        check_file_name(ctx, node, as_written)
        _check_written(ctx, node, [as_written])
    if len(path) > 1 and not public:
        check_no_file(ctx, node, name)
    return _of_source(ctx, node, private=not public)


def _check_written(ctx: Context, node: Node, paths: list[str]) -> None:
    """Check what the session itself wrote into files; made-up rows, of no private table, are a log like any other."""
    for file, behind in (pair for path in paths for pair in ctx.files(path).items()):
        if any(behind is before for before in ctx.followed):  # written from itself, as it was before
            continue
        relation = _behind(ctx, node, file, behind)
        if not relation.public and lookup(relation.items, ctx.unit) is not Found.CARRIES:
            ctx.refuse(node, f"{file}, as it was written, does not name the unit in {ctx.unit}")


def _may_be(path: list[str], view: list[str]) -> bool:
    """Whether two names written in different ways may mean one thing: what stands first of two may be either."""
    if path == view or path[-1] != view[-1]:
        return False
    shorter, longer = sorted((path[:-1], view[:-1]), key=len)
    if len(shorter) == len(longer) == 1:
        return bool({*shorter, *longer} & _USUAL)
    return not shorter or (len(shorter) < len(longer) and shorter[-1] in longer)


def _view(ctx: Context, node: Node, name: str) -> Relation:
    if any(behind is ctx.views[name] for behind in ctx.followed):
        ctx.refuse(node, f"the view {name} reads itself")
    return _behind(ctx, node, name, ctx.views[name])


def _behind(ctx: Context, node: Node, name: str, behind: Behind) -> Relation:
    """What the query behind a view, a table or a file returns."""
    if not behind.text:
        ctx.refuse(node, f"{name} was written from what cannot be followed")
    try:
        tree = parse(behind.text)
    except GuaranteeError as problem:
        ctx.refuse(node, f"what stands behind {name} cannot be followed: {problem.reason}")
    inner = replace(ctx, text=behind.text, inside=(*ctx.inside, name), followed=(*ctx.followed, behind))
    if behind.views is not None:  # what it rests on was clear when it was made
        views = {other: text for other, text in behind.views.items() if other not in ctx.public}
        inner = replace(inner, views=views, unclear={})
    return ctx.relation(inner, tree, None, {})


def _of_source(ctx: Context, node: Node, *, private: bool) -> Relation:
    """A table, view or file that is taken as it is; private ones hold the unit in the column of that name."""
    bare = {**node, "alias": "", "column_name_alias": []}
    known = ctx.columns(written(bare)) if ctx.columns is not None else None
    if not known:
        return Relation((Unknown(frozenset({ctx.unit}) if private else frozenset(), asked=True),), private=private)
    if private and ctx.unit not in {folded(name) for name in known}:
        ctx.refuse(
            node, f"this table has no column {ctx.unit}, so its rows belong to no unit; declare it public, or add one"
        )
    if private:
        _one_type(ctx, node, next(kind for name, kind in known.items() if folded(name) == ctx.unit))
    items = [Column(name, private and folded(name) == ctx.unit, exact_type(kind)) for name, kind in known.items()]
    return Relation(tuple(items), private=private)


def _one_type(ctx: Context, node: Node, kind: str) -> None:
    """Refuse units of several types: compared across types, two of one table may equal one of the other."""
    kind = "a whole number" if whole_number(kind) else kind
    ctx.units.setdefault("type", kind)
    if ctx.units["type"] != kind:
        ctx.refuse(
            node,
            f"{ctx.unit} is {kind} here and {ctx.units['type']} in another table, and two units may become one where "
            "types meet; store it in one type",
        )


def _table_function(ctx: Context, scope: Scope, node: Node) -> Relation:
    call = node["function"]
    name, path = folded(str(call["function_name"])), call.get("qualified_name", {}).get("path", ())
    if name in ctx.functions or len(path) > 1:
        ctx.refuse(node, f"what {name} reads is not known; write its query out")
    numbered = node.get("with_ordinality", "WITHOUT_ORDINALITY") != "WITHOUT_ORDINALITY"
    if name in _OF_ARGUMENTS:
        for argument in call.get("arguments", ()):
            check(ctx, scope, argument["expression"])
        return Relation((Unknown(),))
    if name not in READERS or numbered:
        ctx.refuse(
            node, f"what {name} reads is not known to be rows of the unit alone; use {', '.join(sorted(READERS))}"
        )
    paths = paths_of(call)
    if paths and all(path in ctx.public for path in paths):
        return _of_source(ctx, node, private=False)
    check_reader(ctx, {**call, "query_location": node["query_location"]})
    _check_written(ctx, node, paths)
    return _of_source(ctx, node, private=True)


def _unpivot(ctx: Context, scope: Scope, node: Node) -> Relation:
    """Columns made rows; rows made columns is refused."""
    if not node.get("unpivot_names") or node.get("aggregates") or node.get("groups"):
        ctx.refuse(
            node,
            "a pivot gathers rows over all columns it is not told of; write aggregates with FILTER and GROUP BY "
            f"{ctx.unit}",
        )
    inner = Scope(scope, scope.ctes)
    add_tables(ctx, inner, node["source"])
    source = inner.leaves[0]
    parts = [part for pivot in node["pivots"] for part in below(pivot)]
    if len(inner.leaves) > 1 or any(part.get("class") not in (None, "COLUMN_REF", "STAR") for part in parts):
        ctx.refuse(node, "only columns of one table are unpivoted; join and compute in a query inside")
    for pivot in node["pivots"]:
        for part in sub_nodes(pivot):
            check(ctx, inner, part)
    made = {folded(name) for name in node["unpivot_names"]}
    kept = set(carriers(source.items)) if source.whose else set()
    for pivot in node["pivots"]:
        made |= {folded(name) for name in pivot.get("unpivot_names", ())}
        for entry in pivot.get("entries", ()):
            turned = entry.get("star_expr") or {}
            names = {folded(name) for name in turned.get("column_names", ())}
            spared = {folded(str(name)) for name in turned.get("exclude_list", ())}
            plain = turned.get("class") == "COLUMN_REF"
            kept = kept - names if plain else kept & spared if turned.get("class") == "STAR" else set()
    items = (Unknown(frozenset(folded(name) for name in kept) - made),)
    own = source.whose in inner.own
    return Relation(items, private=bool(source.whose and own), confined=None if own else source.whose)


def _join(ctx: Context, scope: Scope, node: Node) -> None:
    start = len(scope.leaves)
    add_tables(ctx, scope, node["left"])
    middle = len(scope.leaves)
    add_tables(ctx, scope, node["right"])
    left, right = scope.leaves[start:middle], scope.leaves[middle:]
    how, style = node["join_type"], node["ref_type"]
    if style not in ("REGULAR", "CROSS", "NATURAL", "ASOF"):
        ctx.refuse(node, f"a {style.lower()} join pairs rows by where they stand; join on columns")
    if style == "ASOF" and scope.roots(right):
        ctx.refuse(
            node, "an asof join takes any of the rows that tie; join to a query that takes max(time) for each unit"
        )
    if how not in ("INNER", "LEFT", "RIGHT", "OUTER", "FULL", "SEMI", "ANTI"):
        ctx.refuse(node, f"a {how.lower()} join is not followed; use inner, left, semi or anti")
    inner = scope.narrowed(start)
    merged = _merge(ctx, scope, left, right, node)
    equal = [*equalities(inner, node.get("condition")), *((one, other) for one, other in merged.values())]
    _learn(scope, how, left, right, [(one, other) for one, other in equal if one and other])
    if node.get("condition"):
        check(ctx, inner, node["condition"], keeps_rows=how == "INNER")
    _stay_apart(ctx, scope, node, left, right)
    for name, carries in merged.items():
        scope.using[name] = _merged(scope, how, carries)
    for leaf in [*(right if how in ("LEFT", "OUTER", "FULL") else ()), *(left if how not in _KEEPS_LEFT else ())]:
        leaf.nullable = True
    if how in ("SEMI", "ANTI"):
        del scope.leaves[middle:]


_KEEPS_LEFT = ("INNER", "LEFT", "SEMI", "ANTI")


def _merge(
    ctx: Context, scope: Scope, left: list[Leaf], right: list[Leaf], node: Node
) -> dict[str, tuple[Whose | None, Whose | None]]:
    """Columns of USING or a natural join: whose unit the left one is, and the right one."""
    names = [folded(str(name)) for name in node.get("using_columns", ())]
    for name in names:
        check(ctx, scope, {"query_location": node["query_location"], "class": "COLUMN_REF", "column_names": [name]})
    if node["ref_type"] == "NATURAL":
        names = [name for name in _carried(left) if name in _carried(right)]
        for leaf in right:  # other columns are merged too, which ones is not known
            leaf.items = (Unknown(frozenset(_carried([leaf]))),)
    return {name: (_side(scope, left, name, known=True), _side(scope, right, name)) for name in names}


def _learn(scope: Scope, how: str, left: list[Leaf], right: list[Leaf], equal: list[tuple[Whose, Whose]]) -> None:
    """Note which units a join makes equal: not two of a side whose rows are kept without a partner."""
    alone = [left] if how in ("LEFT", "ANTI") else [right] if how == "RIGHT" else [left, right]
    for one, other in equal:
        pair = {scope.root(one), scope.root(other)}
        if how in ("INNER", "SEMI") or not any(pair <= scope.roots(side) for side in alone):
            scope.equate(one, other)


def _carried(leaves: list[Leaf]) -> list[str]:
    return [folded(name) for leaf in leaves if leaf.whose and not leaf.nullable for name in carriers(leaf.items)]


def _side(scope: Scope, leaves: list[Leaf], name: str, *, known: bool = False) -> Whose | None:
    if known and name in scope.using:
        return scope.using[name]
    found = [(leaf, leaf.find(name)) for leaf in leaves]
    certain = [(leaf, what) for leaf, what in found if what in (Found.CARRIES, Found.PLAIN)]
    return certain[0][0].whose if len(certain) == 1 and certain[0][1] is Found.CARRIES else None


def _merged(scope: Scope, how: str, sides: tuple[Whose | None, Whose | None]) -> Whose | None:
    """Whose unit the merged column is: that of the side whose rows are kept, of both if both are."""
    left, right = sides
    if how in _KEEPS_LEFT:
        return left
    if how == "RIGHT":
        return right
    return left if left and right and scope.root(left) is scope.root(right) else None


def _stay_apart(ctx: Context, scope: Scope, node: Node, left: list[Leaf], right: list[Leaf]) -> None:
    """Refuse an outer, semi or anti join whose missing partner may be a row of another unit."""
    how = node["join_type"]
    if how in ("LEFT", "SEMI", "ANTI"):
        _partners(ctx, scope, node, kept=left, partners=right)
    elif how == "RIGHT":
        _partners(ctx, scope, node, kept=right, partners=left)
    elif how in ("OUTER", "FULL"):
        of_rows = [scope.root(leaf.whose) if leaf.whose else None for leaf in (*left, *right)]
        if any(whose in scope.own for whose in of_rows) and len(set(of_rows)) > 1:
            _refuse_join(ctx, node)


def _partners(ctx: Context, scope: Scope, node: Node, *, kept: list[Leaf], partners: list[Leaf]) -> None:
    roots = scope.roots(partners)
    local = {whose for whose in roots if whose in scope.own}
    if local and (len(roots) > 1 or not roots <= scope.roots(kept)):
        _refuse_join(ctx, node)


def _refuse_join(ctx: Context, node: Node) -> NoReturn:
    ctx.refuse(
        node,
        "whether a row has a partner here depends on the rows of several units; join private tables with "
        f"{ctx.unit} = {ctx.unit} (ON or USING), and do not keep rows of public tables that have no partner",
    )


def check_one_unit(ctx: Context, scope: Scope, node: Node) -> Whose | None:
    """Whose rows the query holds, once all its conditions are known; None if they are public.

    Raises:
        GuaranteeError: If rows of different units are joined.
    """
    roots = scope.roots()
    if len(roots) > 1:
        private = [leaf for leaf in scope.leaves if leaf.whose]
        names = [leaf.alias or f"table {number + 1}" for number, leaf in enumerate(private)]
        equal = f"{names[0]}.{ctx.unit} = {names[-1]}.{ctx.unit}"
        ctx.refuse(
            node,
            f"rows of different units meet in a join of {' and '.join(dict.fromkeys(names))}; join on the unit, "
            f"{equal}, or declare one of them public",
        )
    return next(iter(roots), None)


def star_items(scope: Scope, leaves: list[Leaf]) -> list[Item]:
    """The columns * stands for."""
    items: list[Item] = []
    seen: set[str] = set()
    for leaf in leaves:
        for item in leaf.items:
            if isinstance(item, Unknown):
                held = {name for name in item.carriers if leaf.whose and not leaf.nullable}
                held = {name for name in held if name not in scope.using or scope.using[name]} - seen
                items.append(Unknown(frozenset(held), item.without | (seen & set(scope.using)), item.asked))
                seen |= set(scope.using) & item.carriers
            elif folded(item.name) not in scope.using:
                carries = item.carries and leaf.whose is not None and not leaf.nullable
                items.append(Column(item.name, carries, item.exact))
            elif folded(item.name) not in seen:
                seen.add(folded(item.name))
                items.append(Column(item.name, scope.using[folded(item.name)] is not None, item.exact))
    return items
