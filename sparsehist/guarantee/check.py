"""Check the plan of a query: a unit's output rows must depend only on its own rows and on public tables.

The plan is made by DuckDB's binder, before optimization, over one view per source. `Check` computes which columns of
each operator name the unit, and refuses operators that depend on rows of several units or on their order.

Two things are not checked: that private sources have the unit in the column of that name, and that an engine's error
(a failed cast) reveals that some row caused it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from sparsehist.errors import raise_alone
from sparsehist.guarantee import language, plan
from sparsehist.guarantee.plan import Node, function_of, kind_of, orders_of, parts, place_of, refs, type_of
from sparsehist.guarantee.statement import Rewritten, folded, nodes

_EQUAL = ("COMPARE_EQUAL", "COMPARE_NOT_DISTINCT_FROM")
_CORRELATED = ("EMPTY_RESULT", "LIMIT", "DELIM_GET", "CHUNK_GET")
"""Operators of correlated subqueries."""
_LATERAL = "__duckdb_delim_"
_LATERAL_UNNEST = (
    "PROJECTION MATERIALIZED_CTE AGGREGATE_AND_GROUP_BY CTE_REF PROJECTION COMPARISON_JOIN CTE_REF GET PROJECTION "
    "CTE_REF"
)
"""The operators into which DuckDB turns `unnest(log.tags)` in FROM, from the top down; see `Check._lateral`."""


@dataclass(frozen=True)
class Column:
    """A column of a relation."""

    kind: Any = None
    unit: int | None = None  # the index of the part of the unit that every row of the column contains
    barred: str = ""  # why it must not be used, as a key of `language.REASONS`


@dataclass(frozen=True)
class Relation:
    """Columns of a relation: each row of a private relation belongs to one unit, rows of a public one to no unit."""

    columns: tuple[Column, ...]
    private: bool = False
    unique: frozenset[int] | None = None  # columns that distinguish all rows; None if unknown


class Check:
    """The check of a query for units named by these columns."""

    def __init__(self, query: Rewritten, units: tuple[str, ...]) -> None:
        self._query, self._units = query, units
        self._renamed = [query.renamed(unit) for unit in units]
        self._kinds: dict[int, str] = {}
        self._ctes: dict[int, Relation] = {}

    def run(self, root: Node, columns: Sequence[str], keys: tuple[str, ...]) -> None:
        """Refuse a plan unless each unit's rows depend only on that unit's own rows and on public tables."""
        for name in (*self._units, *keys):
            if sum(folded(column) == folded(name) for column in columns) != 1 or name not in columns:
                self._refuse(None, "one column", name=name, columns=", ".join(columns))
        for node in nodes(root):
            if "expression_class" in node or str(node.get("type")).startswith("LOGICAL_"):
                unknown = plan.unknown_in(node)
                if unknown:
                    reason = "correlated" if unknown in _CORRELATED else "unknown"
                    self._refuse(None, reason, what=unknown.replace("_", " ").lower())
        result = self._relation(root)
        if not result.private:
            self._refuse(None, "all public")
        self._check_usable(*result.columns)
        self._check_output_unit(result, columns)

    def _check_output_unit(self, result: Relation, columns: Sequence[str]) -> None:
        """Refuse an output without the complete unit of each row."""
        for part, unit in enumerate(self._units):
            if result.columns[columns.index(unit)].unit != part:
                self._refuse(None, "no unit", name=unit)

    def _refuse(self, call: Node | None, reason: str, **words: object) -> NoReturn:
        """Refuse the query; the error shows the position of this function or window."""
        name = "" if call is None else function_of(call) or str(call["type"]).removeprefix("WINDOW_").lower()
        equal = " AND ".join(f"a.{name} = b.{name}" for name in self._units)
        said = {"name": name, "instead": language.instead_of(name), "equal": equal, **words}
        raise_alone(self._query.refusal(reason, name, unit=", ".join(self._units), **said))

    # Operators

    def _relation(self, node: Node) -> Relation:
        made: Relation = getattr(self, f"_{kind_of(node).lower()}")(node)
        return made

    def _below(self, node: Node, at: int = 0) -> Relation:
        return self._relation(node["children"][at])

    def _is_named_by(self, relation: Relation, places: Iterable[int | None]) -> bool:
        """Return whether the relation is public, or these columns name the complete unit of each row."""
        found = {relation.columns[at].unit for at in places if at is not None} - {None}
        return not relation.private or len(found) == len(self._units)

    def _are_together(self, left: Relation, right: Relation, equal: Iterable[tuple[int | None, int | None]]) -> bool:
        """Return whether each row of a join belongs to one unit at most; `equal` are the parts that it compares."""
        same = {one for one, other in equal if one is not None and one == other}
        return not (left.private and right.private) or len(same) == len(self._units)

    def _projection(self, node: Node) -> Relation:
        return self._projected(self._below(node), node["expressions"])

    def _projected(self, below: Relation, expressions: Iterable[Node]) -> Relation:
        return Relation(tuple(self._column(below, one) for one in expressions), below.private)

    def _column(self, below: Relation, expression: Node) -> Column:
        at = place_of(expression)
        if at is not None:
            return below.columns[at]
        self._check(below.columns, expression)
        return Column(type_of(expression), self._unit(below, expression))

    def _unit(self, below: Relation, expression: Node) -> int | None:
        """Return the index of the part of the unit that an expression equals, up to injective casts; else None."""
        at = place_of(expression)
        if at is not None:
            return below.columns[at].unit
        tries = (expression.get("function_data") or {}).get("try_cast")
        if expression["type"] != "OPERATOR_CAST" or tries or function_of(expression) != "__cast":
            return None
        (inside,) = expression["children"]
        kept = language.keeps_units_apart(type_of(inside), type_of(expression))
        return self._unit(below, inside) if kept else None

    def _get(self, node: Node) -> Relation:
        if function_of(node) in ("range", "generate_series") and not node.get("children"):
            return Relation((Column({"id": "BIGINT"}),) * len(node.get("column_indexes", ())))
        path = (node.get("function_data") or {}).get("qualified_name", {}).get("path", ())
        source = self._query.sources.get(str(path[-1]).removeprefix("hidden_")) if path else None
        names, places = (
            list(map(folded, node["names"])),
            [int(one.get("index", -1)) for one in node["column_indexes"]],
        )
        plain = function_of(node) == "seq_scan" and list(path[:2]) == ["memory", "main"] and not node.get("children")
        if source is None or not plain or not set(places) <= set(range(len(names))):
            self._refuse(None, "no source", name=function_of(node))
        columns = list(map(Column, node["returned_types"]))
        for part in range(0 if source.public else len(self._units)):
            found = [at for at, name in enumerate(names) if name == folded(self._units[part])]
            found = found or [at for at, name in enumerate(names) if name in self._renamed[part]]
            if len(found) > 1:
                self._refuse(None, "two units", name=source.name, column=self._units[part])
            for at in found:
                self._check_unit(source.name, part, columns[at].kind)
                columns[at] = replace(columns[at], unit=part)
        return Relation(tuple(columns[at] for at in places), not source.public)

    def _check_unit(self, source: str, part: int, kind: Any) -> None:
        """Refuse invalid types of units, and two different types: different units might compare equal."""
        name, found = self._units[part], language.unit_kind(kind)
        if not found:
            self._refuse(None, "unfit unit", name=name, kind=language.name_of(kind).lower())
        known = self._kinds.setdefault(part, found)
        if known != found:
            self._refuse(None, "two types", name=source, column=name, here=found.lower(), there=known.lower())

    def _dummy_scan(self, _: Node) -> Relation:
        return Relation((Column(),))

    def _expression_get(self, node: Node) -> Relation:
        below = self._below(node)
        for row in node["expressions"]:
            self._check(below.columns, *row)
        return Relation(tuple(map(Column, node["expr_types"])), below.private)

    def _filter(self, node: Node) -> Relation:
        """Check the conditions of WHERE. One may be IN (query), if it is false or null for rows of other units."""
        below, conditions = self._below(node), plan.conditions_of(node["expressions"])
        held = {place_of(one) for one in conditions}
        marks = {at for at, one in enumerate(below.columns) if at in held and one.barred == "condition"}
        self._check(below.columns, *(one for one in conditions if place_of(one) not in marks))
        columns = [replace(one, barred="correlated") if at in held else one for at, one in enumerate(below.columns)]
        return replace(below, columns=tuple(columns))

    def _order_by(self, node: Node) -> Relation:
        below = self._below(node)
        self._check(below.columns, *orders_of(node))
        return below

    def _comparison_join(self, node: Node) -> Relation:
        how, left, right = str(node.get("join_type", "INNER")), self._below(node), self._below(node, 1)
        if how not in ("INNER", "LEFT", "SEMI", "ANTI", "MARK") or node.get("left_projection_map"):
            self._refuse(None, "correlated")
        paired = [one for one in node.get("conditions", ()) if "right" in one]
        others = [one["left"] for one in node.get("conditions", ()) if "right" not in one]
        self._check(left.columns, *(one["left"] for one in paired))
        self._check(right.columns, *(one["right"] for one in paired))
        both = (*left.columns, *right.columns)
        self._check(both, *others, *filter(None, map(node.get, ("condition", "predicate"))))
        together = self._are_together(
            left, right,
            [(self._unit(left, one["left"]), self._unit(right, one["right"]))
             for one in paired if one.get("comparison") in _EQUAL],
        )  # fmt: skip
        if how == "INNER" and not together:
            self._refuse(None, "units meet")
        if how != "INNER" and right.private and not (left.private and together):
            self._refuse(None, "partner")
        beside = {
            "INNER": right.columns,
            "LEFT": [replace(one, unit=None) for one in right.columns],
            "MARK": [Column({"id": "BOOLEAN"}, barred="condition" if right.private else "")],
        }.get(how, ())
        return Relation((*left.columns, *beside), left.private or right.private)

    _any_join = _cross_product = _comparison_join

    def _aggregate_and_group_by(self, node: Node) -> Relation:
        groups, computed, below = node.get("groups", []), node.get("expressions", []), self._below(node)
        if len(node.get("grouping_sets", ())) > 1:
            self._refuse(None, "GROUPING_SETS")
        if not self._is_named_by(below, map(place_of, groups)):
            self._refuse(computed[0] if computed else None, "group")
        grouped = [self._column(below, group) for group in groups]
        self._check_alike(grouped, "GROUP BY")
        made = [self._aggregate(one, below) for one in computed]
        return Relation((*grouped, *made), below.private, frozenset(range(len(groups))))

    def _aggregate(self, one: Node, below: Relation, *, window: bool = False) -> Column:
        """Return the column of an aggregate, which must not depend on the order of rows."""
        name, kind, given = function_of(one), type_of(one), one.get("children", ())
        self._check(below.columns, *parts(one))
        arguments = [part for part in given if refs(part)]
        if name not in language.ADDING | language.ORDERLESS | (frozenset() if window else language.ORDERED):
            self._refuse(one, "function")
        if not below.private:
            return Column(kind)
        if refs(*given[1:]):  # max(x, n) takes n from the first row
            self._refuse(one, "unknown", what=f"{name} of a number in each row")
        if name in language.ADDING and not all(language.adds_exactly(type_of(part)) for part in given):
            self._refuse(one, "floats")
        if name in language.ORDERED and not refs(*arguments) <= self._told(orders_of(one), below):
            self._refuse(one, "ties")
        counts = name.startswith(("count", "bool_", "bit_"))
        if name in language.ORDERLESS and not counts and not all(map(language.is_alike, map(type_of, arguments))):
            self._refuse(one, "alike")
        return Column(kind)

    def _window(self, node: Node) -> Relation:
        """Check windows. Those that pick rows need an order that distinguishes all rows, except equal ones.

        Two such windows with different orders are refused if rows may be equal, since ties may be broken differently.
        """
        below, windows = self._below(node), node["expressions"]
        made = [self._one_window(one, below) for one in windows]
        usable = {at for at, column in enumerate(below.columns) if column.barred in ("", "condition")}
        first = None
        for one in filter(plan.picks_rows, windows):
            told = self._told([*one.get("partitions", ()), *orders_of(one)], below)
            if below.unique is not None and below.unique <= told:
                continue
            order = (one.get("partitions"), one.get("orders"))
            if not usable <= told or (first or order) != order:
                self._refuse(one, "two windows" if usable <= told else "ties")
            first = order
        return Relation((*below.columns, *made), below.private, below.unique)

    def _one_window(self, one: Node, below: Relation) -> Column:
        self._check(below.columns, *parts(one))
        if one["type"] not in language.RANKS | language.PLACES | {"WINDOW_AGGREGATE"}:
            self._refuse(one, "unknown", what="this window function")
        if not self._is_named_by(below, map(place_of, one.get("partitions", ()))):
            self._refuse(one, "window")
        return self._aggregate(one, below, window=True) if one["type"] == "WINDOW_AGGREGATE" else Column(type_of(one))

    @staticmethod
    def _told(orders: list[Node], below: Relation) -> set[int]:
        """Return the columns whose values an order distinguishes; a struct counts as its columns.

        The text of a struct also distinguishes equal values such as 0.0 and -0.0, if the struct is in the order too.
        """
        structs = [one for one in orders if function_of(one) == "struct_pack"]
        casts = [one for one in orders if one["type"] == "OPERATOR_CAST"]
        texts = [one["children"][0] for one in casts if language.name_of(type_of(one)) == "VARCHAR"]
        by_text = [part for one in structs if one in texts for part in one["children"]]
        found = map(place_of, [*orders, *(part for one in structs for part in one["children"])])
        alike = {at for at in found if at is not None and language.is_alike(below.columns[at].kind)}
        return alike | {at for at in map(place_of, by_text) if at is not None}

    def _distinct(self, node: Node) -> Relation:
        below, targets = self._below(node), list(map(place_of, node.get("distinct_targets", ())))
        if not self._is_named_by(below, targets):
            self._refuse(None, "distinct")
        self._check_alike((below.columns[at] for at in targets if at is not None), "DISTINCT")
        columns = (
            one if at in targets else replace(one, barred="distinct on") for at, one in enumerate(below.columns)
        )
        return replace(below, columns=tuple(columns))

    def _union(self, node: Node) -> Relation:
        sides = [self._below(node, at) for at in range(len(node["children"]))]
        private = any(side.private for side in sides)
        if private and not all(side.private for side in sides):
            self._refuse(None, "union with public")
        columns = []
        for held in zip(*(side.columns for side in sides), strict=True):
            self._check_usable(*held)
            units = {one.unit for one in held}
            columns.append(Column(held[0].kind, units.pop() if len(units) == 1 else None))
        made = Relation(tuple(columns), private)
        if not self._is_named_by(made, range(len(columns))):
            self._refuse(None, "union")
        if not node.get("setop_all"):
            self._check_alike(columns, "UNION")
        return made

    def _unnest(self, node: Node) -> Relation:
        below = self._below(node)
        self._check(below.columns, *(one["child"] for one in node["expressions"]))
        return Relation((*below.columns, *(Column(type_of(one)) for one in node["expressions"])), below.private)

    def _materialized_cte(self, node: Node) -> Relation:
        if str(node.get("ctename", "")).startswith(_LATERAL):
            return self._lateral(node)
        self._ctes[int(node["table_index"])] = self._below(node)
        return self._below(node, 1)

    def _cte_ref(self, node: Node) -> Relation:
        return self._ctes[int(node["cte_index"])]

    def _lateral(self, node: Node) -> Relation:
        """Check `FROM log, unnest(log.tags)`, the only part of FROM that may refer to the row of another part.

        DuckDB runs unnest once per row number, or once per distinct argument, and joins the results back to the rows
        on that number or argument. Any other plan of this shape is a correlated query and is refused.
        """
        kept, rest = node["children"]
        found = list(plan.descendants(rest))
        if " ".join(map(kind_of, found)) != _LATERAL_UNNEST or kind_of(kept) != "PROJECTION":
            self._refuse(None, "correlated")
        outer, inner, distinct, seen, again, join, left, call, given, taken = found
        (below,), expressions = kept["children"], kept["expressions"]
        values = [place_of(one) for one in distinct["groups"]]
        numbered = kind_of(below) == "WINDOW"
        if numbered:  # the last column is the row number, which the query cannot use
            (below,), expressions = below["children"], expressions[:-1]
        rows = self._projected(self._relation(below), expressions)
        width, conditions = len(rows.columns), join.get("conditions", ())
        plain = (
            [one["cte_index"] for one in (seen, left, taken)] == [one["table_index"] for one in (node, node, inner)]
            and function_of(call) == "unnest" and str(join["join_type"]) in ("INNER", "LEFT")
            and join.get("left_projection_map", []) == (list(range(width)) if numbered else [])
            and join.get("right_projection_map") == list(range(len(call["returned_types"])))
            and all(one.get("comparison") == "COMPARE_NOT_DISTINCT_FROM" for one in conditions)
            and ({width} if numbered else set(values)) <= {place_of(one["left"]) for one in conditions}
            and not join.get("predicate")
        )  # fmt: skip
        if not plain:
            self._refuse(None, "correlated")
        looked_at = [rows.columns[at] for at in values if at is not None and at < width]
        self._check_usable(*looked_at)
        if not numbered:
            self._check_alike(looked_at, "unnest")
        self._check(None, *given["expressions"])
        made = Relation((*rows.columns, *map(Column, call["returned_types"])), rows.private)
        return self._projected(self._projected(made, again["expressions"]), outer["expressions"])

    # Expressions

    def _check_usable(self, *columns: Column) -> None:
        for column in columns:
            if column.barred:
                self._refuse(None, column.barred)

    def _check_alike(self, columns: Iterable[Column], what: str) -> None:
        """Refuse columns in which equal values can be distinguished, since merging depends on the order of rows."""
        for column in columns:
            self._check_usable(column)
            if not language.is_alike(column.kind):
                self._refuse(None, "alike", name=what)

    def _check(self, columns: Sequence[Column] | None, *expressions: Node) -> None:
        """Refuse expressions that depend on other rows; if `columns` is None, they may use every column."""
        for one in expressions:
            at, kind = place_of(one), one["expression_class"]
            if kind in ("BOUND_REF", "BOUND_COLUMN_REF"):
                if columns is not None:
                    self._check_usable(Column(barred="correlated") if at is None else columns[at])
                continue
            if kind in ("BOUND_AGGREGATE", "BOUND_WINDOW"):
                self._refuse(one, "more rows")
            if not language.is_known(type_of(one)):
                self._refuse(one, "type", name=language.name_of(type_of(one)).lower())
            if kind == "BOUND_FUNCTION" and function_of(one) not in language.SCALARS:
                self._refuse(one, "function")
            if kind == "BOUND_LAMBDA":
                self._check(None, one["lambda_expr"])
            self._check(columns, *parts(one))
