"""How often integer noise that exceeds now stayed within an earlier history: by Fourier transforms on the lattice.

Read from the finest level to the coarsest, the noise of a cell is a Markov chain with independent increments, whose
laws have simple transforms. Everything is divided by the probability of exceeding now, which the family knows to
full relative precision: what is left is a conditional probability, of which an absolute error of 1e-13 is enough,
since the sum it goes into is at least as large as what it was divided by. So that a transform keeps that precision
however rare the exceedance is, the chain up to the new level is tilted (Esscher's transform) until it exceeds
often, and the tilt is taken out again at the new level.

Source: our own derivation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from sparsehist.noise.discrete_laplace import DiscreteLaplace
from sparsehist.noise.poisson import Poisson, poisson_mean
from sparsehist.noise.skellam import Skellam
from sparsehist.typing import ComplexArray, FloatArray

LatticeFamily = DiscreteLaplace | Poisson | Skellam

_REACH = 10.0  # standard deviations; with the allowance, Poisson tails beyond are below 1e-18
_ALLOWANCE = 60.0
_DECAY = 36.0  # e**-36 = 2e-16
_RARITY = 5.0  # a tilted discrete Laplace chain exceeds with about e**-5, for a fifth of the points
# Points of a transform times levels: some 5 ms. Beyond, the levels farthest off are left out.
_MOST_WORK = 1 << 16


class _Waves(NamedTuple):
    """cos w - 1 and sin w at the frequencies of a transform, without cancellation."""

    cosine_less_1: FloatArray
    sine: FloatArray


class _Chain(NamedTuple):
    """The tilted chain: its increments, where it is centred at each level, and how far it may be from there."""

    transform: Callable[[Fraction | None, Fraction, float, _Waves], ComplexArray]
    centre: Callable[[Fraction], int]
    tilt: float
    width: float


def conditional_survival(family: LatticeFamily, upper: Mapping[Fraction, int], level: Fraction, margin: int) -> float:
    """P[Z(j) <= upper[j] for all j | Z(level) > margin], by past level; `level` may lie among them, or be one.

    With an absolute error of about 1e-13; an upper bound where the noise spreads over so many whole numbers that not
    all levels can be listed (standard deviations of some 500), and 1 beyond some 1,500.

    Example:
        >>> round(conditional_survival(Poisson(), {Fraction(1): 0}, Fraction(1, 2), 0), 12)  # P[N(1) = 0 | N(2) > 0]
        0.26894142137
    """
    from scipy import fft

    if upper.get(level, margin + 1) <= margin:
        return 0.0
    affordable = _affordable(family, upper, level, margin)
    if affordable is None:
        return 1.0
    nearest, chain = affordable
    finer = sorted((known for known in nearest if known > level), reverse=True)
    coarser = sorted((known for known in nearest if known < level), reverse=True)
    size = fft.next_fast_len(math.ceil(2 * chain.width + 2), real=True)
    number = np.arange(size // 2 + 1)
    waves = _Waves(-2 * np.sin(math.pi * number / size) ** 2, np.sin(2 * math.pi * number / size))

    def moved(spectrum: ComplexArray, start: Fraction | None, end: Fraction, tilt: float) -> ComplexArray:
        shift = chain.centre(end) - (0 if start is None else chain.centre(start))
        # The conjugate: Fourier transforms take e**-iwz, characteristic functions e**iwz.
        factor = np.conj(chain.transform(start, end, tilt, waves))
        if shift:
            factor *= np.exp(2j * math.pi / size * ((number * (shift % size)) % size))
        return np.asarray(factor * spectrum)

    place = np.arange(size)
    place[place > size // 2] -= size
    spectrum, known = np.ones(size // 2 + 1, complex), None
    for step in finer:
        inside = fft.irfft(moved(spectrum, known, step, chain.tilt), size)
        inside[chain.centre(step) + place > upper[step]] = 0.0
        spectrum, known = fft.rfft(inside), step
    beyond = chain.centre(level) + place - margin
    weight = np.exp(-chain.tilt * np.maximum(beyond - 1, 0)) * (beyond > 0)
    free = fft.irfft(moved(np.ones_like(spectrum), None, level, chain.tilt), size) * weight
    inside = fft.irfft(moved(spectrum, known, level, chain.tilt), size) * weight / float(free.sum())
    if level in nearest:
        inside[beyond > upper[level] - margin] = 0.0
    known = level
    for step in coarser:
        inside = fft.irfft(moved(fft.rfft(inside), known, step, 0.0), size)
        inside[chain.centre(step) + place > upper[step]] = 0.0
        known = step
    return min(1.0, max(0.0, float(inside.sum())))


def leaves_out(family: LatticeFamily, upper: Mapping[Fraction, int], level: Fraction, margin: int) -> bool:
    """Whether `conditional_survival` leaves levels out, so that it is an upper bound."""
    affordable = _affordable(family, upper, level, margin)
    return affordable is None or len(affordable[0]) < len(upper)


def _affordable(
    family: LatticeFamily, upper: Mapping[Fraction, int], level: Fraction, margin: int
) -> tuple[list[Fraction], _Chain] | None:
    """The past levels that a transform has room for, nearest first, and their chain; None if it has not even one."""
    nearest = sorted(upper, key=lambda known: max(known / level, level / known))
    chain = _chain(family, level, min([level, *nearest]), margin)
    while 2.0 * chain.width * (len(nearest) + 1) > _MOST_WORK:
        if not nearest:
            return None
        nearest.pop()
        chain = _chain(family, level, min([level, *nearest]), margin)
    return nearest, chain


def _chain(family: LatticeFamily, level: Fraction, coarsest: Fraction, margin: int) -> _Chain:
    if isinstance(family, DiscreteLaplace):
        return _discrete_laplace(family, level, coarsest, margin)
    return _poisson(level, coarsest, margin, negative=isinstance(family, Skellam))


def _poisson(level: Fraction, coarsest: Fraction, margin: int, *, negative: bool) -> _Chain:
    """Poisson processes, or differences of two: tilted, they are Poisson processes of other rates."""
    mean, latest = float(poisson_mean(level)), float(poisson_mean(coarsest))
    target = (margin + 1) / mean
    tilt = max(0.0, math.asinh(target / 2) if negative else math.log(max(target, 1.0)))

    def rates(tilt: float) -> tuple[float, float]:
        return math.exp(tilt), math.exp(-tilt) if negative else 0.0

    def transform(start: Fraction | None, end: Fraction, tilt: float, waves: _Waves) -> ComplexArray:
        time = float(poisson_mean(end) - (0 if start is None else poisson_mean(start)))
        up, down = rates(tilt)
        return np.asarray(np.exp(time * ((up + down) * waves.cosine_less_1 + 1j * (up - down) * waves.sine)))

    def centre(known: Fraction) -> int:
        time = float(poisson_mean(known))
        (up, down), (later_up, later_down) = rates(tilt), rates(0.0)
        return round(min(time, mean) * (up - down) + max(0.0, time - mean) * (later_up - later_down))

    up, down = rates(tilt)
    spread = math.sqrt(mean * (up + down)) + math.sqrt((latest - mean) * (2.0 if negative else 1.0))
    return _Chain(transform, centre, tilt, _REACH * spread + 2 * _ALLOWANCE)


def _discrete_laplace(family: DiscreteLaplace, level: Fraction, coarsest: Fraction, margin: int) -> _Chain:
    """The transform is (1-a)**2 / ((1 - a e**s)(1 - a e**-s)), a = e**-rate; an increment is a quotient of two."""
    rate, slowest = float(family.rate(level)), float(family.rate(coarsest))
    beyond = max(0, margin + 1)
    left = 1 / (beyond / _RARITY + 1 / rate)  # the rate that the tilt leaves
    tilt = rate - left

    def denominator(known: Fraction, tilt: float, waves: _Waves) -> ComplexArray:
        """At s = tilt + iw, over itself at s = tilt."""
        decay = float(family.rate(known))
        share = 2 * math.exp(-decay) / (math.expm1(tilt - decay) * math.expm1(-tilt - decay))
        real = 1.0 - share * math.cosh(tilt) * waves.cosine_less_1
        return np.asarray(real - 1j * share * math.sinh(tilt) * waves.sine)

    def transform(start: Fraction | None, end: Fraction, tilt: float, waves: _Waves) -> ComplexArray:
        above = 1.0 if start is None else denominator(start, tilt, waves)
        return np.asarray(above / denominator(end, tilt, waves))

    width = _DECAY / left + _DECAY / slowest + _ALLOWANCE
    return _Chain(transform, lambda _: 0, tilt, width)
