"""The exact (epsilon, delta) of Poisson noise, for a unit of one key and of many.

A unit of l keys moves l counts by one each, all the same way, so the two worlds are products of l equal
factors: Poisson(mean) against 1 + Poisson(mean). The privacy loss of one factor at a noisy count of k above the
smaller truth is ln(mean / k) one way and ln(k / mean) the other; delta is the expectation of
1 - e**(epsilon - loss) where that is positive, over the sum of l independent losses. Rényi divergence is
infinite (an output of 0 has probability 0 in one of the worlds), so there is no rho to give.

Everything is summed from positive terms, with the losses tilted towards epsilon, so that a delta of 1e-30 has as
many digits as one of 0.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sparsehist.errors import DeclarationError
from sparsehist.privacy import gaussian
from sparsehist.privacy.crossing import crossing
from sparsehist.privacy.exact import probability
from sparsehist.privacy.levels import Level, as_level
from sparsehist.privacy.poisson_pmf import log_poisson_pmf

FloatArray = NDArray[np.float64]

# What is left out of a tilted law: e**-42 = 6e-19.
_DROP = 42.0
# Up to this many sums of half of the factors, nothing needs a grid: six keys at a mean of 250, ten at a mean of 10.
_MOST_SUMS = 5_000_000
# Of these, those with less than this probability are left out: 1e-18 of it all.
_LEAST_MASS = 1e-24
# The law of a few factors is rougher than of many: four times the grid keeps the error below 1e-9 of delta.
_GRID, _FINE_GRID, _FINE_BELOW = 1 << 20, 1 << 22, 20
_COARSE_GRID = 1 << 16  # finds epsilon to three digits
_SMALLEST = 5e-324
_NODES = 8  # an atom is shared out over as many points of the grid, with the moments below that order kept


@lru_cache(maxsize=256)
def delta(level: Level, epsilon: float, keys: int = 1, *, grid: int | None = None) -> float:
    """The smallest delta with which Poisson noise of mean 1/level is (epsilon, delta)-DP.

    Args:
        level: 1/mean; positive.
        epsilon: At least 0.
        keys: Keys of a unit, each moved by 1 count.
        grid: Points of a grid, for five keys or more; a power of two. By default there is none where the sums of
            half of the keys can be listed, and else as many as all digits take (up to a second). 2**16 give four
            digits in 20 ms.

    Returns:
        The larger of `delta_removed` and `delta_added`. To 12 digits without a grid: up to four keys below a mean of
        25,000, six below 250, eight below 30 and ten below 10. To nine digits or more elsewhere: what is missing
        is the part of a step by which the sums next to epsilon stand off the grid.

    Example:
        >>> delta("0.01", 0.5)
        3.568465813234...e-07

    Source: our own derivation; Andersson et al., Lemmas E.2 and E.3, hold and are 3 to 7 times larger.
    """
    return max(delta_removed(level, epsilon, keys, grid=grid), delta_added(level, epsilon, keys, grid=grid))


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
    if delta(level, 0.0, keys) <= goal:
        return 0.0

    def excess(one: Callable[..., float], value: float, grid: int | None = None) -> float:
        return math.log(max(one(level, value, keys, grid=grid), _SMALLEST) / goal)

    # Gaussian noise of the same variance has an epsilon of the same size, and a coarse grid three more digits.
    near, factor = max(gaussian.epsilon(goal, keys / (2.0 * mean)), 1e-3 / math.sqrt(mean)), 1.3
    if keys > 4:
        near, factor = _solved(lambda value: excess(delta, value, _COARSE_GRID), near, factor, 1e-6), 1.0 + 1e-5
    # One direction is nearly always the worse by far: the other is asked once.
    worse, other = delta_removed, delta_added
    if worse(level, near, keys, grid=_COARSE_GRID) < other(level, near, keys, grid=_COARSE_GRID):
        worse, other = other, worse
    answer = _solved(lambda value: excess(worse, value), near, factor, 1e-13)
    if other(level, answer, keys) <= goal:
        return answer
    return _solved(lambda value: excess(delta, value), answer, factor, 1e-13)


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
    return _certain(mean, keys) + _hockey_stick(mean, epsilon, keys, grid, sign=-1.0)


def delta_added(level: Level, epsilon: float, keys: int = 1, *, grid: int | None = None) -> float:
    """delta in the direction that sees counts rise.

    Raises:
        DeclarationError: If epsilon is negative or not finite, or keys is below 1.
    """
    return _hockey_stick(_checked(level, epsilon, keys), epsilon, keys, grid, sign=1.0)


def _certain(mean: float, keys: int) -> float:
    """Chance that some count has a noise of 0, which cannot come from the larger truth: all of that mass is lost."""
    return -math.expm1(keys * math.log1p(-math.exp(-mean))) if mean < 700 else 0.0


def _checked(level: Level, epsilon: float, keys: int) -> float:
    if not (math.isfinite(epsilon) and epsilon >= 0):
        raise DeclarationError(f"epsilon must be at least 0 and finite, got {epsilon!r}")
    if keys < 1:
        raise DeclarationError(f"keys must be at least 1, got {keys!r}")
    return float(1 / as_level(level))


def _hockey_stick(mean: float, epsilon: float, keys: int, grid: int | None, *, sign: float) -> float:
    """E[(1 - e**(epsilon - loss))+] over outputs possible in both worlds."""
    if sign < 0 and keys * math.log(mean) <= epsilon:
        return 0.0  # the largest loss of falling counts is that of a count of 1
    tilt = _saddle(mean, epsilon / keys, sign)
    atoms, log_mass = _tilted_atoms(mean, sign, tilt)
    scale = np.logaddexp.reduce(log_mass)
    mass = np.exp(log_mass - scale)
    if keys == 1 or atoms.size == 1:
        value = _stick(keys * atoms, mass, epsilon, tilt)
    elif (grid is None or keys <= 4) and _number_of_sums(atoms.size, keys - keys // 2) <= _MOST_SUMS:
        value = _from_halves(atoms, mass, keys, epsilon, tilt)
    else:
        size = grid or (_FINE_GRID if keys < _FINE_BELOW else _GRID)
        value = _on_a_grid(atoms, mass, keys, epsilon, tilt, size)
    return float(value * math.exp(keys * scale - tilt * epsilon))


def _saddle(mean: float, loss: float, sign: float) -> float:
    """The tilt s >= 0 under which one factor's mean loss is about `loss`, by bisection."""
    low, high = 0.0, 1.0
    while _tilted_mean(mean, sign, high) < loss and high < 1e6:
        low, high = high, 2.0 * high
    if low == 0.0 and _tilted_mean(mean, sign, 0.0) >= loss:
        return 0.0
    for _ in range(30):
        middle = (low + high) / 2.0
        low, high = (middle, high) if _tilted_mean(mean, sign, middle) < loss else (low, middle)
    return high


def _tilted_mean(mean: float, sign: float, tilt: float) -> float:
    atoms, log_mass = _tilted_atoms(mean, sign, tilt)
    weights = np.exp(log_mass - log_mass.max())
    return float(atoms @ weights / weights.sum())


def _tilted_atoms(mean: float, sign: float, tilt: float) -> tuple[FloatArray, FloatArray]:
    """Losses of one factor, ascending, and ln of (their probability times e**(tilt loss))."""
    # Counts above the smaller truth: of the smaller world k noise, of the larger k - 1; 0 is kept apart.
    shift = 1.0 if sign > 0 else 0.0

    def log_mass(k: FloatArray) -> FloatArray:
        return log_poisson_pmf(k - shift, mean) + tilt * sign * np.log(k / mean)

    # Tilting towards small counts can raise a second peak at 1, so the whole line is probed before a window is cut.
    last = math.ceil(mean + max(tilt, 1.0) + 60.0 * math.sqrt(mean + max(tilt, 1.0)) + 60.0)
    near = np.clip(mean + math.sqrt(mean) * np.linspace(-60.0, 60.0, 1201), 1.0, last)
    probes = np.sort(np.rint(np.concatenate([np.geomspace(1.0, last, 1000), near])))
    heights = log_mass(probes)
    high = np.flatnonzero(heights > heights.max() - _DROP)
    first, last = probes[max(0, high[0] - 1)], probes[min(probes.size - 1, high[-1] + 1)]
    k = np.arange(first, last + 1.0)
    logs = log_mass(k)
    inside = logs > logs.max() - _DROP
    k, logs = k[inside], logs[inside]
    atoms = np.log1p((k - mean) / mean)
    return (atoms, logs) if sign > 0 else (-atoms[::-1], logs[::-1])


def _stick(loss: FloatArray, mass: FloatArray, epsilon: float, tilt: float) -> float:
    """Sum of mass * e**(-tilt (loss - epsilon)) * (1 - e**(epsilon - loss)) over losses above epsilon."""
    above = loss > epsilon
    excess = loss[above] - epsilon
    return float(np.sum(mass[above] * np.exp(-tilt * excess) * -np.expm1(-excess)))


def _from_halves(atoms: FloatArray, mass: FloatArray, keys: int, epsilon: float, tilt: float) -> float:
    """A few factors: every sum of one half against the part of the other that lies above, no grid.

    With y the losses of the larger half, T(i) is the sum over j >= i of w_j e**(-tilt (y_j - y_i)), and H(i) the
    stick over the same with its foot at y_i, itself a sum of T over the gaps: positive terms only.
    """
    few, (loss, weight) = _sums_of(atoms, mass, keys // 2), _sums_of(atoms, mass, keys - keys // 2)
    middle = float(weight @ loss)
    # Clipped powers belong to pairs in opposite far tails, of mass e**-100.
    power = np.exp(np.clip(-tilt * (loss - middle), -650.0, 650.0))
    steeper = power * np.exp(np.clip(middle - loss, -40.0, 40.0))
    plain = _sums_from(weight * power) / power
    gaps = np.diff(loss)
    fallen = np.append(steeper[:-1] * np.exp(-tilt * gaps) * plain[1:] * -np.expm1(-gaps), 0.0)
    stick = _sums_from(fallen) / steeper
    start = np.searchsorted(loss, epsilon - few[0], side="right")
    inside = start < loss.size
    start = start[inside]
    foot = loss[start] - (epsilon - few[0][inside])
    reached = stick[start] * np.exp(-foot) - plain[start] * np.expm1(-foot)
    return float(np.sum(few[1][inside] * np.exp(-tilt * foot) * reached))


def _sums_from(terms: FloatArray) -> FloatArray:
    return np.asarray(np.cumsum(terms[::-1])[::-1])


def _number_of_sums(atoms: int, factors: int) -> int:
    return math.comb(atoms + factors - 1, factors)


def _sums_of(atoms: FloatArray, mass: FloatArray, factors: int) -> tuple[FloatArray, FloatArray]:
    """Every sum of so many atoms, ascending, with its probability; one entry for all orders of the same atoms."""
    loss, weight = atoms, mass
    last, run = np.arange(atoms.size), np.ones(atoms.size, np.int64)
    for factor in range(2, factors + 1):
        # Each multiset is continued by its last atom or a later one.
        choices = atoms.size - last
        begun = np.repeat(np.arange(last.size), choices)
        following = np.arange(begun.size) - np.repeat(np.cumsum(choices) - choices, choices) + last[begun]
        again = np.where(following == last[begun], run[begun] + 1, 1)
        product = weight[begun] * mass[following] * (factor / again)
        kept = product > _LEAST_MASS
        last, run, weight = following[kept], again[kept], product[kept]
        loss = loss[begun[kept]] + atoms[last]
    order = np.argsort(loss)
    return loss[order], weight[order]


def _on_a_grid(atoms: FloatArray, mass: FloatArray, keys: int, epsilon: float, tilt: float, size: int) -> float:
    """Many factors: the l-fold convolution by a Fourier transform, on a grid that has epsilon among its points.

    Each atom is shared out over the neighbouring points with all moments below the eighth kept. The law of five
    or more factors is smooth at the scale of the grid, so what is left is Euler's and Maclaurin's correction for
    the kink of the stick, a twelfth of a step times the mass there.
    """
    mean_loss = float(mass @ atoms)
    spread = math.sqrt(float(mass @ (atoms - mean_loss) ** 2))
    width = 2.0 * (math.sqrt(2.0 * _DROP * keys) * spread + 2.0 * float(np.max(np.abs(atoms - mean_loss))))
    step = width / size
    to_kink = round((epsilon - keys * mean_loss) / step)
    centre = (epsilon - to_kink * step) / keys
    place = (atoms - centre) / step
    left = np.floor(place).astype(np.int64) - (_NODES // 2 - 1)
    offset = place - left
    grid = np.zeros(size)
    for node in range(_NODES):
        others = [other for other in range(_NODES) if other != node]
        share = np.prod([(offset - other) / (node - other) for other in others], axis=0)
        grid += np.bincount((left + node) % size, mass * share, size)
    folded = np.asarray(np.fft.irfft(np.fft.rfft(grid) ** keys, size), np.float64)
    offsets = np.asarray(np.fft.fftfreq(size, 1.0 / size), np.float64)
    at_kink = folded[to_kink % size] if abs(to_kink) < size // 2 else 0.0
    excess = (offsets - to_kink) * step
    return _stick(excess, folded, 0.0, tilt) + step / 12.0 * float(at_kink)
