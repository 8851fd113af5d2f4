"""Check the plan of a query: a unit's output rows must depend only on its own rows and on public tables.

The plan is made by DuckDB's binder, before optimization, over one view per source. `Check` computes which columns of
each operator name the unit, and refuses operators that depend on rows of several units or on their order.

Two things are not checked: that private sources have the unit in the column of that name, and that an engine's error
(a failed cast) reveals that some row caused it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from sparsehist.errors import GuaranteeError, raise_alone
from sparsehist.guarantee import language, plan
from sparsehist.guarantee.plan import Node, column_of, columns_in, function_of, kind_of, orders_of, parts, type_of
from sparsehist.guarantee.statement import Source, folded, nodes

_EQUAL = ("COMPARE_EQUAL", "COMPARE_NOT_DISTINCT_FROM")


class TieError(GuaranteeError):
    """A query depends on the order of rows that tie, which more columns in ORDER BY may prevent."""


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
    """The check of a query for units named by these columns.

    `sources` are keyed by view; for each part of the unit, `renamed` has the columns that the query renames to it.
    """

    def __init__(self, sources: Mapping[str, Source], units: tuple[str, ...], renamed: Sequence[set[str]]) -> None:
        self._sources, self._units, self._renamed = sources, units, renamed
        self._kinds: dict[int, str] = {}
        self._ctes: dict[int, Relation] = {}

    def run(self, root: Node, columns: Sequence[str], keys: tuple[str, ...]) -> None:
        """Refuse a plan unless each unit's rows depend only on that unit's own rows and on public tables."""
        for name in (*self._units, *keys):
            if sum(folded(column) == folded(name) for column in columns) != 1 or name not in columns:
                self._refuse("one column", name, columns=", ".join(columns))
        for node in nodes(root):
            if "expression_class" in node or str(node.get("type")).startswith("LOGICAL_"):
                reason, what = plan.unlisted(node)
                if reason:
                    self._refuse(reason, what)
        result = self._relation(root)
        if not result.private:
            self._refuse("all public")
        self._check_usable(*result.columns)
        for part, unit in enumerate(self._units):
            if result.columns[columns.index(unit)].unit != part:
                self._refuse("no unit", unit)

    def _refuse(self, reason: str, what: str = "", **words: str) -> NoReturn:
        """Refuse the query for a reason of the language; `what` is the name of a column or function."""
        equal = " AND ".join(f"a.{name} = b.{name}" for name in self._units)
        words |= {"unit": ", ".join(self._units), "equal": equal, "instead": language.instead_of(what)}
        kind = TieError if reason == "ties" else GuaranteeError
        raise_alone(kind(language.REASONS[reason].format(what=what, **words)))

    # Operators

    def _relation(self, node: Node) -> Relation:
        relation: Relation = getattr(self, f"_{kind_of(node).lower()}")(node)
        return relation

    def _below(self, node: Node, child: int = 0) -> Relation:
        return self._relation(node["children"][child])

    def _is_named_by(self, relation: Relation, columns: Iterable[int | None]) -> bool:
        """Return whether the relation is public, or these columns name the complete unit of each row."""
        units = {relation.columns[column].unit for column in columns if column is not None} - {None}
        return not relation.private or len(units) == len(self._units)

    def _are_together(self, left: Relation, right: Relation, equal: Iterable[tuple[int | None, int | None]]) -> bool:
        """Return whether each row of a join belongs to one unit at most; `equal` are the parts that it compares."""
        same = {one for one, other in equal if one is not None and one == other}
        return not (left.private and right.private) or len(same) == len(self._units)

    def _projection(self, node: Node) -> Relation:
        below = self._below(node)
        return Relation(tuple(self._column(below, one) for one in node["expressions"]), below.private)

    def _column(self, below: Relation, expression: Node) -> Column:
        column = column_of(expression)
        if column is not None:
            return below.columns[column]
        self._check(below.columns, expression)
        return Column(type_of(expression), self._unit(below, expression))

    def _unit(self, below: Relation, expression: Node) -> int | None:
        """Return the index of the part of the unit that an expression equals, up to injective casts; else None."""
        column = column_of(expression)
        if column is not None:
            return below.columns[column].unit
        tries = (expression.get("function_data") or {}).get("try_cast")
        if expression["type"] != "OPERATOR_CAST" or tries or function_of(expression) != "__cast":
            return None
        (inside,) = expression["children"]
        kept = language.keeps_units_apart(type_of(inside), type_of(expression))
        return self._unit(below, inside) if kept else None

    def _get(self, node: Node) -> Relation:
        function, data = function_of(node), node.get("function_data") or {}
        if function in ("range", "generate_series") and not node.get("children"):
            return Relation((Column({"id": "BIGINT"}),) * len(node.get("column_indexes", ())))
        *schema, table = data.get("qualified_name", {}).get("path") or [""]
        source = self._sources.get(table.removeprefix("hidden_"))
        names, read = list(map(folded, node["names"])), [int(one.get("index", -1)) for one in node["column_indexes"]]
        plain = function == "seq_scan" and schema == ["memory", "main"] and not node.get("children")
        if source is None or not plain or not set(read) <= set(range(len(names))):
            self._refuse("no source", function)
        columns = list(map(Column, node["returned_types"]))
        for part, unit in enumerate(() if source.public else self._units):
            named = [column for column, name in enumerate(names) if name == folded(unit)]
            named = named or [column for column, name in enumerate(names) if name in self._renamed[part]]
            if len(named) > 1:
                self._refuse("two units", source.name, column=unit)
            for column in named:
                self._check_unit(part, columns[column].kind)
                columns[column] = replace(columns[column], unit=part)
        return Relation(tuple(columns[column] for column in read), not source.public)

    def _check_unit(self, part: int, kind: Any) -> None:
        """Refuse invalid types of units, and two different types: different units might compare equal."""
        unit = language.unit_kind(kind)
        if not unit:
            self._refuse("unfit unit", self._units[part], kind=language.name_of(kind))
        if self._kinds.setdefault(part, unit) != unit:
            self._refuse("two types", self._units[part])

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
        alone = {column_of(one) for one in conditions}
        marks = {column for column, one in enumerate(below.columns) if column in alone and one.barred == "condition"}
        self._check(below.columns, *(one for one in conditions if column_of(one) not in marks))
        columns = (
            replace(one, barred="correlated") if column in alone else one for column, one in enumerate(below.columns)
        )
        return replace(below, columns=tuple(columns))

    def _comparison_join(self, node: Node) -> Relation:
        how, left, right = str(node.get("join_type", "INNER")), self._below(node), self._below(node, 1)
        if how not in ("INNER", "LEFT", "SEMI", "ANTI", "MARK"):
            self._refuse("correlated")
        paired = [one for one in node.get("conditions", ()) if "right" in one]
        others = [one["left"] for one in node.get("conditions", ()) if "right" not in one]
        self._check(left.columns, *(one["left"] for one in paired))
        self._check(right.columns, *(one["right"] for one in paired))
        both = (*left.columns, *right.columns)
        self._check(both, *others, *filter(None, map(node.get, ("condition", "predicate"))))
        equal = (
            (self._unit(left, one["left"]), self._unit(right, one["right"]))
            for one in paired
            if one.get("comparison") in _EQUAL
        )
        together = self._are_together(left, right, equal)
        if how == "INNER" and not together:
            self._refuse("units meet")
        if how != "INNER" and right.private and not (left.private and together):
            self._refuse("partner")
        added = {
            "INNER": right.columns,
            "LEFT": [replace(one, unit=None) for one in right.columns],
            "MARK": [Column({"id": "BOOLEAN"}, barred="condition" if right.private else "")],
        }.get(how, ())
        return Relation((*left.columns, *added), left.private or right.private)

    _any_join = _cross_product = _comparison_join

    def _aggregate_and_group_by(self, node: Node) -> Relation:
        groups, below = node.get("groups", []), self._below(node)
        if len(node.get("grouping_sets", ())) > 1:
            self._refuse("GROUPING_SETS")
        if not self._is_named_by(below, map(column_of, groups)):
            self._refuse("group")
        grouped = [self._column(below, group) for group in groups]
        self._check_alike(grouped, "GROUP BY")
        aggregates = [self._aggregate(one, below) for one in node.get("expressions", ())]
        return Relation((*grouped, *aggregates), below.private, frozenset(range(len(groups))))

    def _aggregate(self, one: Node, below: Relation, *, window: bool = False) -> Column:
        """Return the column of an aggregate, which must not depend on the order of rows."""
        name, kind, children = function_of(one), type_of(one), one.get("children", ())
        self._check(below.columns, *parts(one))
        if name not in language.ADDING | language.ORDERLESS | (frozenset() if window else language.ORDERED):
            self._refuse("function", name)
        if not below.private:
            return Column(kind)
        arguments = [part for part in children if columns_in(part)]
        if columns_in(*children[1:]):  # max(x, n) takes n from the first row
            self._refuse("unknown", f"{name} of a number in each row")
        if name in language.ADDING and not all(language.adds_exactly(type_of(part)) for part in children):
            self._refuse("floats", name)
        if name in language.ORDERED and not columns_in(*arguments) <= self._distinguished(orders_of(one), below):
            self._refuse("ties", name)
        counts = name.startswith(("count", "bool_", "bit_"))
        if name in language.ORDERLESS and not counts and not all(map(language.is_alike, map(type_of, arguments))):
            self._refuse("alike", name)
        return Column(kind)

    def _window(self, node: Node) -> Relation:
        """Check windows. Those that pick rows need an order that distinguishes all rows, except equal ones.

        Two such windows with different orders are refused if rows may be equal, since ties may be broken differently.
        """
        below, windows = self._below(node), node["expressions"]
        columns = [self._one_window(one, below) for one in windows]
        usable = {column for column, one in enumerate(below.columns) if one.barred in ("", "condition")}
        first = None
        for one in filter(plan.picks_rows, windows):
            distinguished = self._distinguished([*one.get("partitions", ()), *orders_of(one)], below)
            if below.unique is not None and below.unique <= distinguished:
                continue
            if not usable <= distinguished:
                self._refuse("ties", function_of(one) or str(one["type"]).removeprefix("WINDOW_").lower())
            order = (one.get("partitions"), one.get("orders"))
            if (first or order) != order:
                self._refuse("two windows")
            first = order
        return Relation((*below.columns, *columns), below.private, below.unique)

    def _one_window(self, one: Node, below: Relation) -> Column:
        self._check(below.columns, *parts(one))
        if one["type"] not in language.WINDOWS:
            self._refuse("unknown", "this window function")
        if not self._is_named_by(below, map(column_of, one.get("partitions", ()))):
            self._refuse("window")
        return self._aggregate(one, below, window=True) if one["type"] == "WINDOW_AGGREGATE" else Column(type_of(one))

    @staticmethod
    def _distinguished(orders: list[Node], below: Relation) -> set[int]:
        """Return the columns whose values an order distinguishes; a struct counts as its columns.

        The text of a struct also distinguishes equal values such as 0.0 and -0.0, if the struct is in the order too.
        """
        structs = [one for one in orders if function_of(one) == "struct_pack"]
        casts = [one for one in orders if one["type"] == "OPERATOR_CAST"]
        texts = [one["children"][0] for one in casts if language.name_of(type_of(one)) == "VARCHAR"]
        by_value = map(column_of, [*orders, *(part for one in structs for part in one["children"])])
        alike = {at for at in by_value if at is not None and language.is_alike(below.columns[at].kind)}
        by_text = map(column_of, [part for one in structs if one in texts for part in one["children"]])
        return alike | {at for at in by_text if at is not None}

    def _distinct(self, node: Node) -> Relation:
        below, targets = self._below(node), set(map(column_of, node.get("distinct_targets", ())))
        if not self._is_named_by(below, targets):
            self._refuse("distinct")
        if not targets >= set(range(len(below.columns))):
            self._refuse("distinct on")
        self._check_alike(below.columns, "DISTINCT")
        return below

    def _union(self, node: Node) -> Relation:
        sides = [self._below(node, child) for child in range(len(node["children"]))]
        private = any(side.private for side in sides)
        if private and not all(side.private for side in sides):
            self._refuse("union with public")
        columns = []
        for same in zip(*(side.columns for side in sides), strict=True):
            self._check_usable(*same)
            units = {one.unit for one in same}
            columns.append(Column(same[0].kind, units.pop() if len(units) == 1 else None))
        relation = Relation(tuple(columns), private)
        if not self._is_named_by(relation, range(len(columns))):
            self._refuse("union")
        if not node.get("setop_all"):
            self._check_alike(columns, "UNION")
        return relation

    def _unnest(self, node: Node) -> Relation:
        below = self._below(node)
        self._check(below.columns, *(one["child"] for one in node["expressions"]))
        return Relation((*below.columns, *(Column(type_of(one)) for one in node["expressions"])), below.private)

    def _materialized_cte(self, node: Node) -> Relation:
        self._ctes[int(node["table_index"])] = self._below(node)
        return self._below(node, 1)

    def _cte_ref(self, node: Node) -> Relation:
        return self._ctes[int(node["cte_index"])]

    # Expressions

    def _check_usable(self, *columns: Column) -> None:
        for column in columns:
            if column.barred:
                self._refuse(column.barred)

    def _check_alike(self, columns: Iterable[Column], what: str) -> None:
        """Refuse columns in which equal values can be distinguished, since merging depends on the order of rows."""
        for column in columns:
            self._check_usable(column)
            if not language.is_alike(column.kind):
                self._refuse("alike", what)

    def _check(self, columns: Sequence[Column] | None, *expressions: Node) -> None:
        """Refuse expressions that depend on other rows; if `columns` is None, they may use every column."""
        for one in expressions:
            column, kind = column_of(one), kind_of(one)
            if column is not None:
                self._check_usable(*(() if columns is None else [columns[column]]))
                continue
            if kind in ("BOUND_AGGREGATE", "BOUND_WINDOW"):
                self._refuse("unknown", f"{function_of(one)} inside an expression")
            if not language.is_known(type_of(one)):
                self._refuse("type", language.name_of(type_of(one)).lower())
            if kind == "BOUND_FUNCTION" and function_of(one) not in language.SCALARS:
                self._refuse("function", function_of(one))
            if kind == "BOUND_LAMBDA":
                self._check(None, one["lambda_expr"])
            self._check(columns, *parts(one))
