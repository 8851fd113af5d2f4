"""Tests that the stated numerical slack covers the error of computing in doubles, measured in higher precision."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp

from sparsehist.entropy import seeded
from sparsehist.histogram import count_near, grid_step, numerical_slack
from sparsehist.histogram.dense import noise_at_level
from sparsehist.noise import DiscreteLaplace, Family, Gaussian, Laplace, Poisson, Skellam
from sparsehist.noise.integer_laws import _part_given, poisson_law, skellam_law
from tests.noise.exact_integer_laws import DIGITS, distance, poisson_mass, skellam_mass

KEYS = (1, 20, 1000)
EVERY = 10**9  # with this limit, `distance` adds up all entries of a table instead of a sample
OF_CANDIDATES = 1e-12  # slack per key for drawing the number of exceeding cells
# Mean error of noise, in standard deviations: numpy computes noise from random numbers with only 52 or 53 bits.
LATTICE = {Gaussian: 0.8 * 2.0**-52, Laplace: 0.5 * 2.0**-52}


def exact(level: str) -> mp.mpf:
    """Return a level as an mpmath number."""
    return mp.mpf(Fraction(level).numerator) / Fraction(level).denominator


def exact_inverse(family: Family, level: str, p: mp.mpf, near: float) -> mp.mpf:
    """Return z with P[noise > z] = p in high precision, for Gaussian noise by Newton steps that start at `near`."""
    if isinstance(family, Gaussian):
        scale = family.sensitivity / mp.sqrt(2 * exact(level))
        z = mp.mpf(near) / scale
        for _ in range(4):
            z += (mp.erfc(z / mp.sqrt(2)) / 2 - p) / mp.npdf(z)
        return z * scale
    rate = exact(level) / family.sensitivity
    return -mp.log(2 * p) / rate if 2 * p <= 1 else mp.log(2 * (1 - p)) / rate


def off_by_inverse(family: Family, level: str) -> float:
    """Return the mean error, in counts, of noise quantiles, which the package computes in doubles."""
    log_p = -seeded(71).standard_exponential(300)
    found = family.inverse_log_tail(log_p, level)
    with mp.workdps(40):
        pairs = zip(log_p.tolist(), found.tolist(), strict=True)
        return float(np.mean([float(abs(z - exact_inverse(family, level, mp.exp(mp.mpf(p)), z))) for p, z in pairs]))


def real(value: Fraction) -> np.longdouble:
    """Return a fraction as a long double."""
    return np.longdouble(value.numerator) / np.longdouble(value.denominator)


def exact_step(level: Fraction, noise: dict[Fraction, np.ndarray], normals: np.ndarray) -> np.ndarray:
    """Return Gaussian noise at a level, given the noise at the nearest levels, computed in long doubles."""
    a = max((at for at in noise if at < level), default=None)
    b = min((at for at in noise if at > level), default=None)
    if a is None:
        mean = 0 if b is None else noise[b]
        variance = 1 / (2 * level) if b is None else (b - level) / (2 * level * b)
    elif b is None:
        mean, variance = real(a / level) * noise[a], (level - a) / (2 * level**2)
    else:
        weight = a * (b - level) / (level * (b - a))
        mean = real(weight) * noise[a] + real(1 - weight) * noise[b]
        variance = (level - a) * (b - level) / (2 * level**2 * (b - a))
    return mean + normals.astype(np.longdouble) * np.sqrt(real(variance))


def off_by_steps(family: Gaussian, level: str) -> float:
    """Return the largest mean error, in counts, of Gaussian noise drawn conditionally on noise at adjacent levels."""
    rho, size, scale = Fraction(level), 20_000, np.longdouble(family.sensitivity)
    ends = {
        rho / 2: family.sample(size, rho / 2, rng=seeded(74)),
        rho * 3: family.sample(size, rho * 3, rng=seeded(75)),
    }
    off = []
    for given in ((), (rho / 2,), (rho * 3,), (rho / 2, rho * 3)):
        known = {at: ends[at] for at in given}
        drawn = noise_at_level(family, rho, known, size, rng=seeded(73))
        wide = exact_step(rho, {at: z / scale for at, z in known.items()}, seeded(73).standard_normal(size)) * scale
        off.append(float(np.abs(drawn - wide).mean()))
    return max(off)


@pytest.mark.parametrize("max_keys", KEYS)
@pytest.mark.parametrize("level", ["1/10", "3", "1/100000"])
def test_real_noise_crosses_boundaries_of_the_grid_less_often_than_stated(max_keys: int, level: str) -> None:
    """Rounding errors move Gaussian and Laplace noise across a grid boundary less often than the slack states."""
    for family in (Gaussian(math.sqrt(max_keys)), Laplace(float(max_keys))):
        std = family.std(level)
        off = off_by_inverse(family, level)
        if isinstance(family, Gaussian):
            off = max(off, off_by_steps(family, level))
        measured = max_keys * (off + LATTICE[type(family)] * std) / grid_step(std)
        assert 0 < measured <= numerical_slack(max_keys, std, grid_step(std)) - max_keys * OF_CANDIDATES


@pytest.mark.parametrize("mean", [4.0, 100.0, pytest.param(2500.0, marks=pytest.mark.slow)])
def test_integer_noise_is_off_by_less_than_stated(mean: float) -> None:
    """The probability tables of Poisson and Skellam noise are exact up to the stated slack.

    Given the sum of two independent Poisson or Skellam variates, the table of one of them is exact up to the slack.
    """
    half = (mean / 2, mean / 2)
    for family, law, mass in ((Poisson(), poisson_law, poisson_mass), (Skellam(), skellam_law, skellam_mass)):
        stated = numerical_slack(1, family.std(1 / Fraction(mean)), 1.0) - OF_CANDIDATES
        with mp.workdps(DIGITS):
            assert distance(law(mean), mass(mean), EVERY) <= stated
            for total in {int(mean), int(mean + 2 * family.std(1 / Fraction(mean)))}:
                part, norm = mass(mean / 2), mass(mean)(total)
                kept = _part_given(total, law(mean / 2), law(mean / 2), half)
                assert distance(kept, lambda y: part(y) * part(total - y) / norm, EVERY) <= stated  # noqa: B023


def turn(holds: Callable[[np.ndarray], np.ndarray], near: np.ndarray) -> np.ndarray:
    """For each number in `near`, find by bisection the point within 1e-9 (relative) up to which `holds` is true."""
    low, high = near - 1e-9 * np.abs(near), near + 1e-9 * np.abs(near)
    for _ in range(40):
        middle = (low + high) / 2
        held = holds(middle)
        low, high = np.where(held, middle, low), np.where(held, high, middle)
    return low


def misplaced_tails(family: DiscreteLaplace, level: str) -> float:
    """Return a bound on the probability that rounding errors change a draw of discrete Laplace noise.

    A draw is a step function of a random number. The bound is the sum of the distances of its jumps from the exact
    positions.
    """
    rate = real(family.rate(level))
    norm, last = np.log1p(np.exp(-rate)), int(45 / float(rate)) + 2
    above, below = np.arange(0, last), -np.arange(1, last)
    log_above = -(above + 1) * rate - norm  # ln P[Z > t] for t >= 0
    found = turn(lambda at: family.inverse_log_tail(at, level) > above, log_above.astype(float))
    total = np.abs(np.exp(found.astype(np.longdouble)) - np.exp(log_above)).sum()
    up_to = np.exp(below * rate - norm)  # P[Z <= t] for t < 0
    exponential = turn(lambda at: family.inverse_log_tail(-at, level) <= below, -np.log1p(-up_to).astype(float))
    return float(total + np.abs(-np.expm1(-exponential.astype(np.longdouble)) - up_to).sum())


@pytest.mark.parametrize(("max_keys", "level"), [(1, "1/10"), (1, "3"), (20, "1/10"), (1000, "3")])
def test_boundaries_of_discrete_laplace_noise_are_misplaced_by_less_than_stated(level: str, max_keys: int) -> None:
    """Floating-point errors change the distribution of discrete Laplace noise by less than the stated slack."""
    family = DiscreteLaplace(max_keys)
    assert 0 < misplaced_tails(family, level) <= numerical_slack(1, family.std(level), 1.0)


def test_the_slack_is_proportional_to_keys_and_to_levels_nearby() -> None:
    """The slack is proportional to the number of keys, and grows with each earlier level close to the new one."""
    assert numerical_slack(20, 3.0, 0.125) == 20 * numerical_slack(1, 3.0, 0.125)
    assert count_near(["0.1", "0.3"], "0.2") == 0
    assert count_near(["0.2000001", "0.1999999", "0.2", "0.20001"], "0.2") == 3
    of_noise = [numerical_slack(1, 3.0, 0.125, near=near) - OF_CANDIDATES for near in (0, 2)]
    assert of_noise[1] == pytest.approx(3 * of_noise[0])
