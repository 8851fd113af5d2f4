"""A network of owners, each of whom shows a value to the others at a level that falls with the distance."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from sparsehist.audiences.graph import Graph, read_graph
from sparsehist.audiences.views import View
from sparsehist.errors import DataError, DeclarationError, InputError
from sparsehist.noise.family import DenseFamily
from sparsehist.privacy.levels import Level, as_level
from sparsehist.series.multiple_release import MultipleRelease
from sparsehist.typing import AnyArray, ArrayLike


class Network:
    """Everybody in a public graph owns a value and reads those of others, one noise path for all.

    The noise of an owner's value is a path of its own entry, so one `MultipleRelease` serves the network: one release
    per distance, read by everybody at that distance. What a group knows of an owner is what its nearest member knows.

    Args:
        values: {person: value}, or an array in the order of the graph's nodes (ascending, for integer nodes). Secret.
        graph: Public and undirected; in any form of `sparsehist.audiences.distances`.
        family: Noise of one value; its sensitivity is how far one owner's value may change.
        levels: By distance from 1 on, never finer further away; who is further away sees nothing. By default
            1/distance, however far.

    Raises:
        DataError: If values and nodes do not agree, or values do not suit the family.
        DeclarationError: If the levels are not what they should be.

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
        self._levels = None if levels is None else _read_levels(levels)
        self._graph = read_graph(graph)
        cap = Fraction(1) if self._levels is None else max(self._levels.values())
        self._vector = MultipleRelease(family, _in_order(values, self._graph), cap=cap)

    @property
    def people(self) -> list[Any]:
        """The nodes of the graph."""
        return list(self._graph.people.tolist())

    def view(self, reader: Hashable) -> View:
        """What one reader sees; the same every time.

        Raises:
            InputError: If the reader is not in the graph.
        """
        return self.coalition([reader])

    def coalition(self, readers: Iterable[Hashable]) -> View:
        """What readers know together: of every owner, what the nearest of them sees. Their own values are not in it.

        Raises:
            InputError: If there are none, or one is not in the graph.
        """
        members = list(readers)
        if not members:
            raise InputError("a coalition has at least one reader")
        hops = self._graph.hops(members)
        levels = self._of_distances(int(hops.max()))
        seen = np.flatnonzero(np.isin(hops, list(levels)))
        distance = hops[seen]
        noisy: AnyArray | None = None
        for reached in np.unique(distance).tolist():
            at = np.flatnonzero(distance == reached)
            values = self._vector.release(levels[reached]).values
            noisy = np.empty(seen.size, values.dtype) if noisy is None else noisy
            noisy[at] = values[seen[at]]
        used = {reached: levels[reached] for reached in np.unique(distance).tolist()}
        return View(self._graph.people[seen], np.empty(0) if noisy is None else noisy, distance, used)

    def seal(self) -> None:
        """Erase the values; views are served as before."""
        self._vector.seal()

    def __repr__(self) -> str:
        return f"Network({len(self._graph.people)} people, {self._vector!r})"

    def _of_distances(self, furthest: int) -> dict[int, Fraction]:
        return self._levels or {hops: Fraction(1, hops) for hops in range(1, furthest + 1)}


def _read_levels(levels: Mapping[int, Level]) -> dict[int, Fraction]:
    read = {hops: as_level(levels[hops]) for hops in sorted(levels)}
    if not read or any(isinstance(hops, bool) or not isinstance(hops, int) or hops < 1 for hops in read):
        raise DeclarationError("levels are given by distance, whole numbers from 1 on, such as {1: 1, 2: '1/2'}")
    falling = list(read.values())
    if falling != sorted(falling, reverse=True):
        raise DeclarationError(f"levels must not become finer further away, got {dict(levels)!r}")
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
