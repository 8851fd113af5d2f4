"""Provide `Matrix`, the workload whose queries are the rows of a given matrix."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from sparsehist.errors import DeclarationError, shown
from sparsehist.typing import ArrayLike, FloatArray, NDArray
from sparsehist.workload.queries.cells import Cells
from sparsehist.workload.queries.workload import AnswerArray, Workload

_LARGEST_INTEGER = 2**20  # with entries up to this size, answers fit in int64 if the counts sum to less than 2**43
_LARGEST = 1e60  # largest absolute value of an entry x, limited so that doubles can represent x**4 and 1 / x**4
_MOST_ENTRIES = 10**6  # largest number of nonzero entries; it is limited because releases store the matrix as text


class Matrix(Workload):
    """The workload whose queries are the rows of a given matrix.

    The textual form contains the whole matrix: the number of cells, then the entries of each row as cell:weight, for
    example ``matrix('5; 0:1 4:1; 2:-0.5')``.

    Args:
        matrix: A, real and finite: a dense array, a scipy sparse matrix or array, or the text above; shape (queries,
            cells), with at most a million nonzero entries.

    Raises:
        DeclarationError: If the matrix is empty, not two-dimensional, not real or not finite, has too many entries,
            or if its largest absolute entry is not between 1e-60 and 1e60.

    Example:
        >>> halves = Matrix([[1, -1], [0.5, 0.5]])
        >>> halves.apply([3, 1]), str(halves)
        (array([2., 2.]), "matrix('2; 0:1 1:-1; 0:0.5 1:0.5')")
    """

    word = "matrix"

    def __init__(self, matrix: object) -> None:
        self.matrix: Any = _canonical(_read(matrix) if isinstance(matrix, str) else matrix)
        """A as a sparse array of floats, rows in order."""
        entries: NDArray[np.float64] = self.matrix.data
        self.integral = bool(np.all((entries == np.rint(entries)) & (np.abs(entries) <= _LARGEST_INTEGER)))
        self.largest_entry = float(np.abs(entries).max(initial=0.0))

    @property
    def columns(self) -> tuple[int, ...]:
        return (int(self.matrix.shape[1]),)

    @property
    def n_queries(self) -> int:
        return int(self.matrix.shape[0])

    def apply(self, x: ArrayLike) -> FloatArray:
        return np.asarray(self.matrix @ self.columns_of(x, self.n_cells), np.float64)

    def apply_transposed(self, y: ArrayLike) -> FloatArray:
        return np.asarray(self.matrix.T @ self.columns_of(y, self.n_queries), np.float64)

    def answers(self, cells: Cells) -> AnswerArray:
        self.require_domain(cells.shape)
        if not self.integral:
            return self.apply(cells.dense().astype(np.float64))
        exact: AnswerArray = self.matrix.astype(np.int64) @ cells.dense()
        return exact

    def row_squares(self) -> FloatArray:
        return np.asarray(self.matrix.multiply(self.matrix).sum(axis=1), np.float64).reshape(-1)

    def arguments(self) -> str:
        cells, weights = self.matrix.indices.tolist(), self.matrix.data.tolist()
        entries = [f" {cell}:{int(w) if w == int(w) else repr(w)}" for cell, w in zip(cells, weights, strict=True)]
        ends = self.matrix.indptr.tolist()
        rows = ["".join(entries[start:end]) for start, end in pairwise(ends)]
        return f"'{self.n_cells};{';'.join(rows)}'"


def _read(text: str) -> sparse.csr_array:
    try:
        first, *rows = text.split(";")
        entries = [[entry.split(":") for entry in row.split()] for row in rows]
        weights = np.array([float(weight) for row in entries for _, weight in row])
        cells = np.array([int(cell) for row in entries for cell, _ in row], np.int64)
        read = sparse.csr_array((weights, cells, np.cumsum([0, *map(len, entries)])), shape=(len(rows), int(first)))
        read.check_format()
    except (ValueError, OverflowError):
        raise DeclarationError(
            "cannot read the matrix; write the number of cells, then the cell:weight entries of each row, such as "
            "matrix('5; 0:1 4:1; 2:-0.5')"
        ) from None
    return read


def _canonical(matrix: Any) -> sparse.csr_array:
    try:
        given = matrix if sparse.issparse(matrix) else np.asarray(matrix)
    except ValueError:
        raise DeclarationError("all rows of a matrix must have the same length") from None
    if given.ndim != 2 or given.dtype.kind not in "biuf":
        raise DeclarationError(f"a matrix must be real and two-dimensional (queries by cells), got {shown(matrix)}")
    if 0 in given.shape:
        raise DeclarationError("the matrix is empty; it needs at least one query (row) and one cell (column)")
    canonical = sparse.csr_array(given).astype(np.float64)
    canonical.sum_duplicates()
    canonical.eliminate_zeros()
    if not np.isfinite(canonical.data).all():
        raise DeclarationError("the matrix contains NaN or infinity; all entries must be finite")
    if canonical.nnz > _MOST_ENTRIES:
        raise DeclarationError(f"the matrix has too many nonzero entries: {canonical.nnz}, limit {_MOST_ENTRIES}")
    largest = float(np.abs(canonical.data).max(initial=0.0))
    if largest and not 1.0 / _LARGEST <= largest <= _LARGEST:
        raise DeclarationError(f"the largest absolute matrix entry must be between 1e-60 and 1e60, got {largest:g}")
    return canonical
