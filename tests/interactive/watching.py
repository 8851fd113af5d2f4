"""The law of one epoch of multiplicative weights, by enumeration over the noise of the threshold."""

from __future__ import annotations

import math

import numpy as np


def pmf(rate, values):
    """Of discrete Laplace noise that falls by e^-rate."""
    a = math.exp(-rate)
    return (1 - a) / (1 + a) * a ** np.abs(values)


def at_least(rate, least):
    """P[noise >= least], for real limits."""
    a, least = math.exp(-rate), np.ceil(least)
    return np.where(least > 0, a ** np.maximum(least, 0) / (1 + a), 1 - a ** np.maximum(1 - least, 0) / (1 + a))


def epoch(gaps, threshold, watch, *, checks=4):
    """P[high first, low first at question j] for each j, then P[neither ever]; guesses less truths are given.

    The threshold has noise of scale 2 / watch, each check of `checks` / watch, for units that move a question by 1.
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
    """P[high], P[low] and P[near] of the first question of a session."""
    return epoch([gap], int(parameters.threshold), float(parameters.levels[0]), checks=checks)
