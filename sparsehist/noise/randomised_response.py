"""Randomised response: an answer out of k categories, replaced by another one with exactly known odds.

Law: noise on the group Z_k, added modulo k. With a = e^(-epsilon / sensitivity), P[Z = 0] = 1 / (1 + (k-1) a) and
every other value has a / (1 + (k-1) a). Written as "keep with probability kappa, else a uniform category", kappa =
(1 - a) / (1 + (k-1) a), kappas multiply under convolution: coarse noise is fine noise, replaced by a uniform value
with probability R = 1 - kappa_coarse / kappa_fine. The other laws follow by Bayes.

Source: Warner 1965 and Kairouz, Oh and Viswanath 2014 (the law); bridge, refine and between: own derivation,
docs/mathematics.md, "Lossless randomised response".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from sparsehist.errors import DataError, DeclarationError, LevelError
from sparsehist.noise.exact_geometric import Branch, Prepared, chunks, prepare
from sparsehist.noise.exact_table import ONE, Enclosure, ExponentialDecay, Real
from sparsehist.noise.family import DenseFamily, checked_sensitivity, coarser, finer, inside
from sparsehist.privacy.levels import Level, as_level, level_text
from sparsehist.typing import Generator, IntArray, NDArray

_MOST_CATEGORIES = 2**31
# Finer laws change an answer with a probability below e^-4000, which the tables of coins need not hold.
_FASTEST = 4000


@dataclass(frozen=True)
class RandomisedResponse(DenseFamily):
    """Randomised response: a release at level epsilon is epsilon-DP for who *changes* up to `sensitivity` answers.

    The number of answers is public, and neighbours differ in what one person answered, not in who took part. Entries
    of a vector are categories 0 … k-1; noise is added modulo k. All draws are exact: random words are compared with
    integers, and no float decides an outcome.

    It serves dense vectors (`sparsehist.MultipleRelease`); a sparse series refuses it, as on Z_k no order is kept.

    Args:
        categories: k, the number of possible answers; at least 2.
        sensitivity: Entries of the vector that belong to one person. An integer or fraction.

    Raises:
        DeclarationError: If either is not what it should be.

    Example:
        >>> from sparsehist import entropy
        >>> noise = RandomisedResponse(categories=5)
        >>> fine = noise.sample(4, 2, rng=entropy.seeded(1))
        >>> coarse = noise.coarsen(fine, 2, 1, rng=entropy.seeded(2))
        >>> bool(((0 <= coarse) & (coarse < 5)).all())
        True
    """

    categories: int
    sensitivity: Level = 1
    integer: ClassVar[bool] = True
    monotone: ClassVar[bool] = False

    def __post_init__(self) -> None:
        k = self.categories
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 2 <= k <= _MOST_CATEGORIES:
            raise DeclarationError(f"categories must be a whole number from 2 to 2**31, got {k!r}")
        checked_sensitivity(self.sensitivity)

    @property
    def modulus(self) -> int:
        """Noise is added modulo this: the number of categories."""
        return int(self.categories)

    def rate(self, level: Level) -> Fraction:
        """epsilon / sensitivity, the logarithm of the odds between the truth and any one other answer.

        Raises:
            LevelError: If the level is so fine that next to no answer would ever change.
        """
        rate = as_level(level) / as_level(self.sensitivity)
        if rate > _FASTEST:
            most = float(_FASTEST * as_level(self.sensitivity))
            raise LevelError(f"randomised response needs a level of at most {most:g} here, got {level!r}")
        return rate

    def kept(self, level: Level) -> float:
        """kappa: the probability that an answer is kept for sure, rather than replaced by a uniform one."""
        rate = float(self.rate(level))
        return -math.expm1(-rate) / (1.0 + (self.categories - 1) * math.exp(-rate))

    def std(self, level: Level) -> float:
        """Root mean square distance from the truth in the discrete metric: the root of P[an answer changes]."""
        others = (self.categories - 1) * math.exp(-float(self.rate(level)))
        return math.sqrt(others / (1.0 + others))

    def statement(self, level: Level) -> str:
        return (
            f"{level_text(as_level(level))}-DP (pure differential privacy, exactly) when one person changes up to "
            f"{self.sensitivity} of the answers; who took part is public"
        )

    def sample(self, size: int, level: Level, *, rng: Generator) -> IntArray:
        """Draw fresh noise, exactly. Numbers in 0 … k-1, to be added modulo k."""
        at_zero = ONE / self._total(level)
        noise = _odds(at_zero, ONE - at_zero).draw(size, rng=rng)
        changed = np.flatnonzero(noise)
        noise[changed] = rng.integers(1, self.categories, changed.size)
        return noise

    def coarsen(self, fine: IntArray, fine_level: Level, level: Level, *, rng: Generator) -> IntArray:
        coarser(level, fine_level)
        noise = self._read(fine).copy()
        odds = _odds(self._ratio(fine_level, level), self._replaced(fine_level, level))
        replaced = np.flatnonzero(odds.draw(noise.size, rng=rng))
        noise[replaced] = rng.integers(0, self.categories, replaced.size)
        return noise

    def refine(self, coarse: IntArray, coarse_level: Level, level: Level, *, rng: Generator) -> IntArray:
        """Draw the noise of a finer release, given that of a coarser one, exactly.

        P(fine = z | coarse = x) is pmf_fine(z) * P(z becomes x) / pmf_coarse(x), with three values only: of z = 0, of
        z = x, and of the others.
        """
        finer(level, coarse_level)
        known, noise = self._read(coarse), np.empty(len(coarse), np.int64)
        unmoved, *moved = self._refined(coarse_level, level)
        if_zero, if_not = _odds(unmoved, ONE - unmoved), self._odds_of_one(*moved)
        for part in chunks(known.size):
            at_zero = known[part] == 0
            drawn = np.zeros(at_zero.size, np.int64)
            rest = np.flatnonzero(at_zero)
            rest = rest[if_zero.draw(rest.size, rng=rng) == 1]
            drawn[rest] = rng.integers(1, self.categories, rest.size)
            where = np.flatnonzero(~at_zero)
            ends = known[part][where]
            drawn[where] = self._one_of(np.zeros_like(ends), ends, if_not, rng=rng)
            noise[part] = drawn
        return noise

    def between(
        self,
        coarse: IntArray,
        coarse_level: Level,
        fine: IntArray,
        fine_level: Level,
        level: Level,
        *,
        rng: Generator,
    ) -> IntArray:
        inside(coarse_level, level, fine_level)
        start, end, noise = self._read(fine), self._read(coarse), np.empty(len(fine), np.int64)
        together, *apart = self._inserted(coarse_level, level, fine_level)
        if_agreed, if_not = _odds(together, ONE - together), self._odds_of_one(*apart)
        for part in chunks(start.size):
            ends_agree = start[part] == end[part]
            drawn = start[part].copy()
            left = np.flatnonzero(ends_agree)
            left = left[if_agreed.draw(left.size, rng=rng) == 1]
            drawn[left] = self._wrapped(drawn[left] + rng.integers(1, self.categories, left.size))
            where = np.flatnonzero(~ends_agree)
            drawn[where] = self._one_of(drawn[where], end[part][where], if_not, rng=rng)
            noise[part] = drawn
        return noise

    def _total(self, level: Level) -> Real:
        """1 / P[Z = 0]."""
        return ONE + _Whole(self.categories - 1) * ExponentialDecay(self.rate(level))

    def _ratio(self, fine: Level, coarse: Level) -> Real:
        """kappa_coarse / kappa_fine."""
        lost = (ONE - ExponentialDecay(self.rate(coarse))) / (ONE - ExponentialDecay(self.rate(fine)))
        return lost * self._total(fine) / self._total(coarse)

    def _replaced(self, fine: Level, coarse: Level) -> Real:
        return ONE - self._ratio(fine, coarse)

    def _step(self, fine: Level, coarse: Level) -> tuple[Real, Real]:
        """P[coarse = fine] and P[coarse = any one other value]."""
        other = self._replaced(fine, coarse) / _Whole(self.categories)
        return self._ratio(fine, coarse) + other, other

    def _refined(self, coarse: Level, fine: Level) -> tuple[Real, Real, Real]:
        """P[fine = 0 | coarse = 0], P[fine = 0 | coarse = x] and P[fine = x | coarse = x], x not 0."""
        a_fine, a_coarse = ExponentialDecay(self.rate(fine)), ExponentialDecay(self.rate(coarse))
        same, other = self._step(fine, coarse)
        share = self._total(coarse) / self._total(fine)
        return share * same, share * other / a_coarse, share * a_fine * same / a_coarse

    def _inserted(self, coarse: Level, middle: Level, fine: Level) -> tuple[Real, Real, Real]:
        """P[middle = both] where the ends agree; P[middle = fine] and P[middle = coarse] where they do not."""
        same_above, other_above = self._step(fine, middle)
        same_below, other_below = self._step(middle, coarse)
        agree = same_above * same_below
        agree_total = agree + _Whole(self.categories - 1) * other_above * other_below
        at_fine, at_coarse = same_above * other_below, other_above * same_below
        total = at_fine + at_coarse + _Whole(self.categories - 2) * other_above * other_below
        return agree / agree_total, at_fine / total, at_coarse / total

    def _odds_of_one(self, at_first: Real, at_second: Real) -> Prepared:
        """0 for the first of two values, 1 for the second, 2 for the rest if there is one."""
        if self.categories == 2:
            return _odds(at_first, ONE - at_first)
        return _odds(at_first, at_second, ONE - at_first - at_second)

    def _one_of(self, first: IntArray, second: IntArray, odds: Prepared, *, rng: Generator) -> IntArray:
        """The first value, the second (another), or a uniform one of the rest."""
        choice = odds.draw(first.size, rng=rng)
        chosen = np.where(choice == 0, first, second)
        if self.categories == 2:
            return chosen
        where = np.flatnonzero(choice == 2)
        # Counted from the first value, the rest are 1 … k-1 without the second's distance.
        begin = first[where]
        apart = second[where] - begin
        apart += self.categories * (apart < 0)
        steps = rng.integers(1, self.categories - 1, where.size)
        chosen[where] = self._wrapped(begin + steps + (steps >= apart))
        return chosen

    def _wrapped(self, values: IntArray) -> IntArray:
        """Modulo k, of values below 2k."""
        return values - self.categories * (values >= self.categories)

    def _read(self, noise: NDArray[np.generic]) -> IntArray:
        whole = np.asarray(noise).astype(np.int64, copy=False)
        if whole.size and not 0 <= int(whole.min()) <= int(whole.max()) < self.categories:
            raise DataError(f"noise of randomised response lies in 0 … {self.categories - 1}, and this does not")
        return whole


@dataclass(frozen=True)
class _Whole(Real):
    """A whole number among the formulas."""

    value: int

    def enclose(self, bits: int) -> Enclosure:
        return Enclosure(self.value << bits, self.value << bits, bits)


def _odds(*weights: Real) -> Prepared:
    """Draws 0 … m-1 with exactly these odds, which add up to 1."""
    return prepare(tuple(Branch(weight, value) for value, weight in enumerate(weights)))
