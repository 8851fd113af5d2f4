"""Marginals: the counts of all combinations of values of some columns of a product domain."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from sparsehist.errors import DeclarationError, shown
from sparsehist.typing import ArrayLike, FloatArray, IntArray
from sparsehist.workload.queries.cells import Cells
from sparsehist.workload.queries.workload import AnswerArray, KeyNumbers, Workload

_MOST_MARGINALS = 100_000
_MOST_QUERIES = 2**31
_EXAMPLES = "write marginals(k=2), marginals(up_to=2) or marginals([['country'], ['country', 'day']])"

Column = str | int
Subset = tuple[int, ...]
"""Column numbers, ascending."""


class Marginals(Workload):
    """Marginals of a domain that is a product of columns; never written out, so the domain may have any size.

    Rows stand marginal by marginal, each row-major over its columns in the order of the domain.

    Args:
        columns: The sizes of the columns, (5, 12) or ``{"country": 5, "day": 12}``; or the columns asked about, by
            name, of a series to come; or a list of marginals, each a list of columns by name or number, the empty one
            the total. None for all columns of the series.
        k: All marginals of exactly so many columns; or a list of marginals, where the first argument has the sizes.
        up_to: All marginals of at most so many columns, the total among them.

    Raises:
        DeclarationError: If there is no marginal, one of them occurs twice, a column is unknown or occurs twice, or
            there are more than 100,000 marginals or 2**31 queries.

    Example:
        >>> pairs = Marginals((2, 3, 4), 2)
        >>> pairs.shape, pairs.marginals
        ((26, 24), ((0, 1), (0, 2), (1, 2)))
        >>> str(Marginals([["country"], ["country", "day"]]))
        "marginals([['country'], ['country', 'day']])"
    """

    word = "marginals"
    integral = True

    def __init__(
        self,
        columns: Mapping[str, int] | Sequence[Any] | None = None,
        k: int | Sequence[Sequence[Column]] | None = None,
        *,
        up_to: int | None = None,
    ) -> None:
        sizes, names, among, listed = _read_columns(columns)
        if k is not None and not isinstance(k, int):
            if listed is not None or among is not None:
                raise DeclarationError(f"only sizes of columns stand before a list of marginals; {_EXAMPLES}")
            listed, k = _read_list(k), None
        if sum(given is not None for given in (k, up_to, listed)) != 1:
            raise DeclarationError(f"marginals are a list or have a number of columns, k or up_to; {_EXAMPLES}")
        for value in (k, up_to):
            if value is not None and (type(value) is not int or value < 0):
                raise DeclarationError(f"a marginal has 0 columns or more, got {shown(value)}; {_EXAMPLES}")
        self._k, self._up_to, self._among, self._listed = k, up_to, among, listed
        self._names = names
        self._sizes = sizes
        self._marginals: tuple[Subset, ...] | None = None
        if sizes is not None:
            self._marginals = self._resolved(sizes)

    @property
    def columns(self) -> tuple[int, ...]:
        if self._sizes is None:
            raise self._open()
        return self._sizes

    @property
    def marginals(self) -> tuple[Subset, ...]:
        """Column numbers of each marginal, ascending."""
        if self._marginals is None:
            raise self._open()
        return self._marginals

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of cells of each marginal."""
        return tuple(math.prod(self.columns[column] for column in subset) for subset in self.marginals)

    @property
    def n_queries(self) -> int:
        return sum(self.sizes)

    def apply(self, x: ArrayLike) -> FloatArray:
        values = self.columns_of(x, self.n_cells)
        table = values.reshape(*self.columns, *values.shape[1:])
        sums = [table.sum(axis=self._other(subset)).reshape(-1, *values.shape[1:]) for subset in self.marginals]
        return np.concatenate(sums)

    def apply_transposed(self, y: ArrayLike) -> FloatArray:
        weights = self.columns_of(y, self.n_queries)
        total = np.zeros((*self.columns, *weights.shape[1:]))
        for subset, piece in zip(self.marginals, self.split(weights), strict=True):
            total += np.expand_dims(piece, self._other(subset))
        return total.reshape(-1, *weights.shape[1:])

    def answers(self, cells: Cells) -> AnswerArray:
        self.require_domain(cells.shape)
        return np.concatenate([cells.marginal(subset).reshape(-1) for subset in self.marginals])

    def row_squares(self) -> FloatArray:
        return np.repeat([self.n_cells / size for size in self.sizes], self.sizes)

    def split(self, rows: FloatArray) -> list[FloatArray]:
        """Cut one number per query, shape (queries,) or (queries, m), into marginals with one axis per column."""
        pieces = np.split(rows, np.cumsum(self.sizes)[:-1])
        return [
            piece.reshape((*(self.columns[column] for column in subset), *rows.shape[1:]))
            for subset, piece in zip(self.marginals, pieces, strict=True)
        ]

    def queries(self) -> Mapping[str, IntArray]:
        """Say which query each row is: "column_i" is the number of its value in column i, -1 where that is summed."""
        described = {f"column_{i}": np.full(self.n_queries, -1, np.int64) for i in range(len(self.columns))}
        start = 0
        for subset, size in zip(self.marginals, self.sizes, strict=True):
            lengths = [self.columns[column] for column in subset]
            for column, values in zip(subset, np.indices(lengths), strict=True):
                described[f"column_{column}"][start : start + size] = values.reshape(-1)
            start += size
        return described

    def arguments(self) -> str:
        first = self._sizes if self._sizes is not None else self._among
        if self._listed is not None:
            chosen = [list(subset) for subset in (self._listed if self._sizes is None else self.marginals)]
            return f"{chosen!r}" if first is None else f"{first!r}, {chosen!r}"
        number = f"k={self._k}" if self._k is not None else f"up_to={self._up_to}"
        return number if first is None else f"{first!r}, {number}"

    def of_series(self, names: Sequence[str], numbers: Sequence[KeyNumbers]) -> Workload:  # noqa: ARG002  has no keys
        if self._sizes is not None or (self._among is None and self._listed is None):
            return self
        if self._among is not None:
            (among,) = _numbers([self._among], names)
            return Marginals([list(subset) for subset in self._all_of(among)])
        return Marginals([list(subset) for subset in _numbers(self._listed or (), names)])

    def for_domain(self, columns: tuple[int, ...]) -> Workload:
        if self._sizes is not None:
            self.require_domain(columns)
            return self
        if self._among is not None:
            raise DeclarationError(f"{self.describe()} names columns, which a domain of sizes {columns} does not")
        if self._listed is not None:
            return Marginals(columns, self._listed)
        return Marginals(columns, self._k, up_to=self._up_to)

    def _open(self) -> DeclarationError:
        return DeclarationError(f"{self.describe()} takes its columns from a series; say their sizes to do without")

    def _other(self, subset: Subset) -> tuple[int, ...]:
        return tuple(column for column in range(len(self.columns)) if column not in subset)

    def _all_of(self, columns: Sequence[int]) -> list[Subset]:
        """All marginals of k, or at most up_to, of some columns; refuses those that are too many to be asked."""
        longest = self._k if self._k is not None else self._up_to or 0
        if longest > len(columns):
            raise DeclarationError(f"of {len(columns)} columns there is no marginal of {longest}")
        lengths = range(longest + 1) if self._k is None else [longest]
        number = sum(math.comb(len(columns), length) for length in lengths)
        if number > _MOST_MARGINALS:
            raise DeclarationError(f"{number} marginals are too many; at most {_MOST_MARGINALS} can be asked")
        return [subset for length in lengths for subset in combinations(columns, length)]

    def _resolved(self, sizes: tuple[int, ...]) -> tuple[Subset, ...]:
        """Column numbers of all marginals; refuses those whose queries are too many to be listed."""
        if self._listed is not None:
            subsets = _numbers(self._listed, self._names or len(sizes))
        else:
            subsets = self._all_of(range(len(sizes)))
        queries = sum(math.prod(sizes[column] for column in subset) for subset in subsets)
        if queries > _MOST_QUERIES:
            raise DeclarationError(f"{queries} queries are too many to be listed; ask for fewer or smaller marginals")
        return tuple(subsets)


def _read_columns(
    columns: Mapping[str, int] | Sequence[Any] | None,
) -> tuple[tuple[int, ...] | None, tuple[str, ...] | None, tuple[str, ...] | None, list[tuple[Column, ...]] | None]:
    """Tell sizes with or without names, names, and lists of marginals apart: (sizes, names, among, listed)."""
    if columns is None:
        return None, None, None, None
    if isinstance(columns, Mapping):
        return _read_sizes(list(columns.values())), tuple(map(str, columns)), None, None
    if isinstance(columns, str | bytes) or not isinstance(columns, Sequence | np.ndarray):
        raise DeclarationError(f"columns of marginals are a list, got {shown(columns)}; {_EXAMPLES}")
    items = list(columns)
    if not items:
        raise DeclarationError(f"an empty list names no marginal, not even the total, which is [[]]; {_EXAMPLES}")
    if all(isinstance(item, str) for item in items):
        if len(set(items)) < len(items):
            raise DeclarationError(f"a column of {items} occurs twice")
        return None, None, tuple(items), None
    if all(isinstance(item, int | np.integer) and not isinstance(item, bool) for item in items):
        return _read_sizes(items), None, None, None
    return None, None, None, _read_list(items)


def _read_sizes(items: Sequence[object]) -> tuple[int, ...]:
    sizes = []
    for item in items:
        if isinstance(item, bool) or not isinstance(item, int | np.integer) or item < 1:
            raise DeclarationError(f"a column has one value or more, got a size of {shown(item)}; {_EXAMPLES}")
        sizes.append(int(item))
    if not sizes:
        raise DeclarationError(f"marginals need at least one column; {_EXAMPLES}")
    return tuple(sizes)


def _read_list(items: Sequence[Any]) -> list[tuple[Column, ...]]:
    if not len(items):
        raise DeclarationError(f"an empty list names no marginal, not even the total, which is [[]]; {_EXAMPLES}")
    read = []
    for item in items:
        if isinstance(item, str) or not isinstance(item, Sequence):
            raise DeclarationError(f"a marginal is a list of columns, got {shown(item)}; {_EXAMPLES}")
        for column in item:
            if isinstance(column, bool) or not isinstance(column, str | int):
                raise DeclarationError(f"a marginal names columns or numbers them, got {shown(column)}; {_EXAMPLES}")
        read.append(tuple(item))
    return read


def _numbers(subsets: Sequence[Sequence[Column]], names: Sequence[str] | int) -> list[Subset]:
    """Turn columns into their numbers, ascending; names are theirs, or how many there are."""
    number = names if isinstance(names, int) else len(names)
    known = {} if isinstance(names, int) else {name: place for place, name in enumerate(names)}
    seen: dict[Subset, None] = {}
    for subset in subsets:
        found = []
        for column in subset:
            place = known.get(column) if isinstance(column, str) else column
            if place is None or not 0 <= place < number:
                there = f"columns 0 to {number - 1}" if isinstance(names, int) else f"columns {list(names)}"
                raise DeclarationError(f"there is no column {shown(column)}; the domain has {there}")
            found.append(place)
        ascending = tuple(sorted(found))
        if len(set(found)) < len(found):
            raise DeclarationError(f"a column occurs twice in the marginal {list(subset)}")
        if ascending in seen:
            raise DeclarationError(f"the marginal {list(subset)} occurs twice")
        seen[ascending] = None
    return list(seen)
