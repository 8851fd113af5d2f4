"""Tests that the noise of every family at several levels has its exact joint distribution."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations, permutations

import numpy as np
import pytest

from sparsehist import entropy
from sparsehist.noise import (
    DiscreteLaplace,
    Exponential,
    Family,
    Gaussian,
    Laplace,
    Poisson,
    RandomisedResponse,
    Skellam,
)
from sparsehist.noise.family import JumpFamily
from tests.noise import laws
from tests.noise.laws import in_order, joint_p_value
from tests.stats import assert_consistent, assert_detected, binomial_test

# Errors that 300,000 draws detect: 4 % in a scale, 2 % in a correlation, and 2 % in a probability of 1/27.
DRAWS = 300_000
LAWS = [
    (Gaussian(math.sqrt(20)), ("1/20", "1/10", "1/3", "2")),
    (Laplace(2.0), ("1/2", "1", "2")),
    (Exponential(), ("1/2", "1", "3")),
    (DiscreteLaplace(2), ("1/2", "1", "2")),
    (Poisson(), ("1/6", "2/7", "1/2")),
    (Skellam(), ("1/3", "2/3", "4/3")),
    *((RandomisedResponse(categories=k), ("1/2", "1", "2")) for k in (2, 3, 5)),
    (RandomisedResponse(categories=4, sensitivity=3), ("1", "3", "6")),
]
EVERY_LAW = pytest.mark.parametrize(
    ("family", "levels"), [(family, tuple(map(Fraction, levels))) for family, levels in LAWS], ids=repr
)


@EVERY_LAW
def test_releases_in_any_order_have_one_joint_law(family, levels):
    """Noise at several levels follows its exact joint distribution, in whatever order the levels are drawn."""
    for number, order in enumerate(list(permutations(levels))[:: len(levels) - 2]):
        noise = in_order(family, order, DRAWS, 100 + number)
        assert {column.dtype for column in noise.values()} == {np.dtype(np.int64 if family.integer else np.float64)}
        assert_consistent(joint_p_value(family, noise), f"{family} in the order {order}")


@EVERY_LAW
def test_carried_noise_has_the_joint_law(family, levels):
    """Noise carried from a middle level to a coarser and a finer level follows the exact joint distribution."""
    if not isinstance(family, Family):
        return
    rng, (coarse, middle, fine) = entropy.seeded(51), levels[-3:]
    start = family.sample(DRAWS, middle, rng=rng)
    down, up = (family.carry(start[np.newaxis], middle, end, rng=rng)[0] for end in (coarse, fine))
    assert_consistent(joint_p_value(family, {coarse: down, middle: start, fine: up}), repr(family))


@EVERY_LAW
def test_wrong_joint_laws_are_rejected(family, levels):
    """Negative control: noise with one level drawn independently, or with a scale 5 % off, is rejected."""
    noise = in_order(family, levels, DRAWS, 202)
    redrawn = noise | {levels[1]: family.sample(DRAWS, levels[1], rng=entropy.seeded(203))}
    assert_detected(joint_p_value(family, redrawn), "one level drawn independently")
    for scale in (Fraction(20, 21), Fraction(21, 20)):
        factor = scale**2 if isinstance(family, Gaussian) else scale
        wrong = in_order(family, [level * factor for level in levels], DRAWS, 204)
        assert_detected(joint_p_value(family, dict(zip(levels, wrong.values(), strict=True))), "a scale 5 % off")


class PrintedBetween(Laplace):
    """A wrong family: noise at a middle level is drawn from the distribution misprinted in [ARNP Lemma F.5].

    The distributions of two increments, from coarse to middle level and from middle to fine level, are mixed up.
    """

    def between(self, coarse, coarse_level, fine, fine_level, level, *, rng):
        c, m, f = (float(x) / self.sensitivity for x in (coarse_level, level, fine_level))

        def log_bridge(x, stay, rate):
            return np.where(x == 0, np.log(stay), np.log((1 - stay) * rate / 2) - rate * np.abs(x))

        weights = np.exp([log_bridge(coarse - fine, (c / m) ** 2, m), log_bridge(coarse - fine, (m / f) ** 2, c)])
        moved = fine + self.refine(coarse - fine, coarse_level, level, rng=rng)
        either = rng.random(len(fine)) * (weights.sum(0) * 2)
        return np.where(either < weights[0], fine, np.where(either < weights.sum(0), coarse, moved))


class PrintedBetweenIntegers(DiscreteLaplace):
    """A wrong family: integer noise at a middle level has the distribution misprinted in [ARNP Lemma F.5]."""

    def between(self, coarse, coarse_level, fine, fine_level, level, *, rng):
        at, distance, moved = np.arange(-130, 131), np.clip(coarse - fine, -40, 40), np.zeros_like(fine)
        spread = [self.std(each) ** 2 for each in (coarse_level, level, fine_level)]
        stay_below, stay_above = spread[1] / spread[0], spread[2] / spread[1]
        lower = stay_below * (at == 0) + (1 - stay_below) * laws.probabilities(self, level, at)
        for k in np.unique(distance):
            rest = k - at
            upper = stay_above * (rest == 0) + (1 - stay_above) * laws.probabilities(self, fine_level, rest)
            mine = distance == k
            moved[mine] = rng.choice(at, mine.sum(), p=lower * upper / (lower * upper).sum())
        return fine + moved


class WrongShare(Poisson):
    """A wrong family: the probability of thinning Poisson noise is computed from levels instead of means."""

    def between(self, coarse, coarse_level, fine, fine_level, level, *, rng):
        return fine + rng.binomial(coarse - fine, float((fine_level - level) / (fine_level - coarse_level)))


class PartsOfOneSide(Skellam):
    """A wrong family: a difference of two Poisson numbers is thinned as if one of the numbers were 0."""

    def between(self, coarse, coarse_level, fine, fine_level, level, *, rng):
        share = float((1 / level - 1 / fine_level) / (1 / coarse_level - 1 / fine_level))
        return fine + np.sign(coarse - fine) * rng.binomial(np.abs(coarse - fine), share)


@pytest.mark.parametrize(
    "wrong",
    [PrintedBetween(2.0), PrintedBetweenIntegers(2), WrongShare(), PartsOfOneSide()],
    ids=lambda x: type(x).__name__,
)
def test_wrong_insertions_are_rejected(wrong):
    """Negative control: noise inserted between two levels from a wrong conditional distribution is rejected."""
    coarse, middle, fine = next(
        tuple(map(Fraction, levels)) for family, levels in LAWS if type(family) is type(wrong).__base__
    )
    assert_detected(joint_p_value(wrong, in_order(wrong, (coarse, fine, middle), DRAWS, 205)), repr(wrong))


@pytest.mark.parametrize(("family", "levels"), [law for law in LAWS if isinstance(law[0], JumpFamily)], ids=repr)
def test_levels_share_their_value_to_the_last_bit_as_often_as_the_bridge_is_zero(family, levels):
    """Noise at two levels is bitwise equal as often as the exact probability says."""
    levels = tuple(map(Fraction, levels))
    for order in permutations(levels):
        noise = in_order(family, order, DRAWS, 206)
        for coarse, fine in combinations(levels, 2):
            equal = int(np.count_nonzero(noise[coarse] == noise[fine]))
            chance = float(coarse / fine) ** (2 if isinstance(family, Laplace) else 1)
            assert_consistent(binomial_test(equal, DRAWS, chance), f"{coarse} and {fine}")
        assert (noise[levels[1]] == noise[levels[2]])[noise[levels[0]] == noise[levels[2]]].all()
