"""The joint law of several sparse releases is that of the dense ones, and wrong samplers are told apart."""

from __future__ import annotations

import numpy as np
import pytest

from sparsehist import entropy
from sparsehist.histogram import DenseReleases, release_dense
from sparsehist.noise import Gaussian
from tests.histogram.sparse_simulation import (
    hide_unpublished,
    independent_redraw,
    printed_algorithm_6,
    release_sparse,
)
from tests.stats import assert_consistent, assert_detected, two_sample_outcomes, two_sample_vectors

# Scrambled order, one level twice with a lower threshold; every release publishes a good part of the cells.
LEVELS = ["0.2", "0.05", "1/2", "0.2", "0.1"]
THRESHOLDS = [2.5, 5.0, 2.0, 1.75, 2.5]
FAMILY = Gaussian(sensitivity=1.5)
# 120,000 cells of each count catch a relative error of 2 % in the commoner patterns of publication.
CELLS = 120_000
COUNTS = np.repeat([0, 1, 3], CELLS)


def sparse(seed: int, family: Gaussian = FAMILY, **wrong: object) -> DenseReleases:
    """Release sparsely, perhaps with a wrong sampler."""
    return release_sparse(family, COUNTS, LEVELS, THRESHOLDS, rng=entropy.seeded(seed), **wrong)


def dense(seed: int) -> DenseReleases:
    """Release densely, and hide what was never published."""
    return hide_unpublished(release_dense(FAMILY, COUNTS, LEVELS, THRESHOLDS, rng=entropy.seeded(seed)))


def p_values(first: DenseReleases, second: DenseReleases, count: int) -> dict[str, float]:
    """Compare which releases a cell is in, and the whole paths of the cells that are in any."""
    of_count = count == COUNTS
    patterns = [(2 ** np.arange(len(LEVELS))) @ each.published[:, of_count] for each in (first, second)]
    paths = [each.noise[:, of_count][:, seen > 0].T for each, seen in zip((first, second), patterns, strict=True)]
    labelled = [np.column_stack([path, seen[seen > 0]]) for path, seen in zip(paths, patterns, strict=True)]
    return {
        "patterns": two_sample_outcomes(*patterns),
        "paths": two_sample_vectors(*labelled),
    }


@pytest.fixture(scope="module")
def reference() -> DenseReleases:
    """Hold one run of the baseline for all comparisons."""
    return dense(1)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_sparse_releases_have_the_joint_law_of_dense_ones(reference: DenseReleases, count: int) -> None:
    """Which releases a cell is in, and its noise at all of them, cannot be told from the dense baseline."""
    for what, p_value in p_values(sparse(2), reference, count).items():
        assert_consistent(p_value, f"{what} of cells of count {count}")


def test_dense_releases_have_one_law_whatever_the_seed(reference: DenseReleases) -> None:
    """The comparison itself does not reject two runs of the baseline."""
    for what, p_value in p_values(dense(3), reference, 0).items():
        assert_consistent(p_value, what)


def test_the_same_level_twice_has_the_same_noise() -> None:
    """Two names on one level share their noise in every tracked cell."""
    noise = sparse(4).noise
    assert np.array_equal(noise[0], noise[3], equal_nan=True)


@pytest.mark.parametrize(
    ("what", "wrong"),
    [
        ("Algorithm 6 as printed", {"draw": printed_algorithm_6}),
        ("an independent redraw", {"tracked_noise": independent_redraw}),
        ("a scale 5 % too large", {"family": Gaussian(sensitivity=1.5 * 1.05)}),
        ("a scale 5 % too small", {"family": Gaussian(sensitivity=1.5 * 0.95)}),
    ],
)
def test_wrong_samplers_are_rejected(reference: DenseReleases, what: str, wrong: dict[str, object]) -> None:
    """The same comparison rejects each sampler that is wrong on purpose."""
    assert_detected(min(p_values(sparse(5, **wrong), reference, 0).values()), what)


def test_the_number_published_in_a_small_domain_has_the_dense_law() -> None:
    """In a domain of four cells the number in each release follows the dense law jointly, not only cell by cell."""
    counts, runs = np.array([0, 0, 0, 2]), 1500
    drawn = {
        name: np.array([
            release(FAMILY, counts, LEVELS, THRESHOLDS, rng=rng).published.sum(axis=1) for _ in range(runs)
        ])
        for name, release, rng in (
            ("sparse", release_sparse, entropy.seeded(6)),
            ("dense", release_dense, entropy.seeded(7)),
        )
    }  # fmt: skip
    assert_consistent(two_sample_outcomes(drawn["sparse"][:, [0, 2, 4]], drawn["dense"][:, [0, 2, 4]]))
