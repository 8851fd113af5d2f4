"""A network of owners, each of whom shows a value to the others at a level that falls with the distance."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from sparsehist.audiences.graph import Graph, read_graph
from sparsehist.dense.multiple_release import MultipleRelease
from sparsehist.errors import DataError, DeclarationError
from sparsehist.noise.family import DenseFamily
from sparsehist.privacy.levels import Level, as_level
from sparsehist.typing import AnyArray, ArrayLike, IntArray


class View(Mapping[Any, Any]):
    """Noisy values by owner, for all owners near enough to one of the readers. It is meant for these readers only.

    Attributes:
        people: The owners; shape (m,).
        noisy: Their values with noise; shape (m,).
        distance: Hops to the nearest reader; shape (m,).
        levels: The level of each distance.
    """

    def __init__(self, people: AnyArray, noisy: AnyArray, distance: IntArray, levels: Mapping[int, Fraction]) -> None:
        self.people, self.noisy, self.distance, self.levels = people, noisy, distance, dict(levels)

    @cached_property
    def _rows(self) -> dict[Any, int]:
        return {person: row for row, person in enumerate(self.people.tolist())}

    def __getitem__(self, person: Any) -> Any:
        return self.noisy[self._rows[person]].item()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self.people)

    def level(self, person: Any) -> Fraction:
        """Return the level at which a person's value is seen."""
        return self.levels[int(self.distance[self._rows[person]])]

    def __repr__(self) -> str:
        """Number of owners and levels, without values."""
        shown = ", ".join(f"{hops}: {level}" for hops, level in sorted(self.levels.items()))
        return f"View({len(self)} people, levels by distance {{{shown}}})"


class Network:
    """Everybody in a public graph owns a value and reads the values of others.

    The noise of an owner's value is a noise path of its own, so one `MultipleRelease` serves the network: one release
    per distance, the same for all readers at that distance. A group of readers knows of an owner what its nearest
    member knows. The rule of `MultipleRelease` about copies holds: after `to_bytes`, one copy may draw.

    Args:
        values: {person: value}, or an array in the order of `read_graph(graph).people`. Secret.
        graph: Public and undirected, in any form of `sparsehist.audiences.distances`.
        family: Noise of one value; its sensitivity is how far the value of one owner may change.
        levels: By distance, from 1 on; never finer further away. People at other distances see nothing. By default
            1/distance at every distance.

    Raises:
        DataError: If values and nodes do not agree, or values do not suit the family.
        DeclarationError: If the levels are wrong.

    Example:
        >>> from sparsehist.noise import DiscreteLaplace
        >>> salaries = {"ann": 50, "bob": 60, "cid": 70, "dan": 80}
        >>> chain = [("ann", "bob"), ("bob", "cid"), ("cid", "dan")]
        >>> staff = Network(salaries, chain, DiscreteLaplace(sensitivity=10), levels={1: 1, 2: "1/2"})
        >>> sorted(staff.view("ann")), staff.coalition(["ann", "dan"]).level("bob")
        (['bob', 'cid'], Fraction(1, 1))
    """

    def __init__(
        self,
        values: Mapping[Any, Any] | ArrayLike,
        graph: Any,
        family: DenseFamily,
        levels: Mapping[int, Level] | None = None,
    ) -> None:
        read = read_graph(graph)
        cap = 1 if levels is None else max(_read_levels(levels).values())
        self._begin(MultipleRelease(family, _in_order(values, read), cap=cap), read, levels)

    def _begin(self, vector: MultipleRelease, graph: Graph, levels: Mapping[int, Level] | None) -> None:
        self._vector, self._graph = vector, graph
        self._levels = None if levels is None else _read_levels(levels)
        if len(vector) != len(graph.people):
            raise DataError(f"the graph has {len(graph.people)} nodes, the network {len(vector)}")

    def to_bytes(self) -> bytes:
        """Write the values and their noise; graph and levels are public, and given again to `from_bytes`."""
        return self._vector.to_bytes()

    @classmethod
    def from_bytes(cls, content: bytes, graph: Any, levels: Mapping[int, Level] | None = None) -> Network:
        """Go on from what `to_bytes` wrote, with the same graph (nodes in the same order) and the same levels."""
        made = cls.__new__(cls)
        made._begin(MultipleRelease.from_bytes(content), read_graph(graph), levels)  # noqa: SLF001 - its own
        return made

    def view(self, reader: Hashable) -> View:
        """Return what one reader sees; the same every time. InputError if the reader is not in the graph."""
        return self.coalition([reader])

    def coalition(self, readers: Iterable[Hashable]) -> View:
        """Return what readers know together: of every owner but themselves, what the nearest of them sees.

        Raises:
            InputError: If there are no readers, or one is not in the graph.
        """
        hops = self._graph.hops(readers)
        levels = self._levels or {far: Fraction(1, far) for far in range(1, int(hops.max()) + 1)}
        seen = np.flatnonzero(np.isin(hops, list(levels)))
        used = {far: levels[far] for far in np.unique(hops[seen]).tolist()}
        noisy = np.empty(seen.size, np.int64 if self._vector.family.integer else np.float64)
        for far, level in used.items():
            at = hops[seen] == far
            noisy[at] = self._vector.release(level).values[seen[at]]
        return View(self._graph.people[seen], noisy, hops[seen], used)

    def seal(self) -> None:
        """Erase the values; views are served as before."""
        self._vector.seal()

    def __repr__(self) -> str:
        """Public parameters only."""
        return f"Network({len(self._graph.people)} people, {self._vector!r})"


def _read_levels(levels: Mapping[int, Level]) -> dict[int, Fraction]:
    if not levels or any(isinstance(far, bool) or not isinstance(far, int) or far < 1 for far in levels):
        raise DeclarationError("levels are given by distance, whole numbers from 1 on, such as {1: 1, 2: '1/2'}")
    read = {far: as_level(levels[far]) for far in sorted(levels)}
    if list(read.values()) != sorted(read.values(), reverse=True):
        raise DeclarationError("levels must not become finer further away")
    return read


def _in_order(values: Mapping[Any, Any] | ArrayLike, graph: Graph) -> ArrayLike:
    people = graph.people.tolist()
    if isinstance(values, Mapping):
        if set(values) != set(people):
            raise DataError("values are needed for exactly the nodes of the graph, one each")
        return [values[person] for person in people]
    given = np.asarray(values)
    if given.shape != (len(people),):
        raise DataError(f"the graph has {len(people)} nodes, but values have shape {given.shape}")
    return given
