"""Hop distances in a public, undirected graph."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sparsehist.errors import DataError, InputError, shown
from sparsehist.typing import IntArray


@dataclass(frozen=True, eq=False)
class Graph:
    """A public, undirected graph.

    Attributes:
        people: Dict from node to its number, from 0 to n - 1. Nodes of an integer array are numbered in ascending
            order, other nodes in order of occurrence.
        edges: Sparse matrix with an entry for each edge, in one or both directions; shape (n, n).
    """

    people: dict[Any, int]
    edges: Any = field(repr=False)

    def hops(self, sources: Iterable[Hashable]) -> IntArray:
        """Return the number of hops from each node to the nearest source, or -1 if no path exists; shape (n,).

        Raises:
            InputError: If there is no source, or a source is not in the graph.
        """
        from scipy.sparse import csgraph

        given = list(sources)
        if not given:
            raise InputError("a coalition must have at least one reader")
        unknown = [person for person in given if person not in self.people]
        if unknown:
            which = shown(given[0]) if len(given) == 1 else "for one of these people"
            raise InputError(f"the graph has no node {which}")
        numbers = [self.people[person] for person in given]
        hops = csgraph.dijkstra(self.edges, directed=False, indices=numbers, unweighted=True, min_only=True)
        return np.where(np.isfinite(hops), hops, -1.0).astype(np.int64)


def distances(graph: Any, owner: Hashable) -> dict[Any, int]:
    """Return the number of hops from the owner to each reachable node, including 0 for the owner.

    Args:
        graph: Public and undirected: {node: neighbours}, pairs of nodes, an array of shape (m, 2), a frame whose
            first two columns are the ends of the edges, or a networkx graph.
        owner: A node of the graph.

    Raises:
        DataError: If the graph has none of these forms, or is directed.
        InputError: If the owner is not in the graph.

    Example:
        >>> distances([("ann", "bob"), ("bob", "cid")], "ann")
        {'ann': 0, 'bob': 1, 'cid': 2}
    """
    read = read_graph(graph)
    hops = read.hops([owner]).tolist()
    return {person: hops[number] for person, number in read.people.items() if hops[number] >= 0}


def read_graph(graph: Any) -> Graph:
    """Read a graph in any form that `distances` accepts."""
    from scipy import sparse

    if isinstance(graph, Graph):
        return graph
    nodes: Iterable[Hashable] = ()
    if hasattr(graph, "is_directed"):
        if graph.is_directed():
            raise DataError("the graph is directed, but distances need an undirected one; pass graph.to_undirected()")
        nodes, pairs = graph.nodes(), graph.edges()
    elif isinstance(graph, Mapping):
        nodes, pairs = graph, ((one, other) for one, others in graph.items() for other in others)
    elif hasattr(graph, "columns"):
        pairs = zip(*(graph[name].to_list() for name in list(graph.columns)[:2]), strict=True)
    else:
        pairs = graph
    if isinstance(pairs, np.ndarray) and pairs.dtype.kind in "iu" and pairs.shape[1:] == (2,):
        found, ends = np.unique(pairs, return_inverse=True)
        people = {person: number for number, person in enumerate(found.tolist())}
    else:
        people, ends = _numbered(nodes, pairs.tolist() if isinstance(pairs, np.ndarray) else pairs)
    if not people:
        raise DataError("the graph has no nodes")
    ends = ends.reshape(-1, 2)
    shape = (len(people), len(people))
    return Graph(people, sparse.csr_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=shape))


def _numbered(nodes: Iterable[Hashable], pairs: Iterable[Any]) -> tuple[dict[Any, int], IntArray]:
    """Return a dict from node to number, and an array with the numbers of both nodes of each pair."""
    people: dict[Any, int] = {}
    try:
        for node in nodes:
            people.setdefault(node, len(people))
        ends = [people.setdefault(node, len(people)) for one, other in pairs for node in (one, other)]
    except (TypeError, ValueError):
        raise DataError("a graph must be a mapping, pairs of nodes, a frame or a networkx graph") from None
    return people, np.array(ends, np.int64)
