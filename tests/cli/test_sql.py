"""`sparsehist run` and `sparsehist sql` run SQL from files, from standard input and from a prompt."""

import fcntl
import io
import sys

import pytest

SCRIPT = """\
create series visits
    with (unit = user_id, key = url, max_keys = 2, domain = 'strings(max_bytes=8)', cap = 1)
    as select user_id, url from read_parquet('log/*.parquet');
release public from visits at level $level to 'public.parquet';
"""


@pytest.fixture
def script(here, log):
    """Return a function that writes an SQL script and returns the command that runs it."""

    def written(more=""):
        (here / "script.sql").write_text(SCRIPT + more, encoding="utf-8")
        return "run script.sql --store s"

    return written


@pytest.fixture
def typed(monkeypatch):
    """Return a function that supplies text or bytes as standard input."""

    def put(text):
        stream = io.StringIO(text) if isinstance(text, str) else io.TextIOWrapper(io.BytesIO(text), "latin-1")
        monkeypatch.setattr(sys, "stdin", stream)

    return put


def test_a_script_prints_tables_or_one_object(sparsehist, script, here):
    """Each statement of a script prints its result as a table, or as an entry of one JSON object with --json."""
    words = script("select url from visits.public order by url;") + " --param level="
    ran = sparsehist(f"{words}1/3")
    assert (ran.code, ran.err) == (0, "")
    assert "created the series visits" in ran.out and "/home" in ran.out and "written to public.parquet" in ran.out
    assert (here / "public.parquet").exists()
    over = sparsehist(f"{words}7 --json --keep-going")
    assert over.code == 2 and over.err == ""
    failed, repeated, rows = over.json["statements"]
    assert [one.get("error", {}).get("type") for one in (failed, repeated, rows)] == [
        "StatementError", "NameTakenError", None,
    ]  # fmt: skip
    assert rows["kind"] == "duckdb" and {"url": "/home"} in rows["rows"]
    assert over.json["error"]["type"] == "StatementError"


def test_mistakes_are_shown_with_their_place_and_nothing_is_run(sparsehist, script, here):
    """All errors of a script are printed on stderr with line and column, and nothing is run."""
    wrong = sparsehist(script("selec 1;\nrelease x from visits at lvel 1;"))
    assert wrong.code == 2 and wrong.out == ""
    assert "line 4, column 37: the parameter $level has no value" in wrong.err
    assert "line 5, column 1" in wrong.err and "line 6, column 26" in wrong.err and "Nothing was run" in wrong.err
    assert not (here / "s").exists()


def test_exit_codes_are_those_of_the_first_failure(sparsehist, script, here):
    """The first failure sets the exit code, and releases that are already committed remain.

    The exit code is 3 if a cap refuses the release, 4 if the store is in use, and 2 otherwise.
    """
    words = script("release x from visits at level 3; select 'never' as reached;")
    refused = sparsehist(f"{words} --param level=1")
    assert refused.code == 3 and "line 5, column 1: requested level 3" in refused.err
    assert "never" not in refused.out and "release public of visits" in refused.out
    with (here / "s" / "lock").open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert sparsehist(f"{words} --param level=1").code == 4
        assert "--wait" in sparsehist("ledger s").err
    for wrong in ("run nosuch.sql", "run script.sql --param level", "run script.sql --store :memory:"):
        assert sparsehist(wrong).code == 2


def test_a_dry_run_makes_nothing(sparsehist, script, here):
    """`--dry-run` shows what a script would spend, without creating a store or any file."""
    planned = sparsehist(script() + " --dry-run --param level=0.25")
    assert planned.code == 0
    assert "line 4: population default: nothing before, rho 0.25 after" in planned.out
    assert not (here / "s").exists() and not (here / "public.parquet").exists()


def test_a_script_on_standard_input_needs_no_prompt(sparsehist, store, typed):
    """`sparsehist sql STORE < script.sql` runs the script, and reads UTF-8 in any locale."""
    typed("show series; release a from visits at level 1;")
    piped = sparsehist("sql s")
    assert piped.code == 0 and "release a of visits" in piped.out
    typed("\N{ZERO WIDTH NO-BREAK SPACE}select 'ä' as one".encode())
    assert sparsehist("run -").out.split()[-1] == "ä"
    typed(b"select '\xff'")
    assert "not UTF-8" in sparsehist("run -").err
    typed(" -- nothing\n")
    assert sparsehist("run -").out == ""


def test_readers_query_published_files_without_the_store(sparsehist, store, here, typed):
    """`sparsehist sql --analyst DIR` queries releases and the public ledger, and writes no file."""
    (here / "published").mkdir()
    assert sparsehist("release s --series visits --name a --level 1 --out published/a.parquet").code == 0
    reading = "sql --analyst published"
    typed("select count(*) > 0 as there from visits.a; select level from ledger;")
    read = sparsehist(reading)
    assert read.code == 0 and "True" in read.out and "1" in read.out
    typed("select 1 as first;\ncopy visits.a to 'b.csv'; select 2")
    refused = sparsehist(reading)
    assert refused.code == 2 and "first" in refused.out and "line 2, column 1" in refused.err
    assert not (here / "b.csv").exists()
    typed("select repeat('x', 300000000)")
    assert "memory limit" in sparsehist(f"{reading} --memory-limit 200MB --time-limit 60").err
    for wrong in ("sql", "sql s --analyst published", "sql s --time-limit 1"):
        assert sparsehist(wrong).code == 2
