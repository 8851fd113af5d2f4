"""What is known of a relation: whose rows it holds, and which of its columns name the unit.

A relation is *public* (a function of public tables), *private* (each row is of one unit, which some of its columns
name) or *confined* (all rows are of the unit of one row of an outer query). `Whose` stands for "the unit of this
row"; within a query, equal units are one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NoReturn

from sparsehist.sqlfront.guarantee_tree import Node, place, refusal
from sparsehist.sqlfront.identifiers import folded
from sparsehist.sqlfront.script import Place


class Whose:
    """The unit a row belongs to; one object for each table of each query."""


class Found(Enum):
    """What a name stands for in a relation."""

    CARRIES = "the unit"
    PLAIN = "another column"
    MAYBE = "perhaps a column"
    ABSENT = "no column"


@dataclass(frozen=True)
class Column:
    """A column known by name; `exact` if it holds whole numbers or decimals, whose sums know no rounding."""

    name: str
    carries: bool = False
    exact: bool = False


@dataclass(frozen=True)
class Unknown:
    """Columns that are not known but for those in `carriers`, each there once, and those that are not there.

    `asked` where they are those of a table: once it can be asked for its columns, they are known.
    """

    carriers: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()
    asked: bool = False


Item = Column | Unknown


@dataclass(frozen=True)
class Relation:
    """Columns in order; private if its rows belong to units; `confined` to the unit of an outer row."""

    items: tuple[Item, ...]
    private: bool = False
    confined: Whose | None = None

    @property
    def public(self) -> bool:
        """Whether it is a function of public tables, and of the row of the outer query."""
        return not self.private and self.confined is None

    def renamed(self, names: Iterable[str]) -> Relation:
        """Name the first columns anew."""
        given = list(names)
        if not given:
            return self
        if any(isinstance(item, Unknown) for item in self.items[: len(given)]) or len(given) > len(self.items):
            return replace(self, items=(*(Column(name) for name in given), Unknown()))
        known = [item for item in self.items if isinstance(item, Column)]
        first = [replace(item, name=name) for item, name in zip(known, given, strict=False)]
        return replace(self, items=(*first, *self.items[len(given) :]))


def lookup(items: Iterable[Item], name: str) -> Found:
    """What a name stands for; of two columns of one name it is the first, if both carry the unit or neither."""
    held = list(items)
    found, wanted = Found.ABSENT, folded(name)
    for item in held:
        if isinstance(item, Column):
            if folded(item.name) != wanted:
                continue
            now = Found.CARRIES if item.carries else Found.PLAIN
            found = now if found in (Found.ABSENT, now) else Found.PLAIN if found is Found.CARRIES else found
        elif wanted in item.carriers:
            found = Found.CARRIES if found is Found.ABSENT else found
        elif wanted not in item.without and found is Found.ABSENT:
            found = Found.MAYBE
    return Found.MAYBE if found is Found.ABSENT and _has_made_names(held) else found


def _has_made_names(items: Iterable[Item]) -> bool:
    """Whether DuckDB makes names for some columns: of an expression, or of the second column of one name."""
    names = [folded(item.name) for item in items if isinstance(item, Column)]
    return "" in names or len(set(names)) < len(names)


def carriers(items: Iterable[Item]) -> list[str]:
    """Names of the columns that carry the unit."""
    held = list(items)
    names = [[item.name] if isinstance(item, Column) and item.carries else [] for item in held]
    open_names = [sorted(item.carriers) if isinstance(item, Unknown) else [] for item in held]
    return [name for some in (*names, *open_names) for name in some]


@dataclass
class Leaf:
    """One table of a FROM clause; `nullable` if rows without a partner are filled with nulls."""

    alias: str
    path: tuple[str, ...]
    items: tuple[Item, ...]
    whose: Whose | None
    nullable: bool = False

    def find(self, name: str) -> Found:
        """What a name stands for here."""
        found = lookup(self.items, name)
        return Found.PLAIN if found is Found.CARRIES and (self.nullable or self.whose is None) else found

    def may_hold(self, name: str) -> bool:
        """Whether a column may have this name, given the columns of tables."""
        known = [item for item in self.items if isinstance(item, Column) or not item.asked]
        return lookup(known, name) is not Found.ABSENT


@dataclass
class Scope:
    """What the expressions of one SELECT see: its tables, what is known to be equal, and the query around it."""

    outer: Scope | None
    ctes: Mapping[str, Relation]
    leaves: list[Leaf] = field(default_factory=list)
    using: dict[str, Whose | None] = field(default_factory=dict)
    aliases: dict[str, Node] = field(default_factory=dict)
    own: set[Whose] = field(default_factory=set)
    links: dict[Whose, Whose] = field(default_factory=dict)
    whose: Whose | None = None
    alone: bool = False

    @property
    def confined(self) -> bool:
        """Whether all rows are of the unit of one row of an outer query."""
        return self.whose is not None and self.whose not in self.own

    def names_unit(self, node: Node) -> bool:
        """Whether an expression is the column that names the unit of the row."""
        carrier = self.carrier(node)
        return carrier is not None and self.root(carrier) is self.whose

    @property
    def strict(self) -> bool:
        """Whether private rows are in sight, so that nothing may depend on the order of rows."""
        around = self.outer is not None and not self.alone and self.outer.strict
        return around or any(leaf.whose for leaf in self.leaves)

    def holds(self, names: list[str]) -> bool:
        """Whether a name is known to be that of a column of a table here."""
        if len(names) == 1:
            return any(leaf.find(names[0]) in (Found.CARRIES, Found.PLAIN) for leaf in self.leaves)
        return any(folded(names[-2]) == leaf.alias for leaf in self.leaves) and len(names) == 2

    def narrowed(self, start: int) -> Scope:
        """The same, seeing only the tables of one join."""
        return replace(self, leaves=self.leaves[start:])

    def root(self, whose: Whose) -> Whose:
        """The one that stands for all that are equal to it."""
        while whose in self.links:
            whose = self.links[whose]
        return self.outer.root(whose) if self.outer is not None and whose not in self.own else whose

    def equate(self, one: Whose, other: Whose) -> None:
        """Learn that two units are equal in every row that is kept."""
        first, second = self.root(one), self.root(other)
        if first is second:
            return
        if first in self.own:
            self.links[first] = second
        elif second in self.own:
            self.links[second] = first

    def roots(self, leaves: Iterable[Leaf] | None = None) -> set[Whose]:
        """The different units the rows of some tables may belong to."""
        return {self.root(leaf.whose) for leaf in (self.leaves if leaves is None else leaves) if leaf.whose}

    def carrier(self, node: Node) -> Whose | None:
        """Whose unit an expression is; None if it is not known to be just that column."""
        if node.get("class") != "COLUMN_REF":
            return None
        names = [folded(name) for name in node["column_names"]]
        return self._unqualified(names[0]) if len(names) == 1 else self._qualified(names)

    def _unqualified(self, name: str) -> Whose | None:
        if name in self.using:
            return self.using[name]
        found = [(leaf, leaf.find(name)) for leaf in self.leaves]
        certain = [(leaf, what) for leaf, what in found if what in (Found.CARRIES, Found.PLAIN)]
        if certain or any(what is Found.MAYBE for _, what in found):
            return certain[0][0].whose if len(certain) == 1 and certain[0][1] is Found.CARRIES else None
        # A name that is no column here may still be an alias of this query, before it is a column further out.
        return self.outer._unqualified(name) if self.outer and name not in self.aliases else None  # noqa: SLF001

    def _qualified(self, names: list[str]) -> Whose | None:
        path, name = tuple(names[:-1]), names[-1]
        meant = [leaf for leaf in self.leaves if path in ((leaf.alias,), leaf.path) or path[-1:] == (leaf.alias,)]
        if meant:
            one = meant[0] if len(meant) == 1 and (path in ((meant[0].alias,), meant[0].path)) else None
            return one.whose if one and one.find(name) is Found.CARRIES else None
        # A column of the name of an outer table is asked first: what is meant may be a part of it.
        if path[0] in self.using or any(leaf.may_hold(path[0]) for leaf in self.leaves):
            return None
        return self.outer._qualified(names) if self.outer else None  # noqa: SLF001


@dataclass(frozen=True)
class Behind:
    """The query behind a view, a table or a file, and what names meant when it was run.

    Attributes:
        text: The query.
        views: What stood behind other names then; None for a view, whose query is run each time.
    """

    text: str
    views: Mapping[str, Behind] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Context:
    """What a query is checked against: what is public, what views stand for, and how to ask for columns.

    `unclear` tells why a name cannot be followed, `files` what was written into those that a path means; `units`
    holds the type of the columns that name the unit, once one is met.
    """

    text: str
    unit: str
    public: frozenset[str]
    views: Mapping[str, Behind]
    functions: frozenset[str]
    columns: Callable[[str], Mapping[str, str]] | None
    relation: Callable[[Context, Node, Scope | None, Mapping[str, Relation]], Relation]
    releases: frozenset[tuple[str, ...]] = frozenset()
    unclear: Mapping[str, str] = field(default_factory=dict)
    files: Callable[[str], Mapping[str, Behind]] = lambda _path: {}
    units: dict[str, str] = field(default_factory=dict)
    inside: tuple[str, ...] = ()
    followed: tuple[Behind, ...] = ()

    def refuse(self, node: Node, reason: str) -> NoReturn:
        """Refuse the query because of a part of it."""
        where = place(self.text, node) if node else Place(0, len(self.text))
        raise refusal(self.text, where, reason, self.inside[-1] if self.inside else None)
