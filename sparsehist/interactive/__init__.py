"""Queries that nobody listed beforehand: the sparse vector technique and private multiplicative weights.

Core: numpy and scipy only, no I/O, generators are passed in. `AboveThreshold` and `MultiplicativeWeights`, which draw
by themselves, are part of the shell and are found here under their public names when they are first used.
"""

from typing import Any

from sparsehist.interactive.multiplicative_weights import Weighing, WeightedAnswer, Weights, first_guess, updated
from sparsehist.interactive.noise_supply import NoiseSupply
from sparsehist.interactive.sparse_vector import SparseVector

__all__ = [
    "AboveThreshold",
    "MultiplicativeWeights",
    "NoiseSupply",
    "SparseVector",
    "Weighing",
    "WeightedAnswer",
    "Weights",
    "first_guess",
    "updated",
]

_HOMES = {
    "AboveThreshold": "sparsehist.sessions.above_threshold",
    "MultiplicativeWeights": "sparsehist.sessions.weights",
}


def __getattr__(name: str) -> Any:
    """Find the classes that draw where they stand, in the shell."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(__import__(_HOMES[name], fromlist=[name]), name)
