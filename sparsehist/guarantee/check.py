"""Check the plan of a query: a unit's output rows must depend only on its own rows and on public tables.

DuckDB's binder makes the plan, before optimization, over one view per source. `Check` computes which columns of each
operator name the unit, and refuses operators that depend on rows of several units or on the order of rows.

Two things are not checked: whether the unit column of a private source really contains the unit, and whether an
engine's error (a failed cast) reveals that some row caused it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sparsehist.errors import GuaranteeError
from sparsehist.guarantee import language, plan
from sparsehist.guarantee.language import Node, require
from sparsehist.guarantee.plan import column_of, columns_in, function_of, orders_of, type_of
from sparsehist.guarantee.statement import Rewriting, folded

_EQUAL = ("COMPARE_EQUAL", "COMPARE_NOT_DISTINCT_FROM")
_MARK = "whether IN is false or null depends on rows of all units; use it alone in WHERE, or write SEMI or ANTI JOIN"
_TWO_FORMS = "merges equal values that look different (0.0 and -0.0, 1 month and 30 days); cast to a decimal or text"
_TIE = (
    "depends on rows that tie in ORDER BY; add columns that distinguish all rows, or use rank(); give every query in "
    "FROM an alias that is not the name of a column"
)
_UNFIT = (
    "in which one unit may have several values: store whole numbers or text (pandas turns whole numbers with missing "
    "values into floats; astype('Int64') keeps them)"
)


class TieError(GuaranteeError):
    """A function depends on the order of rows that tie. More columns in ORDER BY may prevent the ties."""


@dataclass(frozen=True)
class Column:
    """A column of a relation."""

    kind: Any = None  # type in DuckDB's plan
    unit: int | None = None  # number of the unit's column that this column equals in every row


@dataclass(frozen=True)
class Relation:
    """The columns of a relation. Rows of a private relation belong to one unit each, rows of a public one to none."""

    columns: tuple[Column, ...]
    private: bool = False
    unique: frozenset[int] | None = None  # columns that together distinguish all rows; None if unknown


class Check:
    """The check of a query; the columns `units` together name a privacy unit."""

    def __init__(self, query: Rewriting, units: tuple[str, ...]) -> None:
        self._query, self._units = query, units
        self._kinds: dict[int, str] = {}
        self._ctes: dict[int, Relation] = {}

    def run(self, root: Node, columns: Sequence[str], keys: tuple[str, ...]) -> None:
        """Refuse a plan unless each unit's output rows depend only on rows of this unit and on public tables."""
        for name in (*self._units, *keys):
            once = sum(folded(column) == folded(name) for column in columns) == 1 and name in columns
            require(once, f"the result must have one column {name}; its columns are {', '.join(columns)}")
        result = self._relation(root)
        require(result.private, "the query reads no private table: do not declare the log's table public")
        for part, unit in enumerate(self._units):
            kept = result.columns[columns.index(unit)].unit == part
            require(kept, f"{unit} must be the column {unit} of a private table, unchanged or with an injective cast")

    # Operators

    def _relation(self, node: Node) -> Relation:
        below: list[Relation] = []
        for child in node.get("children", ()):
            below.append(self._relation(child))
            if plan.kind_of(node) == "MATERIALIZED_CTE":
                self._ctes.setdefault(int(node["table_index"]), below[0])
        relation: Relation = getattr(self, f"_{plan.kind_of(node).lower()}")(node, *below)
        return relation

    def _require_unit(self, relation: Relation, units: Iterable[int | None], refusal: str) -> None:
        """Refuse the query unless the relation is public or these numbers are those of all columns of the unit."""
        complete = len(set(units) - {None}) == len(self._units)
        require(complete or not relation.private, f"{refusal} {', '.join(self._units)}")

    def _are_together(self, left: Relation, right: Relation, equal: Iterable[tuple[int | None, int | None]]) -> bool:
        """Return whether each row of a join belongs to at most one unit; `equal` has the compared unit columns."""
        same = {one for one, other in equal if one is not None and one == other}
        return not (left.private and right.private) or len(same) == len(self._units)

    def _projection(self, node: Node, below: Relation) -> Relation:
        return Relation(tuple(self._column(below, one) for one in node["expressions"]), below.private)

    def _column(self, below: Relation, expression: Node) -> Column:
        return Column(type_of(expression), self._unit(below, expression))

    def _unit(self, below: Relation, expression: Node) -> int | None:
        """Return the number of the unit's column that an expression equals, up to injective casts; else None."""
        column = column_of(expression)
        if column is not None:
            return below.columns[column].unit
        if function_of(expression) != "__cast" or expression["function_data"]["try_cast"]:
            return None
        (inside,) = expression["children"]
        kept = language.is_injective(type_of(inside), type_of(expression))
        return self._unit(below, inside) if kept else None

    def _get(self, node: Node, *below: Relation) -> Relation:
        require(not below, plan.CORRELATED)
        function, path = function_of(node), (node["function_data"]["qualified_name"] or {}).get("path", ())
        if function in ("range", "generate_series"):
            return Relation((Column({"id": "BIGINT"}),) * len(node.get("column_indexes", ())))
        source = self._query.sources.get(path[-1]) if path[:-1] == ["memory", "main"] else None
        names, read = list(map(folded, node["names"])), [int(one.get("index", -1)) for one in node["column_indexes"]]
        if source is None or function != "seq_scan" or not set(read) <= set(range(len(names))):
            raise GuaranteeError(f"{function}(…) is not a source for a series' query")
        columns = list(map(Column, node["returned_types"]))
        for part, unit in enumerate(() if source.public else self._units):
            named = [column for column, name in enumerate(names) if name == folded(unit)]
            named = named or [column for column, name in enumerate(names) if name in self._query.renamed(unit)]
            require(len(named) < 2, f"{source.name} has two columns that the query calls {unit}; rename one")
            for column in named:
                kind = language.unit_kind(columns[column].kind)
                require(kind, f"{unit} has the type {language.name_of(columns[column].kind)}, {_UNFIT}")
                same = self._kinds.setdefault(part, kind) == kind  # otherwise different units may compare equal
                require(same, f"{unit} has different types in two tables; store it in one type")
                columns[column] = replace(columns[column], unit=part)
        return Relation(tuple(columns[column] for column in read), not source.public)

    def _filter(self, _: Node, below: Relation) -> Relation:
        return below

    def _comparison_join(self, node: Node, left: Relation, right: Relation) -> Relation:
        how = str(node.get("join_type", "INNER"))
        require(how in ("INNER", "LEFT", "SEMI", "ANTI", "MARK"), plan.CORRELATED)
        equal = [one for one in node.get("conditions", ()) if one.get("comparison") in _EQUAL]
        units = [(self._unit(left, one["left"]), self._unit(right, one["right"])) for one in equal]
        together = self._are_together(left, right, units)
        remedy = f"write ON {' AND '.join(f'a.{unit} = b.{unit}' for unit in self._units)}, or declare a table public"
        require(how != "INNER" or together, f"this joins rows of different units; {remedy}")
        alone = not right.private or (left.private and together)
        require(how == "INNER" or alone, f"whether a row has a match depends on other units; {remedy}")
        require(how != "MARK" or not right.private, _MARK)
        added = {
            "INNER": right.columns,
            "LEFT": [replace(one, unit=None) for one in right.columns],
            "MARK": [Column({"id": "BOOLEAN"})],
        }.get(how, ())
        return Relation((*left.columns, *added), left.private or right.private)

    _any_join = _cross_product = _comparison_join

    def _aggregate_and_group_by(self, node: Node, below: Relation) -> Relation:
        one_set = len(node.get("grouping_sets", ())) < 2
        require(one_set, "instead of grouping sets, write one GROUP BY for each and combine them by UNION ALL")
        groups = [self._column(below, group) for group in node.get("groups", ())]
        units = (one.unit for one in groups)
        self._require_unit(below, units, "this groups rows of several units; extend GROUP BY by")
        self._check_one_form(groups, "GROUP BY")
        aggregates = [self._aggregate(one, below, language.ORDERED) for one in node.get("expressions", ())]
        return Relation((*groups, *aggregates), below.private, frozenset(range(len(groups))))

    def _aggregate(self, one: Node, below: Relation, ordered: frozenset[str]) -> Column:
        """Return the column of an aggregate; refuse it if it depends on the order of rows and is not in `ordered`."""
        name, children = function_of(one), one.get("children", ())
        require(name in language.ADDING | language.ORDERLESS | ordered, language.refused_function(name))
        if below.private:
            varies = columns_in(*children[1:])
            require(not varies, f"{name} with a parameter that differs by row is {language.UNKNOWN}")
            kinds = [type_of(part) for part in children if columns_in(part) or name in language.ADDING]
            exact = name not in language.ADDING or all(map(language.adds_exactly, kinds))
            require(exact, f"floating-point {name} depends on the order of rows; write {name}(x::decimal(18, 3))")
            merges = name in language.ORDERLESS and not name.startswith(("count", "bool_", "bit_"))
            require(not merges or all(map(language.has_one_form, kinds)), f"{name} {_TWO_FORMS}")
            if name in language.ORDERED and not columns_in(*children) <= self._distinguished(orders_of(one), below):
                raise TieError(f"{name} {_TIE}")
        return Column(type_of(one))

    def _window(self, node: Node, below: Relation) -> Relation:
        """Check windows. A window that picks rows needs an order that distinguishes all rows that differ.

        If rows may be equal, two such windows with different orders are refused: they may break ties differently.
        """
        columns, orders = list(below.columns), []
        for one in node["expressions"]:
            require(one["type"] in language.WINDOWS, f"this window function is {language.UNKNOWN}")
            units = (self._unit(below, part) for part in one.get("partitions", ()))
            self._require_unit(below, units, "the window contains rows of several units; write PARTITION BY")
            aggregate = one["type"] == "WINDOW_AGGREGATE"
            columns.append(self._aggregate(one, below, frozenset()) if aggregate else Column(type_of(one)))
            distinguished = self._distinguished([*one.get("partitions", ()), *orders_of(one)], below)
            if plan.picks_rows(one) and (below.unique is None or not below.unique <= distinguished):
                if not distinguished >= set(range(len(below.columns))):
                    raise TieError(f"{function_of(one) or one['type'].removeprefix('WINDOW_').lower()} {_TIE}")
                orders.append((one.get("partitions"), one.get("orders")))
        same = all(order == orders[0] for order in orders)
        require(same, "two windows with different orders may break ties differently; use one order")
        return Relation(tuple(columns), below.private, below.unique)

    @staticmethod
    def _distinguished(orders: list[Node], below: Relation) -> set[int]:
        """Return the columns whose values an order distinguishes; a struct counts as its columns.

        The text of a struct also distinguishes equal values such as 0.0 and -0.0, if the struct is in the order too.
        """
        structs = [one for one in orders if function_of(one) == "struct_pack"]
        casts = [one for one in orders if function_of(one) == "__cast"]
        texts = [one["children"][0] for one in casts if language.name_of(type_of(one)) == "VARCHAR"]
        by_value = map(column_of, [*orders, *(part for one in structs for part in one["children"])])
        alike = {at for at in by_value if at is not None and language.has_one_form(below.columns[at].kind)}
        by_text = map(column_of, [part for one in structs if one in texts for part in one["children"]])
        return alike | {at for at in by_text if at is not None}

    def _distinct(self, node: Node, below: Relation) -> Relation:
        targets = set(map(column_of, node.get("distinct_targets", ())))
        units = (one.unit for column, one in enumerate(below.columns) if column in targets)
        self._require_unit(below, units, "DISTINCT merges rows of several units; extend SELECT by")
        complete = targets >= set(range(len(below.columns)))
        require(complete, "instead of DISTINCT ON write QUALIFY row_number() OVER (PARTITION BY … ORDER BY …) = 1")
        self._check_one_form(below.columns, "DISTINCT")
        return below

    def _union(self, node: Node, *sides: Relation) -> Relation:
        private = sides[0].private
        require(all(side.private == private for side in sides), "a UNION of private rows with public rows is refused")
        columns = []
        for same in zip(*(side.columns for side in sides), strict=True):
            units = {one.unit for one in same}
            columns.append(Column(same[0].kind, units.pop() if len(units) == 1 else None))
        units = {one.unit for one in columns}
        self._require_unit(sides[0], units, "all parts of a UNION must have, at one position and with one type,")
        if not node.get("setop_all"):
            self._check_one_form(columns, "UNION")
        return Relation(tuple(columns), private)

    def _unnest(self, node: Node, below: Relation) -> Relation:
        return Relation((*below.columns, *(Column(type_of(one)) for one in node["expressions"])), below.private)

    def _materialized_cte(self, _: Node, __: Relation, query: Relation) -> Relation:
        return query

    def _cte_ref(self, node: Node) -> Relation:
        return self._ctes[int(node["cte_index"])]

    def _check_one_form(self, columns: Iterable[Column], what: str) -> None:
        """Refuse columns whose equal values can look different, because merging depends on the order of rows."""
        same = all(language.has_one_form(column.kind) for column in columns)
        require(same, f"{what} {_TWO_FORMS}")
