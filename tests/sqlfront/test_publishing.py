"""RELEASE … TO writes new files, and replaces a file only if it contains the same release."""

import os

import polars as pl
import pytest

import sparsehist as sh
from tests.sqlfront.conftest import CREATE

RELEASE = "release {name} from queries at level {level} expecting 1 false keys to '{file}';"


def test_no_file_that_is_something_else_is_replaced(ran, here, store):
    """RELEASE … TO is refused before noise is drawn if its file or link exists and is not the same release."""
    ran(CREATE + RELEASE.format(name="first", level=1, file="first.parquet"))
    before = (here / "first.parquet").read_bytes()
    (here / "text.parquet").write_text("mine")
    pl.DataFrame({"a": [1]}).write_parquet(here / "other.parquet")
    os.link(here / "first.parquet", here / "hard.parquet")
    (here / "soft.parquet").symlink_to("first.parquet")
    (here / "nowhere.parquet").symlink_to("/nonexistent/x.parquet")
    os.mkfifo(here / "pipe.parquet")
    for file in ("./first", "text", "other", "hard", "soft", "nowhere", "pipe"):
        _, problems = ran(RELEASE.format(name="second", level=2, file=f"{file}.parquet"))
        assert len(problems) == 1 and "exists and is not this release" in problems[0], file
    assert store.series("queries").releases()["name"].to_list() == ["first"]
    assert (here / "first.parquet").read_bytes() == (here / "hard.parquet").read_bytes() == before
    assert (here / "text.parquet").read_text() == "mine"
    assert ran("release first from queries to 'again.parquet'")[1] == []
    assert sh.read("first.parquet").frame.equals(sh.read("again.parquet").frame)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_the_release_of_a_dropped_series_is_not_replaced(ran, here, store, ending):
    """RELEASE … TO refuses to overwrite the file of a dropped series that had the same name, and spends nothing."""
    release = RELEASE.format(name="first", level=1, file=f"first.{ending}")
    ran(CREATE + release + "drop series queries;" + CREATE)
    _, problems = ran(release)
    assert len(problems) == 1 and "exists and is not this release" in problems[0] and "committed" not in problems[0]
    assert store.series("queries").releases().is_empty()


@pytest.mark.parametrize("file", ["", "x.txt", "nosuch/x.parquet", "s3://b/x.parquet", "x" * 300 + ".parquet"])
def test_a_file_that_cannot_be_written_is_refused_before_anything_runs(ran, here, file):
    """If RELEASE … TO names a file that cannot be written, no statement runs; the error states line and column."""
    outcomes, problems = ran(CREATE + RELEASE.format(name="first", level=1, file=file))
    assert len(problems) == 1 and problems[0].startswith("line 1, column ")
    assert {outcome.kind for outcome in outcomes} == {"not run"}
    assert list(here.iterdir()) == []


def test_the_report_is_written_by_a_statement(ran, here):
    """REPORT STORE writes the same HTML page as `Store.report`. If the file name is invalid, no statement runs."""
    outcomes, problems = ran(f"{CREATE} release a from queries at level 1; report store to 'report.html' delta 1e-9")
    assert problems == [] and "report.html" in outcomes[-1].message
    assert "1e-09" in (here / "report.html").read_text(encoding="utf-8")
    outcomes, problems = ran("select 1; report store to 'report.txt'")
    assert [outcome.kind for outcome in outcomes] == ["not run"] and len(problems) == 1
