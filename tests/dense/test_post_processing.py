"""Tests that post-processing steps give exact results and are recorded in the metadata."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sparsehist.dense import clip_negative, scale, threshold
from sparsehist.dense.dense_release import LOSSLESS, WEAKLY_LOSSLESS
from sparsehist.dense.multiple_release import MultipleRelease
from sparsehist.noise import Gaussian

VALUES = np.array([-2.5, -0.5, 0.0, 0.5, 1.5, 1.75])


def test_steps_do_what_they_say():
    """`threshold`, `clip_negative` and `scale` return the exact result and leave the given array unchanged."""
    before = VALUES.copy()
    assert threshold(1.5).apply(VALUES).tolist() == [0, 0, 0, 0, 0, 1.75]
    assert clip_negative().apply(VALUES).tolist() == [0, 0, 0, 0.5, 1.5, 1.75]
    assert scale(-2).apply(VALUES).tolist() == [5, 1, 0, -1, -3, -3.5]
    assert np.array_equal(VALUES, before)
    assert threshold(2).apply(np.array([2, 3])).dtype == np.int64


def test_a_chain_is_lossless_when_every_step_is():
    """Post-processing is lossless only if every step is lossless, and its metadata list the steps in order."""
    plain = MultipleRelease(Gaussian(), [0, 5, 10]).release(1)
    chain = plain.process(scale(2)).process(scale(0.5))
    assert chain.metadata["lossless"] == plain.metadata["lossless"] == LOSSLESS
    assert chain.values.tolist() == plain.values.tolist()
    lossy = chain.process(threshold(1)).process(scale(3))
    assert lossy.metadata["lossless"] == WEAKLY_LOSSLESS
    assert lossy.metadata["post_processing"] == ("scale(2)", "scale(0.5)", "threshold(1)", "scale(3)")
    assert plain.metadata["post_processing"] == ()
    assert lossy.values.tolist() == np.where(plain.values > 1, 3 * plain.values, 0).tolist()
    with pytest.raises(ValueError, match="read-only"):
        lossy.values[0] = 1


@given(arrays(np.int64, 5, elements=st.integers(-(2**40), 2**40)), st.floats(1e-6, 1e6))
def test_scaling_keeps_values_of_a_grid_apart(units, factor):
    """Scaling grid values preserves their order and never makes two different values equal."""
    values = units * 2.0**-10
    scaled = scale(factor).apply(values)
    assert np.array_equal(np.argsort(values, kind="stable"), np.argsort(scaled, kind="stable"))
    assert np.unique(scaled).size == np.unique(values).size
