"""How many cells of each group exceed: binomial numbers, for groups of any size and probabilities as logarithms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sparsehist.errors import InputError, ThresholdError
from sparsehist.noise import binomial_poisson
from sparsehist.noise.binomial_poisson import Number
from sparsehist.typing import ArrayLike, BoolArray, FloatArray, Generator, IntArray, secret

_LOG_HALF = -math.log(2)
# More successes in one group than this are refused. Of cells with a count there are never so many in memory; of the
# empty ones a series refuses half as many to be expected, by public numbers. So no refusal tells a secret size.
MOST_SUCCESSES = 2.0**31
# Larger numbers of cells are halved until they have so many bits. As at most 2**31 successes are expected, half the
# cells at twice the probability have the same law but for 2**-860 in total variation: both are Poisson up to p.
_MOST_BITS = 900


@secret
class Sizes(NamedTuple):
    """Numbers of cells of any size, one entry per group. Secret.

    Attributes:
        number: What is left of each after its halvings; shape (g,).
        halvings: How often it was halved, 0 below 2**900; shape (g,).
    """

    number: Number
    halvings: FloatArray

    @property
    def high(self) -> FloatArray:
        """The nearest doubles, infinite beyond them; shape (g,)."""
        with np.errstate(over="ignore"):
            return np.ldexp(self.number.high, self.halvings.astype(np.int64))

    def without(self, left_out: BoolArray) -> Sizes:
        """The same with 0 where `left_out` says so."""
        return Sizes(self.number.without(left_out), self.halvings)


def as_sizes(numbers: Sequence[int] | IntArray) -> Sizes:
    """Read numbers of cells, at least 0."""
    halvings = np.zeros(len(numbers))
    if not isinstance(numbers, np.ndarray):
        large = {i: int(n).bit_length() - _MOST_BITS for i, n in enumerate(numbers) if n >= 1 << _MOST_BITS}
        if large:
            halvings[list(large)] = list(large.values())
            numbers = [int(n) >> large.get(i, 0) for i, n in enumerate(numbers)]
    number = binomial_poisson.as_number(numbers)
    if number.high.min(initial=0.0) < 0:
        raise InputError("a number of cells cannot be negative")
    return Sizes(number, halvings)


def binomial(sizes: Sizes | Sequence[int] | IntArray, log_p: ArrayLike, *, rng: Generator) -> IntArray:
    """Draw Binomial(n, p) for many (n, p) at once; shape (g,), int64.

    `log_p` has a small relative error also near 0, where it says how far p is from 1. Given the smaller of p and 1 -
    p as a double, each number is within `count_slack` of its law in total variation.

    Raises:
        ThresholdError: If more than 2**31 successes are to be expected in one group.
    """
    trials, halvings = sizes if isinstance(sizes, Sizes) else as_sizes(sizes)
    log_p = np.atleast_1d(np.asarray(log_p, np.float64))
    with np.errstate(over="ignore"):
        p = np.exp(log_p + math.log(2) * halvings)
        expected = float(np.max(trials.high * p, initial=0.0))
    if not expected <= MOST_SUCCESSES:
        raise ThresholdError(f"the threshold would let more than {MOST_SUCCESSES:.2g} cells through; raise it")
    flip = np.flatnonzero(log_p > _LOG_HALF)
    p[flip] = -np.expm1(log_p[flip])
    drawn = binomial_poisson.binomial(trials, p, rng=rng)
    # Where successes are the rule, all trials are at most twice as many.
    drawn[flip] = trials.high[flip].astype(np.int64) - drawn[flip]
    return drawn
