"""Budgets, disjoint populations and periods in SQL."""

import pytest

from tests.sqlfront.conftest import OPTIONS

CREATE = f"create series s with ({OPTIONS}, cap = 50) as select user_id, query from log;"


def test_a_budget_is_set_and_holds(ran, store):
    """A release beyond it is refused; raising it needs a reason, which the ledger keeps."""
    outcomes, errors = ran(
        f"set budget rho 1/2; {CREATE} release a from s at level 0.4; release b from s at level 0.6"
    )
    assert outcomes[0].said == "the budget of population default is rho 0.5 (rho up to 0.5)"
    assert len(errors) == 1 and "budget" in errors[0]
    _, errors = ran("set budget rho 2")
    assert len(errors) == 1 and "reason" in errors[0]
    _, errors = ran("set budget for default rho 2 because 'the board agreed'; release b from s at level 0.6")
    assert errors == []
    assert store.events()["what"].to_list().count("set budget") == 2
    assert "the board agreed" in store.events()["reason"].to_list()


@pytest.mark.parametrize("clauses", ["epsilon 1 delta 1e-6", "delta 1e-6 epsilon 1 route 'gaussian' for people"])
def test_an_epsilon_and_its_delta(ran, clauses):
    """Clauses stand in any order."""
    outcomes, errors = ran(f"set budget {clauses}")
    assert errors == [] and "epsilon 1" in outcomes[0].said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("set budget rho 1 rho 2", "expected FOR population, EPSILON e, DELTA d, ROUTE"),
        ("set budget", "a budget is either"),
        ("set budget rho 1 epsilon 1 delta 1e-6", "a budget is either"),
        ("declare disjoint a because 'x'", "two or more"),
        ("declare disjoint a, b", "expected BECAUSE"),
        ("append to s as select 1", "expected STEP or PERIOD"),
        ("append to s period '2026-W12' as select 1 as user_id, 'a' as query", "not a series of periods"),
    ],
)
def test_what_is_wrong_is_said(ran, text, said):
    """By the reader, or by the rule that it breaks."""
    declared = f"create running series s with ({OPTIONS.replace(', bounding', '')}, cap = 1) over 5 steps; "
    _, errors = ran((declared if text.startswith("append") else "") + text)
    assert len(errors) == 1 and said in errors[0]


def test_populations_are_declared_disjoint(ran, store):
    """Who and why stand in the events."""
    outcomes, errors = ran("declare disjoint north, south because 'by country of residence'")
    assert errors == [] and "nobody is in two of north, south" in outcomes[0].said
    assert store.events()["reason"].to_list()[-1] == "by country of residence"


def test_a_cap_is_raised(ran, store):
    """For a reason that stands in the events; it is never lowered."""
    made = f"create series s with ({OPTIONS}, cap = 1) as from log"
    outcomes, errors = ran(f"{made}; set cap s at level 2 because 'more is needed'")
    assert errors == [] and outcomes[1].said == "the cap of the series s is 2 from now on"
    assert store.events()["reason"].to_list()[-1] == "more is needed"
    _, errors = ran("set cap s at level 1/2 because 'less'")
    assert len(errors) == 1 and "can only be raised" in errors[0]
    assert "there is no series" in ran("set cap t at level 1 because 'x'")[1][0]


def test_periods_are_declared_and_appended(ran, store):
    """Each period is a series of its own, whose query is checked like any other."""
    declared = f"create series visits with ({OPTIONS}, every = 'week')"
    query = "select user_id, query from log"
    outcomes, errors = ran(
        f"{declared}; append to visits period '2026-W12' as {query};"
        "release a from visits_2026w12 at level 1 threshold 30; select count(*) as n from visits_2026w12.a"
    )
    assert errors == []
    assert outcomes[-1].frame["n"].item() > 0
    assert store.series("visits").appended() == ["2026-W12"]
    _, errors = ran(f"append to visits period '2026-W13' as {query} limit 3")
    assert len(errors) == 1 and "LIMIT" in errors[0]
    broken = f"create running series s with ({OPTIONS}, noise = none) over 5 steps; append to s step 1 as {query}"
    outcomes, errors = ran(f"{broken}; append to visits_2026w12 step 1 as {query}", keep_going=True)
    assert len(errors) == 3 and "neither a running series nor one of periods" in errors[1]
    assert "visits_2026w12 is not a running series" in errors[2]
