"""A domain known by its text alone, such as a catalogue whose file is not at hand."""

# ruff: noqa: ARG002 - it is asked what every domain is asked, and refuses

from __future__ import annotations

from typing import NoReturn

import numpy as np
import polars as pl

from sparsehist.domain.base import Domain
from sparsehist.errors import DomainError
from sparsehist.typing import BoolArray


class UnreadDomain(Domain):
    """The text of a domain without its keys: enough to show and to compare, not to count with.

    Example:
        >>> str(UnreadDomain("catalogue(sha256='ab')", 1))
        "catalogue(sha256='ab')"
    """

    def __init__(self, text: str, columns: int) -> None:
        self._text, self._columns = text, columns

    @property
    def is_open(self) -> bool:
        return False

    @property
    def columns(self) -> int:
        return self._columns

    @property
    def size(self) -> int:
        self._refuse()

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
        return "keys of a file"

    def __str__(self) -> str:
        return self._text

    def _refuse(self) -> NoReturn:
        raise DomainError(f"the keys of {self._text} are not at hand: pass domain= with its file", parameter="domain")
