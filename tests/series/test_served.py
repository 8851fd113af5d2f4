"""If a plan or a refusal names a level or cap, a request for that level or cap is accepted."""

from __future__ import annotations

import itertools
import re
from fractions import Fraction
from typing import Any

import polars as pl
import pytest

import sparsehist as sh
from sparsehist.errors import RefusedError

# Pairs of a budget and the noise families that the budget's accounting route can charge.
BUDGETS: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"rho": "0.3"}, ("gaussian", "laplace", "discrete_laplace")),
    ({"epsilon": 1, "delta": 0}, ("laplace", "discrete_laplace")),
    *(
        ({"epsilon": epsilon, "delta": delta, "route": route}, families)
        for epsilon, delta in ((8, "1e-6"), (4, "1e-7"), (4, "1e-9"), (1, "1e-6"), ("0.3", "1e-10"))
        for route, families in (
            ("gaussian", ("gaussian",)),
            ("pure", ("laplace", "discrete_laplace")),
            ("renyi", ("gaussian", "laplace", "discrete_laplace", "skellam")),
            ("poisson", ("poisson",)),
        )
    ),
]
CASES = [(budget, noise) for budget, families in BUDGETS for noise in families]
LOG = pl.DataFrame({"user": [f"u{i}" for i in range(60)], "key": [i % 3 for i in range(60)]})
ONE_KEY: dict[str, Any] = {"max_keys": 1}
BOUNDS: list[dict[str, Any]] = [{"max_keys": 5}, {"max_keys": 40}, {"max_keys": 5, "bounding": "share"}]
PROMISES = [(8, "1e-6"), (4, "1e-7"), (4, "1e-9")]


def a_series(store: sh.Store, name: str, **declared: Any) -> sh.Series:
    """Create a series of three keys with twenty privacy units each."""
    given = {"unit": "user", "key": "key", "max_keys": 1, "domain": sh.Integers(50)} | declared
    return sh.create(store, LOG, name=name, **given)


def named_in(refusal: RefusedError) -> Fraction | None:
    """Return the largest level or cap that a refusal says would fit, or None if the refusal names neither."""
    found = re.search(r"the largest (?:level|cap) that would fit is (\S+);", str(refusal))
    return None if found is None else Fraction(found[1])


@pytest.mark.parametrize(
    ("case", "bound"),
    [
        *((case, ONE_KEY) for case in CASES),
        *(
            pytest.param(case, bound, marks=pytest.mark.slow)
            for case, bound in itertools.product(CASES, BOUNDS)
            if case[1] != "poisson" and (case[1] in ("gaussian", "laplace") or "bounding" not in bound)
        ),
    ],
)
def test_the_largest_level_that_a_refusal_names_is_served(
    case: tuple[dict[str, Any], str], bound: dict[str, Any]
) -> None:
    """On every accounting route, the largest level that a refusal names is accepted, and 0.1 % more is refused."""
    budget, noise = case
    store = sh.open(":memory:", seed=1)
    store.set_budget(**budget)
    for number in range(3):
        series = a_series(store, f"s{number}", noise=noise, **bound)
        asked: Any = 10 if noise == "discrete_laplace" else 100  # the largest level that the noise family supports
        if number == 0:  # spend only a part, so that later series have some budget left
            try:
                series.release("all", level=asked, threshold=1e7)
            except RefusedError as refusal:
                asked = (named_in(refusal) or Fraction(0)) / 3
                assert asked
            series.release("some", level=asked, threshold=1e9)
            continue
        with pytest.raises(RefusedError) as refused:
            series.release("all", level=asked, threshold=1e9)
        largest = named_in(refused.value)
        if largest is None:
            assert "no level would fit" in str(refused.value)
            continue
        assert series.release("rest", level=largest, threshold=1e9).metadata["level"] is not None
        with pytest.raises(RefusedError):
            series.release("more", level=largest * Fraction(1001, 1000), threshold=1e9)


@pytest.mark.parametrize(
    ("promise", "max_keys"),
    [
        (PROMISES[0], 20),
        *(
            pytest.param(promise, keys, marks=pytest.mark.slow)
            for promise, keys in itertools.product(PROMISES, (5, 20, 40))
        ),
    ],
)
def test_all_weeks_that_a_plan_names_are_served(promise: tuple[Any, str], max_keys: int) -> None:
    """If a plan names a level for 52 equal weeks, all 52 weeks can be released at that level."""
    epsilon, delta = promise
    store = sh.open(":memory:", seed=1)
    budget = sh.EpsilonDelta(epsilon, delta)
    weeks = sh.create(
        store, name="visits", unit="user", key="key", max_keys=max_keys, domain=sh.Strings(max_bytes=8),
        every=sh.Every("week", periods=52, protects="user", budget=budget),
    )  # fmt: skip
    planned = sh.plan(d=10**9, max_keys=max_keys, equal=52, within=budget)
    level = planned.levels["level"].item()
    log = LOG.with_columns(pl.col("key").cast(pl.String))
    for week in range(1, 53):
        series = weeks.append(log, period=f"2026-W{week:02}")
        series.release("all", level=level)
    row = store.ledger(full=True).filter(pl.col("scope") == "population").row(0, named=True)
    assert "52 released" in row["periods"]


@pytest.mark.parametrize(
    ("declared", "workload", "epsilon"),
    [
        *(({"max_keys": keys, "bounding": "share"}, None, 8) for keys in (5, 40)),
        ({"max_keys": 5, "domain": sh.Integers(366)}, sh.workload.Ranges(), 4),
        ({"max_keys": 5, "domain": sh.Integers(366)}, sh.workload.Prefix(), 8),
        ({"max_keys": 5, "domain": sh.Integers(10_000)}, sh.workload.Prefix(), 1),
    ],
)
def test_a_release_takes_the_whole_of_its_budget(declared: dict[str, Any], workload: Any, epsilon: int) -> None:
    """A release of counts, weighted counts or a workload may spend the whole ε and δ of its budget."""
    store = sh.open(":memory:", seed=1)
    store.set_budget(epsilon=epsilon, delta="1e-6")
    series = a_series(store, "whole", **declared)
    assert series.release("all", workload=workload, epsilon=epsilon, delta="1e-6").metadata["level"]


@pytest.mark.parametrize("route", ["gaussian", "renyi"])
def test_a_budget_serves_an_open_series_that_is_declared_after_it(route: str) -> None:
    """Only a budget with an `open_share` accepts an open domain that is declared after the budget was set."""
    stores = [sh.open(":memory:", seed=1) for _ in range(2)]
    asked: dict[str, Any] = {"epsilon": 4, "delta": "1e-6", "route": route}
    opened = {"domain": sh.Open("integer", delta="1e-6")}
    stores[0].set_budget(**asked, open_share="0.5")
    for store in stores:
        a_series(store, "opened", **opened)
    stores[1].set_budget(**asked)
    made = [store.series("opened").release("all", epsilon=4, delta="1e-6").metadata for store in stores]
    assert made[0]["level"] == made[1]["level"]
    for share in ({"open_share": 0}, {}):
        store = sh.open(":memory:", seed=1)
        store.set_budget(**asked, **share)
        with pytest.raises(RefusedError, match=r"open_share=0\.5"):
            a_series(store, "opened", **opened)
        store.set_budget(**asked, open_share="0.5", reason="an open domain")
        a_series(store, "opened", **opened).release("all", level="0.01")
