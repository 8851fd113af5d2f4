"""The exact (epsilon, delta) of Poisson noise, by more than one route."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln

from sparsehist.errors import DeclarationError
from sparsehist.privacy import poisson_routes
from sparsehist.privacy.poisson import delta, delta_added, delta_removed, epsilon
from sparsehist.privacy.poisson_halves import stick_from_halves
from sparsehist.privacy.poisson_pmf import log_poisson_pmf
from sparsehist.privacy.poisson_sums import in_order, sums_of
from sparsehist.privacy.poisson_tilt import ALL, far_share, line, saddle, tilted_atoms, tilted_mean
from sparsehist.privacy.poisson_transform import inverted, line_above
from sparsehist.privacy.poisson_window import bracket, listed_pairs, smoothed_sums


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


def test_one_key_has_the_reference_values() -> None:
    """Mean 100, epsilon 1/2, both directions, to twelve digits."""
    assert delta_removed("0.01", 0.5) == pytest.approx(3.5684658132341932364e-7, rel=1e-13)
    assert delta_added("0.01", 0.5) == pytest.approx(2.692536675846066115e-11, rel=1e-12)
    assert delta("0.01", 0.5) == delta_removed("0.01", 0.5)


def test_twenty_keys_cost_what_twenty_keys_cost() -> None:
    """The same level and epsilon at l = 20: five orders of magnitude above l = 1."""
    assert delta("0.01", 0.5, 20) == pytest.approx(3.9e-2, rel=0.02)


@pytest.mark.parametrize(
    ("mean", "epsilon", "keys"), [(20, 0.5, 1), (20, 0.7, 2), (100, 0.5, 2), (20, 0.5, 3), (6, 1.0, 4), (6, 3.0, 4)]
)
def test_a_few_keys_agree_with_enumeration(mean: int, epsilon: float, keys: int) -> None:
    """Every output listed and added up, in both directions."""
    level = f"1/{mean}"
    assert delta_removed(level, epsilon, keys) == pytest.approx(
        by_enumeration(mean, epsilon, keys, removed=True), rel=1e-12
    )
    assert delta_added(level, epsilon, keys) == pytest.approx(
        by_enumeration(mean, epsilon, keys, removed=False), rel=1e-12
    )


@pytest.mark.parametrize("direction", [delta_removed, delta_added])
@pytest.mark.parametrize("keys", [12, 40])
def test_many_keys_do_not_depend_on_the_line(direction: Callable[..., float], keys: int) -> None:
    """A line of another length gives the same delta: 2**19 points to eleven digits, and 2**16 to nine."""
    long = direction("0.01", 0.7, keys)
    assert direction("0.01", 0.7, keys, grid=1 << 19) == pytest.approx(long, rel=1e-11)
    assert direction("0.01", 0.7, keys, grid=1 << 16) == pytest.approx(long, rel=1e-9)


@pytest.mark.parametrize(("mean", "epsilon", "keys"), [(40, 2.0, 5), (30, 0.6, 6)])
def test_the_line_agrees_with_the_sum_of_halves(mean: int, epsilon: float, keys: int) -> None:
    """A few keys by sums of half of them, and by 2**20 points of the transform: ten digits that share no step."""
    level = f"1/{mean}"
    for direction in (delta_removed, delta_added):
        assert direction(level, epsilon, keys, grid=1 << 20) == pytest.approx(
            direction(level, epsilon, keys), rel=3e-10
        )


@pytest.mark.parametrize(("mean", "keys"), [(1000, 30), (10_000, 12), (100, 200)])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_line_may_stand_elsewhere(mean: float, keys: int, sign: float) -> None:
    """Another tilt, so another period and other weights, gives the same delta to twelve digits, also at 1e-30."""
    for deviations in (1.0, 5.0, 11.0):
        at = keys * tilted_mean(mean, sign, deviations * math.sqrt(mean / keys))
        tilt = 1.05 * line(mean, keys, at, sign)
        atoms, logs = tilted_atoms(mean, sign, tilt)
        scale = float(np.logaddexp.reduce(logs))
        cost = tilt * at - keys * scale
        along = line_above(atoms - at / keys, logs - scale, keys, tilt, cost)
        assert along is not None
        other = inverted(along, 1 << 22)[0] * math.exp(-cost)
        found = poisson_routes.hockey_stick(mean, at, keys, None, sign=sign, floor=0.0)
        assert found == pytest.approx(other, rel=1e-12)


def test_a_delta_near_one_keeps_to_its_complement() -> None:
    """A thousand keys: a mean of 10 leaves nearly nothing, and both directions the same at epsilon 0."""
    keys = 1000
    for value in (0.0, 1.0):
        assert 1.0 - 1e-5 < delta_added("0.1", value, keys) <= 1.0
    # At epsilon 0 both directions are the total variation.
    assert delta_added("0.01", 0.0, keys) == pytest.approx(delta_removed("0.01", 0.0, keys), rel=1e-12)


@settings(max_examples=8, deadline=None, derandomize=True)
@given(
    mean=st.floats(0.5, 1e4),
    keys=st.integers(1, 1000),
    epsilon=st.floats(1e-6, 50.0),
    more=st.floats(1.001, 3.0),
)
def test_delta_is_a_probability_that_falls(mean: float, keys: int, epsilon: float, more: float) -> None:
    """Anywhere: between 0 and 1, no NaN, and no larger for a larger epsilon, more noise or fewer keys."""
    short = 1 << 14

    def at(mean: float, epsilon: float, keys: int) -> float:
        return delta(Fraction(1.0 / mean), epsilon, keys, grid=short)

    value = at(mean, epsilon, keys)
    assert 0.0 <= value <= 1.0 + 1e-12
    slack = 1e-300 + 1e-5 * value
    assert at(mean, more * epsilon, keys) <= value + slack
    assert at(more * mean, epsilon, keys) <= value + slack
    assert at(mean, epsilon, max(1, keys - 1)) <= value + slack


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


@pytest.mark.parametrize(("mean", "keys", "epsilon"), [(1, 5, 3.0), (2, 7, 3.3), (1, 9, 4.0)])
def test_five_keys_and_more_have_twelve_digits(mean: int, keys: int, epsilon: float) -> None:
    """Where all outputs can be listed, against them."""
    for removed, direction in ((True, delta_removed), (False, delta_added)):
        exact = by_products(mean, epsilon, keys, removed=removed)
        assert exact > 1e-9
        assert direction(f"1/{mean}", epsilon, keys) == pytest.approx(exact, rel=5e-13)


@pytest.mark.parametrize(("mean", "keys", "epsilon"), [(2, 9, 4.0), (5, 12, 5.0), (30, 6, 0.6), (2, 20, 8.0)])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_bounds_hold_the_sum_of_halves(mean: float, keys: int, epsilon: float, sign: float) -> None:
    """A smoothed kink on a short line, and pairs of the likelier half of the sums: the exact sum lies between."""
    listed = poisson_routes._from_halves(poisson_routes._Case(mean, epsilon, keys, sign, 0.0), ALL)
    assert listed is not None and listed[1]
    exact = listed[0]
    tilt = line(mean, keys, epsilon, sign)
    atoms, logs = tilted_atoms(mean, sign, tilt)
    scale = float(np.logaddexp.reduce(logs))
    cost = tilt * epsilon - keys * scale
    along = line_above(atoms - epsilon / keys, logs - scale, keys, tilt, cost)
    assert along is not None
    points = 1 << 16
    smoothed, apart = smoothed_sums(along, points), []
    for missing in (1.0, 1e-2, 1e-5):
        added = np.zeros(3)
        if missing < 1.0:
            halves = [sums_of(along.loss, along.mass, n, missing, 1 << 21) for n in (keys - keys // 2, keys // 2)]
            assert halves[0] is not None and halves[1] is not None
            counted = listed_pairs(along, (in_order(halves[0]), in_order(halves[1])), points, 1 << 24)
            assert counted is not None
            added = counted
        found = bracket(smoothed, added)
        value, rounding = exact * math.exp(cost), 3e-13 * exact * math.exp(cost)
        assert found.lower - rounding <= value <= found.upper + rounding
        apart.append(found.upper - found.lower)
    assert apart[2] < 0.5 * apart[0] + rounding


def test_a_law_of_less_than_one_is_listed_too() -> None:
    """Seven keys whose tilt has a second peak that is not felt: the rest of the law is listed."""
    assert delta_removed("0.01", 1.763, 7) == pytest.approx(5.2528168645e-11, rel=1e-9)
    law = sums_of(np.array([0.0, 1.0, 2.5]), np.array([0.2, 0.1, 0.1]), 3, 1e-6, 100, partly=True)
    assert law is not None and law[1].sum() == pytest.approx(0.4**3, rel=1e-12)


@pytest.mark.parametrize("keys", [5, 6])
def test_a_key_apart_changes_nothing(keys: int) -> None:
    """One key's losses listed one by one, the others halved: the same to twelve digits as halving all of them."""
    for sign in (1.0, -1.0):
        tilt = saddle(8.0, 2.0 / keys, sign)
        atoms, logs = tilted_atoms(8.0, sign, tilt)
        mass = np.exp(logs - np.logaddexp.reduce(logs))
        two, three = (sums_of(atoms, mass, factors, 1e-16, 1 << 22) for factors in (2, 3))
        assert two is not None and three is not None
        apart = math.fsum(
            weight * stick_from_halves(two if keys == 5 else three, two, 2.0 - loss, tilt)
            for loss, weight in zip(atoms, mass, strict=True)
        )
        whole = stick_from_halves(three, two if keys == 5 else three, 2.0, tilt)
        assert whole == pytest.approx(apart, rel=5e-13)


@pytest.mark.parametrize(("mean", "keys", "target"), [(100, 1, 1e-6), (50, 2, 1e-18), (5, 5, 0.1)])
def test_epsilon_is_where_delta_is_the_target(mean: int, keys: int, target: float) -> None:
    """To twelve digits of delta, and no smaller epsilon would do."""
    level = f"1/{mean}"
    at = epsilon(target, level, keys)
    assert delta(level, at, keys) == pytest.approx(target, rel=1e-12)
    assert delta(level, at * (1 - 1e-9), keys) > target


def test_a_target_no_epsilon_reaches_is_refused() -> None:
    """Below the chance of an output that only one world can give; and 0 where even that holds."""
    with pytest.raises(DeclarationError, match="no epsilon gives delta 1e-06"):
        epsilon(1e-6, "0.1", 3)
    assert epsilon(0.999, "0.1") == 0.0
    with pytest.raises(DeclarationError, match="strictly between"):
        epsilon(0.0, "0.1")


def test_small_deltas_keep_their_digits_and_fall_in_order() -> None:
    """More keys cost more, more epsilon and more noise less, down to 1e-30 without a sign of cancellation."""
    by_keys = [delta("0.001", 0.4, keys) for keys in (1, 2, 3, 4, 5, 20)]
    assert by_keys == sorted(by_keys)
    by_epsilon = [delta("0.01", epsilon, 3) for epsilon in (0.1, 0.5, 1.0, 2.0)]
    assert by_epsilon == sorted(by_epsilon, reverse=True)
    assert 0 < delta_added("0.01", 2.0, 4) < 1e-30


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


@pytest.mark.parametrize(
    ("mean", "keys", "epsilon"),
    [(200, 2, 1.6), (300, 2, 3.0), (200, 3, 1.8), (450, 2, 1.6), (450, 3, 1.5), (1000, 2, 1.0), (1000, 2, 2.4)],
)
def test_a_far_tail_is_neither_lost_nor_cut(mean: int, keys: int, epsilon: float) -> None:
    """Deltas of 1e-36 to 1e-289 that lie between the two peaks of any tilt, to twelve digits."""
    exact = by_all_pairs(mean, epsilon, keys)
    assert 0.0 < exact < 1e-30
    assert delta_removed(f"1/{mean}", epsilon, keys) == pytest.approx(exact, rel=5e-13)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0, 1.6, 2.5, 4.0])
def test_the_bound_on_far_counts_is_never_below(epsilon: float) -> None:
    """A mean of 450 and two keys: at least what the outputs with a count below mean / e add, all of them listed."""
    k = np.arange(1, 1000)
    loss, logs = np.log(450.0 / k), log_poisson_pmf(k, 450.0)
    far = k < 450 / math.e
    counts = far[:, None] | far
    sums = np.add.outer(loss, loss)[counts]
    exact = float(np.exp(np.add.outer(logs, logs)[counts]) @ np.maximum(0.0, -np.expm1(epsilon - sums)))
    assert far_share(450.0, 2, epsilon) >= exact > 0.0


def test_losses_that_cannot_be_reached_cost_nothing_more() -> None:
    """A mean of 1: falling counts lose nothing but what is certain, for few keys and for many."""
    for keys in (1, 4, 5, 12, 30):
        assert delta_removed(1, 2.0, keys) == pytest.approx(1 - (1 - math.exp(-1)) ** keys, rel=1e-14)
    # All counts at 1, the only way to lose 24 ln 2, beside an epsilon a little smaller.
    last = math.exp(24 * (math.log(2) - 2)) * -math.expm1(-0.01)
    certain = 1 - (1 - math.exp(-2)) ** 24
    assert delta_removed("1/2", 24 * math.log(2) - 0.01, 24) == pytest.approx(certain + last, rel=1e-14)


def test_what_is_no_question_is_refused() -> None:
    """A negative epsilon, and a unit without keys."""
    with pytest.raises(DeclarationError, match=r"-0\.5"):
        delta("0.01", -0.5)
    with pytest.raises(DeclarationError):
        delta("0.01", 0.5, 0)
