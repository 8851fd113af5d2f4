"""How many cells of each group exceed: binomial numbers, for groups of any size and probabilities as logarithms."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from sparsehist.errors import InputError, ThresholdError
from sparsehist.noise import binomial_poisson
from sparsehist.noise.binomial_poisson import Number

IntArray = NDArray[np.int64]
Sizes = Number
"""Numbers of cells of any size, one entry a group; shape (g,). Secret."""

_LOG_HALF = -math.log(2)
# More successes than this do not fit beside what is drawn for each of them.
MOST_SUCCESSES = 2.0**31


def as_sizes(numbers: Sequence[int] | IntArray) -> Sizes:
    """Read numbers of cells.

    Raises:
        InputError: If one is negative.
    """
    sizes = binomial_poisson.as_number(numbers)
    if sizes.high.min(initial=0.0) < 0:
        raise InputError("a number of cells cannot be negative")
    return sizes


def binomial(sizes: Sizes | Sequence[int] | IntArray, log_p: ArrayLike, *, rng: Generator) -> IntArray:
    """Draw Binomial(n, p) for many (n, p) at once.

    Args:
        sizes: Numbers of trials, of any size; length g.
        log_p: ln p, at most 0, with a small relative error also near 0, where it says how far p is from 1;
            shape (g,).
        rng: Randomness.

    Returns:
        Successes; shape (g,), int64. Given the smaller of p and 1 - p as a double, each is within `count_slack` of
        its law in total variation.

    Raises:
        ThresholdError: If more than 2**31 successes are to be expected.
    """
    trials = sizes if isinstance(sizes, Number) else as_sizes(sizes)
    log_p = np.atleast_1d(np.asarray(log_p, np.float64))
    p = np.exp(log_p)
    expected = float(trials.high @ p)
    if not expected <= MOST_SUCCESSES:
        raise ThresholdError(f"the threshold would let more than {MOST_SUCCESSES:.2g} cells through; raise it")
    flip = np.flatnonzero(log_p > _LOG_HALF)
    p[flip] = -np.expm1(log_p[flip])
    drawn = binomial_poisson.binomial(trials, p, rng=rng)
    # Where successes are the rule, all trials are at most twice as many.
    drawn[flip] = trials.high[flip].astype(np.int64) - drawn[flip]
    return drawn
