"""The process an analyst's queries run in: what it may take, how it is stopped, that it ends with its session."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import polars as pl
import pytest

import sparsehist as sh
from sparsehist.errors import InputError, NotAllowedError, StatementError
from sparsehist.sqlfront.analyst import AnalystSession
from tests.sqlfront.huge_values import HUGE

ENDLESS = "select count(*) from range(1_000_000) a, range(1_000_000) b where a.range * b.range % 7 = 3"
ENDLESS_ROWS = "select a.range as x, b.range as y from range(1_000_000) a, range(1_000_000) b"
ROWS = pl.DataFrame({"query": [f"word {i}" for i in range(1000)], "noisy_count": [float(i) for i in range(1000)]})
LEDGER = pl.DataFrame({"store": ["a"], "series": ["queries"], "release": ["public"]})


def session(**limits):
    """A session over one release."""
    return AnalystSession([sh.Release(ROWS, {"series": "queries", "name": "public"})], LEDGER, **limits)


@pytest.fixture
def analyst():
    """A session of 200 MB with a table of the reader's own; a statement that nothing else stops ends by itself."""
    with session(memory_limit="200MB", threads=2, time_limit=120) as opened:
        opened.sql("create temp table mine as select 1 as x")
        yield opened


def process_of(analyst):
    """The number of the process that answers."""
    return analyst._process._process.pid


def whole(analyst):
    """The releases and the reader's own table answer as before."""
    total = analyst.sql("select sum(noisy_count) from queries.public").item()
    return total == ROWS["noisy_count"].sum() and analyst.sql("select x from mine").item() == 1


def megabytes(process, what):
    """What the system says a process takes."""
    found = [line for line in Path(f"/proc/{process}/status").read_text().splitlines() if line.startswith(what)]
    return int(found[0].split()[1]) / 1024


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not bound memory")
def test_no_query_takes_more_memory_than_was_declared(analyst):
    """One value or many: refused as too large, within the limit in both processes, and the session goes on."""
    child = process_of(analyst)
    mapped, here = megabytes(child, "VmData"), megabytes("self", "VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # peaks are measured from here on
    assert mapped < 330, "the base of docs/sql.md"
    let_through = {}
    for query in HUGE:
        try:
            let_through[query] = analyst.sql(query).shape
        except StatementError as refused:
            if "memory limit of this session, 190.7 MiB" not in str(refused):
                let_through[query] = str(refused)
    assert let_through == {}
    assert len(set(HUGE)) >= 45
    assert process_of(analyst) == child
    assert megabytes(child, "VmHWM") < mapped + 191 + 64
    assert megabytes("self", "VmHWM") < here + 191
    assert whole(analyst)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not bound memory")
def test_what_fits_comes_and_takes_its_room_once(analyst):
    """The reader's process takes what 130 MB of rows take, and little more; a large value comes, too."""
    analyst.sql("select 1")
    Path("/proc/self/clear_refs").write_text("5")
    before = megabytes("self", "VmRSS")
    frame = analyst.sql("select repeat('x', 90) || i from range(1_400_000) t(i)")
    assert megabytes("self", "VmHWM") - before < frame.estimated_size("mb") + 40
    assert frame.height == 1_400_000
    assert frame.to_series()[-1] == "x" * 90 + "1399999"
    assert len(analyst.sql("select repeat('x', 20_000_000)").item()) == 20_000_000


def test_a_statement_takes_no_more_time_than_was_declared():
    """It is stopped, and what is the reader's own stays; where it does not stop, it is killed and that is said."""
    with session(time_limit=2) as analyst:
        analyst.sql("create temp table mine as select 1 as x")
        with pytest.raises(StatementError, match=r"longer than the time limit of 2 s$"):
            analyst.sql(ENDLESS)
        assert whole(analyst)
        os.kill(process_of(analyst), signal.SIGSTOP)
        with pytest.raises(StatementError, match=r"2 s; tables and views of your own are gone"):
            analyst.sql("select 1")
        with pytest.raises(NotAllowedError, match="no table mine"):
            analyst.sql("from mine")
        analyst.sql("create temp table mine as select 1 as x")
        assert whole(analyst)
    with pytest.raises(InputError, match="time_limit is in seconds"):
        session(time_limit=0)


@pytest.mark.parametrize("how", ["interrupt", "ctrl-c"])
def test_a_statement_can_be_stopped(analyst, how):
    """From another thread, or by Ctrl-C, which leaves no half an answer for the next statement."""

    def stop():
        if how == "interrupt":
            analyst.interrupt()
        else:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever ran before in this process
    timer = threading.Timer(0.5, stop)
    timer.start()
    with pytest.raises(
        StatementError if how == "interrupt" else KeyboardInterrupt, match="INTERRUPT" if how == "interrupt" else None
    ):
        analyst.sql(ENDLESS)
    timer.join()
    signal.signal(signal.SIGINT, before)
    assert whole(analyst)


def test_a_process_that_dies_is_replaced(analyst):
    """Killed by the system while a statement runs: an error that says what is gone, and the next statement runs."""
    timer = threading.Timer(0.5, lambda: os.kill(process_of(analyst), signal.SIGKILL))
    timer.start()
    with pytest.raises(StatementError, match="of your own are gone, the releases are there"):
        analyst.sql(ENDLESS)
    timer.join()
    assert analyst.sql("select count(*) from queries.public").item() == 1000
    os.kill(process_of(analyst), signal.SIGKILL)
    analyst._process._process.wait()
    assert analyst.sql("select count(*) from queries.public").item() == 1000


def gone(process):
    """Whether a process ends within some seconds; one that nobody waited for is gone, too."""
    for _ in range(100):
        try:
            if Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.1)
    return False


ORPHAN = """
import os, polars as pl, time
from sparsehist.sqlfront.analyst import AnalystSession
analyst = AnalystSession([], pl.DataFrame({"store": ["a"]}))
analyst.sql("select 1")
fork = os.fork() if %r else -1
if fork == 0:
    time.sleep(60)
    os._exit(0)
print(analyst._process._process.pid, fork, flush=True)
analyst.sql(%r)
"""


@pytest.mark.parametrize("forks", [False, True], ids=["alone", "a fork holds the pipe"])
@pytest.mark.parametrize("query", [ENDLESS, ENDLESS_ROWS], ids=["silent", "rows"])
def test_it_ends_with_its_reader(query, forks):
    """When the process of the reader is killed in the middle of a query, though a fork of it may hold its pipe."""
    with subprocess.Popen([sys.executable, "-c", ORPHAN % (forks, query)], stdout=subprocess.PIPE) as reader:
        child, fork = map(int, reader.stdout.readline().split())
        time.sleep(0.5)
        reader.kill()
        try:
            assert gone(child)
        finally:
            if fork > 0:
                os.kill(fork, signal.SIGKILL)


def test_it_ends_with_its_session(analyst):
    """When the session is closed."""
    child = process_of(analyst)
    analyst.close()
    assert not Path(f"/proc/{child}").exists()
    with pytest.raises(StatementError, match="closed"):
        analyst.sql("select 1")


def test_a_fork_is_refused(analyst):
    """Two that read one pipe would get each other's rows; a fork that ends leaves the session as it is."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            analyst.sql("select 1")
        except StatementError:
            analyst.close()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert whole(analyst)


def test_it_inherits_neither_files_nor_a_way_to_write_them(analyst, tmp_path):
    """The engine's process has its pipe and nothing else open, and stands in a session of its own."""
    with (tmp_path / "secret").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        with session() as other:
            other.sql("select 1")
            child = process_of(other)
            targets = {str(path.readlink()) for path in Path(f"/proc/{child}/fd").iterdir()}
            assert os.getsid(child) == child
    assert not [target for target in targets if "secret" in target]


@pytest.mark.parametrize(
    "query",
    [
        "select 'a'::enum ('a', 'b') as e union all select 'b'::enum ('a', 'b')",
        "select null as n, [1, 2] as l, {'a': 1, 'b': 'x'} as s, map {'k': 1} as m",
        "select 1::decimal(38, 3) as d, date '2026-01-31' as t, timestamptz '2026-01-31 12:00:00+00' as z",
        "select 1::hugeint as h, 'x'::blob as b, uuid() is null as u, true as w",
        "select i, i::text as t, case when i % 3 = 0 then i::float end as f from range(200_000) t(i)",
        "select * from queries.public where false",
    ],
)
def test_types_come_through_the_pipe(analyst, query):
    """As DuckDB gives them in one process."""
    import duckdb

    with duckdb.connect(":memory:") as plain:
        plain.execute("create schema queries")
        plain.register("rows_of_release", ROWS)
        plain.execute("create table queries.public as select * from rows_of_release")
        expected = pl.DataFrame(plain.sql(query).to_arrow_table())
    with pytest.raises(StatementError, match="cannot be a frame"):
        analyst.sql("select interval 1 hour")
    found = analyst.sql(query)
    assert found.schema == expected.schema
    assert found.equals(expected)
