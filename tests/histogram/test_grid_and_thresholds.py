"""Tests of the rounding grid and of thresholds, which depend only on public numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsehist.errors import ThresholdError
from sparsehist.histogram import (
    effective_threshold,
    expected_false_keys,
    grid_step,
    round_to_grid,
    threshold_for_false_keys,
)
from sparsehist.noise import Gaussian

STDS = st.floats(1e-6, 1e6)


@given(STDS)
def test_the_step_is_a_power_of_two_that_divides_one(std: float) -> None:
    """The grid step is 1, or a power of two between 1/32 and 1/16 of the standard deviation."""
    step = grid_step(std)
    assert math.frexp(step)[0] == 0.5
    assert step == 1.0 or (std / 32 < step <= std / 16 and (1 / step).is_integer())


@given(STDS, st.floats(-1e4, 1e4), st.integers(0, 10**6), st.floats(-8, 8))
def test_rounded_above_the_threshold_is_noise_above_the_effective_one(
    std: float, threshold: float, count: int, z: float
) -> None:
    """Rounding noisy counts to the grid is equivalent to using a slightly different, effective threshold.

    A rounded noisy count is above the threshold if and only if the unrounded count is above the effective threshold.
    """
    step = grid_step(std)
    bound = effective_threshold(threshold, step)
    at_bound = bound - count
    for noise in (z * std, at_bound, np.nextafter(at_bound, np.inf), np.nextafter(at_bound, -np.inf)):
        if abs(noise / step) > 2**52:
            continue
        rounded = float(round_to_grid(np.array([noise]), step)[0])
        assert (count + rounded > math.floor(threshold / step) * step) == (noise > at_bound)


def test_rounding_is_to_the_nearest_halves_down() -> None:
    """Noise is rounded to the nearest grid value, and ties are rounded down.

    A double next to a tie is rounded to the grid value that is nearest to it.
    """
    step = 0.25
    noise = np.array([0.125, 0.375, -0.125, np.nextafter(-0.125, 0), np.nextafter(0.125, 1), 1e-300])
    assert round_to_grid(noise, step).tolist() == [0.0, 0.25, -0.25, 0.0, 0.25, 0.0]


@given(
    st.integers(2, 10**70),
    st.floats(1e-3, 1e6),
    st.sampled_from(["0.001", "0.1", "1/3", "2", "100"]),
    st.integers(1, 1000),
)
def test_the_suggested_threshold_is_the_lowest_that_keeps_to_the_false_keys(
    size: int, wanted: float, level: str, max_keys: int
) -> None:
    """The suggested threshold is the lowest grid value at which no more false keys are expected than requested."""
    family = Gaussian(sensitivity=math.sqrt(max_keys))
    if wanted >= size:
        with pytest.raises(ThresholdError):
            threshold_for_false_keys(family, level, size, wanted)
        return
    step = grid_step(family.std(level))
    threshold = threshold_for_false_keys(family, level, size, wanted)
    assert threshold == math.floor(threshold / step) * step
    assert expected_false_keys(family, level, effective_threshold(threshold, step), size) <= wanted * (1 + 1e-9)
    assert expected_false_keys(family, level, effective_threshold(threshold - step, step), size) > wanted * (1 - 1e-9)


@pytest.mark.parametrize("wanted", [0.0, -1.0, math.nan, math.inf])
def test_a_senseless_number_of_false_keys_is_refused(wanted: float) -> None:
    """A requested number of false keys that is not positive and finite is refused, and the error quotes it."""
    with pytest.raises(ThresholdError, match=str(wanted)):
        threshold_for_false_keys(Gaussian(), 0.1, 100, wanted)
