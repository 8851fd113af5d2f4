"""`sparsehist run` and `sparsehist sql`: scripts from files and standard input, and the prompt."""

import io
import sys

import pytest

from sparsehist.cli.scripts import is_complete

CREATE = """\
create series visits
    with (unit = user_id, key = url, max_keys = 2, domain = 'strings(max_bytes=8)', cap = 1)
    as select user_id, url from read_parquet('log/*.parquet');
"""


@pytest.fixture
def script(here, log):
    """Write a script that makes a series, releases it and reads the release."""

    def written(*more, create=CREATE):
        text = create + "release public from visits at level $level to 'public.parquet';\n" + "\n".join(more)
        (here / "script.sql").write_text(text, encoding="utf-8")
        return "script.sql"

    return written


def test_a_script_is_run_and_told(sparsehist, script, here):
    """Tables of queries are printed, a release is written, and the ledger is the store's."""
    ran = sparsehist(
        "run", script("select url from visits.public order by url;"), "--store", "s", "--param", "level=0.5"
    )
    assert (ran.code, ran.err) == (0, "")
    assert "created the series visits" in ran.out and "/home" in ran.out and "written to public.parquet" in ran.out
    assert (here / "public.parquet").exists()
    assert sparsehist("ledger", "s", "--json").json["ledger"][0]["level"] == "0.5"


def test_json_is_one_object(sparsehist, script):
    """Machines get every statement with its rows, and every error with its type."""
    name = script("select 1 as n union all select 2 order by n;")
    done = sparsehist("run", name, "--store", "s", "--param", "level=1/3", "--json").json
    assert [one["kind"] for one in done["statements"]] == ["create series", "release", "duckdb"]
    assert done["statements"][1]["metadata"]["level"] == "1/3"
    assert done["statements"][2]["rows"] == [{"n": 1}, {"n": 2}]
    over = sparsehist("run", name, "--store", "s", "--param", "level=7", "--json", "--keep-going")
    assert over.code == 2 and over.err == ""
    kinds = [one.get("error", {}).get("type") for one in over.json["statements"]]
    assert kinds == ["StatementError", "NameTakenError", None]
    assert over.json["error"]["type"] == "StatementError"


def test_mistakes_are_shown_with_their_place_and_nothing_is_run(sparsehist, script, here):
    """All of them, on stderr, with exit code 2; no store is made."""
    wrong = sparsehist("run", script("selec 1;", "release x from visits at lvel 1;"), "--store", "s")
    assert wrong.code == 2 and wrong.out == ""
    assert "line 4, column 37: the parameter $level has no value" in wrong.err
    assert "line 5, column 1" in wrong.err and "line 6, column 26" in wrong.err and "Nothing was run" in wrong.err
    assert not (here / "s").exists()


def test_exit_codes_are_those_of_the_first_failure(sparsehist, script, here):
    """3 for a cap, 4 for a store in use, 2 for the rest; what was committed stays."""
    name = script("release x from visits at level 3;", "select 'never' as reached;")
    refused = sparsehist("run", name, "--store", "s", "--param", "level=1")
    assert refused.code == 3 and "line 5, column 1: requested level 3" in refused.err
    assert "never" not in refused.out and "release public of visits" in refused.out
    import fcntl

    with (here / "s" / "lock").open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert sparsehist("run", name, "--store", "s", "--param", "level=1").code == 4
    assert sparsehist("run", "nosuch.sql").code == 2
    assert sparsehist("run", name, "--param", "level").code == 2
    assert sparsehist("run", name, "--store", ":memory:").code == 2


def test_a_dry_run_makes_nothing(sparsehist, script, here):
    """It says what would be spent."""
    told = sparsehist("run", script(), "--store", "s", "--dry-run", "--param", "level=0.25")
    assert told.code == 0
    assert "line 4: population default: nothing before, rho 0.25 after" in told.out
    assert not (here / "s").exists() and not (here / "public.parquet").exists()


def test_a_script_on_standard_input_needs_no_prompt(sparsehist, store, monkeypatch):
    """`sparsehist sql STORE < script.sql` runs it."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("show series; release a from visits at level 1;"))
    piped = sparsehist("sql", store)
    assert piped.code == 0 and "visits" in piped.out and "release a of visits" in piped.out
    monkeypatch.setattr(sys, "stdin", io.StringIO("select 1 as one"))
    assert sparsehist("run", "-").out.split() == ["one", "─────", "1"]
    in_bytes = "\N{ZERO WIDTH NO-BREAK SPACE}select 'ä' as one".encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(in_bytes), encoding="latin-1"))
    assert sparsehist("run", "-").out.split()[-1] == "ä"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"select '\xff'"), encoding="latin-1"))
    assert "not UTF-8" in sparsehist("run", "-").err
    monkeypatch.setattr(sys, "stdin", io.StringIO(" -- nothing\n"))
    assert (sparsehist("run", "-").code, sparsehist("run", "-").out) == (0, "")
    assert sparsehist("sql").code == 2


def test_readers_query_published_files_without_the_store(sparsehist, store, here, monkeypatch):
    """`sparsehist sql --analyst DIR` sees releases and the public ledger, and cannot write or read files."""
    (here / "published").mkdir()
    out = here / "published" / "a.parquet"
    assert sparsehist("release", store, "--series", "visits", "--name", "a", "--level", 1, "--out", out).code == 0

    def reading(text, *options):
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        return sparsehist("sql", "--analyst", "published", *options)

    read = reading("select count(*) > 0 as there from visits.a; select level from ledger;")
    assert read.code == 0 and "True" in read.out and "1" in read.out
    refused = reading("select 1 as first;\ncopy visits.a to 'b.csv'; select 2")
    assert refused.code == 2 and "first" in refused.out and "line 2, column 1" in refused.err
    assert not (here / "b.csv").exists()
    assert reading("select 'open").code == 2
    assert sparsehist("sql", store, "--analyst", "published").code == 2
    huge = "select repeat('x', 300000000)"
    assert "memory limit of this session" in reading(huge, "--memory-limit", "200MB", "--time-limit", 60).err
    assert "--time-limit is for published files" in sparsehist("sql", store, "--time-limit", 1).err


@pytest.mark.parametrize(
    ("typed", "complete"),
    [
        ("select 1;", True), ("select 1; -- done", True),
        ("select 1", False), ("select ';'", False), ("select 'a;", False), ("select 1; select 2", False),
        ("select $$ ; ", False), ("/* ; ", False),
    ],
)  # fmt: skip
def test_a_statement_ends_with_its_semicolon(typed, complete):
    """One inside quotes or a comment is none."""
    assert is_complete(typed) is complete
