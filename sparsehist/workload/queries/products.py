"""Workloads that combine other workloads: unions on the same columns, and products over different columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate

import numpy as np

from sparsehist.errors import DeclarationError, shown
from sparsehist.typing import ArrayLike, FloatArray, IntArray
from sparsehist.workload.queries.cells import Cells
from sparsehist.workload.queries.ranges import LARGEST_LISTED, Identity, RangeRows, Ranges, Total
from sparsehist.workload.queries.workload import MOST_QUERIES, NO_KEYS, AnswerArray, KeyColumns, Workload

_LARGEST_INTEGER = 2**20


class Composite(Workload):
    """The base class of workloads that combine one or more other workloads."""

    def __init__(self, *parts: Workload) -> None:
        if not parts:
            raise DeclarationError(f"{self.word}() needs at least one workload as an argument")
        for part in parts:
            if not isinstance(part, Workload):
                raise DeclarationError(f"{self.word}() takes only workloads as arguments, got {shown(part)}")
        self.parts = parts
        self.integral = all(part.integral for part in parts)

    def arguments(self) -> str:
        return ", ".join(map(str, self.parts))


class Union(Composite):
    """The queries of several workloads on the same columns, one workload after another.

    Args:
        *parts: Listed workloads. A part without column sizes gets the column sizes of the other parts.

    Raises:
        DeclarationError: If there are no parts, their columns differ, or a part is all ranges of a column.

    Example:
        >>> Union(Workload.parse("total(2)"), Workload.parse("identity(2)")).apply([3, 4])
        array([7., 3., 4.])
    """

    word = "union"

    def __init__(self, *parts: Workload) -> None:
        super().__init__(*parts)
        for part in parts:
            if not part.explicit:
                raise DeclarationError(f"list the ranges you need: union() cannot contain {part.describe()}")
        sizes = {part.columns for part in parts if not part.is_open}
        if len(sizes) > 1:
            raise DeclarationError(f"all parts of a union must have columns of the same sizes, got {sorted(sizes)}")
        self.parts = tuple(part.for_domain(columns) for columns in sizes for part in parts) or parts
        self.largest_entry = max(part.largest_entry for part in parts)

    @property
    def columns(self) -> tuple[int, ...]:
        return self.parts[0].columns

    @property
    def n_queries(self) -> int:
        return sum(part.n_queries for part in self.parts)

    def apply(self, x: ArrayLike) -> FloatArray:
        return np.concatenate([part.apply(x) for part in self.parts])

    def apply_transposed(self, y: ArrayLike) -> FloatArray:
        ends = np.cumsum([part.n_queries for part in self.parts])[:-1]
        pieces = zip(self.parts, np.split(self.columns_of(y, self.n_queries), ends), strict=True)
        return np.asarray(sum(part.apply_transposed(piece) for part, piece in pieces))

    def answers(self, cells: Cells) -> AnswerArray:
        return np.concatenate([part.answers(cells) for part in self.parts])

    def row_squares(self) -> FloatArray:
        return np.concatenate([part.row_squares() for part in self.parts])

    def queries(self) -> Mapping[str, IntArray]:
        """If all parts are ranges, return `low` and `high`: arrays of each query's first and last cell.

        Otherwise, return `part`, the index of each query's part, and `query`, the query's index within this part.
        """
        described = [part.queries() or {} for part in self.parts]
        if all(set(one) == {"low", "high"} for one in described):
            return {name: np.concatenate([one[name] for one in described]) for name in ("low", "high")}
        sizes = [part.n_queries for part in self.parts]
        return {"part": np.repeat(np.arange(len(sizes)), sizes), "query": np.concatenate(list(map(np.arange, sizes)))}

    def for_domain(self, columns: tuple[int, ...], keys: KeyColumns = NO_KEYS) -> Workload:
        return Union(*(part.for_domain(columns, keys) for part in self.parts))


class Kronecker(Composite):
    """The Kronecker product A = A1 ⊗ A2 ⊗ … of workloads: all products of one query from each factor.

    Counts are first summed over all columns whose factor is `Total`, so each of these columns may have up to 2**31
    values. The remaining columns may have at most 2**31 cells together.

    Args:
        *factors: Workloads on consecutive columns of the domain. A factor without sizes covers one column.

    Raises:
        DeclarationError: If there are no factors, too many ranges in a factor, or more than 2**31 queries.

    Example:
        >>> from sparsehist.workload import Prefix
        >>> both = Kronecker(Prefix(3), Identity(2))
        >>> both.shape, both.apply([1, 2, 3, 4, 5, 6])
        ((6, 6), array([ 1.,  2.,  4.,  6.,  9., 12.]))
    """

    word = "kronecker"

    def __init__(self, *factors: Workload) -> None:
        super().__init__(*factors)
        self.largest_entry = math.prod(factor.largest_entry for factor in factors)
        # Answers are computed in doubles, so they are exact integers only if the entries of A are small.
        self.integral = self.integral and self.largest_entry <= _LARGEST_INTEGER
        if self.is_open:
            return
        for factor in factors:
            if not factor.explicit and factor.n_cells > LARGEST_LISTED:
                raise DeclarationError(f"list the ranges you need: there are too many in {factor.describe()}")
        if self.n_queries > MOST_QUERIES:
            raise DeclarationError(f"ask for fewer queries: at most 2**31 are possible, got {self.n_queries}")

    @property
    def columns(self) -> tuple[int, ...]:
        return tuple(size for factor in self.parts for size in factor.columns)

    @property
    def n_queries(self) -> int:
        return math.prod(factor.n_queries for factor in self.parts)

    def apply(self, x: ArrayLike) -> FloatArray:
        values = self.columns_of(x, self.n_cells)
        return along_axes([factor.apply for factor in self.parts], [factor.n_cells for factor in self.parts], values)

    def apply_transposed(self, y: ArrayLike) -> FloatArray:
        weights = self.columns_of(y, self.n_queries)
        steps = [factor.apply_transposed for factor in self.parts]
        return along_axes(steps, [factor.n_queries for factor in self.parts], weights)

    def answers(self, cells: Cells) -> AnswerArray:
        self.require_domain(cells.shape)
        spans = zip(self.parts, self._spans(len(cells.shape)), strict=True)
        asked = [(factor, span) for factor, span in spans if not isinstance(factor, Total)]
        columns = tuple(column for _, span in asked for column in range(span.start, span.stop))
        if math.prod(cells.shape[column] for column in columns) > MOST_QUERIES:
            raise DeclarationError(f"use total() for more columns, to leave at most 2**31 cells: {self.describe()}")
        values = cells.marginal(columns).reshape(-1).astype(np.float64)
        kept = [factor for factor, _ in asked]
        answers = along_axes([factor.apply for factor in kept], [factor.n_cells for factor in kept], values)
        return np.rint(answers).astype(np.int64) if self.integral else answers

    def row_squares(self) -> FloatArray:
        return outer(factor.row_squares() for factor in self.parts)

    def queries(self) -> Mapping[str, IntArray]:
        """Return arrays that describe the queries. The names of a factor's arrays end in _i for its first column i.

        For an identity or total, "column_i" contains the index of a value, or -1 for the sum over all values. Ranges
        are described by "low_i" and "high_i". For other factors, _i is appended to the names in `factor.queries()`.
        """
        described: dict[str, IntArray] = {}
        before, first = 1, 0
        for factor in self.parts:
            after = self.n_queries // before // factor.n_queries
            for name, numbers in _description(factor).items():
                described[f"{name}_{first}"] = np.tile(np.repeat(numbers, after), before)
            before, first = before * factor.n_queries, first + len(factor.columns)
        return described

    def for_domain(self, columns: tuple[int, ...], keys: KeyColumns = NO_KEYS) -> Workload:
        spans, named = zip(self.parts, self._spans(len(columns)), strict=True), list(keys.items())
        return Kronecker(*(factor.for_domain(columns[at], dict(named[at])) for factor, at in spans))

    def _spans(self, columns: int) -> list[slice]:
        widths = [1 if factor.is_open else len(factor.columns) for factor in self.parts]
        if sum(widths) != columns:
            raise DeclarationError(
                f"the factors must cover each column of the domain exactly once, got {self.describe()}"
            )
        return [slice(end - width, end) for width, end in zip(widths, accumulate(widths), strict=True)]


def along_axes(
    steps: Sequence[Callable[[FloatArray], FloatArray]], lengths: Sequence[int], values: FloatArray
) -> FloatArray:
    """Apply one linear map per axis to a flattened (row-major) table: shape (n,), or (n, m) for m tables."""
    behind = values.shape[1:]
    table = values.reshape(*lengths, -1)
    for axis, step in enumerate(steps):
        front = np.moveaxis(table, axis, 0)
        done = step(np.ascontiguousarray(front).reshape(front.shape[0], -1))
        table = np.moveaxis(done.reshape(done.shape[0], *front.shape[1:]), 0, axis)
    return np.ascontiguousarray(table).reshape(-1, *behind)


def outer(vectors: Iterable[FloatArray]) -> FloatArray:
    """Return all products of one entry from each vector, as one vector in row-major order."""
    product = np.ones(1)
    for vector in vectors:
        product = np.outer(product, vector).reshape(-1)
    return product


def _description(factor: Workload) -> Mapping[str, IntArray]:
    if isinstance(factor, Identity | Total):
        return {"column": np.full(1, -1) if isinstance(factor, Total) else np.arange(factor.n_queries)}
    if isinstance(factor, Ranges):
        return RangeRows.queries(factor) or {}
    return factor.queries() or {}
