"""What one reader, or a coalition, sees of a network of owners."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from sparsehist.typing import AnyArray, IntArray


class View(Mapping[Any, Any]):
    """Noisy values by owner, for the owners near enough; a mapping, and the columns it is made of.

    Everything in it is for its readers.

    Attributes:
        people: The owners; shape (m,).
        noisy: Their values with noise; shape (m,).
        distance: Hops to the nearest reader; shape (m,).
        levels: The level of each distance.
    """

    def __init__(
        self,
        people: AnyArray,
        noisy: AnyArray,
        distance: IntArray,
        levels: Mapping[int, Fraction],
    ) -> None:
        self.people, self.noisy, self.distance, self.levels = people, noisy, distance, dict(levels)
        self._row: dict[Any, int] = {}

    def __getitem__(self, person: Any) -> Any:
        return self.noisy[self._rows()[person]].item()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.people.tolist())

    def __len__(self) -> int:
        return len(self.people)

    def __contains__(self, person: object) -> bool:
        return person in self._rows()

    def level(self, person: Any) -> Fraction:
        """The level at which a person's value is seen."""
        return self.levels[int(self.distance[self._rows()[person]])]

    def __repr__(self) -> str:
        shown = ", ".join(f"{hops}: {level}" for hops, level in sorted(self.levels.items()))
        return f"View({len(self)} people, levels by distance {{{shown}}})"

    def _rows(self) -> dict[Any, int]:
        if not self._row:
            self._row = {person: row for row, person in enumerate(self.people.tolist())}
        return self._row
