"""Interactive queries: the sparse vector technique and private multiplicative weights.

This package needs only numpy and scipy, and uses no files. `ask` returns an answer and the next state. Save the next
state before you send the answer, and never use an old state again: using a state twice costs more than the level.
"""

from sparsehist.interactive.multiplicative_weights import MultiplicativeWeights, Weighing, WeightedAnswer
from sparsehist.interactive.sparse_vector import AboveThreshold, SparseVector

__all__ = ["AboveThreshold", "MultiplicativeWeights", "SparseVector", "Weighing", "WeightedAnswer"]
