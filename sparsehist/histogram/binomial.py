"""Draw, for each group of n cells with equal counts, how many cells exceed the threshold (a binomial number).

The probability p that a cell exceeds the threshold is given as ln p. numpy's binomial sampler is not used, because
its total variation error is 1e-4 at a mean of 300. Groups with a small mean n*p are drawn together, by inversion. The
few other groups are drawn one by one, each from a table of probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sparsehist.errors import DeclarationError, InputError, ThresholdError, raise_alone, shown
from sparsehist.noise.integer_laws import binomial_law, draw_uniforms, poisson
from sparsehist.typing import ArrayLike, FloatArray, Generator, IntArray

_LOG_HALF = -math.log(2)
# Largest number of cells that a round may draw from one group of cells with equal counts.
# A ThresholdError about too many cells reveals no secret counts, because only groups of empty cells are so large.
MOST_SUCCESSES = 2.0**31
# If n > _MANY_TRIALS and p < _RARE, a Poisson number replaces Binomial(n, p) (total variation error 2.4e-13).
_MANY_TRIALS, _RARE = 1e15, 1e-12
_LARGE_MEAN = 64.0  # below this mean, draw by inversion; otherwise, from a table of probabilities
_FARTHEST = 512  # a binomial draw whose mean is below _LARGE_MEAN exceeds this limit with probability below e**-300
_STEPS = 8  # number of probabilities that `_inverted` adds up in one pass of its loop


def as_sizes(numbers: Sequence[int] | IntArray) -> FloatArray:
    """Convert numbers of cells (>= 0) to doubles, shape (groups,). Numbers too large for doubles become infinite."""
    try:
        sizes = np.asarray(numbers, np.float64)
    except OverflowError:
        sizes = np.array([float(n) if n < 2**1000 else math.inf for n in numbers])
    except (TypeError, ValueError):
        raise_alone(DeclarationError(f"numbers of cells must be whole numbers, got {shown(numbers)}"))
    if sizes.min(initial=0.0) < 0:
        raise InputError("a number of cells cannot be negative")
    return sizes


def binomial(numbers: Sequence[int] | IntArray, log_p: ArrayLike, *, rng: Generator) -> IntArray:
    """Draw a Binomial(n, p) number for each group, given n in `numbers` and ln p in `log_p`; int64, shape (groups,).

    The total variation error is below 1e-12 for means below 1e6. Raise ThresholdError if a mean exceeds 2**31.
    """
    sizes, log_p = as_sizes(numbers), np.atleast_1d(np.asarray(log_p, np.float64))
    flip = log_p > _LOG_HALF
    rarer = np.where(flip, -np.expm1(log_p), np.exp(log_p))
    vast = (sizes > _MANY_TRIALS) & (rarer < _RARE)
    with np.errstate(invalid="ignore"):
        mean = sizes * rarer
    for i in np.flatnonzero(vast).tolist():
        mean[i] = _mean_of(int(numbers[i]), float(log_p[i]))
    if not (np.where(flip, sizes * (1.0 - rarer), mean) <= MOST_SUCCESSES).all():
        raise ThresholdError(f"raise the threshold: the number of cells above it would exceed {MOST_SUCCESSES:.2g}")
    drawn = np.zeros(sizes.size, np.int64)
    small = ~vast & (mean < _LARGE_MEAN)
    drawn[small] = _inverted(sizes[small], rarer[small], rng=rng)
    for i in np.flatnonzero(~small).tolist():
        if vast[i]:
            drawn[i] = poisson(float(mean[i]), 1, rng=rng)[0]
        else:
            drawn[i] = binomial_law(float(sizes[i]), float(rarer[i])).quantile(draw_uniforms(1, rng=rng))[0]
    drawn[flip] = sizes[flip].astype(np.int64) - drawn[flip]
    return drawn


def _inverted(trials: FloatArray, success: FloatArray, *, rng: Generator) -> IntArray:
    """Draw numbers of successes by inversion: add up P[0], P[1], … until the sum exceeds a uniform number."""
    # Compute the probability f(k) of each number k of successes from f(k + 1) / f(k) = rise / (k + 1) - fall.
    fall = success / (1.0 - success)
    rise = (trials + 1.0) * fall
    mass = np.exp(trials * np.log1p(-success))
    uniform, result = rng.random(trials.size), np.zeros(trials.size, np.int64)
    pending, reached, k = np.flatnonzero(uniform >= mass), mass, 0
    uniform, rise, fall, mass, reached = (each[pending] for each in (uniform, rise, fall, mass, reached))
    result[pending] = 1
    while pending.size and k < _FARTHEST:
        ahead = np.arange(k + 1.0, k + 1.0 + _STEPS)[:, np.newaxis]
        masses = mass * np.multiply.accumulate(rise / ahead - fall)
        sums = reached + np.add.accumulate(masses)
        passed = uniform >= sums
        result[pending] += passed.sum(axis=0)
        over, k = np.flatnonzero(passed[-1]), k + _STEPS
        pending = pending[over]
        uniform, rise, fall, mass, reached = (each[over] for each in (uniform, rise, fall, masses[-1], sums[-1]))
    # Rounding errors may push the result above the number of trials, so clamp it to this number.
    return np.minimum(result, trials.astype(np.int64))


def _mean_of(number: int, log_p: float) -> float:
    """Return number * e**log_p, even if `number` is too large for a double."""
    halvings = max(0, number.bit_length() - 900)
    return float(number >> halvings) * math.exp(log_p + math.log(2) * halvings)
