"""Updates: a release as the entries that changed since another one."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from sparsehist.dense import apply_update, changed
from sparsehist.dense.multiple_release import MultipleRelease
from sparsehist.errors import InputError, LevelOrderError
from sparsehist.noise import Gaussian
from sparsehist.noise.discrete_laplace import DiscreteLaplace
from sparsehist.noise.laplace import Laplace
from sparsehist.noise.poisson import Poisson
from tests.stats import assert_consistent, assert_detected, binomial_test

SIZE = 200_000
TRUTH = np.arange(SIZE) % 999


@pytest.mark.parametrize("family", [Laplace(sensitivity=3), DiscreteLaplace(sensitivity=3)])
@pytest.mark.parametrize(("first", "second"), [("1", "1.1"), ("1.1", "0.9")])
def test_an_update_turns_one_release_into_the_other(family, first, second):
    """Towards finer and towards coarser levels the result is the release itself, metadata and all."""
    vector = MultipleRelease(family, TRUTH, **({} if family.integer else {"step": 2.0**-10}))
    earlier, later = vector.release(first), vector.release(second)
    update = pickle.loads(pickle.dumps(changed(earlier, later)))
    applied = apply_update(earlier, update)
    assert np.array_equal(applied.values, later.values)
    assert applied.metadata == later.metadata
    assert applied.level == later.level
    assert (np.diff(update.indices) > 0).all()
    assert update.indices.size < 0.35 * SIZE


def test_as_many_entries_change_as_paths_jump():
    """A path jumps with the share of the variance that is new; for integers some jumps are 0, and nothing changes."""
    family = DiscreteLaplace(sensitivity=1)
    vector = MultipleRelease(family, TRUTH)
    seen = changed(vector.release(1), vector.release("1.2")).indices.size
    jumps = 1 - (family.std("1.2") / family.std(1)) ** 2
    at_zero = float(family.tail(-1, 1) - family.tail(0, 1))
    assert_consistent(binomial_test(seen, SIZE, jumps * (1 - at_zero)))
    assert_detected(binomial_test(seen, SIZE, jumps), "the share of all jumps")
    lazy = MultipleRelease(Laplace(), TRUTH, step=2.0**-20)
    seen = changed(lazy.release(1), lazy.release("1.2")).indices.size
    # Jumps within one step of the grid: 2e-6 of all.
    assert_consistent(binomial_test(seen, SIZE, 1 - 1 / 1.44))


def test_noise_that_moves_everywhere_has_no_updates():
    """Gaussian and Poisson releases are new throughout, and the refusal says so."""
    for family in (Gaussian(), Poisson()):
        vector = MultipleRelease(family, TRUTH)
        with pytest.raises(InputError, match="every entry changes"):
            changed(vector.release(1), vector.release("1.1"))


def test_updates_that_do_not_fit_are_refused():
    """Releases of other vectors or on other grids; updates against other levels."""
    vector, other = MultipleRelease(Laplace(), TRUTH), MultipleRelease(Laplace(), TRUTH[1:])
    with pytest.raises(InputError, match="size"):
        changed(vector.release(1), other.release("1.1"))
    with pytest.raises(InputError, match=r"step=\.\.\."):
        changed(vector.release(1), vector.release(4))
    update = changed(vector.release(1), vector.release("1.1"))
    with pytest.raises(LevelOrderError, match="since level 1"):
        apply_update(vector.release("0.9"), update)
    with pytest.raises(InputError, match="entries"):
        apply_update(other.release(1), update)
