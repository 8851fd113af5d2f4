"""Whatever is done with a vector, in whatever order, what was released stays released."""

from __future__ import annotations

import pickle
import tempfile
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparsehist.errors import CapExceededError, LevelOrderError
from sparsehist.noise import DiscreteLaplace, Gaussian, Laplace, Poisson
from sparsehist.series.multiple_release import MultipleRelease

LEVELS = ("1e-6", "0.001", "1/3", "0.4", "0.4000001", "2", "17", "500")
FAMILIES = (Gaussian(sensitivity=3.0), Laplace(), DiscreteLaplace(sensitivity=2), Poisson())
WHOLE = st.lists(st.integers(-(2**45), 2**45), min_size=1, max_size=6)
# Below what the default grid of the least sensitivity and the longest vector can hold.
REAL = st.lists(st.floats(-(2.0**33), 2.0**33), min_size=1, max_size=6)
STEPS = st.lists(st.sampled_from([*LEVELS, "seal", "save", "pickle"]), min_size=2, max_size=12)


def reloaded(vector):
    """Through a file and back."""
    with tempfile.TemporaryDirectory() as directory:
        vector.save(Path(directory) / "vector")
        return MultipleRelease.load(Path(directory) / "vector")


def done(vector, step, published):
    """One step of a history; a level is noted as it was first released."""
    if step == "seal":
        with suppress(LevelOrderError):  # nothing to seal at, or levels too far apart
            vector.seal()
            assert vector.sealed
    elif step == "save":
        return reloaded(vector)
    elif step == "pickle":
        return pickle.loads(pickle.dumps(vector))
    elif vector.cap is not None and Fraction(step) > vector.cap:
        with pytest.raises(CapExceededError):
            vector.release(step)
    else:
        published.setdefault(step, vector.release(step).values)
    return vector


@settings(max_examples=150)
@given(st.sampled_from(FAMILIES), st.one_of(WHOLE, REAL), st.sampled_from([None, "17"]), STEPS)
def test_what_was_released_is_released_again(family, truth, cap, steps):
    """Sealing, saving, loading and pickling at any point leave every released number as it was."""
    truth = [int(value) for value in truth] if family.integer else truth
    vector, published = MultipleRelease(family, truth, cap=cap), {}
    for step in steps:
        vector = done(vector, step, published)
        for level, values in published.items():
            again = vector.release(level)
            assert np.array_equal(again.values, values)
            steps_of_grid = values / again.metadata["grid"]
            assert np.array_equal(steps_of_grid, np.rint(steps_of_grid))
