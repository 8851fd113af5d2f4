"""Check the plan of a query: the rows of each unit must be a function of that unit's own rows and of public tables.

The plan is the one DuckDB's binder makes, before it is optimized, over one view per source. `Check` computes for each
operator which of its columns name the unit, and refuses what looks at rows of several units or at their order.

On trust are that private sources hold the unit in the column of that name, and that an engine's error (a failed
cast) tells that some row caused it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from sparsehist.errors import raise_alone
from sparsehist.guarantee import language, plan
from sparsehist.guarantee.plan import Node, function_of, kind_of, orders_of, parts, place_of, refs, type_of
from sparsehist.guarantee.statement import Rewritten, folded

_EQUAL = ("COMPARE_EQUAL", "COMPARE_NOT_DISTINCT_FROM")
_LATERAL = "__duckdb_delim_"
_LATERAL_UNNEST = (
    "PROJECTION MATERIALIZED_CTE AGGREGATE_AND_GROUP_BY CTE_REF PROJECTION COMPARISON_JOIN CTE_REF GET PROJECTION "
    "CTE_REF"
)
"""What DuckDB makes of `unnest(log.tags)` in FROM, from the top down; see `Check._lateral`."""


@dataclass(frozen=True)
class Column:
    """A column of a relation.

    Attributes:
        kind: Its type.
        unit: Which part of the unit it is, in every row; None for other values.
        barred: Why it may not be used, as a key of `language.REASONS`; empty if it may.
    """

    kind: Any = None
    unit: int | None = None
    barred: str = ""


@dataclass(frozen=True)
class Relation:
    """Columns; each row of a private relation belongs to one unit, rows of a public one to nobody.

    `unique` columns tell all rows apart, if some are known to.
    """

    columns: tuple[Column, ...]
    private: bool = False
    unique: frozenset[int] | None = None

    def taking(self, places: Sequence[int | None], columns: Iterable[Column]) -> Relation:
        """Return a relation of other columns with the same rows; `places` says which of these columns they are."""
        new = {old: at for at, old in enumerate(places) if old is not None}
        kept = self.unique is not None and self.unique <= new.keys()
        unique = frozenset(new[old] for old in self.unique or ()) if kept else None
        return Relation(tuple(columns), self.private, unique)


class Check:
    """The check of one query for units of these names."""

    def __init__(self, query: Rewritten, units: tuple[str, ...]) -> None:
        self._query, self._units = query, units
        self._renamed = [query.renamed(unit) for unit in units]
        self._kinds: dict[int, str] = {}
        self._unfit: dict[int, str] = {}
        self._ctes: dict[int, Relation] = {}

    def run(self, root: Node, columns: Sequence[str], keys: tuple[str, ...]) -> None:
        """Refuse a plan unless each unit's rows depend on that unit's own rows and on public tables alone."""
        for name in (*self._units, *keys):
            if sum(folded(column) == folded(name) for column in columns) != 1 or name not in columns:
                self._refuse(None, "one column", name=name, columns=", ".join(columns))
        for node in plan.descendants(root):
            if kind_of(node) in plan.CORRELATED:
                self._refuse(None, "correlated")
            self._check_known(node)
        result = self._relation(root)
        if not result.private:
            self._refuse(None, "all public")
        self._check_usable(*result.columns)
        for part, unit in enumerate(self._units):
            if result.columns[columns.index(unit)].unit != part:
                unfit = self._unfit.get(part)
                self._refuse(None, "unfit unit" if unfit else "no unit", name=unit, kind=unfit)

    def _refuse(self, call: Node | None, reason: str, **words: object) -> NoReturn:
        """Refuse the query, at the call of a function or window of the plan."""
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
        """Return whether columns name the unit of each row in full, or rows belong to nobody."""
        found = {relation.columns[at].unit for at in places if at is not None} - {None}
        return not relation.private or len(found) == len(self._units)

    def _are_together(self, left: Relation, right: Relation, equal: Iterable[tuple[int | None, int | None]]) -> bool:
        """Return whether the rows of a join have one unit at most; `equal` are parts of units that it compares."""
        same = {one for one, other in equal if one is not None and one == other}
        return not (left.private and right.private) or len(same) == len(self._units)

    def _projection(self, node: Node) -> Relation:
        below = self._below(node)
        columns = [self._column(below, one) for one in node["expressions"]]
        return below.taking(list(map(place_of, node["expressions"])), columns)

    def _column(self, below: Relation, expression: Node) -> Column:
        at = place_of(expression)
        if at is not None:
            return below.columns[at]
        self._check(below.columns, expression)
        return Column(type_of(expression), self._unit(below, expression))

    def _unit(self, below: Relation, expression: Node) -> int | None:
        """Return what part of the unit an expression is, unchanged or by casts that keep all values apart."""
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
        plain = function_of(node) == "seq_scan" and list(path[:2]) == ["memory", "main"] and not node.get("children")
        if source is None or not plain or node.get("source_ordinality") != "WITHOUT_ORDINALITY":
            self._refuse(None, "no source", name=function_of(node))
        names = list(map(folded, node["names"]))
        units: dict[int, int] = {}
        for part in range(0 if source.public else len(self._units)):
            found = [at for at, name in enumerate(names) if name == folded(self._units[part])]
            found = found or [at for at, name in enumerate(names) if name in self._renamed[part]]
            if len(found) > 1:
                self._refuse(None, "two units", name=source.name, column=self._units[part])
            units |= dict.fromkeys(found, part)
        columns = []
        for given in node["column_indexes"]:
            at = int(given.get("index", len(names)))
            if at >= len(names):
                self._refuse(None, "no column", name=source.name)
            kind = node["returned_types"][at]
            named = at in units and self._is_unit(source.name, units[at], kind)
            columns.append(Column(kind, units[at] if named else None))
        return Relation(tuple(columns), not source.public)

    def _is_unit(self, source: str, part: int, kind: Any) -> bool:
        """Refuse units of several types: two of one type may equal one of the other. False for no type of a unit."""
        found = language.unit_kind(kind)
        if not found:
            self._unfit[part] = language.name_of(kind).lower()
        if found and self._kinds.setdefault(part, found) != found:
            here, there = found.lower(), self._kinds[part].lower()
            self._refuse(None, "two types", name=source, column=self._units[part], here=here, there=there)
        return bool(found)

    def _dummy_scan(self, _: Node) -> Relation:
        return Relation((Column(),))

    def _expression_get(self, node: Node) -> Relation:
        below = self._below(node)
        for row in node["expressions"]:
            self._check(below.columns, *row)
        return Relation(tuple(map(Column, node["expr_types"])), below.private)

    def _filter(self, node: Node) -> Relation:
        (child,), conditions = node["children"], plan.conjuncts(node["expressions"])
        if kind_of(child) == "CROSS_PRODUCT":  # FROM a, b WHERE a.unit = b.unit
            below = self._comparison_join(child, conditions)
        else:
            below = self._relation(child)
            self._check_conditions(below.columns, conditions)
        kept = node.get("projection_map") or range(len(below.columns))
        held = {place_of(one) for one in conditions}  # an IN that is true from here on
        columns = [replace(one, barred="correlated") if at in held else one for at, one in enumerate(below.columns)]
        return below.taking(kept, (columns[at] for at in kept))

    def _check_conditions(self, columns: Sequence[Column], conditions: Iterable[Node]) -> None:
        """Check conjuncts of WHERE, one of which may be an IN that is false or null for other units' rows."""
        for one in conditions:
            at = place_of(one)
            if at is None or columns[at].barred != "condition":
                self._check(columns, one)

    def _order_by(self, node: Node) -> Relation:
        below = self._below(node)
        self._check(below.columns, *orders_of(node))
        kept = node.get("projection_map") or range(len(below.columns))
        return Relation(tuple(below.columns[at] for at in kept), below.private)

    def _comparison_join(self, node: Node, where: Sequence[Node] = ()) -> Relation:
        how = str(node.get("join_type", "INNER"))
        if how not in ("INNER", "LEFT", "SEMI", "ANTI", "MARK"):
            self._refuse(None, "correlated")
        left, right = self._below(node), self._below(node, 1)
        both = Relation((*left.columns, *right.columns))
        paired = [one for one in node.get("conditions", ()) if "right" in one]
        self._check(left.columns, *(one["left"] for one in paired))
        self._check(right.columns, *(one["right"] for one in paired))
        self._check(both.columns, *plan.conditions_of_both(node))
        self._check_conditions(both.columns, where)
        equal = [
            (self._unit(left, one["left"]), self._unit(right, one["right"]))
            for one in paired if one.get("comparison") in _EQUAL
        ]  # fmt: skip
        for one in where:
            sides = [refs(side) for side in one["children"]] if one["type"] in _EQUAL else []
            if sorted(min(side, default=0) >= len(left.columns) for side in sides if len(side) == 1) == [False, True]:
                equal.append((self._unit(both, one["children"][0]), self._unit(both, one["children"][1])))
        together = self._are_together(left, right, equal)
        if how == "INNER" and not together:
            self._refuse(None, "units meet")
        if how != "INNER" and right.private and not (left.private and together):
            self._refuse(None, "partner")
        kept = [left.columns[at] for at in node.get("left_projection_map") or range(len(left.columns))]
        if how == "MARK":
            kept.append(Column({"id": "BOOLEAN"}, barred="condition" if right.private else ""))
        if how in ("INNER", "LEFT"):
            beside = [right.columns[at] for at in node.get("right_projection_map") or range(len(right.columns))]
            kept += [replace(one, unit=None) if how == "LEFT" else one for one in beside]
        return Relation(tuple(kept), left.private or right.private)

    _any_join = _cross_product = _comparison_join

    def _aggregate_and_group_by(self, node: Node) -> Relation:
        groups, computed, below = node.get("groups", []), node.get("expressions", []), self._below(node)
        if len(node.get("grouping_sets", ())) > 1:
            self._refuse(None, "GROUPING SETS, ROLLUP, CUBE")
        if not self._is_named_by(below, map(place_of, groups)):
            self._refuse(computed[0] if computed else None, "group")
        grouped = [self._column(below, group) for group in groups]
        self._check_alike(grouped, "GROUP BY")
        made = [self._aggregate(one, below) for one in computed]
        return Relation((*grouped, *made), below.private, frozenset(range(len(groups))))

    def _aggregate(self, one: Node, below: Relation, *, window: bool = False) -> Column:
        """Return the column of an aggregate, which must not depend on the order in which its rows come."""
        name, kind, given = function_of(one), type_of(one), one.get("children", ())
        self._check_known(one)
        self._check(below.columns, *parts(one))
        arguments = [part for part in given if refs(part)]
        if one.get("state_export", "NONE") != "NONE" or not language.is_known(kind):
            self._refuse(one, "unknown", what=name)
        if name not in language.ADDING | language.ORDERLESS | (frozenset() if window else language.ORDERED):
            self._refuse(one, "function")
        if not below.private:
            return Column(kind)
        if refs(*given[1:]):  # max(x, n) takes n from whichever row comes first
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
        """Windows that pick rows need an order that tells rows apart, or leaves those alone that are equal.

        Two such windows in two orders are refused where rows may be equal: they may pair their places in any way.
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
        self._check_known(one)
        self._check(below.columns, *parts(one))
        if one["type"] not in language.RANKS | language.PLACES | {"WINDOW_AGGREGATE"} or one.get("arg_orders"):
            self._refuse(one, "unknown", what="this window function")
        if not self._is_named_by(below, map(place_of, one.get("partitions", ()))):
            self._refuse(one, "window")
        return self._aggregate(one, below, window=True) if one["type"] == "WINDOW_AGGREGATE" else Column(type_of(one))

    @staticmethod
    def _told(orders: list[Node], below: Relation) -> set[int]:
        """Return the columns that an order tells apart; a struct stands for its columns.

        The text of a struct tells apart what is equal but not alike, where the struct itself is in the order too.
        """
        structs = [one for one in orders if function_of(one) == "struct_pack"]
        texts = [
            one["children"][0] for one in orders
            if one["type"] == "OPERATOR_CAST" and language.name_of(type_of(one)) == "VARCHAR"
        ]  # fmt: skip
        flat = [*orders, *(part for one in structs for part in one["children"])]
        by_text = {place_of(part) for one in structs if one in texts for part in one["children"]} - {None}
        found = {at for at in map(place_of, flat) if at is not None}
        return {at for at in found if at in by_text or language.is_alike(below.columns[at].kind)}

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
        if int(node["cte_index"]) not in self._ctes or node.get("is_recurring"):
            self._refuse(None, "WITH RECURSIVE")
        return self._ctes[int(node["cte_index"])]

    def _lateral(self, node: Node) -> Relation:
        """Follow `FROM log, unnest(log.tags)`: the one part of FROM that may look at the row beside it.

        DuckDB numbers the rows, or takes the distinct values that unnest is given, and joins the rows with what comes
        of each by that number or value. Every other plan of this kind is a correlated query, and refused.
        """
        kept, *rest = node["children"]
        found = [one for child in rest for one in plan.descendants(child)]
        if " ".join(map(kind_of, found)) != _LATERAL_UNNEST or kind_of(kept) != "PROJECTION":
            self._refuse(None, "correlated")
        outer, inner, distinct, seen, again, join, left, call, given, taken = found
        plain = (
            [one["cte_index"] for one in (seen, left, taken)]
            == [one["table_index"] for one in (node, node, inner)]
            and str(inner.get("ctename", "")).startswith(_LATERAL)
            and function_of(call) == "unnest" and not distinct.get("expressions")
            and not plan.conditions_of_both(join) and str(join["join_type"]) in ("INNER", "LEFT")
            and all(one.get("comparison") == "COMPARE_NOT_DISTINCT_FROM" for one in join.get("conditions", ()))
        )  # fmt: skip
        if not plain:
            self._refuse(None, "correlated")
        below, number = kept["children"][0], Column({"id": "BIGINT"}, barred="correlated")
        numbered = kind_of(below) == "WINDOW"
        rows = self._relation(below["children"][0] if numbered else below)
        rows = replace(rows, columns=(*rows.columns, *[number] * numbered))
        rows = replace(rows, columns=tuple(self._column(rows, one) for one in kept["expressions"]))
        values = [self._column(rows, one) for one in distinct["groups"]]
        if number not in values:
            self._check_alike(values, "unnest")
        given_columns = [replace(one, barred="") if one == number else one for one in values]
        self._check(given_columns, *(plan.on_table(one, taken["table_index"]) for one in given["expressions"]))
        right = [*map(Column, call["returned_types"]), *(replace(one, barred="correlated") for one in values)]
        made = [rows.columns[at] for at in join.get("left_projection_map") or range(len(rows.columns))]
        made += [right[at] for at in join.get("right_projection_map") or range(len(right))]
        for projection in (again, outer):
            made = [self._column(Relation(tuple(made)), one) for one in projection["expressions"]]
        return Relation(tuple(made), rows.private)

    # Expressions

    def _check_usable(self, *columns: Column) -> None:
        for column in columns:
            if column.barred:
                self._refuse(None, column.barred)

    def _check_alike(self, columns: Iterable[Column], what: str) -> None:
        """Refuse columns of which equal values become one though they can be told apart."""
        for column in columns:
            self._check_usable(column)
            if not language.is_alike(column.kind):
                self._refuse(None, "alike", name=what)

    def _check_known(self, node: Node) -> None:
        if unknown := plan.unknown_in(node):
            self._refuse(None, "unknown", what=unknown.replace("_", " ").lower())

    def _check(self, columns: Sequence[Column] | None, *expressions: Node) -> None:
        """Refuse expressions that look at more than their row; inside a lambda `columns` is None."""
        for one in expressions:
            self._check_known(one)
            at, kind = place_of(one), one["expression_class"]
            if at is not None:
                self._check_usable(*([] if columns is None else [columns[at]]))
                continue
            if kind in ("BOUND_AGGREGATE", "BOUND_WINDOW"):
                self._refuse(one, "more rows")
            if not language.is_known(type_of(one)):
                self._refuse(one, "type", name=language.name_of(type_of(one)).lower())
            cast = one["type"] == "OPERATOR_CAST"
            if cast and language.shows_bits_of_floats(type_of(one), *map(type_of, parts(one))):
                self._refuse(one, "type", name="bit of a floating-point number")
            if kind == "BOUND_FUNCTION" and function_of(one) not in language.SCALARS:
                self._refuse(one, "function")
            if kind == "BOUND_LAMBDA":
                self._check(None, one["lambda_expr"])
            self._check(columns, *parts(one))
