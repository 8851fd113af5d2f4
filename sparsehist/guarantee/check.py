"""Check the plan of a query: the output rows of a unit must depend only on rows of this unit and on public tables.

DuckDB plans the query over empty tables. For each operator of the plan, `Check` finds the columns that identify the
unit. It refuses operators that depend on rows of several units or on the order of rows. It also refuses every
operator and function that is not listed as allowed. The lists were made for the tested versions of DuckDB.

Two things are not checked: whether the unit column of a private source really contains the unit, and whether an error
of DuckDB, such as a failed cast, reveals that some row caused it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import duckdb

from sparsehist.errors import GuaranteeError, StatementError, raise_alone
from sparsehist.guarantee import language
from sparsehist.guarantee.language import Node, nodes, require
from sparsehist.guarantee.statement import Rewriting, folded
from sparsehist.store.statements import statement

_WORDS = """
    BOUND_REF BOUND_CONSTANT BOUND_FUNCTION BOUND_CASE BOUND_CONJUNCTION BOUND_OPERATOR BOUND_LAMBDA BOUND_UNNEST
    BOUND_AGGREGATE BOUND_WINDOW PROJECTION GET FILTER COMPARISON_JOIN ANY_JOIN CROSS_PRODUCT AGGREGATE_AND_GROUP_BY
    WINDOW DISTINCT UNION UNNEST MATERIALIZED_CTE CTE_REF type expression_class return_type children index value qname
    arguments positional_arguments named_arguments function_data has_serialize is_operator case_checks else_expr
    lambda_expr parameter_count parameter_names child aggregate_type filter order_bys partitions orders start end
    start_expr end_expr exclude_clause filters distinct ignore_nulls sql_range_order_type sql_range_start
    sql_range_end sql_range_start_boundary sql_range_end_boundary table_index expressions returned_types names
    parameters input_table_types input_table_names column_indexes extra_info table_filters
    table_filters_by_projection ordinality_idx source_ordinality conditions join_type mark_index mark_types predicate
    condition groups grouping_sets group_index aggregate_index groupings_index distinct_validity window_index
    distinct_type distinct_targets column_count setop_all allow_out_of_order unnest_index ctename materialize
    cte_index chunk_types bound_columns _kind _function _type _column
"""
"""Kinds of operators and expressions that a plan may contain, and fields; `_node` adds those that begin with _."""
_ABSENT: tuple[object, ...] = (None, [], {}, False, "NONE")
_EQUAL = ("COMPARE_EQUAL", "COMPARE_NOT_DISTINCT_FROM")
_TWO_FORMS = "merges equal values that look different (0.0 and -0.0, 1 month and 30 days); cast to a decimal or text"
_TIE = "depends on rows that tie in ORDER BY; add columns, or give each query in FROM an alias that no column has"
_UNFIT = "in which a unit may have several values; store text or whole numbers (in pandas, astype('Int64'))"


@dataclass(frozen=True)
class Relation:
    """Columns of a relation. Each row belongs to one unit in a private relation, and to no unit in a public one."""

    units: tuple[int | None, ...]  # for each column, the index of the unit column whose values it contains, or None
    private: bool = False
    unique: frozenset[int] | None = None  # columns that together distinguish all rows; None if unknown


class Check:
    """A check of one query. The columns `units` of the query's result together identify a privacy unit."""

    def __init__(self, query: Rewriting, units: tuple[str, ...]) -> None:
        self._query, self._units = query, units
        self._kinds: dict[int, str] = {}
        self._ctes: dict[int, Relation] = {}

    def run(self, keys: tuple[str, ...]) -> None:
        """Refuse the query unless the output rows of a unit depend only on rows of this unit and on public tables."""
        columns, plan = _planned(self._query)
        for name in (*self._units, *keys):
            once = sum(folded(column) == folded(name) for column in columns) == 1 and name in columns
            require(once, f"the result must have one column {name}; its columns are {', '.join(columns)}")
        result = self._relation(plan)
        require(result.private, "the query reads no private table: do not declare the log's table public")
        for part, unit in enumerate(self._units):
            kept = result.units[columns.index(unit)] == part
            require(kept, f"{unit} must be the column {unit} of a private table, unchanged or with an injective cast")

    def _relation(self, node: Node) -> Any:
        kind, below = node["_kind"], list[Relation]()
        for child in node.get("children", ()):
            below.append(self._relation(child))
            if kind == "MATERIALIZED_CTE":
                self._ctes.setdefault(int(node["table_index"]), below[0])
        if kind == "CTE_REF":
            return self._ctes[int(node["cte_index"])]
        if kind in ("FILTER", "MATERIALIZED_CTE"):
            return below[-1]
        return getattr(self, f"_{kind.lower()}")(node, *below)

    def _require_unit(self, relation: Relation, refusal: str) -> None:
        """Refuse the query unless the relation is public or contains every unit column."""
        complete = len(set(relation.units) - {None}) == len(self._units)
        require(complete or not relation.private, f"{refusal} {', '.join(self._units)}")

    def _are_together(self, left: Relation, right: Relation, equal: Iterable[tuple[int | None, int | None]]) -> bool:
        """Return whether a joined row belongs to at most one unit, given pairs of columns that the join equates."""
        same = {one for one, other in equal if one is not None and one == other}
        return not (left.private and right.private) or len(same) == len(self._units)

    def _projection(self, node: Node, below: Relation) -> Relation:
        return Relation(tuple(self._unit(below, one) for one in node["expressions"]), below.private)

    def _unit(self, below: Relation, expression: Node) -> int | None:
        """Return the index of the unit column that an expression copies or casts injectively, else None."""
        if expression["_column"] is not None:
            return below.units[expression["_column"]]
        if expression["_function"] != "__cast" or (expression.get("function_data") or {}).get("try_cast"):
            return None
        (inside,) = expression["children"]
        kept = language.is_injective(inside["_type"], expression["_type"])
        return self._unit(below, inside) if kept else None

    def _get(self, node: Node, *below: Relation) -> Relation:
        require(not below, language.refusal_of("DELIM_GET"))
        function, read = node["_function"], [int(one.get("index", -1)) for one in node.get("column_indexes", ())]
        if function in ("range", "generate_series"):
            return Relation((None,) * len(read))
        *schema, table = (node.get("function_data") or {}).get("qualified_name", {}).get("path") or [""]
        source = self._query.sources.get(table) if schema == ["memory", "main"] else None
        names, types = list(map(folded, node["names"])), node["returned_types"]
        if source is None or function != "seq_scan" or not set(read) <= set(range(len(names))):
            raise GuaranteeError(f"{function}(…) is not a source that the query of a series may read")
        units = dict.fromkeys(range(len(names)))
        for part, unit in enumerate(() if source.public else self._units):
            called = {folded(unit)} if folded(unit) in names else self._query.renamed(unit)
            named = [column for column, name in enumerate(names) if name in called]
            require(len(named) < 2, f"{source.name} has two columns that the query calls {unit}; rename one")
            for column in named:
                kind = language.unit_kind(types[column])
                require(kind, f"{unit} has the type {types[column]['id']}, {_UNFIT}")
                one_type = self._kinds.setdefault(part, kind) == kind
                require(one_type, f"{unit} has different types in two tables; store it in one type")
                units[column] = part
        return Relation(tuple(units[column] for column in read), not source.public)

    def _comparison_join(self, node: Node, left: Relation, right: Relation) -> Relation:
        how = str(node.get("join_type", "INNER"))
        require(how in ("INNER", "LEFT", "SEMI", "ANTI", "MARK"), language.refusal_of("DELIM_GET"))
        equal = [one for one in node.get("conditions", ()) if one.get("comparison") in _EQUAL]
        units = [(self._unit(left, one["left"]), self._unit(right, one["right"])) for one in equal]
        together = self._are_together(left, right, units)
        remedy = f"write ON {' AND '.join(f'a.{unit} = b.{unit}' for unit in self._units)}, or declare a table public"
        require(how != "INNER" or together, f"this joins rows of different units; {remedy}")
        alone = not right.private or (left.private and together)
        require(how == "INNER" or alone, f"whether a row has a match depends on other units; {remedy}")
        require(how != "MARK" or not right.private, language.refusal_of("MARK"))
        added = {"INNER": right.units, "LEFT": (None,) * len(right.units), "MARK": (None,)}
        return Relation((*left.units, *added.get(how, ())), left.private or right.private)

    _any_join = _cross_product = _comparison_join

    def _aggregate_and_group_by(self, node: Node, below: Relation) -> Relation:
        groups, aggregates = node.get("groups", []), node.get("expressions", [])
        one_set = len(node.get("grouping_sets", ())) < 2
        require(one_set, "instead of grouping sets, write one GROUP BY for each and combine them by UNION ALL")
        grouped = self._projection({"expressions": groups}, below)
        self._require_unit(grouped, "this groups rows of several units; extend GROUP BY by")
        _require_one_form(groups, "GROUP BY")
        for one in aggregates:
            self._check_aggregate(one, below, language.ORDERED)
        return Relation((*grouped.units, *[None] * len(aggregates)), below.private, frozenset(range(len(groups))))

    def _check_aggregate(self, one: Node, below: Relation, ordered: frozenset[str]) -> None:
        """Refuse an aggregate whose result may depend on the order of rows, unless its ORDER BY fixes this order."""
        name, children = one["_function"], one.get("children", [])
        require(name in language.ADDING | language.ORDERLESS | ordered, language.refused_function(name))
        if not below.private:
            return
        varies = _columns_in(*children[1:])
        require(not varies, f"{name} with a parameter that differs by row is {language.UNKNOWN}")
        exact = (
            name not in language.ADDING or {part["_type"].get("id") for part in children} <= language.ADDED_EXACTLY
        )
        require(exact, f"floating-point {name} depends on the order of rows; write {name}(x::decimal(18, 3))")
        if name in language.ORDERLESS and not name.startswith(("count", "bool_", "bit_")):
            _require_one_form(filter(_columns_in, children), name)
        ties = name in language.ORDERED and not _columns_in(*children) <= self._distinguished(_orders_of(one))
        require(not ties, f"{name} {_TIE}")

    def _window(self, node: Node, below: Relation) -> Relation:
        """Check window functions. Refuse row_number() and similar functions if different rows may tie in ORDER BY.

        If a relation may contain equal rows, all windows of these functions must have the same PARTITION BY and
        ORDER BY: otherwise, two windows could put equal rows in different orders.
        """
        orders = []
        for one in node["expressions"]:
            partitions = one.get("partitions", ())
            require(one["type"] in language.WINDOWS, f"this window function is {language.UNKNOWN}")
            partition = self._projection({"expressions": partitions}, below)
            self._require_unit(partition, "the window contains rows of several units; write PARTITION BY")
            if one["type"] == "WINDOW_AGGREGATE":
                self._check_aggregate(one, below, frozenset())
            distinguished = self._distinguished([*partitions, *_orders_of(one)])
            if picks_rows(one) and (below.unique is None or not below.unique <= distinguished):
                name = one["_function"] or one["type"].removeprefix("WINDOW_").lower()
                require(distinguished >= set(range(len(below.units))), f"{name} {_TIE}")
                orders.append((partitions, one.get("orders")))
        same = all(order == orders[0] for order in orders)
        require(same, "two windows with different orders may break ties differently; use one order")
        return Relation((*below.units, *[None] * len(node["expressions"])), below.private, below.unique)

    @staticmethod
    def _distinguished(orders: list[Node]) -> set[int]:
        """Return the indices of the columns in which rows that tie in ORDER BY have identical values.

        A column with 0.0 and -0.0 is included only if ORDER BY has a struct of the column and the text of the struct.
        """
        structs = [one for one in orders if one["_function"] == "struct_pack"]
        casts = [one for one in orders if one["_function"] == "__cast" and one["_type"]["id"] == "VARCHAR"]
        by_value = [*orders, *(part for one in structs for part in one["children"])]
        found = [one for one in by_value if language.consists_of(one["_type"], language.ONE_FORM)]
        found += [part for one in casts if one["children"][0] in structs for part in one["children"][0]["children"]]
        return {one["_column"] for one in found} - {None}

    def _distinct(self, node: Node, below: Relation) -> Relation:
        targets = node.get("distinct_targets", ())
        kept = self._projection({"expressions": targets}, below)
        self._require_unit(kept, "DISTINCT merges rows of several units; extend SELECT by")
        complete = {one["_column"] for one in targets} >= set(range(len(below.units)))
        require(complete, "instead of DISTINCT ON write QUALIFY row_number() OVER (PARTITION BY … ORDER BY …) = 1")
        _require_one_form(targets, "DISTINCT")
        return below

    def _union(self, node: Node, *sides: Relation) -> Relation:
        # DuckDB plans UNION as DISTINCT over UNION ALL.
        require(node.get("setop_all"), f"this union is {language.UNKNOWN}")
        same = all(side.private == sides[0].private for side in sides)
        require(same, "a UNION of private rows with public rows is refused")
        columns = [set(units) for units in zip(*(side.units for side in sides), strict=True)]
        units = [column.pop() if len(column) == 1 else None for column in columns]
        union = Relation(tuple(units), sides[0].private)
        self._require_unit(union, "all parts of a UNION must have, at one position and with one type,")
        return union

    def _unnest(self, node: Node, below: Relation) -> Relation:
        return Relation((*below.units, *[None] * len(node["expressions"])), below.private)


def _planned(query: Rewriting) -> tuple[list[str], Node]:
    """Return the columns of a query and its plan over empty tables. Refuse plans with parts that are not allowed."""
    try:
        columns = query.parser.sql(query.text).columns
        ((text,),) = query.parser.execute(statement("guarantee_plan"), {"query": query.text}).fetchall()
        (plan,) = json.loads(text, object_hook=_node)["plans"]
    except duckdb.Error as problem:
        message = str(problem).partition("\n")[0].split(": ", 1)[-1]  # safe to show: the tables are empty
        message = re.sub(r"\b(memory\.main\.)?source_(\d+)\b", r"source \2", message)
        raise_alone(StatementError(f"DuckDB cannot plan the query: {message}"))
    except (KeyError, ValueError):  # DuckDB writes NAN, which is not JSON
        raise_alone(GuaranteeError("DuckDB cannot write the plan; write isnan(x) instead of comparing with nan"))
    for node in nodes(plan):
        if "expression_class" in node or str(node.get("type")).startswith("LOGICAL_"):
            _check_node(node)
    return columns, plan


def _node(node: Node) -> Node:
    """Add _kind, _function, _type and _column to a plan node. Drop alias and position, to make nodes comparable."""
    kept = {key: value for key, value in node.items() if key != "alias" and not key.startswith("query_location")}
    kind = str(node.get("expression_class", node.get("type"))).removeprefix("LOGICAL_")
    type_ = node["value"]["type"] if kind == "BOUND_CONSTANT" else node.get("return_type", {})
    return kept | {
        "_kind": kind,
        "_function": str((node.get("qname") or {}).get("path", [""])[-1]).lower(),
        "_type": {"id": "BOOLEAN"} if kind == "BOUND_CONJUNCTION" else type_,
        "_column": int(node.get("index", 0)) if kind == "BOUND_REF" else None,
    }


def _check_node(node: Node) -> None:
    kind, name = node["_kind"], node["_function"]
    unknown = {kind, *(key for key, value in node.items() if value not in _ABSENT)}.difference(_WORDS.split())
    unknown |= {"DELIM_GET"} if str(node.get("ctename", "")).startswith("__duckdb_delim") else set()
    first = " ".join(sorted(unknown)[:1]).replace("_", " ").lower()
    require(not unknown, language.refusal_of(*unknown) or f"{first} is {language.UNKNOWN}")
    require(kind != "BOUND_FUNCTION" or name in language.SCALARS, language.refused_function(name))
    if kind.startswith("BOUND_") and kind != "BOUND_REF":
        allowed = language.consists_of(node["_type"], language.ALLOWED)
        require(allowed, f"the type {node['_type'].get('id')} is {language.UNKNOWN}")


def _require_one_form(expressions: Iterable[Node], what: str) -> None:
    """Refuse to merge values that are equal but look different (0.0, -0.0): row order would decide which is kept."""
    for one in expressions:
        require(language.consists_of(one["_type"], language.ONE_FORM), f"{what} {_TWO_FORMS}")


def _columns_in(*expressions: Node) -> set[int]:
    return {node["_column"] for node in nodes(expressions) if "_column" in node} - {None}


def _orders_of(expression: Node) -> list[Node]:
    orders = (expression.get("order_bys") or {}).get("orders", ())
    return [order["expression"] for order in (*expression.get("orders", ()), *orders)]


def picks_rows(window: Node) -> bool:
    """Return whether a window function may give different results for rows that tie in its ORDER BY."""
    frame = f"{window.get('start')} {window.get('end')} {window.get('exclude_clause', 'NO_OTHER')}"
    picks = window["type"] != "WINDOW_AGGREGATE" or "_ROWS" in frame or not frame.endswith("NO_OTHER")
    return picks and window["type"] not in language.RANKED
