"""The (epsilon, delta) of Poisson noise, for a unit of one key and of many: exact for one, a tight bound for more.

A unit of l keys moves l counts by one each, all the same way, so the two worlds are products of l equal
factors: Poisson(mean) against 1 + Poisson(mean). The privacy loss of one factor at a noisy count of k above the
smaller truth is ln(mean / k) one way and ln(k / mean) the other; delta is the expectation of
1 - e**(epsilon - loss) where that is positive, over the sum of l independent losses. Rényi divergence is
infinite (an output of 0 has probability 0 in one of the worlds), so there is no rho to give.

For several keys the law of one loss is moved to a grid and convolved by a Fourier transform. A pair of worlds at one
loss is split between the two neighbouring points of the grid so that the mass of both worlds stays what it is:
delta is a convex function of each factor's likelihood ratio, so a split can only raise it, and by the square of
the step. The law is tilted towards epsilon (Esscher's transform), so a delta of 1e-30 is as tight as one of 0.1.

A level is 1/mean; epsilon is at least 0, delta lies strictly between 0 and 1, and a unit has one key or more, each
moved by 1 count; anything else raises DeclarationError.

Source: our own derivation; the split is that of Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022, "Connect the
Dots". [ARNP Lemma E.2, Lemma E.3] hold and are 3 to 7 times larger at one key.

Papers: [ARNP Thm E.2, Cor. E.3].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from sparsehist.errors import DeclarationError
from sparsehist.privacy.exact_numbers import probability
from sparsehist.privacy.levels import Level, as_level
from sparsehist.privacy.poisson_pmf import log_poisson_pmf
from sparsehist.typing import ComplexArray, FloatArray

_POINTS = 1 << 17  # of the grid
# Counts farther from the mean than this many powers of e in probability are no longer doubles.
_FARTHEST = 760.0
# Counts a standard deviation is read at; where there are more of them, several are read as one.
_RESOLUTION = 512.0
_EXACT_UP_TO = _RESOLUTION**2
_SKETCH = 512  # counts that are enough to choose a tilt by
# Powers of e below delta at which what is beyond the grid, or too far out to be tilted, is added to it.
_NEGLIGIBLE = 25.0
_TILTED_OFF = 36.0
# What doubles may be off by: in sums and exponentials at all, and in the probabilities of each key.
_NOTHING = 60.0  # powers of e below all of the mass at which a sum ends
_ROUNDING, _ROUNDING_PER_KEY = 1e-11, 1e-13
_STEPS = 50
_SMALLEST = 1e-300  # no bound is below it
_LARGEST_EPSILON = 1e5
_ENOUGH = 1e-12  # how far above the smallest an epsilon may be, relative to it


def is_exact(level: Level, keys: int) -> bool:
    """Whether `delta` is exact to 12 digits; else it is an upper bound."""
    return keys == 1 and _checked(level, 0.0, keys) <= _EXACT_UP_TO


def delta(level: Level, epsilon: float, keys: int = 1) -> float:
    """A delta with which Poisson noise of mean 1/level is (epsilon, delta)-DP: the smallest, or a little more.

    The larger of `delta_removed` and `delta_added`, at most 1. For one key and means up to 2**18 the smallest one to
    12 digits. Else an upper bound, above it by less than 1e-3 of it for up to 1,000 keys down to 1e-30 (1e-6 in the
    median, 1e-9 for two to four keys). Below 1e-40 it may be loose by powers of ten where a count below mean / e
    matters, and it never is below 1e-300.

    Example:
        >>> delta("0.01", 0.5)
        3.568465813234...e-07
    """
    removed = delta_removed(level, epsilon, keys)
    mean = _checked(level, epsilon, keys)
    if keys > 1 and _chernoff(_losses(mean, 1.0), keys, epsilon) <= removed:
        return removed
    return max(removed, delta_added(level, epsilon, keys))


def delta_removed(level: Level, epsilon: float, keys: int = 1) -> float:
    """delta in the direction that sees counts fall: the outputs that only the smaller counts give are its worst."""
    return _delta(_checked(level, epsilon, keys), epsilon, keys, -1.0)


def delta_added(level: Level, epsilon: float, keys: int = 1) -> float:
    """delta in the direction that sees counts rise."""
    return _delta(_checked(level, epsilon, keys), epsilon, keys, 1.0)


def epsilon(target: float, level: Level, keys: int = 1) -> float:
    """An epsilon with which Poisson noise of mean 1/level is (epsilon, target)-DP, as small as `delta` shows.

    Never too small but by rounding; above the smallest by no more than `delta` is.

    Raises:
        DeclarationError: If the target is so small that no epsilon would do: an output that only one of the worlds
            can give has a chance of 1 - (1 - e**-mean)**keys.

    Example:
        >>> epsilon(1e-6, "0.01")
        0.46780587...
    """
    goal = float(probability(target))
    mean = _checked(level, 0.0, keys)
    certain = _certain(math.exp(-mean), keys)
    if goal <= certain:
        raise DeclarationError(
            f"no epsilon gives delta {target!r} with a noise of mean {mean:g} and {keys} keys: an output that only "
            f"one of the worlds can give has a chance of {certain:.3g}"
        )
    found = _epsilon(mean, keys, goal, -1.0)
    if _chernoff(_losses(mean, 1.0), keys, found) <= goal:
        return found
    return max(found, _epsilon(mean, keys, goal, 1.0))


@dataclass(frozen=True, eq=False, repr=False)
class _Losses:
    """The law of one key's loss: ascending losses, ln of their probabilities, and that of an infinite loss."""

    loss: FloatArray
    log_mass: FloatArray
    infinite: float

    def sketch(self) -> _Losses:
        """About the same law at fewer losses: to choose by, never to bound by."""
        every = max(1, self.loss.size // _SKETCH)
        return _Losses(self.loss[::every], self.log_mass[::every] + math.log(every), self.infinite)

    def cumulant(self, tilt: float) -> float:
        """ln of the sum of probability * e**(tilt loss)."""
        powers = self.log_mass + tilt * self.loss
        largest = float(powers.max())
        return largest + math.log(float(np.exp(powers - largest).sum()))

    def tilted(self, tilt: float) -> tuple[float, float]:
        """Mean and variance under a tilt."""
        powers = self.log_mass + tilt * self.loss
        weights = np.exp(powers - powers.max())
        weights /= weights.sum()
        mean = float(weights @ self.loss)
        return mean, float(weights @ (self.loss - mean) ** 2)


@lru_cache(maxsize=4)
def _losses(mean: float, sign: float) -> _Losses:
    """One key's losses where its count rises (1) or falls (-1).

    Where counts lie close together beside the standard deviation, only every s-th of them is kept, and the others'
    mass is shared between the two around them in proportion to the distance. That keeps the mass of both worlds, as
    their ratio is linear in the count. The shares are added up as for a geometric law through the probability and
    slope at the count kept: as the logarithm is concave, nowhere below it.
    """
    step = max(1.0, math.ceil(math.sqrt(mean) / _RESOLUTION))
    first = max(1.0, math.floor(mean - math.sqrt(2.0 * _FARTHEST * mean)))
    last = mean + (_FARTHEST + math.sqrt(_FARTHEST * (_FARTHEST + 18.0 * mean))) / 3.0
    k = np.arange(first, last + 2.0 * step, step)
    log_mass, loss = log_poisson_pmf(k, mean), np.log1p((k - mean) / mean)
    if step > 1.0:
        slope = np.log1p((k + 0.5 - mean) / mean)
        log_mass += math.log(step) + 2.0 * (_log_sinc(step * slope / 2.0) - _log_sinc(slope / 2.0))
    if sign > 0:
        return _Losses(loss, log_mass + loss, 0.0)
    return _Losses(-loss[::-1], log_mass[::-1], math.exp(-mean))


def _log_sinc(x: FloatArray) -> FloatArray:
    """ln(sinh(x)/x), for |x| below a twentieth."""
    square = x * x
    return np.asarray(square * (1 / 6 - square * (1 / 180 - square / 2835)))


def _delta(mean: float, epsilon: float, keys: int, sign: float) -> float:
    if sign < 0 and keys * math.log(mean) <= epsilon:  # the largest loss of falling counts is that of a count of 1
        return _certain(math.exp(-mean), keys)
    if keys == 1:
        law = _losses(mean, sign)
        above = law.loss > epsilon
        chances = np.exp(law.log_mass[above]) * -np.expm1(epsilon - law.loss[above])
        return min(1.0, law.infinite + math.fsum(chances))
    return min(_composed(mean, keys, sign, epsilon).delta(epsilon), _chernoff(_losses(mean, sign), keys, epsilon))


def _epsilon(mean: float, keys: int, goal: float, sign: float) -> float:
    """The smallest epsilon of one direction, and never a smaller one."""
    certain = _certain(math.exp(-mean), keys) if sign < 0 else 0.0
    largest = max(0.0, keys * math.log(mean)) if sign < 0 else math.inf  # from there on nothing but that is lost
    # One law serves all goals nearby: budgets ask for many of them.
    near = _sketched(mean, keys, sign, 2.0 * round(math.log(goal - certain) / 2.0))
    delta_at: Callable[[float], float] = partial(_delta, mean, keys=keys, sign=sign)
    if keys > 1 and near < largest:
        delta_at = _composed(mean, keys, sign, near).delta

    def excess(value: float) -> float:
        return math.log(max((delta_at(value) - certain) / (goal - certain), 1e-300))

    return min(largest, _solved(excess, near))


def _solved(excess: Callable[[float], float], near: float) -> float:
    """The smallest epsilon found at which a falling function is not above 0: by secants from a place nearby."""
    value, found = near, excess(near)
    other = 1.001 * near + 1e-6
    before = excess(other)
    for _ in range(_STEPS):
        slope = (found - before) / (value - other)
        step = -found / slope if slope < 0.0 else math.copysign(0.1 * value + 1e-3, found)
        if found <= 0.0 and (value == 0.0 or abs(step) <= _ENOUGH * value):
            return value
        other, before = value, found
        if abs(step) <= _ENOUGH * value:
            step += 0.5 * _ENOUGH * value
        value = max(0.0, value + min(max(step, -0.5 * value), value + 1.0))
        value = 0.0 if value < 1e-12 else value
        found = excess(value)
    while excess(value) > 0.0:
        value = 1.1 * value + 1e-12
        if value > _LARGEST_EPSILON:
            return math.inf
    return value


@lru_cache(maxsize=64)
def _sketched(mean: float, keys: int, sign: float, log_goal: float) -> float:
    """About the epsilon at which the finite losses of `keys` keys give a delta: by the saddle point's formula."""
    law = _losses(mean, sign).sketch()
    low, high, at = -30.0, 60.0, 0.0  # ln of the tilt
    for _ in range(_STEPS):
        middle = (low + high) / 2.0
        at = keys * law.tilted(math.exp(middle))[0]
        low, high = (middle, high) if _log_saddle(law, keys, at, math.exp(middle)) > log_goal else (low, middle)
    return max(at, 0.0)


def _log_saddle(law: _Losses, keys: int, epsilon: float, tilt: float) -> float:
    """About ln of delta's finite part, at the tilt whose mean loss is epsilon."""
    spread = math.sqrt(2.0 * math.pi * keys * law.tilted(tilt)[1])
    return keys * law.cumulant(tilt) - tilt * epsilon - math.log1p(tilt * (tilt + 1.0) * spread)


def _saddle(law: _Losses, keys: int, epsilon: float) -> float:
    """The tilt under which the losses add up to epsilon on average, or 0 where they add up to more without one."""
    if keys * law.tilted(0.0)[0] >= epsilon:
        return 0.0
    low, high = -30.0, 60.0
    for _ in range(_STEPS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if keys * law.tilted(math.exp(middle))[0] < epsilon else (low, middle)
    return math.exp(low)


def _chernoff(law: _Losses, keys: int, epsilon: float) -> float:
    """At least delta: (1 - e**-y)+ is below e**(tilt y) times what it is at most of that."""
    tilt = _saddle(law.sketch(), keys, epsilon)
    least = tilt * math.log1p(1.0 / tilt) + math.log1p(tilt) if tilt > 0.0 else 0.0
    power = keys * law.cumulant(tilt) - tilt * epsilon - least
    return min(1.0, math.exp(min(power, 0.0)) * (1.0 + _ROUNDING) + _certain(law.infinite, keys) + _SMALLEST)


@dataclass(frozen=True, eq=False, repr=False)
class _Composed:
    """The tilted law of the sum of several keys' losses, on a grid: never less of it than there is.

    Attributes:
        first: The lowest point of the grid.
        step: Between points.
        mass: Of the points, tilted; shape (n,).
        tilt: Of the mass, which is to be multiplied by e**(log_scale - tilt loss).
        log_scale: See there.
        fall: e**(-tilt j step) from j = 0 to where it is negligible; shape (m,).
        stick: fall * (1 - e**(-j step)); shape (m,).
        missing: Probability that is not on the grid; it counts in full.
    """

    first: float
    step: float
    mass: FloatArray
    tilt: float
    log_scale: float
    fall: FloatArray
    stick: FloatArray
    missing: float

    def delta(self, epsilon: float) -> float:
        """An upper bound on delta; tight near the epsilon that the tilt was made for."""
        begin = max(0, math.floor((epsilon - self.first) / self.step) + 1)
        mass = self.mass[begin : begin + self.fall.size]
        if not mass.size:
            return min(1.0, self.missing)
        # The first point is this far above epsilon: 1 - e**-(foot + y) is a sum of two positive terms.
        foot = max(0.0, self.first + self.step * begin - epsilon)
        tilted = math.exp(-_NOTHING) * float(self.mass.sum()) - math.expm1(-foot) * float(
            np.sum(mass * self.fall[: mass.size])
        )
        tilted += math.exp(-foot) * float(np.sum(mass * self.stick[: mass.size]))
        power = self.log_scale - self.tilt * (epsilon + foot) + math.log(max(tilted, _SMALLEST))
        return min(1.0, self.missing + math.exp(min(power, 0.0)))


@lru_cache(maxsize=8)
def _composed(mean: float, keys: int, sign: float, aim: float) -> _Composed:
    from scipy import fft

    law = _losses(mean, sign)
    if sign < 0:
        law = _without_lowest(law, keys, aim)
    sketch = law.sketch()
    tilt = _saddle(sketch, keys, aim)
    spread = math.sqrt(max(keys * sketch.tilted(tilt)[1], 1e-300))
    log_delta = _log_saddle(sketch, keys, aim, tilt)
    # Chernoff's bound at a few slopes: what is above the top counts in full, what is below the bottom is wrapped.
    slopes = np.array([2.0, 4.0, 7.0, 12.0]) / spread
    tops = [(keys * sketch.cumulant(tilt + one) + 2.0 * _NEGLIGIBLE - log_delta) / (tilt + one) for one in slopes]
    slope = float(slopes[int(np.argmin(tops))]) + tilt
    base = keys * sketch.cumulant(tilt)
    bottom = max(-(keys * sketch.cumulant(tilt - one) - base + _TILTED_OFF) / one for one in slopes)
    top, bottom = min(*tops, keys * float(law.loss[-1])), max(bottom, keys * float(law.loss[0]))
    top, bottom = max(top, aim), min(bottom, aim)
    step = (top - bottom + spread * 1e-3) / (_POINTS - 2 * keys - 2)
    tilt = min(tilt, 1.0 / step)  # steeper than the grid: deltas far below 1e-300, where Chernoff's bound serves
    log_missing = keys * (law.cumulant(slope) + slope * step) - slope * (bottom + step * (_POINTS - 1))
    beyond = math.exp(min(log_missing, 0.0)) if top < keys * float(law.loss[-1]) else 0.0

    # The losses of one key, tilted, each split between the points around it.
    scale = law.cumulant(tilt)
    weights = np.exp(law.log_mass + tilt * law.loss - scale)
    felt = weights > 0.0
    weights, loss = weights[felt], law.loss[felt]
    place = np.floor(loss / step)
    above = loss - place * step
    share = np.clip(np.expm1(-above) / math.expm1(-step), 0.0, 1.0)
    here = place.astype(np.int64) % _POINTS
    grid = np.bincount(here, weights * (1.0 - share) * np.exp(-tilt * above), _POINTS)
    grid += np.bincount((here + 1) % _POINTS, weights * share * np.exp(tilt * (step - above)), _POINTS)
    spectrum = fft.rfft(grid)
    power = _to_the(spectrum, keys)
    first = math.floor(bottom / step)
    mass = np.roll(fft.irfft(power, _POINTS), -first)
    error = 2.0**-52 * (16.0 * keys + 200.0) * float(np.abs(power).mean())
    j = step * np.arange(_POINTS if tilt == 0.0 else min(_POINTS, math.ceil(_NOTHING / (tilt * step))))
    fall = np.exp(-tilt * j)
    return _Composed(
        first * step,
        step,
        np.maximum(mass, 0.0) + error,
        tilt,
        keys * scale + math.log1p(_ROUNDING + keys * _ROUNDING_PER_KEY),
        fall,
        fall * -np.expm1(-j),
        _certain(law.infinite, keys) + beyond + _SMALLEST,
    )


def _without_lowest(law: _Losses, keys: int, epsilon: float) -> _Losses:
    """Count the largest losses as infinite where they are too rare to matter: a tilt would raise a peak there.

    Minus the logarithm of the probability of a count below mean / e is concave in its loss, so that a strong tilt
    goes past all of them to a count of 1.
    """
    sketch = law.sketch()
    log_delta = _log_saddle(sketch, keys, epsilon, _saddle(sketch, keys, epsilon))
    beyond = np.cumsum(np.exp(law.log_mass[::-1]))
    rare = int(np.searchsorted(beyond, math.exp(max(log_delta - _NEGLIGIBLE, -740.0)) / keys))
    if rare == 0:
        return law
    kept = law.loss.size - rare
    return _Losses(law.loss[:kept], law.log_mass[:kept], law.infinite + float(beyond[rare - 1]))


def _to_the(base: ComplexArray, exponent: int) -> ComplexArray:
    """Powers by squaring: an error of about `exponent` roundings, and many times faster than logarithms."""
    result = None
    while True:
        if exponent % 2:
            result = base if result is None else result * base
        exponent //= 2
        if not exponent and result is not None:
            return result
        base = base * base


def _certain(infinite: float, keys: int) -> float:
    """Chance that some of the losses is infinite."""
    return -math.expm1(keys * math.log1p(-infinite)) if infinite < 1.0 else 1.0


def _checked(level: Level, epsilon: float, keys: int) -> float:
    if not (math.isfinite(epsilon) and epsilon >= 0):
        raise DeclarationError(f"epsilon must be at least 0 and finite, got {epsilon!r}")
    if keys < 1:
        raise DeclarationError(f"keys must be at least 1, got {keys!r}")
    return float(1 / as_level(level))
