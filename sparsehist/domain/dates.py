"""Ranges of calendar days."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sparsehist.domain.base import Domain, draw_below
from sparsehist.domain.literal import show
from sparsehist.errors import DomainError

_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True, init=False, repr=False)
class Dates(Domain):
    """The days from start to end, both included.

    Args:
        start: First day, a date or text such as '2014-05-01'.
        end: Last day.

    Raises:
        DomainError: If a bound is no date or the range is empty.

    Example:
        >>> Dates("2014-05-01", "2014-05-12").size
        12
    """

    start: date
    end: date

    def __init__(self, start: date | str, end: date | str) -> None:
        first, last = read_date(start), read_date(end)
        if last < first:
            raise DomainError(f"dates('{first}', '{last}') holds no day; the first must not come after the last")
        object.__setattr__(self, "start", first)
        object.__setattr__(self, "end", last)

    @property
    def size(self) -> int:
        return (self.end - self.start).days + 1

    @property
    def dtypes(self) -> tuple[pl.DataType, ...]:
        return (pl.Date(),)

    def accepts(self, column: int, dtype: pl.DataType) -> bool:
        return column == 0 and dtype == pl.Date

    def contains(self, keys: pl.DataFrame) -> NDArray[np.bool_]:
        return np.asarray(keys["key_0"].is_between(self.start, self.end).to_numpy(), dtype=np.bool_)

    def draw(self, n: int, *, rng: np.random.Generator) -> pl.DataFrame:
        return self._keys(draw_below(self.size, n, rng=rng))

    def _index(self, keys: pl.DataFrame) -> NDArray[np.int64]:
        days = keys["key_0"].to_physical().to_numpy().astype(np.int64)
        return np.asarray(days - (self.start - _EPOCH).days)

    def _keys(self, indices: NDArray[np.int64]) -> pl.DataFrame:
        days = (indices + (self.start - _EPOCH).days).astype(np.int32)
        return pl.DataFrame({"key_0": pl.Series(days).cast(pl.Date)})

    def __str__(self) -> str:
        return f"dates('{self.start}', '{self.end}')"


def read_date(value: date | str) -> date:
    """Read a day; a moment of a day is refused, since it would lose its time."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    if isinstance(value, str) and len(value) == len("2014-05-01"):
        try:
            return date.fromisoformat(value)
        except ValueError:
            pass
    raise DomainError(f"{show(value)} is not a date; write it as '2014-05-01'")
