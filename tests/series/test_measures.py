"""Sums of measures, such as prices, have the stated sensitivity, cost and confidence intervals."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparsehist as sh
from sparsehist.counting.count import count_keys
from sparsehist.counting.log import Log
from sparsehist.counting.measured import row_steps
from sparsehist.declaration import Declaration
from sparsehist.errors import (
    BudgetExceededError,
    CapExceededError,
    DataError,
    DeclarationError,
    GuaranteeError,
)
from tests.cases import slow
from tests.series.in_memory import over_counts, over_log
from tests.stats import assert_consistent, assert_detected, binomial_test

CLIPS = [slow(1, 1), slow(2, "0.5"), ((-2, 2), "0.5"), ((-1, 1), "1/3"), (3, 3)]


def counted(
    log: pl.DataFrame, measures: list[sh.Measure], directory: Path, max_keys: int = 2, **asked: object
) -> pl.DataFrame:
    """Return the keys of a log with their counts and sums. Sums are divided by the measure's `step`."""
    return count_keys(
        log, unit="unit", key=["key"], max_keys=max_keys, domain=sh.Integers(5), salt=bytes(16), may_be_empty=True,
        temporary_directory=directory, measures=measures, on_null="drop", **asked,
    ).frame.sort("key_0")  # fmt: skip


@pytest.mark.parametrize(("clip", "step"), CLIPS)
@given(rows=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(-9, 9)), max_size=14))
def test_a_unit_changes_sums_by_no_more_than_the_sensitivity(tmp_path_factory, clip, step, rows) -> None:
    """With each kind of bounding, removing a privacy unit changes the sums by at most the stated sensitivity."""
    directory = tmp_path_factory.mktemp("rows")
    values = [(unit, key, 0.3 * value) for unit, key, value in rows]
    log = pl.DataFrame(values, {"unit": pl.Int64, "key": pl.Int64, "price": pl.Float64}, orient="row")
    measures = [sh.Measure("price", clip=clip, step=step), sh.Measure.events(most=2)]
    for noise, bounding in (("gaussian", "keep"), ("gaussian", "share"), ("laplace", "share")):
        declared = Declaration(
            name="v", unit="unit", key="key", max_keys=2, domain="integers(5)", noise=noise, bounding=bounding
        )
        weights = {"weights": declared.touched}
        whole = counted(log, measures, directory, **weights)
        for unit in log["unit"].unique():
            without = counted(log.filter(pl.col("unit") != unit), measures, directory, **weights)
            both = whole.join(without, on="key_0", how="full", coalesce=True).fill_null(0)
            for number, measure in enumerate(measures):
                change = (both[f"sum_{number}"] - both[f"sum_{number}_right"]).to_numpy()
                assert np.count_nonzero(change) <= (2 if bounding == "keep" else 5)
                assert np.abs(change).max(initial=0) <= measure.most_steps
                length = np.linalg.norm(change, 2 if noise == "gaussian" else 1)
                assert length <= measure.noise(declared.family).sensitivity * (1 + 1e-12)


@pytest.mark.parametrize(("clip", "step"), CLIPS)
def test_the_sensitivity_is_reached(tmp_path: Path, clip: object, step: object) -> None:
    """A privacy unit with large values at two keys changes the sums of both keys by the most that the clip allows."""
    log = pl.DataFrame({"unit": [1, 1, 1], "key": [0, 0, 1], "price": [50.0, 60.0, 70.0]})
    measure = sh.Measure("price", clip=clip, step=step)
    assert counted(log, [measure], tmp_path)["sum_0"].to_list() == [measure.most_steps] * 2


def test_under_shares_sums_are_cut_by_the_weight_and_have_no_mean() -> None:
    """With weighted counts and max_keys=2, a unit with eight keys adds half of its values; no mean is published."""
    log = pl.DataFrame({"unit": 1, "key": range(8), "price": 50.0})
    measures = ["price:clip=8", sh.Measure.events(most=4)]
    series = over_log(log, max_keys=2, domain="integers(8)", bounding="share", measures=measures)
    release = series.release("one", level=100, measures=100, threshold=-2)
    assert release.frame.columns == ["key", "noisy_count", "price_sum", "events_sum"]
    assert (release.frame["price_sum"] - 4).abs().max() < 6 * release.metadata["measure_stds"]["price"]
    assert (release.frame["noisy_count"] - 0.5).abs().max() < 6 * release.metadata["std"]
    intervals = release.intervals(0.9999)
    assert "price_mean_low" not in intervals.columns
    assert ((intervals["low"] < 0.5) & (intervals["high"] > 0.5)).all()


@given(
    values=st.lists(st.decimals(-2000, 2000, places=3), min_size=1),
    step=st.sampled_from(["0.01", "0.5", "1/3", "7"]),
    dtype=st.sampled_from([pl.Float64, pl.Decimal(20, 3), pl.String]),
)
def test_rows_are_rounded_towards_zero_as_they_are_written(values, step, dtype) -> None:
    """Values are rounded towards zero to multiples of `step`, as decimals.

    With step 0.01, the value 0.29 does not become 0.28, although the double closest to 0.29 is smaller than 0.29.
    """
    column = pl.Series("price", [str(value) for value in values])
    column = column if dtype == pl.String else column.cast(dtype)
    log = Log(column.to_frame().lazy(), {"price": column.dtype}, "the frame", texts=frozenset(["price"]))
    measure = sh.Measure("price", clip=(-7 * 10**6, 7 * 10**6), step=step)
    found = column.to_frame().select(row_steps([measure], log).values()).to_series().to_list()
    assert found == [int(Fraction(value) / measure.step) for value in values]
    whole = pl.DataFrame({"price": [int(value) for value in values]}, schema={"price": pl.Int64})
    log = Log(whole.lazy(), dict(whole.schema), "the frame")
    found = whole.select(row_steps([measure], log).values()).to_series().to_list()
    assert found == [int(value / measure.step) for value in whole["price"]]


def test_every_engine_and_source_counts_the_same_sums(tmp_path: Path) -> None:
    """Every kind of source, such as frames, files and queries, gives the same clipped sums as plain Polars code."""
    import duckdb

    rng = np.random.default_rng(3)
    log = pl.DataFrame(
        {"unit": rng.integers(0, 90, 2000), "key": rng.integers(0, 5, 2000), "price": rng.normal(2, 3, 2000).round(2)}
    )
    measures = [sh.Measure("price", clip=(-9, 9), step="0.5"), sh.Measure.events(most=3)]
    steps = (pl.col("price") / 0.5).cast(pl.Int64)  # exact, because division by 0.5 does not round
    pairs = log.group_by("unit", "key").agg(steps.sum().clip(-18, 18), pl.len().clip(0, 3).cast(pl.Int64))
    expected = pairs.group_by("key").agg(
        pl.len().cast(pl.Int64), pl.col("price").sum(), pl.col("len").sum().alias("n")
    )
    log.write_parquet(tmp_path / "log.parquet")
    log.write_csv(tmp_path / "log.csv")
    log.write_ndjson(tmp_path / "log.jsonl")
    files = [str(tmp_path / name) for name in ("log.parquet", "log.csv", "log.jsonl")]
    query = sh.Query("select * from log", tables={"log": log})
    for source in (log, log.lazy(), log.to_arrow(), *files, duckdb.from_arrow(log.to_arrow()), query):
        assert counted(source, measures, tmp_path, 5).rows() == expected.sort("key").rows()
    told = expected.rename({"len": "count", "price": "price_steps", "n": "events_steps"})
    series = over_counts(told, max_keys=5, domain="integers(5)", measures=measures)
    frame = series.release("one", level=4, measures=300, threshold=0).frame.join(expected, on="key")
    assert (frame["events_sum"] - frame["n"]).abs().max() < 4
    assert (frame["price_sum"] - frame["price"] / 2).abs().max() < 9


@pytest.mark.parametrize(
    ("column", "dtype", "remedy"),
    [([1.0, None], pl.Float64, "null"), ([1, -1], pl.Int8, "negative"), ([1.0, np.nan], pl.Float64, "NaN")],
)
def test_rows_that_cannot_be_measured_are_refused_or_dropped(tmp_path: Path, column, dtype, remedy) -> None:
    """Rows whose measured value is missing or invalid are refused, or dropped with on_null="drop"."""
    log = pl.DataFrame({"unit": [1, 2], "key": [0, 1], "price": pl.Series(column, dtype=dtype)})
    with pytest.raises(DataError, match=remedy):
        over_log(log, domain="integers(5)", measures="price:clip=3")
    assert counted(log, [sh.Measure("price", clip=3)], tmp_path).rows() == [(0, 1, 1)]


NOT_BOUNDS = [0, -1, "x", (1, 2), (0, 0), True, None, float("inf"), float("nan"), 2**31, "1e-9999", [1]]
NOT_STEPS = [0, -1, 3, "1/0", None, "1e-12"]


@pytest.mark.parametrize("told", [*({"clip": clip} for clip in NOT_BOUNDS), *({"step": step} for step in NOT_STEPS)])
def test_bad_bounds_and_steps_are_refused(told: dict[str, object]) -> None:
    """A measure with an invalid `clip` or `step` is refused, for example a step that does not divide the clip."""
    with pytest.raises(DeclarationError):
        sh.Measure("price", **({"clip": 100} | told))


@pytest.mark.parametrize(
    "changed",
    [{"noise": "skellam"}, {"steps": 9}, {"key": "price_sum"}, {"measures": ["price:clip=3", "price:clip=4"]},
     {"every": "every('week', periods=9, most_periods=2, protects='user')"}, {"noise": "poisson", "max_keys": 1},
     {"measures": "events:clip=3,step=2"}, {"measures": [None]}, {"measures": {"price": 3}}],
)  # fmt: skip
def test_declarations_that_cannot_have_measures_are_refused(changed: dict[str, object]) -> None:
    """Invalid measures are refused, and so are measures that the noise or the kind of series does not support.

    A measure is also refused if two columns of a release would get the same name.
    """
    told = {"name": "v", "unit": "u", "key": "k", "max_keys": 2, "domain": "integers(5)", "measures": "price:clip=3"}
    assert Declaration(**told).measures[0].name == "price"
    with pytest.raises(DeclarationError):
        Declaration(**told | changed)


def a_log(n: int = 4000) -> pl.DataFrame:
    """Return a log in which each privacy unit has at most three keys and the mean price is 2.5."""
    rng = np.random.default_rng(8)
    return pl.DataFrame({"u": np.arange(n) % 900, "k": rng.integers(0, 3, n), "price": rng.uniform(0, 5, n)})


def a_series(store: object = ":memory:", **changed: object) -> sh.Series:
    """Create a series that measures prices and the number of events."""
    told = {"name": "v", "unit": "u", "key": "k", "max_keys": 2, "domain": "integers(40)", "cap": 8}
    measures = ["price:clip=20,step=0.01", sh.Measure.events(most=9)]
    return sh.create(store, a_log(), **(told | {"measures": measures} | changed))  # type: ignore[return-value]


def spent(series: sh.Series) -> str:
    """Return the level that the ledger shows for all populations together."""
    return series.store.ledger(full=True).filter(scope="everybody")["level"].item()


def test_costs_of_measures_add_up_and_are_checked_before_anything_is_drawn() -> None:
    """Caps, budgets and plans include the levels of measures, and a refused release spends nothing."""
    series = a_series()
    series.store.set_budget(rho="7")
    first = series.release("first", level=1, measures={"price": "1/2", "events": "1/4"})
    assert "price_sum, with independent noise, adds 0.5-zCDP" in first.metadata["guarantee"]
    for price, error in (("4.9", BudgetExceededError), ("9", CapExceededError)):
        told = f"level {price} of the measure price, .*largest level that would fit is 4.75; nothing was spent"
        with pytest.raises(error, match=told):
            series.release("second", level=2, measures={"price": price})
        (refused,) = series.plan("2", measures={"price": price}).levels["refused"]
        assert re.search(told, refused)
    assert series.releases()["name"].to_list() == ["first"] and spent(series) == "1.75"
    again = series.release("second", level=2, measures={"price": "2"})
    assert spent(series) == "4.25" and again.metadata["measure_levels"] == {"price": "2"}


def test_what_a_plan_says_of_measures_is_served() -> None:
    """A release with measures has the standard deviations, the threshold and the costs that its plan states."""
    series = a_series(noise="laplace")
    series.release("first", level=1, measures={"price": "1/2"})
    asked = {"price": 1, "events": "1/4"}
    for name, level in (("coarse", "0.5"), ("fine", "2")):
        row = series.plan([level], measures=asked).levels.row(0, named=True)
        before = Fraction(spent(series))
        made = series.release(name, level=level, measures=asked).metadata
        assert made["measure_stds"] == {"price": row["price_sum_std"], "events": row["events_sum_std"]}
        assert made["threshold"] == row["threshold"] and Fraction(spent(series)) - before == Fraction(row["adds"])


def test_periods_have_measures() -> None:
    """A periodic series may have measures, and a unit's values are clipped separately in each period."""
    weeks = sh.create(
        ":memory:", name="weeks", unit="u", key="k", max_keys=2, domain="integers(40)",
        every=sh.Every("week", periods=3, protects="user-week"), measures="price:clip=20,step=0.01",
    )  # fmt: skip
    assert weeks.plan("1", measures="1/2").levels["all_per_user"].item() == "4.5"
    week = weeks.append(a_log(), period="2026-W12").release("one", level=1, measures="1/2", threshold=0)
    assert week.frame["price_sum"].max() > 1000 and "1.5-zCDP per user-week" in week.metadata["guarantee"]


def test_totals_take_two_lines() -> None:
    """With key=None, a release contains the number of units and the sum of their values."""
    log = a_log()
    shop = sh.create(":memory:", log, name="shop", unit="u", key=None, max_keys=1, measures="price:clip=50,step=0.01")
    total = shop.release("total", level=1, measures=1).frame
    truth = log.group_by("u").agg(pl.col("price").sum().clip(0, 50))["price"].sum()
    assert total.height == 1 and abs(total["price_sum"].item() - truth) < 50 * 5


@pytest.mark.parametrize("noise", ["gaussian", "laplace", "discrete_laplace"])
def test_intervals_of_sums_and_means_hold_the_truth_as_often_as_they_say(noise: str) -> None:
    """Intervals of sums and means have their nominal coverage, and intervals that are 20 % narrower are detected."""
    n = 4000
    told = pl.DataFrame({"k": range(n), "count": 500, "price_steps": 90_000, "events_steps": 1_500})
    measures = ["price:clip=2,step=0.01", sh.Measure.events(most=9)]
    series = over_counts(told, seed=4, key="k", noise=noise, domain=sh.Integers(n), measures=measures)
    found = series.release("one", level="0.05", measures="0.05", threshold=-1000).intervals(0.9)
    held = {}
    for name, truth in (("price_sum", 900.0), ("events_sum", 1500.0), ("price_mean", 0.6)):
        if noise != "gaussian" and name == "price_mean":
            continue
        held[name] = int(found.select(pl.lit(truth).is_between(f"{name}_low", f"{name}_high")).sum().item())
    assert_consistent(binomial_test(held["price_sum"], n, 0.9), "intervals of sums")
    if noise == "gaussian":
        assert_consistent(binomial_test(held["price_mean"], n, 0.9), "Fieller intervals")
    assert held["events_sum"] >= 0.88 * n
    narrow = found.select((pl.col("price_sum_high") - pl.col("price_sum_low")) / 2 * 0.8).to_series()
    missed = int(((found["price_sum"] - 900.0).abs() <= narrow).sum())
    assert_detected(binomial_test(missed, n, 0.9), "intervals 20 % too narrow")


def test_means_do_not_feel_which_keys_the_threshold_selected() -> None:
    """Intervals of means per event have nominal coverage, even for keys that were published only because of noise.

    Dividing sums by the published counts would fail, because those counts are too large on average.
    """
    n = 40_000
    told = pl.DataFrame({"k": range(n), "count": 35, "price_steps": 3500, "events_steps": 35})
    measures = ["price:clip=100", sh.Measure.events(most=1)]
    series = over_counts(told, seed=7, key="k", domain=sh.Integers(n), measures=measures)
    release = series.release("one", level="0.005", measures={"price": 5, "events": "0.5"}, threshold=50)
    found = release.intervals(0.9)
    held = int(found.select(pl.lit(100.0).is_between("price_mean_low", "price_mean_high")).sum().item())
    assert_consistent(binomial_test(held, found.height, 0.9), "Fieller intervals of selected keys")
    of_counts = found["price_sum"] / found["noisy_count"]
    reached = int((of_counts > 70).sum())
    assert found.height > 2000 and abs(found["price_mean"].median() - 100) < 1 and of_counts.mean() < 65
    assert_detected(binomial_test(reached, found.height, 0.9), "sums divided by published counts")


def test_sums_of_a_shop_are_within_noise_of_the_truth() -> None:
    """Noisy sums of skewed and negative amounts are within 5.5 standard deviations of the exact clipped sums."""
    rng = np.random.default_rng(2)
    n = 60_000
    shop = pl.DataFrame(
        {
            "customer": rng.zipf(1.6, n) % 4000,
            "country": rng.choice(["UK", "DE", "FR", "ES"], n, p=[0.85, 0.06, 0.05, 0.04]),
            "amount": (np.exp(rng.normal(2.2, 1.2, n)) * np.where(rng.random(n) < 0.02, -1, 1)).round(2),
        }
    )
    series = sh.create(
        ":memory:", shop, name="shop", unit="customer", key="country", max_keys=4,
        domain=sh.Catalogue(["UK", "DE", "FR", "ES", "IT"]), measures="amount:clip=-500..500,step=0.01",
    )  # fmt: skip
    release = series.release("one", level=1, measures="0.5", threshold=-50)
    std = release.metadata["measure_stds"]["amount"]
    truth = shop.group_by("customer", "country").agg(pl.col("amount").sum().clip(-500, 500))
    truth = truth.group_by("country").agg(pl.col("amount").sum())
    both = release.frame.join(truth, on="country", how="left").fill_null(0)
    assert release.frame.height == 5 and std == pytest.approx(2 * 500)
    assert ((both["amount_sum"] - both["amount"]).abs() < 5.5 * std).all()


def test_quantiles_hold_the_true_ones_as_often_as_they_say() -> None:
    """At least 240 of 300 confidence intervals for quantiles contain the truth, as a confidence of 80 % promises."""
    counts = np.r_[np.zeros(20, int), np.arange(1, 41), np.arange(40, 0, -1), np.zeros(20, int)]
    truth = np.searchsorted(np.cumsum(counts), np.array([0.25, 0.5, 0.9]) * counts.sum())
    held = near = 0
    for seed in range(50):
        told = pl.DataFrame({"age": range(120), "count": counts})
        ages = over_counts(told, seed=seed, key="age", domain="integers(120)")
        for workload in (sh.workload.Prefix(), sh.workload.Ranges()):
            release = ages.release(f"by_{len(ages.releases())}", workload=workload, level="0.05")
            found = release.quantiles([0.25, 0.5, 0.9], confidence=0.8)
            held += int(((found["low"].to_numpy() <= truth) & (truth <= found["high"].to_numpy())).sum())
            near += int((np.abs(found["value"].to_numpy() - truth) <= 6).sum())
    assert held >= 0.8 * 300 and near >= 0.95 * 300
    assert (found["high"] - found["low"]).max() <= 20


def test_a_query_whose_measure_looks_at_other_units_is_refused() -> None:
    """A query is refused if a unit's measured value depends on the rows of other units."""
    tables = {"log": pl.DataFrame({"unit": [1, 2], "key": [0, 1], "price": [1.0, 2.0]})}
    told = {"domain": "integers(5)", "measures": "price:clip=9"}
    over_log(sh.Query("select unit, key, 2 * price as price from log", tables=tables), **told)
    with pytest.raises(GuaranteeError, match="units"):
        over_log(sh.Query("select unit, key, sum(price) over () as price from log", tables=tables), **told)
