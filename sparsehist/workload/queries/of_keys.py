"""Ranges of keys become ranges of cells, once the series is known that numbers them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparsehist.errors import DeclarationError
from sparsehist.typing import IntArray
from sparsehist.workload.queries.kronecker import Kronecker
from sparsehist.workload.queries.linear_queries import Workload
from sparsehist.workload.queries.rows_of_ranges import Ranges
from sparsehist.workload.queries.union import Union

KeyNumbers = Callable[[Sequence[Any]], IntArray]
"""From keys of one column to the numbers of its cells, in the order of the domain; refuses what is no key."""


def with_cells(workload: Workload, columns: Sequence[KeyNumbers]) -> Workload:
    """Put the numbers of cells in place of keys, wherever a workload names keys.

    Args:
        workload: Any; one that names no keys is given back.
        columns: For each key column of the series, what numbers its keys.

    Raises:
        DeclarationError: If an end of a range is no key, or a range ends before it begins.

    Example:
        >>> letters = lambda keys: np.array(["abcd".index(key) for key in keys])
        >>> str(with_cells(Ranges(keys=[("a", "b"), ("b", "d")]), [letters]))
        'ranges([(0, 1), (1, 3)])'
    """
    if isinstance(workload, Union):
        return Union(*(with_cells(part, columns) for part in workload.parts))
    if isinstance(workload, Kronecker):
        spans = workload.spans(len(columns))
        return Kronecker(*(with_cells(one, columns[at]) for one, at in zip(workload.factors, spans, strict=True)))
    if not isinstance(workload, Ranges) or workload.keys is None or len(columns) != 1:
        return workload  # of several columns, `for_domain` says what to write
    ends = columns[0]([end for pair in workload.keys for end in pair]).reshape(-1, 2)
    backwards = np.flatnonzero(ends[:, 0] > ends[:, 1])
    if backwards.size:
        raise DeclarationError(f"{workload.keys[backwards[0]]} ends before it begins, in the order of the domain")
    return Ranges(ranges=ends)
