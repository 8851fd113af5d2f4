"""The (epsilon, delta) of Poisson noise against sums over all outputs: exact for one key, a tight bound for more."""

from __future__ import annotations

import math
import statistics
import time
import tracemalloc
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln

from sparsehist.errors import DeclarationError
from sparsehist.privacy import poisson
from sparsehist.privacy.poisson import delta, delta_added, delta_removed, epsilon, is_exact
from sparsehist.privacy.poisson_pmf import log_poisson_pmf

# What a listed sum may itself be off by.
ROUNDING = 1e-12


def by_enumeration(mean: float, epsilon: float, keys: int, *, removed: bool) -> float:
    """The sum over all outputs of up to four keys."""
    k = np.arange(1, int(mean + 9 * mean**0.5 + 22))
    noise = k if removed else k - 1
    mass = np.exp(noise * np.log(mean) - mean - gammaln(noise + 1))
    loss = np.log(mean / k) if removed else np.log(k / mean)
    joint, total = mass, loss
    for _ in range(keys - 1):
        joint, total = np.multiply.outer(joint, mass).ravel(), np.add.outer(total, loss).ravel()
    impossible = 1 - (1 - math.exp(-mean)) ** keys if removed else 0.0
    return impossible + math.fsum(joint * np.maximum(0.0, -np.expm1(epsilon - total)))


def by_products(mean: float, epsilon: float, keys: int, *, removed: bool) -> float:
    """delta from the law of the product of the counts, a whole number whose logarithm is the loss."""
    shift = 0 if removed else 1
    one = {k: math.exp((k - shift) * math.log(mean) - mean - gammaln(k - shift + 1)) for k in range(1, 30)}
    law = {1: 1.0}
    for _ in range(keys):
        following: dict[int, float] = defaultdict(float)
        for product, chance in law.items():
            for k, mass in one.items():
                if chance * mass > 1e-24:
                    following[product * k] += chance * mass
        law = following
    loss = np.log(np.array(list(law), np.float64)) - keys * math.log(mean)
    loss = -loss if removed else loss
    impossible = 1 - (1 - math.exp(-mean)) ** keys if removed else 0.0
    return impossible + math.fsum(np.array(list(law.values())) * np.maximum(0.0, -np.expm1(epsilon - loss)))


def by_all_pairs(mean: int, epsilon: float, keys: int) -> float:
    """Falling counts of two or three keys without a tilt: in logarithms, each sum by itself."""
    k = np.arange(1, int(mean + 14 * mean**0.5))
    one, one_log = np.log(mean / k), log_poisson_pmf(k, mean)
    loss, logs = one, one_log
    if keys == 3:
        loss, logs = np.add.outer(one, one).ravel(), np.add.outer(one_log, one_log).ravel()
    total = 0.0
    for another, log_mass in zip(one, one_log, strict=True):
        above = loss + another > epsilon
        total += float(np.sum(np.exp(logs[above] + log_mass) * -np.expm1(epsilon - another - loss[above])))
    return total - math.expm1(keys * math.log1p(-math.exp(-mean)))


def is_tight(found: float, exact: float, looseness: float) -> None:
    """An upper bound, and no looser than that."""
    assert exact > 0.0
    assert exact * (1 - ROUNDING) <= found <= exact * (1 + looseness)


def test_one_key_has_the_reference_values() -> None:
    """Mean 100, epsilon 1/2, both directions, to twelve digits."""
    is_tight(delta_removed("0.01", 0.5), 3.5684658132341932364e-7, 1e-13)
    is_tight(delta_added("0.01", 0.5), 2.692536675846066115e-11, 1e-12)
    assert delta("0.01", 0.5) == delta_removed("0.01", 0.5)
    assert is_exact("0.01", 1) and not is_exact("0.01", 2) and not is_exact("1e-7", 1)


def test_twenty_keys_cost_what_twenty_keys_cost() -> None:
    """The same level and epsilon at l = 20: five orders of magnitude above l = 1."""
    assert delta("0.01", 0.5, 20) == pytest.approx(3.9e-2, rel=0.01)


@pytest.mark.parametrize(("mean", "epsilon"), [(0.3, 1.0), (20, 0.5), (100, 0.3), (1000, 0.2), (250_000, 0.01)])
def test_one_key_is_exact(mean: float, epsilon: float) -> None:
    """Every output listed, in both directions, and nothing lost near the largest mean that is exact."""
    k = np.arange(max(1.0, math.floor(mean - 38 * mean**0.5)), math.ceil(mean + 40 * mean**0.5) + 30)
    removed = np.exp(log_poisson_pmf(k, mean)) * np.maximum(0.0, 1 - np.exp(epsilon) * k / mean)
    added = np.exp(log_poisson_pmf(k - 1, mean)) * np.maximum(0.0, 1 - np.exp(epsilon) * mean / k)
    level = 1 / Fraction(mean)
    assert delta_removed(level, epsilon) == pytest.approx(math.fsum(removed) + math.exp(-mean), rel=1e-11, abs=0)
    assert delta_added(level, epsilon) == pytest.approx(math.fsum(added), rel=1e-11, abs=0)


@pytest.mark.parametrize(
    ("mean", "epsilon", "keys"), [(20, 0.7, 2), (100, 0.5, 2), (20, 0.5, 3), (6, 1.0, 4), (6, 3.0, 4)]
)
def test_a_few_keys_agree_with_enumeration(mean: int, epsilon: float, keys: int) -> None:
    """Every output listed and added up, in both directions."""
    level = f"1/{mean}"
    is_tight(delta_removed(level, epsilon, keys), by_enumeration(mean, epsilon, keys, removed=True), 1e-9)
    is_tight(delta_added(level, epsilon, keys), by_enumeration(mean, epsilon, keys, removed=False), 1e-9)


@pytest.mark.parametrize(("mean", "keys", "epsilon"), [(1, 5, 3.0), (2, 7, 3.3), (1, 9, 4.0), (2, 9, 8.0)])
def test_more_keys_agree_with_the_law_of_the_product(mean: int, keys: int, epsilon: float) -> None:
    """Where all outputs can be listed as products of counts, against them."""
    for removed, direction in ((True, delta_removed), (False, delta_added)):
        exact = by_products(mean, epsilon, keys, removed=removed)
        assert exact > 1e-9
        is_tight(direction(f"1/{mean}", epsilon, keys), exact, 2e-8)


def by_convolution(mean: float, epsilon: float, keys: int, *, removed: bool, up: bool) -> float:
    """delta with each loss rounded to a fine grid, up or down, and convolved: two bounds."""
    step = 2e-5 * math.sqrt(100 / mean)
    k = np.arange(max(1, int(mean - 12 * mean**0.5)), int(mean + 14 * mean**0.5 + 30))
    mass = np.exp(log_poisson_pmf(k if removed else k - 1, mean))
    loss = np.log(mean / k) if removed else np.log(k / mean)
    place = (np.ceil if up else np.floor)(loss / step).astype(np.int64)
    size = 1 << 21
    law = np.bincount(place % size, mass, size)
    total = np.fft.irfft(np.fft.rfft(law) ** keys, size)
    points = np.arange(size)
    points[points >= size // 2] -= size
    finite = float(total @ np.maximum(0.0, -np.expm1(np.minimum(epsilon - points * step, 1.0))))
    return finite + (1 - (1 - math.exp(-mean)) ** keys if removed else 0.0)


@pytest.mark.parametrize(
    ("mean", "keys", "epsilon"), [(100, 20, 0.5), (100, 40, 0.9), (1000, 200, 1.2), (30, 12, 1.0)]
)
@pytest.mark.parametrize("removed", [True, False])
def test_many_keys_lie_between_two_roundings(mean: int, keys: int, epsilon: float, removed: bool) -> None:
    """A plain convolution without a tilt, losses rounded down and up: the bound is above the first and in the gap."""
    low, high = (by_convolution(mean, epsilon, keys, removed=removed, up=up) for up in (False, True))
    found = (delta_removed if removed else delta_added)(f"1/{mean}", epsilon, keys)
    assert low <= found <= high
    assert high < 1.05 * low
    middle = math.sqrt(low * high)
    assert found == pytest.approx(middle, rel=0.03 * (high / low - 1) + 3e-5, abs=0)


def test_a_delta_near_one_is_no_more_than_one() -> None:
    """A thousand keys: a mean of 10 leaves nearly nothing, and both directions the same at epsilon 0."""
    keys = 1000
    for value in (0.0, 1.0):
        assert 1.0 - 1e-5 < delta_added("0.1", value, keys) <= 1.0
    # At epsilon 0 both directions are the total variation.
    assert delta_added("0.01", 0.0, keys) == pytest.approx(delta_removed("0.01", 0.0, keys), rel=1e-6)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    mean=st.floats(0.5, 4e9),
    keys=st.integers(1, 1000),
    deviations=st.floats(0.0, 9.0),
    more=st.floats(1.01, 3.0),
)
def test_delta_is_a_probability_that_falls(mean: float, keys: int, deviations: float, more: float) -> None:
    """Anywhere: between 0 and 1, no NaN, and no larger for a larger epsilon, more noise or fewer keys."""
    value = keys / (2 * mean) + deviations * math.sqrt(keys / mean)

    def at(mean: float, epsilon: float, keys: int) -> float:
        return delta(1 / Fraction(mean), epsilon, keys)

    found = at(mean, value, keys)
    assert 0.0 <= found <= 1.0
    most = found * (1 + 2e-3) + 1e-299
    assert at(mean, more * value, keys) <= most
    assert at(min(more * mean, 2.0**32), value, keys) <= most
    assert at(mean, value, max(1, keys - 1)) <= most


@pytest.mark.parametrize(("mean", "keys", "target"), [(100, 1, 1e-6), (50, 2, 1e-18), (5, 5, 0.1), (1e6, 300, 1e-9)])
def test_epsilon_is_where_delta_is_the_target(mean: float, keys: int, target: float) -> None:
    """No more than the target, and no epsilon smaller by more than the bound is loose would do."""
    level = 1 / Fraction(mean)
    at = epsilon(target, level, keys)
    # delta is asked for at another tilt, whose bound may be above this one by what either is loose.
    assert delta(level, at, keys) == pytest.approx(target, rel=1e-9 if keys == 1 else 1e-6, abs=0)
    assert delta(level, at * (1 - 1e-5), keys) > target


def test_a_target_no_epsilon_reaches_is_refused() -> None:
    """Below the chance of an output that only one world can give; and 0 where even that holds."""
    with pytest.raises(DeclarationError) as refusal:
        epsilon(1e-6, "0.1", 3)
    assert "1e-06" in str(refusal.value)
    assert epsilon(0.999, "0.1") == 0.0
    for target in (0.0, 1.0):
        with pytest.raises(DeclarationError):
            epsilon(target, "0.1")


def test_a_target_just_above_what_is_certain_is_reached() -> None:
    """The largest finite loss is that of a count of 1: from there on only the certain part is lost."""
    certain = 1 - (1 - math.exp(-10)) ** 3
    assert epsilon(certain * (1 + 1e-12), "0.1", 3) <= 3 * math.log(10)
    assert epsilon(certain * (1 + 1e-3), "0.1", 3) < 3 * math.log(10)
    assert math.isfinite(epsilon(1e-299, "0.001", 2))


def test_small_deltas_keep_their_digits_and_fall_in_order() -> None:
    """More keys cost more, more epsilon and more noise less, down to 1e-30 without a sign of cancellation."""
    by_keys = [delta("0.001", 0.4, keys) for keys in (1, 2, 3, 4, 5, 20)]
    assert by_keys == sorted(by_keys)
    by_epsilon = [delta("0.01", epsilon, 3) for epsilon in (0.1, 0.5, 1.0, 2.0)]
    assert by_epsilon == sorted(by_epsilon, reverse=True)
    assert 0 < delta_added("0.01", 2.0, 4) < 1e-30


@pytest.mark.parametrize(
    ("mean", "keys", "epsilon", "looseness"),
    [
        (100, 2, 1.5, 1e-8),
        (100, 3, 2.0, 1e-8),
        (200, 2, 1.6, 1e-3),  # 7e-37
        (200, 3, 1.8, 1e-5),
        (450, 3, 1.5, 1e3),  # 5e-57: one count below mean / e, whom no tilt finds
        (1000, 2, 2.4, 1e140),  # 4e-289
    ],
)
def test_a_far_tail_is_not_lost(mean: int, keys: int, epsilon: float, looseness: float) -> None:
    """Deltas that lie between the two peaks of any tilt: never too small, and tight to some 1e-40."""
    exact = by_all_pairs(mean, epsilon, keys)
    assert 0.0 < exact < 1e-17
    is_tight(delta_removed(f"1/{mean}", epsilon, keys), exact, looseness)


def test_losses_that_cannot_be_reached_cost_nothing_more() -> None:
    """A mean of 1: falling counts lose nothing but what is certain, for few keys and for many."""
    for keys in (1, 4, 5, 12, 30):
        assert delta_removed(1, 2.0, keys) == pytest.approx(1 - (1 - math.exp(-1)) ** keys, rel=1e-14)


def test_thinned_out_counts_only_raise_delta() -> None:
    """A mean above 2**18, where several counts are read as one: above every count's own sum, by next to nothing."""
    mean = 4e6
    k = np.arange(mean - 38 * mean**0.5, mean + 38 * mean**0.5)
    for value in (1e-4, 1e-3, 4e-3):
        exact = math.fsum(np.exp(log_poisson_pmf(k, mean)) * np.maximum(0.0, 1 - np.exp(value) * k / mean))
        is_tight(delta_removed(1 / Fraction(mean), value), exact, 1e-4)


def test_a_law_serves_far_from_where_it_is_tight() -> None:
    """A law tilted for one epsilon bounds delta at any other."""
    for sign in (1.0, -1.0):
        composed = poisson._composed(50.0, 10, sign, 2.0)
        for value in (0.0, 0.3, 1.0, 1.9, 2.1, 3.5, 6.0):
            assert composed.delta(value) >= poisson._delta(50.0, value, 10, sign) * (1 - 1e-6)


def test_what_is_no_question_is_refused() -> None:
    """A negative epsilon, and a unit without keys."""
    with pytest.raises(DeclarationError):
        delta("0.01", -0.5)
    with pytest.raises(DeclarationError):
        delta("0.01", 0.5, 0)


def test_a_statement_takes_no_time_and_no_memory() -> None:
    """Every mean that is served, one key to a thousand: 50 ms of CPU in the median, a few megabytes."""
    seconds = []
    for mean in (0.01, 1, 100, 10**4, 2 * 10**5, 10**6, 4 * 10**6, 10**8, 2**32):
        for keys in (1, 2, 20, 1000):
            for question in (
                lambda level, keys: delta(level, 1.0, keys),
                lambda level, keys: epsilon(0.9, level, keys),
            ):
                poisson._composed.cache_clear()
                poisson._losses.cache_clear()
                start = time.process_time()
                try:
                    question(1 / Fraction(mean), keys)
                except DeclarationError:
                    continue
                seconds.append(time.process_time() - start)
    assert statistics.median(seconds) < 0.05
    assert max(seconds) < 0.5
    tracemalloc.start()
    delta("1e-6", 0.01, 1000)
    assert tracemalloc.get_traced_memory()[1] < 50e6
    tracemalloc.stop()
