"""Hop distances in a public graph, whatever form the graph comes in."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from sparsehist.errors import DataError, InputError
from sparsehist.typing import AnyArray, IntArray, NDArray

UNREACHED = -1


@dataclass(frozen=True, eq=False)
class Graph:
    """An undirected graph, ready to be searched. All of it is public.

    Attributes:
        people: The nodes, in the order of `values` that belong to them; shape (n,).
        starts: Where the neighbours of each node begin; shape (n + 1,).
        neighbours: Of all nodes, one after the other.
    """

    people: AnyArray
    starts: NDArray[np.integer] = field(repr=False)
    neighbours: NDArray[np.integer] = field(repr=False)
    _codes: dict[Hashable, int] = field(default_factory=dict, repr=False)

    def code(self, person: Hashable) -> int:
        """The position of a person in `people`.

        Raises:
            InputError: If nobody of that name is in the graph.
        """
        if not self._codes:
            self._codes.update((name, code) for code, name in enumerate(self.people.tolist()))
        if person not in self._codes:
            raise InputError(f"the graph has no node {person!r}")
        return self._codes[person]

    def hops(self, sources: Iterable[Hashable]) -> IntArray:
        """Hops to the nearest of the sources; shape (n,), -1 where none can be reached.

        One search in breadth-first order gives each node the node it was found from; the number of hops is the depth
        in that tree, added up by doubling.
        """
        codes = np.unique([self.code(person) for person in sources])
        if codes.size == 0:
            raise InputError("a coalition has at least one reader")
        n = len(self.people)
        # A node of its own, one hop before all sources, makes one search of many.
        neighbours = np.concatenate([self.neighbours, codes.astype(self.neighbours.dtype)])
        starts = np.append(self.starts, neighbours.size)
        adjacency = sparse.csr_array((np.ones(neighbours.size), neighbours, starts), shape=(n + 1, n + 1))
        order, found_from = csgraph.breadth_first_order(adjacency, n, directed=True, return_predecessors=True)
        above = np.arange(n + 1)
        above[order[1:]] = found_from[order[1:]]
        depth = (above != np.arange(n + 1)).astype(np.int64)
        while bool((above[order] != n).any()):
            depth += depth[above]
            above = above[above]
        reached = np.full(n + 1, UNREACHED, np.int64)
        reached[order] = depth[order] - 1
        return reached[:n]


def distances(graph: Any, owner: Hashable) -> dict[Any, int]:
    """Hops from the owner to everybody who can be reached, the owner at 0 included.

    Args:
        graph: Public and undirected: {node: its neighbours}, pairs of nodes, an array of shape (m, 2), a frame whose
            first two columns are the ends of the edges, or a networkx graph.
        owner: A node.

    Returns:
        By node.

    Raises:
        DataError: If the graph is not of these forms, or is directed.
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
        return _of_pairs(list(graph.edges()), list(graph.nodes()))
    if isinstance(graph, Mapping):
        return _of_pairs([(one, other) for one, others in graph.items() for other in others], list(graph))
    if hasattr(graph, "columns"):
        names = list(graph.columns)[:2]
        if len(names) < 2:
            raise DataError("a frame of edges has two columns, the ends of each edge")
        return _of_ends(*(np.asarray(graph[name].to_numpy()) for name in names))
    if isinstance(graph, np.ndarray):
        if graph.ndim != 2 or graph.shape[1] != 2:
            raise DataError(f"an array of edges has shape (m, 2), got {graph.shape}")
        return _of_ends(graph[:, 0], graph[:, 1])
    try:
        pairs = [(one, other) for one, other in graph]
    except (TypeError, ValueError):
        raise DataError("a graph is a mapping to neighbours, pairs of nodes, a frame or a networkx graph") from None
    return _of_pairs(pairs, [])


def _of_ends(one: AnyArray, other: AnyArray) -> Graph:
    """Edges as two arrays; integers without a table of names."""
    if one.dtype.kind not in "iu" or other.dtype.kind not in "iu":
        return _of_pairs(list(zip(one.tolist(), other.tolist(), strict=True)), [])
    if one.size == 0:
        raise DataError("the graph has no nodes")
    least, most = min(int(one.min()), int(other.min())), max(int(one.max()), int(other.max()))
    if most - least > 8 * one.size + 1024:
        people, codes = np.unique(np.concatenate([one, other]), return_inverse=True)
        return _of_codes(people, codes[: one.size], codes[one.size :])
    present = np.zeros(most - least + 1, np.bool_)
    present[one - least] = present[other - least] = True
    number = np.cumsum(present) - 1
    return _of_codes(np.flatnonzero(present) + least, number[one - least], number[other - least])


def _of_pairs(pairs: Sequence[tuple[Any, Any]], alone: Sequence[Any]) -> Graph:
    codes: dict[Any, int] = {}
    for node in alone:
        codes.setdefault(node, len(codes))
    ends = [codes.setdefault(node, len(codes)) for pair in pairs for node in pair]
    if not codes:
        raise DataError("the graph has no nodes")
    people = np.empty(len(codes), dtype=object)
    people[:] = list(codes)
    flat = np.array(ends, dtype=np.int64).reshape(-1, 2)
    return _of_codes(people, flat[:, 0], flat[:, 1], codes)


def _of_codes(people: AnyArray, one: IntArray, other: IntArray, codes: dict[Any, int] | None = None) -> Graph:
    """Neighbours by node, from a matrix of edges by ends: turning that round is a counting sort."""
    n, m = len(people), one.size
    smallest = np.int32 if 2 * max(n, m) < 2**31 - 1 else np.int64
    ends = np.empty((m, 2), smallest)
    ends[:, 0], ends[:, 1] = one, other
    edges = sparse.csr_array((np.ones(2 * m, np.int8), ends.ravel(), np.arange(0, 2 * m + 1, 2)), shape=(m, n))
    by_node = edges.tocsc()
    neighbours = ends.sum(axis=1, dtype=smallest)[by_node.indices]
    neighbours -= np.repeat(np.arange(n, dtype=smallest), np.diff(by_node.indptr))
    return Graph(people, by_node.indptr, neighbours, {} if codes is None else codes)
