"""Tests of randomised response on k categories: exact formulas, privacy loss, and refused values."""

from __future__ import annotations

import itertools
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from sparsehist import entropy
from sparsehist.dense.multiple_release import MultipleRelease
from sparsehist.errors import DataError, DeclarationError, InputError
from sparsehist.histogram import draw_exceeding
from sparsehist.noise import DenseFamily, Family, RandomisedResponse, family_named
from sparsehist.noise.exact_draws import enclose
from tests.noise.laws import joint_table

HALF, ONE, TWO = Fraction(1, 2), Fraction(1), Fraction(2)
DRAWS = 300_000


def test_the_formulas_have_the_reference_values():
    """The probabilities that randomised response keeps or changes a category agree with reference values."""
    two, five = RandomisedResponse(categories=2), RandomisedResponse(categories=5)
    enclose(lambda: None, 250)  # this call only sets the precision of interval arithmetic to 250 bits
    _, at_fine, at_coarse = five._middle(HALF, ONE, TWO)
    _, home, stay = five._finer(HALF, TWO)
    for formula, printed in (
        (1 - 1 / two._total(HALF), "0.37754066879814543536"),
        (two._step(ONE, HALF)[1], "0.23500371220159448907"),
        (two._step(TWO, ONE)[1], "0.19661193324148185254"),
        (two._finer(HALF, TWO)[0], "0.93504087234008927612"),
        (two._middle(HALF, ONE, TWO)[0], "0.93007718816020175854"),
        (two._step(TWO, ONE)[0] * two._step(ONE, HALF)[0] / two._total(TWO), "0.54132809735264685686"),
        (home, "0.58291033483997899647"),
        (at_fine, "0.39125058974183571576"),
        (at_coarse, "0.38258426685341486887"),
        ((1 - home - stay) / 3, "0.07888833526711730066"),
    ):
        with mpmath.workdps(40):
            low, high = (mpmath.mp.make_mpf(end) for end in formula._mpi_)
            assert high - low < mpmath.mpf(10) ** -30
            assert abs(low - mpmath.mpf(printed)) <= mpmath.mpf(10) ** -20 * mpmath.mpf("0.51")


def test_releases_of_one_vector_lose_what_the_finest_loses():
    """The largest privacy loss of randomised response at several levels equals the epsilon of the finest level."""
    levels = (TWO, ONE, HALF)
    table = joint_table(RandomisedResponse(categories=3), levels, np.arange(3))
    for size in (1, 2, 3):
        for axes in itertools.combinations(range(3), size):
            law = table.sum(axis=tuple(set(range(3)) - set(axes)))
            moved = np.roll(law, 1, axis=tuple(range(size)))
            assert np.abs(np.log(law / moved)).max() == pytest.approx(float(levels[axes[0]]), rel=1e-12)


def test_what_is_no_category_is_refused():
    """Invalid categories and invalid numbers of categories are refused before anything is drawn."""
    family = RandomisedResponse(categories=3)
    for truth in ([0, 3], [-1, 0]):
        with pytest.raises(DataError, match=r"categories 0 … 2"):
            MultipleRelease(family, truth)
    with pytest.raises(DataError):
        family.coarsen(np.array([3]), 2, 1, rng=entropy.seeded(1))
    for categories in (True, 2.0, "3"):
        with pytest.raises(DeclarationError):
            RandomisedResponse(categories=categories)


def test_sparse_series_refuse_it_by_what_it_lacks():
    """Series refuse randomised response, because it has no tails and no transitions that preserve order."""
    family = RandomisedResponse(categories=3)
    assert isinstance(family, DenseFamily) and not isinstance(family, Family)
    with pytest.raises(DeclarationError, match="monotone noise family"):
        draw_exceeding(family, [], 1, 5.0, 10, count=0, rng=entropy.seeded(1))
    with pytest.raises(InputError):
        family_named("sparsehist.noise:RandomisedResponse", 1)
