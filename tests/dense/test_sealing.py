"""Tests that after `seal` erases a true vector, what remains reveals no more than the release at the cap."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from sparsehist.dense.multiple_release import MultipleRelease
from sparsehist.dense.rounding import keep_on_lattice, kept_step, round_into
from sparsehist.histogram.grid import round_to_grid
from sparsehist.noise import DiscreteLaplace, Gaussian, Laplace, Poisson, Skellam

FAMILIES = [Gaussian(20.0), Laplace(20.0), DiscreteLaplace(20), Poisson(), Skellam()]
SIZE = 100_000


def arrays_of(thing):
    """Return all arrays that can be reached from an object through its references."""
    seen, todo, found = set(), [thing], []
    while todo:
        item = todo.pop()
        if id(item) in seen or isinstance(item, type) or callable(item):
            continue
        seen.add(id(item))
        if isinstance(item, np.ndarray):
            found.append(item)
        todo += gc.get_referents(item)
    return found


def unexplained(truth, arrays):
    """Return the residual variance of the best linear prediction of the true vector from these arrays.

    The more the arrays reveal of the true vector, the smaller this variance is.
    """
    columns = np.column_stack([np.ones(truth.size), *[array.astype(np.float64) for array in arrays]])
    guess = columns @ np.linalg.lstsq(columns, truth.astype(np.float64), rcond=None)[0]
    return float(np.var(truth - guess))


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: type(family).__name__)
def test_the_truth_is_gone(family):
    """After `seal`, neither arrays nor stored bytes reveal more of the true vector than the release at the cap."""
    level = 1 if not isinstance(family, Poisson | Skellam) else "0.01"
    truth = np.random.default_rng(5).integers(0, 2**40, SIZE)
    vector = MultipleRelease(family, truth, cap=level)
    vector.release("0.004")
    vector.release("0.008")
    open_arrays = arrays_of(vector)
    assert unexplained(truth, open_arrays) < 1e-3  # before `seal`, the arrays do reveal the true vector
    vector.seal()
    vector.release("0.006")
    held = arrays_of(vector)
    assert len(held) == 5
    assert unexplained(truth, held) > 0.97 * family.std(level) ** 2
    text = vector.to_bytes()
    for dtype in (np.int64, np.float64):
        # Search for runs of 64 entries of the true vector, as integers or floats.
        starts = truth.astype(dtype)
        assert not any(starts[i : i + 64].tobytes() in text for i in range(0, SIZE, 5000))


@pytest.mark.parametrize("family", FAMILIES[:2], ids=lambda family: type(family).__name__)
def test_low_order_bits_are_cut(family):
    """`seal` rounds the noise that it keeps to a fixed grid, so that low-order bits do not reveal the true vector."""
    vector = MultipleRelease(family, np.arange(SIZE), cap=1)
    vector.release("0.1")
    vector.seal()
    half = kept_step(family.std(1)) / 2
    for offsets in vector._state.offsets.values():
        units = offsets / half
        assert np.array_equal(units, np.rint(units))
        assert (units.astype(np.int64) & 1 == 1).all()


def test_the_lattice_never_moves_a_value_across_a_boundary():
    """Noise rounded to a fine grid and then to a coarse grid equals noise rounded directly to the coarse grid.

    The two are equal even for noise halfway between two values of the coarse grid, or next to such a point.
    """
    rng = np.random.default_rng(6)
    step, fine = 2.0**-8, 2.0**-25
    boundaries = (rng.integers(-(2**20), 2**20, 20_000) + 0.5) * step
    for noise in (
        boundaries,
        np.nextafter(boundaries, np.inf),
        np.nextafter(boundaries, -np.inf),
        rng.standard_normal(20_000),
    ):
        kept = noise.copy()
        keep_on_lattice(kept, fine)
        assert np.array_equal(round_into(noise, step, np.empty_like(noise)), round_to_grid(kept, step))
        assert np.abs(kept - noise).max() <= fine / 2


def test_rounding_is_that_of_the_histograms():
    """Vectors and histograms round noise identically, including values at or next to a tie."""
    halves = np.arange(-40, 41) / 8
    values = np.concatenate([halves, np.nextafter(halves, 9), np.nextafter(halves, -9), [2.0**48 + 0.5]])
    for step in (0.25, 1.0):
        assert np.array_equal(round_into(values, step, np.empty_like(values)), round_to_grid(values, step))
