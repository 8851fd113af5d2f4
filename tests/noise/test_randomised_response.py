"""Randomised response on Z_k: exact formulas, joint laws in every order, and its way through MultipleRelease."""

from __future__ import annotations

import itertools
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from sparsehist import entropy
from sparsehist.dense.multiple_release import MultipleRelease
from sparsehist.errors import DataError, DeclarationError, InputError, LevelError
from sparsehist.histogram import draw_exceeding
from sparsehist.noise import DenseFamily, Family, RandomisedResponse, family_named
from sparsehist.noise.exact_draws import enclose
from tests.noise.orders import in_order
from tests.stats import assert_consistent, assert_detected, binomial_test, g_test

HALF, ONE, TWO = Fraction(1, 2), Fraction(1), Fraction(2)
LEVELS = [HALF, ONE, TWO]
# Sees a probability of 1/27 that is 2 % off, a level 5 % off by far.
DRAWS = 300_000


def digits(number):
    """A number to sixty digits, from its enclosure."""
    low, high = (mpmath.mp.make_mpf(end) for end in number._mpi_)
    assert high - low < mpmath.mpf(10) ** -60
    return (low + high) / 2


def agrees(real, printed):
    """Whether a formula has every digit printed."""
    with mpmath.workdps(40):
        last = len(printed.split(".")[1])
        return abs(digits(real) - mpmath.mpf(printed)) <= mpmath.mpf(10) ** -last * mpmath.mpf("0.51")


def pmf(k, level, sensitivity=1):
    """P[Z = z], shape (k,)."""
    a = np.exp(-float(level) / sensitivity)
    return np.r_[1.0, np.full(k - 1, a)] / (1 + (k - 1) * a)


def step(k, fine, coarse, sensitivity=1):
    """P[coarse = column | fine = row], by the circulant quotient of the two laws' Fourier transforms."""
    ratio = np.fft.fft(pmf(k, coarse, sensitivity)) / np.fft.fft(pmf(k, fine, sensitivity))
    bridge = np.fft.ifft(ratio).real
    return np.stack([np.roll(bridge, shift) for shift in range(k)])


def joint(k, levels, sensitivity=1):
    """The k**3 table of (coarse, middle, fine)."""
    coarse, middle, fine = levels
    table = np.einsum(
        "f,fm,mc->cmf",
        pmf(k, fine, sensitivity),
        step(k, fine, middle, sensitivity),
        step(k, middle, coarse, sensitivity),
    )
    return table.ravel()


def joint_p_value(k, paths, levels=LEVELS, sensitivity=1):
    """G-test of all cells; `paths` has columns coarse, middle, fine."""
    index = paths @ [k * k, k, 1]
    order = np.argsort(-(table := joint(k, levels, sensitivity)), kind="stable")
    return g_test(np.bincount(index, minlength=k**3)[order], table[order])


def test_the_formulas_have_the_reference_values():
    """Flip, bridge, refine, between and joint probabilities to every printed digit."""
    two, five = RandomisedResponse(categories=2), RandomisedResponse(categories=5)
    enclose(lambda: None, 250)  # the precision of what follows
    assert agrees(1 - 1 / two._total(HALF), "0.37754066879814543536")
    assert agrees(two._step(ONE, HALF)[1], "0.23500371220159448907")
    assert agrees(two._step(TWO, ONE)[1], "0.19661193324148185254")
    assert agrees(two._finer(HALF, TWO)[0], "0.93504087234008927612")
    assert agrees(two._middle(HALF, ONE, TWO)[0], "0.93007718816020175854")
    table = two._step(TWO, ONE)[0] * two._step(ONE, HALF)[0] / two._total(TWO)
    assert agrees(table, "0.54132809735264685686")
    assert agrees(five._finer(HALF, TWO)[1], "0.58291033483997899647")
    at_fine, at_coarse = five._middle(HALF, ONE, TWO)[1:]
    assert agrees(at_fine, "0.39125058974183571576")
    assert agrees(at_coarse, "0.38258426685341486887")
    _, home, stay = five._finer(HALF, TWO)
    assert agrees((1 - home - stay) / 3, "0.07888833526711730066")


@pytest.mark.parametrize("order", list(itertools.permutations(LEVELS)))
@pytest.mark.parametrize("k", [2, 3, 5])
def test_three_levels_follow_the_whole_joint_table_in_every_order(k, order):
    """All k**3 cells; a level drawn afresh, or one 5 % off, is seen."""
    family = RandomisedResponse(categories=k)
    paths = in_order(family, order, DRAWS, seed=10 * k + list(itertools.permutations(LEVELS)).index(order))
    assert_consistent(joint_p_value(k, paths), f"k = {k}, {order}")
    redrawn = paths.copy()
    redrawn[:, 1] = family.sample(DRAWS, ONE, rng=entropy.seeded(5))
    assert_detected(joint_p_value(k, redrawn), "one level redrawn")
    assert_detected(joint_p_value(k, paths, [level * Fraction(21, 20) for level in LEVELS]), "levels 5 % off")


def test_a_person_of_several_answers_has_flatter_noise_in_each():
    """With sensitivity 3 the odds are e^(epsilon/3), in all joint cells."""
    paths = in_order(RandomisedResponse(categories=4, sensitivity=3), [ONE, HALF, TWO], DRAWS, seed=77)
    assert_consistent(joint_p_value(4, paths, sensitivity=3))


def test_many_categories_are_drawn_as_exactly():
    """At k = 1,000 the shares of 0, of what was there before and of the rest are right."""
    family, rng, k = RandomisedResponse(categories=1000), entropy.seeded(90), 1000
    fine = family.sample(DRAWS, 8, rng=rng)
    coarse = family.coarsen(fine, 8, 6, rng=rng)
    refined = family.refine(coarse, 6, 8, rng=rng)
    middle = family.between(coarse, 6, fine, 8, 7, rng=rng)
    assert_consistent(binomial_test(int((fine == 0).sum()), DRAWS, pmf(k, 8)[0]))
    assert_consistent(binomial_test(int((coarse == fine).sum()), DRAWS, step(k, 8, 6)[0, 0]))
    assert_consistent(binomial_test(int((coarse == refined).sum()), DRAWS, step(k, 8, 6)[0, 0]))
    assert_consistent(binomial_test(int((middle == fine).sum()), DRAWS, step(k, 8, 7)[0, 0]))
    assert_consistent(binomial_test(int((middle == coarse).sum()), DRAWS, step(k, 7, 6)[0, 0]))
    assert_consistent(binomial_test(int((refined == 0).sum()), DRAWS, pmf(k, 8)[0]))


def test_releases_of_one_vector_lose_what_the_finest_loses():
    """By enumeration: the loss of any set of levels is at most the finest epsilon, and equal to it somewhere."""
    k = 3
    table = joint(k, LEVELS).reshape(k, k, k)
    axes = {HALF: 0, ONE: 1, TWO: 2}
    for size in (1, 2, 3):
        for levels in itertools.combinations(LEVELS, size):
            law = table.sum(axis=tuple(axis for level, axis in axes.items() if level not in levels))
            moved = np.roll(law, 1, axis=tuple(range(size)))
            assert np.abs(np.log(law / moved)).max() == pytest.approx(float(max(levels)), rel=1e-12)


@pytest.mark.parametrize("seal_before", [None, 0, 1, 2])
def test_a_vector_of_answers_is_released_in_any_order(seal_before, monkeypatch):
    """Three levels through MultipleRelease, sealed at any point, written and read, are one path modulo k."""
    from sparsehist.dense import multiple_release

    seeds = iter(range(400, 500))
    monkeypatch.setattr(multiple_release, "generator", lambda: entropy.seeded(next(seeds)))
    truth = np.arange(DRAWS) % 5
    vector = MultipleRelease(RandomisedResponse(categories=5), truth, cap=2)
    noise = {}
    for i, level in enumerate([ONE, TWO, HALF]):
        if i == seal_before:
            vector.seal()
        vector = MultipleRelease.from_bytes(vector.to_bytes())
        values = vector.release(level).values
        assert values.dtype == np.int64
        assert 0 <= values.min() <= values.max() < 5
        noise[level] = (values - truth) % 5
    assert_consistent(joint_p_value(5, np.column_stack([noise[level] for level in LEVELS])))


def test_what_is_no_category_is_refused():
    """Truth, noise, categories, levels and their order are checked before anything is drawn."""
    family = RandomisedResponse(categories=3)
    for truth in ([0, 3], [-1, 0]):
        with pytest.raises(DataError, match=r"categories 0 … 2"):
            MultipleRelease(family, truth)
    with pytest.raises(DataError):
        family.coarsen(np.array([3]), 2, 1, rng=entropy.seeded(1))
    for categories in (1, True, 2.0, "3"):
        with pytest.raises(DeclarationError):
            RandomisedResponse(categories=categories)
    with pytest.raises(DeclarationError):
        RandomisedResponse(categories=3, sensitivity=0)
    with pytest.raises(LevelError, match="at most 4000"):
        family.sample(1, 5000, rng=entropy.seeded(1))


def test_sparse_series_refuse_it_by_what_it_lacks():
    """It has the laws of a dense family, and neither tails nor steps that keep orders."""
    family = RandomisedResponse(categories=3)
    assert isinstance(family, DenseFamily)
    assert not isinstance(family, Family)
    with pytest.raises(DeclarationError, match="not monotone"):
        draw_exceeding(family, [], 1, 5.0, 10, count=0, rng=entropy.seeded(1))
    with pytest.raises(InputError):
        family_named("sparsehist.noise:RandomisedResponse", 1)
