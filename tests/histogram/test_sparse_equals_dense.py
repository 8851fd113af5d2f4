"""The joint law of several sparse releases is that of the dense ones, and wrong samplers are rejected."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

from sparsehist import entropy
from sparsehist.histogram import DenseReleases, history, release_dense
from sparsehist.histogram import round as rounds_of_cells
from sparsehist.noise import DiscreteLaplace, Family, Gaussian, Laplace, Poisson, Skellam
from tests.histogram.sparse_simulation import (
    hide_unpublished,
    independent_redraw,
    p_value,
    printed_algorithm_6,
    release_sparse,
)
from tests.stats import assert_consistent, assert_detected, two_sample_outcomes


class Case(NamedTuple):
    """Releases of `cells` cells of each count."""

    family: Family
    rounds: Sequence[tuple[str, float]]
    counts: Sequence[int]
    cells: int

    @property
    def all_counts(self) -> np.ndarray:
        """The true count of every cell."""
        return np.repeat(self.counts, self.cells)

    def release(self, how, seed: int, **more: object) -> DenseReleases:
        """Release sparsely or densely; cells that were never published are hidden."""
        levels, thresholds = zip(*self.rounds, strict=True)
        family = more.pop("family", self.family)
        return hide_unpublished(how(family, self.all_counts, levels, thresholds, rng=entropy.seeded(seed), **more))


# Scrambled order, one level twice with a lower threshold; every release publishes a good part of the cells.
SCRAMBLED = [("0.2", 2.5), ("0.05", 5.0), ("1/2", 2.0), ("0.2", 1.75), ("0.1", 2.5)]
# Sixteen rounds on ten levels: equal ones after finer and after coarser ones, thresholds up, down and below zero.
MANY = [
    ("0.3", 2.0), ("0.1", 4.5), ("1", 2.0), ("0.3", 2.0), ("0.03", 9.0), ("0.2", 3.5), ("1", 1.0), ("0.5", 2.5),
    ("0.01", 18.0), ("0.3", 1.25), ("0.15", 4.0), ("0.3", 5.0), ("0.01", 12.0), ("0.7", 1.5), ("0.05", -1.0),
    ("0.03", 6.0),
]  # fmt: skip
AROUND = [("0.02", 12.5), ("0.5", 12.5), ("0.1", 12.0), ("2", 13.0), ("0.5", 11.5)]
# 120,000 cells of each count catch a relative error of 2 % in the commoner patterns of publication.
CASES = {
    "gaussian": Case(Gaussian(1.5), SCRAMBLED, (0, 1, 3), 120_000),
    "laplace": Case(Laplace(1.5), [("1/2", 4.0), ("1/4", 7.0), ("2", 3.0), ("1/2", 3.25)], (0, 2), 60_000),
    "discrete laplace": Case(DiscreteLaplace(2), [("2", 3.0), ("1/2", 6.0), ("1", 4.0), ("2", 2.0)], (0, 2), 60_000),
    "poisson": Case(Poisson(), [("1/4", 6.0), ("1/9", 12.0), ("1/2", 4.0), ("1/4", 5.0)], (0, 2), 60_000),
    "skellam": Case(Skellam(), [("1/4", 3.0), ("1/9", 5.0), ("1/2", 3.0), ("1/4", 2.0)], (0, 2), 60_000),
    "sixteen rounds": Case(Gaussian(2**0.5), MANY, (0, 1, 4), 15_000),
    "counts around old thresholds": Case(Gaussian(2**0.5), AROUND, (11, 12, 13, 14), 10_000),
}


@cache
def dense(name: str) -> DenseReleases:
    """One run of the dense baseline for all comparisons."""
    return CASES[name].release(release_dense, 1)


def compared(case: Case, first: DenseReleases, second: DenseReleases, count: int) -> float:
    """Compare the cells of one count."""
    return p_value(first, second, case.all_counts == count)


@pytest.mark.parametrize("name", CASES)
def test_sparse_releases_have_the_joint_law_of_dense_ones(name: str) -> None:
    """Which releases a cell is in, and its noise at all of them, have the dense law; redrawn noise does not."""
    case = CASES[name]
    sparse = case.release(release_sparse, 2)
    for count in case.counts:
        assert_consistent(compared(case, sparse, dense(name), count), f"cells of count {count}")
    levels = [level for level, _ in case.rounds]
    assert all(
        np.array_equal(sparse.noise[i], sparse.noise[levels.index(level)], equal_nan=True)
        for i, level in enumerate(levels)
    )
    redrawn = case.release(release_sparse, 5, tracked_noise=independent_redraw)
    assert_detected(compared(case, redrawn, dense(name), case.counts[0]), "an independent redraw")


@pytest.mark.parametrize(
    "wrong",
    [{"draw": printed_algorithm_6}, {"family": Gaussian(1.5 * 1.05)}, {"family": Gaussian(1.5 * 0.95)}],
    ids=["Algorithm 6 as printed", "a scale 5 % too large", "a scale 5 % too small"],
)
def test_wrong_samplers_are_rejected(wrong: dict[str, object]) -> None:
    """The same comparison rejects the sampler of the paper and a wrong scale, and accepts a second dense run."""
    case, reference = CASES["gaussian"], dense("gaussian")
    assert_detected(compared(case, case.release(release_sparse, 5, **wrong), reference, 0))
    assert_consistent(compared(case, case.release(release_dense, 3), reference, 0), "a second dense run")


@pytest.mark.parametrize("rarest", [0.0, 1.0, 30.0], ids=["every group explicitly", "most", "none"])
def test_the_limit_between_lazy_and_explicit_drawing_does_not_matter(
    monkeypatch: pytest.MonkeyPatch, rarest: float
) -> None:
    """The joint law is the dense one wherever this limit lies."""
    case = Case(Gaussian(2**0.5), MANY[:8], (0, 2), 15_000)
    reference = case.release(release_dense, 15)
    monkeypatch.setattr(history, "RAREST", rarest)
    monkeypatch.setattr(rounds_of_cells, "RAREST", rarest)
    sparse = case.release(release_sparse, 16)
    for count in case.counts:
        assert_consistent(compared(case, sparse, reference, count), f"count {count}")


def test_the_number_published_in_a_small_domain_has_the_dense_law() -> None:
    """In a domain of four cells the number in each release follows the dense law jointly, not only cell by cell."""
    counts, runs = np.array([0, 0, 0, 2]), 1500
    levels, thresholds = zip(*SCRAMBLED, strict=True)

    def numbers(how, rng) -> np.ndarray:
        drawn = (how(Gaussian(1.5), counts, levels, thresholds, rng=rng) for _ in range(runs))
        return np.array([each.published.sum(axis=1) for each in drawn])

    drawn = numbers(release_sparse, entropy.seeded(6)), numbers(release_dense, entropy.seeded(7))
    assert_consistent(two_sample_outcomes(drawn[0][:, [0, 2, 4]], drawn[1][:, [0, 2, 4]]))
