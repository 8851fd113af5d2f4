"""The workload of a given matrix: dense, sparse, or an operator that is only ever applied."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from sparsehist.errors import DeclarationError
from sparsehist.typing import ArrayLike, FloatArray
from sparsehist.workload.queries.cells import Cells
from sparsehist.workload.queries.linear_queries import AnswerArray, Attachments, Workload, attached

# Integers up to this size times counts below 2**43 add up without overflow.
_LARGEST_INTEGER = 2**20
# Fourth powers of entries, and their inverses, are doubles.
_LARGEST = 1e60
# A strategy may depend on all of an operator of so many cells (`optimised`), so all of it is told apart.
_WRITTEN_OUT = 512
_ENTRIES_AT_ONCE = 2**22
_NOT_LINEAR, _ROUNDING = 1e-4, 1e-9  # operators may compute in single precision
_DOUBLE = 1e-11


class MatrixWorkload(Workload):
    """Queries given as the rows of a matrix.

    An operator is applied and never written out: its answers are reals, and as its text holds only a digest of
    what it does to fixed vectors, the same operator is handed in again for later releases.

    Args:
        matrix: A dense array, scipy sparse matrix or array, or LinearOperator; shape (queries, cells), real.

    Raises:
        DeclarationError: If it is empty, not two-dimensional, not real, or holds NaN or an infinity, or its largest
            entry lies beyond 1e-60 or 1e60.

    Example:
        >>> MatrixWorkload([[1, -1], [0.5, 0.5]]).apply([3, 1])
        array([2., 2.])
    """

    word = "matrix"

    def __init__(self, matrix: object) -> None:
        super().__init__()
        self._operator = matrix if isinstance(matrix, LinearOperator) else _as_sparse(matrix)
        rows, cells = self._operator.shape
        if not rows or not cells:
            raise DeclarationError(f"a workload has at least one query and one cell, got a matrix {(rows, cells)}")
        self._shape = (int(rows), int(cells))
        self.integral = sparse.issparse(self._operator) and _is_integral(self._operator.data)
        self.non_negative = sparse.issparse(self._operator) and bool(np.all(self._operator.data >= 0))
        content, self.precise = _fingerprint(self._operator) if self.matrix is None else (self._content(), True)
        self._sha256 = hashlib.sha256(content).hexdigest()

    @classmethod
    def read(cls, *values: Any, attachments: Attachments, **named: Any) -> Workload:
        """From its shape and the digest of what is attached."""

        def matrix(rows: int, cells: int, *, sha256: str) -> Workload:
            return _from_content(attached(attachments, sha256), rows, cells)

        return matrix(*values, **named)

    precise: bool
    """Whether A·x is computed in double precision; an operator may do with less."""

    @property
    def columns(self) -> tuple[int, ...]:
        return (self._shape[1],)

    @property
    def n_queries(self) -> int:
        return self._shape[0]

    @property
    def matrix(self) -> Any:
        """A as a sparse array, or None for an operator."""
        return self._operator if sparse.issparse(self._operator) else None

    def apply(self, x: ArrayLike) -> FloatArray:
        return np.asarray(self._operator @ self.columns_of(x, self.n_cells), np.float64)

    def apply_transposed(self, y: ArrayLike) -> FloatArray:
        return np.asarray(self._operator.T @ self.columns_of(y, self.n_queries), np.float64)

    def answers(self, cells: Cells) -> AnswerArray:
        self.require_domain(cells.shape)
        if not self.integral:
            return self.apply(cells.dense().astype(np.float64))
        exact: AnswerArray = self._operator.astype(np.int64) @ cells.dense()
        return exact

    def row_squares(self) -> FloatArray:
        if self.matrix is None:
            return super().row_squares()
        return np.asarray(self.matrix.multiply(self.matrix).sum(axis=1), np.float64).reshape(-1)

    def row_blocks(self) -> Iterator[FloatArray]:
        if self.matrix is None:
            yield from super().row_blocks()
            return
        step = max(1, _ENTRIES_AT_ONCE // self.n_cells)
        for first in range(0, self.n_queries, step):
            yield self.matrix[first : first + step].toarray().T

    def arguments(self) -> str:
        rows, cells = self._shape
        return f"{rows}, {cells}, sha256='{self._sha256}'"

    def attachments(self) -> Mapping[str, bytes]:
        return {self._sha256: self._content()} if self.matrix is not None else {}

    def _content(self) -> bytes:
        places = (self.matrix.indptr.astype("<i8"), self.matrix.indices.astype("<i8"))
        return b"".join(part.tobytes() for part in (*places, self.matrix.data.astype("<f8")))


def _from_content(content: bytes, rows: int, cells: int) -> MatrixWorkload:
    """Read what `attachments` gave."""
    indptr = np.frombuffer(content, "<i8", rows + 1)
    entries = int(indptr[-1])
    # Kept as indptr, indices and data of compressed sparse rows, eight bytes a number.
    indices = np.frombuffer(content, "<i8", entries, 8 * (rows + 1))
    data = np.frombuffer(content, "<f8", entries, 8 * (rows + 1 + entries))
    return MatrixWorkload(sparse.csr_array((data, indices, indptr), shape=(rows, cells)))


def _as_sparse(matrix: Any) -> Any:
    given = matrix if sparse.issparse(matrix) else _as_array(matrix)
    if given.ndim != 2 or given.dtype.kind not in "biuf":
        raise DeclarationError(f"a workload is a real matrix of queries by cells, got {given.dtype} {given.shape}")
    canonical = sparse.csr_array(given).astype(np.float64)
    canonical.sum_duplicates()
    canonical.eliminate_zeros()
    if not np.isfinite(canonical.data).all():
        raise DeclarationError("the matrix of a workload holds NaN or an infinity; its entries are finite")
    largest = float(np.abs(canonical.data).max(initial=0.0))
    if largest and not 1.0 / _LARGEST <= largest <= _LARGEST:
        raise DeclarationError(
            f"the largest entry of a matrix lies from {1.0 / _LARGEST:g} to {_LARGEST:g}, got {largest:g}: "
            "scale the queries"
        )
    return canonical


def _as_array(matrix: Any) -> Any:
    try:
        return np.asarray(matrix)
    except ValueError as error:
        raise DeclarationError(f"a workload is a matrix of queries by cells: {error}") from None


def _is_integral(data: FloatArray) -> bool:
    return bool(np.all((data == np.rint(data)) & (np.abs(data) <= _LARGEST_INTEGER)))


def _fingerprint(operator: LinearOperator) -> tuple[bytes, bool]:
    """What the operator makes of fixed vectors, and whether in double precision; refused where that is not finite."""
    cells = np.arange(operator.shape[1], dtype=np.float64)
    probes = [np.ones_like(cells), np.cos(cells), np.cos(np.sqrt(2.0) * cells + 1.0)]
    if cells.size <= _WRITTEN_OUT:
        probes += list(np.eye(cells.size))
    applied = np.stack([np.asarray(operator @ probe, np.float64) for probe in probes])
    if applied.shape != (len(probes), operator.shape[0]) or not np.isfinite(applied).all():
        raise DeclarationError("the operator of a workload gave NaN, an infinity or another shape than it states")
    # Noise goes through the operator by itself, so what is not linear could swallow it.
    precise = True
    for weights in np.array([[1.0, -3.0, 5.0], [1e6, 3e6, -5e6]]):
        together = np.asarray(operator @ (weights @ np.stack(probes[:3])), np.float64)
        largest = np.abs(weights) @ np.abs(applied[:3])
        close = _NOT_LINEAR * largest + _ROUNDING * largest.max()
        if together.shape != largest.shape or not np.all(np.abs(together - weights @ applied[:3]) <= close):
            raise DeclarationError("the operator of a workload is not linear: of a sum it does not give the sum")
        precise &= bool(np.all(np.abs(together - weights @ applied[:3]) <= _DOUBLE * largest.max()))
    return applied.astype("<f4").tobytes(), precise
