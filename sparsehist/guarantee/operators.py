"""What each operator of a plan makes of the relations it reads.

`relation` goes down a plan with the columns that are used above, and comes back with whose rows each relation holds.
Only operators, fields and functions that are listed are let through, so that what a later DuckDB adds is refused.
"""
# ruff: noqa: ARG002  every operator is handed which of its columns are used above

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from sparsehist.errors import GuaranteeError, raise_alone
from sparsehist.guarantee import expressions as of_one
from sparsehist.guarantee import functions
from sparsehist.guarantee.plan import OF_ARGUMENTS, SAMPLED, Planned, Source, refusal
from sparsehist.guarantee.relations import Column, Name, Pairs, Relation, Slot, equal_slots, looked_up
from sparsehist.guarantee.shape import NO_COLUMN, Shape, index_of, kind_of
from sparsehist.guarantee.trees import Node
from sparsehist.guarantee.windows import check_windows

Live = frozenset[int]

NO_UNIT = "these are the values of a column over all units, and rows of none; name the unit in GROUP BY"
UNITS_MEET = (
    "rows of different units meet in a join; join on the unit, a.{0} = b.{0}, or declare one of the tables public"
)
_REFUSED = {
    "sample": SAMPLED,
    "positional_join": "a positional join pairs rows by where they stand; join on columns",
    "asof_join": "an asof join takes any of the rows that tie; join to a query that takes max(time) for each unit",
    "top_n": "LIMIT and OFFSET count the rows of all units; leave them out",
}
_EQUAL = ("COMPARE_EQUAL", "COMPARE_NOT_DISTINCT_FROM")


@dataclass(frozen=True)
class Protected:
    """What a query is checked against.

    Attributes:
        units: For each part of the unit, the names its column may have in a table, the usual one first.
        is_public: Whether a source was declared public.
        kinds: The types of the columns that name the unit, once one is met.
    """

    units: tuple[tuple[str, ...], ...]
    is_public: Callable[[Source], bool]
    kinds: dict[int, str] = field(default_factory=dict)


class OfOnePlan(Shape):
    """One plan that is checked against what is asked."""

    def __init__(self, planned: Planned, asked: Protected) -> None:
        super().__init__(planned)
        self.asked = asked
        self._steps: dict[int, Relation] = {}
        self._unit = ", ".join(names[0] for names in asked.units)

    def result(self) -> Relation:
        """What the query returns."""
        return self.relation(self.planned.root, frozenset(range(self.width(self.planned.root))))

    # Operators

    def relation(self, node: Node, live: Live) -> Relation:
        """What an operator returns, given which of its columns are used above."""
        kind = kind_of(node).lower()
        if kind in _REFUSED:
            self._refuse(node, _REFUSED[kind])
        return getattr(self, f"_{kind}")(node, live)  # type: ignore[no-any-return]

    def _child(self, node: Node, live: Live, *used: Node, at: int = 0) -> Relation:
        return self.relation(node["children"][at], live | of_one.refs(*used))

    def _check(self, relation: Relation, *used: Node) -> None:
        for expression in used:
            of_one.check(self.planned, expression, relation.columns)

    def _projection(self, node: Node, live: Live) -> Relation:
        given = [self._bound(expression, node) for expression in node["expressions"]]
        used = [expression for at, expression in enumerate(given) if at in live]
        number = self._standing(node["children"][0])
        if number is not None:
            return self._source(
                node, self.planned.standing[number], [*range(len(given))], list(map(of_one.kind_of, given)), live
            )
        child = self._child(node, frozenset(), *used)
        columns = tuple(
            self._column(child, expression) if at in live else Column(of_one.kind_of(expression))
            for at, expression in enumerate(given)
        )
        places = {of_one.place_of(expression): at for at, expression in enumerate(given)}
        unique = child.unique
        if unique is not None:
            unique = frozenset(places[at] for at in unique) if unique <= places.keys() else None
        return Relation(columns, child.slots, unique)

    def _column(self, child: Relation, expression: Node) -> Column:
        at = of_one.place_of(expression)
        if at is not None:
            return child.columns[at]
        of_one.check(self.planned, expression, child.columns)
        return Column(of_one.kind_of(expression), name=self._kept_apart(child, expression))

    def _kept_apart(self, child: Relation, expression: Node) -> Name | None:
        """What an expression names, if it is a column that names a unit in other words."""
        inside = expression.get("children", ())
        if expression["type"] == "OPERATOR_CAST" and not expression.get("function_data", {}).get("try_cast"):
            at = of_one.place_of(inside[0])
            name = child.columns[at].name if at is not None else self._kept_apart(child, inside[0])
            written = functions.keeps_apart(of_one.kind_of(inside[0]), expression.get("return_type"))
            if name is None or written is None:
                return None
            return replace(name, written=(*name.written, written) if written else name.written)
        if expression["type"] == "OPERATOR_COALESCE" and len(inside) == 2:
            places = [of_one.place_of(part) for part in inside]
            halves = [child.columns[at].half for at in places if at is not None]
            both = [half for half in halves if half is not None]
            if len(both) == 2:
                (one, first, name), (other, second, same) = both
                return name if one is other and first != second and name == same else None
        return None

    def _filter(self, node: Node, live: Live) -> Relation:
        kept = node.get("projection_map") or range(self.width(node["children"][0]))
        below = self._child(node, frozenset(kept[at] for at in live), *node["expressions"])
        for part in conditions(node["expressions"]):
            at = of_one.place_of(part)
            if at is None or below.columns[at].number is not None:
                self._check(below, part)
        pairs = [
            (self._column(below, part["children"][0]), self._column(below, part["children"][1]))
            for part in conditions(node["expressions"])
            if part["type"] in _EQUAL
        ]
        found = self._equated(below, pairs)
        places = {old: new for new, old in enumerate(kept)}
        unique = None
        if found.unique is not None and found.unique <= places.keys():
            unique = frozenset(places[at] for at in found.unique)
        return Relation(tuple(found.columns[at] for at in kept), found.slots, unique)

    @staticmethod
    def _equated(relation: Relation, pairs: Pairs) -> Relation:
        """The same, with slots made one where columns are equal in every row."""
        both = [*pairs, *((b, a) for a, b in pairs)]
        for one in sorted(relation.slots, key=id):
            for other in relation.slots - {one}:
                if {one, other} <= relation.slots and equal_slots(one, other, both):
                    return OfOnePlan._equated(relation.merged({other: one}), _merged_pairs(both, {other: one}))
        return relation

    def _comparison_join(self, node: Node, live: Live) -> Relation:
        given = node.get("conditions", [])
        equal = [one for one in given if one.get("comparison") in _EQUAL and "right" in one]
        how = "INNER" if kind_of(node) == "CROSS_PRODUCT" else str(node["join_type"])
        return self._joined(node, live, how, equal, given)

    _any_join = _cross_product = _comparison_join

    def _joined(self, node: Node, live: Live, how: str, equal: list[Node], given: list[Node]) -> Relation:
        outputs = self._outputs(node)
        used = [{at for side, at in (outputs[place] for place in live) if side == number} for number in (0, 1)]
        first = self.width(node["children"][0])
        whole = [condition for condition in (node.get("condition"), node.get("predicate")) if condition]
        whole += [one["left"] for one in given if "right" not in one]  # of columns of both sides
        used[0] |= {at for at in of_one.refs(*whole) if at < first}
        used[1] |= {at - first for at in of_one.refs(*whole) if at >= first}
        sides = [one for one in given if "right" in one]
        left = self._child(node, frozenset(used[0]), *(one["left"] for one in sides))
        right = self._child(node, frozenset(used[1]), *(one["right"] for one in sides), at=1)
        self._check_conditions(left, right, sides, whole)
        pairs = [(self._column(left, one["left"]), self._column(right, one["right"])) for one in equal]
        return self._met(node, how, left, right, pairs, equal, given, outputs)

    def _check_conditions(self, left: Relation, right: Relation, sides: list[Node], whole: list[Node]) -> None:
        for one in sides:
            kinds = [of_one.kind_of(one["left"]), of_one.kind_of(one["right"])]
            if one.get("comparison") not in of_one.EQUALITIES and not all(map(functions.sorts, kinds)):
                self._refuse([one["left"]], of_one.ENUM_SORTS)
            for side, relation in (("left", left), ("right", right)):
                if of_one.place_of(one[side]) is None or relation.columns[of_one.refs(one[side]).pop()].if_true:
                    self._check(relation, one[side])
            both = [(left, one["left"]), (right, one["right"])]
            numbers = [
                relation.columns[at].number for relation, part in both if (at := of_one.place_of(part)) is not None
            ]
            same = one.get("comparison") in _EQUAL and len(numbers) == 2 and numbers[0] == numbers[1]
            if any(number is not None for number in numbers) and not same:
                for relation, part in both:
                    self._check(relation, part)
        self._check(Relation((*left.columns, *right.columns)), *whole)

    def _met(  # noqa: C901, PLR0912  one rule for each kind of join
        self,
        node: Node,
        how: str,
        left: Relation,
        right: Relation,
        pairs: Pairs,
        equal: list[Node],
        given: list[Node],
        outputs: list[tuple[int, int]],
    ) -> Relation:
        """What a join returns, once it is known what its sides are and which of their columns are equal."""
        private, within = not right.public, how == "MARK" and _asks_within(node, left, right, given, pairs, equal)
        kept_left = how in ("INNER", "LEFT", "SEMI", "ANTI", "MARK", "SINGLE")
        looked = {slot for slot in right.slots if kept_left and looked_up(slot, pairs)}
        same: dict[Slot, Slot] = {}
        for other in right.slots - looked:
            for one in sorted(left.slots, key=id):
                if other not in same and equal_slots(one, other, pairs):
                    same[other] = one
        right = replace(right.merged(same), slots=frozenset(same.get(slot, slot) for slot in right.slots - looked))
        strange = right.slots - left.slots
        if how == "INNER":
            joined = left.slots | right.slots
        elif how in ("LEFT", "SEMI", "ANTI", "MARK", "SINGLE"):
            if strange:
                self._refuse_partner(node, how)
            if how == "SINGLE":
                self._check_single(node, right, equal, unit=bool(right.slots), private=private)
            joined = left.slots
        elif how == "RIGHT":
            if left.slots - right.slots or (right.public and not left.public):
                self._refuse_partner(node, how)
            joined = right.slots
        elif how in ("FULL", "OUTER"):
            if left.slots != right.slots or len(left.slots) > 1:
                self._refuse_partner(node, how)
            joined = left.slots
        else:
            self._refuse(node, f"a {how.lower()} join is not followed; use inner, left, semi or anti")
        columns = self._columns_of(how, left, right, outputs, if_true=private and not within)
        unique = None
        if how in ("LEFT", "SEMI", "ANTI", "MARK", "SINGLE") and left.unique is not None:
            places = {at: new for new, (side, at) in enumerate(outputs) if side == 0}
            one_each = how != "LEFT" or _matches_once(right, equal)
            unique = (
                frozenset(places[at] for at in left.unique) if one_each and left.unique <= places.keys() else None
            )
        made = Relation(columns, joined, unique)
        return self._equated(made, _merged_pairs(pairs, same)) if how == "INNER" else made

    def _columns_of(
        self, how: str, left: Relation, right: Relation, outputs: list[tuple[int, int]], *, if_true: bool
    ) -> tuple[Column, ...]:
        join = object()

        def column(side: int, at: int) -> Column:
            if side == 2:
                return Column({"id": "BOOLEAN"}, if_true=if_true)
            held = (left, right)[side].columns[at]
            if how in ("FULL", "OUTER"):
                half = None if held.name is None else (join, "left" if side == 0 else "right", held.name)
                return replace(held, name=None, taken=None, half=half)
            if side == (1 if how in ("LEFT", "SINGLE") else 0 if how == "RIGHT" else 3):
                return replace(held, name=None, taken=None, half=None)
            return held

        return tuple(column(side, at) for side, at in outputs)

    def _refuse_partner(self, node: Node, how: str) -> NoReturn:
        conditions_of = [one.get("left") for one in node.get("conditions", ())]
        if how in ("MARK", "SINGLE"):
            self._refuse(
                conditions_of,
                f"the query in parentheses reads rows of all units; keep to the unit of the row, with {self._unit} = "
                f"<outer table>.{self._unit} in its WHERE (or, as a condition of its own in WHERE, {self._unit} in "
                f"(select {self._unit} …)), or declare its table public",
            )
        self._refuse(
            conditions_of,
            "whether a row has a partner here depends on the rows of several units; join private tables with "
            f"{self._unit} = {self._unit} (ON or USING), and do not keep rows of public tables that have no partner",
        )

    def _check_single(self, node: Node, right: Relation, equal: list[Node], *, unit: bool, private: bool) -> None:
        if private and (unit or not self.planned.one_row) and not _matches_once(right, equal):
            self._refuse(
                [one.get("left") for one in node.get("conditions", ())],
                "which row of several it takes is not known; take one by min, max or another aggregate",
            )

    def _aggregate_and_group_by(self, node: Node, live: Live) -> Relation:
        groups, computed = node.get("groups", []), node.get("expressions", [])
        used = [one for at, one in enumerate(computed) if at + len(groups) in live]
        child = self._child(node, frozenset(), *groups, *used)
        places = [of_one.place_of(group) for group in groups]
        for group, at in zip(groups, places, strict=True):
            if at is None or child.columns[at].if_true:
                self._check(child, group)
        for one in used:
            of_one.check_aggregate(self.planned, one, child)
        sets = node.get("grouping_sets") or [list(range(len(groups)))]
        one_set = len(sets) == 1 and len(sets[0]) == len(groups)
        columns = [
            child.columns[at] if at is not None else Column(of_one.kind_of(group))
            for group, at in zip(groups, places, strict=True)
        ]
        slots, unique = child.slots, frozenset(range(len(groups))) if one_set else None
        if not child.public:
            self._check_values(groups, list(map(of_one.kind_of, groups)), "GROUP BY")
            kept = [[at for number in some if (at := places[number]) is not None] for some in sets]
            keeps_unit = len(child.slots) == 1 and all(child.names(child.slot, some) for some in kept)
            if any(column.number is not None for column in columns) or not keeps_unit:
                columns, slot = self._values(node, child, columns if one_set and not computed else [])
                slots = frozenset({slot})
        if not one_set:
            in_all = set.intersection(*(set(some) for some in sets))
            columns = [
                replace(column, taken=None, half=None, name=column.name if at in in_all else None)
                for at, column in enumerate(columns)
            ]
        made = [Column(of_one.kind_of(one)) for one in computed]
        return Relation(
            (*columns, *made, *(Column({"id": "BIGINT"}) for _ in node.get("grouping_functions", ()))), slots, unique
        )

    def _values(self, node: Node, child: Relation, columns: list[Column]) -> tuple[list[Column], Slot]:
        """The distinct values a correlated query is run for: rows of their own until they meet those they are of.

        They are taken from all rows of a common table expression. Of some of its rows alone, which values there are
        would depend on all units, and so would whether a row meets its own.
        """
        taken = [column.taken for column in columns]
        sources = {(one[0], one[1]) for one in taken if one is not None}
        whole = kind_of(node["children"][0]) == "CTE_REF"
        if not whole or not columns or None in taken or len(sources) != 1:
            self._refuse_groups(node, child)
        ((source, _),) = sources
        alone = next((part for part, column in enumerate(columns) if column.number is not None), None)
        slot = Slot(len(columns), (source, tuple(one[2] for one in taken if one is not None)), alone)
        named = [Column(column.kind, Name(slot, part), number=column.number) for part, column in enumerate(columns)]
        return named, slot

    def _refuse_groups(self, node: Node, child: Relation) -> NoReturn:
        if len(child.slots) > 1:
            self._refuse_units(node)
        self._refuse(
            node.get("expressions") or node.get("groups") or node,
            f"this gathers the rows of all units: add {self._unit} to GROUP BY (to every set of it), or, in a query "
            f"in parentheses, keep to the unit of the row by WHERE {self._unit} = <outer table>.{self._unit}",
        )

    def _refuse_units(self, node: Node) -> NoReturn:
        self._refuse(node, UNITS_MEET.format(self._unit))

    def _check_values(self, where: object, kinds: list[Any], what: str) -> None:
        if not all(map(functions.alike, kinds)):
            self._refuse(
                where,
                "which of several values that are equal but not alike (0.0 and -0.0, or alike by a collation) "
                f"{what} keeps depends on other units; cast to a decimal, a whole number or text, or write lower(…)",
            )

    def _check_marks(self, where: Node, columns: tuple[Column, ...]) -> None:
        """Refuse to compare whole rows by a mark that is false or null by other units."""
        if any(column.if_true for column in columns):
            self._refuse(
                where,
                "rows are compared by whether a value is in a query, and whether that is false or null depends on "
                "the rows of all units; use it as a condition of its own in WHERE",
            )

    def _window(self, node: Node, live: Live) -> Relation:
        first = self.width(node["children"][0])
        windows = [one for at, one in enumerate(node["expressions"]) if at + first in live]
        below = frozenset(at for at in live if at < first)
        child = self._child(node, below, *windows)
        asked = [one for one in windows if id(one) not in self._numbers or child.public]
        check_windows(self.planned, child, below, asked, self._unit, self._refuse_units)
        made = [
            Column(one.get("return_type"), number=None if child.public else self._numbers.get(id(one)))
            for one in node["expressions"]
        ]
        return Relation((*child.columns, *made), child.slots, child.unique)

    def _distinct(self, node: Node, live: Live) -> Relation:
        whole = frozenset(range(self.width(node)))
        child = self._child(node, whole)
        if node.get("distinct_type") != "DISTINCT" or node.get("order_by"):
            self._refuse(
                node.get("distinct_targets"),
                "DISTINCT ON keeps whichever row comes first, which depends on other units; use GROUP BY "
                f"{self._unit}, … with min or max",
            )
        if child.public:
            return child
        if len(child.slots) > 1:
            self._refuse_units(node)
        if any(of_one.place_of(target) is None for target in node.get("distinct_targets", ())):
            self._check_values(node.get("distinct_targets"), [None], "DISTINCT")
        self._check_values(node, [column.kind for column in child.columns], "DISTINCT")
        self._check_marks(node, child.columns)
        if not child.names(child.slot, whole):
            self._refuse(node, f"DISTINCT merges rows of different units; select {self._unit} too")
        return child

    def _union(self, node: Node, live: Live) -> Relation:
        parts = [self._child(node, live, at=at) for at in range(len(node["children"]))]
        if any(len(part.slots) == 1 and not part.names(part.slot, live) for part in parts):
            # The unit's columns are not used above; that they stand in one place has to be seen all the same.
            live = frozenset(range(self.width(node)))
            parts = [self._child(node, live, at=at) for at in range(len(node["children"]))]
        return self._together(node, parts, live)

    def _together(self, where: object, parts: list[Relation], live: Live) -> Relation:
        """Rows of several relations, one below the other."""
        plain = [
            tuple(Column(column.kind, number=column.number, if_true=column.if_true) for column in part.columns)
            for part in parts
        ]
        if all(part.public for part in parts):
            return Relation(plain[0])
        if any(part.columns[at].number is not None for part in parts for at in live):
            self._refuse(where, "this compares numbers given to the rows of all units; name columns of the rows")
        if any(part.public for part in parts):
            self._refuse(
                where,
                "rows of a public table would stand beside rows of units, as if they were theirs; union private "
                "tables only, and join to public ones",
            )
        if any(len(part.slots) > 1 for part in parts):
            self._refuse_units({} if not isinstance(where, dict) else where)
        names = [[column.name for column in part.columns] for part in parts]
        slot = replace(parts[0].slot)
        columns = []
        for at, column in enumerate(plain[0]):
            held = [some[at] for some in names]
            fits = all(
                name is not None
                and name.slot is part.slot
                and (name.part, name.written) == (held[0].part, held[0].written)  # type: ignore[union-attr]
                for name, part in zip(held, parts, strict=True)
            )
            name = Name(slot, held[0].part, held[0].written) if fits and held[0] is not None else None
            both = [part[at] for part in plain]
            number = next((one.number for one in both if one.number is not None), None)
            columns.append(Column(column.kind, name, number=number, if_true=any(one.if_true for one in both)))
        made = Relation(tuple(columns), frozenset({slot}))
        if any(part.slot.values for part in parts) or not made.names(slot, live):
            self._refuse(
                where,
                f"{self._unit} does not stand in one place in all parts of the union; name the columns of each part, "
                f"{self._unit} first",
            )
        return made

    def _except(self, node: Node, live: Live) -> Relation:
        whole = frozenset(range(self.width(node)))
        parts = [self._child(node, whole, at=at) for at in range(len(node["children"]))]
        if all(part.public for part in parts):
            return Relation(tuple(Column(column.kind) for column in parts[0].columns))
        if parts[0].public:
            self._refuse(
                node,
                "which rows of the first part stay depends on the rows of all units; begin with the private part "
                f"and keep {self._unit} in both",
            )
        self._check_values(node, [column.kind for part in parts for column in part.columns], kind_of(node))
        private = [part for part in parts if not part.public]
        for part in parts:
            self._check_marks(node, part.columns)
        if any(len(part.slots) > 1 for part in private):
            self._refuse_units(node)
        if not all(part.names(part.slot, whole) for part in private):
            rows = "common to both" if kind_of(node) == "INTERSECT" else "of the first alone"
            self._refuse(
                node, f"rows {rows} are told across units; select {self._unit} in the same place of each part"
            )
        return self._together(node, private, whole)

    _intersect = _except

    def _order_by(self, node: Node, live: Live) -> Relation:
        kept = node.get("projection_map") or range(self.width(node["children"][0]))
        child = self._child(node, frozenset(kept[at] for at in live))
        return Relation(tuple(child.columns[at] for at in kept), child.slots)

    def _limit(self, node: Node, live: Live) -> Relation:
        child = self._child(node, live)
        if not child.public and self.planned.asks_whether_there_are:
            self._refuse_partner(node, "MARK")
        if not child.public:
            self._refuse(
                self.planned.limit(),
                "LIMIT and OFFSET count the rows of all units; leave them out, or number the rows of each unit: "
                f"qualify row_number() over (partition by {self._unit} order by …) <= …",
            )
        below = node["children"][0]
        while kind_of(below) == "PROJECTION":
            below = below["children"][0]
        if kind_of(below) != "ORDER_BY" and live:
            self._refuse(self.planned.limit(), "LIMIT on a public table needs ORDER BY")
        ordered = [order["expression"] for order in below.get("orders", ())]
        self._check(self._child(below, frozenset(), *ordered), *ordered)
        if not all(functions.sorts(of_one.kind_of(one)) for one in ordered):
            self._refuse(self.planned.limit(), of_one.ENUM_SORTS)
        return child

    def _unnest(self, node: Node, live: Live) -> Relation:
        child = self._child(node, live & frozenset(range(self.width(node["children"][0]))), *node["expressions"])
        self._check(child, *node["expressions"])
        return Relation(
            (*child.columns, *(Column(one.get("return_type")) for one in node["expressions"])), child.slots
        )

    # Common table expressions

    def _materialized_cte(self, node: Node, live: Live) -> Relation:
        return self._child(node, live, at=1)

    def _cte_ref(self, node: Node, live: Live) -> Relation:
        index = int(node["cte_index"])
        if node.get("is_recurring"):
            self._refuse(node, "RECURRING reads all rows of a recursion; take those of the last step")
        if index in self._steps:
            step = self._steps[index]
            return step.merged({slot: replace(slot) for slot in step.slots})
        if index not in self._ctes:
            self._refuse(node, "a common table expression cannot be followed; write it in a plainer way")
        made = self.relation(self._ctes[index], live)
        here = object()
        columns = tuple(replace(column, taken=(index, here, at)) for at, column in enumerate(made.columns))
        return replace(made, columns=columns)

    def _recursive_cte(self, node: Node, live: Live) -> Relation:
        if node.get("key_targets"):
            self._refuse(node, "a recursion USING KEY keeps whichever row comes last; use UNION or UNION ALL")
        whole = frozenset(range(self.width(node)))
        index, first = int(node["table_index"]), self._child(node, whole)
        if not first.public:
            kinds = [] if node.get("union_all") else [column.kind for column in first.columns]
            self._check_values(node, kinds, "UNION")
        if len(first.slots) > 1:
            self._refuse_units(node)
        held = Relation(tuple(replace(column, taken=None) for column in first.columns), first.slots)
        for _ in range(len(first.columns) + 1):
            self._steps[index] = held
            made = self._together(node, [held, self._child(node, whole, at=1)], whole)
            if not node.get("union_all"):
                self._check_marks(node, made.columns)
            if [_said(column) for column in made.columns] == [_said(column) for column in held.columns]:
                return made
            held = made
        reason = f"a step of the recursion loses {self._unit}; take it over unchanged, in its place"
        raise refusal(self.planned.text, reason, self.planned.place(node))

    # What is read

    def _dummy_scan(self, node: Node, live: Live) -> Relation:
        return Relation((Column(),))

    def _chunk_get(self, node: Node, live: Live) -> Relation:
        return Relation(tuple(Column(kind) for kind in node["chunk_types"]))

    def _empty_result(self, node: Node, live: Live) -> Relation:
        return Relation(tuple(Column(kind) for kind in node["return_types"]))

    def _expression_get(self, node: Node, live: Live) -> Relation:
        flat = [expression for row in node["expressions"] for expression in row]
        child = self._child(node, frozenset(), *flat)
        self._check(child, *flat)
        return Relation(tuple(Column(kind) for kind in node["expr_types"]), child.slots)

    def _get(self, node: Node, live: Live) -> Relation:
        counted = node.get("source_ordinality", "WITHOUT_ORDINALITY") != "WITHOUT_ORDINALITY"
        if node.get("table_filters") or node.get("projection_ids") or counted:
            self._refuse(node, "a table is read in a way that is not known; write it in a plainer way")
        indexes = [int(one.get("index", NO_COLUMN)) for one in node.get("column_indexes", ())]
        path = tuple((node.get("function_data") or {}).get("qualified_name", {}).get("path", ()))
        if path in self.planned.tables:
            whole = len(node["names"])
            if any(at >= whole for out, at in enumerate(indexes) if out in live):
                self._refuse(node, "rowid counts the rows of all units; use a column of the row's own")
            kinds = [node["returned_types"][at] if at < whole else None for at in indexes]
            return self._source(node, self.planned.tables[path], indexes, kinds, live)
        name = of_one.function_of(node)
        if name not in OF_ARGUMENTS or self._standing(node) is not None:
            self._refuse(node, f"what {name} reads is not known to be rows of the unit alone")
        kept = node.get("projected_input", [])
        made = [Column(node["returned_types"][at] if at < len(node["returned_types"]) else None) for at in indexes]
        if any(at >= len(node["returned_types"]) for at in indexes):
            self._refuse(node, f"{name} is asked for a number of its rows")
        if not node.get("children"):
            return Relation(tuple(made))
        child = self._child(node, frozenset(range(self.width(node["children"][0]))))
        given = set(range(len(child.columns))) - set(kept)
        if any(child.columns[at].number is not None or child.columns[at].if_true for at in given):
            self._refuse(node, f"what {name} lists numbers the rows of all units")
        return Relation((*made, *(child.columns[at] for at in kept)), child.slots)

    def _source(self, node: Node, source: Source, indexes: list[int], kinds: list[Any], live: Live) -> Relation:
        """Rows of a table, a frame or files: those of columns `indexes`."""
        if source.unclear:
            self._refuse(node, f"{source.name} {source.unclear}")
        if source.behind is not None:
            made = self._made(node, source, indexes, kinds, live)
            known = {name.lower() for name in source.columns}
            of_nobody = any(known.isdisjoint(name.lower() for name in some) for some in self.asked.units)
            if not made.public or of_nobody:
                return made
        if self.asked.is_public(source):
            return Relation(tuple(map(Column, kinds)))
        if source.guessed:
            self._refuse(node, source.guessed)
        held = [name.lower() for name in source.columns]
        wanted = [next((name for name in names if name.lower() in held), None) for names in self.asked.units]
        for names, name in zip(self.asked.units, wanted, strict=True):
            if name is None:
                self._refuse(
                    node,
                    f"{source.name} has no column {' or '.join(names)}, so its rows belong to no unit; declare it "
                    "public, or add one",
                )
        slot = Slot(len(wanted))
        columns = []
        for at, kind in zip(indexes, kinds, strict=True):
            called = held[at] if at < len(held) else ""
            parts = [part for part, name in enumerate(wanted) if name is not None and name.lower() == called]
            if parts:
                self._check_kind(node, source, parts[0], kind)
            columns.append(Column(kind, Name(slot, parts[0]) if parts else None))
        return Relation(tuple(columns), frozenset({slot}))

    def _check_kind(self, node: Node, source: Source, part: int, kind: Any) -> None:
        """Refuse units of several types: compared across types, two of one table may equal one of the other."""
        found = functions.unit_kind(kind)
        name = self.asked.units[part][0]
        if not found:
            self._refuse(
                node,
                f"{name} of {source.name} is {functions.name_of(kind)}, which names no unit exactly; "
                "cast it where it is stored",
            )
        self.asked.kinds.setdefault(part, found)
        if self.asked.kinds[part] != found:
            self._refuse(
                node,
                f"{name} is {found} here and {self.asked.kinds[part]} in another table, and two units may become one "
                "where types meet; store it in one type",
            )

    def _made(self, node: Node, source: Source, indexes: list[int], kinds: list[Any], live: Live) -> Relation:
        """Rows that a query of this session made."""
        parts, within = [], f"in {source.name}, as this session made it: "
        for behind in source.behind or ():
            names = [name.lower() for name in behind.columns]
            in_order = source.kind == "table"
            there = [at if at < len(source.columns) else None for at in indexes]
            places = [at if in_order or at is None else index_of(names, source.columns[at].lower()) for at in there]
            inner = OfOnePlan(behind, self.asked)
            wanted = frozenset(at for out, at in enumerate(places) if at is not None and out in live)
            try:
                made = inner.relation(behind.root, wanted)
            except GuaranteeError as problem:
                raise_alone(refusal(self.planned.text, f"{within}{problem.reason}", self.planned.place(node)))
            if any(slot.values for slot in made.slots):
                self._refuse(node, f"{within}{NO_UNIT}")
            if any(made.columns[at].number is not None or made.columns[at].if_true for at in wanted):
                self._refuse(node, f"{within}it numbers the rows of all units")
            columns = [made.columns[at] if at is not None and at < len(made.columns) else Column() for at in places]
            held = tuple(replace(one, kind=kind, taken=None) for one, kind in zip(columns, kinds, strict=True))
            parts.append(Relation(held, made.slots))
        return parts[0] if len(parts) == 1 else self._together(node, parts, live)


def conditions(expressions: list[Node]) -> list[Node]:
    """The parts of conditions that all have to be true."""
    found = []
    for one in expressions:
        found += conditions(one["children"]) if one["type"] == "CONJUNCTION_AND" else [one]
    return found


def _merged_pairs(pairs: Pairs, into: Mapping[Slot, Slot]) -> Pairs:
    return [(one.merged(into), other.merged(into)) for one, other in pairs]


def _asks_within(
    node: Node, left: Relation, right: Relation, given: list[Node], pairs: Pairs, equal: list[Node]
) -> bool:
    """Whether a mark is false or null by the rows of the unit alone: units are compared so that nulls are equal."""
    correlated = [one for one in given if one.get("comparison") == "COMPARE_NOT_DISTINCT_FROM"]
    outside = [pair for pair, one in zip(pairs, equal, strict=True) if one in correlated]
    return len(correlated) == len(node.get("mark_types", ())) and all(
        looked_up(slot, outside) or any(equal_slots(one, slot, outside) for one in left.slots) for slot in right.slots
    )


def _matches_once(right: Relation, equal: list[Node]) -> bool:
    places = {of_one.place_of(one["right"]) for one in equal}
    return right.unique is not None and right.unique <= places


def _said(column: Column) -> object:
    name = (column.name.part, column.name.written) if column.name is not None else None
    return name, column.number, column.if_true
