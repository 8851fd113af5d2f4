"""Tests that epsilon and delta of one to a thousand pure releases are computed with relative error below 1e-9."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp

from sparsehist.errors import DeclarationError
from sparsehist.privacy import pure
from tests.privacy import oracle_conversions as oracle

CLOSE = 1e-9


@pytest.mark.parametrize("each", [1e-6, 0.01, 1.0, 50.0])
@pytest.mark.parametrize("times", [1, 2, 7, 60])
def test_conversions_agree_over_the_whole_range(each: float, times: int) -> None:
    """The delta and epsilon of equal pure releases agree with a published formula, for deltas down to 1e-300."""
    with mp.workdps(60):
        for share in (0.0, 1e-6, 0.1, 0.5, 0.9, 1 - 1e-6):
            epsilon = share * times * each
            exact = oracle.pure_delta(epsilon, each, times)
            if exact > 1e-300:
                assert oracle.apart(pure.delta(epsilon, each, times), exact) < CLOSE
        for delta in (1e-300, 1e-30, 1e-6, 0.01, 0.5):
            at = pure.epsilon(delta, each, times)
            if at == 0.0:
                assert oracle.pure_delta(0, each, times) <= delta
            elif at < times * each * (1 - 1e-9):
                exact = oracle.solved(
                    lambda value, delta=delta: oracle.pure_delta(value, each, times) / oracle.number(delta) - 1, at
                )
                assert oracle.apart(at, exact) < CLOSE
            else:
                assert oracle.pure_delta(at * (1 - 1e-6), each, times) > delta


def test_a_thousand_releases_have_the_reference_value() -> None:
    """A thousand releases of epsilon 1/20 have the reference delta at a total epsilon of 7.5."""
    assert pure.delta(7.5, Fraction(1, 20), 1000) == pytest.approx(9.7683797028869858238e-6, rel=1e-11)


@pytest.mark.parametrize(
    ("epsilon", "each", "exact"),
    [
        (1, [(level, 0) for level in (0.1, 0.3, 0.5, 0.2, 0.5, 0.4)], 0.085821319207391260922),
        (2, [(0.1, 1e-6)] * 30, 0.000048081673865063803818),
        (0.5, [(0.02, 0)] * 50 + [(0.01, 0)] * 50, 0.000036963410277167476485),
        (12, [(0.1, 0)] * 400, 5.6406020189534144194e-8),
        (7.5, [(0.05, 0)] * 1000, 9.7683797028869858238e-6),
    ],
)
def test_different_guarantees_compose_to_the_reference_values(epsilon: float, each: list, exact: float) -> None:
    """The delta of many pure or approximate releases, of equal or different epsilon, equals a reference value."""
    assert pure.delta_of(epsilon, each) == pytest.approx(exact, rel=1e-12)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.floats(0.01, 1.5), st.sampled_from([0, 1e-9, 1e-3])), min_size=1, max_size=9))
def test_different_guarantees_are_those_of_all_coins_thrown(each: list) -> None:
    """The delta of several releases is a sum over all outcomes, or slightly more if losses are rounded to a grid."""
    losses = np.zeros(1)
    chances = np.ones(1)
    for level, _ in each:
        kept = 1 / (1 + math.exp(-level))
        losses = np.concatenate([losses + level, losses - level])
        chances = np.concatenate([chances * kept, chances * (1 - kept)])
    asked = 0.4 * sum(level for level, _ in each)
    of_coins = float(np.maximum(0, chances - math.exp(asked) * chances * np.exp(-losses)).sum())
    exact = 1 - math.prod(1 - slack for _, slack in each) * (1 - of_coins)
    assert pure.delta_of(asked, each) == pytest.approx(exact, rel=1e-10, abs=1e-15)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pure, "_MOST_SUMS", 1)
        assert exact - 1e-15 <= pure.delta_of(asked, each) <= exact + 1e-3


def test_what_cannot_be_composed_is_refused() -> None:
    """A number of releases that is zero, fractional, boolean or too large is refused."""
    for times in (0, 2.5, 10**9, True):
        with pytest.raises(DeclarationError, match="times"):
            pure.delta(1.0, 0.1, times)
    assert pure.epsilon(1e-6, 0, 10) == 0.0
    assert pure.delta(0.0, 0, 10) == 0.0
    assert pure.delta_of(1, [(0.1, 1)]) == 1.0
