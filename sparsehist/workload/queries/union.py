"""Several workloads on one domain, asked together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from sparsehist.errors import DeclarationError
from sparsehist.typing import ArrayLike, FloatArray, IntArray
from sparsehist.workload.queries.cells import Cells
from sparsehist.workload.queries.linear_queries import AnswerArray, Composite, KeyNumbers, Workload
from sparsehist.workload.queries.rows_of_ranges import RangeRows


class Union(Composite):
    """The queries of several workloads, one after the other.

    Args:
        *parts: Workloads on the same columns, each a list of queries; sizes left open are taken from the others.

    Raises:
        DeclarationError: If there are none, if columns differ, or if a part cannot be listed.

    Example:
        >>> Union(Workload.parse("total(2)"), Workload.parse("identity(2)")).apply([3, 4])
        array([7., 3., 4.])
    """

    word = "union"

    def __init__(self, *parts: Workload) -> None:
        super().__init__(*parts)
        for part in parts:
            if not part.explicit:
                raise DeclarationError(f"{part.describe()} is not a list of queries and cannot be part of a union")
        sizes = {part.columns for part in parts if not part.is_open}
        if len(sizes) > 1:
            raise DeclarationError(f"the parts of a union ask about one domain, got columns of sizes {sorted(sizes)}")
        if sizes:
            (columns,) = sizes
            self.parts = tuple(part.for_domain(columns) for part in parts)

    @property
    def columns(self) -> tuple[int, ...]:
        return self.parts[0].columns

    @property
    def n_queries(self) -> int:
        return sum(part.n_queries for part in self.parts)

    def apply(self, x: ArrayLike) -> FloatArray:
        return np.concatenate([part.apply(x) for part in self.parts])

    def apply_transposed(self, y: ArrayLike) -> FloatArray:
        weights = self.columns_of(y, self.n_queries)
        ends = np.cumsum([part.n_queries for part in self.parts])[:-1]
        pieces = np.split(weights, ends)
        first, *rest = (part.apply_transposed(piece) for part, piece in zip(self.parts, pieces, strict=True))
        return sum(rest, start=first)

    def answers(self, cells: Cells) -> AnswerArray:
        return np.concatenate([part.answers(cells) for part in self.parts])

    def row_squares(self) -> FloatArray:
        return np.concatenate([part.row_squares() for part in self.parts])

    def row_blocks(self) -> Iterator[FloatArray]:
        for part in self.parts:
            yield from part.row_blocks()

    def queries(self) -> Mapping[str, IntArray]:
        """Ranges where all parts are; else the number of the part and of the query in it."""
        if all(isinstance(part, RangeRows) for part in self.parts):
            described = [part.queries() or {} for part in self.parts]
            return {name: np.concatenate([one[name] for one in described]) for name in ("low", "high")}
        sizes = [part.n_queries for part in self.parts]
        return {
            "part": np.repeat(np.arange(len(sizes), dtype=np.int64), sizes),
            "query": np.concatenate([np.arange(size, dtype=np.int64) for size in sizes]),
        }

    def of_series(self, names: Sequence[str], numbers: Sequence[KeyNumbers]) -> Workload:
        return Union(*(part.of_series(names, numbers) for part in self.parts))

    def for_domain(self, columns: tuple[int, ...]) -> Workload:
        return Union(*(part.for_domain(columns) for part in self.parts))
