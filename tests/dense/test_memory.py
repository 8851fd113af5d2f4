"""Long vectors are released, sealed and saved piece by piece: the peak is the arrays that stay."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from sparsehist.dense.rounding import CHUNK
from sparsehist.noise import Gaussian
from sparsehist.noise.discrete_laplace import DiscreteLaplace
from sparsehist.noise.laplace import Laplace
from sparsehist.series.multiple_release import MultipleRelease

# Thirty pieces of doubles, for whatever a family needs for one.
SCRATCH = 30 * 8 * CHUNK


def peaks(family, size, path):
    """Bytes at most in use, in vectors of this size: on taking over, releasing, between, sealing, saving."""
    truth = np.zeros(size, np.int64 if family.integer else np.float64)
    found = {}

    def measured(name, work):
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        result = work()
        found[name] = (tracemalloc.get_traced_memory()[1] - before - SCRATCH) / (8 * size)
        return result

    tracemalloc.start()
    vector = measured("take", lambda: MultipleRelease(family, truth, cap=3, truth_step=1, copy=False))
    measured("first", lambda: vector.release(2))
    measured("second", lambda: vector.release(1))
    measured("between", lambda: vector.release("1.5"))
    measured("again", lambda: vector.release("1.5"))
    measured("seal", vector.seal)
    measured("save", lambda: vector.save(path))
    tracemalloc.stop()
    return found


def check(family, size, path):
    """A new level keeps its offsets and gives away its values; the others give away at most values."""
    found = peaks(family, size, path)
    arrays = {"take": 0, "first": 2, "second": 2, "between": 2, "again": 1, "seal": 1, "save": 0}
    assert all(found[name] <= count for name, count in arrays.items()), found


@pytest.mark.parametrize("family", [Gaussian(), Laplace(), DiscreteLaplace(sensitivity=1)])
def test_nothing_is_held_but_the_arrays_that_stay(family, tmp_path):
    """With three million entries the peak is that of the arrays kept and given away, and thirty pieces."""
    check(family, 3_000_000, tmp_path / "vector")


@pytest.mark.slow
def test_a_hundred_million_entries(tmp_path):
    """The same at 10**8 entries (6 GB)."""
    check(Gaussian(), 100_000_000, tmp_path / "vector")
