"""The exact (epsilon, delta) of Poisson noise, for a unit of one key and of many.

A unit of l keys moves l counts by one each, all the same way, so the two worlds are products of l equal
factors: Poisson(mean) against 1 + Poisson(mean). The privacy loss of one factor at a noisy count of k above the
smaller truth is ln(mean / k) one way and ln(k / mean) the other; delta is the expectation of
1 - e**(epsilon - loss) where that is positive, over the sum of l independent losses. Rényi divergence is
infinite (an output of 0 has probability 0 in one of the worlds), so there is no rho to give.

The losses are tilted towards epsilon, so that a delta of 1e-30 has as many digits as one of 0.1: listed and summed
from positive terms where they are few, else found by inversion along a line through the saddle point.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from sparsehist.errors import DeclarationError
from sparsehist.privacy import gaussian
from sparsehist.privacy.crossing import crossing
from sparsehist.privacy.exact import probability
from sparsehist.privacy.levels import Level, as_level
from sparsehist.privacy.poisson_routes import hockey_stick

_COARSE = 1 << 14  # finds epsilon to six digits or more
_SMALLEST = 5e-324


@lru_cache(maxsize=256)
def delta(level: Level, epsilon: float, keys: int = 1, *, grid: int | None = None) -> float:
    """The smallest delta with which Poisson noise of mean 1/level is (epsilon, delta)-DP.

    Args:
        level: 1/mean; positive.
        epsilon: At least 0.
        keys: Keys of a unit, each moved by 1 count.
        grid: Points of the line of inversion, for five keys or more, if fewer digits will do: 2**14 give six in
            50 ms where deltas are not tiny. By default as many digits as can be had in about two seconds.

    Returns:
        The larger of `delta_removed` and `delta_added`. To 12 digits by sums of positive terms for up to four keys,
        and for more where the sums of half of the keys are few: five and six keys to means near 300 and 150, eight
        to 30, twelve to 10, twenty to 3, fifty to 1. Else to 12 digits by inversion, with bounds that prove it
        where most of these sums can be listed, and with an estimate from what the last points add where not.
        Where neither reaches 12 digits (twelve keys and more at means near 5 to 50, most of all far below 1e-30)
        it is an upper bound, above delta by 1e-9 of it at most. Five keys and more, means from 150 on and deltas
        below 1e-30: where counts below mean / e matter, a bound by Chernoff's method, above by powers of ten.

    Source: our own derivation; Andersson et al., Lemmas E.2 and E.3, hold and are 3 to 7 times larger.

    Example:
        >>> delta("0.01", 0.5)
        3.568465813234...e-07
    """
    directions: tuple[Callable[..., float], ...] = (delta_removed, delta_added)
    if grid is None and keys > 4:
        # Both at full length only where a short line cannot tell which is the larger.
        short = [direction(level, epsilon, keys, grid=_COARSE) for direction in directions]
        directions = tuple(one for one, value in zip(directions, short, strict=True) if value >= 0.99 * max(short))
    return max(direction(level, epsilon, keys, grid=grid) for direction in directions)


@lru_cache(maxsize=256)
def epsilon(target: float, level: Level, keys: int = 1) -> float:
    """The smallest epsilon with which Poisson noise of mean 1/level is (epsilon, target)-DP.

    Args:
        target: delta, strictly between 0 and 1.
        level: 1/mean; positive.
        keys: Keys of a unit, each moved by 1 count.

    Returns:
        epsilon, at least 0; to the digits of `delta`, as far as delta depends on it.

    Raises:
        DeclarationError: If the target is no probability, or so small that no epsilon would do: an output that only
            one of the worlds can give has a chance of 1 - (1 - e**-mean)**keys.

    Example:
        >>> epsilon(1e-6, "0.01")
        0.46780587232...
    """
    goal = float(probability(target))
    mean = _checked(level, 0.0, keys)
    if goal <= _certain(mean, keys):
        raise DeclarationError(
            f"no epsilon gives delta {target!r} with a noise of mean {mean:g} and {keys} keys: an output that only "
            f"one of the worlds can give has a chance of {_certain(mean, keys):.3g}"
        )
    # A short line tells unless it is close.
    if delta(level, 0.0, keys, grid=_COARSE) < 1.01 * goal and delta(level, 0.0, keys) <= goal:
        return 0.0

    def excess(one: Callable[..., float], value: float, grid: int | None = None) -> float:
        return math.log(max(one(level, value, keys, grid=grid), _SMALLEST) / goal)

    # Gaussian noise of the same variance has an epsilon of the same size.
    near, factor = max(gaussian.epsilon(goal, keys / (2.0 * mean)), 1e-3 / math.sqrt(mean)), 1.3
    # One direction is nearly always the worse by far: the other is asked once.
    worse, other = delta_removed, delta_added
    if worse(level, near, keys, grid=_COARSE) < other(level, near, keys, grid=_COARSE):
        worse, other = other, worse
    answer = None
    if keys > 4:
        near, factor = _solved(lambda value: excess(worse, value, _COARSE), near, factor, 1e-8), 1.0 + 1e-5
        answer = _stepped(lambda value, grid=None: excess(worse, value, grid), near)
    answer = answer or _solved(lambda value: excess(worse, value), near, factor, 1e-13)
    if keys > 4 and other(level, answer, keys, grid=_COARSE) < 0.99 * goal:
        return answer
    if other(level, answer, keys) <= goal:
        return answer
    return _solved(lambda value: excess(other, value), answer, factor, 1e-13)


def _stepped(falling: Callable[..., float], near: float) -> float | None:
    """Zero of a falling function by steps along the slope that a coarse grid gives; None if they do not settle."""
    apart = 1e-4 * near
    slope = (falling(near + apart, _COARSE) - falling(near - apart, _COARSE)) / (2.0 * apart)
    answer, last = near, math.inf
    for _ in range(4):
        if not slope < 0.0:
            return None
        step = falling(answer) / slope
        if not abs(step) < min(last, 1e-3 * near):
            return None
        answer, last = answer - step, 0.1 * abs(step)
        if abs(step) < 1e-10 * near:  # the slope has three digits: what is left is below 1e-13
            return answer
    return None


def _solved(falling: Callable[[float], float], near: float, factor: float, tolerance: float) -> float:
    """Zero of a falling function, sought between two values about a near one."""
    low, high = near / factor, near * factor
    while falling(low) < 0.0:
        factor *= factor
        low, high = (low / factor, low) if low > 1e-12 else (0.0, low)
    while falling(high) > 0.0:
        factor *= factor
        low, high = high, high * factor
    return crossing(falling, low, high, tolerance=tolerance)


def delta_removed(level: Level, epsilon: float, keys: int = 1, *, grid: int | None = None) -> float:
    """delta in the direction that sees counts fall: the outputs that only the smaller counts give are its worst.

    Raises:
        DeclarationError: If epsilon is negative or not finite, or keys is below 1.
    """
    mean = _checked(level, epsilon, keys)
    certain = _certain(mean, keys)
    return certain + hockey_stick(mean, epsilon, keys, grid, sign=-1.0, floor=certain)


def delta_added(level: Level, epsilon: float, keys: int = 1, *, grid: int | None = None) -> float:
    """delta in the direction that sees counts rise.

    Raises:
        DeclarationError: If epsilon is negative or not finite, or keys is below 1.
    """
    return hockey_stick(_checked(level, epsilon, keys), epsilon, keys, grid, sign=1.0, floor=0.0)


def _certain(mean: float, keys: int) -> float:
    """Chance that some count has a noise of 0, which cannot come from the larger truth: all of that mass is lost."""
    return -math.expm1(keys * math.log1p(-math.exp(-mean))) if mean < 700 else 0.0


def _checked(level: Level, epsilon: float, keys: int) -> float:
    if not (math.isfinite(epsilon) and epsilon >= 0):
        raise DeclarationError(f"epsilon must be at least 0 and finite, got {epsilon!r}")
    if keys < 1:
        raise DeclarationError(f"keys must be at least 1, got {keys!r}")
    return float(1 / as_level(level))
