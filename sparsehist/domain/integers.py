"""Ranges of integers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sparsehist.domain.base import Domain
from sparsehist.domain.literal import show
from sparsehist.errors import DomainError

_INT64 = (-(2**63), 2**63 - 1)
_UINT64 = (0, 2**64 - 1)

_WITHIN_INT64 = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32)
_WITHIN_UINT64 = (pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64)


def accepts_integers(dtype: pl.DataType, canonical: pl.DataType) -> bool:
    """Say whether every value of an integer dtype fits the canonical one, Int64 or UInt64."""
    return any(dtype == fitting for fitting in (_WITHIN_INT64 if canonical == pl.Int64 else _WITHIN_UINT64))


@dataclass(frozen=True, init=False, repr=False)
class Integers(Domain):
    """The integers 0 … n−1, or those from low to high inclusive.

    Keys are Int64, or UInt64 where the range goes beyond it.

    Args:
        first: n, the number of integers; or low, when `high` is given.
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
                raise DomainError(
                    f"integers() takes integers, got {show(bound)}; for example integers(1000) or integers(5, 10)"
                )
        low, last = (0, int(first) - 1) if high is None else (int(first), int(high))
        if last < low:
            got = f"integers({show(first)})" if high is None else f"integers({show(low)}, {show(last)})"
            raise DomainError(f"{got} holds no integer; give n of at least 1, or low and high with low <= high")
        if not (_INT64[0] <= low and last <= _INT64[1]) and not (_UINT64[0] <= low and last <= _UINT64[1]):
            raise DomainError(
                f"integers from {show(low)} to {show(last)} do not fit 64 bits; "
                f"the bounds must lie within {_INT64[0]} … {_INT64[1]} or within 0 … {_UINT64[1]}"
            )
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", last)

    @property
    def size(self) -> int:
        return self.high - self.low + 1

    @property
    def dtypes(self) -> tuple[pl.DataType, ...]:
        return (pl.Int64() if self.high <= _INT64[1] else pl.UInt64(),)

    def accepts(self, column: int, dtype: pl.DataType) -> bool:
        return column == 0 and accepts_integers(dtype, self.dtypes[0])

    def contains(self, keys: pl.DataFrame) -> NDArray[np.bool_]:
        values = keys["key_0"].to_numpy()
        return np.asarray((values >= self.low) & (values <= self.high), dtype=np.bool_)

    def draw(self, n: int, *, rng: np.random.Generator) -> pl.DataFrame:
        signed = self.dtypes[0] == pl.Int64
        drawn = rng.integers(self.low, self.high, size=n, dtype=np.int64 if signed else np.uint64, endpoint=True)
        return pl.DataFrame({"key_0": drawn})

    def _index(self, keys: pl.DataFrame) -> NDArray[np.int64]:
        values = keys["key_0"].to_numpy()
        return np.asarray((values - values.dtype.type(self.low)).astype(np.int64))

    def _keys(self, indices: NDArray[np.int64]) -> pl.DataFrame:
        kind = np.int64 if self.dtypes[0] == pl.Int64 else np.uint64
        return pl.DataFrame({"key_0": indices.astype(kind) + kind(self.low)})

    def __str__(self) -> str:
        return f"integers({self.size})" if self.low == 0 else f"integers({self.low}, {self.high})"
