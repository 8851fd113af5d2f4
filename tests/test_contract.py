"""Tests that the public names, parameters and examples that users rely on stay the same."""

import inspect
import os
import traceback
from datetime import date
from pathlib import Path

import polars as pl
import pytest

import sparsehist as sh
from sparsehist.errors import DeclarationError, LevelError, NameTakenError, SeriesDiffersError
from sparsehist.release import home
from sparsehist.series.series import PeriodicSeries, RunningSeries, Series

MODULES = "audiences dense errors histogram interactive local noise privacy workload".split()
NAMES = (
    "AnalystSession Catalogue Counting Counts Dates Domain EpsilonDelta Every Files Hash64 Integers Keep Measure "
    "MultipleRelease Open Plan Product Query Release Share Steps Store Strings WorkloadRelease adopt check_log "
    "check_query choose_max_keys counting_sql create discover_keys open open_analyst plan read sql"
).split()
CREATE = (
    "store log name unit key max_keys domain bounding noise cap population measures steps every on_null on_outside "
    "if_exists counting"
).split()

QUERIES = {"unit": "user_id", "key": "query", "max_keys": 2, "domain": sh.Strings(max_bytes=16)}
PAGES = {"unit": "user", "key": "url", "max_keys": 1, "domain": sh.Integers(9)}
VISITS = pl.DataFrame({"user": range(500), "url": [1] * 500})


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a log of queries to two Parquet files in the current directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log").mkdir()
    for part in range(2):
        users = [f"u{user}" for user in range(400 * part, 400 * part + 400) for _ in range(2)]
        queries = [query for _ in range(400) for query in ("weather", f"own query {part}")]
        pl.DataFrame({"user_id": users, "query": queries, "price": 1.5}).write_parquet(f"log/{part}.parquet")
    return tmp_path


def test_the_first_level_has_these_names_and_no_others() -> None:
    """The public names and modules are exactly those listed in this file: at most 36 names and 10 modules."""
    assert sorted(sh.__all__) == sorted([*MODULES, *NAMES]) == dir(sh)
    assert len(NAMES) <= 36 and len(MODULES) <= 10
    assert all(getattr(sh, name) is not None for name in sh.__all__)
    assert len(Path(sh.__file__).read_text().splitlines()) <= 60


def test_create_and_its_companions_take_these_parameters() -> None:
    """`create`, `open` and other public functions keep their parameters; `create` has at most 18 of them."""
    assert list(inspect.signature(sh.create).parameters) == CREATE and len(CREATE) <= 18
    assert list(inspect.signature(sh.open).parameters) == ["path", "create", "wait", "seed", "who"]
    assert list(inspect.signature(sh.Counting).parameters) == ["engine", "memory_limit", "threads", "progress"]
    asked = ["self", "name", "level", "epsilon", "delta", "threshold", "false_keys"]
    assert list(inspect.signature(Series.release).parameters)[:7] == asked
    budget = inspect.signature(sh.Store.set_budget).parameters
    assert {"epsilon", "delta", "rho", "route", "open_share", "population"} <= set(budget)
    assert all(one.kind is inspect.Parameter.KEYWORD_ONLY for name, one in budget.items() if name != "self")


def test_the_examples_of_the_contract_run(files: Path) -> None:
    """A series made from files can be released with every kind of level, and written releases can be read back."""
    store = sh.open("logs.sparsehist", create=True)
    declared = {
        "name": "queries", "unit": "user_id", "key": "query", "domain": sh.Strings(max_bytes=32), "max_keys": 20,
        "bounding": "keep", "noise": "gaussian", "cap": 2.0, "population": "default", "steps": None, "every": None,
        "on_null": "error", "on_outside": "error", "measures": [sh.Measure("price", clip=100, step=0.01)],
        "counting": sh.Counting(engine="auto", memory_limit=None, threads=None, progress=None),
    }  # fmt: skip
    series = sh.create(store, "log/*.parquet", **declared, if_exists="error")
    public = series.release("public", level=0.01)
    yearly = series.release("yearly", epsilon=1, delta=1e-6)
    partner = series.release("partner", level=0.5, threshold=80.0)
    internal = series.release("internal", level=0.1, false_keys=1)
    assert public.metadata["false_keys"] == 0.01 and partner.threshold == 80 and internal.metadata["false_keys"] == 1
    assert yearly.metadata["epsilon_delta"] == "epsilon_delta(1, 0.000001)"
    assert series.plan(epsilon=1, delta=1e-6).levels["level"].to_list() == [yearly.metadata["level"]]
    assert partner.frame.columns == ["query", "noisy_count"]
    assert partner.frame.height >= 3  # the log has three keys, and there may be false keys
    assert partner.frame["noisy_count"].is_sorted(descending=True)
    priced = series.release("priced", level="0.02", measures={"price": "0.02"}).frame
    assert priced.columns == ["query", "noisy_count", "price_sum"]
    public.write_parquet("public.parquet")
    partner.write("partner.csv")
    assert sh.read("public.parquet").frame.equals(public.frame)
    assert sh.read("public.parquet").metadata == public.metadata
    again = store.series("queries").release("public")
    assert again.repeated and again.frame.equals(public.frame)
    reused = sh.create(store, "log/*.parquet", **declared, if_exists="reuse")
    assert reused.release("public").frame.equals(public.frame)
    with pytest.raises(NameTakenError):
        sh.create(store, "log/*.parquet", **declared)
    with pytest.raises(SeriesDiffersError, match="the log it was made from"):
        sh.create(store, "log/0.parquet", **declared, if_exists="reuse")
    everybody = store.ledger(full=True).filter(scope="everybody")
    assert everybody["level"].item() == "0.52"  # counts at level 0.5, sums at level 0.02
    with sh.open_analyst(".") as session:
        assert session.sql("select count(*) as n from queries.public")["n"].item() == len(public)


def test_budgets_and_levels_in_the_words_most_people_use(files: Path) -> None:
    """`epsilon=` and `delta=` can replace `level=` everywhere. A release at a budget's (ε, δ) fits the budget."""
    store = sh.open(":memory:", seed=1)
    store.set_budget(epsilon=8, delta=1e-6)
    days = sh.create(store, sh.Files("log/*.parquet"), name="days", **QUERIES)
    assert days.plan(epsilon=8, delta=1e-6).levels["refused"].item() is None
    assert days.release("all_of_it", epsilon=8, delta=1e-6).metadata["epsilon_delta"]
    assert sh.plan(d=10**9, max_keys=2, epsilon=1, delta=1e-6).levels.height == 1
    for wrong in ({"level": 1, "epsilon": 1}, {"delta": 1e-6}, {"epsilon": -1, "delta": 1e-6}):
        with pytest.raises((DeclarationError, LevelError)):
            days.release("wrong", **wrong)


def test_steps_by_number_or_by_date(files: Path) -> None:
    """A running series accepts numbers or dates as steps, and `store.series` finds the series by name."""
    store = sh.open(":memory:", seed=1)
    series = sh.create(store, name="daily", steps=sh.Steps(30, start="2026-01-01", every="day"), **PAGES)
    assert isinstance(series, RunningSeries)
    assert series.append(VISITS, step="2026-01-01") and series.append(VISITS.clear(), step=2)
    by_day = series.release("first", step=date(2026, 1, 1), level="0.5")
    assert by_day.metadata["step"] == 1 and 450 < by_day.frame["noisy_count"].item() < 550
    assert store.series("daily").release("first").frame.equals(by_day.frame)
    assert series.release("by_goal", step=1, epsilon=1, delta=1e-6).metadata["step"] == 1
    with pytest.raises(DeclarationError, match="must be from 2026-01-01 to 2026-01-30"):
        series.append(VISITS, step="2026-02-01")
    with pytest.raises(DeclarationError, match="start="):
        sh.create(store, name="numbered", steps=7, **PAGES).append(VISITS, step="2026-01-01")


def test_a_series_per_period(files: Path) -> None:
    """`every=` accepts a string or an `sh.Every` record, and each appended period becomes a series of its own."""
    store = sh.open(":memory:", seed=1)
    every = sh.Every("week", periods=52, protects="user", most_periods=None, budget=1)
    weekly = sh.create(store, name="weekly", every=every, **PAGES)
    assert isinstance(weekly, PeriodicSeries) and isinstance(store.series("weekly"), PeriodicSeries)
    week = weekly.append(VISITS, period="2026-W12")
    assert week.name == "weekly_2026w12" and week.release("public", level="0.01").level
    assert store.series("weekly").appended() == ["2026-W12"]
    assert sh.create(store, name="monthly", every="month", **PAGES).rule.period == "month"
    with pytest.raises(DeclarationError, match="leave out the log"):
        sh.create(store, pl.DataFrame(), name="wrong", every="week", **PAGES)


def test_sources_and_bounds_in_their_records(files: Path) -> None:
    """Records such as `sh.Query` and `sh.Share` declare sources and bounds, and invalid `sh.Counts` are refused."""
    store = sh.open(":memory:", seed=1)
    text = "select user_id, query from read_parquet('log/*.parquet') limit 900"
    unchecked = sh.create(store, sh.Query(text, unverified=True), name="unchecked", **QUERIES)
    assert unchecked.release("r", level=1).metadata["declaration"]["unverified"]
    with pytest.raises(sh.errors.GuaranteeError):
        sh.create(store, sh.Query(text), name="checked", **QUERIES)
    for name, bounding in (("shared", sh.Share(most_keys=100)), ("portable", sh.Keep(portable=True))):
        series = sh.create(store, "log/*.parquet", name=name, **QUERIES, bounding=bounding)
        assert series.release("r", level=1).metadata["declaration"]["bounding"] == str(bounding)
    dated = pl.DataFrame({"user_id": range(9), "at": ["2026-01-01T10:00:00"] * 9})
    dated.write_csv("dated.csv")
    days = sh.create(
        store, sh.Files("dated.csv", types={"at": "date"}), name="days", unit="user_id", key="at", max_keys=1,
        domain="dates('2026-01-01', '2026-01-09')",
    )  # fmt: skip
    assert days.release("r", level=1000).frame["at"].to_list() == [date(2026, 1, 1)]
    with pytest.raises(DeclarationError, match="measures"):
        sh.Counts(pl.DataFrame({"query": ["a"], "count": [900]}), largest=2)


def test_a_release_locks_twice_and_synchronises_eight_times(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A release locks the store once and calls fsync at most 8 times. Writing it to a file locks the store again."""
    series = sh.create("store", "log/*.parquet", name="queries", **QUERIES)
    locks, depths, open_state, fsync = [], [], home.open_state, os.fsync

    def locked(*asked: object, **how: object) -> object:
        locks.append(asked)
        return open_state(*asked, **how)

    def synchronised(file: int) -> None:
        own = [frame.name for frame in traceback.extract_stack() if str(Path(sh.__file__).parent) in frame.filename]
        depths.append(len(own))
        fsync(file)

    monkeypatch.setattr(home, "open_state", locked)
    monkeypatch.setattr(os, "fsync", synchronised)
    made = series.release("public", level=1)
    assert len(locks) == 1 and 0 < len(depths) <= 8 and max(depths) <= 8
    made.write_parquet("public.parquet")
    assert len(locks) == 2
