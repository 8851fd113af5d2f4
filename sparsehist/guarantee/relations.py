"""What is known of a relation of a plan: whose rows it holds, and which of its columns name the unit.

Each private table a query reads has a `Slot`: the unit its rows belong to. A relation without slots is public. One
with a single slot falls apart into units: the rows of each are a function of that unit's own rows and of public
tables. One with several is a join whose units are not known to be equal yet; a condition may still make them so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True, eq=False)
class Slot:
    """Whose rows these are: those of one unit, or of one row of values that a correlated query is run for.

    Attributes:
        parts: How many columns name it.
        values: For a row of values: the common table expression they are taken from, and which columns of it.
        alone: The part that tells a row of values from all others, if there is one.
    """

    parts: int
    values: tuple[int, tuple[int, ...]] | None = None
    alone: int | None = None

    def named_by(self, parts: set[int]) -> bool:
        """Whether these parts name it in full."""
        return len(parts) == self.parts or (self.alone is not None and self.alone in parts)


@dataclass(frozen=True)
class Name:
    """That a column is one part of what names a slot; `written` tells by which casts."""

    slot: Slot
    part: int
    written: tuple[str, ...] = ()


@dataclass(frozen=True)
class Column:
    """A column of a relation.

    Attributes:
        kind: Its type, as the plan has it.
        name: Which part of a slot it is.
        taken: Which column of which reference to a common table expression it is.
        half: Of a full join: the join, its side and what the column names where there is a row.
        number: By which window it numbers all rows in any order, and so only tells them apart.
        if_true: Whether it is false or null depends on other units; whether it is true does not.
    """

    kind: Any = field(default=None, repr=False)
    name: Name | None = None
    taken: tuple[int, object, int] | None = None
    half: tuple[object, str, Name] | None = None
    number: int | None = None
    if_true: bool = False

    def merged(self, into: Mapping[Slot, Slot]) -> Column:
        """The same, with slots that are known to be equal made one."""
        if self.name is None or self.name.slot not in into:
            return self
        return replace(self, name=replace(self.name, slot=into[self.name.slot]))


@dataclass(frozen=True)
class Relation:
    """Columns, whose rows, and columns that tell all rows apart, if some are known to."""

    columns: tuple[Column, ...]
    slots: frozenset[Slot] = frozenset()
    unique: frozenset[int] | None = None

    @property
    def public(self) -> bool:
        """Whether it is a function of public tables."""
        return not self.slots

    @property
    def slot(self) -> Slot:
        """The one slot it has."""
        (one,) = self.slots
        return one

    def names(self, slot: Slot, places: Iterable[int]) -> bool:
        """Whether some of its columns name a slot in full."""
        held = [self.columns[at].name for at in places]
        parts = {name.part for name in held if name is not None and name.slot is slot}
        return slot.named_by(parts)

    def merged(self, into: Mapping[Slot, Slot]) -> Relation:
        """The same, with slots that are known to be equal made one."""
        columns = tuple(column.merged(into) for column in self.columns)
        return replace(self, columns=columns, slots=frozenset(into.get(slot, slot) for slot in self.slots))


Pairs = list[tuple[Column, Column]]


def equal_slots(one: Slot, other: Slot, pairs: Pairs) -> bool:
    """Whether pairs of columns that are equal make two slots equal: each part, written alike."""
    if one is other or one.values != other.values:
        return one is other
    found = {
        a.name.part
        for a, b in pairs
        if a.name and b.name and (a.name.slot, b.name.slot) == (one, other) and _alike(a.name, b.name)
    }
    return one.named_by(found)


def _alike(one: Name, other: Name) -> bool:
    return one.part == other.part and one.written == other.written


def looked_up(slot: Slot, pairs: Pairs) -> bool:
    """Whether each row on the left meets the row of values that was made from it: all its columns are equal to it."""
    if slot.values is None:
        return False
    source, places = slot.values
    found: dict[object, set[int]] = {}
    for left, right in pairs:
        name, taken = right.name, left.taken
        if name is None or name.slot is not slot or name.written or taken is None:
            continue
        if taken[0] == source and taken[2] == places[name.part]:
            found.setdefault(taken[1], set()).add(name.part)
    return any(map(slot.named_by, found.values()))
