"""Queries that nobody listed beforehand: the sparse vector technique and private multiplicative weights.

Core: numpy and scipy only, no I/O, generators are passed in. `AboveThreshold` and `MultiplicativeWeights`, which draw
by themselves, are part of the shell, which lends them under their public names.
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

AboveThreshold: type[Any]
MultiplicativeWeights: type[Any]
QuerySession: type[Any]
"""Lent by the top of the package."""
