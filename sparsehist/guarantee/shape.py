"""The shape of a plan: its operators, how many columns each gives, and where a column comes from."""

from __future__ import annotations

from typing import NoReturn

from sparsehist.guarantee import expressions as of_one
from sparsehist.guarantee.plan import DELIMITED, Planned, Source
from sparsehist.guarantee.trees import Node, nodes, unknown
from sparsehist.guarantee.windows import tells_rows_apart

_FIELDS = {
    kind: frozenset(f"type children {fields}".split())
    for kind, fields in {
        "PROJECTION": "table_index expressions",
        "GET": "table_index returned_types names projection_ids table_filters arguments qname has_serialize"
        " function_data parameters named_parameters input_table_types input_table_names projected_input"
        " column_indexes extra_info ordinality_idx source_ordinality table_filters_by_projection"
        " has_pushed_projection",
        "FILTER": "expressions projection_map",
        "COMPARISON_JOIN": "conditions join_type mark_index mark_types left_projection_map right_projection_map"
        " delim_flipped predicate",
        "ANY_JOIN": "condition join_type mark_index left_projection_map right_projection_map",
        "CROSS_PRODUCT": "",
        "AGGREGATE_AND_GROUP_BY": "expressions groups grouping_sets grouping_functions group_index aggregate_index"
        " groupings_index distinct_validity",
        "WINDOW": "expressions window_index",
        "DISTINCT": "distinct_type distinct_targets order_by",
        "UNION": "table_index column_count setop_all allow_out_of_order",
        "EXCEPT": "table_index column_count setop_all allow_out_of_order",
        "INTERSECT": "table_index column_count setop_all allow_out_of_order",
        "ORDER_BY": "orders projection_map",
        "LIMIT": "limit_val offset_val unpruned_offset",
        "TOP_N": "orders limit offset",
        "SAMPLE": "sample_options",
        "UNNEST": "unnest_index expressions",
        "MATERIALIZED_CTE": "table_index column_count ctename materialize",
        "RECURSIVE_CTE": "table_index column_count ctename internal_types key_targets union_all ref_recurring",
        "CTE_REF": "table_index cte_index chunk_types bound_columns is_recurring",
        "EXPRESSION_GET": "table_index expr_types expressions",
        "CHUNK_GET": "table_index chunk_types collection column_ids",
        "DUMMY_SCAN": "table_index",
        "EMPTY_RESULT": "return_types bindings",
        "POSITIONAL_JOIN": "",
        "ASOF_JOIN": "conditions join_type mark_index mark_types left_projection_map "
        "right_projection_map delim_flipped",
    }.items()
}
NO_COLUMN = 2**63


class Shape:
    """One plan; refused if an operator or a field is not known, even one whose rows are not used: it may act."""

    def __init__(self, planned: Planned) -> None:
        self.planned = planned
        self._ctes: dict[int, Node] = {}
        self._numbers: dict[int, int] = {}
        for node in nodes(planned.root):
            if str(node.get("type", "")).startswith("LOGICAL_"):
                self._check_known(node)

    def _refuse(self, part: object, reason: str) -> NoReturn:
        self.planned.refuse(part, reason)

    def _check_known(self, node: Node) -> None:
        """Refuse an operator that is not known here, even one whose rows are not used: it may act."""
        kind = kind_of(node)
        beside = unknown(node, _FIELDS.get(kind, ()))
        if kind not in _FIELDS or beside:
            what = kind if kind not in _FIELDS else beside[0]
            self._refuse(
                node,
                f"whether this keeps every unit's rows apart is not known ({what.replace('_', ' ').lower()}); "
                "write it in a plainer way",
            )
        if kind == "MATERIALIZED_CTE":
            self._ctes[int(node["table_index"])] = made = node["children"][0]
            below = made["children"][0] if kind_of(made) == "PROJECTION" else made
            # DuckDB numbers the rows of a lateral join itself, where their values cannot be compared.
            if str(node.get("ctename", "")).startswith(DELIMITED) and kind_of(below) == "WINDOW":
                self._numbers |= {id(one): id(one) for one in below["expressions"] if tells_rows_apart(one)}

    def width(self, node: Node) -> int:
        """How many columns an operator gives."""
        kind = kind_of(node)
        children = node.get("children", ())
        own = {
            "PROJECTION": "expressions",
            "EXPRESSION_GET": "expr_types",
            "CTE_REF": "chunk_types",
            "CHUNK_GET": "chunk_types",
            "EMPTY_RESULT": "return_types",
        }
        if kind in own:
            return len(node.get(own[kind], ()))
        if kind == "GET":
            return len(node.get("column_indexes", ())) + len(node.get("projected_input", ()))
        if kind == "DUMMY_SCAN":
            return 1
        if kind == "AGGREGATE_AND_GROUP_BY":
            return sum(len(node.get(name, ())) for name in ("groups", "expressions", "grouping_functions"))
        if kind in ("WINDOW", "UNNEST"):
            return self.width(children[0]) + len(node.get("expressions", ()))
        if kind in ("FILTER", "ORDER_BY"):
            return len(node.get("projection_map", ())) or self.width(children[0])
        if kind == "MATERIALIZED_CTE":
            return self.width(children[1])
        if kind in ("COMPARISON_JOIN", "ANY_JOIN", "CROSS_PRODUCT"):
            return len(self._outputs(node))
        return self.width(children[0])

    def _outputs(self, node: Node) -> list[tuple[int, int]]:
        """The columns of a join: of which side, and which; a mark is of side 2."""
        left, right = (self.width(child) for child in node["children"])
        kept = [(0, at) for at in node.get("left_projection_map") or range(left)]
        how = node.get("join_type", "INNER")
        if how == "MARK":
            return [*kept, (2, 0)]
        if how in ("SEMI", "ANTI"):
            return kept
        return [*kept, *((1, at) for at in node.get("right_projection_map") or range(right))]

    def names_at_source(self, at: int) -> tuple[str, ...]:
        """The names that a column of the result has in the tables it is taken from."""
        return tuple(dict.fromkeys(self._names_of(self.planned.root, at)))

    def _names_of(self, node: Node, at: int) -> list[str]:
        kind, children = kind_of(node), node.get("children", ())
        if kind == "PROJECTION":
            number = self._standing(children[0])
            if number is not None:
                return self._names_behind(self.planned.standing[number], at)
            given = self._bound(node["expressions"][at], node)
            return [name for place in sorted(_copied(given)) for name in self._names_of(children[0], place)]
        if kind == "GET" and at < len(node.get("column_indexes", ())):
            path = tuple((node.get("function_data") or {}).get("qualified_name", {}).get("path", ()))
            index = int(node["column_indexes"][at].get("index", NO_COLUMN))
            known = path in self.planned.tables and index < len(node["names"])
            return self._names_behind(self.planned.tables[path], index) if known else []
        if kind in ("COMPARISON_JOIN", "ANY_JOIN", "CROSS_PRODUCT"):
            side, place = self._outputs(node)[at]
            return self._names_of(children[side], place) if side < 2 else []
        if kind == "AGGREGATE_AND_GROUP_BY":
            places = [place for group in node.get("groups", ())[at : at + 1] for place in sorted(_copied(group))]
            return [name for place in places for name in self._names_of(children[0], place)]
        if kind in ("UNION", "EXCEPT", "INTERSECT"):
            return [name for child in children for name in self._names_of(child, at)]
        if kind in ("FILTER", "ORDER_BY"):
            return self._names_of(children[0], list(node.get("projection_map") or range(at + 1))[at])
        if kind == "CTE_REF" and int(node["cte_index"]) in self._ctes:
            return self._names_of(self._ctes[int(node["cte_index"])], at)
        inside = {"MATERIALIZED_CTE": 1, "RECURSIVE_CTE": 0, "DISTINCT": 0, "LIMIT": 0, "WINDOW": 0, "UNNEST": 0}
        below = children[inside[kind]] if kind in inside else None
        return self._names_of(below, at) if below is not None and at < self.width(below) else []

    def _names_behind(self, source: Source, at: int) -> list[str]:
        if source.behind is None:
            return [source.columns[at]]
        found: list[str] = []
        for behind in source.behind:
            place = index_of([name.lower() for name in behind.columns], source.columns[at].lower()) or 0
            found += Shape(behind).names_at_source(at if source.kind == "table" else place)
        return found

    def _bound(self, expression: Node, node: Node) -> Node:
        """An expression whose columns are still named by the table they are of, with their places instead."""
        if expression["expression_class"] != "BOUND_COLUMN_REF":
            inside = expression.get("children", [])
            bound = [self._bound(part, node) for part in inside]
            return expression if bound == inside else {**expression, "children": bound}
        binding, child = expression["binding"], node["children"][0]
        if binding["table_index"] != child.get("table_index") or kind_of(child) not in (
            "CTE_REF",
            "GET",
            "PROJECTION",
        ):
            self._refuse(
                expression,
                "what this is computed from, perhaps rows of all units, cannot be followed; write it plainer",
            )
        return {**expression, "expression_class": "BOUND_REF", "type": "BOUND_REF", "index": binding["column_index"],
                "binding": None, "depth": None}  # fmt: skip

    def _standing(self, node: Node) -> int | None:
        """The number of the files or the frame that a call stands for, if it does."""
        if kind_of(node) != "GET" or of_one.function_of(node) != "range" or len(node.get("parameters", ())) != 1:
            return None
        number = node["parameters"][0].get("value")
        return number if number in self.planned.standing else None


def _copied(expression: Node) -> set[int]:
    """The columns that an expression is, but for casts and the two sides of a full join."""
    if expression["type"] in ("BOUND_REF", "OPERATOR_CAST", "OPERATOR_COALESCE"):
        return of_one.refs(expression)
    return set()


def index_of(names: list[str], name: str) -> int | None:
    """The place of a name, if it is there."""
    return names.index(name) if name in names else None


def kind_of(node: Node) -> str:
    """The kind of an operator."""
    return str(node.get("type", "")).removeprefix("LOGICAL_")
