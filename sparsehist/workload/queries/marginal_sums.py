"""Exact sums of counts over marginals, one pass over the cells for each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sparsehist.typing import IntArray
from sparsehist.workload.queries.cells import Cells

Subset = tuple[int, ...]


def marginal_sums(cells: Cells, subsets: Sequence[Subset]) -> list[IntArray]:
    """Sum counts over all cells that agree on some columns, for each subset of columns (ascending). Secret.

    Returns:
        For each marginal an int64 array, one axis per column.
    """
    return [_sums(cells, subset) for subset in subsets]


def _sums(cells: Cells, subset: Subset) -> IntArray:
    number = np.zeros(len(cells.counts), np.int64)
    for column in subset:
        number *= cells.shape[column]
        number += cells.coordinates[column]
    shape = tuple(cells.shape[column] for column in subset)
    table = np.zeros(shape, np.int64)
    np.add.at(table.reshape(-1), number, cells.counts)
    return table
