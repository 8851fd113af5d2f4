"""Linear workloads by the factorization mechanism: queries A·x released as A·x + L·Z, where A = L·R.

Core: numpy and scipy only, no I/O, generators are passed in.

The symbols of the mathematics: x the counts of all cells, A the workload (`Workload`), R the strategy's queries and L
what makes the workload's of them (`Strategy`), Z the noise on R·x, one entry per row of R (`n_noise`). What is
kept of each level is named by `Strategy.keeps`; `next_state` draws the state of a new level.
"""

from sparsehist.workload.choice import Candidate, choose, compare
from sparsehist.workload.lower_bound import LowerBound, lower_bound
from sparsehist.workload.path import answers_of_state, cells_of_state, next_state
from sparsehist.workload.queries.cells import Cells
from sparsehist.workload.queries.kronecker import Kronecker
from sparsehist.workload.queries.linear_queries import Workload
from sparsehist.workload.queries.marginals import Marginals
from sparsehist.workload.queries.matrix import MatrixWorkload
from sparsehist.workload.queries.rows_of_ranges import Identity, Prefix, Ranges, Total
from sparsehist.workload.queries.union import Union
from sparsehist.workload.strategies.strategy import Sensitivity, Strategy
from sparsehist.workload.strategies.strategy_text import strategy_named

__all__ = [
    "Candidate",
    "Cells",
    "Identity",
    "Kronecker",
    "LowerBound",
    "Marginals",
    "MatrixWorkload",
    "Prefix",
    "Ranges",
    "Sensitivity",
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
    "strategy_named",
]
