"""Workloads on one column whose queries are ranges of cells: identity, total, prefix sums and ranges."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from sparsehist.errors import DeclarationError, shown
from sparsehist.typing import ArrayLike, FloatArray, IntArray, NDArray
from sparsehist.workload.queries.cells import Cells
from sparsehist.workload.queries.workload import AnswerArray, KeyNumbers, Workload

# The text of a list is kept with every release of it.
_MOST_LISTED = 2**24
LARGEST = 2**31
"""A column of more cells is not held in memory as a vector."""

LARGEST_LISTED = 4096
"""All ranges of more cells than this are never listed."""


class RangeRows(Workload):
    """Queries that each count the units of a run of cells low, …, high of one column, both ends included.

    The column has n cells, from 1 to 2**31; without n it takes them from the domain of the series.
    """

    def __init__(self, n: int | None = None) -> None:
        self._n = None if n is None else _as_size(n, self.word)

    @property
    def n(self) -> int:
        """Number of cells."""
        if self._n is None:
            raise DeclarationError(f"{self.word}() takes its size from a series; write {self.word}(n) without one")
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
        """First and last cell of every query; shape (queries,) each."""

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

    def for_domain(self, columns: tuple[int, ...]) -> Workload:
        if self._n is None and len(columns) == 1:
            if columns[0] > LARGEST:
                raise DeclarationError(
                    f"{self.word}() serves up to 2**31 cells, the domain has {Decimal(columns[0]):.3g}: declare a "
                    "series over integers, dates or a catalogue; the sum over any domain is marginals([[]])"
                )
            return type(self)(columns[0])
        if len(columns) != 1:
            others = ", total()" * (len(columns) - 1)
            raise DeclarationError(
                f"{self.word}() asks about one column, and the domain has {len(columns)}: write a factor for each "
                f"column, such as kronecker({self.word}(){others})"
            )
        self.require_domain(columns)
        return self

    def _sums(self, x: NDArray[np.generic]) -> AnswerArray:
        low, high = self.bounds()
        sums = np.concatenate([np.zeros_like(x[:1]), np.cumsum(x, axis=0)])
        answers: AnswerArray = sums[high + 1] - sums[low]
        return answers


class Identity(RangeRows):
    """Every cell by itself.

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
    """The sum of all cells.

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
    """The sums of the first 1, 2, …, n cells: row i is the range 0, …, i.

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
    """All n(n+1)/2 ranges of cells, answered on demand; or a list of some of them, answered one by one.

    Args:
        n: Number of cells, or None to take it from the domain of the series; a list in its place is `ranges`.
        ranges: Pairs (low, high) of numbers of cells in the order of the domain, both ends included, 0 <= low <=
            high < n; repeats allowed. None: all ranges.
        keys: Instead: pairs of keys of the series, both ends included, in the order of its domain: integers, text,
            or dates, as such or as text. A release puts the numbers of their cells in their place.

    Raises:
        DeclarationError: If n is not an integer from 1 to 2**31, or a range is not one of its cells.

    Example:
        >>> Ranges(4, ranges=[(0, 1), (1, 3)]).apply([1, 2, 4, 8])
        array([ 3., 14.])
        >>> str(Ranges([(0, 1), (1, 3)]))
        'ranges([(0, 1), (1, 3)])'
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
            raise DeclarationError("ranges(keys=[…]) takes nothing else: size and cells are those of the series")
        self.keys = None if keys is None else _as_key_pairs(keys)
        super().__init__(None if n is None else _as_size(n, self.word))
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
                f"the {self.n_queries} ranges of {self.n} cells are not listed; ask for one of them"
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

    def for_domain(self, columns: tuple[int, ...]) -> Workload:
        filled = super().for_domain(columns)
        if self.keys is not None:
            raise DeclarationError(f"{self.describe()} names keys, which a domain of sizes {columns} does not")
        return Ranges(filled.columns[0], self._pairs) if filled is not self else self

    def of_series(self, names: Sequence[str], numbers: Sequence[KeyNumbers]) -> Workload:
        if self.keys is None or len(names) != 1:
            return self  # of several columns, `for_domain` says what to write
        ends = numbers[0]([end for pair in self.keys for end in pair]).reshape(-1, 2)
        backwards = np.flatnonzero(ends[:, 0] > ends[:, 1])
        if backwards.size:
            raise DeclarationError(f"{self.keys[backwards[0]]} ends before it begins, in the order of the domain")
        return Ranges(ranges=ends)


def _as_size(n: object, word: str) -> int:
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or not 1 <= n <= LARGEST:
        raise DeclarationError(f"{word}(n): n is a number of cells from 1 to 2**31, got {shown(n)}")
    return int(n)


def _as_key_pairs(keys: object) -> tuple[tuple[int | str, int | str], ...]:
    """Read ranges of keys, pairs of integers, texts or dates; dates become text."""
    pairs = keys if isinstance(keys, list | tuple) else []
    if not pairs or not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
        raise DeclarationError("keys are pairs (low, high), such as keys=[('2024-01-01', '2024-01-31')]")
    ends = [end.isoformat() if hasattr(end, "isoformat") else end for pair in pairs for end in pair]
    for end in ends:
        if isinstance(end, bool) or not isinstance(end, str | int | np.integer):
            raise DeclarationError(f"the end of a range of keys is an integer, text or a date, got {shown(end)}")
    read = [end if isinstance(end, str) else int(end) for end in ends]
    return tuple(zip(read[::2], read[1::2], strict=True))


def _as_pairs(ranges: Sequence[tuple[int, int]] | ArrayLike, n: int | None) -> IntArray:
    """Read ranges of n cells, both ends included; shape (queries, 2)."""
    given = np.asarray(ranges)
    if given.size == 0:
        raise DeclarationError("ranges=[] asks nothing; a workload has at least one query")
    if given.ndim != 2 or given.shape[1] != 2 or given.dtype.kind not in "iu":
        raise DeclarationError("ranges are pairs of integers (low, high), such as ranges=[(0, 9), (10, 99)]")
    if len(given) > _MOST_LISTED:
        raise DeclarationError(f"a list has at most {_MOST_LISTED} ranges")
    pairs = given.astype(np.int64)
    wrong = (pairs[:, 0] < 0) | (pairs[:, 0] > pairs[:, 1]) | (pairs[:, 1] >= (LARGEST if n is None else n))
    if wrong.any():
        low, high = pairs[wrong][0].tolist()
        within = "0 <= low <= high" if n is None else f"0 <= low <= high < n, and n is {n}"
        raise DeclarationError(f"({low}, {high}) is not a range: {within}")
    return pairs
