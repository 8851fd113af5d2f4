"""Tests that the (epsilon, delta) of Poisson noise on one count equals a sum over all outputs."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import poisson as law

from sparsehist.errors import DeclarationError
from sparsehist.privacy.poisson import delta, epsilon


def by_enumeration(mean: float, epsilon: float) -> float:
    """Return the delta of Poisson noise as a sum over all outputs, for a count that rises or falls by 1."""
    k = np.arange(0, math.ceil(mean + 40 * mean**0.5) + 60)
    falls = np.exp(law.logpmf(k, mean)) * np.maximum(0.0, 1 - np.exp(epsilon) * k / mean)
    rises = np.exp(law.logpmf(k, mean)) * np.maximum(0.0, 1 - np.exp(epsilon) * mean / (k + 1))
    return max(math.fsum(falls), math.fsum(rises))


@pytest.mark.parametrize("mean", [0.3, 1, 20, 100, 1000, 250_000])
@pytest.mark.parametrize("asked", [0.0, 0.001, 0.01, 0.2, 0.5, 2.0])
def test_delta_is_the_sum_over_all_outputs(mean: float, asked: float) -> None:
    """The delta of Poisson noise equals the sum over all outputs, for a rising or falling count, down to 1e-200."""
    exact = by_enumeration(mean, asked)
    if exact > 1e-200:
        assert delta(asked, 1 / Fraction(mean)) == pytest.approx(exact, rel=1e-8, abs=0)


@given(
    power=st.floats(0, 9.6),
    log_delta=st.floats(-30, -0.4),
    step=st.floats(1e-6, 1),
)
def test_epsilon_and_delta_agree(power: float, log_delta: float, step: float) -> None:
    """Poisson noise meets the requested delta at the computed epsilon, but not at an epsilon a millionth smaller."""
    mean, target = 10.0**power, 10.0**log_delta
    level = 1 / Fraction(mean)
    if math.exp(-mean) >= target:
        with pytest.raises(DeclarationError, match="no epsilon gives"):
            epsilon(target, level)
        return
    at = epsilon(target, level)
    assert delta(at, level) <= target
    assert at == 0.0 or delta(at * (1 - 1e-6), level) > target
    assert epsilon(min(0.9, target * (1 + step)), level) <= at
