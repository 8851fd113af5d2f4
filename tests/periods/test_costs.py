"""Compare stated costs per user and per period with a search over all sets of periods in which a unit has rows."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import pytest

import sparsehist as sh
from sparsehist.declaration import Declaration, Every
from sparsehist.entropy import seeded
from sparsehist.errors import BudgetExceededError
from sparsehist.ledger.budgets import Limits, budget
from sparsehist.ledger.ledger import Ledger
from sparsehist.ledger.spent import CELLS, Account, Spending, Spent
from sparsehist.privacy import as_level
from sparsehist.privacy.composition import path_cost, total_cost
from sparsehist.privacy.epsilon_delta import guarantee
from tests.cases import slow
from tests.periods.logs import WEEKS, in_weeks, of_users, who_counts

ORDER = (WEEKS[2], WEEKS[0], WEEKS[3], WEEKS[1])
LEVELS = dict(zip(ORDER, ("0.3", "0.1", "0.2", "0.25"), strict=True))
HISTORIES = [frozenset(some) for n in range(5) for some in itertools.combinations(range(4), n)]


def first_periods(history: frozenset[int], most: int | None) -> set[int]:
    """Return the periods of `history` in which a unit counts: the first `most`, or all of them if `most` is None."""
    return set(sorted(history)[:most])


def counting(
    most: int | None, gone: tuple[int, int] | None = None, erased: int | None = None, *, dropped: int | None = None
) -> dict[str, set[str]]:
    """Append periods to a new series, with one unit per possible set of periods; return who counts in each period.

    The rows of unit `gone[0]` in period `gone[1]` and all rows of unit `erased` are left out. Period `dropped` is
    dropped before the last period is appended.
    """
    log = in_weeks(most_periods=most)
    for place, week in enumerate(ORDER):
        there = [i for i, history in enumerate(HISTORIES) if place in history and (i, place) != gone and i != erased]
        if dropped is not None and place == len(ORDER) - 1:
            log.store.drop(log.series(ORDER[dropped]).name)
        log.append(of_users([f"u{i}" for i in there]), period=week)
    return who_counts(log)


def changes(one: dict[str, set[str]], other: dict[str, set[str]], unit: int) -> Fraction:
    """Check that two results of `counting` differ only in `unit`; return the sum of levels of changed periods."""
    differing = {week: one.get(week, set()) ^ other.get(week, set()) for week in ORDER}
    assert set().union(*differing.values()) <= {f"u{unit}"}
    return sum((Fraction(LEVELS[week]) for week in ORDER if differing[week]), Fraction(0))


@pytest.mark.parametrize(("most", "dropped"), [(2, 1), slow(1, 0), slow(1, 1)])
def test_a_period_that_is_dropped_unreleased_gives_its_places_back(most: int, dropped: int) -> None:
    """If an unreleased period is dropped, no unit counts in more than `most_periods` of the remaining periods.

    Deleting a unit's rows in one period then changes who counts in at most two of the remaining periods.
    """
    whole = counting(most, dropped=dropped)
    for i, history in enumerate(HISTORIES):
        assert sum(f"u{i}" in units for units in whole.values()) <= most
        for place in history:
            other = counting(most, gone=(i, place), dropped=dropped)
            assert changes(whole, other, i) <= sum(sorted(map(Fraction, LEVELS.values()))[-2:])
            assert sum(whole[week] != other[week] for week in whole) <= 2


@pytest.mark.parametrize("most", [2, slow(1), slow(3), slow(4)])
def test_the_costs_are_those_of_all_histories_and_all_deletions(most: int) -> None:
    """The stated cost per user is the largest cost of any unit, and the stated cost per period is never too low.

    To find all costs, the test tries every set of periods in which a unit can have rows. It deletes the unit's rows
    in all of these periods, or in one of them.
    """
    log = in_weeks(most_periods=most)
    for week, level in LEVELS.items():
        log.append(of_users(["u0"]), period=week).release("r", level=level)
    row = log.progress()
    whole = counting(most)
    assert all(
        {place for place, week in enumerate(ORDER) if f"u{i}" in whole[week]} == first_periods(history, most)
        for i, history in enumerate(HISTORIES)
    )
    by_period = max(
        changes(whole, counting(most, gone=(i, place)), i) for i, history in enumerate(HISTORIES) for place in history
    )
    by_user = max(changes(whole, counting(most, erased=i), i) for i in range(len(HISTORIES)))
    assert by_user == Fraction(row["level"])
    said = Fraction(row["per_period"].split()[0])
    largest = max(map(Fraction, LEVELS.values()))
    # A unit whose rows in one period are deleted may count in a different period instead.
    # The order of appending decides which periods change, so the ledger charges the two costliest periods.
    assert by_period <= said <= 2 * largest
    assert (by_period > largest) == (said > largest) == (most < len(ORDER))
    if most == 1:
        assert by_period == said


def a_ledger(protects: str, most: int | None, limit: str, n: int = 6) -> Ledger:
    """Return the ledger of a periodic series with `n` periods and a rho budget, before any release."""
    limits = Limits(budgets={"log": budget(rho=limit)})
    limits.periods["log"] = Every("week", n, protects, most)
    declared = [Declaration(name=f"log_{i}", unit="user", max_keys=1, population="log") for i in range(n)]
    return Ledger({str(i): Account(str(i), each) for i, each in enumerate(declared)}, limits)


def worst(spent: dict[int, Fraction], protects: str, most: int | None, n: int = 6) -> Fraction:
    """Return the largest cost of a user, or of a user's rows in one week, over all possible sets of weeks."""
    found = [Fraction(0)]
    for history in (frozenset(some) for k in range(n + 1) for some in itertools.combinations(range(n), k)):
        kept = first_periods(history, most)
        others = [set()] if protects == "user" else [first_periods(history - {t}, most) for t in history]
        found += [sum((spent[i] for i in kept ^ other), Fraction(0)) for other in others]
    return max(found)


@pytest.mark.parametrize(
    ("protects", "most"),
    [("user", 2), ("user-week", 2), slow("user", None), slow("user", 1), slow("user-week", None)],
)
def test_no_order_of_levels_gets_beyond_the_budget(protects: str, most: int | None) -> None:
    """Releases of periods at adaptively chosen levels never exceed the budget of the periodic series.

    A release is refused only if its cost exceeds the budget. For user-weeks with `most_periods`, an
    upper bound replaces the exact cost: the sum of the two costliest periods.
    """
    limit, refused, allowed = Fraction(1), 0, 0
    for seed in range(12):
        rng = seeded(100 + seed)
        ledger, spent = a_ledger(protects, most, "1"), dict.fromkeys(range(6), Fraction(0))
        for _ in range(40):
            place = int(rng.integers(6))
            largest = ledger.largest_level(str(place))
            level = rng.choice([Fraction(1, 3), Fraction(1, 7), Fraction(2, 5), largest, largest + Fraction(1, 100)])
            if not level:
                continue
            release = Spending(str(place), level)
            after = spent | {place: max(spent[place], level)}
            try:
                ledger.check(release)
            except BudgetExceededError:
                refused += 1
                # For user-weeks, the ledger charges the two costliest periods, which may exceed the exact cost.
                bound = sum(sorted(after.values())[-2:]) if (protects, most) == ("user-week", 2) else None
                assert (bound or worst(after, protects, most)) > limit
            else:
                allowed += 1
                ledger, spent = ledger.with_release(release), after
            assert worst(spent, protects, most) <= limit
            if ledger.accounts["0"].releases and protects == "user":
                bears = ledger.cost_of(ledger.of_population("log")).amount
                assert bears == worst(spent, "user", most)
    assert refused > 50 and allowed > 50


@pytest.mark.parametrize("protects", ["user", "user-week"])
def test_delta_of_open_domains_is_borne_like_levels(protects: str) -> None:
    """The deltas of all periods add up for a user; a user-week is charged only the largest. Budgets limit both."""
    log = in_weeks(
        domain=sh.Open("integer", delta="1e-5"), protects=protects, periods=10,
        budget=sh.EpsilonDelta(4, 1e-6),
    )  # fmt: skip
    shares = []
    for week in WEEKS[:3]:
        series = log.append(of_users([f"u{i}" for i in range(60)]), period=week)
        made = series.release("r", level="0.05", open_delta=1.4e-7)
        shares.append(made.metadata["delta_infinity"])
    row = log.progress()
    assert row["delta_infinity"] == pytest.approx(sum(shares), rel=1e-12)
    assert "approximate 0.05-zCDP per user-week" in made.metadata["guarantee"]
    series = log.append(of_users(["u1"]), period=WEEKS[3])
    if protects == "user-week":  # half of the budget's delta, 5e-7, is set aside for open domains
        series.release("r", level="0.05", open_delta=4.8e-7)
    with pytest.raises(BudgetExceededError, match="for its open domain"):
        series.release("s", level="0.06", open_delta=3e-6)


def test_a_year_of_weeks_costs_what_is_said() -> None:
    """In plan and ledger, 52 weekly releases at level 0.02 cost 1.04 per user and 0.02 per user-week."""
    log = in_weeks(protects="user-week", budget="0.02", periods=52)
    row = log.plan("0.02").levels.row(0, named=True)
    assert (row["all_per_period"], row["all_per_user"]) == ("0.02", "1.04")
    for week in range(1, 53):
        made = log.append(of_users("ab"), period=f"2026-W{week:02}").release("public", level="0.02")
        assert as_level(made.metadata["per_user"]) == Fraction(week, 50)
    told = log.progress()
    assert (told["per_period"], told["level"]) == ("0.02 per user-week", "1.04")
    assert told["epsilon"] == pytest.approx(row["all_per_user_epsilon"], rel=1e-6)
    assert told["per_period_epsilon"] == pytest.approx(row["all_per_period_epsilon"], rel=1e-6)
    alone = path_cost("rho", Fraction(1, 50), law="gaussian")
    assert told["per_period_epsilon"] == pytest.approx(guarantee(alone, 1e-6), rel=1e-9)
    assert told["epsilon"] == pytest.approx(guarantee(total_cost([alone] * 52), 1e-6), rel=1e-9)
    assert "0.02-zCDP per user-week, 1.04-zCDP per user" in made.metadata["guarantee"]
    with pytest.raises(BudgetExceededError, match=r"largest level that would fit is 0\.02;"):
        log.series("2026-W07").release("finer", level="0.021")


@pytest.mark.parametrize(
    ("declared", "left"),
    [
        ({"budget": "1"}, 7),  # 0.25 of the budget is spent; the other 0.75 allows seven more releases at level 0.1
        ({"budget": "0.4", "most_periods": 5}, 1),
        ({"budget": "0.19", "protects": "user-week", "most_periods": 3}, 0),
        slow({"budget": "0.2", "protects": "user-week", "most_periods": 3}, 49),
    ],
)
def test_how_many_weeks_are_left(declared: dict[str, object], left: int) -> None:
    """`progress` states exactly how many more weeks can be released; one more release is refused."""
    log = in_weeks(periods=52, **declared)
    for week, level in zip(WEEKS[:3], ("0.05", "0.1", "0.1"), strict=True):
        log.append(of_users("ab"), period=week).release("r", level=level)
    assert log.progress()["periods"].endswith(f"; {left} left to release")
    for more in range(min(left, 8) + (left < 8)):
        series = log.append(of_users("ab"), period=f"2026-W{20 + more}")
        if more < left:
            series.release("r", level="0.1")
        else:
            with pytest.raises(BudgetExceededError):
                series.release("r", level="0.1")


@pytest.mark.parametrize("most", [1, 2, 3])
def test_so_many_of_the_costliest_cost_no_less_than_any_so_many(most: int) -> None:
    """With `most_periods=n`, the ledger charges at least the cost of any n periods."""
    limits = Limits()
    limits.periods["log"] = Every("week", 9, most_periods=most)
    for seed in range(20):
        rng = seeded(500 + seed)
        accounts = []
        for i in range(5):
            finest, delta = Fraction(int(rng.integers(1, 60)), 100), float(rng.choice([0.0, 1e-8, 3e-7]))
            paths = {CELLS: Spent(finest, 1, delta)}
            if rng.random() < 0.3:
                paths["interactive", "s", "weights"] = Spent(Fraction(1, 5), 1)
            accounts.append(replace(a_ledger("user", most, "1").accounts[str(i)], paths=paths))
        told = Ledger({}, limits).cost_of(accounts)
        for some in itertools.combinations(range(5), most):
            each = total_cost(accounts[i].cost for i in some)
            assert each.rho <= told.rho * (1 + 1e-12) and each.delta_infinity <= told.delta_infinity
            assert guarantee(each, 1e-5) <= guarantee(told, 1e-5) * (1 + 1e-9)
