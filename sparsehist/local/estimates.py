"""Estimated numbers of people: columns of one length, as attributes and by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields

from sparsehist.typing import AnyArray, FloatArray, IntArray


class _Columns(Mapping[str, AnyArray]):
    """Names to columns, so that a frame is one call away: pl.DataFrame(dict(estimates))."""

    def __getitem__(self, name: str) -> AnyArray:
        if name not in tuple(self):
            raise KeyError(name)
        column: AnyArray = getattr(self, name)
        return column

    def __iter__(self) -> Iterator[str]:
        return (field.name for field in fields(self))  # type: ignore[arg-type]

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass(frozen=True, eq=False)
class Frequencies(_Columns):
    """How many gave each answer; all columns have shape (k,).

    Attributes:
        category: 0 … k-1.
        estimate: In people; unbiased, so it may be negative.
        std: Standard deviation of the estimate, in people.
    """

    category: IntArray
    estimate: FloatArray
    std: FloatArray


@dataclass(frozen=True, eq=False)
class Decoded(_Columns):
    """How many have each candidate value; all columns have the length of the candidates.

    Attributes:
        candidate: As given.
        estimate: In people; may be negative.
        std: Standard deviation of the estimate, in people.
    """

    candidate: AnyArray
    estimate: FloatArray
    std: FloatArray
