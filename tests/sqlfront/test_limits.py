"""Budgets, caps, disjoint populations and periods in SQL."""

import pytest

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
    assert store.events()["what"].to_list().count("set budget") == 2
    assert "the board agreed" in store.events()["reason"].to_list()
    assert "epsilon 1" in ran("set budget delta 1e-6 epsilon 1 route 'gaussian' for people")[0][0].said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("set budget rho 1 rho 2", "expected FOR population, EPSILON e, DELTA d, ROUTE"),
        ("set budget rho 1 epsilon 1 delta 1e-6", "a budget is either"),
        ("declare disjoint a because 'x'", "two or more"),
        ("declare disjoint a, b", "expected BECAUSE"),
        ("append to s as select 1", "expected STEP or PERIOD"),
        ("append to s period '2026-W12' as select 1 as user_id, 'a' as query", "not a series of periods"),
    ],
)
def test_a_wrong_limit_is_refused(ran, text, said):
    """The reader or the rule that the statement breaks says what is wrong."""
    declared = f"create running series s with ({OPTIONS}, cap = 1) over 5 steps; "
    _, errors = ran((declared if text.startswith("append") else "") + text)
    assert len(errors) == 1 and said in errors[0]


def test_populations_are_declared_disjoint(ran, store):
    """The events keep the reason."""
    outcomes, errors = ran("declare disjoint north, south because 'by country of residence'")
    assert errors == [] and "nobody is in two of north, south" in outcomes[0].said
    assert store.events()["reason"].to_list()[-1] == "by country of residence"


def test_a_cap_is_raised_and_never_lowered(ran, store):
    """The events keep the reason."""
    outcomes, errors = ran(f"{CREATE}; set cap queries at level 3 because 'more is needed'")
    assert errors == [] and outcomes[1].said == "the cap of the series queries is 3 from now on"
    assert store.events()["reason"].to_list()[-1] == "more is needed"
    assert "can only be raised" in ran("set cap queries at level 1/2 because 'less'")[1][0]
    assert "there is no series" in ran("set cap t at level 1 because 'x'")[1][0]


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
    assert "visits_2026w12 is not a running series" in ran(f"append to visits_2026w12 step 1 as {query}")[1][0]
