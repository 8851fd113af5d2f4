"""A query may not break the guarantee.

A series protects units: taking all rows of one unit away changes what that unit contributes, and nothing else. So in
the log a query makes, **the rows of each unit must be a function of that unit's own input rows and of public tables,
and a unit without input rows must have none**. `check_query` lets through only what it can show to be so.

It follows the tree DuckDB itself makes of the query (`guarantee_tree`). Every relation is public, private or confined
to one unit (`guarantee_relations`); for a private one it is known which columns name the unit. The unit has to come
through unchanged: a function of it may merge two units into one (lower) or split one in two (with any other column).
In the first case the merged unit still has to touch at most max_keys keys, but its rows change instead of going when
one of the two leaves, which costs more than was declared.

What is taken on trust: that the tables not declared public hold their unit in the column of that name, in one type
for all tables; that values DuckDB takes for equal are the same; that ties in a public table, where they decide, are
decided alike; that files of rows are well formed. An engine's error (a failed cast) tells that some row caused it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from sparsehist.sqlfront.guarantee_relations import Behind, Column, Context, Found, Unknown, lookup
from sparsehist.sqlfront.guarantee_select import relation
from sparsehist.sqlfront.guarantee_tree import parse
from sparsehist.sqlfront.identifiers import folded


def check_query(
    query: str,
    *,
    unit: str,
    keys: Iterable[str] = (),
    public_tables: Collection[str] = frozenset(),
    releases: Collection[tuple[str, ...]] = frozenset(),
    views: Mapping[str, str | Behind] | None = None,
    functions: Collection[str] = frozenset(),
    unclear: Mapping[str, str] | None = None,
    files: Callable[[str], Mapping[str, Behind]] | None = None,
    columns: Callable[[str], Mapping[str, str]] | None = None,
) -> None:
    """Refuse a query unless each unit's rows depend on that unit's own rows and on public tables alone.

    Args:
        query: One SELECT, as DuckDB is to run it.
        unit: Column of the result that names the unit, and of every private table.
        keys: Key columns of the result.
        public_tables: Names as the query writes them (`areas`, `shop.areas`), or files; all others are private.
        releases: Names of tables that are public, in parts and folded, as they are looked up.
        views: Queries of the session's views and tables by their names; they are followed.
        functions: Names of macros and functions the session defined; a query that calls one is refused.
        unclear: Why a table of some name cannot be followed, as what its name is followed by in an error.
        files: What the session wrote into the files that a path means: the query behind each.
        columns: Asks for names and types of a table's columns, given a query `SELECT * FROM <table>` that need not
            be run. Without it, only the unit's column is known.

    Raises:
        GuaranteeError: If it may depend on other rows; the message says where, why and what would be right.

    Example:
        >>> check_query("select user_id, query from log where query <> ''", unit="user_id", keys=("query",))
        >>> check_query("select user_id, query from log limit 10", unit="user_id", keys=("query",))
        Traceback (most recent call last):
        ...
        sparsehist.errors.GuaranteeError: line 1, column 38: LIMIT and OFFSET count the rows of all units; ...
    """
    ctx = Context(
        text=query,
        unit=folded(unit),
        public=frozenset(public_tables) | {folded(name) for name in public_tables},
        views={
            folded(name): behind if isinstance(behind, Behind) else Behind(behind)
            for name, behind in (views or {}).items()
        },
        functions=frozenset(folded(name) for name in functions),
        columns=columns,
        relation=relation,
        releases=frozenset(releases),
        unclear={folded(name): why for name, why in (unclear or {}).items()},
        files=files or (lambda _path: {}),
    )
    tree = parse(query)
    result = relation(ctx, tree, None, {})
    if result.public:
        ctx.refuse({}, f"no private table is read: name one that holds {unit}, or do not declare it public")
    named = [item for item in result.items if isinstance(item, Column) and folded(item.name) == ctx.unit]
    as_written = [item for item in named if item.name == unit] or not named
    if lookup(result.items, unit) is not Found.CARRIES or not all(item.carries for item in named) or not as_written:
        ctx.refuse(
            {},
            f"the result must have one column {unit}, and it must be the column {unit} of a private table, "
            "unchanged: a function of it may merge or split units",
        )
    known = {item.name for item in result.items if isinstance(item, Column)}
    missing = [key for key in keys if key not in known]
    if missing and not any(isinstance(item, Unknown) for item in result.items):
        ctx.refuse({}, f"the result has no column {missing[0]}; its columns are {', '.join(sorted(known - {''}))}")
