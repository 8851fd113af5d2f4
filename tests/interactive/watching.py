"""Compute the exact distribution of one epoch of multiplicative weights, by enumeration of the threshold noise."""

from __future__ import annotations

import math

import numpy as np


def pmf(rate, values):
    """Return the probability function of discrete Laplace noise, which falls by e^-rate per integer."""
    a = math.exp(-rate)
    return (1 - a) / (1 + a) * a ** np.abs(values)


def at_least(rate, least):
    """Return P[noise >= least] of discrete Laplace noise, for real `least`."""
    a, least = math.exp(-rate), np.ceil(least)
    return np.where(least > 0, a ** np.maximum(least, 0) / (1 + a), 1 - a ** np.maximum(1 - least, 0) / (1 + a))


def epoch(gaps, threshold, watch, *, checks=4):
    """Return P[high first] and P[low first] for each query, then P[neither]; `gaps` are guesses minus true answers.

    The threshold noise has scale 2 / watch, and the noise of each check has scale `checks` / watch, if a privacy unit
    changes a query by at most 1.
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
    """Return the probabilities that the first query of a session is high, low or near."""
    return epoch([gap], int(parameters.threshold), float(parameters.levels[0]), checks=checks)
