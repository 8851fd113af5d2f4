"""Domains that are ranges of integers or of calendar days."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING

import numpy as np

from sparsehist.domain.base import Domain
from sparsehist.errors import DomainError, shown
from sparsehist.typing import BoolArray, IntArray, whole_number

if TYPE_CHECKING:
    import polars as pl

_INT64 = (-(2**63), 2**63 - 1)
_UINT64 = (0, 2**64 - 1)

_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True, init=False, repr=False)
class Integers(Domain, example="integers(1000) or integers(5, 10)"):
    """The integers from 0 to n − 1, or from low to high. Both ends are included.

    Keys have the dtype Int64, or UInt64 if the range exceeds Int64.

    Args:
        first: The number n of integers; or, if `high` is given, the first integer low.
        high: The last integer of the range.

    Raises:
        DomainError: If the range is empty or does not fit 64 bits.

    Example:
        >>> Integers(1000).size, Integers(-5, 10).size, str(Integers(0, 999))
        (1000, 16, 'integers(1000)')
    """

    low: int
    high: int

    def __init__(self, first: int, high: int | None = None) -> None:
        for bound in (first,) if high is None else (first, high):
            if isinstance(bound, bool | np.bool_) or not isinstance(bound, int | np.integer):
                raise DomainError(f"integers() takes integers, got {shown(bound)}; for example integers(5, 10)")
        low, last = (0, int(first) - 1) if high is None else (int(first), int(high))
        if last < low:
            got = f"integers({shown(first)})" if high is None else f"integers({shown(low)}, {shown(last)})"
            raise DomainError(f"{got} contains no integers: pass either n >= 1, or low and high with low <= high")
        if not (_INT64[0] <= low and last <= _INT64[1]) and not (_UINT64[0] <= low and last <= _UINT64[1]):
            raise DomainError(f"integers must fit in 64 bits, got the range from {shown(low)} to {shown(last)}")
        self._fix(low=low, high=last)

    @property
    def size(self) -> int:
        return self.high - self.low + 1

    @property
    def dtype_names(self) -> tuple[str, ...]:
        return ("Int64" if self.high <= _INT64[1] else "UInt64",)

    def contains(self, keys: pl.DataFrame) -> BoolArray:
        values = keys["key_0"].to_numpy()
        return np.asarray((values >= self.low) & (values <= self.high), dtype=np.bool_)

    def draw(self, n: int, *, rng: np.random.Generator) -> pl.DataFrame:
        import polars as pl

        kind = np.dtype(self.dtype_names[0].lower())
        drawn = rng.integers(self.low, self.high, size=whole_number("n", n), dtype=kind, endpoint=True)
        return pl.DataFrame({"key_0": drawn})

    def _index(self, keys: pl.DataFrame) -> IntArray:
        values = keys["key_0"].to_numpy()
        return np.asarray((values - values.dtype.type(self.low)).astype(np.int64))

    def _keys(self, indices: IntArray) -> pl.DataFrame:
        import polars as pl

        kind = np.dtype(self.dtype_names[0].lower())
        return pl.DataFrame({"key_0": indices.astype(kind) + kind.type(self.low)})

    def __str__(self) -> str:
        return f"integers({self.size})" if self.low == 0 else f"integers({self.low}, {self.high})"


@dataclass(frozen=True, init=False, repr=False)
class Dates(Domain, example="dates('2014-05-01', '2014-05-12')"):
    """The days from start to end, both included.

    Args:
        start: First day, a date or a string such as '2014-05-01'.
        end: Last day.

    Raises:
        DomainError: If a bound is not a date or the range is empty.

    Example:
        >>> Dates("2014-05-01", "2014-05-12").size
        12
    """

    dtype_names = ("Date",)
    start: date
    end: date

    def __init__(self, start: date | str, end: date | str) -> None:
        first, last = read_date(start), read_date(end)
        if last < first:
            raise DomainError(f"the first day must not be after the last in dates('{first}', '{last}')")
        self._fix(start=first, end=last)

    @property
    def size(self) -> int:
        return (self.end - self.start).days + 1

    def contains(self, keys: pl.DataFrame) -> BoolArray:
        return np.asarray(keys["key_0"].is_between(self.start, self.end).to_numpy(), dtype=np.bool_)

    def _index(self, keys: pl.DataFrame) -> IntArray:
        days = keys["key_0"].to_physical().to_numpy().astype(np.int64)
        return np.asarray(days - (self.start - _EPOCH).days)

    def _keys(self, indices: IntArray) -> pl.DataFrame:
        import polars as pl

        days = (indices + (self.start - _EPOCH).days).astype(np.int32)
        return pl.DataFrame({"key_0": pl.Series(days).cast(pl.Date)})

    def __str__(self) -> str:
        return f"dates('{self.start}', '{self.end}')"


def read_date(value: date | str) -> date:
    """Return a date, given as a `date` or a string. Refuse a datetime, because its time of day would be lost."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    if isinstance(value, str) and len(value) == len("2014-05-01"):
        try:
            return date.fromisoformat(value)
        except ValueError:
            pass
    raise DomainError(f"{shown(value)} is not a date; write dates as '2014-05-01'")
