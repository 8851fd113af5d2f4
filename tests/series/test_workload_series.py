"""Workloads of a series: released in any order, priced beside the cells, answered from the file alone."""

from __future__ import annotations

import datetime as dt
import warnings

import numpy as np
import polars as pl
import pytest

import sparsehist as sh
from sparsehist.errors import (
    DeclarationError,
    LevelError,
    NameTakenError,
    NotFoundError,
)
from tests.stats import assert_consistent, assert_detected, ks_test

FINE = 10**4  # noise of about a hundredth of a count: what is left of an error is a mistake


def _hours(store=":memory:", n=24, *, noise="gaussian", max_keys=1, seed=1, **declared):
    counts = (np.arange(n) * 7) % 50 + 1
    frame = pl.DataFrame({"hour": np.arange(n), "users": counts}).sample(fraction=1.0, shuffle=True, seed=3)
    series = sh.create(
        sh.open(store, seed=seed) if store == ":memory:" else store,
        sh.Counts(frame, count="users", largest=1), name="visits",
        key="hour", max_keys=max_keys, noise=noise, domain=sh.Integers(n), **declared,
    )  # fmt: skip
    return series, counts


def _law(family, level):
    return lambda x: np.exp(family.log_cdf(x, level))


def _places(**declared):
    rows = [
        (country, dt.date(2024, 5, day), page, 10 * i + day)
        for i, country in enumerate(("DE", "US"))
        for day in (1, 2, 3)
        for page in (0, 3)
    ]
    frame = pl.DataFrame(rows, schema=["country", "day", "page", "users"], orient="row")
    domain = sh.Product(
        country=sh.Catalogue(["DE", "US", "FR"]), day=sh.Dates("2024-05-01", "2024-05-03"), page=sh.Integers(5)
    )
    return sh.create(
        sh.open(":memory:", seed=1), sh.Counts(frame, count="users", largest=1), name="visits",
        key=["country", "day", "page"], max_keys=2, domain=domain, **declared,
    ), frame  # fmt: skip


@pytest.mark.parametrize(("noise", "norm"), [("gaussian", "l2"), ("laplace", "l1")])
def test_noise_is_scaled_to_what_a_unit_can_move(noise, norm):
    """The sensitivity of the strategy for max_keys cells, in the norm of the noise; errors are as large as stated."""
    series, counts = _hours(n=64, noise=noise, max_keys=5)
    release = series.release("sums", workload="prefix()", level="0.1", strategy="haar")
    strategy = sh.workload.strategy_named("haar", sh.workload.Prefix(64))
    sensitivity = getattr(strategy, norm)(5)
    assert release.metadata["noise_std"] == pytest.approx(type(series.declaration.family)(sensitivity).std("0.1"))
    off = (release.frame["noisy_answer"].to_numpy() - np.cumsum(counts)) / np.sqrt(strategy.variance())
    assert 0.5 < np.sqrt(np.mean(off**2)) / release.metadata["noise_std"] < 2
    again = series.release("again", workload="prefix()", level="0.1", strategy="haar")
    assert again.frame.equals(release.frame)  # one noise for a level


def test_products_of_workloads_say_their_queries_in_keys():
    """A Kronecker product on several columns names the key columns and their values, and ends of ranges by name."""
    series, rows = _places()
    asked = "kronecker(identity(), prefix(), total())"
    frame = series.release("sums", workload=asked, level=FINE, strategy="identity").frame
    assert frame.columns == ["country", "day_low", "day_high", "page", "noisy_answer", "std"]
    assert frame["page"].null_count() == 9
    assert frame["country"].to_list() == [country for country in ("DE", "US", "FR") for _ in range(3)]
    row = frame.filter(country="US", day_high=dt.date(2024, 5, 2)).row(0, named=True)
    truth = rows.filter((pl.col("country") == "US") & (pl.col("day") <= dt.date(2024, 5, 2)))["users"].sum()
    assert row["day_low"] == dt.date(2024, 5, 1) and abs(row["noisy_answer"] - truth) < 0.5
    with pytest.raises(DeclarationError, match=r"kronecker\(prefix\(\), total\(\)"):
        series.release("other", workload=sh.workload.Prefix(), level=1)


def test_all_ranges_are_answered_on_demand(tmp_path):
    """A workload of all ranges publishes one row a cell, and answers any range from the file alone."""
    series, counts = _hours(tmp_path / "store")
    released = series.release("ranges", workload="ranges()", level=FINE)
    released.write_parquet(tmp_path / "ranges.parquet")
    read = sh.read(tmp_path / "ranges.parquet")
    assert read.frame.columns == ["hour", "noisy_count"] and read.frame.height == 24
    for low, high in ((0, 23), (5, 5), (7, 20)):
        answer, std = read.answer(low, high)
        assert (answer, std) == released.answer(low, high)
        assert abs(answer - counts[low : high + 1].sum()) < 6 * std < 1
    many = read.answers([0, 5], [3, 9])
    assert many["noisy_answer"].to_list() == [read.answer(0, 3)[0], read.answer(5, 9)[0]]
    with pytest.raises(NotFoundError, match="24"):
        read.answer(3, 24)
    with pytest.raises(DeclarationError, match="before"):
        read.answer(5, 3)


def test_marginals_are_sums_of_the_bounded_counts():
    """Each marginal's rows name the values of its columns and are null in those it sums over."""
    series, frame = _places()
    asked = sh.workload.Marginals([["country"], ["country", "day"], []])
    release = series.release("pairs", workload=asked, level=FINE)
    assert "pairs beyond that were cut and are missing" in str(release.metadata["guarantee"])
    marginals = release.frame
    assert marginals.columns == ["country", "day", "page", "noisy_answer", "std"]
    assert marginals.height == 3 + 9 + 1
    truth = {
        **{(country, None): users for country, users in frame.group_by("country").agg(pl.sum("users")).rows()},
        **{(c, d): users for c, d, users in frame.group_by("country", "day").agg(pl.sum("users")).rows()},
        (None, None): frame["users"].sum(),
    }
    for country, day, page, answer, _ in marginals.rows():
        assert page is None
        assert round(answer) == truth.get((country, day), 0)


def test_a_column_of_text_is_summed_over():
    """A column too large to be numbered has marginals of the other columns, and none of its own."""
    frame = pl.DataFrame({"country": ["DE", "DE", "US"], "query": ["a", "b", "a"], "users": [3, 4, 5]})
    series = sh.create(
        sh.open(":memory:", seed=1), sh.Counts(frame, count="users", largest=1), name="asked",
        key=["country", "query"], max_keys=2,
        domain=sh.Product(country=sh.Catalogue(["DE", "US"]), query=sh.Strings(max_bytes=32)),
    )  # fmt: skip
    released = series.release("by_country", workload=sh.workload.Marginals([["country"], []]), level=FINE).frame
    assert released.select("country", "query").rows() == [("DE", None), ("US", None), (None, None)]
    assert released["query"].dtype == pl.String
    np.testing.assert_allclose(released["noisy_answer"], [7, 5, 12], atol=0.5)
    with pytest.raises(DeclarationError, match="too many"):
        series.release("by_query", workload=sh.workload.Marginals([["query"]]), level=FINE)


def test_a_matrix_is_a_workload(tmp_path):
    """Queries of a matrix are answered, and the release is made again from the store without the matrix."""
    series, counts = _hours(tmp_path / "store")
    matrix = np.zeros((3, 24))
    matrix[0, :12], matrix[1, 12:], matrix[2, ::2] = 1, 1, 0.5
    released = series.release("halves", workload=sh.workload.Matrix(matrix), level=FINE, strategy="auto")
    assert np.abs(released.frame["noisy_answer"].to_numpy() - matrix @ counts).max() < 6 * released.frame["std"].max()
    again = sh.open(tmp_path / "store").series("visits").release("halves")
    assert again.frame.equals(released.frame) and again.metadata == released.metadata


def test_a_name_stands_for_the_same_numbers():
    """The same request gives the same release; another request, or a release of cells, under its name is refused."""
    series, _ = _hours()
    first = series.release("sums", workload=sh.workload.Prefix(), level="0.5")
    assert series.release("sums", workload=sh.workload.Prefix(24), level="1/2").frame.equals(first.frame)
    assert series.release("sums").frame.equals(first.frame)
    for wrong in ({"level": "0.6"}, {"workload": sh.workload.Ranges()}, {"strategy": "haar"}):
        with pytest.raises(NameTakenError, match="sums"):
            series.release("sums", **{"workload": sh.workload.Prefix(), "level": "0.5"} | wrong)
    assert series.release("sums", level="0.5").frame.equals(first.frame)
    series.release("cells", level="0.5")
    with pytest.raises(NameTakenError, match="cells"):
        series.release("cells", workload=sh.workload.Prefix(), level="0.5")


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_the_joint_law_over_levels_goes_through_the_store(noise):
    """Releases at three levels in scrambled order differ by independent noise of the right variance; a redraw not."""
    n = 20_000
    series, counts = _hours(n=n, noise=noise)
    levels = {"a": 0.2, "b": 1.0, "c": 0.05}
    off = {}
    for name, level in levels.items():
        frame = series.release(name, workload=sh.workload.Identity(), level=str(level), strategy="identity").frame
        off[level] = frame["noisy_answer"].to_numpy() - counts
        family = sh.noise.Gaussian() if noise == "gaussian" else sh.noise.Laplace()
        assert frame["std"][0] == pytest.approx(family.std(level), rel=1e-9)
        assert_consistent(ks_test(off[level], _law(family, level)))
    if noise == "gaussian":
        for coarse, fine in ((0.05, 0.2), (0.2, 1.0)):
            std = np.sqrt(1 / (2 * coarse) - 1 / (2 * fine))
            law = _law(sh.noise.Gaussian(), 1 / (2 * std**2))
            assert_consistent(ks_test(off[coarse] - off[fine], law))
            assert_detected(ks_test(off[coarse] - np.roll(off[fine], 1), law))


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"workload": sh.workload.Prefix(23)}, DeclarationError),
        ({"workload": np.eye(24)}, DeclarationError),
        ({"workload": sh.workload.Matrix(np.zeros((2, 24)))}, DeclarationError),
        ({"level": "-1"}, LevelError),
        ({"level": None}, NotFoundError),
        ({"strategy": "best"}, DeclarationError),
        ({"strategy": "residual"}, DeclarationError),
    ],
)
def test_bad_input_is_refused_before_anything_is_spent(wrong, error):
    """A parameter that is wrong leaves no path and no event."""
    series, _ = _hours()
    before = series.store.events()
    asked = {"name": "sums", "workload": sh.workload.Prefix(), "level": "0.5"} | wrong
    with pytest.raises(error):
        series.release(asked.pop("name"), workload=asked.pop("workload"), **asked)
    assert series.store.events().equals(before)
    assert series.store.ledger(full=True).filter(pl.col("scope") == "path").height == 1


def test_discrete_laplace_answers_in_whole_numbers():
    """Integer noise keeps answers of counts whole; strategies that measure no counts are refused."""
    series, _ = _hours(noise="discrete_laplace")
    frame = series.release("sums", workload=sh.workload.Identity(), level="0.5", strategy="identity").frame
    assert (frame["noisy_answer"] == frame["noisy_answer"].round()).all()
    with pytest.raises(DeclarationError, match="counts"):
        series.release("other", workload=sh.workload.Prefix(), level="0.5", strategy="spectral")


def test_a_plan_of_a_workload_names_what_auto_takes():
    """Strategies are compared before anything is spent, and the one `auto` then takes is marked."""
    series, _ = _hours(n=256)
    planned = series.plan_workload(sh.workload.Prefix(), ["0.1", "0.5"])
    assert series.store.ledger(full=True)["releases"].sum() == 0
    chosen = planned.filter(pl.col("chosen"))["strategy"].unique().to_list()
    released = series.release("sums", workload=sh.workload.Prefix(), level="0.1")
    assert chosen == [released.metadata["strategy"]]
    of_level = planned.filter((pl.col("level") == "0.1") & pl.col("chosen")).row(0, named=True)
    assert of_level["std"] == pytest.approx(released.metadata["std"], rel=1e-9)
    assert of_level["lower_bound"] <= of_level["std"]


def test_sums_over_cells_warn_that_they_count_a_unit_more_than_once():
    """Before anything is drawn, and only where a unit may be in several cells that one answer adds up."""
    log = pl.DataFrame({"u": [1, 1, 2], "k": ["a", "b", "a"]})
    declared = {"unit": "u", "key": "k", "domain": sh.Catalogue(["a", "b", "c"])}
    several = sh.create(":memory:", log, name="several", max_keys=2, **declared)
    with pytest.warns(sh.errors.CountsWarning, match="up to max_keys times; cells of a unit beyond"):
        several.release("all", workload="total()", level=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(sh.errors.CountsWarning):
            several.release("sums", workload="prefix()", level=1)
        assert several.releases()["name"].to_list() == ["all"]
        assert several.release("cells", workload="identity()", level=1).metadata["counts"] == "units"
        one = sh.create(":memory:", log.unique("u"), name="one", max_keys=1, **declared)
        assert one.release("all", workload="total()", level=1).metadata["counts"] == "units"
