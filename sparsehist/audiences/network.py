"""Networks in which people show noisy values to each other, at levels that decrease with distance."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from sparsehist.audiences.graph import Graph, read_graph
from sparsehist.dense.multiple_release import MultipleRelease
from sparsehist.errors import DataError, DeclarationError, InputError, shown
from sparsehist.noise.family import DenseFamily
from sparsehist.privacy.levels import Level, as_level
from sparsehist.typing import ArrayLike


class View(Mapping[Any, Any]):
    """All noisy values that a reader or coalition sees, as a dict from owner to value. Nobody else may see them."""

    def __init__(self, rows: Mapping[Any, tuple[Any, int]], levels: Mapping[int, Fraction]) -> None:
        self._rows, self._levels = rows, levels

    def __getitem__(self, person: Any) -> Any:
        return self._rows[person][0]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def level(self, person: Any) -> Fraction:
        """Return the level at which the value of a person appears in this view."""
        if not isinstance(person, Hashable) or person not in self._rows:
            raise InputError(f"the view contains no value for person {shown(person)}")
        return self._levels[self._rows[person][1]]

    def __repr__(self) -> str:
        shown = ", ".join(f"{hops}: {level}" for hops, level in sorted(self._levels.items()))
        return f"View({len(self)} people, levels by distance {{{shown}}})"


class Network:
    """A network: each person in a public graph owns a value and reads noisy values of others.

    The values of all people are one vector, which is released once for each distance. All readers at one distance
    from an owner see the same noisy value of the owner. Several readers together know no more about an owner than the
    nearest of them. After `to_bytes`, only one copy of a network may draw noise.

    Args:
        values: {person: value}, or an array in the order of `read_graph(graph).people`. Secret.
        graph: Public and undirected, in any form of `sparsehist.audiences.distances`.
        family: Noise of one value; its sensitivity is the largest change of an owner's value.
        levels: Dict from distance, at least 1, to level; levels must not increase with distance. Readers at other
            distances see nothing. By default, the level is 1/distance.

    Raises:
        DataError: If values and nodes do not match, or if the family does not allow the values.
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
        if isinstance(values, Mapping):
            if set(values) != set(read.people):
                raise DataError("give exactly one value for each node of the graph")
            values = [values[person] for person in read.people]
        self._begin(MultipleRelease(family, values, cap=cap), read, levels)

    def _begin(self, vector: MultipleRelease, graph: Graph, levels: Mapping[int, Level] | None) -> None:
        self._vector, self._graph = vector, graph
        self._levels = None if levels is None else _read_levels(levels)
        if len(vector) != len(graph.people):
            raise DataError("the graph must have as many nodes as the network has values")

    def to_bytes(self) -> bytes:
        """Return values and noise as secret bytes. `from_bytes` also needs the graph and levels, which are public."""
        return self._vector.to_bytes()

    @classmethod
    def from_bytes(cls, content: bytes, graph: Any, levels: Mapping[int, Level] | None = None) -> Network:
        """Restore a network from `to_bytes`. Pass the same levels and graph, with nodes in the same order."""
        made = cls.__new__(cls)
        made._begin(MultipleRelease.from_bytes(content), read_graph(graph), levels)  # noqa: SLF001  made here
        return made

    def view(self, reader: Hashable) -> View:
        """Return the noisy values that a reader sees. Raise InputError if the reader is not in the graph."""
        return self.coalition([reader])

    def coalition(self, readers: Iterable[Hashable]) -> View:
        """Return what readers know together: for each owner, the value that the reader nearest to the owner sees.

        Raises:
            InputError: If there are no readers, or a reader is not in the graph.
        """
        hops = self._graph.hops(readers)
        levels = self._levels or {far: Fraction(1, far) for far in range(1, int(hops.max()) + 1)}
        used = {far: levels[far] for far in np.unique(hops).tolist() if far in levels}
        values = {far: self._vector.release(level).values.tolist() for far, level in used.items()}
        near = zip(self._graph.people.items(), hops.tolist(), strict=True)
        return View({person: (values[far][i], far) for (person, i), far in near if far in used}, used)

    def seal(self) -> None:
        """Erase the true values. Every view can still be read, and does not change."""
        self._vector.seal()

    def __repr__(self) -> str:
        return f"Network({len(self._graph.people)} people, {self._vector!r})"


def _read_levels(levels: Mapping[int, Level]) -> dict[int, Fraction]:
    if not levels or any(isinstance(far, bool) or not isinstance(far, int) or far < 1 for far in levels):
        raise DeclarationError("levels must be a dict from distance (1, 2, …) to level, such as {1: 1, 2: '1/2'}")
    read = {far: as_level(levels[far]) for far in sorted(levels)}
    if list(read.values()) != sorted(read.values(), reverse=True):
        raise DeclarationError("levels must not increase with distance")
    return read
