"""One noise path, many readers: levels by distance in a public graph or by clearance, and what coalitions know.

Core: numpy and scipy only, no I/O, nothing is drawn here. `Network`, which draws, is part of the shell, which
lends it under its public name.
"""

from typing import Any

from sparsehist.audiences.graph import Graph, distances, read_graph
from sparsehist.audiences.readers import Audiences, Coalition, by_distance
from sparsehist.audiences.views import View

__all__ = ["Audiences", "Coalition", "Graph", "Network", "View", "by_distance", "distances", "read_graph"]

Network: type[Any]
"""Lent by the top of the package."""
