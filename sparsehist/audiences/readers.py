"""Releases for readers with different levels. A coalition knows no more than its member with the finest level.

Source: [KHP section 4.4], [ARNP section 2]; for levels by distance and for coalitions, also [KHP eq. 43, section 4.3,
Figures 5 to 7].
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sparsehist.dense.dense_release import DenseRelease
from sparsehist.errors import CapExceededError, InputError, LevelOrderError, read_each, shown
from sparsehist.privacy.levels import Level, as_level, level_text


@dataclass(frozen=True)
class Coalition:
    """What a coalition of readers knows together. All fields are public.

    Attributes:
        readers: The members.
        level: The finest level of any member. It is the cost of all their releases together.
        std: Standard deviation of the finest release, which is the best estimate from all releases of the members.
        sum_of_levels: Cost of the releases if they had independent noise.
        std_if_independent: Standard deviation of the best estimate if the releases had independent noise.
    """

    readers: tuple[Any, ...]
    level: Fraction
    std: float
    sum_of_levels: Fraction
    std_if_independent: float


class Audiences:
    """Releases of one dense vector for readers with different levels. They cost only as much as the finest of them.

    Args:
        vector: A `sparsehist.MultipleRelease`.
        levels: Dict from reader to level, for example `by_distance(distances(graph, owner))`.

    Raises:
        CapExceededError: If a level is above the cap of the vector.

    Example:
        >>> import sparsehist as sh
        >>> vector = sh.MultipleRelease(sh.noise.DiscreteLaplace(), [3, 1, 4], cap=1)
        >>> staff = Audiences(vector, {"manager": 1, "team": "1/2", "everybody": "1/10"})
        >>> staff.read("team").metadata["level"]
        '0.5'
        >>> staff.coalition(["team", "everybody"]).level
        Fraction(1, 2)
    """

    def __init__(self, vector: Any, levels: Mapping[Any, Level]) -> None:
        self._vector = vector
        self._levels: dict[Any, Fraction] = {}
        for reader, level in levels.items():
            self.admit(reader, level)

    @property
    def levels(self) -> dict[Any, Fraction]:
        """A copy of the levels, keyed by reader."""
        return dict(self._levels)

    def admit(self, reader: Hashable, level: Level) -> None:
        """Admit a reader, or give an admitted reader a finer level.

        Raise LevelOrderError if the reader already has a finer level, and CapExceededError for a level above the cap.
        """
        new, cap = as_level(level), self._vector.cap
        if cap is not None and new > cap:
            raise CapExceededError(f"the reader was not admitted: the level is above the cap {level_text(cap)}")
        held = self._levels.get(reader)
        if held is not None and new < held:
            raise LevelOrderError(f"the level of an admitted reader cannot be lowered; it is {level_text(held)}")
        self._levels[reader] = new

    def read(self, reader: Hashable) -> DenseRelease:
        """Return the release at a reader's level, the same in every call. Raise InputError for an unknown reader."""
        release: DenseRelease = self._vector.release(self._level(reader))
        return release

    def coalition(self, readers: Iterable[Hashable]) -> Coalition:
        """Describe what readers know together. Raise InputError if a reader is unknown or there are no readers."""
        members = tuple(dict.fromkeys(readers))
        if not members:
            raise InputError("a coalition must have at least one reader")
        levels = read_each("readers", members, self._level, "somebody who was admitted")
        finest, family = max(levels), self._vector.family
        precision = math.fsum(family.std(level) ** -2 for level in levels)
        return Coalition(members, finest, family.std(finest), sum(levels, Fraction(0)), precision**-0.5)

    def __repr__(self) -> str:
        return f"Audiences({len(self._levels)} readers of {self._vector!r})"

    def _level(self, reader: Hashable) -> Fraction:
        if reader not in self._levels:
            raise InputError(f"call admit() first: there is no reader {shown(reader)}")
        return self._levels[reader]


def by_distance(distances: Mapping[Any, int], nearest: Level = 1) -> dict[Any, Fraction]:
    """Return the level of each person except the owner: the level at distance 1, `nearest`, divided by the distance.

    Example:
        >>> by_distance({"owner": 0, "friend": 1, "stranger": 3})
        {'friend': Fraction(1, 1), 'stranger': Fraction(1, 3)}

    Source: [KHP section 4.4].
    """
    first = as_level(nearest)
    return {person: first / hops for person, hops in distances.items() if hops > 0}
