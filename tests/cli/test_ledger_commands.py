"""The ledger, budgets, caps and disjoint populations from the command line."""

import json

import polars as pl

from sparsehist.ledger.export import COLUMNS, EVENT_COLUMNS


def test_a_budget_refuses_with_3_and_the_ledger_says_so(sparsehist, store):
    """Beyond the budget nothing is released, the difference is told, and the event has who, what and why."""
    assert sparsehist("limit", store, "--rho", "0.5", "--who", "dpo").code == 0
    release = ("release", store, "--series", "visits", "--name")
    assert sparsehist(*release, "a", "--level", "0.25", "--who", "ann").code == 0
    refused = sparsehist(*release, "b", "--level", "0.75", "--who", "bob")
    assert refused.code == 3
    assert (
        "requested level 0.75" in refused.err
        and "remaining rho 0.25; the largest level that would fit is 0.5" in refused.err
    )
    wrong = sparsehist("limit", store, "--rho", "0")
    assert wrong.code == 2 and "rho must be a positive" in wrong.err
    shown = sparsehist("ledger", store, "--events")
    assert "null" not in shown.out and "{" not in shown.out
    for told in ("ex ante", "rho 0.5", "dpo", "bob", "refuse", "remaining"):
        assert told in " ".join(shown.out.split()), shown.out
    data = sparsehist("ledger", store, "--events", "--json").json
    assert [row["who"] for row in data["events"]][-3:] == ["dpo", "ann", "bob"]
    raised = sparsehist("limit", store, "--rho", "2")
    assert raised.code == 2 and "give --reason" in raised.err
    assert sparsehist("limit", store, "--rho", "2", "--reason", "second study").code == 0
    assert "rho 2; second study" in " ".join(sparsehist("ledger", store, "--events").out.split())
    assert sparsehist(*release, "b", "--level", "0.75").code == 0
    assert "was rho 0.5 when its first release was made" in sparsehist("ledger", store).out


def test_a_cap_is_raised_for_a_reason(sparsehist, store):
    """The cap of 1 refuses, is raised by name, and shows beside the first one."""
    release = ("release", store, "--series", "visits", "--name")
    assert sparsehist(*release, "a", "--level", "1").code == 0
    assert sparsehist(*release, "b", "--level", "1.5").code == 3
    up = ("limit", store, "--series", "visits", "--cap")
    assert sparsehist(*up, "0.5", "--reason", "x").code == 2
    assert sparsehist(*up, "2", "--reason", "more", "--json").json["status"] == "raised"
    assert sparsehist(*release, "b", "--level", "1.5").code == 0
    row = next(row for row in sparsehist("ledger", store, "--json").json["ledger"] if row["scope"] == "series")
    assert (row["cap"], row["limit_at_first_release"], row["standing"]) == ("2", "1", "ex post")


def test_disjoint_populations_do_not_add_up(sparsehist, store, declared):
    """Declared so, everybody bears the larger of the two."""
    other = [*declared[:-1], "others", "--population", "south"]
    assert sparsehist("create", store, *other).code == 0
    for series, level in (("visits", "0.25"), ("others", "0.5")):
        assert sparsehist("release", store, "--series", series, "--name", "a", "--level", level).code == 0

    def everybody():
        return sparsehist("ledger", store, "--json").json["ledger"][-1]

    assert (everybody()["scope"], everybody()["level"]) == ("everybody", "0.75")
    apart = ("--disjoint", "default", "--disjoint", "south", "--reason", "by country")
    assert sparsehist("limit", store, *apart).code == 0
    assert everybody()["level"] == "0.5"


def test_the_ledger_is_exported(sparsehist, store, here):
    """As JSON and Parquet, with the schema in it; never over something else or into the store."""
    for name in ("ledger.json", "ledger.parquet", "ledger.json"):
        assert sparsehist("ledger", store, "--out", name).code == 0
    written = json.loads((here / "ledger.json").read_text())
    assert (written["schema"], written["schema_version"]) == ("sparsehist ledger", 1)
    assert written["columns"] == {"spent": COLUMNS, "events": EVENT_COLUMNS}
    assert pl.read_parquet("ledger.parquet")["entry"].unique().sort().to_list() == ["event", "spent"]
    (here / "mine.json").write_text("{}")
    for place in ("mine.json", "ledger.csv", f"{store}/ledger.json", "no/ledger.json"):
        assert sparsehist("ledger", store, "--out", place).code == 2, place


def test_a_budget_says_its_route_and_split_and_a_level_may_be_an_epsilon_and_delta(sparsehist, store, declared):
    """A fresh (1, 1e-6) serves the level that stands for it; what cannot be charged is refused at create with 3."""
    told = sparsehist("limit", store, "--epsilon", "1", "--delta", "1e-6").out
    assert "route gaussian" in told and "1e-06 for noise" in told
    release = ("release", store, "--series", "visits", "--name")
    made = sparsehist(*release, "a", "--level", "epsilon_delta(1, 1e-6)", "--json")
    assert made.code == 0 and made.json["metadata"]["epsilon_delta"] == "epsilon_delta(1, 0.000001)"
    again = sparsehist(*release, "a", "--level", "epsilon_delta(1, 1e-6)", "--json")
    assert again.json["metadata"] == made.json["metadata"]
    level = made.json["metadata"]["level"]
    assert f"largest level that would fit is {level}" in sparsehist(*release, "b", "--level", "0.03").err
    assert sparsehist(*release, "b", "--level", "epsilon_delta(1)").code == 2
    other = sparsehist("create", store, *declared[:-1], "other", "--noise", "skellam")
    assert other.code == 3 and "--route renyi could" in other.err
    short = sparsehist("ledger", store, "--short", "--json").json["ledger"]
    assert [row["scope"] for row in short] == ["population", "everybody"]
    of_series = sparsehist("ledger", store, "--series", "visits", "--json").json["ledger"]
    assert (of_series[0]["scope"], of_series[0]["remaining"]) == ("path", level)
