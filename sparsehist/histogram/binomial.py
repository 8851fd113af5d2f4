"""Binomial draws that stay exact where numpy's do not.

numpy rounds 1 - p, and its rejection step loses n * 2**-53 in a logarithm: at p = 1e-16 or n = 1e18 the mean
is off by tenths of a per cent. Here small p and very large n count the distinct cells hit by a Poisson number
of uniform points, which is exactly binomial. Very large n with very small p is Poisson (total variation at most
p <= 2**-40), and few points among very many cells repeat one another as a Poisson number does (at most 1e-12).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from sparsehist.errors import InputError, ThresholdError
from sparsehist.noise.family import FloatArray

IntArray = NDArray[np.int64]

# From here on numpy loses less than 2**-33 of p in 1 - p.
_COMMON = 2.0**-20
_POISSON_BELOW = 2.0**-40
_LARGE = 2**32
_LOG_HALF = -math.log(2)
# More successes than this do not fit beside what is drawn for each of them.
_MOST_SUCCESSES = 2.0**31


class Sizes(NamedTuple):
    """Numbers of trials of any size; shape (g,).

    Attributes:
        ordinary: Those below 2**32; 0 where the number is large.
        large: The others, which numpy cannot be trusted with, by position.
    """

    ordinary: IntArray
    large: dict[int, int]

    def __repr__(self) -> str:
        return "Sizes()"

    def without(self, left_out: NDArray[np.bool_]) -> Sizes:
        """The same with 0 trials where `left_out` says so."""
        kept = {i: n for i, n in self.large.items() if not left_out[i]}
        return Sizes(np.where(left_out, 0, self.ordinary), kept)

    @property
    def nonzero(self) -> NDArray[np.bool_]:
        """Which are not 0; shape (g,)."""
        filled = self.ordinary > 0
        filled[list(self.large)] = True
        return filled

    def at(self, position: int) -> int:
        """One of the numbers."""
        return self.large.get(position, int(self.ordinary[position]))


def as_sizes(numbers: Sequence[int] | IntArray) -> Sizes:
    """Sort out the large numbers.

    Raises:
        InputError: If a number is negative.
    """
    if isinstance(numbers, np.ndarray):
        rough = numbers
    else:
        try:
            rough = np.fromiter(numbers, np.float64, len(numbers))  # exact where it matters: below 2**32
        except OverflowError:
            rough = np.fromiter((max(-1, min(n, _LARGE)) for n in numbers), np.float64, len(numbers))
    if rough.min(initial=0) < 0:
        raise InputError("a number of cells cannot be negative")
    positions = np.flatnonzero(rough >= _LARGE)
    ordinary = np.where(rough < _LARGE, rough, 0).astype(np.int64)
    return Sizes(ordinary, {i: int(numbers[i]) for i in positions.tolist()})


def binomial(sizes: Sizes | Sequence[int] | IntArray, log_p: ArrayLike, *, rng: Generator) -> IntArray:
    """Draw Binomial(n, p) for many (n, p) at once.

    Args:
        sizes: Numbers of trials, of any size; length g.
        log_p: ln p, at most 0, with a small relative error also near 0, where it says how far p is from 1;
            shape (g,).
        rng: Randomness.

    Returns:
        Successes; shape (g,), int64.

    Raises:
        ThresholdError: If more than 2**31 successes are to be expected.
    """
    trials, large = sizes if isinstance(sizes, Sizes) else as_sizes(sizes)
    log_p = np.atleast_1d(log_p)
    expected = float(trials @ np.exp(log_p)) + sum(_expected(n, float(log_p[i])) for i, n in large.items())
    if not expected <= _MOST_SUCCESSES:
        raise ThresholdError(f"the threshold would let more than {_MOST_SUCCESSES:.2g} cells through; raise it")
    flip, log_rarer = log_p > _LOG_HALF, log_p.copy()
    with np.errstate(divide="ignore"):
        log_rarer[flip] = np.log(-np.expm1(log_p[flip]))
    drawn = _ordinary(trials, log_rarer, rng=rng)
    for i, n in large.items():
        drawn[i] = _many_trials(n, float(log_rarer[i]), rng=rng)
    successes = np.where(flip, trials - drawn, drawn)
    for i, n in large.items():
        if flip[i]:
            successes[i] = n - int(drawn[i])
    return successes


def _ordinary(trials: IntArray, log_p: FloatArray, *, rng: Generator) -> IntArray:
    """Draw for n below 2**32 and p at most one half."""
    p = np.exp(log_p)
    common = np.flatnonzero(p >= _COMMON)
    drawn = _hit(np.where(p < _COMMON, trials, 0), p, rng=rng)
    drawn[common] = rng.binomial(trials[common], p[common])
    return drawn


def _hit(trials: IntArray, p: FloatArray, *, rng: Generator) -> IntArray:
    """How many cells of each group are hit by a Poisson number of points that hits each of them with probability p.

    The cells are hit independently of one another, so the numbers are exactly binomial; the work is that of the
    points, whatever the number of groups and cells.
    """
    start, rates = np.cumsum(trials) - trials, np.cumsum(-trials * np.log1p(-p))
    points = int(rng.poisson(rates[-1])) if rates.size else 0
    if points == 0:
        return np.zeros(trials.size, np.int64)
    group = np.searchsorted(rates, rates[-1] * (1 - rng.random(points)), side="left")
    cells = np.sort(start[group] + rng.integers(0, trials[group]))
    distinct = cells[np.diff(cells, prepend=-1) > 0]
    return np.bincount(np.searchsorted(start, distinct, side="right") - 1, minlength=trials.size)


def _expected(n: int, log_p: float) -> float:
    """n * p, for n beyond any double."""
    log_expected = math.log(n) + log_p
    return math.exp(log_expected) if log_expected < 700 else math.inf


def _many_trials(n: int, log_p: float, *, rng: Generator) -> int:
    """Draw for n from 2**32 up to any Python integer, and p at most one half."""
    expected, p = _expected(n, log_p), math.exp(log_p)
    if p <= _POISSON_BELOW:
        return int(rng.poisson(expected))
    if expected > _MOST_SUCCESSES:
        raise ThresholdError("a group has too many cells on either side of the threshold to be drawn lazily")
    points = int(rng.poisson(-n * math.log1p(-p)))
    if n >= 2**63 or points**3 < n**2 // 10**12:
        # Repeats among so few points are Poisson up to points**3 / n**2: below 1e-12, and below 1e-16 for the ten
        # million points that are allowed unless a caller asks for more.
        return points - int(rng.poisson(points * (points - 1) / (2 * n)))
    cells = np.sort(rng.integers(0, n, points))
    return points - int(np.count_nonzero(cells[1:] == cells[:-1]))
