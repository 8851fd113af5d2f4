"""Draw exactly from mixtures of geometric laws on the integers, and flip coins of exact real probabilities.

A geometric variable G with P[G >= k] = e^(-rate k) is made of independent parts: for any width D = 2**shift,
G = D * high + low with high geometric of rate D * rate and low geometric of the old rate given low < D. A slow
rate therefore costs one table for the high part and one for every nine bits of the low part, however large the
noise. A table ends where little is left, in a cell for all that lies beyond: there the law starts anew (it has
no memory), so a draw that falls in that cell adds a fresh draw, and no tail is cut off.

Source: our own derivation from the independence of the binary digits of a geometric variable.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

import numpy as np

from sparsehist.errors import present
from sparsehist.noise import exact_table
from sparsehist.noise.exact_table import ONE, UNSETTLED, CellArray, Enclosure, ExponentialDecay, Reading, Real, Table
from sparsehist.typing import BoolArray, Generator, IntArray, NDArray

CHUNK = 1 << 15
"""Draws made at once, so that intermediate arrays stay in the processor's cache."""


@dataclass(frozen=True)
class Extent:
    """How far tables reach; other than the default only in tests.

    Attributes:
        slowest: Rate from which a geometric law is one table; below, it is split into high and low parts.
        reach: Tables end where e^-reach of the law is left: a draw in 60,000 goes beyond.
        digit_bits: Most bits of a low part in one table.
    """

    slowest: Fraction = Fraction(1, 128)
    reach: int = 11
    digit_bits: int = 9


EXTENT = Extent()

# A law so slow that cells of this width do not help is told apart only below 2**62; above, the value is 2**62.
_MOST_SHIFT = 62


@dataclass(frozen=True)
class Branch:
    """With probability `weight` the value is start + step * G, with G geometric of that rate (0 if None).

    For rates below 2**-69 a G of 2**62 or more is given as 2**62: it serves comparisons only.
    """

    weight: Real
    start: int
    step: int = 1
    rate: Fraction | None = None


@dataclass(frozen=True)
class _Steps:
    """Cells of one branch: the first `count` values of a geometric variable, then (unless that is all) the rest."""

    weight: Real
    rate: Fraction
    count: int
    ends_here: bool = False

    def cumulative(self, bits: int) -> list[Enclosure]:
        # Written out in integers, as the methods of an enclosure would do it: this loop is what a new level costs.
        weight, decay = self.weight.enclose(bits), ExponentialDecay(self.rate).enclose(bits)
        one = low = high = 1 << bits
        ends = []
        for _ in range(self.count - self.ends_here):
            low, high = (low * decay.low) >> bits, -((-high * decay.high) >> bits)
            ends.append(Enclosure((weight.low * (one - high)) >> bits, -((weight.high * (low - one)) >> bits), bits))
        return ends if self.ends_here else [*ends, weight]


@dataclass(frozen=True)
class _Mixture:
    """Cells of several branches, one after the other."""

    parts: tuple[_Steps, ...]

    def cumulative(self, bits: int) -> list[Enclosure]:
        base, ends = Enclosure(0, 0, bits), []
        for part in self.parts:
            mine = [base.plus(end) for end in part.cumulative(bits)]
            ends += mine
            base = mine[-1]
        # The last end is 1.
        return ends[:-1]


@dataclass(frozen=True, eq=False)
class Prepared:
    """A mixture ready to be drawn from. All arrays are indexed by cell, except the guide.

    Attributes:
        values: The value at the beginning of each cell.
        steps: +1 or -1 of its branch.
        owners: Its branch if the law begins anew there, else -1.
        lows: Which of `low_parts` is to be added, or -1.
        low_parts: Rate and width in bits.
        guide: Values in the order of the table's guide, if nothing is ever added to them.
    """

    mixture: tuple[Branch, ...]
    shifts: tuple[int, ...]
    table: Table = field(repr=False)
    values: IntArray = field(repr=False)
    steps: IntArray = field(repr=False)
    owners: NDArray[np.int8] = field(repr=False)
    lows: NDArray[np.int8] = field(repr=False)
    low_parts: tuple[tuple[Fraction, int], ...]
    guide: CellArray | None = field(repr=False)

    def draw(self, size: int, *, rng: Generator) -> IntArray:
        """Draw from the mixture, exactly; shape (size,), int64."""
        out = np.empty(size, np.int64)
        for part in chunks(size):
            self.fill(out[part], rng=rng)
        return out

    def fill(self, out: IntArray, *, rng: Generator) -> None:
        """Draw as many values as `out` has room for."""
        pieces = self.table.pieces(out.size, rng=rng)
        if self.guide is None:
            self._complete(self.table.cells_of(pieces, rng=rng), out, rng=rng)
            return
        found = self.guide.take(pieces)
        out[...] = found
        rare = np.flatnonzero(found == UNSETTLED)
        if rare.size:
            settled = np.empty(rare.size, np.int64)
            self._complete(self.table.cells_of(pieces[rare], rng=rng), settled, rng=rng)
            out[rare] = settled

    def _complete(self, cells: CellArray, out: IntArray, *, rng: Generator) -> None:
        """Turn cells into values: add the low parts, and begin the law anew where it goes on beyond the table."""
        np.take(self.values, cells, out=out)
        lows = self.lows.take(cells) if self.low_parts else None
        for i, (rate, shift) in enumerate(self.low_parts):
            where = np.flatnonzero(lows == i)
            added = low_part(rate, shift, where.size, rng=rng)
            if where.size == out.size:
                out += self.steps.take(cells) * added
            else:
                out[where] += self.steps.take(cells[where]) * added
        owners = self.owners.take(cells)
        beyond = np.flatnonzero(owners >= 0)
        for b in np.unique(owners[beyond]).tolist() if beyond.size else ():
            branch, shift, where = self.mixture[b], self.shifts[b], np.flatnonzero(owners == b)
            out[where] += branch.step * (geometric(present(branch.rate) * 2**shift, where.size, rng=rng) << shift)


def draw(mixture: tuple[Branch, ...], size: int, *, rng: Generator) -> IntArray:
    """Draw from a mixture of geometric laws, whose weights add up to 1, exactly; shape (size,), int64.

    Example:
        >>> from sparsehist import entropy
        >>> half = ONE / (ONE + ONE)
        >>> third = ExponentialDecay(Fraction(0)) / (ONE + ONE + ONE)
        >>> coin = (Branch(third, 5), Branch(ONE - third, 7))
        >>> sorted(set(draw(coin, 100, rng=entropy.seeded(1)).tolist()))
        [5, 7]
    """
    return prepare(mixture).draw(size, rng=rng)


def geometric(rate: Fraction, size: int, *, rng: Generator) -> IntArray:
    """Draw G with P[G >= k] = e^(-rate k), exactly; shape (size,), int64."""
    return draw((Branch(ONE, 0, 1, rate),), size, rng=rng)


def bernoulli(probability: Real, size: int, *, rng: Generator) -> BoolArray:
    """Flip coins that show true with exactly that probability, strictly between 0 and 1; shape (size,).

    Example:
        >>> from sparsehist import entropy
        >>> bernoulli(ExponentialDecay(Fraction(9)), 4, rng=entropy.seeded(1)).tolist()
        [False, False, False, False]
    """
    return draw((Branch(probability, 1), Branch(ONE - probability, 0)), size, rng=rng).astype(np.bool_)


def low_part(rate: Fraction, shift: int, size: int, *, rng: Generator) -> IntArray:
    """Draw G given G < 2**shift, nine bits a table; shape (size,), int64."""
    total = np.zeros(size, np.int64)
    for offset in range(0, shift, EXTENT.digit_bits):
        table = _digit(rate * 2**offset, min(EXTENT.digit_bits, shift - offset))
        digits = table.draw(size, rng=rng).astype(np.int64)
        total += digits << offset
    return total


def chunks(size: int) -> Iterator[slice]:
    """Cut `size` draws into pieces that stay in cache."""
    return (slice(begin, min(begin + CHUNK, size)) for begin in range(0, size, CHUNK))


def prepare(mixture: tuple[Branch, ...]) -> Prepared:
    """Make the tables of a mixture, or find them made; finding takes as long as thousands of draws."""
    return _prepared(mixture, EXTENT, exact_table.READING)


def _digit(rate: Fraction, width: int) -> Table:
    weight = ONE / (ONE - ExponentialDecay(rate * 2**width))
    return Table.of(_Steps(weight, rate, 2**width, ends_here=True))


@dataclass(frozen=True)
class _Layout:
    """How the cells of one branch are cut: `count` cells of 2**shift values, then one for all that lies beyond."""

    branch: Branch
    shift: int
    count: int
    endless: bool
    """Whether the law begins anew in the last cell (else it is an atom, or beyond all integers of interest)."""

    @classmethod
    def of(cls, branch: Branch, extent: Extent) -> _Layout:
        """Widen the cells until the table is short."""
        if branch.rate is None:
            return cls(branch, 0, 0, endless=False)
        for shift in range(_MOST_SHIFT + 1):
            high_rate = branch.rate * 2**shift
            if high_rate >= extent.slowest:
                return cls(branch, shift, int(extent.reach / high_rate) + 1, endless=True)
        return cls(branch, _MOST_SHIFT, 1, endless=False)

    def cells(self) -> _Steps:
        """Probabilities of the cells."""
        return _Steps(self.branch.weight, (self.branch.rate or Fraction(0)) * 2**self.shift, self.count)

    def values(self) -> IntArray:
        """The value each cell begins with; shape (count + 1,)."""
        return self.branch.start + self.branch.step * (np.arange(self.count + 1, dtype=np.int64) << self.shift)

    def last_is(self, in_last: int, elsewhere: int) -> NDArray[np.int8]:
        """One number for the last cell and one for the others; shape (count + 1,)."""
        return np.append(np.full(self.count, elsewhere, np.int8), np.int8(in_last))


@lru_cache(maxsize=64)
def _prepared(mixture: tuple[Branch, ...], extent: Extent, _reading: Reading) -> Prepared:
    layouts = [_Layout.of(branch, extent) for branch in mixture]
    table = Table.of(_Mixture(tuple(layout.cells() for layout in layouts)))
    widths = {layout.branch.rate: layout.shift for layout in layouts if layout.shift}
    low_parts = tuple((rate, shift) for rate, shift in widths.items() if rate is not None)
    low_of = [list(widths).index(layout.branch.rate) if layout.shift else -1 for layout in layouts]
    values = np.concatenate([layout.values() for layout in layouts])
    owners = np.concatenate([layout.last_is(b if layout.endless else -1, -1) for b, layout in enumerate(layouts)])
    plain = np.where(owners >= 0, UNSETTLED, values) if not low_parts else None
    return Prepared(
        mixture=mixture,
        shifts=tuple(layout.shift for layout in layouts),
        table=table,
        values=values,
        steps=np.concatenate([np.full(layout.count + 1, layout.branch.step, np.int64) for layout in layouts]),
        owners=owners,
        lows=np.concatenate(
            [layout.last_is(low if layout.endless else -1, low) for low, layout in zip(low_of, layouts, strict=True)]
        ),
        low_parts=low_parts,
        guide=None if plain is None else table.guided(plain.astype(np.int16)),
    )
