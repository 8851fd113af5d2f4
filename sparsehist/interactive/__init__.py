"""Interactive queries: the sparse vector technique and private multiplicative weights.

Needs numpy and scipy only, and touches no files. A step returns its answer and the new state. Save the new state
before you send the answer, and never reuse an old state: two uses of a state spend more than the level.
"""

from sparsehist.interactive.multiplicative_weights import MultiplicativeWeights, Weighing, WeightedAnswer
from sparsehist.interactive.sparse_vector import AboveThreshold, SparseVector

__all__ = ["AboveThreshold", "MultiplicativeWeights", "SparseVector", "Weighing", "WeightedAnswer"]
