"""Randomised response: replace an answer by another category with an exactly known probability.

Noise is added modulo k, the number of categories. Zero noise is e^(epsilon / sensitivity) times as probable as
any other value. Equivalently, an answer is kept with probability kappa, otherwise replaced by a
category drawn uniformly. If an answer is coarsened twice, the kappas are multiplied.

Source: Warner 1965 and Kairouz, Oh and Viswanath 2014 (the distribution); refine and between: own derivation,
docs/mathematics.md, "Randomised response and RAPPOR".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from sparsehist.errors import DataError, DeclarationError, LevelError, shown
from sparsehist.noise.exact_draws import Interval, Tail, coins, decay
from sparsehist.noise.family import DenseFamily, Three, checked_sensitivity
from sparsehist.privacy.levels import Level, as_level, level_text
from sparsehist.typing import Generator, IntArray, NDArray

_MOST_CATEGORIES = 2**31
_FASTEST = 4000  # at larger rates, an answer changes to any given category with a probability below e^-4000


@dataclass(frozen=True)
class RandomisedResponse(DenseFamily):
    """Randomised response: epsilon-DP at level epsilon for a person who *changes* up to `sensitivity` answers.

    Neighbours differ in the answers of one person; who took part is public. Entries of a vector are categories 0 …
    k-1, and noise is added modulo k. All draws are exact. Use this family for dense vectors only
    (`sparsehist.MultipleRelease`).

    Args:
        categories: k, the number of possible answers; at least 2.
        sensitivity: Number of entries of the vector that belong to one person. An integer or fraction.

    Raises:
        DeclarationError: If `categories` is below 2 or `sensitivity` is not positive.

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

    def __post_init__(self) -> None:
        k = self.categories
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 2 <= k <= _MOST_CATEGORIES:
            raise DeclarationError(f"categories must be a whole number from 2 to 2**31, got {shown(k)}")
        checked_sensitivity(self.sensitivity)

    @property
    def modulus(self) -> int:
        return int(self.categories)

    def rate(self, level: Level) -> Fraction:
        """Return epsilon / sensitivity. Raise LevelError if this rate is so large that answers hardly ever change."""
        rate = as_level(level) / as_level(self.sensitivity)
        if rate > _FASTEST:
            most = float(_FASTEST * as_level(self.sensitivity))
            raise LevelError(f"randomised response needs a level of at most {most:g}, got {shown(level)}")
        return rate

    def kept(self, level: Level) -> float:
        """Return kappa, the probability that an answer is kept instead of replaced by a uniform category."""
        rate = float(self.rate(level))
        return -math.expm1(-rate) / (1.0 + (self.categories - 1) * math.exp(-rate))

    def std(self, level: Level) -> float:
        """Return sqrt(P[an answer changes]), in place of a standard deviation, which categories do not have."""
        others = (self.categories - 1) * math.exp(-float(self.rate(level)))
        return math.sqrt(others / (1.0 + others))

    def statement(self, level: Level) -> str:
        return (
            f"{level_text(as_level(level))}-DP (pure differential privacy, exactly) when one person changes up to "
            f"{self.sensitivity} of the answers; who took part is public"
        )

    def _sampled(self, size: int, level: Level, *, rng: Generator) -> IntArray:
        rate = self.rate(level)
        return self._chosen(np.zeros(size, np.int64), lambda: (1 / self._total(rate),), rng=rng)

    def _coarsened(self, fine: IntArray, known: Fraction, target: Fraction, *, rng: Generator) -> IntArray:
        rates = self.rate(known), self.rate(target)
        return self._chosen(self._read(fine), lambda: self._step(*rates)[:1], rng=rng)

    def _refined(self, coarse: IntArray, known: Fraction, target: Fraction, *, rng: Generator) -> IntArray:
        rates, given = (self.rate(known), self.rate(target)), self._read(coarse)
        return self._ends(np.zeros_like(given), given, lambda: self._finer(*rates), rng=rng)

    def _bridge(self, coarse: IntArray, fine: IntArray, levels: Three, *, rng: Generator) -> IntArray:
        left, middle, right = map(self.rate, levels)
        return self._ends(self._read(fine), self._read(coarse), lambda: self._middle(left, middle, right), rng=rng)

    def _ends(
        self, first: IntArray, second: IntArray, chances: Callable[[], tuple[Interval, ...]], *, rng: Generator
    ) -> IntArray:
        """Draw for each entry the value in `first`, the value in `second`, or any other category.

        Let `chances` return p, q, r. Where `first` equals `second`, draw their value with probability p. Elsewhere,
        draw the value in `first` with probability q, that in `second` with r. All others are equally likely.
        """
        noise, agree = first.copy(), first == second
        noise[agree] = self._chosen(first[agree], lambda: chances()[:1], rng=rng)
        noise[~agree] = self._chosen(first[~agree], lambda: chances()[1:], second[~agree], rng=rng)
        return noise

    def _chosen(
        self,
        first: IntArray,
        chances: Callable[[], tuple[Interval, ...]],
        second: IntArray | None = None,
        *,
        rng: Generator,
    ) -> IntArray:
        """Draw the value in `first` or `second` (if given) with probabilities `chances`, else another category."""
        chosen = first.copy()
        left = np.flatnonzero(~coins(Tail(lambda: chances()[0]), first.size, rng=rng))
        if second is None:
            chosen[left] = (first[left] + rng.integers(1, self.categories, left.size)) % self.categories
            return chosen
        chosen[left] = second[left]
        if self.categories == 2:
            return chosen
        left = left[~coins(Tail(lambda: chances()[1] / (1 - chances()[0])), left.size, rng=rng)]
        # Draw one of the k - 2 other categories: add 1, …, or k - 2 to the first value, but skip the second value.
        apart, steps = (second[left] - first[left]) % self.categories, rng.integers(1, self.categories - 1, left.size)
        chosen[left] = (first[left] + steps + (steps >= apart)) % self.categories
        return chosen

    def _read(self, noise: NDArray[np.generic]) -> IntArray:
        whole = np.asarray(noise).astype(np.int64, copy=False)
        if whole.size and not 0 <= int(whole.min()) <= int(whole.max()) < self.categories:
            raise DataError(f"noise of randomised response must lie in 0 … {self.categories - 1}")
        return whole

    # The methods below return intervals that contain exact probabilities, at the precision that `enclose` has set.

    def _total(self, rate: Fraction) -> Interval:
        """Return 1 / P[noise is 0], where rate = epsilon / sensitivity."""
        return 1 + (self.categories - 1) * decay(rate)

    def _ratio(self, fine: Fraction, coarse: Fraction) -> Interval:
        """Return the probability that coarsening keeps an answer: kappa_coarse / kappa_fine (kappa: see `kept`)."""
        return (1 - decay(coarse)) / (1 - decay(fine)) * self._total(fine) / self._total(coarse)

    def _step(self, fine: Fraction, coarse: Fraction) -> tuple[Interval, Interval]:
        """Return P[coarse = x | fine = x] and P[coarse = y | fine = x], the same for all noise x and y != x."""
        ratio = self._ratio(fine, coarse)
        other = (1 - ratio) / self.categories
        return ratio + other, other

    def _finer(self, coarse: Fraction, fine: Fraction) -> tuple[Interval, Interval, Interval]:
        """Return P[fine = 0 | coarse = 0], P[fine = 0 | coarse = x], P[fine = x | coarse = x], for noise x != 0."""
        same, other = self._step(fine, coarse)
        share = self._total(coarse) / self._total(fine)
        return share * same, share * other / decay(coarse), share * decay(fine - coarse) * same

    def _middle(self, coarse: Fraction, middle: Fraction, fine: Fraction) -> tuple[Interval, Interval, Interval]:
        """For coarse, middle, fine noise c, m, f: return P[m = f | c = f], P[m = f | c != f], P[m = c | c != f]."""
        same_above, other_above = self._step(fine, middle)
        same_below, other_below = self._step(middle, coarse)
        agree = same_above * same_below
        agree_total = agree + (self.categories - 1) * other_above * other_below
        at_fine, at_coarse = same_above * other_below, other_above * same_below
        total = at_fine + at_coarse + (self.categories - 2) * other_above * other_below
        return agree / agree_total, at_fine / total, at_coarse / total
