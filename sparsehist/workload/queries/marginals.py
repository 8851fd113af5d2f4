"""Marginals of a domain with several columns: the counts of all combinations of values in some of the columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from sparsehist.errors import DeclarationError, shown
from sparsehist.typing import ArrayLike, FloatArray, IntArray
from sparsehist.workload.queries.cells import Cells
from sparsehist.workload.queries.workload import MOST_QUERIES, NO_KEYS, AnswerArray, KeyColumns, Workload

_MOST_MARGINALS = 100_000

Column = str | int
Subset = tuple[int, ...]
"""Column indices, ascending."""


class Marginals(Workload):
    """Marginals of a domain with several columns. The domain may have any size, because it is never enumerated.

    Queries are sorted by marginal. The queries of one marginal are the cells of its table, in row-major order.

    Args:
        columns: Sizes of the columns, such as (5, 12), or a list of marginals. Each marginal is a list of column
            names or indices; the empty list is the total. If None, the columns are those of the series.
        k: Take all marginals of exactly k columns. If `columns` are sizes, k may be a list of marginals.
        up_to: Take all marginals of at most `up_to` columns, including the total.

    Raises:
        DeclarationError: If there is no marginal, a marginal occurs twice, a column is unknown or occurs twice, or
            there are more than 100,000 marginals or 2**31 queries.

    Example:
        >>> pairs = Marginals((2, 3, 4), 2)
        >>> pairs.shape, pairs.marginals
        ((26, 24), ((0, 1), (0, 2), (1, 2)))
        >>> str(Marginals([["country"], ["country", "day"]]))
        "marginals([['country'], ['country', 'day']])"
    """

    word = "marginals"

    def __init__(
        self,
        columns: Sequence[Any] | None = None,
        k: int | Sequence[Sequence[Column]] | None = None,
        *,
        up_to: int | None = None,
    ) -> None:
        self._sizes: tuple[int, ...] | None = None
        listed = None
        if columns is not None and not isinstance(columns, list | tuple):
            raise _wrong(f"marginals() takes a list of column sizes or of marginals, got {shown(columns)}")
        if columns and not isinstance(columns[0], list | tuple | str):
            self._sizes = tuple(map(_read_size, columns))
        elif columns is not None:
            listed = _read_list(columns)
        if k is not None and not isinstance(k, int):
            if listed is not None:
                raise _wrong("marginals() got two lists of marginals; pass one list, or column sizes and a list")
            listed, k = _read_list(k), None
        if [k, up_to, listed].count(None) != 2:
            raise _wrong("give exactly one of k, up_to and a list of marginals")
        for value in (k, up_to):
            if value is not None and (type(value) is not int or value < 0):
                raise _wrong(f"k and up_to must be integers of at least 0, got {shown(value)}")
        self._k, self._up_to, self._listed = k, up_to, listed
        self._marginals = () if self._sizes is None else self._subsets(len(self._sizes))
        if self._sizes is not None and self.n_queries > MOST_QUERIES:
            raise DeclarationError(f"ask for fewer marginals: the limit is 2**31 queries, got {self.n_queries}")

    @property
    def columns(self) -> tuple[int, ...]:
        if self._sizes is None:
            raise DeclarationError("marginals() has no column sizes yet: use it with a series, or give the sizes")
        return self._sizes

    @property
    def marginals(self) -> tuple[Subset, ...]:
        """The column indices of each marginal, in ascending order."""
        return self._marginals if self.columns else ()

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of cells of each marginal."""
        return tuple(math.prod(self.columns[column] for column in subset) for subset in self.marginals)

    @property
    def n_queries(self) -> int:
        return sum(self.sizes)

    def apply(self, x: ArrayLike) -> FloatArray:
        values = self.columns_of(x, self.n_cells)
        behind = values.shape[1:]
        table = values.reshape(*self.columns, *behind)
        return np.concatenate([table.sum(axis=self._other(one)).reshape(-1, *behind) for one in self.marginals])

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
        """Split answers, shape (queries,) or (queries, m), into an array per marginal, with an axis per column."""
        pieces = zip(self.marginals, np.split(rows, np.cumsum(self.sizes)[:-1]), strict=True)
        return [piece.reshape((*(self.columns[i] for i in one), *rows.shape[1:])) for one, piece in pieces]

    def queries(self) -> Mapping[str, IntArray]:
        """Return arrays "column_i": the index of each query's value in column i, or -1 if it sums over column i."""
        described = np.full((len(self.columns), self.n_queries), -1, np.int64)
        start = 0
        for subset, size in zip(self.marginals, self.sizes, strict=True):
            for column, values in zip(subset, np.indices([self.columns[i] for i in subset]), strict=True):
                described[column, start : start + size] = values.reshape(-1)
            start += size
        return {f"column_{i}": numbers for i, numbers in enumerate(described)}

    def arguments(self) -> str:
        number = f"k={self._k}" if self._k is not None else f"up_to={self._up_to}"
        if self._listed is not None:
            number = f"{list(map(list, self._listed if self._sizes is None else self.marginals))!r}"
        return number if self._sizes is None else f"{self._sizes!r}, {number}"

    def for_domain(self, columns: tuple[int, ...], keys: KeyColumns = NO_KEYS) -> Workload:
        if self._sizes is not None:
            return super().for_domain(columns, keys)
        if self._listed is None:
            return Marginals(columns, self._k, up_to=self._up_to)
        return Marginals(columns, _numbers(self._listed, list(keys) or range(len(columns))))

    def _other(self, subset: Subset) -> tuple[int, ...]:
        return tuple(column for column in range(len(self.columns)) if column not in subset)

    def _subsets(self, number: int) -> tuple[Subset, ...]:
        if self._listed is not None:
            return _numbers(self._listed, range(number))
        longest = self._k if self._k is not None else self._up_to or 0
        if longest > number:
            raise DeclarationError(f"a marginal cannot have more columns than the domain: {longest} of {number}")
        lengths = range(longest + 1) if self._k is None else [longest]
        asked = sum(math.comb(number, length) for length in lengths)
        if asked > _MOST_MARGINALS:
            raise DeclarationError(f"ask for fewer marginals than {asked}: the limit is {_MOST_MARGINALS}")
        return tuple(subset for length in lengths for subset in combinations(range(number), length))


def _wrong(text: str) -> DeclarationError:
    return DeclarationError(
        f"{text}; write marginals(k=2), marginals(up_to=2) or marginals([['country'], ['country', 'day']])"
    )


def _read_size(item: object) -> int:
    if isinstance(item, bool) or not isinstance(item, int | np.integer) or item < 1:
        raise _wrong(f"the size of a column must be an integer of at least 1, got {shown(item)}")
    return int(item)


def _read_list(items: Any) -> list[tuple[Column, ...]]:
    if not isinstance(items, list | tuple):
        raise _wrong(f"the marginals must be a list, got {shown(items)}")
    if not items:
        raise _wrong("the list of marginals is empty; to ask for the total only, pass [[]]")
    for subset in items:
        if not isinstance(subset, list | tuple):
            raise _wrong("each marginal must be a list of columns")
        for column in subset:
            if isinstance(column, bool) or not isinstance(column, str | int):
                raise _wrong(f"a column of a marginal must be given by its name or its index, got {shown(column)}")
    return list(map(tuple, items))


def _numbers(subsets: Sequence[Sequence[Column]], names: Sequence[Column]) -> tuple[Subset, ...]:
    places = {name: at for at, name in enumerate(names)} | {at: at for at in range(len(names))}
    found: dict[Subset, None] = {}
    for subset in subsets:
        for column in subset:
            if column not in places:
                raise DeclarationError(f"the domain has no column {shown(column)}; its columns are {list(names)}")
        ascending = tuple(sorted({places[column] for column in subset}))
        if len(ascending) < len(subset) or ascending in found:
            raise DeclarationError(f"a marginal occurs twice, or contains a column twice, at index {len(found)}")
        found[ascending] = None
    return tuple(found)
