"""Release a vector to readers with different levels, which may depend on distances in a public graph."""

from sparsehist.audiences.graph import Graph, distances, read_graph
from sparsehist.audiences.network import Network, View
from sparsehist.audiences.readers import Audiences, Coalition, by_distance

__all__ = ["Audiences", "Coalition", "Graph", "Network", "View", "by_distance", "distances", "read_graph"]
