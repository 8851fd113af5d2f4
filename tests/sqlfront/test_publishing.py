"""Where RELEASE … TO may write, and what may lie there already."""

import os

import polars as pl
import pytest

import sparsehist as sh
from tests.sqlfront.conftest import OPTIONS

CREATE = f"create series queries with ({OPTIONS}, population = 'people') as select user_id, query from log;"
RELEASE = "release {name} from queries at level {level} expecting 1 false keys to '{file}';"


def test_no_file_that_is_something_else_is_replaced(ran, here, store):
    """A file that is no release, or another one, stays as it is, by links too; nothing is drawn for it."""
    ran(CREATE + RELEASE.format(name="first", level=1, file="first.parquet"))
    before = (here / "first.parquet").read_bytes()
    (here / "text.parquet").write_text("mine")
    pl.DataFrame({"a": [1]}).write_parquet(here / "other.parquet")
    os.link(here / "first.parquet", here / "hard.parquet")
    (here / "soft.parquet").symlink_to("first.parquet")
    (here / "nowhere.parquet").symlink_to("/nonexistent/x.parquet")
    os.mkfifo(here / "pipe.parquet")
    for file in ("first", "./first", "text", "other", "hard", "soft", "nowhere", "pipe"):
        _, problems = ran(RELEASE.format(name="second", level=2, file=f"{file}.parquet"))
        assert len(problems) == 1
        assert "exists and is not this release" in problems[0], file
    assert store.series("queries").releases()["name"].to_list() == ["first"]
    assert (here / "first.parquet").read_bytes() == (here / "hard.parquet").read_bytes() == before
    assert ran("release first from queries to 'again.parquet'")[1] == []
    assert sh.read("first.parquet").frame.equals(sh.read("again.parquet").frame)
    assert (here / "text.parquet").read_text() == "mine"


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_file_of_a_series_that_was_dropped_is_no_place_for_its_successor(ran, here, store, ending):
    """The same names, another release: it is refused before it is drawn, and nothing is spent."""
    release = RELEASE.format(name="first", level=1, file=f"first.{ending}")
    ran(CREATE + release + "drop series queries;" + CREATE)
    _, problems = ran(release)
    assert len(problems) == 1 and "exists and is not this release" in problems[0] and "committed" not in problems[0]
    assert store.series("queries").releases().is_empty()
    _, problems = ran(release.replace("'first", "'second") + release.replace("'first", "'second"))
    assert problems == []


NO_FILES = ["", ".parquet", "x.txt", "nosuch/x.parquet", "~/x.parquet", "s3://b/x.parquet", "x" * 300 + ".parquet"]


@pytest.mark.parametrize("file", NO_FILES)
def test_a_file_that_cannot_be_is_refused_with_its_place(ran, here, file):
    """A name that is none is said to be before anything runs."""
    outcomes, problems = ran(CREATE + RELEASE.format(name="first", level=1, file=file))
    assert len(problems) == 1
    assert problems[0].startswith("line 1, column ")
    assert {outcome.kind for outcome in outcomes} == {"not run"}
    assert list(here.iterdir()) == []


def test_the_report_is_written_by_a_statement(ran, here, store):
    """The page of `Store.report`; a file that cannot be is refused before anything runs."""
    _, problems = ran(CREATE + RELEASE.format(name="first", level=1, file="first.parquet"))
    assert problems == []
    outcomes, problems = ran("report store to 'report.html' delta 1e-9")
    assert problems == [] and "report.html" in outcomes[0].said
    assert (here / "report.html").read_text(encoding="utf-8").startswith("<!") and "1e-09" in store.report(delta=1e-9)
    assert "1e-09" in (here / "report.html").read_text(encoding="utf-8")
    assert "delta must be" in ran("report store to 'report.html' delta 1")[1][0]
    for wrong in ("to 'report.txt'", "to 'nowhere/report.html'"):
        outcomes, problems = ran(f"select 1; report store {wrong}")
        assert [outcome.kind for outcome in outcomes] == ["not run"] and len(problems) == 1
    assert ran("report store to 'new.html'", dry_run=True)[0][0].said == "spends nothing"
