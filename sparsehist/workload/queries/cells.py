"""Provide `Cells`, the nonzero counts of a domain with one or more key columns."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sparsehist.errors import DeclarationError
from sparsehist.typing import IntArray

_LARGEST_DENSE = 2**31


@dataclass(frozen=True, repr=False, eq=False, slots=True)
class Cells:
    """The nonempty cells of a domain and their counts, which are secret. A cell is stored as one index per column.

    Args:
        shape: Number of values of each column; integers of any size.
        coordinates: For each column, the index (from 0) of each cell's value; int64. No cell occurs twice.
        counts: Number of units in each cell; int64, one entry per cell.

    Raises:
        DeclarationError: If the arrays differ in length.

    Example:
        >>> import numpy as np
        >>> cells = Cells((4,), (np.array([1, 3]),), np.array([5, 2]))
        >>> cells.dense()
        array([0, 5, 0, 2])
        >>> cells
        Cells(shape=(4,))
    """

    shape: tuple[int, ...]
    coordinates: tuple[IntArray, ...]
    counts: IntArray

    def __post_init__(self) -> None:
        lengths = {np.shape(array) for array in (*self.coordinates, self.counts)}
        if not self.shape or len(self.coordinates) != len(self.shape) or lengths != {(len(self.counts),)}:
            raise DeclarationError("give one array of coordinates per column and one of counts, all of equal length")

    def __repr__(self) -> str:
        return f"Cells(shape={self.shape})"

    @property
    def size(self) -> int:
        """Number of cells of the domain, including empty ones."""
        return math.prod(self.shape)

    def dense(self) -> IntArray:
        """Return the counts of all cells as int64, one axis per column. Raise an error for more than 2**31 cells."""
        if self.size > _LARGEST_DENSE:
            raise DeclarationError(f"a dense array may have at most 2**31 cells, but the domain has {self.size}")
        return self.marginal(range(len(self.shape)))

    def marginal(self, columns: range | tuple[int, ...]) -> IntArray:
        """Return the marginal over `columns`: a secret table of exact counts with one axis for each column."""
        number = np.zeros(len(self.counts), np.int64)
        for column in columns:
            number *= self.shape[column]
            number += self.coordinates[column]
        table = np.zeros([self.shape[column] for column in columns], np.int64)
        np.add.at(table.reshape(-1), number, self.counts)
        return table
