"""The `Strings` domain: all strings up to a given length, with any characters or with those of an alphabet.

If `max_bytes` is given, a character's length is its number of UTF-8 bytes, otherwise 1. Let a_c be the number of
characters of length c, and W(r) the number of strings of length r. Then W(0) = 1 and W(r) = Σ_c a_c·W(r − c). Strings
are numbered from 0, by length and then code points. To draw a string, draw its number, which can exceed 64 bits.
"""

from __future__ import annotations

import string
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from numbers import Integral
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sparsehist.domain.base import Domain
from sparsehist.errors import DomainError, shown
from sparsehist.text_form import write_call, write_literal
from sparsehist.typing import BoolArray, IntArray, whole_number

if TYPE_CHECKING:
    import polars as pl

LONGEST = 4096
"""Largest value of `max_bytes` and `max_chars`."""

_FIRST_SURROGATE, _SURROGATES = 0xD800, 0x800
"""The first surrogate code point, and the number of surrogates. Surrogates are not characters."""

_NAMED = {
    "ascii": "".join(map(chr, range(128))),
    "printable_ascii": "".join(map(chr, range(32, 127))),
    "lowercase": string.ascii_lowercase,
    "uppercase": string.ascii_uppercase,
    "letters": string.ascii_letters,
    "digits": string.digits,
    "alphanumeric": string.ascii_letters + string.digits,
}
"""Dict from name to alphabet. Each name repeats a letter, so it is not a valid alphabet itself."""

_UNICODE_BY_WIDTH = (0, 0x80, 0x800 - 0x80, 0x10000 - 0x800 - 0x800, 0x110000 - 0x10000)
"""Numbers of Unicode scalar values with 0, 1, 2, 3 and 4 UTF-8 bytes; surrogates are not counted."""


@dataclass(frozen=True, init=False, repr=False)
class Strings(Domain, example="strings(max_bytes=32)"):
    """All strings of 1 to `max_bytes` bytes, or of 1 to `max_chars` characters. The empty string is not a cell.

    Args:
        max_bytes: Largest length in UTF-8 bytes.
        max_chars: Largest length in characters (Unicode scalar values), instead of `max_bytes`.
        alphabet: The allowed characters, or one of "ascii", "printable_ascii", "lowercase", "uppercase", "letters",
            "digits", "alphanumeric". By default, all characters that UTF-8 can encode are allowed.

    Raises:
        DomainError: If the bound is not from 1 to 4096 or too small for any character, the
            alphabet is wrong, or there are more than 10**4000 cells (all Unicode: 1851 bytes or 661 characters).

    Example:
        >>> f"{Strings(max_bytes=32).size:.3g}", Strings(max_chars=2, alphabet="digits").size
        ('1.17e+69', 110)
    """

    dtype_names = ("String",)
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
            raise DomainError(f"strings(): {name} must be an integer from 1 to {LONGEST}, got {shown(bound)}")
        limits = {"max_bytes": None, "max_chars": None, name: int(bound)}
        self._fix(**limits, alphabet=None if alphabet is None else _read_alphabet(alphabet))
        if self.size == 0:
            least = self._table.groups[0].cost
            raise DomainError(f"max_bytes is too small: the characters of the alphabet take {least} bytes or more")
        self._require_writable_size()

    @property
    def size(self) -> int:
        return self._table.starts[-1]

    def contains(self, keys: pl.DataFrame) -> BoolArray:
        column = keys["key_0"]
        length = column.str.len_chars() if self.max_bytes is None else column.str.len_bytes()
        inside = np.array(length.is_between(1, self.max_bytes or self.max_chars).to_numpy(), dtype=np.bool_)
        if self.alphabet is not None:
            inside &= column.str.contains(only_of(self.alphabet)).to_numpy()
        return inside

    def draw(self, n: int, *, rng: np.random.Generator) -> pl.DataFrame:
        return self._texts(_numbers_below(self.size, whole_number("n", n), rng=rng))

    def __str__(self) -> str:
        named = {"max_bytes": self.max_bytes} if self.max_chars is None else {"max_chars": self.max_chars}
        texts = {name: str(bound) for name, bound in named.items()}
        if self.alphabet is not None:
            name = next((name for name in _NAMED if _read_alphabet(name) == self.alphabet), None)
            texts["alphabet"] = write_literal(name or self.alphabet)
        return write_call("strings", [], texts)

    def _index(self, keys: pl.DataFrame) -> IntArray:
        return np.array([self._number(text) for text in keys["key_0"].to_list()], dtype=np.int64)

    def _keys(self, indices: IntArray) -> pl.DataFrame:
        return self._texts(indices.tolist())

    def _texts(self, numbers: Iterable[int]) -> pl.DataFrame:
        import polars as pl

        return pl.DataFrame({"key_0": pl.Series([self._text(number) for number in numbers], dtype=pl.String)})

    def _text(self, number: int) -> str:
        groups, of_length, starts = self._table
        length = bisect_right(starts, number)
        rest, letters = number - starts[length - 1], []
        while length:
            for group in groups:
                block = group.size * of_length[length - group.cost]
                if rest < block:
                    break
                rest -= block
            length -= group.cost
            rank, rest = divmod(rest, of_length[length])
            letters.append(self._character(group.first + rank))
        return "".join(letters)

    def _number(self, text: str) -> int:
        groups, of_length, starts = self._table
        ranks = [self._rank(letter) for letter in text]
        spelled = [next(group for group in groups if rank < group.first + group.size) for rank in ranks]
        length = sum(group.cost for group in spelled)
        number = starts[length - 1]
        for rank, group in zip(ranks, spelled, strict=True):
            number += sum(size * of_length[length - cost] for cost, size, _ in groups if cost < group.cost)
            length -= group.cost
            number += (rank - group.first) * of_length[length]
        return number

    def _character(self, rank: int) -> str:
        if self.alphabet is not None:
            return self.alphabet[rank]
        return chr(rank if rank < _FIRST_SURROGATE else rank + _SURROGATES)

    def _rank(self, character: str) -> int:
        if self.alphabet is not None:
            return bisect_left(self.alphabet, character)
        point = ord(character)
        return point if point < _FIRST_SURROGATE else point - _SURROGATES

    @property
    def _table(self) -> _Table:
        return _counted(self.alphabet, self.max_bytes, self.max_chars)


class _Group(NamedTuple):
    """The characters of an alphabet that have the same length, in bytes or (with `max_chars`) in characters."""

    cost: int  # the length of each of these characters
    size: int  # the number of these characters
    first: int  # the number of shorter characters in the alphabet


class _Table(NamedTuple):
    """Tables to number strings: groups of characters and, for each r, how many strings have length r, or up to r."""

    groups: list[_Group]
    of_length: list[int]
    starts: list[int]


@lru_cache(maxsize=64)
def _counted(alphabet: str | None, max_bytes: int | None, max_chars: int | None) -> _Table:
    by_cost = _UNICODE_BY_WIDTH
    if alphabet is not None:
        found = Counter(len(character.encode()) for character in alphabet)
        by_cost = (0, found[1], found[2], found[3], found[4])
    if max_bytes is None:
        by_cost = (0, sum(by_cost), 0, 0, 0)
    firsts = accumulate(by_cost, initial=0)
    groups = [
        _Group(cost, size, first) for (cost, size), first in zip(enumerate(by_cost), firsts, strict=False) if size
    ]
    of_length = [1]
    for length in range(1, (max_bytes or max_chars or 0) + 1):
        of_length.append(sum(size * of_length[length - cost] for cost, size, _ in groups if cost <= length))
    return _Table(groups, of_length, list(accumulate(of_length[1:], initial=0)))


def _numbers_below(size: int, n: int, *, rng: np.random.Generator) -> list[int]:
    """Draw n exactly uniform integers from 0 to size − 1 by rejection sampling from random bits."""
    bits = (size - 1).bit_length()
    width = -(-bits // 8) or 1
    found: list[int] = []
    while (missing := n - len(found)) > 0:
        data = rng.bytes(width * (2 * missing + 8))
        drawn = (int.from_bytes(data[at : at + width]) >> (8 * width - bits) for at in range(0, len(data), width))
        found += [number for number in drawn if number < size][:missing]
    return found


def _read_alphabet(text: str) -> str:
    """Return the sorted characters of an alphabet, given as its name or as a string of characters."""
    if not isinstance(text, str) or not text:
        raise DomainError(f"an alphabet must be a name or a string with at least one character, got {shown(text)}")
    if text in _NAMED:
        return "".join(sorted(_NAMED[text]))
    for character, number in Counter(text).items():
        if number > 1:
            names = ", ".join(_NAMED)
            raise DomainError(f"alphabet= must be distinct characters or one of {names}; got {character!r} twice")
        if "\ud800" <= character <= "\udfff":
            raise DomainError(f"alphabet= must be valid text, without the lone surrogate {character!r}")
    return "".join(sorted(text))


def only_of(alphabet: str) -> str:
    r"""Return a regular expression for strings of only these characters, such as \A[\x{30}-\x{39}]*\z for digits."""
    points = np.array(list(map(ord, alphabet)))
    runs = np.split(points, np.flatnonzero(np.diff(points) > 1) + 1)
    ranges = "".join(rf"\x{{{run[0]:x}}}-\x{{{run[-1]:x}}}" for run in runs)
    return rf"\A[{ranges}]*\z"
