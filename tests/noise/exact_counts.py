"""Binomial and Poisson laws to many digits, and the law of what the samplers draw, computed instead of sampled."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import NamedTuple

import mpmath
import numpy as np

from sparsehist.noise import binomial_poisson, staircase
from sparsehist.noise.binomial_poisson import _Laws, as_number

DIGITS = 120


def exact_pmf(k: np.ndarray, n: int | None, p: float) -> list[mpmath.mpf]:
    """P[X = k] for Binomial(n, p), or for Poisson(p) if there is no n; exact for p as a double."""
    with mpmath.workdps(DIGITS):
        at, chance = [mpmath.mpf(int(x)) for x in k], mpmath.mpf(p)
        if n is None:
            return [mpmath.exp(x * mpmath.log(chance) - chance - mpmath.loggamma(x + 1)) for x in at]
        all_of_them, trials = mpmath.loggamma(mpmath.mpf(n) + 1), mpmath.mpf(n)
        rises, falls = mpmath.log(chance), mpmath.log1p(-chance)
        return [
            mpmath.exp(
                all_of_them
                - mpmath.loggamma(x + 1)
                - mpmath.loggamma(trials - x + 1)
                + x * rises
                + (trials - x) * falls
            )
            if x <= trials
            else mpmath.mpf(0)
            for x in at
        ]


def law(n: int | None, p: float) -> _Laws:
    """What the samplers make of one law with p at most one half."""
    if n is None:
        return _Laws(*as_number(p), np.zeros(1), np.zeros(1))
    trials, chance = as_number([n]), as_number(p)
    return _Laws(trials.high * chance.high, trials.low * chance.high, trials.high, chance.high)


class Given:
    """A generator whose uniform numbers are given."""

    def __init__(self, uniforms: np.ndarray) -> None:
        self.uniforms = uniforms

    def random(self, size: int) -> np.ndarray:
        """The numbers."""
        assert size == self.uniforms.size
        return self.uniforms


def inverted_distance(n: int | None, p: float, most: int) -> float:
    """Total variation between what `_inverted` draws and its law.

    The least uniform number from which more than k is drawn is found by bisection on the multiples of 2**-53.
    """
    laws, k = law(n, p), np.arange(most + 1)
    low, high = np.zeros(k.size, np.int64), np.full(k.size, 2**53)
    while (high - low > 1).any():
        middle = (low + high) // 2
        drawn = binomial_poisson._inverted(laws, k.size, rng=Given(middle * 2.0**-53))
        low, high = np.where(drawn > k, low, middle), np.where(drawn > k, middle, high)
    exact = exact_pmf(k, n, p)
    # P[X <= k] is a whole number of 2**-53: those below the first that draws more.
    up_to = [0, *(int(h) if h > 1 else int(lo > 0) for lo, h in zip(low, high, strict=True))]
    with mpmath.workdps(DIGITS):
        pairs = zip(up_to[:-1], up_to[1:], exact, strict=True)
        inside = [abs(mpmath.mpf(b - a) / 2**53 - f) for a, b, f in pairs]
        beyond = abs(mpmath.mpf(2**53 - up_to[-1]) / 2**53 - (1 - mpmath.fsum(exact)))
        return float((mpmath.fsum(inside) + beyond) / 2)


class Accepted(NamedTuple):
    """What `_accepted` does at some steps from the mode; shape (m,).

    Attributes:
        error: Relative error of the mass it computes.
        share: Exact probability of the number.
        mass: The mass it computes, times sqrt(2 pi variance).
        height: The staircase above it.
        surely: What is accepted unseen, of the same unit.
        proposed: Probability of the proposal over height: one number everywhere, if the staircase is what is drawn.
        inside: Whether the number is possible at all.
        left_out: Exact probabilities of the first numbers beyond the staircase, below and above.
    """

    error: np.ndarray
    share: np.ndarray
    mass: np.ndarray
    height: np.ndarray
    surely: np.ndarray
    proposed: np.ndarray
    inside: np.ndarray
    left_out: tuple[float, float]


def accepted(n: int | None, p: float, step: np.ndarray) -> Accepted:
    """Look at these steps, as far as the staircase reaches."""
    tables, (mean, low, trials, chance) = staircase.staircases(), law(n, p)
    rows, widths = staircase.rows_and_widths(mean * (1.0 - chance))
    mode, row, width = np.floor(mean + chance), int(rows[0]), int(widths[0])
    if n is not None:
        low = low + binomial_poisson.product_error(trials, chance, mean)
    away = np.where(step >= 0, step, -1 - step)
    step, away = step[away < 64 * width], away[away < 64 * width]
    cell = row + away // width + np.where(step >= 0, 0, 64)
    mass = binomial_poisson._mass(step, mode, (mode - mean) - low, mean, trials)
    value = mode.astype(np.int64) + step
    inside = (value >= 0) & (value <= (value if n is None else n))
    exact = exact_pmf(value[inside], n, p)
    error = np.zeros(step.size)
    with mpmath.workdps(DIGITS):
        chance_left = 1 if n is None else mpmath.mpf(n) * (1 - mpmath.mpf(p))
        scale = mpmath.sqrt(2 * mpmath.pi * mpmath.mpf(p) * chance_left)
        error[inside] = [
            float(computed / (f * scale) - 1) for computed, f in zip(mass[inside].tolist(), exact, strict=True)
        ]
    share = np.zeros(step.size)
    share[inside] = [float(f) for f in exact]
    heights = tables.heights[cell]
    proposed = np.array([float(Fraction(int(weights()[c]), 2**64)) for c in cell]) / (width * heights)
    ends = int(mode[0]) + np.array([-64 * width - 2, 64 * width])
    below, above = (float(exact_pmf(end[np.newaxis], n, p)[0]) if end >= 0 else 0.0 for end in ends)
    return Accepted(error, share, mass, heights, tables.surely[cell] * heights, proposed, inside, (below, above))


@cache
def weights() -> np.ndarray:
    """The probability of each cell, from the table that draws it."""
    tables = staircase.staircases()
    full, rows = 2**57, np.arange(tables.limits.size) // 128 * 128
    result = [int(limit) for limit in tables.limits]
    for i, (limit, other) in enumerate(zip(tables.limits.tolist(), tables.others.tolist(), strict=True)):
        result[rows[i] + other] += full - limit if limit < full else 0
    return np.array(result, object)


def quantile_cells(n: int | None, p: float, cells: int) -> tuple[np.ndarray, np.ndarray]:
    """Cut a law in cells of about the same probability: last value of each but the last one, and probabilities."""
    mean = p if n is None else float(n) * p
    spread = max(np.sqrt(mean), 1.0)
    first = max(0, int(mean - 12 * spread - 20))
    k = np.arange(first, int(mean + 12 * spread + 60))
    if n is not None:
        k = k[k <= n]
    pmf = pmf_by_ratios(k, n, p)
    up_to = np.cumsum(pmf)
    edges = np.unique(k[np.searchsorted(up_to, np.arange(1, cells) / cells)])
    sums = np.concatenate([[0.0], up_to[np.searchsorted(k, edges)], [1.0]])
    return edges, np.diff(sums)


def pmf_by_ratios(k: np.ndarray, n: int | None, p: float) -> np.ndarray:
    """The masses of consecutive numbers, from one of them and exact ratios of neighbours; they add up to 1."""
    middle = len(k) // 2
    with mpmath.workdps(30):
        chance = Fraction(p)
        odds = None if n is None else mpmath.mpf(chance.numerator) / (chance.denominator - chance.numerator)
        result = [mpmath.mpf(0)] * len(k)
        result[middle] = exact_pmf(k[middle : middle + 1], n, p)[0]
        for i in range(middle + 1, len(k)):
            x = int(k[i])
            result[i] = result[i - 1] * (mpmath.mpf(p) / x if n is None else odds * (n - x + 1) / x)
        for i in range(middle - 1, -1, -1):
            x = int(k[i]) + 1
            result[i] = result[i + 1] / (mpmath.mpf(p) / x if n is None else odds * (n - x + 1) / x)
        return np.array([float(f) for f in result])
