"""Release linear queries A·x with the factorization mechanism: factorize A = L·R, and publish A·x + L·Z with noise Z.

x holds the counts of all cells, and A is the workload (`Workload`). A `Strategy` adds the noise Z to R·x and
multiplies the sum by L to get the answers. `next_state` draws the noise of a release at a new level.
"""

from sparsehist.workload.choice import Candidate, choose, compare, lower_bound
from sparsehist.workload.path import answers_of_state, cells_of_state, next_state, state_size
from sparsehist.workload.queries.cells import Cells
from sparsehist.workload.queries.marginals import Marginals
from sparsehist.workload.queries.matrix import Matrix
from sparsehist.workload.queries.products import Kronecker, Union
from sparsehist.workload.queries.ranges import Identity, Prefix, Ranges, Total
from sparsehist.workload.queries.workload import Workload
from sparsehist.workload.strategies.names import strategy_named
from sparsehist.workload.strategies.strategy import Strategy

__all__ = [
    "Candidate",
    "Cells",
    "Identity",
    "Kronecker",
    "Marginals",
    "Matrix",
    "Prefix",
    "Ranges",
    "Strategy",
    "Total",
    "Union",
    "Workload",
    "answers_of_state",
    "cells_of_state",
    "choose",
    "compare",
    "lower_bound",
    "next_state",
    "state_size",
    "strategy_named",
]
