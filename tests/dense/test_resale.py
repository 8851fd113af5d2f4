"""Tests of `resell`, which draws coarser releases from a release, and of the joint cost of such releases."""

from __future__ import annotations

import itertools
import pickle
from fractions import Fraction

import numpy as np
import pytest

import sparsehist as sh
from sparsehist.dense import clip_negative, joint_level
from sparsehist.errors import InputError, LevelOrderError
from sparsehist.noise import DiscreteLaplace, Gaussian
from tests.noise.laws import bridge, probabilities
from tests.stats import assert_consistent, g_test

SIZE = 40_000
HALF, QUARTER = Fraction(1, 2), Fraction(1, 4)


def two_children(span=60):
    """Return a table of the joint probabilities of two values resold from one release, and the values on its axes."""
    axis = np.arange(-span, span + 1)
    family = DiscreteLaplace()
    parent = probabilities(family, Fraction(1), axis)
    step = bridge(family, Fraction(1), HALF, axis[:, None] - axis[None, :])
    return np.einsum("p,cp,dp->cd", parent, step, step), axis


def test_two_children_follow_their_joint_law():
    """Two coarser releases that are drawn from one release with `resell` have the exact joint distribution."""
    sold = sh.MultipleRelease(DiscreteLaplace(), np.zeros(200_000, int)).release(1)
    first, second = sold.resell(HALF).values, sold.resell(HALF).values
    law, axis = two_children()
    shown = (np.abs(first) <= 6) & (np.abs(second) <= 6)
    inside = law[54:67, 54:67]
    assert axis[54] == -6
    seen = np.bincount((first[shown] + 6) * 13 + second[shown] + 6, minlength=169)
    order = np.argsort(-inside.ravel(), kind="stable")
    cells = np.append(inside.ravel()[order], 1 - inside.sum())
    assert_consistent(g_test(np.append(seen[order], (~shown).sum()), cells / cells.sum()))


def tree(family):
    """Return five releases by name, some of which are drawn from others.

    `parent` and `coarse` are releases of a vector, `one` and `other` are drawn from `parent`, and `below` from `one`.
    """
    vector = sh.MultipleRelease(family, np.arange(SIZE) % 7, cap=2)
    parent, coarse = vector.release(1), vector.release(QUARTER)
    one, other = parent.resell(HALF), parent.resell(HALF)
    return {"parent": parent, "coarse": coarse, "one": one, "other": other, "below": one.resell(QUARTER)}


def test_branches_cost_the_level_of_their_lowest_common_ancestor():
    """Several releases together cost as much as their lowest common ancestor in the tree of releases.

    In this tree, a release is below the release that it was drawn from. Releases of the vector itself form one
    branch, in the order of their levels. The lowest common ancestor may be one of the releases.
    """
    held = tree(DiscreteLaplace())
    expected = {
        ("parent",): 1,
        ("coarse",): QUARTER,
        ("parent", "coarse"): 1,
        ("one", "other"): 1,
        ("one", "coarse"): 1,
        ("one", "below"): HALF,
        ("below",): QUARTER,
        ("below", "other"): 1,
        ("parent", "below", "other"): 1,
    }
    for names, level in expected.items():
        assert joint_level(held[name] for name in names) == level


def test_gaussian_branches_cost_what_their_covariance_says():
    """The joint cost of Gaussian releases, some of them drawn from others, follows from their noise covariance.

    Let M be the covariance matrix of the noise, scaled so that the variance of each release is 1 / level. The joint
    level of the releases is the sum of all entries of the inverse of M.
    """
    held = tree(Gaussian())
    common = {frozenset(pair): joint for pair, joint in [
        (("one", "other"), 1), (("one", "coarse"), 1), (("other", "coarse"), 1), (("below", "other"), 1),
        (("below", "coarse"), 1), (("one", "below"), HALF), (("parent", "coarse"), 1), (("parent", "one"), 1),
        (("parent", "other"), 1), (("parent", "below"), 1)]}  # fmt: skip
    for size in (1, 2, 3, 4, 5):
        for names in itertools.combinations(held, size):
            variance = np.array(
                [[float(1 / (held[a].level if a == b else common[frozenset((a, b))])) for b in names] for a in names]
            )
            exact = np.linalg.solve(variance, np.ones(size)).sum()
            assert float(joint_level(held[name] for name in names)) == pytest.approx(exact, rel=1e-12)
    assert joint_level([held["one"], held["other"]]) == Fraction(2, 3)


def test_releases_of_different_vectors_have_no_common_ancestor():
    """`joint_level` refuses releases of different vectors, and the error says that their costs add up."""
    first, second = (sh.MultipleRelease(DiscreteLaplace(), [1, 2, 3]).release(1) for _ in range(2))
    with pytest.raises(InputError, match="costs add up"):
        joint_level([first, second])
    with pytest.raises(InputError):
        joint_level([])


def test_a_release_is_resold_coarser_only_and_keeps_its_descent():
    """`resell` refuses levels that are not coarser.

    After a vector and a release are stored and reloaded, `joint_level` still recognises that the release belongs to
    the vector.
    """
    vector = sh.MultipleRelease(DiscreteLaplace(), [5, 6, 7])
    parent = vector.release(1)
    for level in (1, 2):
        with pytest.raises(LevelOrderError, match="coarser"):
            parent.resell(level)
    child = pickle.loads(pickle.dumps(parent)).resell(HALF)
    later = sh.MultipleRelease.from_bytes(vector.to_bytes()).release(QUARTER)
    assert joint_level([child, later]) == 1
    assert not hasattr(parent.process(clip_negative()), "resell")
