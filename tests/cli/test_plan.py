"""The command that plans."""

from __future__ import annotations

import polars as pl
import pytest

import sparsehist as sh


def test_plan_without_a_store(sparsehist):
    """Levels and true counts are shown in tables, and as JSON."""
    shown = sparsehist("plan", "--cells", "1e69", "--max-keys", "20", "--level", "0.01", "--level", "0.5")
    assert shown.code == 0 and "rho 0.01" in shown.out and "95 %" in shown.out
    told = sparsehist("plan", "--cells", "1e9", "--max-keys", "2", "--level", "1/3", "--json").json
    assert [row["level"] for row in told["levels"]] == ["1/3"]
    assert {"probability", "relative_error", "count"} <= set(told["counts"][0])


def test_measures_are_planned_without_a_store(sparsehist):
    """Declared and given levels; what they add is what the plan of a series with these measures says."""
    declared = "--cells 2 --max-keys 2 --measure price:clip=100,step=0.01 --measure events:clip=5".split()
    asked = ("--level", "0.5", "--measures", "price=1,events=1/4", "--json")
    planned = sparsehist("plan", *declared, *asked).json["levels"]
    assert [planned[0][f"{name}adds"] for name in ("", "price_sum_", "events_sum_")] == ["1.75", "1", "0.25"]
    log = pl.DataFrame({"u": ["1"], "k": ["a"], "price": [1.5]})
    measures = [sh.Measure("price", clip=100, step="0.01"), sh.Measure.events(most=5)]
    domain = sh.Catalogue(["a", "b"])
    series = sh.create(":memory:", log, name="s", unit="u", key="k", max_keys=2, domain=domain, measures=measures)
    assert series.plan("0.5", measures={"price": 1, "events": "1/4"}).by_level == planned
    levels = dict(zip(measures, (1, "1/4"), strict=True))
    assert sh.plan("0.5", d=2, max_keys=2, measures=levels).by_level == planned


@pytest.mark.parametrize(
    "words",
    [
        ("--cells", "many", "--max-keys", "2"),
        ("--cells", "1e99999999", "--max-keys", "2"),
        ("--cells", "1.5", "--max-keys", "2"),
        ("--cells", "100"),
        ("--cells", "100", "--max-keys", "2", "--measures", "1"),
        ("--cells", "100", "--max-keys", "2", "--measure", "price:clip=5"),
        ("--cells", "100", "--max-keys", "2", "--measure", "price:clip=5", "--measures", "cost=1"),
        ("--max-keys", "2"),
        ("--series", "visits"),
        ("--cells", "100", "--max-keys", "2", "--plot", "plan.jpg"),
        ("--cells", "100", "--max-keys", "2", "--plot", "nowhere/plan.svg"),
    ],
)
def test_what_cannot_be_planned_exits_with_2(sparsehist, words):
    """Bad input to plan is refused in one line."""
    done = sparsehist("plan", *words)
    assert done.code == 2 and "error" in done.err


def test_plan_of_a_series_follows_its_releases(sparsehist, store):
    """A series is planned after what was released from it, and a cap says what it would refuse."""
    assert sparsehist("release", store, "--series", "visits", "--name", "public", "--level", "0.5").code == 0
    done = sparsehist("plan", store, "--series", "visits", "--level", "0.1", "--level", "2", "--json")
    assert [row["adds"] for row in done.json["levels"]] == ["0", "1.5"]
    assert "cap" in done.json["levels"][1]["refused"]
    assert sparsehist("plan", store, "--series", "visits", "--max-keys", "2").code == 2
