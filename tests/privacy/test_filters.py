"""Tests that adaptive adversaries stay within the budget of a privacy filter, unless the filter is unsound."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from itertools import product

import pytest
from mpmath import mp

from sparsehist.errors import DeclarationError
from sparsehist.noise.poisson import LARGEST_MEAN
from sparsehist.privacy import EpsilonDelta, filters, gaussian, path_cost, poisson, skellam, total_cost, zcdp
from sparsehist.privacy.epsilon_delta import guarantee
from sparsehist.privacy.filters import Filter, coin_divergence, filter_on
from tests.cases import slow
from tests.privacy import oracle_conversions as oracle
from tests.privacy.adaptive_adversary import Move, most

# Allowed relative error of the numerical search for the best adversary.
ERROR = 7e-4
SHARES = (0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99)
LAW = {"gaussian": "gaussian", "coin": "epsilon"}


def by_filter(within: Filter, kinds: tuple[str, ...], shares: tuple[float, ...] = SHARES):
    """Return a function that yields allowed next releases, one per kind of noise and share of remaining budget."""

    def moves(made: tuple[Move, ...]) -> Iterable[Move]:
        spent = sum((within.charge(LAW[move.kind], Fraction(move.amount)) for move in made), Fraction(0))
        room = within.limit - spent
        for kind in kinds:
            for share in (*shares, 1.0):
                level = within.largest(room * Fraction(share), LAW[kind])
                if level > 0 and within.fits(room, LAW[kind], level):
                    yield Move(kind, float(level))

    return moves


def passes_every_curve(made: Iterable[Move], epsilon: float, delta: float) -> bool:
    """Return whether the smallest of several bounds on epsilon fits the budget (unsound if releases are adaptive)."""
    currency = {"gaussian": "rho", "coin": "epsilon"}
    parts = [
        path_cost(currency[move.kind], Fraction(move.amount), law="gaussian" if move.kind == "gaussian" else None)
        for move in made
    ]
    return guarantee(total_cost(parts), delta) <= epsilon


BUDGETS = [("gaussian", 3, "1e-6"), ("gaussian", 1, "1e-6"), ("gaussian", 8, "1e-9"), ("gaussian", 0.25, "1e-3"),
           ("renyi", 3, "1e-6"), ("renyi", 1, "1e-6"), ("renyi", 8, "1e-9"), ("renyi", 0.5, "1e-3")]  # fmt: skip


@pytest.mark.parametrize(
    ("route", "epsilon", "delta", "steps"),
    [
        *((*budget, 2) for budget in BUDGETS),
        ("gaussian", 0.25, "1e-3", 3),
        *(slow(*budget, 3) for budget in BUDGETS if budget != ("gaussian", 0.25, "1e-3")),
    ],
)
def test_no_adversary_gets_beyond_a_filter(route, epsilon, delta, steps):
    """Adaptive adversaries stay within the delta of the filter, and with Gaussian releases come within 1 % of it."""
    within = filter_on(route, Fraction(epsilon), Fraction(delta))
    kinds, shares = (("gaussian",), SHARES[::2]) if route == "gaussian" else (("gaussian", "coin"), SHARES[::3])
    reached = most(by_filter(within, kinds, shares), float(epsilon), steps) / float(delta)
    assert (0.99 if route == "gaussian" else 0.01) < reached < 1 + ERROR


@pytest.mark.parametrize("steps", [2, slow(3)])
def test_no_adversary_gets_beyond_the_rho_filter(steps):
    """Adaptive adversaries with Gaussian and pure releases stay within the delta that the rho limit implies."""
    within = Filter("rho", Fraction(1, 5))
    for epsilon in (0.5, 1.5, 3.0):
        reached = most(by_filter(within, ("gaussian", "coin"), SHARES[::3]), epsilon, steps)
        assert reached < zcdp.delta(epsilon, within.limit) * (1 + ERROR)


@pytest.mark.parametrize("steps", [2, 3])
def test_no_adversary_gets_beyond_the_pure_filter(steps):
    """With pure releases, no adaptive adversary has a privacy loss above the epsilon limit of the pure filter."""
    moves = by_filter(filter_on("pure", Fraction(2)), ("coin",))
    assert most(moves, 2.0, steps) == pytest.approx(0.0, abs=1e-12)
    assert most(moves, 1.99, steps) > 1e-3


def test_best_of_routes_accounting_is_found_out():
    """Negative control: accounting by the smallest of several bounds is unsound if releases are chosen adaptively.

    The bounds promise a delta of 1e-6, but an adversary who chooses the second release adaptively reaches 1.945e-6.
    """
    first, branches = Move("gaussian", 0.0209), (Move("gaussian", 0.1887), Move("coin", 2.149))
    assert all(passes_every_curve((first, second), 3.0, 1e-6) for second in branches)

    def pair(made: tuple[Move, ...]) -> Iterable[Move]:
        yield from branches if made else (first,)

    assert most(pair, 3.0, 2) == pytest.approx(1.945e-6, rel=1e-3)
    for second in branches:  # if the second release is fixed in advance, delta is not exceeded
        assert most(lambda made, second=second: (second,) if made else (first,), 3.0, 2) < 1.001e-6


def test_a_search_finds_out_best_of_routes_accounting():
    """Negative control: if only the smallest of several bounds is limited, a search finds a way to exceed delta."""

    def moves(made: tuple[Move, ...]) -> Iterable[Move]:
        if not made:
            yield from (Move("gaussian", rho) for rho in (0.01, 0.02, 0.05))
            return
        for kind in ("gaussian", "coin"):
            low, high = 0.0, 10.0
            for _ in range(30):
                middle = (low + high) / 2
                passing = passes_every_curve((*made, Move(kind, middle)), 3.0, 1e-6)
                low, high = (middle, high) if passing else (low, middle)
            yield Move(kind, low)

    assert most(moves, 3.0, 2) > 1.9e-6


def test_the_filter_refuses_the_step_that_would_break_it():
    """If choosing between a Gaussian and a pure release could exceed delta, a filter refuses at least one of them."""
    first, gauss, coin = Fraction("0.0209"), Fraction("0.1887"), Fraction("2.149")
    exact = filter_on("gaussian", Fraction(3), Fraction("1e-6"))
    assert exact.fits(exact.limit, "gaussian", first)
    assert exact.fits(exact.limit - first, "gaussian", gauss) and not exact.takes("epsilon")
    mixed = filter_on("renyi", Fraction(3), Fraction("1e-6"))
    room = mixed.limit - mixed.charge("gaussian", first)
    assert not mixed.fits(room, "gaussian", gauss) and not mixed.fits(room, "epsilon", coin)


def test_a_split_of_delta_holds_where_a_shared_one_does_not():
    """It is sound to give noise and open domains half of delta each, but unsound to let both use all of delta.

    If noise and open domains may both use all of delta, an adaptive adversary reaches almost twice delta.
    """
    epsilon, delta = 1.0, 1e-6

    def whole(made: tuple[Move, ...]) -> Iterable[Move]:
        """Yield the next possible releases: 68 % of the largest rho, then the remaining rho or all unused delta."""
        full = float(filter_on("gaussian", Fraction(1), Fraction("1e-6")).limit)
        if not made:
            yield Move("gaussian", 0.68 * full)
        elif made[-1].kind == "gaussian":
            yield Move("gaussian", full - made[0].amount)
            yield Move("open", delta - gaussian.delta(epsilon, made[0].amount))

    assert most(whole, epsilon, 2) == pytest.approx(1.97e-6, rel=0.01)

    def split(made: tuple[Move, ...]) -> Iterable[Move]:
        noise = filter_on("gaussian", Fraction(1), Fraction("0.5e-6"))
        spent = sum(move.amount for move in made if move.kind == "gaussian")
        betrayed = sum(move.amount for move in made if move.kind == "open")
        for share in (0.3, 0.68, 1.0):
            yield Move("gaussian", (float(noise.limit) - spent) * share)
            yield Move("open", (0.5e-6 - betrayed) * share)

    found = most(split, epsilon, 3)
    assert 0.9e-6 < found < 1e-6 * (1 + ERROR)


@pytest.mark.parametrize(("order", "coarse", "fine"), [(2, 0.49, 1.04), (8, 0.103, 0.219)])
def test_a_pure_series_charged_its_finest_level_is_found_out(order, coarse, fine):
    """Negative control: with a Rényi budget, it is unsound to charge a pure-DP series only for its finest level.

    An adversary who decides after the coarse release whether to refine it, or to use Gaussian noise instead, exceeds
    the charge for the finest level alone.
    """
    divergence = {level: float(coin_divergence(order, Fraction(level))) for level in (coarse, fine)}
    kept = {level: 1 / (1 + math.exp(-level)) for level in (coarse, fine)}
    # In lossless randomised response, the coarse coin copies the fine coin, or is tossed with probability `replaced`.
    replaced = 1 - (2 * kept[coarse] - 1) / (2 * kept[fine] - 1)
    gaussian_instead = math.exp((order - 1) * (divergence[fine] - divergence[coarse]))
    moment = 0.0
    for sign in (1, -1):
        chance = kept[coarse] if sign > 0 else 1 - kept[coarse]
        finer = {
            other: (kept[fine] if other > 0 else 1 - kept[fine])
            * (1 - replaced / 2 if other == sign else replaced / 2)
            / chance
            for other in (1, -1)
        }
        assert sum(finer.values()) == pytest.approx(1)
        refined = sum(part * math.exp((order - 1) * other * fine) for other, part in finer.items())
        moment += chance * max(refined, math.exp((order - 1) * sign * coarse) * gaussian_instead)
    assert math.log(moment) / (order - 1) > 1.1 * divergence[fine]
    within = Filter("renyi", Fraction(divergence[fine]), order)  # the Rényi filter charges a pure series at its cap
    assert not within.by_path("epsilon") and within.by_path("gaussian")


def test_two_populations_with_a_filter_each_add_up():
    """For a person in two populations, the privacy loss of adaptive releases is at most the sum of both budgets."""
    one, other = filter_on("gaussian", Fraction(1), Fraction("1e-5")), filter_on("pure", Fraction(1, 2))

    def moves(made: tuple[Move, ...]) -> Iterable[Move]:
        rho = sum(move.amount for move in made if move.kind == "gaussian")
        epsilon = sum(move.amount for move in made if move.kind == "coin")
        for share in (0.2, 0.6, 1.0):
            yield Move("gaussian", (float(one.limit) - rho) * share)
            yield Move("coin", (float(other.limit) - epsilon) * share)

    assert 0.3e-5 < most(moves, 1.5, 3) < 1e-5 * (1 + ERROR)


@pytest.mark.parametrize("order", [2, 3, 22, 400])
@pytest.mark.parametrize("epsilon", ["0.001", "0.5", "4", "40"])
def test_a_coin_costs_its_divergence(order, epsilon):
    """The computed Rényi divergence of a pure release is never too small, and at most 1e-12 (relative) too large.

    The divergence is at most the order times the rho of the release.
    """
    value = Fraction(epsilon)
    with mp.workdps(60):
        e = oracle.number(value)
        p, q = mp.exp(e) / (1 + mp.exp(e)), 1 / (1 + mp.exp(e))
        exact = mp.log(p**order * q ** (1 - order) + q**order * p ** (1 - order)) / (order - 1)
        found = coin_divergence(order, value)
        assert exact <= oracle.number(found) <= exact * (1 + mp.mpf(10) ** -12)
        assert found <= order * Fraction(float(e) * math.tanh(float(e) / 2)) * (1 + Fraction(1, 10**12))


@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-6"), ("0.5", "1e-5"), ("3", "7.5e-7"), ("0.01", "1e-10")])
def test_limits_are_those_of_mpmath_rounded_down(epsilon, delta):
    """The limit that a Gaussian or Rényi filter computes never exceeds the exact limit, and agrees to 11 digits."""
    goal = Fraction(epsilon), Fraction(delta)
    with mp.workdps(60):
        within = filter_on("gaussian", *goal)
        exact = oracle.solved(
            lambda rho: oracle.gaussian_delta(goal[0], rho) / oracle.number(goal[1]) - 1, float(within.limit)
        )
        assert 0 <= 1 - oracle.number(within.limit) / exact < 3e-12
        mixed = filter_on("renyi", *goal)
        a = mp.mpf(mixed.order)
        e, d = map(oracle.number, goal)
        exact = e + (mp.log(d) + mp.log(a)) / (a - 1) - mp.log(1 - 1 / a)
        assert 0 <= 1 - oracle.number(mixed.limit) / exact < 1e-11
        least = min(
            e + (mp.log(d) + mp.log(b)) / (b - 1) - mp.log(1 - 1 / b) - mixed.limit / a * b
            for b in (a - 1, a + 1)
            if b > 1
        )
        assert least < 1e-9  # neither neighbour of the chosen Rényi order allows a larger rho


@pytest.mark.parametrize(
    ("within", "law", "keys"),
    [
        (Filter("rho", Fraction("0.3")), "gaussian", 1),
        (Filter("rho", Fraction("0.3")), "epsilon", 1),
        (filter_on("gaussian", Fraction(1), Fraction("1e-6")), "gaussian", 1),
        (filter_on("pure", Fraction("0.7")), "epsilon", 1),
        (filter_on("renyi", Fraction(2), Fraction("1e-6")), "gaussian", 1),
        (filter_on("renyi", Fraction(2), Fraction("1e-6"), 8), "epsilon", 1),
        (filter_on("renyi", Fraction(2), Fraction("1e-6")), "skellam", 7),
        (filter_on("poisson", Fraction(2), Fraction("1e-6")), "poisson", 1),
    ],
)
def test_the_largest_level_fits_and_a_thousandth_more_does_not(within, law, keys):
    """The largest level that a filter returns for one or three series fits its budget; 0.1 % more does not fit."""
    for room, times in product((within.limit, within.limit / 3), (1, 3)):
        level = within.largest(room, law, keys, times=times)
        assert within.fits(room, law, level, keys, times=times)
        assert not within.fits(room, law, level * Fraction(1001, 1000), keys, times=times)
        assert sum(within.charge(law, level, keys, earlier=series) for series in range(times)) <= room
    assert within.largest(Fraction(0), law, keys) == 0
    assert Fraction(1, LARGEST_MEAN) == filters.LEAST_OF_MEANS  # the smallest level for which the noise can be drawn


@pytest.mark.parametrize("law", ["gaussian", "epsilon", "skellam", "poisson"])
def test_a_level_keeps_to_its_goal_and_a_thousandth_more_does_not(law):
    """The largest level satisfies its (epsilon, delta) goal for each kind of noise; a level 0.1 % higher does not."""
    goal = EpsilonDelta("1.5", "1e-7")
    level = filters.level_within(goal, law, 2)
    more = level * Fraction(1001, 1000)
    of = {
        "gaussian": lambda at: gaussian.delta("1.5", at),
        "epsilon": lambda at: float(at > goal.epsilon),
        "skellam": lambda at: skellam.delta("1.5", at, 2),
        "poisson": lambda at: poisson.delta(1.5, at),
    }[law]
    assert of(level) <= goal.delta < of(more)


def test_poisson_series_share_delta_for_ever():
    """Each Poisson series may use half of the delta that earlier series left, so that more series can be added."""
    within = filter_on("poisson", Fraction(3), Fraction("1e-6"))
    first = within.charge("poisson", Fraction("0.01"))
    assert first == pytest.approx(poisson.epsilon(0.5e-6, "0.01"), rel=1e-8)
    second = within.charge("poisson", Fraction("0.01"), earlier=1)
    assert first < second < within.limit - first


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: filter_on("renyi", Fraction("0.1"), Fraction("1e-9"), 2), "allows no release"),
        (lambda: filter_on("gaussian", Fraction(1), Fraction(0)), "delta above 0"),
        (lambda: filter_on("renyi", Fraction(1), Fraction("1e-9"), 1), "order"),
        (
            lambda: filter_on("gaussian", Fraction(1), Fraction("1e-6")).charge("skellam", Fraction(1)),
            "route='renyi' could",
        ),
        (lambda: filters.level_within(EpsilonDelta(1, 0), "gaussian"), "no level"),
    ],
)
def test_what_no_route_can_promise_is_refused(make, word):
    """A filter refuses an order that is too small, a delta of 0, and noise that its route cannot charge."""
    with pytest.raises(DeclarationError, match=word):
        make()
