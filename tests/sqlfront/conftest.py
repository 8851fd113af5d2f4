"""Fixtures for tests of SQL: a small log, and sessions on a store in memory."""

import polars as pl
import pytest

import sparsehist as sh
from sparsehist.sqlfront.session import Session, run_script

OPTIONS = "unit = user_id, key = query, max_keys = 3, domain = 'strings(max_bytes=16)'"
CREATE = f"create series queries with ({OPTIONS}, cap = 2) as select user_id, query from log;"
SECRET_KEY, SECRET_UNIT = "zzsecretkey", "zzsecretunit"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Change to a temporary working directory, and return it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def log():
    """Return a log of 900 units with two queries each, and of one unit whose query no other unit has."""
    rows = [(f"u{i}", query) for i in range(900) for query in ("weather", f"bus {i % 5}")]
    return pl.DataFrame([*rows, (SECRET_UNIT, SECRET_KEY)], schema=["user_id", "query"], orient="row")


@pytest.fixture
def store():
    """Open a store in memory."""
    with sh.open(":memory:", seed=5) as opened:
        yield opened


@pytest.fixture
def session(store, log):
    """Open an SQL session on the store, in which the log is a table."""
    with Session(store, tables={"log": log}) as opened:
        yield opened


@pytest.fixture
def ran(session):
    """Return a function that runs a script in the session and returns the outcomes and the error messages."""

    def run(script, **how):
        outcomes = run_script(session, script, **how)
        return outcomes, [str(outcome.error) for outcome in outcomes if outcome.error is not None]

    return run
