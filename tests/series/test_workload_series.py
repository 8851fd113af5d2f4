"""Workloads can be released at levels in any order, and a release file answers further queries."""

from __future__ import annotations

import datetime as dt
import warnings

import numpy as np
import polars as pl
import pytest

import sparsehist as sh
from sparsehist.errors import DeclarationError, LevelError, NotFoundError
from tests.series.in_memory import over_counts, over_log
from tests.stats import assert_consistent, assert_detected, ks_test

FINE = 10**4  # the noise is only about 0.01 counts, so a larger error means a bug
COUNTS = (np.arange(24) * 7) % 50 + 1


def _hours(n=24, **declared):
    frame = pl.DataFrame({"hour": np.arange(n), "count": (np.arange(n) * 7) % 50 + 1})
    return over_counts(
        frame.sample(fraction=1.0, shuffle=True, seed=3), key="hour", domain=sh.Integers(n), **declared
    )


def _places():
    days = [dt.date(2024, 5, day) for day in (1, 2, 3)]
    rows = [
        (country, day, page, 10 * i + day.day)
        for i, country in enumerate(("DE", "US"))
        for day in days
        for page in (0, 3)
    ]
    frame = pl.DataFrame(rows, schema=["country", "day", "page", "count"], orient="row")
    countries = sh.Catalogue(["DE", "US", "FR"])
    domain = sh.Product(country=countries, day=sh.Dates("2024-05-01", "2024-05-03"), page=sh.Integers(5))
    return over_counts(frame, key=["country", "day", "page"], max_keys=2, domain=domain), frame


@pytest.mark.parametrize(("noise", "norm"), [("gaussian", "l2"), ("laplace", "l1")])
def test_noise_is_scaled_to_what_a_unit_can_move(noise, norm):
    """Workload noise is scaled to the L1 or L2 sensitivity of the strategy, given max_keys cells per unit."""
    series = _hours(64, noise=noise, max_keys=5)
    release = series.release("sums", workload="prefix()", level="0.1", strategy="haar")
    strategy = sh.workload.strategy_named("haar", sh.workload.Prefix(64))
    sensitivity = getattr(strategy, norm)(5)
    assert release.metadata["noise_std"] == pytest.approx(type(series.declaration.family)(sensitivity).std("0.1"))
    truth = np.cumsum((np.arange(64) * 7) % 50 + 1)
    off = (release.frame["noisy_answer"].to_numpy() - truth) / np.sqrt(strategy.variance())
    assert 0.5 < np.sqrt(np.mean(off**2)) / release.metadata["noise_std"] < 2
    again = series.release("again", workload="prefix()", level="0.1", strategy="haar")
    assert again.frame.equals(release.frame)  # releases at equal levels share their noise


def test_products_and_marginals_name_their_queries_in_keys():
    """Each row of a product or marginal release shows the values of the key columns that its query counts.

    If a query sums over all values of a column, that column is null.
    """
    series, rows = _places()
    frame = series.release("sums", workload="kronecker(identity(), prefix(), total())", level=FINE).frame
    assert frame.columns == ["country", "day_low", "day_high", "page", "noisy_answer", "std"]
    row = frame.filter(country="US", day_high=dt.date(2024, 5, 2)).row(0, named=True)
    truth = rows.filter((pl.col("country") == "US") & (pl.col("day") <= dt.date(2024, 5, 2)))["count"].sum()
    assert row["day_low"] == dt.date(2024, 5, 1) and abs(row["noisy_answer"] - truth) < 0.5
    release = series.release(
        "pairs", workload=sh.workload.Marginals([["country"], ["country", "day"], []]), level=FINE
    )
    assert "cells of a unit beyond max_keys are missing" in release.metadata["counts"]
    assert release.frame.columns == ["country", "day", "page", "noisy_answer", "std"]
    assert release.frame.height == 3 + 9 + 1 and release.frame["page"].is_null().all()
    for country, day, _, answer, _ in release.frame.rows():
        named = {"country": country, "day": day}
        inside = rows.filter(**{column: value for column, value in named.items() if value is not None})
        assert round(answer) == inside["count"].sum()


def test_all_ranges_are_answered_on_demand(tmp_path):
    """A release of all ranges stores one row for each cell, and the release file answers a query for any range."""
    released = _hours().release("ranges", workload="ranges()", level=FINE)
    released.write_parquet(tmp_path / "ranges.parquet")
    read = sh.read(tmp_path / "ranges.parquet")
    assert read.frame.columns == ["hour", "noisy_count"] and read.frame.height == 24
    for low, high in ((0, 23), (5, 5), (7, 20)):
        answer, std = read.answer(low, high)
        assert (answer, std) == released.answer(low, high)
        assert abs(answer - COUNTS[low : high + 1].sum()) < 6 * std < 1
    many = read.answers([0, 5], [3, 9])
    assert many["noisy_answer"].to_list() == [read.answer(0, 3)[0], read.answer(5, 9)[0]]
    with pytest.raises(NotFoundError):
        read.answer(3, 24)


def test_ranges_of_days_and_of_cells_are_one_workload():
    """Ranges of days may be given as dates, strings or cell numbers. The release is the same, and shows dates."""
    log = pl.DataFrame({"unit": range(900), "day": [dt.date(2024, 1, 1 + i % 28) for i in range(900)]})
    days = over_log(log, key="day", domain=sh.Dates("2024-01-01", "2024-12-31"))
    weeks = sh.workload.Ranges(keys=[(dt.date(2024, 1, 1), "2024-01-07"), ("2024-01-08", dt.date(2024, 1, 14))])
    made = days.release("weeks", workload=weeks, level=1)
    assert made.frame["high"].to_list() == [dt.date(2024, 1, 7), dt.date(2024, 1, 14)]
    assert made.metadata["workload"] == "ranges(366, [(0, 6), (7, 13)])"
    for same in (sh.workload.Ranges([(0, 6), (7, 13)]), str(weeks), None):
        assert days.release("weeks", workload=same, level=1).frame.equals(made.frame)
    assert abs(made.frame["noisy_answer"][0] - 7 * 32) < 8 + 7 * 1.5
    with pytest.raises(DeclarationError, match="has one row for each query"):
        made.answer("2024-01-08", "2024-01-14")
    every = days.release("every", workload="ranges()", level=1)
    assert every.answer("2024-01-08", "2024-01-14") == every.answer(dt.date(2024, 1, 8), dt.date(2024, 1, 14))
    with pytest.raises(DeclarationError, match="'2025-01-31' is not a key of day"):
        days.plan_workload("ranges(keys=[('2024-01-01', '2025-01-31')])", 1)


def test_a_column_of_text_is_summed_over():
    """A marginal may sum over a column that has too many possible values to list."""
    frame = pl.DataFrame({"country": ["DE", "DE", "US"], "query": ["a", "b", "a"], "count": [3, 4, 5]})
    domain = sh.Product(country=sh.Catalogue(["DE", "US"]), query=sh.Strings(max_bytes=32))
    series = over_counts(frame, key=["country", "query"], max_keys=2, domain=domain)
    released = series.release("by_country", workload=sh.workload.Marginals([["country"], []]), level=FINE).frame
    assert released.select("country", "query").rows() == [("DE", None), ("US", None), (None, None)]
    np.testing.assert_allclose(released["noisy_answer"], [7, 5, 12], atol=0.5)


def test_a_matrix_is_a_workload(tmp_path):
    """After a store is reopened, a release of a matrix workload can be read by name, without the matrix."""
    log = pl.DataFrame({"unit": np.arange(COUNTS.sum()), "key": np.repeat(np.arange(24), COUNTS)})
    series = sh.create(tmp_path / "s", log, name="s", unit="unit", key="key", max_keys=1, domain=sh.Integers(24))
    matrix = np.zeros((3, 24))
    matrix[0, :12], matrix[1, 12:], matrix[2, ::2] = 1, 1, 0.5
    released = series.release("halves", workload=sh.workload.Matrix(matrix), level=FINE, strategy="auto")
    assert np.abs(released.frame["noisy_answer"].to_numpy() - matrix @ COUNTS).max() < 6 * released.frame["std"].max()
    again = sh.open(tmp_path / "s").series("s").release("halves")
    assert again.frame.equals(released.frame) and again.metadata == released.metadata


def test_fractional_answers_get_no_noise_of_their_own():
    """If weights are fractional, noise is added to cells, since rounding errors of answers depend on the counts."""
    series, halves = _hours(24), sh.workload.Matrix(np.tile([1.0, 0.5], (2, 12)))
    with pytest.raises(DeclarationError, match="fractional weights need a strategy that measures all cells"):
        series.release("direct", workload=halves, level=FINE, strategy="direct")
    assert series.release("auto", workload=halves, level=FINE).metadata["strategy"] == "optimised"
    whole = sh.workload.Matrix(np.tile([2, 1], (2, 12)))
    assert series.release("whole", workload=whole, level=FINE, strategy="direct").metadata["strategy"] == "direct"


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_the_joint_law_over_levels_goes_through_the_store(noise):
    """Workload releases at several levels have the joint distribution of a single noise path.

    The test detects noise that is drawn independently for each level.
    """
    n = 20_000
    series, counts = _hours(n, noise=noise), (np.arange(n) * 7) % 50 + 1
    family = sh.noise.Gaussian() if noise == "gaussian" else sh.noise.Laplace()
    off = {}
    for level in (0.2, 1.0, 0.05):
        frame = series.release(
            f"r{100 * level:.0f}", workload=sh.workload.Identity(), level=str(level), strategy="identity"
        ).frame
        off[level] = frame["noisy_answer"].to_numpy() - counts
        assert frame["std"][0] == pytest.approx(family.std(level), rel=1e-9)
        assert_consistent(ks_test(off[level], lambda x, level=level: np.exp(family.log_cdf(x, level))))
    if noise == "gaussian":
        for coarse, fine in ((0.05, 0.2), (0.2, 1.0)):
            between = 1 / (1 / coarse - 1 / fine)
            assert_consistent(ks_test(off[coarse] - off[fine], lambda x, to=between: np.exp(family.log_cdf(x, to))))
            redrawn = off[coarse] - np.roll(off[fine], 1)
            assert_detected(ks_test(redrawn, lambda x, to=between: np.exp(family.log_cdf(x, to))))


def test_bad_input_is_refused_before_anything_is_spent():
    """A wrong parameter of a workload release is refused, and leaves no noise path or event in the store."""
    series = _hours()
    before = series.store.events()
    for wrong in ({"workload": sh.workload.Prefix(23)}, {"level": "-1"}, {"strategy": "residual"}):
        with pytest.raises((DeclarationError, LevelError)):
            series.release("sums", **{"workload": sh.workload.Prefix(), "level": "0.5"} | wrong)
    assert series.store.events().equals(before)
    assert series.store.ledger(full=True).filter(pl.col("scope") == "path").height == 1


def test_discrete_laplace_answers_in_whole_numbers():
    """With integer noise, workload answers are integers, and a strategy with fractional answers is refused."""
    series = _hours(noise="discrete_laplace")
    frame = series.release("sums", workload=sh.workload.Identity(), level="0.5", strategy="identity").frame
    assert (frame["noisy_answer"] == frame["noisy_answer"].round()).all()
    with pytest.raises(DeclarationError, match="integer weights"):
        series.release("other", workload=sh.workload.Prefix(), level="0.5", strategy="spectral")


def test_a_plan_of_a_workload_names_what_auto_takes():
    """A workload plan spends nothing, and marks the strategy that strategy="auto" will choose."""
    series = _hours(256)
    planned = series.plan_workload(sh.workload.Prefix(), ["0.1", "0.5"]).filter(pl.col("chosen"))
    assert series.store.ledger(full=True)["releases"].sum() == 0
    released = series.release("sums", workload=sh.workload.Prefix(), level="0.1").metadata
    assert planned["strategy"].unique().to_list() == [released["strategy"]]
    row = planned.filter(pl.col("level") == "0.1").row(0, named=True)
    assert row["ratio"] >= 1 and row["std"] == pytest.approx(released["std"], rel=1e-9)


def test_sums_over_cells_warn_that_they_count_a_unit_more_than_once():
    """A workload release warns before noise is drawn, if and only if a sum may count a unit more than once."""
    log = pl.DataFrame({"unit": [1, 1, 2], "key": ["a", "b", "a"]})
    domain = sh.Catalogue(["a", "b", "c"])
    several = over_log(log, max_keys=2, domain=domain)
    with pytest.warns(sh.errors.CountsWarning, match="up to max_keys times; cells of a unit beyond"):
        several.release("all", workload="total()", level=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(sh.errors.CountsWarning):
            several.release("sums", workload="prefix()", level=1)
        assert several.releases()["name"].to_list() == ["all"]
        one = over_log(log.unique("unit"), domain=domain)
        assert one.release("all", workload="total()", level=1).metadata["counts"] == "units"
