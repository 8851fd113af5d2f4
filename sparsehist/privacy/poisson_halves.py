"""E[(1 - e**(epsilon - loss))+] for the sum of two losses whose laws are listed.

Nothing is rounded to a grid and everything is summed from positive terms: the digits are those of the
probabilities. The smaller list is sorted; the larger is only run through.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sparsehist.privacy.poisson_sums import Law

FloatArray = NDArray[np.float64]

_AT_ONCE = 1 << 20


def stick_from_halves(larger: Law, smaller: Law, epsilon: float, tilt: float) -> float:
    """The tilted expectation of e**(-tilt y) (1 - e**-y)+, y the sum of two losses less epsilon.

    Args:
        larger: Losses of some keys and their tilted probabilities, shapes (m,).
        smaller: The same of the other keys; shapes (n,).
        epsilon: Where the kink is.
        tilt: Of the probabilities; at least 0.

    Returns:
        The expectation. What a law lacks in probability, times `most_of_the_stick`, is what it may be short of.

    With y the sums of the sorted half, T(i) is the sum over j >= i of w_j e**(-tilt (y_j - y_i)), and H(i) the
    stick over the same with its foot at y_i, itself a sum of T over the gaps: positive terms only.
    """
    order = np.argsort(smaller[0])
    loss, weight = smaller[0][order], smaller[1][order]
    middle = float(weight @ loss) / float(weight.sum())
    # Clipped powers belong to pairs in opposite far tails, of mass e**-100.
    power = np.exp(np.clip(-tilt * (loss - middle), -650.0, 650.0))
    steeper = power * np.exp(np.clip(middle - loss, -40.0, 40.0))
    plain = _sums_from(weight * power) / power
    gaps = np.diff(loss)
    fallen = np.append(steeper[:-1] * np.exp(-tilt * gaps) * plain[1:] * -np.expm1(-gaps), 0.0)
    stick = _sums_from(fallen) / steeper
    total = 0.0
    for begin in range(0, larger[0].size, _AT_ONCE):
        rest, chance = epsilon - larger[0][begin : begin + _AT_ONCE], larger[1][begin : begin + _AT_ONCE]
        start = np.searchsorted(loss, rest, side="right")
        inside = start < loss.size
        start = start[inside]
        foot = loss[start] - rest[inside]
        reached = stick[start] * np.exp(-foot) - plain[start] * np.expm1(-foot)
        total += float(np.sum(chance[inside] * np.exp(-tilt * foot) * reached))
    return total


def most_of_the_stick(tilt: float) -> float:
    """The largest value of e**(-tilt y) (1 - e**-y)."""
    return math.exp(-tilt * math.log1p(1.0 / tilt)) / (1.0 + tilt) if tilt > 0.0 else 1.0


def _sums_from(terms: FloatArray) -> FloatArray:
    return np.asarray(np.cumsum(terms[::-1])[::-1])
