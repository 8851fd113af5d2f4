"""Binomial draws that stay exact where numpy's do not.

numpy rounds 1 - p, and its rejection step loses n * 2**-53 in a logarithm: at p = 1e-16 or n = 1e18 the mean
is off by tenths of a per cent. Here small p is thinned in two stages whose probabilities are exact, very
small p is Poisson (total variation at most p <= 2**-40), and very large n counts the distinct cells hit by a
Poisson number of uniform points, which is exactly binomial.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from sparsehist.errors import ThresholdError
from sparsehist.noise.family import FloatArray

IntArray = NDArray[np.int64]

_STAGE_BITS = 20
_POISSON_BELOW = 2.0 ** (-2 * _STAGE_BITS)
_LARGE = 2**32
# More successes than this do not fit beside what is drawn for each of them.
_MOST_SUCCESSES = 2.0**31


def binomial(
    sizes: Sequence[int] | IntArray, log_p: ArrayLike, log_complement: ArrayLike, *, rng: Generator
) -> IntArray:
    """Draw Binomial(n, p) for many (n, p) at once.

    Args:
        sizes: Numbers of trials; Python integers of any size, or int64; length g.
        log_p: ln p, at most 0; shape (g,).
        log_complement: ln(1 - p); shape (g,).
        rng: Randomness.

    Returns:
        Successes; shape (g,), int64.

    Raises:
        ThresholdError: If more than 2**31 successes are to be expected.
    """
    trials, large = _split(sizes)
    log_p, log_complement = np.atleast_1d(log_p), np.atleast_1d(log_complement)
    p, flip = np.exp(log_p), log_p > log_complement
    expected = float(trials @ p) + sum(_expected(n, float(log_p[i])) for i, n in large.items())
    if not expected <= _MOST_SUCCESSES:
        raise ThresholdError(f"the threshold would let more than {_MOST_SUCCESSES:.2g} cells through; raise it")
    rarer = np.where(flip, np.exp(log_complement), p)
    drawn = _ordinary(trials, rarer, rng=rng)
    successes = np.where(flip, trials - drawn, drawn)
    for i, n in large.items():
        hits = _many_trials(n, float(min(log_p[i], log_complement[i])), rng=rng)
        successes[i] = n - hits if flip[i] else hits
    return successes


def _split(sizes: Sequence[int] | IntArray) -> tuple[IntArray, dict[int, int]]:
    """Ordinary numbers of trials as an array, and those numpy cannot be trusted with by position."""
    if isinstance(sizes, np.ndarray):
        large = {int(i): int(sizes[i]) for i in np.flatnonzero(sizes >= _LARGE)}
    else:
        large = {i: n for i, n in enumerate(sizes) if n >= _LARGE}
    trials = np.array(sizes if not large else [min(int(n), _LARGE) for n in sizes], dtype=np.int64)
    trials[list(large)] = 0
    return trials, large


def _ordinary(trials: IntArray, p: FloatArray, *, rng: Generator) -> IntArray:
    """Draw for n below 2**32 and p at most one half."""
    staged = (p >= _POISSON_BELOW) & (p < 2.0**-_STAGE_BITS)
    if not staged.any() and not (p < _POISSON_BELOW).any():
        return rng.binomial(trials, p)
    first = np.where(staged, rng.binomial(trials, 2.0**-_STAGE_BITS), trials)
    second = np.where(staged, np.ldexp(p, _STAGE_BITS), p)
    rare = p < _POISSON_BELOW
    return np.where(rare, rng.poisson(trials * p), rng.binomial(first, np.where(rare, 0.0, second)))


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
    if n >= 2**63:
        # With at least 2**63 cells the repeats among points are Poisson up to points**3 / n**2 < 1e-9.
        return points - int(rng.poisson(points * (points - 1) / (2 * n)))
    cells = np.sort(rng.integers(0, n, points))
    return points - int(np.count_nonzero(cells[1:] == cells[:-1]))
