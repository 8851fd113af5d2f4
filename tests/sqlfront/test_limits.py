"""Budgets, caps, disjoint populations and periods in SQL."""

from tests.sqlfront.conftest import CREATE, OPTIONS


def test_a_budget_is_set_and_holds(ran, store):
    """A release beyond the budget is refused; raising the budget needs a reason, which the ledger keeps."""
    outcomes, errors = ran(
        f"set budget rho 1/2; {CREATE} release a from queries at level 0.4; release b from queries at level 0.6"
    )
    assert outcomes[0].said == "the budget of population default is rho 0.5 (rho up to 0.5)"
    assert len(errors) == 1 and "budget" in errors[0]
    assert "reason" in ran("set budget rho 2")[1][0]
    _, errors = ran("set budget for default rho 2 because 'the board agreed'; release b from queries at level 0.6")
    assert errors == []
    assert "the board agreed" in store.events()["reason"].to_list()


def test_periods_are_declared_and_appended(ran, store):
    """Each period is a series of its own, whose query is checked like any other."""
    query = "select user_id, query from log"
    outcomes, errors = ran(
        f"create series visits with ({OPTIONS}, every = 'week'); append to visits period '2026-W12' as {query};"
        "release a from visits_2026w12 at level 1 threshold 30; select count(*) as n from visits_2026w12.a"
    )
    assert errors == [] and outcomes[-1].frame["n"].item() > 0
    assert store.series("visits").appended() == ["2026-W12"]
    _, errors = ran(f"append to visits period '2026-W13' as {query} limit 3")
    assert len(errors) == 1 and "LIMIT" in errors[0]
