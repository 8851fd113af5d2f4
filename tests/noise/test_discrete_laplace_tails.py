"""Tails of discrete Laplace noise, their inverse and its slack, and draws above a threshold."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsehist import entropy
from sparsehist.noise.discrete_laplace import DiscreteLaplace
from tests.noise.test_discrete_laplace import DRAWS, FAMILY
from tests.stats import assert_consistent, g_test


def test_the_tail_agrees_with_thirty_digits() -> None:
    """tail, log_tail and log_cdf against mpmath, below and above zero, at whole and broken thresholds."""
    with mpmath.workdps(30):
        for rate in ("0.001", "0.25", "3"):
            family, a = DiscreteLaplace(1), mpmath.exp(-mpmath.mpf(rate))
            for t in (-9000, -7.5, -2, -1, -0.5, 0, 0.3, 4, 200.999, 100_000):
                x = math.floor(t)
                above = a ** (x + 1) / (1 + a) if x >= 0 else 1 - a ** (-x) / (1 + a)
                lower = a ** (-x) / (1 + a) if x < 0 else 1 - a ** (x + 1) / (1 + a)
                with mpmath.workdps(80):
                    exact = mpmath.log(above) if x >= 0 else mpmath.log1p(-lower)
                    exact_lower = mpmath.log(lower) if x < 0 else mpmath.log1p(-above)
                assert float(family.log_tail(t, rate)) == pytest.approx(float(exact), rel=1e-13)
                assert float(family.log_cdf(t, rate)) == pytest.approx(float(exact_lower), rel=1e-13)
                assert float(family.tail(t, rate)) == pytest.approx(float(above), rel=1e-9)
    assert FAMILY.log_tail([-np.inf, np.inf], 1).tolist() == [0.0, -np.inf]
    assert int(FAMILY.inverse_log_tail(0.0, 1)) < -10
    assert int(FAMILY.inverse_log_tail(-np.inf, 1)) > 10


@given(st.one_of(st.floats(-2000.0, -1e-3), st.floats(-1e-3, -1e-300)), st.sampled_from(["0.002", "0.3", "2", "40"]))
def test_inverse_log_tail_brackets_its_argument(log_probability: float, level: str) -> None:
    """P[Z > x] <= e^l < P[Z >= x], to rounding, over both tails."""
    x = DiscreteLaplace(1).inverse_log_tail(log_probability, level)
    assert x.dtype == np.int64
    family, slack = DiscreteLaplace(1), 1e-12 * abs(log_probability) + 1e-15
    if log_probability < -1e-3:
        assert float(family.log_tail(x, level)) <= log_probability + slack
        assert float(family.log_tail(x - 1, level)) >= log_probability - slack
        return
    log_lower = math.log(-math.expm1(log_probability))
    slack = 1e-12 * abs(log_lower)
    assert float(family.log_cdf(x - 1, level)) - slack <= log_lower <= float(family.log_cdf(x, level)) + slack


@pytest.mark.parametrize("threshold", [-7, -3.5, -1, 0, 2.5, 1000])
def test_draws_above_a_threshold_have_the_truncated_law(threshold: float) -> None:
    """sample_tail: the law itself, given that it exceeds."""
    drawn = FAMILY.sample_tail(DRAWS // 2, threshold, 1, rng=entropy.seeded(61))
    least = math.floor(threshold) + 1
    decay, x = math.exp(-0.5), np.arange(least, least + 60)
    weights = decay ** (np.abs(x) - np.abs(x).min())
    rest = weights[-1] * decay / (1 - decay)
    chances = np.append(weights, rest) / (weights.sum() + rest)
    assert drawn.min() >= least
    assert_consistent(g_test(np.bincount(np.minimum(drawn - least, 60), minlength=61), chances))


def test_thresholds_may_differ_from_draw_to_draw() -> None:
    """sample_tail takes one threshold a draw, on both sides of zero."""
    thresholds = np.tile([-5.0, -1.0, 0.0, 3.7], 1000)
    assert (FAMILY.sample_tail(4000, thresholds, 1, rng=entropy.seeded(62)) > thresholds).all()
