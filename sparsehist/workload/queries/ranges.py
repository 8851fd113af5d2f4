"""Workloads that sum ranges of cells of one column: single cells, the total, prefix sums and other ranges."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from sparsehist.errors import DeclarationError, shown
from sparsehist.typing import ArrayLike, FloatArray, IntArray, NDArray
from sparsehist.workload.queries.cells import Cells
from sparsehist.workload.queries.workload import NO_KEYS, AnswerArray, KeyColumns, Workload

_MOST_LISTED = 2**24  # largest length of a list of ranges; it is limited because releases store the list as text
LARGEST = 2**31
"""Largest number of cells of a column that is kept in memory as a vector."""

LARGEST_LISTED = 4096
"""Largest number of cells of a column whose ranges are all enumerated in memory."""


class RangeRows(Workload):
    """The base class of workloads in which each query sums the cells low, …, high of one column, both included.

    The column has n cells, where n is from 1 to 2**31. By default, n is the size of the domain of the series.
    """

    def __init__(self, n: int | None = None) -> None:
        if n is not None and (type(n) is bool or not isinstance(n, int | np.integer) or not 1 <= n <= LARGEST):
            raise DeclarationError(f"{self.word}(n) needs a number of cells n from 1 to 2**31, got {shown(n)}")
        self._n = None if n is None else int(n)

    @property
    def n(self) -> int:
        """Number of cells of the column."""
        if self._n is None:
            raise DeclarationError(f"{self.word}() has no size yet: use it with a series, or write {self.word}(n)")
        return self._n

    @property
    def columns(self) -> tuple[int, ...]:
        return (self.n,)

    @property
    def n_queries(self) -> int:
        return self.n

    def arguments(self) -> str:
        return "" if self._n is None else str(self._n)

    @abc.abstractmethod
    def bounds(self) -> tuple[IntArray, IntArray]:
        """Return the first and the last cell of every query; shape (queries,) each."""

    def queries(self) -> Mapping[str, IntArray] | None:
        low, high = self.bounds()
        return {"low": low, "high": high}

    def row_squares(self) -> FloatArray:
        low, high = self.bounds()
        return (high - low + 1).astype(np.float64)

    def apply(self, x: ArrayLike) -> FloatArray:
        return self._sums(self.columns_of(x, self.n))

    def answers(self, cells: Cells) -> AnswerArray:
        self.require_domain(cells.shape)
        return self._sums(cells.dense())

    def apply_transposed(self, y: ArrayLike) -> FloatArray:
        weights = self.columns_of(y, self.n_queries)
        low, high = self.bounds()
        steps = np.zeros((self.n + 1, *weights.shape[1:]))
        np.add.at(steps, low, weights)
        np.subtract.at(steps, high + 1, weights)
        return np.cumsum(steps[:-1], axis=0)

    def for_domain(self, columns: tuple[int, ...], keys: KeyColumns = NO_KEYS) -> Workload:
        if len(columns) != 1:
            raise DeclarationError(
                f"{self.word}() covers one column, but the domain has several: write a factor for each "
                f"column, such as kronecker({self.word}(), total())"
            )
        if self._n is not None:
            return super().for_domain(columns)
        if columns[0] > LARGEST:
            raise DeclarationError(
                f"{self.word}() works with up to 2**31 cells, but the domain has {Decimal(columns[0]):.3g}: use a "
                "smaller domain, such as dates or a catalogue, or ask for the total with marginals([[]])"
            )
        return self._of_size(columns[0], keys)

    def _of_size(self, n: int, keys: KeyColumns) -> Workload:  # noqa: ARG002  for ranges of keys
        return type(self)(n)

    def _sums(self, x: NDArray[np.generic]) -> AnswerArray:
        low, high = self.bounds()
        sums = np.concatenate([np.zeros_like(x[:1]), np.cumsum(x, axis=0)])
        answers: AnswerArray = sums[high + 1] - sums[low]
        return answers


class Identity(RangeRows):
    """The counts of all cells: A is the identity matrix.

    Example:
        >>> Identity(3).apply([1, 2, 4])
        array([1., 2., 4.])
    """

    word = "identity"

    def bounds(self) -> tuple[IntArray, IntArray]:
        cells = np.arange(self.n, dtype=np.int64)
        return cells, cells

    def apply_transposed(self, y: ArrayLike) -> FloatArray:
        return self.columns_of(y, self.n).copy()

    def _sums(self, x: NDArray[np.generic]) -> AnswerArray:
        return x.copy()


class Total(RangeRows):
    """The sum of the counts of all cells.

    Example:
        >>> Total(3).apply([1, 2, 4])
        array([7.])
    """

    word = "total"

    @property
    def n_queries(self) -> int:
        return 1

    def bounds(self) -> tuple[IntArray, IntArray]:
        return np.zeros(1, np.int64), np.full(1, self.n - 1, np.int64)


class Prefix(RangeRows):
    """Prefix sums, that is, the sums of the first 1, 2, …, n cells. Query i sums the cells 0, …, i.

    Example:
        >>> Prefix(3).apply([1, 2, 4])
        array([1., 3., 7.])
    """

    word = "prefix"

    def bounds(self) -> tuple[IntArray, IntArray]:
        cells = np.arange(self.n, dtype=np.int64)
        return np.zeros_like(cells), cells

    def apply_transposed(self, y: ArrayLike) -> FloatArray:
        return np.cumsum(self.columns_of(y, self.n)[::-1], axis=0)[::-1]

    def _sums(self, x: NDArray[np.generic]) -> AnswerArray:
        return np.cumsum(x, axis=0)


class Ranges(RangeRows):
    """Sums over ranges of cells: all n(n+1)/2 ranges, answered on demand, or a list of ranges.

    Args:
        n: Number of cells, or None to take it from the domain of the series. If n is a list, it is used as `ranges`.
        ranges: Pairs (low, high) of cell numbers, both included, with 0 <= low <= high < n. Pairs may repeat. If
            None, all ranges.
        keys: Pairs (low, high) of keys instead of cell numbers; `low` may not come after `high` in the domain. Keys
            are integers, strings or dates; dates may be written as strings. A release replaces keys by cell numbers.

    Raises:
        DeclarationError: If n is not an integer from 1 to 2**31, or a pair is not a range of its cells.

    Example:
        >>> Ranges(4, ranges=[(0, 1), (1, 3)]).apply([1, 2, 4, 8])
        array([ 3., 14.])
        >>> str(Ranges(keys=[("2024-01-01", "2024-01-31")]))
        "ranges(keys=[('2024-01-01', '2024-01-31')])"
        >>> Ranges(10**7).shape, Ranges(10**7).explicit
        ((50000005000000, 10000000), False)
    """

    word = "ranges"

    def __init__(
        self,
        n: int | Sequence[tuple[int, int]] | NDArray[np.integer] | None = None,
        ranges: Sequence[tuple[int, int]] | ArrayLike | None = None,
        *,
        keys: Sequence[tuple[Any, Any]] | None = None,
    ) -> None:
        if isinstance(n, list | tuple | np.ndarray) and ranges is None:
            n, ranges = None, n
        if keys is not None and not (n is None and ranges is None):
            raise DeclarationError("ranges(keys=[…]) takes no other argument: its size comes from the series")
        super().__init__(n)  # type: ignore[arg-type]
        self.keys = None if keys is None else _as_key_pairs(keys)
        self._pairs = None if ranges is None else _as_pairs(ranges, self._n)
        self.explicit = self._pairs is not None or self.keys is not None

    @property
    def n_queries(self) -> int:
        if self.keys is not None:
            return len(self.keys)
        return self.n * (self.n + 1) // 2 if self._pairs is None else len(self._pairs)

    def bounds(self) -> tuple[IntArray, IntArray]:
        if self._pairs is not None:
            return self._pairs[:, 0], self._pairs[:, 1]
        if self.n > LARGEST_LISTED:
            raise DeclarationError(
                f"give a list of ranges: all ranges can be enumerated only up to {LARGEST_LISTED} cells, got {self.n}"
            )
        low, high = np.triu_indices(self.n)
        return low.astype(np.int64), high.astype(np.int64)

    def queries(self) -> Mapping[str, IntArray] | None:
        return super().queries() if self.explicit else None

    def arguments(self) -> str:
        if self.keys is not None:
            return f"keys={list(self.keys)}"
        if self._pairs is None:
            return super().arguments()
        size = "" if self._n is None else f"{self._n}, "
        return f"{size}{[tuple(pair) for pair in self._pairs.tolist()]}"

    def _of_size(self, n: int, keys: KeyColumns) -> Workload:
        if self.keys is None:
            return Ranges(n, self._pairs)
        if not keys:
            raise DeclarationError(f"ranges of keys need a series; give cell numbers instead of {self.describe()}")
        (numbers,) = keys.values()
        ends = numbers([end for pair in self.keys for end in pair]).reshape(-1, 2)
        backwards = np.flatnonzero(ends[:, 0] > ends[:, 1])
        if backwards.size:
            raise DeclarationError(f"a range ends before it begins in the order of keys: {self.keys[backwards[0]]}")
        return Ranges(n, ends)


def _as_key_pairs(keys: object) -> tuple[tuple[int | str, int | str], ...]:
    pairs = keys if isinstance(keys, list | tuple) else []
    if not pairs or not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
        raise DeclarationError("keys must be pairs (low, high), such as keys=[('2024-01-01', '2024-01-31')]")
    ends = [end.isoformat() if hasattr(end, "isoformat") else end for pair in pairs for end in pair]
    for end in ends:
        if isinstance(end, bool) or not isinstance(end, str | int | np.integer):
            raise DeclarationError(f"ends of a range of keys must be integers, strings or dates, got {shown(end)}")
    read = [end if isinstance(end, str) else int(end) for end in ends]
    return tuple(zip(read[::2], read[1::2], strict=True))


def _as_pairs(ranges: Sequence[tuple[int, int]] | ArrayLike, n: int | None) -> IntArray:
    given = np.asarray(ranges)
    if given.size == 0:
        raise DeclarationError("the list of ranges is empty; give at least one range")
    if given.ndim != 2 or given.shape[1] != 2 or given.dtype.kind not in "iu":
        raise DeclarationError(
            "ranges must be pairs of integers (low, high), such as ranges=[(0, 9), (10, 99)]; for dates or other "
            "keys of a series, write keys=[('2026-03-02', '2026-03-08')]"
        )
    if len(given) > _MOST_LISTED:
        raise DeclarationError(f"the list has too many ranges: {len(given)}, limit {_MOST_LISTED}")
    pairs = given.astype(np.int64)
    wrong = (pairs[:, 0] < 0) | (pairs[:, 0] > pairs[:, 1]) | (pairs[:, 1] >= (LARGEST if n is None else n))
    if wrong.any():
        low, high = pairs[wrong][0].tolist()
        within = "0 <= low <= high" if n is None else f"0 <= low <= high < {n}"
        raise DeclarationError(f"a range of cells must satisfy {within}, got ({low}, {high})")
    return pairs
