"""An analyst session limits memory and time, and another thread can interrupt its statements."""

import threading
import time

import polars as pl
import pytest

import sparsehist as sh
from sparsehist.errors import InputError, StatementError
from sparsehist.sqlfront.analyst import AnalystSession

ENDLESS = "select count(*) from range(1_000_000) a, range(1_000_000) b where a.range * b.range % 7 = 3"
ENDLESS_ROWS = "select a.range as x, b.range as y from range(1_000_000) a, range(1_000_000) b where a.range % 7 = 3"
ROWS = pl.DataFrame({"query": [f"word {i}" for i in range(1000)], "noisy_count": [float(i) for i in range(1000)]})
LEDGER = pl.DataFrame({"store": ["a"], "series": ["queries"], "release": ["public"]})


def session(**limits):
    """Return an analyst session on one release."""
    return AnalystSession([sh.Release(ROWS, {"series": "queries", "name": "public"})], LEDGER, **limits)


@pytest.fixture
def analyst():
    """Open an analyst session with a memory limit of 200 MB and a time limit of two minutes."""
    with session(memory_limit="200MB", threads=2, time_limit=120) as opened:
        yield opened


def answers(analyst):
    """Return whether the analyst session still answers queries correctly."""
    return analyst.sql("select sum(noisy_count) from queries.public").item() == ROWS["noisy_count"].sum()


@pytest.mark.parametrize(
    "query",
    [
        "from range(60_000_000)",
        "select repeat('x', 900) || i from range(300_000) t(i)",
        "select array_agg(i) from range(500000000) t(i)",
    ],
)
def test_the_memory_limit_bounds_queries_and_results(analyst, query):
    """The memory limit of an analyst session stops large queries and results, and the session remains usable."""
    with pytest.raises(StatementError, match=r"memory limit of this session, 190\.7 MiB"):
        analyst.sql(query)
    assert analyst.sql("select range::int as i from range(5_000_000)")["i"].to_list()[-1] == 4_999_999
    assert answers(analyst)


@pytest.mark.parametrize("query", [ENDLESS, ENDLESS_ROWS])
def test_a_statement_is_stopped_at_the_time_limit(query):
    """A statement of an analyst session is interrupted at the time limit, and the session remains usable."""
    with session(time_limit=1) as analyst:
        start = time.monotonic()
        with pytest.raises(StatementError, match=r"longer than the time limit of 1 s$|memory limit"):
            analyst.sql(query)
        assert time.monotonic() - start < 15
        assert answers(analyst)
    with pytest.raises(InputError, match="time_limit must be"):
        session(time_limit=0)


def test_a_statement_can_be_stopped(analyst):
    """Another thread can interrupt a statement. The session can then run further statements until it is closed."""
    timer, begun = threading.Timer(0.5, analyst.interrupt), time.monotonic()
    timer.start()
    with pytest.raises(StatementError):
        analyst.sql(ENDLESS)
    assert time.monotonic() - begun < 20
    timer.join()
    assert answers(analyst)
    analyst.close()
    with pytest.raises(StatementError, match="closed"):
        analyst.sql("select 1")
