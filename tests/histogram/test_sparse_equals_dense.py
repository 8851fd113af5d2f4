"""Tests that several sparse releases have the joint distribution of dense releases, with noise on every cell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

from sparsehist import entropy
from sparsehist.histogram import DenseReleases, history, release_dense
from sparsehist.histogram import round as rounds_of_cells
from sparsehist.noise import DiscreteLaplace, Family, Gaussian, Laplace, Poisson, Skellam
from tests.cases import quick, slow
from tests.histogram.dense_reference import dense_releases
from tests.histogram.sparse_simulation import (
    hide_unpublished,
    independent_redraw,
    p_value,
    printed_algorithm_6,
    release_sparse,
)
from tests.stats import assert_consistent, assert_detected, two_sample_outcomes


class Case(NamedTuple):
    """A test case: a noise family, rounds (level, threshold), true counts, and the number of cells per count."""

    family: Family
    rounds: Sequence[tuple[str, float]]
    counts: Sequence[int]
    cells: int

    @property
    def all_counts(self) -> np.ndarray:
        """Return the true count of every cell."""
        return np.repeat(self.counts, self.cells)

    def release(self, how, seed: int, **more: object) -> DenseReleases:
        """Return releases by the given mechanism; the noise of cells that were never published is NaN."""
        levels, thresholds = zip(*self.rounds, strict=True)
        return hide_unpublished(
            how(self.family, self.all_counts, levels, thresholds, rng=entropy.seeded(seed), **more)
        )

    def compared(self, releases: DenseReleases, reference: DenseReleases, count: int) -> float:
        """Compare two sets of releases over all cells with the given true count, and return a p-value."""
        return p_value(releases, reference, self.all_counts == count)


# The levels are not in order, and one is used twice, the second time with a lower threshold.
SCRAMBLED = [("0.2", 2.5), ("0.05", 5.0), ("1/2", 2.0), ("0.2", 1.75), ("0.1", 2.5)]
# Sixteen rounds at ten levels, some of them repeated; thresholds go up, down and below zero.
MANY = [
    ("0.3", 2.0), ("0.1", 4.5), ("1", 2.0), ("0.3", 2.0), ("0.03", 9.0), ("0.2", 3.5), ("1", 1.0), ("0.5", 2.5),
    ("0.01", 18.0), ("0.3", 1.25), ("0.15", 4.0), ("0.3", 5.0), ("0.01", 12.0), ("0.7", 1.5), ("0.05", -1.0),
    ("0.03", 6.0),
]  # fmt: skip
AROUND = [("0.02", 12.5), ("0.5", 12.5), ("0.1", 12.0), ("2", 13.0), ("0.5", 11.5)]
# With 120,000 cells of each count, a 2 % error in the probability of a common publication pattern is detected.
CASES = {
    "gaussian": Case(Gaussian(1.5), SCRAMBLED, (0, 1, 3), 120_000),
    "laplace": Case(Laplace(1.5), [("1/2", 4.0), ("1/4", 7.0), ("2", 3.0), ("1/2", 3.25)], (0, 2), 60_000),
    "discrete laplace": Case(DiscreteLaplace(2), [("2", 3.0), ("1/2", 6.0), ("1", 4.0), ("2", 2.0)], (0, 2), 60_000),
    "poisson": Case(Poisson(), [("1/4", 6.0), ("1/9", 12.0), ("1/2", 4.0), ("1/4", 5.0)], (0, 2), 60_000),
    "skellam": Case(Skellam(), [("1/4", 3.0), ("1/9", 5.0), ("1/2", 3.0), ("1/4", 2.0)], (0, 2), 60_000),
    "sixteen rounds": Case(Gaussian(2**0.5), MANY, (0, 1, 4), 15_000),
    "counts around old thresholds": Case(Gaussian(2**0.5), AROUND, (11, 12, 13, 14), 10_000),
}
# Dict from name to (list of rounds, number of cells per count).
# A round is a level and a threshold, in standard deviations above the mean noise.
SHAPES = {
    "nearly all is published": ([("1/20", -1.8), ("1/50", -1), ("1/10", -2.2), ("1/50", -1.6), ("1/15", -1)], 30_000),
    "hidden, then nearly none": ([("1/20", 0.5), ("1/50", 1), ("1/10", -1), ("1/80", -0.5), ("1/15", -2)], 30_000),
    "levels 1e-7 apart": (
        [(f"{10000000 + i}/100000000", 1.6 + (i % 4) / 10) for i in (3, 0, 7, 1, 8, 2, 11, 5, 9, 4, 10, 6)],
        30_000,
    ),
    "large counts": ([("1/3", 2), ("1", 0), ("1/8", 1)], 20_000),
    "fifty rounds": (None, 4_000),
}


def fifty(rng: np.random.Generator) -> list[tuple[str, float]]:
    """Return the levels and thresholds of fifty rounds. The levels span a factor of sixty, and some are repeated."""
    levels = [str(Fraction(round(2000 / 60 ** (i / 50)), 1000)) for i in rng.permutation(50)]
    levels = [levels[i - 2] if i % 3 == 2 else level for i, level in enumerate(levels)]
    return [(level, 2.6 + float(rng.uniform(-0.4, 0.4))) for level in levels]


def shaped(family: Family, shape: str) -> Case:
    """Return the test case for a noise family and a name in `SHAPES`."""
    rounds, cells = SHAPES[shape]
    above = 2**33 if shape == "large counts" else 0
    bounds = [
        (level, above + family.mean(level) + stds * family.std(level))
        for level, stds in rounds or fifty(np.random.default_rng(81))
    ]
    rounds = [(level, math.floor(bound) + 0.0 if family.integer else bound) for level, bound in bounds]
    return Case(family, rounds, [above - 1, above, above + 2] if above else [0, 2, 6], cells)


FAMILIES = [Gaussian(1.5), Laplace(1.5), DiscreteLaplace(2), Poisson(), Skellam()]
BY_SHAPE = {f"{type(family).__name__}, {shape}": shaped(family, shape) for family in FAMILIES for shape in SHAPES}
EVERY = CASES | BY_SHAPE
QUICK = [*CASES, *(name for name in BY_SHAPE if name.startswith(("Gaussian", "DiscreteLaplace")))]


@cache
def reference(name: str) -> DenseReleases:
    """Return releases of a case by an independent dense mechanism, cached for all comparisons."""
    case = EVERY[name]
    return hide_unpublished(dense_releases(case.family, case.all_counts, case.rounds, rng=np.random.default_rng(82)))


@pytest.mark.parametrize("name", quick(QUICK, EVERY))
def test_sparse_releases_have_the_joint_law_of_dense_ones(name: str) -> None:
    """Sparse releases are jointly distributed like dense ones; noise drawn afresh at each level would be detected."""
    case = EVERY[name]
    sparse = case.release(release_sparse, 2)
    ways = {"sparse": sparse} if name in BY_SHAPE else {"sparse": sparse, "dense": case.release(release_dense, 1)}
    for way, released in ways.items():
        for count in case.counts:
            assert_consistent(case.compared(released, reference(name), count), f"{way}, cells of count {count}")
    levels = [level for level, _ in case.rounds]
    for i, level in enumerate(levels):
        assert np.array_equal(sparse.noise[i], sparse.noise[levels.index(level)], equal_nan=True)
    redrawn = case.release(release_sparse, 5, tracked_noise=independent_redraw)
    assert_detected(case.compared(redrawn, reference(name), case.counts[0]), "an independent redraw")


def test_the_sampler_of_the_paper_is_rejected() -> None:
    """Negative control: the comparison with dense releases rejects Algorithm 6 of [ARNP] as printed."""
    case = CASES["gaussian"]
    wrong = case.release(release_sparse, 5, draw=printed_algorithm_6)
    assert_detected(case.compared(wrong, reference("gaussian"), 0), "Algorithm 6")


HIDDEN = [name for name in BY_SHAPE if name.endswith("hidden, then nearly none")]


@pytest.mark.parametrize("scale", [Fraction(21, 20), Fraction(20, 21)])
@pytest.mark.parametrize("name", quick([name for name in HIDDEN if name in QUICK], ["gaussian", *HIDDEN]))
def test_wrong_samplers_are_rejected(name: str, scale: Fraction) -> None:
    """Negative control: the comparison with dense releases rejects noise with a scale 5 % too small or too large."""
    case = EVERY[name]
    # The standard deviation is proportional to 1 / level for Laplace noise, and to 1 / sqrt(level) for other noise.
    share = scale if isinstance(case.family, Laplace | DiscreteLaplace) else scale**2
    wrong = case._replace(rounds=[(str(Fraction(level) * share), tau) for level, tau in case.rounds])
    assert_detected(p_value(wrong.release(release_sparse, 5), reference(name)), f"levels times {share}")


@pytest.mark.parametrize(
    ("name", "rarest"),
    [
        *(("sixteen rounds", rarest) for rarest in (0.0, 1.0, 30.0)),
        *((name, 0.0) if name in QUICK else slow(name, 0.0) for name in HIDDEN),
    ],
)
def test_the_limit_between_lazy_and_explicit_drawing_does_not_matter(
    monkeypatch: pytest.MonkeyPatch, name: str, rarest: float
) -> None:
    """Sparse and dense releases have the same distribution, whether all, some or no groups are drawn explicitly."""
    case = EVERY[name]._replace(rounds=EVERY[name].rounds[:8])
    dense = case.release(release_dense, 15)
    monkeypatch.setattr(history, "RAREST", rarest)
    monkeypatch.setattr(rounds_of_cells, "RAREST", rarest)
    sparse = case.release(release_sparse, 16)
    for count in case.counts:
        assert_consistent(case.compared(sparse, dense, count), f"count {count}")
    redrawn = case.release(release_sparse, 17, tracked_noise=independent_redraw)
    assert_detected(case.compared(redrawn, dense, case.counts[0]), "an independent redraw")


def test_the_number_published_in_a_small_domain_has_the_dense_law() -> None:
    """Sparse and dense releases of four cells have the same joint distribution of the numbers of published cells."""
    counts, runs = np.array([0, 0, 0, 2]), 1500
    levels, thresholds = zip(*SCRAMBLED, strict=True)

    def numbers(how, rng) -> np.ndarray:
        drawn = (how(Gaussian(1.5), counts, levels, thresholds, rng=rng) for _ in range(runs))
        return np.array([each.published.sum(axis=1) for each in drawn])

    drawn = numbers(release_sparse, entropy.seeded(6)), numbers(release_dense, entropy.seeded(7))
    assert_consistent(two_sample_outcomes(drawn[0][:, [0, 2, 4]], drawn[1][:, [0, 2, 4]]))
