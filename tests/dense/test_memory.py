"""Long vectors are released and sealed piece by piece: the peak is the arrays that stay."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from sparsehist.dense.multiple_release import MultipleRelease
from sparsehist.dense.rounding import CHUNK
from sparsehist.noise import DiscreteLaplace, Gaussian, Laplace
from tests.cases import slow

# Thirty pieces of doubles, for whatever a family needs for one.
SCRATCH = 30 * 8 * CHUNK


@pytest.mark.parametrize("family", [Gaussian(), slow(Laplace()), slow(DiscreteLaplace())])
def test_nothing_is_held_but_the_arrays_that_stay(family):
    """Memory that remains: offsets and values of a new level, values of a repeated level, nothing for sealing."""
    size, found = 3_000_000, {}

    def measured(name, work):
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        result = work()
        found[name] = (tracemalloc.get_traced_memory()[1] - before - SCRATCH) / (8 * size)
        return result

    truth = np.zeros(size, np.int64)
    tracemalloc.start()
    vector = measured("take", lambda: MultipleRelease(family, truth, cap=3))
    measured("first", lambda: vector.release(2))
    measured("second", lambda: vector.release(1))
    measured("between", lambda: vector.release("1.5"))
    measured("again", lambda: vector.release("1.5"))
    measured("seal", vector.seal)
    tracemalloc.stop()
    arrays = {"take": 1, "first": 2, "second": 2, "between": 2, "again": 1, "seal": 1}
    assert all(found[name] <= count for name, count in arrays.items()), found
