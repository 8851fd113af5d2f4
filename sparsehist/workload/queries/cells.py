"""The bounded counts of a series as what a workload asks for: the nonzero cells of a product of columns."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sparsehist.errors import DeclarationError
from sparsehist.typing import IntArray

_LARGEST_DENSE = 2**31


@dataclass(frozen=True, repr=False, eq=False, slots=True)
class Cells:
    """Nonzero cells of a domain that is a product of columns, each numbered from 0. Secret; prints its shape only.

    Args:
        shape: Number of values of each column: (n,) or (n1, n2, …); Python integers, the product of any size.
        coordinates: For each column the number of the value in each cell; shape (k,), int64 each. No cell occurs
            twice.
        counts: Number of units in each cell; shape (k,), int64.

    Raises:
        DeclarationError: If shapes do not fit together.

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
        """Refuse arrays that do not fit together."""
        lengths = {np.shape(array) for array in (*self.coordinates, self.counts)}
        if not self.shape or len(self.coordinates) != len(self.shape) or lengths != {(len(self.counts),)}:
            raise DeclarationError(
                f"cells of {len(self.shape)} columns need one array of coordinates per column and one of counts, "
                "all one-dimensional and of one length"
            )

    def __repr__(self) -> str:
        """Counts and their number are secret."""
        return f"Cells(shape={self.shape})"

    @property
    def size(self) -> int:
        """Number of cells of the domain, empty ones included."""
        return math.prod(self.shape)

    def flat(self) -> IntArray:
        """Number the nonzero cells in row-major order; shape (k,). For domains below 2**63 cells."""
        if self.size >= 2**63:
            raise DeclarationError(f"only domains below 2**63 cells number them, these columns span {self.size}")
        number = np.zeros(len(self.counts), np.int64)
        for length, coordinate in zip(self.shape, self.coordinates, strict=True):
            number = number * length + coordinate
        return number

    def dense(self) -> IntArray:
        """Write all cells out, the empty ones too; int64 of this shape. Refused for more than 2**31 cells."""
        if self.size > _LARGEST_DENSE:
            raise DeclarationError(f"a domain of {self.size} cells is not written out; at most 2**31 are")
        counts = np.zeros(self.size, np.int64)
        counts[self.flat()] = self.counts
        return counts.reshape(self.shape)
