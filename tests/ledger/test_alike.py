"""A dry run, a plan, SQL and Python refuse alike: whatever the family, budget, cap and domain."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction

import polars as pl
import pytest

import sparsehist as sh
from sparsehist.entropy import seeded
from sparsehist.errors import BudgetExceededError, RefusedError, SparsehistError
from sparsehist.sqlfront.running import run_script
from sparsehist.sqlfront.session import Session

LOG = pl.DataFrame({"u": range(200), "k": ["abcd"[i % 4] for i in range(200)]})
FAMILIES = ("gaussian", "laplace", "discrete_laplace", "skellam", "poisson")
BUDGETS = (
    None,
    {"rho": 1},
    {"rho": "0.3", "delta": "1e-7"},
    {"epsilon": 1, "delta": 0},
    {"epsilon": 2, "delta": "1e-6", "route": "pure"},
    {"epsilon": 1, "delta": "1e-6"},
    {"epsilon": 3, "delta": "1e-6", "open_share": "0.1"},
    {"epsilon": 2, "delta": "1e-6", "route": "renyi"},
    {"epsilon": 3, "delta": "1e-6", "route": "renyi", "order": 12, "open_share": "0.1"},
    {"epsilon": 1, "delta": "1e-6", "route": "poisson"},
    {"epsilon": 2, "delta": "2e-6", "poisson": sh.EpsilonDelta(1, "1e-6")},
)
# Families that the budgets can charge, in the same order; one in four series is of any family.
CHARGED = (
    *(FAMILIES, FAMILIES[:3], FAMILIES[:3], FAMILIES[1:3], FAMILIES[1:3], FAMILIES[:1], FAMILIES[:1], FAMILIES[:4]),
    *(FAMILIES[:4], FAMILIES[4:], ("gaussian", "poisson")),
)
DECLARED = {"unit": "u", "key": "k", "max_keys": 1, "domain": "strings(max_bytes=2)"}
LEVELS = ("1/50", "0.1", "1/3", "0.9", "2", "at epsilon 1 delta 1e-6", "at epsilon 0.3 delta 1e-7")


@dataclass
class Step:
    """One statement, in SQL and as calls."""

    kind: str
    sql: str
    name: str
    series: str
    asked: dict = field(default_factory=dict)


def steps_of(seed: int) -> tuple[dict | None, list[Step]]:
    """A budget, and a sequence of series, releases of cells and of workloads."""
    rng = seeded(seed)

    def some(things):
        return things[int(rng.integers(len(things)))]

    budget = BUDGETS[seed % len(BUDGETS)]
    steps: list[Step] = []
    for number in range(3):
        noise = some(FAMILIES if some((0, 0, 0, 1)) else CHARGED[seed % len(BUDGETS)])
        cap, name = some((None, "1/50", "0.5", "2")), f"s{number}"
        domain = some(("strings(max_bytes=2)", "integers(4)", "open(delta=1e-6)"))
        key = "n" if domain.startswith("int") else "k"
        asked = {"unit": "u", "key": key, "max_keys": 1, "domain": domain, "noise": noise, "cap": cap}
        limit = "" if cap is None else f", cap = {cap}"
        sql = (
            f"create series {name} with (unit = u, key = {key}, max_keys = 1, domain = '{domain}', "
            f"noise = '{noise}'{limit}) as select u, {key} from log"
        )
        steps.append(Step("create", sql, name, name, asked))
        for _ in range(4):
            level = some(LEVELS)
            at = level if level.startswith("at") else f"at level {level}"
            value = sh.EpsilonDelta(*level.split()[2::2]) if level.startswith("at") else level
            release = f"r{len(steps)}"
            if some((0, 0, 0, 1)) and not domain.startswith("open") and noise not in ("skellam", "poisson"):
                sql = f"release workload {release} from {name} {at} using 'total()' strategy 'identity'"
                steps.append(Step("workload", sql, release, name, {"level": value}))
                continue
            asked = {"level": value}
            more = ""
            if domain.startswith("open") and some((0, 1)):
                asked["open_delta"], more = 1e-8, " open delta 1e-8"
            elif not domain.startswith("open"):
                asked["threshold"], more = 400.0, " threshold 400"
            sql = f"release {release} from {name} {at}{more}"
            steps.append(Step("release", sql, release, name, asked))
    return budget, steps


def in_sql(budget: dict | None, steps: list[Step], *, dry_run: bool) -> list[str]:
    """What became of each statement: the name of an error, or nothing."""
    store = sh.open(":memory:", seed=3)
    if budget is not None:
        store.set_budget(**budget)
    tables = {"log": LOG.with_columns(n=pl.col("u") % 4)}
    script = ";\n".join(step.sql for step in steps)
    with Session(store.home, tables=tables) as session:
        outcomes = run_script(session, script, keep_going=True, dry_run=dry_run)
    errors = {outcome.number: outcome.error for outcome in outcomes}
    return ["" if errors[i + 1] is None else type(errors[i + 1]).__name__ for i in range(len(steps))]


def called(store, step: Step) -> str:
    """What becomes of it by calls."""
    try:
        if step.kind == "create":
            sh.create(store, LOG.with_columns(n=pl.col("u") % 4), name=step.name, **step.asked)
        elif step.kind == "workload":
            store.series(step.series).release(step.name, workload="total()", strategy="identity", **step.asked)
        else:
            store.series(step.series).release(step.name, **step.asked)
    except SparsehistError as problem:
        return type(problem).__name__
    return ""


def plan_of(store, step: Step) -> str:
    """What a plan of a release says: refused, or an error."""
    try:
        asked = dict(step.asked)
        level = asked.pop("level")
        planned = store.series(step.series).plan(level, counts=[100], **asked)
    except SparsehistError as problem:
        return type(problem).__name__
    refused = planned.levels["refused"].item()
    if refused is None:
        return ""
    return "CapExceededError" if "cap of the series" in refused else "BudgetExceededError"


def compare(seed: int) -> Counter[str]:
    """Take one sequence every way; what happened in it."""
    budget, steps = steps_of(seed)
    foreseen, ran = (in_sql(budget, steps, dry_run=dry_run) for dry_run in (True, False))
    store = sh.open(":memory:", seed=3)
    if budget is not None:
        store.set_budget(**budget)
    happened: Counter[str] = Counter()
    for step, dry, said in zip(steps, foreseen, ran, strict=True):
        planned = plan_of(store, step) if step.kind == "release" else None
        made = called(store, step)
        assert made == said == dry, (seed, budget, step.sql, {"python": made, "sql": said, "dry run": dry})
        assert planned in (None, made), (seed, budget, step.sql, planned, made)
        happened[f"{step.kind} {made or 'made'}"] += 1
    return happened


def test_everything_refuses_alike():
    """Every budget with every family, in sequences of twelve releases; refusals and releases of each kind occur."""
    happened = sum((compare(seed) for seed in range(33)), Counter())
    for kind in ("create made", "create BudgetExceededError", "release made", "release BudgetExceededError"):
        assert happened[kind] > 10, happened
    assert happened["release CapExceededError"] and happened["workload BudgetExceededError"], happened


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 260))
def test_everything_refuses_alike_for_long(seed):
    """More of the same."""
    compare(seed)


@pytest.mark.parametrize("budget", BUDGETS[1:], ids=lambda budget: " ".join(map(str, budget.values())))
@pytest.mark.parametrize("noise", FAMILIES)
def test_what_remains_is_served_and_a_thousandth_more_is_not(budget, noise):
    """Of a fresh budget and of one partly spent; a refusal names what remains."""
    store = sh.open(":memory:", seed=5)
    store.set_budget(**budget)
    try:
        one = sh.create(store, LOG, name="one", noise=noise, **DECLARED)
    except BudgetExceededError:
        return
    other = sh.create(store, LOG, name="other", noise=noise, **DECLARED)
    at = {"threshold": 5000.0}
    spent = remaining(store, "one") / 3
    one.release("a", level=spent, **at)
    left = remaining(store, "other")
    assert left > 0
    with pytest.raises(RefusedError) as refusal:
        other.release("b", level=left * Fraction(1001, 1000), **at)
    named = Fraction(str(refusal.value).split("that would fit is ")[1].split(";")[0])
    assert named == left
    other.release("b", level=named, **at)
    assert remaining(store, "other") == named
    with pytest.raises(RefusedError):
        one.release("c", level=spent * Fraction(1001, 1000), **at)


def remaining(store, series: str) -> Fraction:
    """What the ledger says may still be released of its cells."""
    rows = store.ledger(series=series, full=True).filter(scope="path")
    return Fraction(rows["remaining"].item())
