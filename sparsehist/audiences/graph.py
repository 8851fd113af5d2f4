"""Hop distances in a public, undirected graph."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from sparsehist.errors import DataError, InputError, shown
from sparsehist.typing import AnyArray, IntArray


@dataclass(frozen=True, eq=False)
class Graph:
    """An undirected graph. All of it is public.

    Attributes:
        people: The nodes; shape (n,). Ascending where they are integers of an array or frame, else in the order in
            which they first occur.
        edges: Matrix with an entry for each edge, in either direction; shape (n, n).
    """

    people: AnyArray
    edges: Any = field(repr=False)

    @cached_property
    def _codes(self) -> dict[Hashable, int]:
        return {person: code for code, person in enumerate(self.people.tolist())}

    def hops(self, sources: Iterable[Hashable]) -> IntArray:
        """Count the hops from each node to the nearest source; shape (n,), -1 where no source can be reached.

        Raises:
            InputError: If there is no source, or one is not in the graph.
        """
        given = list(sources)
        if not given:
            raise InputError("a coalition has at least one reader")
        codes = [self._codes.get(person, -1) for person in given]
        if -1 in codes:
            raise InputError(f"the graph has no node {shown(given[codes.index(-1)])}")
        hops = csgraph.dijkstra(self.edges, directed=False, indices=codes, unweighted=True, min_only=True)
        return np.where(np.isfinite(hops), hops, -1.0).astype(np.int64)


def distances(graph: Any, owner: Hashable) -> dict[Any, int]:
    """Count the hops from the owner to everybody who can be reached; the owner is at 0.

    Args:
        graph: Public and undirected: {node: its neighbours}, pairs of nodes, an array of shape (m, 2), a frame whose
            first two columns are the ends of the edges, or a networkx graph.
        owner: A node.

    Raises:
        DataError: If the graph has none of these forms, or is directed.
        InputError: If the owner is not in it.

    Example:
        >>> distances([("ann", "bob"), ("bob", "cid")], "ann")
        {'ann': 0, 'bob': 1, 'cid': 2}
    """
    read = read_graph(graph)
    hops = read.hops([owner])
    reached = np.flatnonzero(hops >= 0)
    return dict(zip(read.people[reached].tolist(), hops[reached].tolist(), strict=True))


def read_graph(graph: Any) -> Graph:
    """Read a graph in any of the forms of `distances`."""
    if isinstance(graph, Graph):
        return graph
    if hasattr(graph, "is_directed"):
        if graph.is_directed():
            raise DataError("the graph is directed, and a distance counts both ways; pass graph.to_undirected()")
        return _named(graph.nodes(), graph.edges())
    if isinstance(graph, Mapping):
        return _named(graph, ((one, other) for one, others in graph.items() for other in others))
    if hasattr(graph, "columns"):
        columns = [np.asarray(graph[name].to_numpy()) for name in list(graph.columns)[:2]]
        return _of_array(np.stack(columns, axis=1))
    if isinstance(graph, np.ndarray):
        return _of_array(graph)
    try:
        return _named((), ((one, other) for one, other in graph))
    except (TypeError, ValueError):
        raise DataError("a graph is a mapping to neighbours, pairs of nodes, a frame or a networkx graph") from None


def _of_array(ends: AnyArray) -> Graph:
    if ends.ndim != 2 or ends.shape[1] != 2:
        raise DataError(f"edges have two columns, the ends of each; got shape {ends.shape}")
    if ends.dtype.kind not in "iu":
        return _named((), ends.tolist())
    people, codes = np.unique(ends, return_inverse=True)
    return _graph(people, codes.reshape(-1, 2))


def _named(nodes: Iterable[Hashable], pairs: Iterable[tuple[Hashable, Hashable]]) -> Graph:
    """A graph of nodes of any kind; `nodes` need not list those that occur in pairs."""
    codes: dict[Hashable, int] = {}
    for node in nodes:
        codes.setdefault(node, len(codes))
    ends = [codes.setdefault(node, len(codes)) for one, other in pairs for node in (one, other)]
    people = np.empty(len(codes), dtype=object)
    people[:] = list(codes)
    return _graph(people, np.array(ends, dtype=np.int64).reshape(-1, 2))


def _graph(people: AnyArray, ends: IntArray) -> Graph:
    if not len(people):
        raise DataError("the graph has no nodes")
    size = (len(people), len(people))
    return Graph(people, sparse.csr_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=size))
