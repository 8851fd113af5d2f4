"""Triples of cells of a set: how they agree column by column, and what their numbers keep to.

An ordered triple (x, y, z) of cells of a set, not always different ones, has one of five *patterns* in each column:
all alike, x apart, y apart, z apart, or all apart, which takes three values. Let the set have l cells.

- Of the pairs x, y that differ in given columns, each is in l triples, and in one with z = x.
- For given x and y there are at most as many z of each pattern as there are such cells at all.
- *Squares* (Schrijver 2005, for codes). Let K be the projection of vectors over the n - 1 values other than that of x
  on those of sum 0: 1 - 1/(n - 1) for a value with itself, -1/(n - 1) for two. Take K in some columns, 0 where y or z
  is as x there, times a number v for the set of other columns in which y differs from x, times that for z. For each x
  this is a Gram matrix in y and z, so that its sum over triples is at least 0: a quadratic form in v, whose matrix is
  linear in the numbers of triples.

All columns are alike, so that the numbers are shared: their mean over exchanges of columns keeps to all of this.
Derived here.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import NamedTuple

import numpy as np

from sparsehist.typing import ArrayLike, BoolArray, FloatArray, IntArray

MOST_PATTERNS = 4**7
"""Of all columns: five of three values and more, seven of two."""

ALIKE, X, Y, Z, APART = range(5)

_BROKEN, _MOST_BROKEN, _LEAST = 1e-3, 6, 1e-6
"""Relative: eigenvalues below, so many of each matrix; and the least of its diagonal, to all triples."""


class _Squares(NamedTuple):
    """A matrix without negative eigenvalues that is linear in the numbers of triples.

    Attributes:
        patterns: Those that are added up in it; shape (terms,).
        rows, columns, weights: Where, and how often; each of shape (terms,).
        size: Of the matrix.
    """

    patterns: IntArray
    rows: IntArray
    columns: IntArray
    weights: FloatArray
    size: int


class Triples:
    """Patterns of all columns; those that differ by the order of cells and columns share one unknown.

    Args:
        size: Number of values of every column.
        n_columns: Number of columns.

    Attributes:
        digits: The pattern of each column; shape (patterns, columns).
        orbit: The number of the unknown that a pattern belongs to; shape (patterns,).
        apart: In how many columns y differs from x; shape (patterns,).
        size: Number of unknowns.
    """

    def __init__(self, size: int, n_columns: int) -> None:
        self._values = float(size)
        self.digits = np.indices((patterns_of(size),) * n_columns).reshape(n_columns, -1).T
        worth = (n_columns + 1) ** np.arange(5)  # the number of columns of each pattern as a digit
        keys = [worth[[ALIKE, *order, APART]][self.digits].sum(axis=1) for order in permutations((X, Y, Z))]
        _, orbit = np.unique(np.min(keys, axis=0), return_inverse=True)
        self.orbit: IntArray = orbit.reshape(-1)
        self.apart: IntArray = np.isin(self.digits, (X, Y, APART)).sum(axis=1)
        self._number = np.bincount(self.orbit).astype(np.float64)
        self.size = self._number.size
        self._squares = list(self._all_squares())

    def mean(self, feature: ArrayLike) -> FloatArray:
        """Of what triples of each pattern count, over the patterns of one unknown; shape (unknowns,)."""
        made: FloatArray = np.bincount(self.orbit, np.asarray(feature, np.float64), self.size) / self._number
        return made

    def are(self, column: int, *patterns: int) -> BoolArray:
        """Which patterns have one of these in a column; shape (patterns,)."""
        return np.isin(self.digits[:, column], patterns)

    def with_pairs(self) -> tuple[FloatArray, FloatArray]:
        """Triples with y and x apart in 0, 1, … columns, and those with z = x; shape (columns + 1, unknowns)."""
        back = np.isin(self.digits, (ALIKE, Y)).all(axis=1)
        kinds = [self.apart == number for number in range(self.digits.shape[1] + 1)]
        return np.array([self.mean(one) for one in kinds]), np.array([self.mean(one & back) for one in kinds])

    def at_most(self) -> tuple[FloatArray, IntArray, FloatArray]:
        """Triples of one unknown with y and x apart in so many columns.

        Returns:
            Their numbers, of shape (rows, unknowns), in how many columns, and how many there are for one pair for
            each set of so many columns at most; of shape (rows,).
        """
        options = np.array([1.0, 1.0, 1.0, self._values - 1.0, self._values - 2.0])[self.digits].prod(axis=1)
        kinds, kind = np.unique(self.orbit * len(self.orbit) + self.apart, return_inverse=True)
        kind = kind.reshape(-1)
        unknown, apart = np.divmod(kinds, len(self.orbit))
        rows = np.zeros((kinds.size, self.size))
        rows[np.arange(kinds.size), unknown] = np.bincount(kind) / self._number[unknown]
        return rows, apart, np.bincount(kind, options).astype(np.float64)

    def broken(self, numbers: FloatArray) -> list[FloatArray]:
        """Rows, at least 0 for every set, that these numbers of triples break; each of shape (unknowns,)."""
        rows = []
        each = (numbers / self._number)[self.orbit]
        for one in self._squares:
            matrix = np.zeros((one.size, one.size))
            np.add.at(matrix, (one.rows, one.columns), one.weights * each[one.patterns])
            scale = 1.0 / np.sqrt(np.maximum(np.diag(matrix), _LEAST * float(numbers.sum())))
            values, vectors = np.linalg.eigh(matrix * scale[:, np.newaxis] * scale)
            for vector in (vectors * scale[:, np.newaxis]).T[:_MOST_BROKEN][values[:_MOST_BROKEN] < -_BROKEN]:
                terms = one.weights * vector[one.rows] * vector[one.columns]
                row = np.bincount(self.orbit[one.patterns], terms, self.size) / self._number
                rows.append(row / np.abs(row).max())
        return rows

    def _all_squares(self) -> Iterator[_Squares]:
        """With K in none of the columns, in the first, in the first two and so on."""
        n_columns = self.digits.shape[1]
        for inside in range(n_columns + 1 if self._values > 2 else 1):
            patterns = np.flatnonzero(np.isin(self.digits[:, :inside], (X, APART)).all(axis=1))
            first, rest = self.digits[patterns, :inside], self.digits[patterns, inside:]
            apart = -1.0 / (self._values - 1.0)
            weights = np.where(first == APART, apart, 1.0 + apart).prod(axis=1)
            digits = 2 ** np.arange(n_columns - inside)
            of_y, of_z = np.isin(rest, (X, Y, APART)) @ digits, np.isin(rest, (X, Z, APART)) @ digits
            yield _Squares(patterns, of_y, of_z, weights, 2 ** (n_columns - inside))


def patterns_of(size: int) -> int:
    """How many patterns there are in a column of so many values."""
    return 5 if size > 2 else 4
