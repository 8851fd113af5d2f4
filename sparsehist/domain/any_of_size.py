"""A domain of which only the number of cells is known: enough to plan with, not to count with."""

# ruff: noqa: ARG002 - it is asked what every domain is asked, and refuses

from __future__ import annotations

from typing import NoReturn

import numpy as np
import polars as pl

from sparsehist.domain.base import Domain
from sparsehist.errors import DomainError
from sparsehist.typing import BoolArray


class AnyOfSize(Domain):
    """Some domain of so many cells, at least 1.

    Example:
        >>> AnyOfSize(10**69).size == 10**69
        True
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._require_writable_size()

    @property
    def size(self) -> int:
        return self._size

    @property
    def dtypes(self) -> tuple[pl.DataType, ...]:
        self._refuse()

    def accepts(self, column: int, dtype: pl.DataType) -> bool:
        self._refuse()

    def contains(self, keys: pl.DataFrame) -> BoolArray:
        self._refuse()

    def draw(self, n: int, *, rng: np.random.Generator) -> pl.DataFrame:
        self._refuse()

    def __str__(self) -> str:
        return f"{self._size} cells"

    def _refuse(self) -> NoReturn:
        raise DomainError("a number of cells is no domain: declare what the cells are, such as strings(max_bytes=32)")
