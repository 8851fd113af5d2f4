"""The privacy loss of one count with Poisson noise, tilted towards an epsilon."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparsehist.privacy.poisson_pmf import log_poisson_pmf

FloatArray = NDArray[np.float64]

# A line this many standard deviations off halves the period, and may cost this many powers of e in cancellation.
_FLOORS, _MOST_CANCELLED = (2.2, 1.6), 3.0


@dataclass(frozen=True)
class Kept:
    """Which counts a tilted law is made of: the smallest, and how many powers of e below the peak."""

    lowest: float = 1.0
    drop: float = 42.0  # e**-42 = 6e-19


ALL, WIDE = Kept(), Kept(drop=600.0)


def saddle(mean: float, loss: float, sign: float, kept: Kept = ALL) -> float:
    """The tilt s >= 0 under which one factor's mean loss is about `loss`, by bisection."""
    low, high = 0.0, 1.0
    while tilted_mean(mean, sign, high, kept) < loss and high < 1e6:
        low, high = high, 2.0 * high
    if low == 0.0 and tilted_mean(mean, sign, 0.0, kept) >= loss:
        return 0.0
    for _ in range(30):
        middle = (low + high) / 2.0
        low, high = (middle, high) if tilted_mean(mean, sign, middle, kept) < loss else (low, middle)
    return high


def line(mean: float, keys: int, epsilon: float, sign: float, kept: Kept = ALL) -> float:
    """Where a line of inversion crosses the axis: the saddle point of M(s)**keys e**(-s epsilon) / (s (s + 1)).

    Right of 0, or between -1 and 0 if epsilon lies below a mean loss that is several standard deviations off: delta
    is then nearly 1, and what it lacks is what can be found without cancellation.
    """
    atoms, log_mass = tilted_atoms(mean, sign, 0.0, kept)
    mass = np.exp(log_mass)
    mean_loss = float(mass @ atoms)
    spread = math.sqrt(keys * float(mass @ (atoms - mean_loss) ** 2))

    def slope(tilt: float) -> float:
        return keys * tilted_mean(mean, sign, tilt, kept) - epsilon - 1.0 / tilt - 1.0 / (tilt + 1.0)

    if epsilon < keys * mean_loss and spread > 3.0:
        return _rising_zero(slope, -1.0 + 1e-9, -1e-9)
    low = high = 1.0 / spread
    while slope(low) > 0.0:
        low /= 2.0
    while slope(high) < 0.0 and high < 1e6:
        high *= 2.0
    best = _rising_zero(slope, low, high)

    def height(tilt: float) -> float:
        scale = float(np.logaddexp.reduce(tilted_atoms(mean, sign, tilt, kept)[1]))
        return keys * scale - tilt * epsilon - math.log(tilt * (tilt + 1.0))

    for floor in _FLOORS:
        if best < floor / spread and height(floor / spread) < height(best) + _MOST_CANCELLED:
            return floor / spread
    return best


def _rising_zero(rising: Callable[[float], float], low: float, high: float) -> float:
    for _ in range(12):
        middle = (low + high) / 2.0
        low, high = (middle, high) if rising(middle) < 0.0 else (low, middle)
    return (low + high) / 2.0


def near_counts(mean: float) -> Kept:
    """Counts of at least mean / e.

    Minus the logarithm of the probability of a smaller one is concave in its loss, so no tilt finds them: a strong
    one goes past all of them to a count of 1, and what lies between is lost.
    """
    return Kept(float(math.ceil(mean / math.e)))


def far_share(mean: float, keys: int, epsilon: float) -> float:
    """At least what outputs with a far count add to delta where counts fall; for one key exactly that.

    The probability of one key's far count times that of the others' losses making up for the rest: Chernoff's bound
    with near counts, or another one far.
    """
    k = np.arange(1.0, near_counts(mean).lowest)
    if not k.size:
        return 0.0
    loss, log_mass = np.log(mean / k), log_poisson_pmf(k, mean)
    if keys == 1:
        above = loss > epsilon
        return float(np.sum(np.exp(log_mass[above]) * -np.expm1(epsilon - loss[above])))
    others = np.exp(_chernoff(mean, keys - 1, epsilon - loss, k[-1] + 1.0))
    mass = np.exp(log_mass)
    another_far = (keys - 1) * float(mass.sum())
    return float(keys * (mass @ np.minimum(others + another_far, 1.0)))


def chernoff(mean: float, keys: int, epsilon: float) -> float:
    """At least the probability that the losses of so many falling counts, each at least 1, exceed epsilon."""
    return math.exp(float(_chernoff(mean, keys, np.array([epsilon]), 1.0)[0]))


def _chernoff(mean: float, keys: int, loss: FloatArray, lowest: float) -> FloatArray:
    """The logarithm of Chernoff's bound for counts of at least `lowest`, the best of a few slopes."""
    k = np.arange(lowest, math.ceil(mean + 40.0 * math.sqrt(mean)) + 1.0)
    slopes = np.append(0.0, np.geomspace(0.1, mean, 60))
    powers = np.multiply.outer(slopes, np.log(mean / k)) + log_poisson_pmf(k, mean)
    moments = keys * np.logaddexp.reduce(powers, axis=1)
    return np.asarray(np.minimum(np.min(moments[:, None] - np.multiply.outer(slopes, loss), axis=0), 0.0))


def tilted_mean(mean: float, sign: float, tilt: float, kept: Kept = ALL) -> float:
    """Mean loss of one key under a tilt."""
    atoms, log_mass = tilted_atoms(mean, sign, tilt, kept)
    weights = np.exp(log_mass - log_mass.max())
    return float(atoms @ weights / weights.sum())


def tilted_atoms(mean: float, sign: float, tilt: float, kept: Kept = ALL) -> tuple[FloatArray, FloatArray]:
    """Losses of one factor, ascending, and ln of (their probability times e**(tilt loss))."""
    # Counts above the smaller truth: of the smaller world k noise, of the larger k - 1; 0 is kept apart.
    shift = 1.0 if sign > 0 else 0.0

    def log_mass(k: FloatArray) -> FloatArray:
        return log_poisson_pmf(k - shift, mean) + tilt * sign * np.log(k / mean)

    # Tilting towards small counts can raise a second peak at 1, so the whole line is probed before a window is cut.
    last = math.ceil(mean + max(tilt, 1.0) + 60.0 * math.sqrt(mean + max(tilt, 1.0)) + 60.0)
    near = np.clip(mean + math.sqrt(mean) * np.linspace(-60.0, 60.0, 1201), 1.0, last)
    probes = np.maximum(np.sort(np.rint(np.concatenate([np.geomspace(1.0, last, 1000), near]))), kept.lowest)
    heights = log_mass(probes)
    high = np.flatnonzero(heights > heights.max() - kept.drop)
    first, last = probes[max(0, high[0] - 1)], probes[min(probes.size - 1, high[-1] + 1)]
    k = np.arange(first, last + 1.0)
    logs = log_mass(k)
    inside = logs > logs.max() - kept.drop
    k, logs = k[inside], logs[inside]
    atoms = np.log1p((k - mean) / mean)
    return (atoms, logs) if sign > 0 else (-atoms[::-1], logs[::-1])
