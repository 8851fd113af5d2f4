"""A script is checked as a whole before it runs, and stops at its first error unless keep_going is set."""

import polars as pl
import pytest

import sparsehist as sh
from sparsehist.sqlfront.session import Session, run_script
from tests.sqlfront.conftest import OPTIONS

# 50 statements that work: 10 tables, 10 views, 5 series, 15 releases, 10 queries.
GOOD = [
    *(f"create table t{i} as select {i} as n, 'a;b' as \"x;{i}\"" for i in range(10)),
    *(f"create view v{i} as select user_id, query from log where query <> 'bus {i}' /* ; {i} */" for i in range(10)),
    *(f"create series s{i} with ({OPTIONS}, cap = 1) as select * from v{i}" for i in range(5)),
    *(f"release r{j} from s{i} at level 0.{j + 1}" for i in range(5) for j in range(3)),
    *(f"select count(*) as n from s{i}.r{i % 3}" for i in range(5)),
    *(f"select n from t{i}" for i in range(5)),
]
# Errors that are found before a script runs, as {index: (statement, part of the error message)}.
# In `_script`, each of these wrong statements replaces the statement at its index in `GOOD`.
WRONG = {
    3: ("creat table t3 as select 1", "syntax error"),
    12: ("create view v2 as select 'unknown $p', $nothing", "has no value"),
    22: (f"create series s2 with ({OPTIONS.replace('max_keys = 3', 'max_keys = many')}) as from v2", "max_keys"),
    30: ("release r2 from s1 at level 0", "positive"),
    33: ("release r2 from s9 at level 0.1", "no series s9"),
    38: ("release r1 from s4 at lvel 0.2", "expected LEVEL"),
    49: ("select n frm t4 x y", "syntax error"),
}
# Errors that are found only when a script runs, as {index: (statement, part of the error message)}.
# In `_script`, each of these failing statements replaces the statement at its index in `GOOD`.
FAILING = {
    7: ("create table t1 as select 1", "already exists"),
    21: (f"create series s1 with ({OPTIONS}, cap = 1) as select * from v1 limit 5", "LIMIT"),
    26: ("release r1 from s0 at level 2", "series cap"),
    44: ("select n from t4, nowhere", "does not exist"),
}


def _script(*planted):
    statements = dict(enumerate(GOOD))
    for some in planted:
        statements |= {place: text for place, (text, _) in some.items()}
    return ";\n".join(statements.values())


def _level(store):
    """Return the total level that the ledger shows for each population."""
    return store.ledger(full=True).filter(scope="population")["level"].to_list()


def test_fifty_statements_run_in_order(store, session):
    """Every statement of a script runs once, in order, and its outcome has the statement's number and line."""
    outcomes = run_script(session, _script())
    assert [outcome.number for outcome in outcomes] == list(range(1, 51))
    assert [outcome.line for outcome in outcomes] == list(range(1, 51))
    assert not any(outcome.error for outcome in outcomes)
    assert _level(store) == ["1.5"]
    assert outcomes[-1].frame["n"].to_list() == [4]


def test_nothing_runs_where_anything_is_wrong(store, session):
    """All errors in a script are reported at once, each with its line, and no statement runs."""
    outcomes = run_script(session, _script(WRONG, FAILING))
    wrong = WRONG | dict.fromkeys((31, 32), ("", "no series s2"))  # releases of series s2, which cannot be created
    assert [outcome.number - 1 for outcome in outcomes] == sorted(wrong)
    for outcome in outcomes:
        said = wrong[outcome.number - 1][1]
        assert said in str(outcome.error) and f"line {outcome.number}, column" in str(outcome.error)
    assert store.series_names() == []
    assert session.connection.sql("show tables").fetchall() == [("log",)]


def test_keep_going_runs_all_that_can_run(store, session):
    """With keep_going, an error stops only the wrong statement and the statements that depend on it."""
    outcomes = run_script(session, _script(WRONG, FAILING), keep_going=True)
    assert [outcome.number for outcome in outcomes] == list(range(1, 51))
    failed = {outcome.number - 1 for outcome in outcomes if outcome.error is not None}
    # Without series s1 and s2 and table t3, the releases and queries that need them fail too.
    assert failed == {*WRONG, *FAILING, 28, 29, 31, 32, 41, 42, 48}
    for place, (_, said) in {**WRONG, **FAILING}.items():
        assert said in str(outcomes[place].error), place
    assert store.series_names() == ["s0", "s3", "s4"]
    assert _level(store) == ["0.9"]


def test_a_dry_run_says_what_would_be_spent(store, session):
    """A dry run states the cost before and after each release, and changes neither store nor session."""
    outcomes = run_script(session, _script(), dry_run=True)
    assert "nothing before, rho 0.1 after" in outcomes[25].message
    assert "rho 1.4 before, rho 1.5 after" in outcomes[39].message
    assert store.ledger(full=True).is_empty() and session.connection.sql("show tables").fetchall() == [("log",)]
    run_script(session, _script())
    foreseen = run_script(session, "release r1 from s0 at level 0.2; release x from s0 at level 0.7", dry_run=True)
    assert [outcome.message for outcome in foreseen] == [
        "was made before; spends nothing",
        "population default: rho 1.5 before, rho 1.9 after",
    ]
    assert _level(store) == ["1.5"]


EVERY_KIND = """
create series cells with (unit = u, key = k, max_keys = 2, domain = 'strings(max_bytes=8)', cap = 2)
    as select u, k from log;
create series opened with (unit = u, key = k, max_keys = 2, domain = 'open(delta=''1e-6'')')
    as select u, k from log;
create series hours with (unit = u, key = h, max_keys = 2, domain = 'integers(24)') as select u, h from log;
release a from cells at level 0.1;
release a from opened at level 0.2 open delta 1e-7;
release b from opened at level 0.1 threshold 60;
release w from cells at level 0.1 open delta 1e-7;
release w from cells at level 0.001 threshold 0;
release w from hours at level 0.3 using 'ranges()';
release w2 from hours using 'ranges()' at level 0.2;
release p from hours using 'prefix()' at level 0.1 strategy 'square_root';
release t from opened at level 1 using 'total()';
release c from opened at level 0.2 open delta 1e-6;
"""


def test_a_dry_run_foresees_workloads_and_open_domains():
    """For workloads and open domains, a dry run refuses what a real run refuses and predicts the same costs."""
    people = range(600)
    log = pl.DataFrame({"u": people, "k": [f"k{i % 3}" for i in people], "h": [i % 24 for i in people]})
    with sh.open(":memory:", seed=3) as store, Session(store, tables={"log": log}) as session:
        foreseen = run_script(session, EVERY_KIND, dry_run=True, keep_going=True)
        ran = run_script(session, EVERY_KIND, keep_going=True)
        ledger = store.ledger(full=True)
    refused = {outcome.number: type(outcome.error) for outcome in ran if outcome.error is not None}
    assert list(refused) == [7, 8, 12, 13]
    assert {each.number: type(each.error) for each in foreseen if each.error is not None} == refused
    (level,) = ledger.filter(scope="population")["level"]
    assert f"rho {level} after" in foreseen[10].message


def test_a_dry_run_counts_periods_that_were_dropped(store, session):
    """In a dry run, as in a real run, a unit's dropped periods still count towards the limit of periods."""
    weeks = sh.create(
        store, name="v", unit="user_id", key="query", max_keys=1, domain=sh.Strings(max_bytes=8),
        every=sh.Every("week", protects="user-week", most_periods=2, budget="0.1"),
    )  # fmt: skip
    for week in ("2026-W11", "2026-W12", "2026-W13"):
        weeks.append(pl.DataFrame({"user_id": range(50), "query": "a"}), period=week)
    releases = (f"release r from v_2026w{n} at level 0.1 expecting 0.01 false keys" for n in (12, 13))
    script = "; ".join(["drop series v_2026w11", *releases])
    foreseen, done = (run_script(session, script, dry_run=dry) for dry in (True, False))
    assert [str(outcome.error) for outcome in foreseen] == [str(outcome.error) for outcome in done]
    assert foreseen[-1].error is not None
    # If a released period is dropped, DROP SERIES says that nothing more can be added to the series.
    ended = "nothing more can be added to v"
    assert not any(ended in outcome.message for outcome in (foreseen[0], done[0]))
    for dry in (True, False):
        (dropped,) = run_script(session, "drop series v_2026w12", dry_run=dry)
        assert ended in dropped.message
    with pytest.raises(sh.errors.RefusedError, match="nothing more can be added"):
        weeks.append(pl.DataFrame({"user_id": range(50), "query": "a"}), period="2026-W14")


CHOOSE = (
    "choose keys found with (unit = user_id, key = query, most_keys = 3, delta = 1e-6) at level 0.5 as from log; "
)


def test_a_dry_run_adds_what_choosing_keys_spends(store, session):
    """A dry run adds the cost of CHOOSE KEYS to the costs of later releases and charges it to the budget."""
    script = f"{CHOOSE} {CHOOSE} create series s0 with ({OPTIONS}) as from log; release a from s0 at level 0.2"
    outcomes = run_script(session, script, dry_run=True)
    assert outcomes[0].message == "population default: nothing before, rho 0.5 after"
    assert outcomes[1].message == "population default: rho 0.5 before, rho 0.5 after"
    assert "rho 0.5 before, rho 0.7 after" in outcomes[3].message
    assert not any(outcome.error for outcome in run_script(session, script))
    assert _level(store) == ["0.7"]
    store.set_budget(rho=1)
    (outcome,) = run_script(session, CHOOSE.replace("found", "other"), dry_run=True)
    assert outcome.message == "would be refused" and outcome.error.exit_code == 3


LIMITS = f"""
set budget rho 1/2;
create series s with ({OPTIONS}, cap = 0.3) as from log;
release a from s at level 0.2;
release b from s at level 0.4;
set budget rho 0.25;
release c from s at level 0.3;
set budget rho 2;
set budget rho 2 because 'the board agreed';
release c from s at level 0.3;
create series weeks with ({OPTIONS}, every = $$every('week', periods=2, budget='0.1')$$);
append to weeks period '2026-W12' as select user_id, query from log;
release a from weeks_2026w12 at level 0.2 threshold 30;
release b from weeks_2026w12 at level 0.04;
"""


def test_a_dry_run_foresees_budgets_caps_and_periods(store, session):
    """A dry run with budgets, caps and periods refuses the same statements as a real run."""
    foreseen, done = (run_script(session, LIMITS, keep_going=True, dry_run=dry) for dry in (True, False))
    refused = {outcome.number: str(outcome.error) for outcome in done if outcome.error is not None}
    assert list(refused) == [4, 6, 7, 12]
    assert {each.number: str(each.error) for each in foreseen if each.error is not None} == refused
    assert "the board agreed" in store.events()["reason"].to_list()
    assert store.series("weeks").appended() == ["2026-W12"]
    (level,) = store.ledger(full=True).filter(scope="population", population="default")["level"]
    assert f"rho {level} after" in foreseen[8].message
