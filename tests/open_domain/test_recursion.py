from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp

from sparsehist.errors import DeclarationError, LevelOrderError
from sparsehist.open_domain.recursion import BoundedPath
from tests import oracle
from tests.open_domain.quadrature import exceed_probability, log_between, log_exceeding, log_survival

# Past levels and thresholds, new level and threshold (in standard deviations, rational), sensitivity, count, p.
# The probabilities are those of tests/oracle.py, whose digits `test_the_oracle_…` recomputes.
REFERENCES = {
    "finer": (["0.1"], ["3"], "0.2", "3", "1", 0, "0.001113346502246084802793"),
    "finer twice": (["0.1", "0.2"], ["3", "3"], "0.4", "3", "1", 0, "0.001082958092068872860282"),
    "finer, rare": (["0.1"], ["5"], "0.2", "5", "1", 0, "2.77440733013039629568e-7"),
    "finer twice, rare": (["0.1", "0.2"], ["5", "5"], "0.4", "5", "1", 0, "2.770060876371382566209e-7"),
    "between": (["0.1", "0.4"], ["3", "2.5"], "0.2", "2.8", "1", 0, "0.001500081339876194263089"),
    "coarser": (["0.2", "0.4"], ["3", "2.5"], "0.05", "3.5", "1", 0, "0.0001967373550870762610265"),
    "same level": (["0.1", "0.2"], ["3", "3"], "0.2", "2.5", "1", 0, "0.004566654584904686661536"),
    "very rare": (["0.1"], ["9"], "0.2", "9", "1", 0, "1.128403790584762236442e-19"),
    "all below zero": (["0.1", "0.2"], ["-5", "-5"], "0.3", "-3", "1", 0, "0.014927946253041457377"),
    "no history": ([], [], "0.3", "3", "1", 0, "0.001349898031630094526652"),
}
SLOW_REFERENCES = {
    "counts": (["0.1", "0.3", "0.5"], ["3", "2", "2.5"], "0.2", "2.2", "3", 2, "0.01205186578433002951827"),
    "very rare, four": (
        *(["0.1", "0.2", "0.4"], ["9", "9.5", "9"]),
        *("0.3", "9", "1", 0, "1.111753364084308787679e-19"),
    ),
    "five levels": (
        *(["0.1", "0.2", "0.3", "0.5"], ["3", "3.5", "2", "2.5"]),
        *("0.4", "2.2", "3", 2, "0.01270979742722401564904"),
    ),
}
EVERY = REFERENCES | SLOW_REFERENCES


def in_counts(levels, deviations, sensitivity):
    """Thresholds in counts, in the precision in force."""
    pairs = zip(levels, deviations, strict=True)
    return [mp.mpf(t) * oracle.std(level, sensitivity) for level, t in pairs]


def check_oracle(levels, deviations, level, deviation, sensitivity, count, expected):
    """Compare a row of the table with what the oracle gives now."""
    with mp.workdps(30):
        thresholds = in_counts(levels, deviations, sensitivity)
        (threshold,) = in_counts([level], [deviation], sensitivity)
        found = oracle.gaussian_probability(
            levels, thresholds, level, threshold, sensitivity=sensitivity, count=count
        )
        assert abs(found / mp.mpf(expected) - 1) < 1e-18


@pytest.mark.parametrize("name", EVERY)
def test_a_new_level_anywhere_is_exceeded_with_the_reference_probability(name):
    """Twelve digits agree with 30-digit arithmetic, wherever the new level stands and however rare."""
    levels, deviations, level, deviation, sensitivity, count, expected = EVERY[name]
    thresholds = in_counts(levels, deviations, sensitivity)
    (threshold,) = in_counts([level], [deviation], sensitivity)
    found = exceed_probability(
        [float(x) for x in levels],
        [float(x) for x in thresholds],
        float(level),
        float(threshold),
        float(sensitivity),
        count=count,
    )
    assert found == pytest.approx(float(expected), rel=1e-12, abs=0)


def test_thresholds_may_fall_with_the_levels():
    """Thresholds 10, 8 and 5 in counts give the reference value."""
    found = exceed_probability([0.1, 0.2], [10, 8], 0.4, 5, 1.0)
    assert found == pytest.approx(3.818693700135563521e-6, rel=1e-12, abs=0)


@pytest.mark.parametrize("name", REFERENCES)
def test_the_oracle_gives_the_digits_written_here(name):
    """The reference values come from the oracle."""
    check_oracle(*REFERENCES[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW_REFERENCES)
def test_the_oracle_gives_the_digits_of_double_integrals(name):
    """The reference values of four and five levels come from the oracle, too."""
    check_oracle(*SLOW_REFERENCES[name])


def test_the_oracle_gives_mean_and_variance_of_a_new_value():
    """Mean and variance at the third of three levels, three deviations each, are the reference values."""
    with mp.workdps(30):
        thresholds = in_counts(["0.1", "0.2"], [3, 3], 1)
        (threshold,) = in_counts(["0.4"], [3], 1)
        mean, variance = oracle.gaussian_value(["0.1", "0.2"], thresholds, "0.4", threshold)
        assert abs(mean - mp.mpf("3.2568427478742748627")) < 1e-18
        assert abs(variance - mp.mpf("0.056830465081983539043")) < 1e-18


def test_order_and_repetition_of_past_levels_do_not_matter():
    """A level released twice binds at its lower threshold, wherever it stands in the sequence."""
    once = exceed_probability([0.1, 0.2], [5, 3], 0.3, 4, 1.0, count=1)
    assert exceed_probability([0.2, 0.1, 0.2], [4, 5, 3], 0.3, 4, 1.0, count=1) == once


def test_a_threshold_no_lower_than_before_at_the_same_level_is_never_exceeded():
    """What stayed below a threshold cannot exceed it at the same level."""
    assert exceed_probability([0.1, 0.2], [5, 3], 0.2, 3, 1.0) == 0


BOXES = {
    "a history of 1e-60": ([1.0, 2.0, 3.0], [-math.inf] * 3, [-16.0, -20.0, -10.0]),
    "up and down": ([1.0, 2.0, 3.0], [-math.inf, 6.0, -math.inf], [-5.0, math.inf, -4.0]),
    "thousands of units of logarithm": ([1.0, 2.0], [-math.inf, 30.0], [-30.0, math.inf]),
    "times far apart": ([1e-3, 100.0], [-math.inf, 50.0], [3e-2, math.inf]),
    "a kernel far wider than what it meets": ([1e-12, 30.0], [-math.inf] * 2, [-2e-5, -120.0]),
    "a bound that hardly binds": ([4e-6, 6.08e-6, 6.12e-6], [-math.inf] * 3, [0.03, 0.0267, 0.00578]),
    "narrow intervals": ([1.0, 1.5], [1.0, 1.001], [1.0001, 1.002]),
    "one time": ([2.0], [1.0], [1.5]),
}


@pytest.mark.parametrize("name", BOXES)
def test_probabilities_of_boxes_are_right_however_small(name):
    """The logarithm of any box probability agrees with the oracle to thirteen digits, or 1e-12."""
    times, lower, upper = BOXES[name]
    expected = oracle.log_box(times, lower, upper)
    assert log_between(times, lower, upper) == pytest.approx(float(expected), rel=1e-13, abs=1e-12)


def test_levels_may_lie_close_together():
    """Times from 1e-3 down to 1e-10 apart keep the digits that the bounds have."""
    for gap, tolerance in ((2.0**-10, 1e-12), (2.0**-20, 1e-12), (2.0**-33, 1e-10)):
        narrow = math.sqrt(gap)
        # u = 3 - y*narrow: P = integral over y of narrow * phi(u) * P[N > y], with one narrow kernel.
        with mp.workdps(30):
            steps = [mp.mpf(k) / 2 for k in range(30)]

            def density(y, narrow=narrow):
                return mp.npdf(3 - y * narrow) * mp.ncdf(-y) * mp.mpf(narrow)

            expected = mp.log(mp.quad(density, steps))
        found = log_exceeding([1.0], [3.0], 1 + gap, 3.0)
        assert found == pytest.approx(float(expected), rel=0, abs=tolerance)


@st.composite
def histories(draw):
    """Increasing times with steps over eight decades, bounds within six deviations, and one new point."""
    gaps = draw(st.lists(st.floats(-6, 2), min_size=1, max_size=6))
    times = np.cumsum(10.0 ** np.array(gaps))
    deviations = draw(st.lists(st.floats(-6, 6), min_size=len(times), max_size=len(times)))
    place, deviation = draw(st.floats(0.01, 1.5)), draw(st.floats(-6, 6))
    new_time = float(times[-1] * place)
    return times, np.sqrt(times) * deviations, new_time, deviation * math.sqrt(new_time)


@given(histories())
def test_exceeding_and_staying_below_add_up(history):
    """P(A, above) + P(A, below) = P(A), for a new level before, between and after any others."""
    times, upper, new_time, bound = history
    above = log_exceeding(times, upper, new_time, bound)
    bounds = dict(zip(times.tolist(), upper.tolist(), strict=True)) | {new_time: bound}
    t = sorted(bounds)
    below = log_survival(t, [bounds[time] for time in t])
    assert np.logaddexp(above, below) == pytest.approx(log_survival(times, upper), rel=1e-13, abs=1e-11)


@pytest.mark.parametrize("name", EVERY)
def test_a_path_met_by_a_new_level_has_the_reference_probability(name):
    """Forwards times backwards gives the digits of the oracle; a bound far below leaves all of the path."""
    levels, deviations, level, deviation, sensitivity, count, expected = EVERY[name]
    scale = math.sqrt(2) / float(sensitivity)
    thresholds = in_counts(levels, deviations, sensitivity)
    (threshold,) = in_counts([level], [deviation], sensitivity)
    times = [float(one) for one in levels]
    upper = [t * float(bound - count) * scale for t, bound in zip(times, thresholds, strict=True)]
    path, new, stays = BoundedPath(times, upper), float(level), log_survival(times, upper)
    found = path.log_exceeding(new, new * float(threshold - count) * scale)
    assert math.exp(found - stays) == pytest.approx(float(expected), rel=1e-12, abs=0)
    assert path.log_exceeding(new, -1e9) == pytest.approx(stays, rel=0, abs=2e-13)
    assert math.fsum(np.exp(path.log_first_exceedances())) == pytest.approx(-math.expm1(stays), rel=0, abs=1e-13)


@given(histories())
def test_a_path_met_by_a_new_level_agrees_with_the_recursion_through_it(history):
    """For a new time anywhere, a time that the path has, and each term of the path: the same numbers."""
    times, upper, new_time, bound = history
    path = BoundedPath(times, upper)
    for time, lower in ((new_time, bound), (float(times[0]), float(upper[0]) - math.sqrt(times[0]))):
        expected = log_exceeding(times, upper, time, lower)
        if expected > -700:
            assert path.log_exceeding(time, lower) == pytest.approx(expected, rel=1e-13, abs=1e-11)
    for i, term in enumerate(path.log_first_exceedances()):
        expected = log_exceeding(times[:i], upper[:i], times[i], upper[i])
        if expected > -700:
            assert term == pytest.approx(expected, rel=1e-13, abs=1e-11)
    assert path.log_exceeding(new_time, 50 * math.sqrt(new_time)) == -math.inf


@given(histories(), st.floats(1e-20, 1e20))
def test_units_do_not_matter(history, unit):
    """Times in another unit, with bounds in its square root, are the same question."""
    times, upper, new_time, bound = history
    root = math.sqrt(unit)
    found = log_exceeding(times * unit, upper * root, new_time * unit, bound * root)
    assert found == pytest.approx(log_exceeding(times, upper, new_time, bound), rel=1e-12, abs=1e-10)


def test_an_empty_history_is_certain():
    """No times, no doubt."""
    assert log_survival([], []) == 0


def test_bad_boxes_are_refused():
    """Times out of order, bounds that are not numbers, and empty intervals are refused."""
    with pytest.raises(LevelOrderError):
        log_survival([2.0, 1.0], [1.0, 1.0])
    with pytest.raises(LevelOrderError):
        log_survival([0.0], [1.0])
    with pytest.raises(LevelOrderError):
        exceed_probability([0.1], [1.0], -0.2, 1.0, 1.0)
    with pytest.raises(DeclarationError):
        log_survival([1.0, 2.0], [1.0])
    with pytest.raises(DeclarationError):
        log_survival([1.0], [math.nan])
    for times, upper, error in (
        ([2.0, 1.0], [1.0, 1.0], LevelOrderError),
        ([0.0], [1.0], LevelOrderError),
        ([1.0, 2.0], [1.0], DeclarationError),
        ([1.0], [math.nan], DeclarationError),
    ):
        with pytest.raises(error):
            BoundedPath(times, upper)
    assert log_between([1.0], [2.0], [1.0]) == -math.inf
