"""Check the plan of a query: the rows of each unit must be a function of that unit's own rows and of public tables.

The plan is the one DuckDB's binder makes, before it is optimized, over one view per source. `Plan` notes which
columns are used above each operator; `Check` follows which relations are private and which of their
columns name the unit. A join of two private relations must compare their units. Only listed operators, fields and
functions pass, so what a later DuckDB adds is refused.

On trust are that private sources hold the unit in the column of that name, and that an engine's error (a failed
cast) tells that some row caused it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from sparsehist.guarantee import language
from sparsehist.guarantee.statement import Node, Rewritten, folded

_EXPRESSION = "expression_class type alias query_location query_location_length return_type"
_CALL = "qname children arguments function_data has_serialize"
_EXPRESSIONS = {
    "BOUND_REF": "index",
    "BOUND_CONSTANT": "value",
    "BOUND_FUNCTION": f"{_CALL} is_operator named_arguments positional_arguments",
    "BOUND_CASE": "case_checks else_expr",
    "BOUND_CONJUNCTION": "children",
    "BOUND_OPERATOR": "children",
    "BOUND_LAMBDA": "lambda_expr parameter_count parameter_names",
    "BOUND_UNNEST": "child",
    "BOUND_AGGREGATE": f"{_CALL} aggregate_type filter order_bys state_export",
    "BOUND_WINDOW": f"{_CALL} partitions orders start end start_expr end_expr exclude_clause filters distinct "
    "ignore_nulls arg_orders sql_range_order_type sql_range_start sql_range_end sql_range_start_boundary "
    "sql_range_end_boundary state_export",
}
_ROW_OPERATORS = frozenset(
    """
    BOUND_REF VALUE_CONSTANT BOUND_FUNCTION OPERATOR_CAST CASE_EXPR CONJUNCTION_AND CONJUNCTION_OR LAMBDA BOUND_UNNEST
    COMPARE_EQUAL COMPARE_NOTEQUAL COMPARE_LESSTHAN COMPARE_GREATERTHAN COMPARE_LESSTHANOREQUALTO
    COMPARE_GREATERTHANOREQUALTO COMPARE_DISTINCT_FROM COMPARE_NOT_DISTINCT_FROM COMPARE_IN COMPARE_NOT_IN
    COMPARE_BETWEEN OPERATOR_NOT OPERATOR_IS_NULL OPERATOR_IS_NOT_NULL OPERATOR_COALESCE OPERATOR_NULLIF
    OPERATOR_TRY ARRAY_EXTRACT ARRAY_SLICE STRUCT_EXTRACT ARRAY_CONSTRUCTOR
    """.split()
)
_JOIN = "conditions join_type mark_index mark_types left_projection_map right_projection_map delim_flipped predicate"
_OPERATORS = {
    "PROJECTION": "table_index expressions",
    "GET": "table_index returned_types names projection_ids table_filters arguments qname has_serialize "
    "function_data parameters named_parameters input_table_types input_table_names projected_input "
    "column_indexes extra_info ordinality_idx source_ordinality table_filters_by_projection has_pushed_projection",
    "FILTER": "expressions projection_map",
    "COMPARISON_JOIN": _JOIN,
    "ANY_JOIN": f"{_JOIN} condition",
    "CROSS_PRODUCT": "",
    "AGGREGATE_AND_GROUP_BY": "expressions groups grouping_sets grouping_functions group_index aggregate_index "
    "groupings_index distinct_validity",
    "WINDOW": "expressions window_index",
    "DISTINCT": "distinct_type distinct_targets order_by",
    "UNION": "table_index column_count setop_all allow_out_of_order",
    "ORDER_BY": "orders projection_map",
    "UNNEST": "unnest_index expressions",
    "MATERIALIZED_CTE": "table_index column_count ctename materialize",
    "CTE_REF": "table_index cte_index chunk_types bound_columns is_recurring",
    "EXPRESSION_GET": "table_index expr_types expressions",
    "DUMMY_SCAN": "table_index",
}
_EQUAL = ("COMPARE_EQUAL", "COMPARE_NOT_DISTINCT_FROM")
_LATERAL = "__duckdb_delim_"


# Reading a plan


def kind_of(node: Node) -> str:
    """Return the kind of an operator."""
    return str(node.get("type", "")).removeprefix("LOGICAL_")


def type_of(expression: Node) -> Any:
    """Return the type of an expression."""
    if expression["expression_class"] == "BOUND_CONSTANT":
        return expression.get("value", {}).get("type")
    return (
        {"id": "BOOLEAN"} if expression["expression_class"] == "BOUND_CONJUNCTION" else expression.get("return_type")
    )


def function_of(node: Node) -> str:
    """Return the name of a function or aggregate."""
    return str((node.get("qname") or {}).get("path", [""])[-1]).lower()


def place_of(expression: Node) -> int | None:
    """Return which column of the operator below an expression is; None if it is more than a column."""
    return int(expression.get("index", 0)) if expression["expression_class"] == "BOUND_REF" else None


def parts(part: object) -> Iterator[Node]:
    """Yield the expressions right below an expression; a lambda's body has columns of its own and is left out."""
    for key, value in part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ():
        if isinstance(value, dict) and "expression_class" in value:
            if key != "lambda_expr":
                yield value
        elif key not in ("function_data", "return_type", "qname"):
            yield from parts(value)


def refs(*expressions: Node) -> set[int]:
    """Return the columns that expressions use."""
    found: set[int] = set()
    for one in expressions:
        at = place_of(one)
        found |= {at} if at is not None else refs(*parts(one))
    return found


def orders_of(expression: Node) -> list[Node]:
    """Return what an aggregate or window orders by."""
    given = (expression.get("order_bys") or {}).get("orders", ())
    return [
        order["expression"] for order in (*expression.get("orders", ()), *given, *expression.get("arg_orders", ()))
    ]


def conjuncts(expressions: Iterable[Node]) -> list[Node]:
    """Return the conditions that all have to be true."""
    found = []
    for one in expressions:
        found += conjuncts(one["children"]) if one["type"] == "CONJUNCTION_AND" else [one]
    return found


def _shape(part: object) -> str:
    """Return an expression without its place, so that two can be compared."""

    def bare(part: object) -> object:
        if isinstance(part, list):
            return [bare(one) for one in part]
        hidden = ("alias", "query_location", "query_location_length")
        return {key: bare(one) for key, one in part.items() if key not in hidden} if isinstance(part, dict) else part

    return json.dumps(bare(part), sort_keys=True)


class Plan:
    """A plan of known operators, and which of its columns are used above each."""

    def __init__(self, query: Rewritten, root: Node) -> None:
        self.query = query
        self._live: dict[int, set[int]] = {}
        self.ctes: dict[int, Node] = {}
        self._known(root)
        self._mark(root, set(range(self.width(root))))

    def live(self, node: Node) -> set[int]:
        """Return the columns of an operator that are used above it."""
        return self._live.get(id(node), set())

    def _known(self, node: Node) -> None:
        kind = kind_of(node)
        fields = frozenset(f"type children {_OPERATORS.get(kind, '')}".split())
        beside = [key for key, value in node.items() if value not in (None, [], {}) and key not in fields]
        if kind not in _OPERATORS or beside:
            what = (beside[0] if kind in _OPERATORS else kind).replace("_", " ").lower()
            correlated = kind in ("EMPTY_RESULT", "LIMIT", "DELIM_GET", "CHUNK_GET")
            self.query.refuse(None if correlated else node, "correlated" if correlated else "unknown", what=what)
        if kind == "MATERIALIZED_CTE":
            self.ctes[int(node["table_index"])] = node["children"][0]
        for child in node.get("children", ()):
            self._known(child)

    def width(self, node: Node) -> int:
        """Return how many columns an operator gives."""
        kind, children = kind_of(node), node.get("children", ())
        own = {"PROJECTION": "expressions", "EXPRESSION_GET": "expr_types", "CTE_REF": "chunk_types"}
        if kind in own:
            return len(node.get(own[kind], ()))
        if kind == "GET":
            return len(node.get("column_indexes", ())) + len(node.get("projected_input", ()))
        if kind == "AGGREGATE_AND_GROUP_BY":
            return len(node.get("groups", ())) + len(node.get("expressions", ()))
        if kind in ("WINDOW", "UNNEST"):
            return self.width(children[0]) + len(node.get("expressions", ()))
        if kind in ("FILTER", "ORDER_BY"):
            return len(node.get("projection_map", ())) or self.width(children[0])
        if kind in ("COMPARISON_JOIN", "ANY_JOIN", "CROSS_PRODUCT"):
            return len(self.outputs(node))
        return self.width(children[1 if kind == "MATERIALIZED_CTE" else 0]) if children else 1

    def outputs(self, node: Node) -> list[tuple[int, int]]:
        """Return the columns of a join: of which side, and which; the mark of IN is of side 2."""
        left, right = (self.width(child) for child in node["children"])
        kept = [(0, at) for at in node.get("left_projection_map") or range(left)]
        if (how := node.get("join_type", "INNER")) in ("SEMI", "ANTI", "MARK"):
            return [*kept, (2, 0)] if how == "MARK" else kept
        return [*kept, *((1, at) for at in node.get("right_projection_map") or range(right))]

    def _mark(self, node: Node, live: set[int]) -> None:  # noqa: C901  one rule for each operator
        """Note the columns of an operator that are used above, and go on below."""
        known = self._live.setdefault(id(node), set())
        known |= live
        kind, children = kind_of(node), node.get("children", ())
        given = node.get("expressions", [])
        below = [set(live) for _ in children]
        if kind == "PROJECTION":
            below = [refs(*(given[at] for at in live))]
        elif kind == "FILTER":
            kept = node.get("projection_map") or range(self.width(children[0]))
            below = [{kept[at] for at in live} | refs(*given)]
        elif kind == "ORDER_BY":  # without LIMIT, the order of rows says nothing
            kept = node.get("projection_map") or range(self.width(children[0]))
            below = [{kept[at] for at in live}]
        elif kind in ("COMPARISON_JOIN", "ANY_JOIN", "CROSS_PRODUCT"):
            first, outputs = self.width(children[0]), self.outputs(node)
            both = refs(*whole_conditions(node))
            below = [{at for side, at in (outputs[place] for place in live) if side == number} for number in (0, 1)]
            below[0] |= refs(*(one["left"] for one in paired_conditions(node))) | {at for at in both if at < first}
            below[1] |= refs(*(one["right"] for one in paired_conditions(node)))
            below[1] |= {at - first for at in both if at >= first}
        elif kind == "AGGREGATE_AND_GROUP_BY":
            groups = node.get("groups", [])
            below = [refs(*groups, *(one for at, one in enumerate(given) if at + len(groups) in live))]
        elif kind in ("WINDOW", "UNNEST"):
            first = self.width(children[0])
            used = [one for at, one in enumerate(given) if at + first in live or kind == "UNNEST"]
            below = [{at for at in live if at < first} | refs(*used)]
        elif kind == "DISTINCT":
            below = [live | refs(*node.get("distinct_targets", ()))]
        elif kind == "UNION" and not node.get("setop_all"):
            below = [set(range(self.width(node))) for _ in children]
        elif kind == "CTE_REF" and int(node["cte_index"]) in self.ctes:
            self._mark(self.ctes[int(node["cte_index"])], live)
        elif kind == "MATERIALIZED_CTE":
            lateral = str(node.get("ctename", "")).startswith(_LATERAL)
            below = [set(range(self.width(children[0])))] if lateral else [set(), live]
        for child, used_there in zip(children, below, strict=False):
            self._mark(child, used_there)


def paired_conditions(node: Node) -> list[Node]:
    """Return the conditions of a join that compare its two sides."""
    return [one for one in node.get("conditions", ()) if "right" in one]


def whole_conditions(node: Node) -> list[Node]:
    """Return the conditions of a join on the columns of both sides."""
    single = [one["left"] for one in node.get("conditions", ()) if "right" not in one]
    return [*single, *(node[name] for name in ("condition", "predicate") if node.get(name))]


# Whose rows


Name = tuple[int, tuple[str, ...]]
"""Which part of the unit a column is, and the casts by which it is written."""


@dataclass(frozen=True)
class Column:
    """A column of a relation; `only` is why it may not be used but as a condition of WHERE, or in unnest."""

    kind: Any = None
    name: Name | None = None
    only: str = ""


@dataclass(frozen=True)
class Relation:
    """Columns; each row of a private relation belongs to one unit, rows of a public one to nobody.

    A column that has a name equals that part of the unit in every row. `unique` columns tell all rows apart, if some
    are known to.
    """

    columns: tuple[Column, ...]
    private: bool = False
    unique: frozenset[int] | None = None

    def taking(self, places: Sequence[int | None], columns: Iterable[Column]) -> Relation:
        """Return a relation of other columns with the same rows; `places` says which of these columns they are."""
        new = {old: at for at, old in enumerate(places) if old is not None}
        kept = self.unique is not None and self.unique <= new.keys()
        return Relation(
            tuple(columns), self.private, frozenset(new[old] for old in self.unique or ()) if kept else None
        )


def check_plan(
    query: Rewritten, root: Node, columns: Sequence[str], units: tuple[str, ...], keys: tuple[str, ...]
) -> None:
    """Refuse a plan unless each unit's rows depend on that unit's own rows and on public tables alone."""
    for name in (*units, *keys):
        if sum(folded(column) == folded(name) for column in columns) != 1 or name not in columns:
            query.refuse(None, "one column", name=name, columns=", ".join(columns))
    Check(query, root, columns, units).run()


class Check:
    """One plan that is checked for units of these names."""

    def __init__(self, query: Rewritten, root: Node, columns: Sequence[str], units: tuple[str, ...]) -> None:
        self.query, self._root, self._units = query, root, units
        self._places = [list(columns).index(name) for name in units]
        self._plan = Plan(query, root)
        self._names = [
            {folded(unit)} | self._names_below(root, at) for unit, at in zip(units, self._places, strict=True)
        ]
        self._kinds: dict[int, str] = {}
        self._ctes: dict[int, Relation] = {}
        self._unit = ", ".join(units)

    def run(self) -> None:
        """Follow the plan, and look at what comes out."""
        result = self._relation(self._root)
        if not result.private:
            self._refuse(None, "all public")
        for part, (unit, at) in enumerate(zip(self._units, self._places, strict=True)):
            name = result.columns[at].name
            if name is None or name[0] != part:
                self._refuse(None, "no unit", name=unit)
        self._check_usable(None, result.columns)

    def _names_below(self, node: Node, at: int) -> set[str]:
        """Return the names that a column of the result has in the sources it is taken from."""
        kind, children = kind_of(node), node.get("children", ())
        if kind == "GET" and at < len(node.get("column_indexes", ())):
            return {folded(node["names"][int(node["column_indexes"][at].get("index", 0))])}
        if kind in ("PROJECTION", "AGGREGATE_AND_GROUP_BY"):
            given = node.get("expressions" if kind == "PROJECTION" else "groups", [])
            copied = (
                refs(given[at]) if at < len(given) and given[at]["type"] in ("BOUND_REF", "OPERATOR_CAST") else ()
            )
            return {name for place in copied for name in self._names_below(children[0], place)}
        if kind in ("COMPARISON_JOIN", "ANY_JOIN", "CROSS_PRODUCT"):
            side, place = self._plan.outputs(node)[at]
            return self._names_below(children[side], place) if side < 2 else set()
        if kind in ("FILTER", "ORDER_BY"):
            return self._names_below(children[0], list(node.get("projection_map") or range(at + 1))[at])
        if kind == "CTE_REF" and int(node["cte_index"]) in self._plan.ctes:
            return self._names_below(self._plan.ctes[int(node["cte_index"])], at)
        if kind == "UNION":
            return {name for child in children for name in self._names_below(child, at)}
        below = children[1 if kind == "MATERIALIZED_CTE" else 0] if children else None
        return self._names_below(below, at) if below is not None and at < self._plan.width(below) else set()

    # Operators

    def _relation(self, node: Node) -> Relation:
        made: Relation = getattr(self, f"_{kind_of(node).lower()}")(node)
        return made

    def _below(self, node: Node, at: int = 0) -> Relation:
        return self._relation(node["children"][at])

    def _refuse(self, part: object, reason: str, **words: object) -> NoReturn:
        equal = " AND ".join(f"a.{name} = b.{name}" for name in self._units)
        self.query.refuse(part, reason, unit=self._unit, equal=equal, **words)

    def _is_named_by(self, relation: Relation, places: Iterable[int | None]) -> bool:
        """Return whether columns name the unit of each row in full, or rows belong to nobody."""
        names = [relation.columns[at].name for at in places if at is not None]
        return not relation.private or len({name[0] for name in names if name is not None}) == len(self._units)

    def _are_together(
        self, tables: Sequence[Relation], equal: Iterable[tuple[int, Name | None, int, Name | None]]
    ) -> bool:
        """Return whether the units of all private tables are equal in each row of their join.

        `equal` has the columns that the join compares: number of the table and name, of either side.
        """
        parts: dict[frozenset[int], set[int]] = {}
        for one, name, other, same in equal:
            if name is not None and name == same and one != other:
                parts.setdefault(frozenset((one, other)), set()).add(name[0])
        private = {at for at, table in enumerate(tables) if table.private}
        joined = {min(private)} if private else set()
        for _ in private:
            for pair, found in parts.items():
                if len(found) == len(self._units) and pair & joined:
                    joined |= pair
        return private <= joined

    def _projection(self, node: Node) -> Relation:
        below, live = self._below(node), self._plan.live(node)
        columns = [
            self._column(below, one) if at in live else Column(type_of(one), self._name(below, one))
            for at, one in enumerate(node["expressions"])
        ]
        return below.taking(list(map(place_of, node["expressions"])), columns)

    def _column(self, below: Relation, expression: Node) -> Column:
        at = place_of(expression)
        if at is not None:
            return below.columns[at]
        self._check(below.columns, expression)
        return Column(type_of(expression), self._name(below, expression))

    def _name(self, below: Relation, expression: Node) -> Name | None:
        """Return what part of the unit an expression is, unchanged or by casts that keep all values apart."""
        at = place_of(expression)
        if at is not None:
            return below.columns[at].name
        if expression["type"] != "OPERATOR_CAST" or (expression.get("function_data") or {}).get("try_cast"):
            return None
        if function_of(expression) != "__cast":
            return None
        (inside,) = expression["children"]
        name, cast = self._name(below, inside), language.injective_cast(type_of(inside), type_of(expression))
        if name is None or cast is None:
            return None
        return (name[0], (*name[1], cast)) if cast else name

    def _get(self, node: Node) -> Relation:
        if function_of(node) in ("range", "generate_series") and not node.get("children"):
            return Relation(tuple(Column({"id": "BIGINT"}) for _ in range(self._plan.width(node))))
        path = (node.get("function_data") or {}).get("qualified_name", {}).get("path", ())
        source = self.query.sources.get(str(path[-1]).removeprefix("hidden_")) if path else None
        plain = function_of(node) == "seq_scan" and list(path[:2]) == ["memory", "main"] and not node.get("children")
        if source is None or not plain or node.get("source_ordinality") != "WITHOUT_ORDINALITY":
            self._refuse(node, "no source", name=function_of(node))
        names = list(map(folded, node["names"]))
        units = (
            {}
            if source.public
            else {self._unit_of(node, source.name, names, part): part for part in range(len(self._units))}
        )
        columns = []
        for given in node["column_indexes"]:
            at = int(given.get("index", len(names)))
            if at >= len(names):
                self._refuse(node, "no column", name=source.name)
            kind = node["returned_types"][at]
            named = at in units and self._is_unit(node, source.name, units[at], kind)
            columns.append(Column(kind, (units[at], ()) if named else None))
        return Relation(tuple(columns), not source.public)

    def _unit_of(self, node: Node, source: str, names: list[str], part: int) -> int | None:
        """Return which column of a source is a part of the unit: the one of its name, or the one that becomes it."""
        if folded(self._units[part]) in names:
            return names.index(folded(self._units[part]))
        found = [at for at, name in enumerate(names) if name in self._names[part]]
        if len(found) > 1:
            self._refuse(node, "two units", name=source, column=self._units[part])
        return found[0] if found else None

    def _is_unit(self, node: Node, source: str, part: int, kind: Any) -> bool:
        """Refuse units of several types: two of one type may equal one of the other. False for no type of a unit."""
        found = language.unit_kind(kind)
        if not found:
            return False
        if self._kinds.setdefault(part, found) != found:
            here, there = found.lower(), self._kinds[part].lower()
            self._refuse(node, "two types", name=source, column=self._units[part], here=here, there=there)
        return True

    def _dummy_scan(self, node: Node) -> Relation:
        return Relation(tuple(Column() for _ in range(self._plan.width(node))))

    def _expression_get(self, node: Node) -> Relation:
        below = self._below(node)
        for row in node["expressions"]:
            for one in row:
                self._check(below.columns, one)
        return Relation(tuple(map(Column, node["expr_types"])), below.private)

    def _filter(self, node: Node) -> Relation:
        tables = self._crossed(node["children"][0])
        homes = [number for number, table in enumerate(tables) for _ in table.columns]
        below = tables[0]
        if len(tables) > 1:
            columns = tuple(one for table in tables for one in table.columns)
            below = Relation(columns, any(one.private for one in tables))
        equal = []
        for one in conjuncts(node["expressions"]):
            at = place_of(one)
            if at is None or below.columns[at].only != "condition":
                self._check(below.columns, one)
            sides = one["children"] if one["type"] in _EQUAL else []
            if len(sides) == 2 and all(len(refs(side)) == 1 for side in sides):
                left, right = ((homes[min(refs(side))], self._name(below, side)) for side in sides)
                equal.append((*left, *right))
        if not self._are_together(tables, equal):
            self._refuse(node, "units meet")
        kept = node.get("projection_map") or range(len(below.columns))
        return below.taking(kept, (below.columns[at] for at in kept))

    def _crossed(self, node: Node) -> list[Relation]:
        """Return the tables of `FROM a, b, c`, whose units WHERE compares; else the one relation."""
        if kind_of(node) != "CROSS_PRODUCT":
            return [self._relation(node)]
        return [table for child in node["children"] for table in self._crossed(child)]

    def _order_by(self, node: Node) -> Relation:
        below = self._below(node)
        for order in node["orders"]:
            self._check(below.columns, order["expression"])
        kept = node.get("projection_map") or range(len(below.columns))
        return Relation(tuple(below.columns[at] for at in kept), below.private)

    def _comparison_join(self, node: Node) -> Relation:
        how = str(node.get("join_type", "INNER"))
        if how not in ("INNER", "LEFT", "SEMI", "ANTI", "MARK"):
            self._refuse(None, "correlated")
        left, right = self._below(node), self._below(node, 1)
        given = paired_conditions(node)
        for one in given:
            self._check(left.columns, one["left"])
            self._check(right.columns, one["right"])
        for one in whole_conditions(node):
            self._check((*left.columns, *right.columns), one)
        pairs = [
            (self._column(left, one["left"]), self._column(right, one["right"]))
            for one in given if one.get("comparison") in _EQUAL
        ]  # fmt: skip
        together = self._are_together((left, right), [(0, one.name, 1, other.name) for one, other in pairs])
        if how == "INNER" and not together:
            self._refuse([one["left"] for one in given] or node, "units meet")
        if how != "INNER" and right.private and not (left.private and together):
            self._refuse([one["left"] for one in given], "partner")
        mark = Column({"id": "BOOLEAN"}, only="condition" if right.private else "")
        held = [*left.columns, *(replace(one, name=None) if how == "LEFT" else one for one in right.columns), mark]
        first = (0, len(left.columns), len(held) - 1)
        columns = tuple(held[first[side] + at] for side, at in self._plan.outputs(node))
        return Relation(columns, left.private or right.private)

    _any_join = _cross_product = _comparison_join

    def _aggregate_and_group_by(self, node: Node) -> Relation:
        groups, computed, live = node.get("groups", []), node.get("expressions", []), self._plan.live(node)
        below = self._below(node)
        if len(node.get("grouping_sets", ())) > 1 or node.get("grouping_functions"):
            self._refuse(node, "GROUPING SETS, ROLLUP, CUBE")
        if not self._is_named_by(below, map(place_of, groups)):
            self._refuse(computed or groups or node, "group")
        grouped = [self._column(below, group) for group in groups]
        self._check_usable(node, grouped)
        for at, group in enumerate(groups):
            if at in live:
                self._check_alike(group, type_of(group), "GROUP BY")
        fixed = {
            place for group in groups if (place := place_of(group)) is not None and language.is_alike(type_of(group))
        }
        made = [
            self._aggregate(one, below, fixed) if at + len(groups) in live else Column(type_of(one))
            for at, one in enumerate(computed)
        ]
        alike = all(language.is_alike(type_of(group)) for group in groups)
        return Relation((*grouped, *made), below.private, frozenset(range(len(groups))) if alike else None)

    def _aggregate(  # noqa: C901, PLR0912  one rule for each kind of aggregate
        self, one: Node, below: Relation, fixed: set[int], *, window: bool = False
    ) -> Column:
        """Check that an aggregate is the same in whatever order its rows come; `fixed` columns are equal in all."""
        name, kind = function_of(one), type_of(one)
        self._check_fields(one)
        if one.get("state_export", "NONE") != "NONE" or not language.is_known(kind):
            self._refuse(one, "unknown", what="the state of an aggregate")
        for part in parts(one):
            self._check(below.columns, part)
        arguments = [part for part in one.get("children", ()) if refs(part)]
        if not below.private and name in language.ORDERLESS | language.ADDING | language.ORDERED | {"count_star"}:
            return Column(kind)
        distinct = one.get("aggregate_type") == "DISTINCT" or bool(one.get("distinct"))
        if name in language.ORDERLESS or name in ("count_star", "sum_no_overflow"):
            if not name.startswith(("count", "bool_", "bit_")):
                for part in arguments:
                    self._check_alike(one, type_of(part), name)
        elif name in language.ADDING:
            if not all(language.adds_exactly(type_of(part)) for part in arguments):
                self._refuse(one, "floats", name=name)
        elif name in language.ORDERED and not window:
            orders = orders_of(one)
            if refs(*arguments) <= fixed:
                return Column(kind)
            if not orders and name in ("list", "array_agg"):
                if distinct:
                    self._check_alike(one, type_of(arguments[0]), name)
                return Column(kind, only="unnest")
            told = {_shape(order) for order in orders}
            ordered = self._ordered(orders, below) | fixed
            if not orders:
                self._refuse(one, "no order", name=name)
            for part in arguments:
                if not (refs(part) <= ordered or (_shape(part) in told and language.is_alike(type_of(part)))):
                    self._refuse(one, "ties")
        else:
            self._refuse(one, "function", name=name, instead=language.instead_of(name))
        return Column(kind)

    def _window(self, node: Node) -> Relation:
        below, first = self._below(node), self._plan.width(node["children"][0])
        live = self._plan.live(node)
        windows = [one for at, one in enumerate(node["expressions"]) if at + first in live]
        for one in windows:
            self._check_fields(one)
            for part in parts(one):
                self._check(below.columns, part)
            if one["type"] == "WINDOW_AGGREGATE":
                self._aggregate(one, below, set(), window=True)
            elif one["type"] not in language.RANKS | language.PLACES or one.get("arg_orders"):
                self._refuse(one, "unknown", what="this window function")
            if not self._is_named_by(below, map(place_of, one.get("partitions", ()))):
                self._refuse(one, "window")
        self._check_ties({at for at in live if at < first}, windows, below)
        made = [Column(type_of(one)) for one in node["expressions"]]
        return Relation((*below.columns, *made), below.private, below.unique)

    def _check_ties(self, used: set[int], windows: list[Node], below: Relation) -> None:
        """Refuse windows that pick rows by place, unless ties are alike in all that is used of them.

        Two orders are refused: of rows that are alike in all, each may number them its own way.
        """
        placing = [one for one in windows if one["type"] in language.PLACES or (
            one["type"] not in language.RANKS and (
                "_ROWS" in f"{one.get('start')} {one.get('end')}"
                or one.get("exclude_clause", "NO_OTHER") != "NO_OTHER"
            ))]  # fmt: skip
        if not placing:
            return
        if len({_shape([one.get("partitions"), one.get("orders")]) for one in placing}) > 1:
            self._refuse(placing[-1], "two windows")
        for one in windows:
            used = used | refs(
                *parts({key: value for key, value in one.items() if key not in ("partitions", "orders")})
            )
        told = [*placing[0].get("partitions", ()), *orders_of(placing[0])]
        ordered = self._ordered(told, below)
        if not used <= ordered and not (below.unique is not None and below.unique <= ordered):
            self._refuse(placing[0], "ties")

    @staticmethod
    def _ordered(orders: list[Node], below: Relation) -> set[int]:
        """Return the columns whose values an order tells apart; a struct stands for its columns."""
        flat = [part for one in orders for part in (one["children"] if function_of(one) == "struct_pack" else [one])]
        return {at for one in flat if (at := place_of(one)) is not None and language.is_alike(below.columns[at].kind)}

    def _distinct(self, node: Node) -> Relation:
        below, live = self._below(node), self._plan.live(node)
        targets = list(map(place_of, node.get("distinct_targets", ())))
        if not self._is_named_by(below, targets):
            self._refuse(node, "distinct")
        if node.get("distinct_type") != "DISTINCT" and not live <= set(targets):
            self._refuse(node.get("distinct_targets"), "distinct on")
        for at in live:
            self._check_alike(node, below.columns[at].kind, "DISTINCT")
        self._check_usable(node, below.columns)
        return below

    def _union(self, node: Node) -> Relation:
        sides = [self._below(node, at) for at in range(len(node["children"]))]
        for side in sides:
            self._check_usable(node, side.columns)
        private = any(side.private for side in sides)
        if private and not all(side.private for side in sides):
            self._refuse(node, "union with public")
        columns = []
        for held in zip(*(side.columns for side in sides), strict=True):
            names = {one.name for one in held}
            columns.append(Column(held[0].kind, names.pop() if len(names) == 1 else None))
        made = Relation(tuple(columns), private)
        if not self._is_named_by(made, range(len(columns))):
            self._refuse(node, "union")
        if not node.get("setop_all"):
            for column in columns:
                self._check_alike(node, column.kind, "UNION")
        return made

    def _unnest(self, node: Node) -> Relation:
        below = self._below(node)
        several = len(node["expressions"]) > 1
        for one in node["expressions"]:
            inside = one["child"]
            at = place_of(inside)
            if at is None or several or below.columns[at].only != "unnest":
                self._check(below.columns, inside)
        made = tuple(Column(type_of(one)) for one in node["expressions"])
        return Relation((*below.columns, *made), below.private)

    def _materialized_cte(self, node: Node) -> Relation:
        if str(node.get("ctename", "")).startswith(_LATERAL):
            return self._lateral(node)
        self._ctes[int(node["table_index"])] = self._below(node)
        return self._below(node, 1)

    def _cte_ref(self, node: Node) -> Relation:
        if int(node["cte_index"]) not in self._ctes or node.get("is_recurring"):
            self._refuse(node, "WITH RECURSIVE")
        return self._ctes[int(node["cte_index"])]

    def _lateral(self, node: Node) -> Relation:
        """Follow `FROM log, unnest(log.tags)`: the one part of FROM that may look at the row beside it.

        DuckDB numbers the rows, or takes the distinct values that unnest is given, and joins the rows with what comes
        of each by that number or value. Every other plan of this kind is a correlated query, and refused.
        """
        try:
            kept, outer = node["children"]
            (inner,) = outer["children"]
            distinct, again = inner["children"]
            (seen,), (join,) = distinct["children"], again["children"]
            left, call = join["children"]
            (given,) = call["children"]
            (taken,) = given["children"]
        except (KeyError, ValueError):
            self._refuse(None, "correlated")
        found = " ".join(map(kind_of, (kept, outer, inner, distinct, again, seen, join, left, call, given, taken)))
        ctes = [int(one["cte_index"]) for one in (seen, left, taken) if "cte_index" in one]
        plain = (
            found == "PROJECTION PROJECTION MATERIALIZED_CTE AGGREGATE_AND_GROUP_BY PROJECTION CTE_REF "
            "COMPARISON_JOIN CTE_REF GET PROJECTION CTE_REF"
            and ctes == [int(node["table_index"])] * 2 + [int(inner["table_index"])]
            and str(inner.get("ctename", "")).startswith(_LATERAL)
            and function_of(call) == "unnest" and not distinct.get("expressions") and not whole_conditions(join)
            and str(join["join_type"]) in ("INNER", "LEFT")
            and all(one.get("comparison") == "COMPARE_NOT_DISTINCT_FROM" for one in paired_conditions(join))
        )  # fmt: skip
        if not plain:
            self._refuse(None, "correlated")
        window = kept["children"][0]
        numbered = kind_of(window) == "WINDOW" and window["expressions"][0].get("alias") == "limit_rownum"
        rows = self._relation(window["children"][0] if numbered else window)
        if numbered:
            rows = replace(rows, columns=(*rows.columns, Column({"id": "BIGINT"}, only="correlated")))
        rows = replace(rows, columns=tuple(self._column(rows, one) for one in kept["expressions"]))
        values = [rows.columns[at] if (at := place_of(one)) is not None else Column() for one in distinct["groups"]]
        if not any(value.only == "correlated" for value in values):
            for value in values:
                self._check_alike(None, value.kind, "unnest")
        for one in given["expressions"]:
            self._check([replace(value, only="") for value in values], _placed(one))
        types = call["returned_types"]
        made = [
            rows.columns[at] if side == 0 else Column(types[at] if at < len(types) else None)
            for side, at in self._plan.outputs(join)
        ]
        for projection in (again, outer):
            made = [self._column(Relation(tuple(made)), one) for one in projection["expressions"]]
        return Relation(tuple(made), rows.private)

    # Expressions

    def _check_usable(self, node: object, columns: Iterable[Column]) -> None:
        """Refuse columns that may only be a condition, or be taken apart by unnest."""
        for column in columns:
            if column.only:
                self._refuse(node, column.only)

    def _check_alike(self, where: object, kind: Any, what: str) -> None:
        if not language.is_alike(kind):
            self._refuse(where, "alike", name=what)

    def _check_fields(self, expression: Node) -> None:
        kind = expression["expression_class"]
        fields = frozenset(f"{_EXPRESSION} {_EXPRESSIONS.get(kind, '')}".split())
        beside = [key for key, value in expression.items() if value not in (None, [], {}) and key not in fields]
        if kind not in _EXPRESSIONS or beside:
            what = str(beside[0] if kind in _EXPRESSIONS else expression["type"]).replace("_", " ").lower()
            self._refuse(expression, "unknown", what=what)

    def _check(self, columns: Sequence[Column] | None, expression: Node) -> None:
        """Refuse an expression that looks at more than its row; inside a lambda `columns` is None."""
        self._check_fields(expression)
        at = place_of(expression)
        if at is not None:
            if columns is not None:
                self._check_usable(expression, [columns[at]])
            return
        kind, name = str(expression["type"]), function_of(expression)
        if kind not in _ROW_OPERATORS:
            self._refuse(expression, "more rows", name=kind.replace("_", " ").lower())
        if not language.is_known(type_of(expression)):
            self._refuse(expression, "type", name=language.name_of(type_of(expression)).lower())
        if expression["expression_class"] == "BOUND_FUNCTION":
            self._check_function(expression, name)
        if kind == "LAMBDA":
            self._check(None, expression["lambda_expr"])
        for part in parts(expression):
            self._check(columns, part)

    def _check_function(self, expression: Node, name: str) -> None:
        if name in ("list_aggr", "list_aggregate"):
            asked = expression["children"][1].get("value", {}).get("value")
            if str(asked).lower() not in language.LIST_AGGREGATES:
                self._refuse(expression, "list", name=asked)
        elif name not in language.SCALARS:
            self._refuse(expression, "function", name=name, instead=language.instead_of(name))


def _placed(expression: Node) -> Node:
    """Return an expression over the columns of its table, with their places in the place of their names."""
    if expression["expression_class"] == "BOUND_COLUMN_REF":
        kept = {key: value for key, value in expression.items() if key not in ("binding", "depth")}
        return {
            **kept,
            "expression_class": "BOUND_REF",
            "type": "BOUND_REF",
            "index": expression["binding"]["column_index"],
        }
    inside = [_placed(one) for one in expression.get("children", ())]
    return {**expression, "children": inside} if inside else expression
