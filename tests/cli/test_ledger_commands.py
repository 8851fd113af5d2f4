"""Tests of the commands for the ledger, budgets, caps and disjoint populations."""

RELEASE = "release s --series visits --name"


def everybody(sparsehist):
    """Return the last row of the ledger, which shows the total over all populations."""
    row = sparsehist("ledger s --json").json["ledger"][-1]
    assert row["scope"] == "everybody"
    return row


def test_the_ledger_shows_the_finest_level(sparsehist, store):
    """All releases of a series cost only as much as the finest of them, even after the series is dropped."""
    for name, level in (("a", "0.1"), ("b", "0.5"), ("c", "0.2")):
        assert sparsehist(f"{RELEASE} {name} --level {level}").code == 0
    (shown,) = sparsehist("show s --json").json["series"]
    assert [row["level"] for row in shown["releases"]] == ["0.1", "0.5", "0.2"]
    spent = sparsehist("ledger s --json").json["ledger"]
    assert {(row["level"], row["releases"]) for row in spent} == {("0.5", 3)}
    assert sparsehist("drop s --series visits").code == 2
    assert sparsehist("drop s --series visits --yes").code == 0
    assert sparsehist("show s --json").json["series"] == []
    assert {row["level"] for row in sparsehist("ledger s --json").json["ledger"]} == {"0.5"}


def test_a_budget_refuses_with_3_and_the_ledger_says_so(sparsehist, store):
    """A release that exceeds the budget is refused with exit code 3, and the error states the remaining budget.

    The ledger's events record who requested the release and why it was refused.
    """
    assert sparsehist("limit s --rho 0.5 --who dpo").code == 0
    assert sparsehist(f"{RELEASE} a --level 0.25 --who ann").code == 0
    refused = sparsehist(f"{RELEASE} b --level 0.75 --who bob")
    assert refused.code == 3 and "requested level 0.75" in refused.err
    assert "remaining rho 0.25; the largest level that would fit is 0.5" in refused.err
    shown = sparsehist("ledger s --events").text
    assert all(word in shown for word in ("ex ante", "rho 0.5", "dpo", "bob", "refuse", "remaining"))
    events = sparsehist("ledger s --events --json").json["events"]
    assert [row["who"] for row in events][-3:] == ["dpo", "ann", "bob"]
    raised = sparsehist("limit s --rho 2")
    assert raised.code == 2 and "give --reason" in raised.err
    assert sparsehist("limit s --rho 2 --reason study").code == 0
    assert sparsehist(f"{RELEASE} b --level 0.75").code == 0
    assert "ex post" in sparsehist("ledger s").out


def test_a_cap_is_raised_for_a_reason(sparsehist, store):
    """A cap refuses a finer release until somebody raises the cap and gives a reason.

    The ledger then marks the cap as ex post, because it was changed after a release.
    """
    assert sparsehist(f"{RELEASE} a --level 1").code == 0
    assert sparsehist(f"{RELEASE} b --level 1.5").code == 3
    assert sparsehist("limit s --series visits --cap 0.5 --reason x").code == 2
    assert sparsehist("limit s --series visits --cap 2 --reason more --json").json["status"] == "raised"
    assert sparsehist(f"{RELEASE} b --level 1.5").code == 0
    row = next(row for row in sparsehist("ledger s --json").json["ledger"] if row["scope"] == "series")
    assert (row["cap"], row["standing"]) == ("2", "ex post")


def test_disjoint_populations_do_not_add_up(sparsehist, store, declared):
    """The total cost of two populations is the sum of their costs; if they are declared disjoint, the larger cost."""
    assert sparsehist("create", store, *declared[:-1], "others", "--population", "south").code == 0
    for series, level in (("visits", "0.25"), ("others", "0.5")):
        assert sparsehist(f"release s --series {series} --name a --level {level}").code == 0
    assert everybody(sparsehist)["level"] == "0.75"
    assert sparsehist("limit s --disjoint default --disjoint south --reason countries").code == 0
    assert everybody(sparsehist)["level"] == "0.5"
