"""Check the plan of a query: the rows of each unit must be a function of that unit's own rows and of public tables.

The plan is the one DuckDB's binder makes, before it is optimized, over one view per source. `Check` computes which
relations are private, which of their columns name the unit, and which columns depend on more than the unit's rows:
those are refused where they are used. Only listed operators, fields and functions pass.

On trust are that private sources hold the unit in the column of that name, and that an engine's error (a failed
cast) tells that some row caused it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from sparsehist.errors import GuaranteeError, present, raise_alone
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
_LATERAL_UNNEST = (
    "PROJECTION MATERIALIZED_CTE AGGREGATE_AND_GROUP_BY CTE_REF PROJECTION COMPARISON_JOIN CTE_REF GET PROJECTION "
    "CTE_REF"
)
"""What DuckDB makes of `unnest(log.tags)` in FROM, from the top down; see `Check._lateral`."""


def kind_of(node: Node) -> str:
    """Return the kind of an operator."""
    return str(node.get("type", "")).removeprefix("LOGICAL_")


def type_of(expression: Node) -> Any:
    """Return the type of an expression."""
    if expression["expression_class"] == "BOUND_CONJUNCTION":
        return {"id": "BOOLEAN"}
    constant = expression["expression_class"] == "BOUND_CONSTANT"
    return expression.get("value", {}).get("type") if constant else expression.get("return_type")


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
    return [order["expression"] for order in (*expression.get("orders", ()), *given)]


def conjuncts(expressions: Iterable[Node]) -> list[Node]:
    """Return the conditions that all have to be true."""
    found = []
    for one in expressions:
        found += conjuncts(one["children"]) if one["type"] == "CONJUNCTION_AND" else [one]
    return found


def _shape(part: Any) -> Any:
    """Return an expression without its place, so that two can be compared."""
    if isinstance(part, list):
        return [_shape(one) for one in part]
    hidden = ("alias", "query_location", "query_location_length")
    return {key: _shape(one) for key, one in part.items() if key not in hidden} if isinstance(part, dict) else part


def _of_both_sides(node: Node) -> list[Node]:
    """Return the conditions of a join on the columns of both sides."""
    single = [one["left"] for one in node.get("conditions", ()) if "right" not in one]
    return [*single, *(node[name] for name in ("condition", "predicate") if node.get(name))]


def _descendants(node: Node) -> Iterator[Node]:
    """Yield an operator and all below it, parents first."""
    yield node
    for child in node.get("children", ()):
        yield from _descendants(child)


def _unlisted(node: Node, fields: str) -> list[str]:
    """Return the fields of an operator or expression that are set and not listed."""
    return [key for key, value in node.items() if value not in (None, [], {}) and key not in fields.split()]


def _outputs(node: Node, widths: tuple[int, int]) -> list[tuple[int, int]]:
    """Return the columns of a join as (side, place); the mark of IN is of side 2."""
    kept = [(0, at) for at in node.get("left_projection_map") or range(widths[0])]
    if (how := node.get("join_type", "INNER")) in ("SEMI", "ANTI", "MARK"):
        return [*kept, (2, 0)] if how == "MARK" else kept
    return [*kept, *((1, at) for at in node.get("right_projection_map") or range(widths[1]))]


Name = tuple[int, tuple[str, ...]]
"""Which part of the unit a column is, and the casts by which it is written."""


@dataclass(frozen=True)
class Column:
    """A column of a relation.

    Attributes:
        kind: Its type.
        name: The part of the unit that it equals in every row, if any.
        refusal: Why it may not be used; without it, the values are a function of the unit's rows.
        only_in: The one use that it may have all the same: "condition", a conjunct of WHERE, or "unnest".
    """

    kind: Any = None
    name: Name | None = None
    refusal: GuaranteeError | None = None
    only_in: str = ""


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
        return Relation(
            tuple(columns), self.private, frozenset(new[old] for old in self.unique or ()) if kept else None
        )


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
                one = [column for column in columns if folded(column) == folded(name)]
                meant = f"; did you mean {one[0]}?" if len(one) == 1 else ""
                self._refuse(None, "one column", name=name, columns=", ".join(columns) + meant)
        self._check_operators(root)
        result = self._relation(root)
        if not result.private:
            self._refuse(None, "all public")
        self._check_usable(result.columns)
        for part, unit in enumerate(self._units):
            found = result.columns[columns.index(unit)].name
            if found is None or found[0] != part:
                unfit = self._unfit.get(part)
                self._refuse(None, "unfit unit" if unfit else "no unit", name=unit, kind=unfit)

    def _refusal(self, call: Node | None, reason: str, **words: object) -> GuaranteeError:
        """Return a refusal, placed at the call of a function or window of the plan."""
        name = "" if call is None else function_of(call) or str(call["type"]).removeprefix("WINDOW_").lower()
        equal = " AND ".join(f"a.{name} = b.{name}" for name in self._units)
        said = {"name": name, "what": name, "instead": language.instead_of(name), "equal": equal, **words}
        return self._query.refusal(reason, name, unit=", ".join(self._units), **said)

    def _refuse(self, call: Node | None, reason: str, **words: object) -> NoReturn:
        raise_alone(self._refusal(call, reason, **words))

    # Operators

    def _check_operators(self, root: Node) -> None:
        for node in _descendants(root):
            kind = kind_of(node)
            if kind in ("EMPTY_RESULT", "LIMIT", "DELIM_GET", "CHUNK_GET"):
                self._refuse(None, "correlated")
            beside = _unlisted(node, f"type children {_OPERATORS.get(kind, '')}")
            if kind not in _OPERATORS or beside:
                self._refuse(None, "unknown", what=(beside or [kind])[0].replace("_", " ").lower())

    def _relation(self, node: Node) -> Relation:
        made: Relation = getattr(self, f"_{kind_of(node).lower()}")(node)
        return made

    def _below(self, node: Node, at: int = 0) -> Relation:
        return self._relation(node["children"][at])

    def _is_named_by(self, relation: Relation, places: Iterable[int | None]) -> bool:
        """Return whether columns name the unit of each row in full, or rows belong to nobody."""
        names = [relation.columns[at].name for at in places if at is not None]
        return not relation.private or len({name[0] for name in names if name is not None}) == len(self._units)

    def _are_together(
        self, left: Relation, right: Relation, equal: Iterable[tuple[Name | None, Name | None]]
    ) -> bool:
        """Return whether the rows of a join have one unit at most; `equal` are the columns that it compares."""
        same = {name[0] for name, other in equal if name is not None and name == other}
        return not (left.private and right.private) or len(same) == len(self._units)

    def _projection(self, node: Node) -> Relation:
        below = self._below(node)
        columns = [self._column(below, one) for one in node["expressions"]]
        return below.taking(list(map(place_of, node["expressions"])), columns)

    def _column(self, below: Relation, expression: Node) -> Column:
        at = place_of(expression)
        if at is not None:
            return below.columns[at]
        try:
            self._check(below.columns, expression)
        except GuaranteeError as problem:
            return Column(type_of(expression), refusal=problem)
        return Column(type_of(expression), self._name(below, expression))

    def _name(self, below: Relation, expression: Node) -> Name | None:
        """Return what part of the unit an expression is, unchanged or by casts that keep all values apart."""
        at = place_of(expression)
        if at is not None:
            return below.columns[at].name
        tries = (expression.get("function_data") or {}).get("try_cast")
        if expression["type"] != "OPERATOR_CAST" or tries or function_of(expression) != "__cast":
            return None
        (inside,) = expression["children"]
        name, cast = self._name(below, inside), language.injective_cast(type_of(inside), type_of(expression))
        if name is None or cast is None:
            return None
        return (name[0], (*name[1], cast)) if cast else name

    def _get(self, node: Node) -> Relation:
        if function_of(node) in ("range", "generate_series") and not node.get("children"):
            return Relation((Column({"id": "BIGINT"}),) * len(node.get("column_indexes", ())))
        path = (node.get("function_data") or {}).get("qualified_name", {}).get("path", ())
        source = self._query.sources.get(str(path[-1]).removeprefix("hidden_")) if path else None
        plain = function_of(node) == "seq_scan" and list(path[:2]) == ["memory", "main"] and not node.get("children")
        if source is None or not plain or node.get("source_ordinality") != "WITHOUT_ORDINALITY":
            self._refuse(None, "no source", name=function_of(node))
        names = list(map(folded, node["names"]))
        units = {} if source.public else {
            self._unit_of(source.name, names, part): part for part in range(len(self._units))
        }  # fmt: skip
        columns = []
        for given in node["column_indexes"]:
            at = int(given.get("index", len(names)))
            if at >= len(names):
                self._refuse(None, "no column", name=source.name)
            kind = node["returned_types"][at]
            named = at in units and self._is_unit(source.name, units[at], kind)
            columns.append(Column(kind, (units[at], ()) if named else None))
        return Relation(tuple(columns), not source.public)

    def _unit_of(self, source: str, names: list[str], part: int) -> int | None:
        """Return which column of a source is a part of the unit: the one of its name, or the one that is renamed."""
        if folded(self._units[part]) in names:
            return names.index(folded(self._units[part]))
        found = [at for at, name in enumerate(names) if name in self._renamed[part]]
        if len(found) > 1:
            self._refuse(None, "two units", name=source, column=self._units[part])
        return found[0] if found else None

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
            for one in row:
                self._check(below.columns, one)
        return Relation(tuple(map(Column, node["expr_types"])), below.private)

    def _filter(self, node: Node) -> Relation:
        (child,) = node["children"]
        conditions = conjuncts(node["expressions"])
        if kind_of(child) == "CROSS_PRODUCT":  # FROM a, b WHERE a.unit = b.unit
            below = self._comparison_join(child, conditions)
        else:
            below = self._relation(child)
            self._check_conditions(below.columns, conditions)
        kept = node.get("projection_map") or range(len(below.columns))
        return below.taking(kept, (below.columns[at] for at in kept))

    def _check_conditions(self, columns: Sequence[Column], conditions: Iterable[Node]) -> None:
        for one in conditions:
            at = place_of(one)
            if at is None or columns[at].only_in != "condition":
                self._check(columns, one)

    def _order_by(self, node: Node) -> Relation:
        below = self._below(node)
        for order in node["orders"]:
            self._check(below.columns, order["expression"])
        kept = node.get("projection_map") or range(len(below.columns))
        return Relation(tuple(below.columns[at] for at in kept), below.private)

    def _comparison_join(self, node: Node, where: Sequence[Node] = ()) -> Relation:
        how = str(node.get("join_type", "INNER"))
        if how not in ("INNER", "LEFT", "SEMI", "ANTI", "MARK"):
            self._refuse(None, "correlated")
        left, right = self._below(node), self._below(node, 1)
        both = Relation((*left.columns, *right.columns))
        paired = [one for one in node.get("conditions", ()) if "right" in one]
        for one in paired:
            self._check(left.columns, one["left"])
            self._check(right.columns, one["right"])
        for one in _of_both_sides(node):
            self._check(both.columns, one)
        self._check_conditions(both.columns, where)
        equal = [
            (self._name(left, one["left"]), self._name(right, one["right"]))
            for one in paired if one.get("comparison") in _EQUAL
        ]  # fmt: skip
        for one in where:
            sides = [refs(side) for side in one["children"]] if one["type"] in _EQUAL else []
            if sorted(min(side, default=0) >= len(left.columns) for side in sides if len(side) == 1) == [False, True]:
                equal.append((self._name(both, one["children"][0]), self._name(both, one["children"][1])))
        together = self._are_together(left, right, equal)
        if how == "INNER" and not together:
            self._refuse(None, "units meet")
        if how != "INNER" and right.private and not (left.private and together):
            self._refuse(None, "partner")
        mark = Column({"id": "BOOLEAN"})
        if right.private:
            mark = replace(mark, refusal=self._refusal(None, "condition"), only_in="condition")
        held = [*left.columns, *(replace(one, name=None) if how == "LEFT" else one for one in right.columns), mark]
        first = (0, len(left.columns), len(held) - 1)
        outputs = _outputs(node, (len(left.columns), len(right.columns)))
        return Relation(tuple(held[first[side] + at] for side, at in outputs), left.private or right.private)

    _any_join = _cross_product = _comparison_join

    def _aggregate_and_group_by(self, node: Node) -> Relation:
        groups, below = node.get("groups", []), self._below(node)
        computed = node.get("expressions", [])
        if len(node.get("grouping_sets", ())) > 1 or node.get("grouping_functions"):
            self._refuse(None, "GROUPING SETS, ROLLUP, CUBE")
        if not self._is_named_by(below, map(place_of, groups)):
            self._refuse(computed[0] if computed else None, "group")
        grouped = [self._alike(self._column(below, group), "GROUP BY") for group in groups]
        for group in groups:
            self._check(below.columns, group)
        fixed = {at for at, column in zip(map(place_of, groups), grouped, strict=True) if column.refusal is None}
        made = [self._aggregate(one, below, fixed) for one in computed]
        alike = all(column.refusal is None for column in grouped)
        return Relation((*grouped, *made), below.private, frozenset(range(len(groups))) if alike else None)

    def _aggregate(self, one: Node, below: Relation, fixed: set[int | None], *, window: bool = False) -> Column:
        """Return the column of an aggregate; `fixed` columns are equal in all rows that it gathers."""
        try:
            reason = self._why_order_matters(one, below, fixed, window=window)
        except GuaranteeError as problem:
            return Column(type_of(one), refusal=problem)
        refusal = self._refusal(one, reason) if reason else None
        return Column(type_of(one), refusal=refusal, only_in="unnest" if reason == "unnest" else "")

    def _why_order_matters(self, one: Node, below: Relation, fixed: set[int | None], *, window: bool) -> str:
        """Return the reason why an aggregate depends on the order in which its rows come; empty if it does not."""
        name = function_of(one)
        self._check_fields(one)
        if one.get("state_export", "NONE") != "NONE" or not language.is_known(type_of(one)):
            return "unknown"
        for part in parts(one):
            self._check(below.columns, part)
        arguments = [part for part in one.get("children", ()) if refs(part)]
        alike = all(language.is_alike(type_of(part)) for part in arguments)
        if not below.private and name in language.ORDERLESS | language.ADDING | language.ORDERED | {"count_star"}:
            return ""
        if name in language.ORDERLESS or name in ("count_star", "sum_no_overflow"):
            return "" if alike or name.startswith(("count", "bool_", "bit_")) else "alike"
        if name in language.ADDING:
            return "" if all(language.adds_exactly(type_of(part)) for part in arguments) else "floats"
        if name not in language.ORDERED or window:
            return "function"
        orders = orders_of(one)
        if not orders and name in ("list", "array_agg") and not refs(*arguments) <= fixed:
            return "alike" if one.get("aggregate_type") == "DISTINCT" and not alike else "unnest"
        told, ordered = [_shape(order) for order in orders], self._ordered(orders, below) | fixed
        sure = (
            refs(part) <= ordered or (_shape(part) in told and language.is_alike(type_of(part))) for part in arguments
        )
        return "" if all(sure) else "ties" if orders else "no order"

    def _window(self, node: Node) -> Relation:
        """Windows that pick rows by place need an order.

        Beside one whose order leaves ties, only what that order tells may be used: of rows that tie, any may have any
        place. Two such windows in two orders are refused, as they may pair the places of equal rows in any way.
        """
        below = self._below(node)
        windows = node["expressions"]
        made = [self._one_window(one, below) for one in windows]
        tied = [
            one for one, column in zip(windows, made, strict=True)
            if column.refusal is None and _places_rows(one)
            and not (below.unique is not None and below.unique <= self._told(one, below))
        ]  # fmt: skip
        if not tied:
            return Relation((*below.columns, *made), below.private, below.unique)
        told, order = self._told(tied[0], below), _order_of(tied[0])
        columns = [*below.columns, *made]
        needed = [{at} for at in range(len(below.columns))]
        for one in windows:
            rest = {key: value for key, value in one.items() if key not in ("partitions", "orders")}
            needed.append(refs(*parts(rest if one in tied and _order_of(one) == order else one)))
        for at, column in enumerate(columns):
            one = windows[at - len(below.columns)] if at >= len(below.columns) else None
            reason = "two windows" if one in tied and _order_of(present(one)) != order else "ties"
            if column.refusal is None and (reason != "ties" or not needed[at] <= told):
                columns[at] = replace(column, refusal=self._refusal(one or tied[0], reason))
        return Relation(tuple(columns), below.private, below.unique)

    def _one_window(self, one: Node, below: Relation) -> Column:
        try:
            self._check_fields(one)
            for part in parts(one):
                self._check(below.columns, part)
            if one["type"] not in language.RANKS | language.PLACES | {"WINDOW_AGGREGATE"} or one.get("arg_orders"):
                self._refuse(one, "unknown", what="this window function")
            if not self._is_named_by(below, map(place_of, one.get("partitions", ()))):
                self._refuse(one, "window")
        except GuaranteeError as problem:
            return Column(type_of(one), refusal=problem)
        if one["type"] == "WINDOW_AGGREGATE":
            return self._aggregate(one, below, set(), window=True)
        return Column(type_of(one))

    def _told(self, window: Node, below: Relation) -> set[int]:
        return self._ordered([*window.get("partitions", ()), *orders_of(window)], below)

    @staticmethod
    def _ordered(orders: list[Node], below: Relation) -> set[int]:
        """Return the columns whose values an order tells apart; a struct stands for its columns."""
        flat = [part for one in orders for part in (one["children"] if function_of(one) == "struct_pack" else [one])]
        return {at for one in flat if (at := place_of(one)) is not None and language.is_alike(below.columns[at].kind)}

    def _distinct(self, node: Node) -> Relation:
        below = self._below(node)
        targets = list(map(place_of, node.get("distinct_targets", ())))
        if not self._is_named_by(below, targets):
            self._refuse(None, "distinct")
        self._check_usable(below.columns[at] for at in targets if at is not None)
        columns = [
            self._alike(one, "DISTINCT")
            if at in targets
            else replace(one, refusal=self._refusal(None, "distinct on"))
            for at, one in enumerate(below.columns)
        ]
        return replace(below, columns=tuple(columns))

    def _union(self, node: Node) -> Relation:
        sides = [self._below(node, at) for at in range(len(node["children"]))]
        for side in sides:
            self._check_usable(side.columns)
        private = any(side.private for side in sides)
        if private and not all(side.private for side in sides):
            self._refuse(None, "union with public")
        columns = []
        for held in zip(*(side.columns for side in sides), strict=True):
            names = {one.name for one in held}
            columns.append(Column(held[0].kind, names.pop() if len(names) == 1 else None))
        made = Relation(tuple(columns), private)
        if not self._is_named_by(made, range(len(columns))):
            self._refuse(None, "union")
        if node.get("setop_all"):
            return made
        return replace(made, columns=tuple(self._alike(column, "UNION") for column in columns))

    def _unnest(self, node: Node) -> Relation:
        below = self._below(node)
        for one in node["expressions"]:
            at = place_of(one["child"])
            if at is None or len(node["expressions"]) > 1 or below.columns[at].only_in != "unnest":
                self._check(below.columns, one["child"])
        made = tuple(Column(type_of(one)) for one in node["expressions"])
        return Relation((*below.columns, *made), below.private)

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
        kept, *below = node["children"]
        found = [one for child in below for one in _descendants(child)]
        if " ".join(map(kind_of, found)) != _LATERAL_UNNEST or kind_of(kept) != "PROJECTION":
            self._refuse(None, "correlated")
        outer, inner, distinct, seen, again, join, left, call, given, taken = found
        plain = (
            [int(one["cte_index"]) for one in (seen, left, taken)]
            == [int(one["table_index"]) for one in (node, node, inner)]
            and str(inner.get("ctename", "")).startswith(_LATERAL)
            and function_of(call) == "unnest" and not distinct.get("expressions")
            and not _of_both_sides(join) and str(join["join_type"]) in ("INNER", "LEFT")
            and all(one.get("comparison") == "COMPARE_NOT_DISTINCT_FROM" for one in join.get("conditions", ()))
        )  # fmt: skip
        if not plain:
            self._refuse(None, "correlated")
        window = kept["children"][0]
        numbered = kind_of(window) == "WINDOW" and window["expressions"][0].get("alias") == "limit_rownum"
        rows = self._relation(window["children"][0] if numbered else window)
        number = Column({"id": "BIGINT"}, refusal=self._refusal(None, "correlated"))
        if numbered:
            rows = replace(rows, columns=(*rows.columns, number))
        rows = replace(rows, columns=tuple(self._column(rows, one) for one in kept["expressions"]))
        values = [self._column(rows, one) for one in distinct["groups"]]
        if number not in values:
            self._check_usable(self._alike(value, "unnest") for value in values)
        for one in given["expressions"]:
            self._check(
                [replace(value, refusal=None) if value is number else value for value in values], _placed(one)
            )
        types = call["returned_types"]
        made = [
            rows.columns[place] if side == 0 else Column(types[place] if place < len(types) else None)
            for side, place in _outputs(join, (len(rows.columns), len(types) + len(values)))
        ]
        for projection in (again, outer):
            made = [self._column(Relation(tuple(made)), one) for one in projection["expressions"]]
        return Relation(tuple(made), rows.private)

    # Expressions

    @staticmethod
    def _check_usable(columns: Iterable[Column]) -> None:
        for column in columns:
            if column.refusal is not None:
                raise_alone(column.refusal)

    def _alike(self, column: Column, what: str) -> Column:
        """Return a column of which equal values become one; it may not be used where they can be told apart."""
        if column.refusal is not None or language.is_alike(column.kind):
            return column
        return replace(column, refusal=self._refusal(None, "alike", name=what))

    def _check_fields(self, expression: Node) -> None:
        kind = expression["expression_class"]
        beside = _unlisted(expression, f"{_EXPRESSION} {_EXPRESSIONS.get(kind, '')}")
        if kind not in _EXPRESSIONS or beside:
            what = str(beside[0] if kind in _EXPRESSIONS else expression["type"]).replace("_", " ").lower()
            self._refuse(expression, "unknown", what=what)

    def _check(self, columns: Sequence[Column] | None, expression: Node) -> None:
        """Refuse an expression that looks at more than its row; inside a lambda `columns` is None."""
        self._check_fields(expression)
        at = place_of(expression)
        if at is not None:
            if columns is not None:
                self._check_usable([columns[at]])
            return
        kind, name = str(expression["type"]), function_of(expression)
        if kind not in _ROW_OPERATORS:
            self._refuse(expression, "more rows")
        if not language.is_known(type_of(expression)):
            self._refuse(expression, "type", name=language.name_of(type_of(expression)).lower())
        if name in ("list_aggr", "list_aggregate"):
            asked = expression["children"][1].get("value", {}).get("value")
            if str(asked).lower() not in language.LIST_AGGREGATES:
                self._refuse(expression, "list", name=asked)
        elif expression["expression_class"] == "BOUND_FUNCTION" and name not in language.SCALARS:
            self._refuse(expression, "function")
        if kind == "LAMBDA":
            self._check(None, expression["lambda_expr"])
        for part in parts(expression):
            self._check(columns, part)


def _places_rows(window: Node) -> bool:
    """Return whether a window function tells apart rows that tie in its order."""
    if window["type"] in language.RANKS:
        return False
    frame = f"{window.get('start')} {window.get('end')}"
    other = window.get("exclude_clause", "NO_OTHER") != "NO_OTHER"
    return window["type"] in language.PLACES or "_ROWS" in frame or other


def _order_of(window: Node) -> Any:
    return _shape([window.get("partitions"), window.get("orders")])


def _placed(expression: Node) -> Node:
    """Return an expression over the columns of its table, with their places in the place of their names."""
    if expression["expression_class"] != "BOUND_COLUMN_REF":
        return {
            **expression,
            **({"children": list(map(_placed, given))} if (given := expression.get("children")) else {}),
        }
    kept = {key: value for key, value in expression.items() if key not in ("binding", "depth")}
    place = {"expression_class": "BOUND_REF", "type": "BOUND_REF", "index": expression["binding"]["column_index"]}
    return {**kept, **place}
