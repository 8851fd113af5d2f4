"""Measures and the discovery of keys on the command line and in SQL."""

from __future__ import annotations

import polars as pl
import pytest


@pytest.fixture
def sales(here) -> str:
    """3,000 customers with a row each, 1,000 in each of three countries."""
    prices = [9.99, 25.5, 3.25] * 1000
    pl.DataFrame({"customer": range(3000), "country": ["DE", "FR", "US"] * 1000, "price": prices}).write_csv("s.csv")
    return "s.csv"


def test_sums_are_declared_planned_and_released(sparsehist, sales):
    """What the plan says is served; a refusal names the measure and the largest level that would fit."""
    made = ("create", "store", "--input", sales, "--unit", "customer", "--key", "country", "--max-keys", "2")
    measures = ("--measure", "price:clip=100,step=0.01", "--measure", "events:clip=5")
    declared = (*made, *measures, "--domain", "catalogue('DE', 'ES', 'FR', 'US')", "--name", "shop", "--cap", "2")
    assert sparsehist(*declared).code == 0
    asked = ("--series", "shop", "--level", "0.5", "--measures", "price=1,events=1/4")
    (row,) = sparsehist("plan", "store", *asked, "--json").json["levels"]
    assert (row["adds"], row["price_sum_adds"], row["events_sum_adds"]) == ("1.75", "1", "0.25")
    released = sparsehist("release", "store", *asked, "--name", "may", "--head", "3", "--json").json
    assert released["metadata"]["measure_stds"] == {"price": row["price_sum_std"], "events": row["events_sum_std"]}
    assert set(released["head"][0]) == {"country", "noisy_count", "price_sum", "events_sum", "price_mean"}
    shown = sparsehist("release", "store", "--series", "shop", "--name", "may").out
    assert f"standard deviation {row['price_sum_std']:.4g}" in shown
    over = sparsehist(
        "release", "store", "--series", "shop", "--name", "june", "--level", "0.5", "--measures", "price=3"
    )
    assert over.code == 3 and "level 3 of the measure price" in over.err and "would fit is 1.25" in over.err


def test_totals_take_two_lines(sparsehist, sales):
    """Without key and domain: users and revenue in all, in a shell and in SQL."""
    made = ("create", "store", "--input", sales, "--unit", "customer", "--name", "whole")
    assert sparsehist(*made, "--max-keys", "1", "--measure", "price:clip=100,step=0.01").code == 0
    asked = ("--series", "whole", "--name", "all", "--level", "1", "--measures", "1", "--head", "1", "--json")
    (row,) = sparsehist("release", "store", *asked).json["head"]
    assert abs(row["noisy_count"] - 3000) < 10 and abs(row["price_sum"] - 38_740) < 600
    refused = sparsehist(*made[:-1], "more", "--max-keys", "3")
    assert refused.code == 2 and "max_keys is 1" in refused.err


def test_keys_are_found_and_become_a_domain(sparsehist, sales):
    """Three commands from a log whose keys nobody can list to counts of them."""
    log = ("--input", sales, "--unit", "customer", "--key", "country")
    found = ("choose", "keys", "store", *log, "--most-keys", "5", "--level", "0.1", "--delta", "1e-6", "--out")
    assert sparsehist(*found, "keys.parquet", "--json").json["keys"] == 3
    assert pl.read_parquet("keys.parquet").to_series().to_list() == ["DE", "FR", "US"]
    declared = ("--domain", "catalogue(file='keys.parquet')", "--max-keys", "1", "--name", "listed")
    assert sparsehist("create", "store", *log, *declared).code == 0
    made = sparsehist("release", "store", "--series", "listed", "--name", "a", "--level", "1", "--json").json
    assert made["rows"] == 3 and made["metadata"].get("delta") is None
