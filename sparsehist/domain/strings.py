"""All strings up to a length: valid UTF-8, or over an alphabet."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from numbers import Integral
from typing import Literal

import numpy as np
import polars as pl

from sparsehist.domain.alphabet import (
    NAMED,
    NO_CHARACTER,
    characters_by_width,
    code_points,
    only_of,
    points_of,
    read_alphabet,
    text_of,
    widths,
)
from sparsehist.domain.base import Domain, draw_below, holds_text
from sparsehist.domain.string_counts import GREATEST_COST, StringCounts, string_counts
from sparsehist.errors import DomainError
from sparsehist.text_form import show, write_call, write_literal
from sparsehist.typing import BoolArray, IntArray

LONGEST = 4096
"""Greatest bound on the length: the table of counts takes memory with its square (8 MB here)."""

_CHUNK_CHARACTERS = 2**22


@dataclass(frozen=True, init=False, repr=False)
class Strings(Domain, example="strings(max_bytes=32)"):
    """All strings of 1 to N bytes or characters. The empty string is never a cell.

    Args:
        max_bytes: Greatest length in UTF-8 bytes.
        max_chars: Instead: greatest length in characters (Unicode scalar values).
        alphabet: Characters that may occur, or one of "ascii", "printable_ascii", "lowercase", "uppercase",
            "letters", "digits", "alphanumeric". All Unicode scalar values by default, so all valid UTF-8.

    Raises:
        DomainError: If the bound is not from 1 to 4096 or too small for any character, the
            alphabet is wrong, or there are more than 10**4000 cells (all Unicode: up to 125 bytes or 44 characters).

    Example:
        >>> f"{Strings(max_bytes=32).size:.3g}", Strings(max_chars=2, alphabet="digits").size
        ('1.17e+69', 110)
    """

    max_bytes: int | None
    max_chars: int | None
    alphabet: str | None

    def __init__(
        self, *, max_bytes: int | None = None, max_chars: int | None = None, alphabet: str | None = None
    ) -> None:
        if (max_bytes is None) == (max_chars is None):
            raise DomainError("strings() needs either max_bytes or max_chars; for example strings(max_bytes=32)")
        name, bound = ("max_bytes", max_bytes) if max_chars is None else ("max_chars", max_chars)
        if isinstance(bound, bool) or not isinstance(bound, Integral) or not 1 <= bound <= LONGEST:
            raise DomainError(f"strings(): {name} must be an integer from 1 to {LONGEST}, got {show(bound)}")
        limits = {"max_bytes": None, "max_chars": None, name: int(bound)}
        self._fix(**limits, alphabet=None if alphabet is None else read_alphabet(alphabet))
        if self.size == 0:
            least = int(self._costs.min())
            raise DomainError(
                f"strings(max_bytes={bound}): each character of the alphabet takes {least} bytes or more"
            )
        self._require_writable_size()

    @property
    def size(self) -> int:
        return self._counts.size

    @property
    def dtypes(self) -> tuple[pl.DataType, ...]:
        return (pl.String(),)

    def accepts(self, column: int, dtype: pl.DataType) -> bool:
        return column == 0 and holds_text(dtype)

    def contains(self, keys: pl.DataFrame) -> BoolArray:
        column = keys["key_0"]
        length = column.str.len_chars() if self.max_bytes is None else column.str.len_bytes()
        inside = np.array(length.is_between(1, self._bound).to_numpy(), dtype=np.bool_)
        if self.alphabet is not None:
            inside &= column.str.contains(only_of(self.alphabet)).to_numpy()
        return inside

    def draw(self, n: int, *, rng: np.random.Generator) -> pl.DataFrame:
        rows = max(1, _CHUNK_CHARACTERS // self._bound)
        parts = [self._draw_text(min(rows, n - first), rng=rng) for first in range(0, n, rows)]
        return pl.concat(parts or [pl.Series("key_0", [], dtype=pl.String)]).to_frame()

    def __str__(self) -> str:
        named = {"max_bytes": self.max_bytes} if self.max_chars is None else {"max_chars": self.max_chars}
        texts = {name: str(bound) for name, bound in named.items()}
        if self.alphabet is not None:
            name = next((name for name in NAMED if read_alphabet(name) == self.alphabet), None)
            texts["alphabet"] = write_literal(name or self.alphabet)
        return write_call("strings", [], texts)

    def _draw_text(self, n: int, *, rng: np.random.Generator) -> pl.Series:
        """Draw lengths, then for each string its characters from the first to the last, all in one sweep.

        With r still to come the next character costs c with probability a_c·W(r − c)/W(r), exactly.
        """
        counts, points = self._counts, code_points(self.alphabet)
        lengths = counts.length_choice.draw(n, rng=rng)
        matrix = np.full((n, self._bound), NO_CHARACTER, dtype=np.int32)
        remaining = lengths.copy()
        for to_come in range(self._bound, 0, -1):
            active = np.flatnonzero(remaining == to_come)
            if not active.size:
                continue
            costs = counts.cost_choice(to_come).draw(active.size, rng=rng)
            for cost in range(1, GREATEST_COST + 1):
                rows = active[costs == cost]
                if rows.size:
                    chosen = draw_below(counts.characters[cost], rows.size, rng=rng)
                    matrix[rows, lengths[rows] - to_come] = points[counts.first_character[cost] + chosen]
            remaining[active] -= costs
        return text_of(matrix)

    def _index(self, keys: pl.DataFrame) -> IntArray:
        counts = self._counts
        points, bounds = points_of(keys["key_0"])
        ranks = np.searchsorted(code_points(self.alphabet), points)
        costs = self._costs[ranks]
        total = np.concatenate([[0], np.cumsum(costs)])
        remaining = total[bounds[1:]] - total[bounds[:-1]]
        numbers: IntArray = counts.first_number[remaining]
        characters = np.diff(bounds)
        for place in range(int(characters.max(initial=0))):
            active = np.flatnonzero(characters > place)
            at = bounds[active] + place
            cost, to_come = costs[at], remaining[active]
            rank = ranks[at] - np.asarray(counts.first_character)[cost]
            numbers[active] += counts.before[to_come, cost] + rank * counts.counts[to_come - cost]
            remaining[active] -= cost
        return numbers

    def _keys(self, indices: IntArray) -> pl.DataFrame:
        rows = max(1, _CHUNK_CHARACTERS // self._bound)
        parts = [self._text_at(indices[first : first + rows]) for first in range(0, indices.size, rows)]
        return pl.concat(parts or [pl.Series("key_0", [], dtype=pl.String)]).to_frame()

    def _text_at(self, indices: IntArray) -> pl.Series:
        counts, points = self._counts, code_points(self.alphabet)
        remaining = np.searchsorted(counts.first_number[1:], indices, side="right")
        rest = indices - counts.first_number[remaining]
        matrix = np.full((indices.size, self._bound), NO_CHARACTER, dtype=np.int32)
        for place in range(self._bound):
            active = np.flatnonzero(remaining > 0)
            if not active.size:
                break
            to_come = remaining[active]
            cost = (rest[active, None] >= counts.before[to_come, 1:]).sum(axis=1)
            within = rest[active] - counts.before[to_come, cost]
            rank, rest[active] = np.divmod(within, counts.counts[to_come - cost])
            matrix[active, place] = points[np.asarray(counts.first_character)[cost] + rank]
            remaining[active] -= cost
        return text_of(matrix)

    @property
    def _bound(self) -> int:
        return int(self.max_bytes or self.max_chars or 0)

    @property
    def _unit(self) -> Literal["bytes", "chars"]:
        return "bytes" if self.max_chars is None else "chars"

    @property
    def _costs(self) -> IntArray:
        return _costs(self.alphabet, self._unit)

    @property
    def _counts(self) -> StringCounts:
        return string_counts(_characters_by_cost(self.alphabet, self._unit), self._bound)


@lru_cache(maxsize=16)
def _costs(alphabet: str | None, unit: Literal["bytes", "chars"]) -> IntArray:
    """Cost of each character of the alphabet."""
    points = code_points(alphabet)
    return widths(points) if unit == "bytes" else np.ones(points.size, dtype=np.int64)


@lru_cache(maxsize=64)
def _characters_by_cost(alphabet: str | None, unit: Literal["bytes", "chars"]) -> tuple[int, ...]:
    numbers = characters_by_width(alphabet)
    return numbers if unit == "bytes" else (0, sum(numbers), *[0] * (GREATEST_COST - 1))
