"""One noise path, many readers: levels by distance in a public graph or by clearance, and what coalitions know.

Core: numpy and scipy only, no I/O, nothing is drawn here. `Network`, which draws, is part of the shell and is found
here under its public name when it is first used.
"""

from typing import Any

from sparsehist.audiences.graph import Graph, distances, read_graph
from sparsehist.audiences.readers import Audiences, Coalition, by_distance
from sparsehist.audiences.views import View

__all__ = ["Audiences", "Coalition", "Graph", "Network", "View", "by_distance", "distances", "read_graph"]


def __getattr__(name: str) -> Any:
    """Find the class that draws where it stands, in the shell."""
    if name != "Network":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return __import__("sparsehist.sessions.network", fromlist=[name]).Network
