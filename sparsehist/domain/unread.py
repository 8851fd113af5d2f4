"""Domains whose keys are not known: a catalogue without its file, or a bare number of cells."""

# ruff: noqa: ARG002 - it is asked what every domain is asked, and refuses

from __future__ import annotations

from typing import NoReturn

import numpy as np
import polars as pl

from sparsehist.domain.base import Domain
from sparsehist.errors import DomainError
from sparsehist.typing import BoolArray


class UnreadDomain(Domain):
    """The text of a domain without its keys: enough to show, to compare and to plan with, not to count with.

    Args:
        text: How the domain is written.
        columns: Number of key columns.
        size: Number of cells, if it is known.

    Example:
        >>> str(UnreadDomain("catalogue(sha256='ab')")), UnreadDomain("10**69 cells", size=10**69).size == 10**69
        ("catalogue(sha256='ab')", True)
    """

    def __init__(self, text: str, columns: int = 1, *, size: int | None = None) -> None:
        self._text, self._columns, self._size = text, columns, size

    @property
    def columns(self) -> int:
        return self._columns

    @property
    def size(self) -> int:
        return self._refuse() if self._size is None else self._size

    @property
    def dtypes(self) -> tuple[pl.DataType, ...]:
        self._refuse()

    def accepts(self, column: int, dtype: pl.DataType) -> bool:
        self._refuse()

    def contains(self, keys: pl.DataFrame) -> BoolArray:
        self._refuse()

    def draw(self, n: int, *, rng: np.random.Generator) -> pl.DataFrame:
        self._refuse()

    def describe_size(self) -> str:
        return "keys of a file" if self._size is None else super().describe_size()

    def __str__(self) -> str:
        return self._text

    def _refuse(self) -> NoReturn:
        raise DomainError(f"the keys of {self._text} are not at hand: pass domain= with its keys", parameter="domain")
