"""Compute the exact outcome probabilities of multiplicative weights up to the first measured query."""

from __future__ import annotations

import math

import numpy as np


def pmf(rate, values):
    """Return the probability function of discrete Laplace noise with this decay rate."""
    a = math.exp(-rate)
    return (1 - a) / (1 + a) * a ** np.abs(values)


def at_least(rate, least):
    """Return P[noise >= least] for discrete Laplace noise, where `least` may be any real number."""
    a, least = math.exp(-rate), np.ceil(least)
    return np.where(least > 0, a ** np.maximum(least, 0) / (1 + a), 1 - a ** np.maximum(1 - least, 0) / (1 + a))


def epoch(gaps, threshold, watch, *, checks=4):
    """Return the probability of every possible first measurement, and then the probability that no query is measured.

    A query is measured if its hypothesis answer is found too high or too low, so the result has two entries per query
    and a last entry. `gaps` are hypothesis answers minus true answers; a privacy unit changes each by at most 1. All
    comparisons before a measurement cost epsilon `watch`: the noise of the threshold has scale 2 / watch, and the
    noise of each comparison has scale `checks` / watch.
    """
    span = math.ceil(80 / watch)
    noise = np.arange(-span, span + 1)
    left, law = pmf(watch / 2, noise), []
    for gap in gaps:
        high = at_least(watch / checks, threshold + noise - gap)
        low = at_least(watch / checks, threshold + noise + gap) * (1 - high)
        law += [float(left @ high), float(left @ low)]
        left = left * (1 - high - low)
    return np.array([*law, float(left.sum())])


def checks_of_one_query(parameters, gap, *, checks=4):
    """Return the probabilities that the first query of a session is classified as high, low or near."""
    return epoch([gap], int(parameters.threshold), float(parameters.levels[0]), checks=checks)
