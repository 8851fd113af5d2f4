"""Errors about invalid input name the column, the rule and the remedy, but never quote a value of the log."""

from __future__ import annotations

import os
import traceback

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from sparsehist.counting import Counts, Files, Query
from sparsehist.domain.base import Domain
from sparsehist.errors import DataError, DeclarationError, GuaranteeError, InputError, NotFoundError
from tests.counting.logs import a_log, as_dict, count

SECRET = "secretplum"
SECRET_NUMBER = 731_973_317


def refused(kind, pattern, source, **changes):
    """Check that counting raises this type of error, and that the traceback shows no secret value of the log."""
    with pytest.raises(kind, match=pattern) as caught:
        count(source, **changes)
    shown = "".join(traceback.format_exception(caught.value))
    assert SECRET not in shown and str(SECRET_NUMBER) not in shown
    assert len(str(caught.value)) > 20 and "\n" not in str(caught.value)


def a_frame(units, keys, **options):
    """Return a log with these units and keys."""
    return pl.DataFrame({"user_id": units, "query": keys}, **options)


@pytest.mark.parametrize(
    ("units", "keys", "pattern"),
    [
        ([SECRET_NUMBER, None], [SECRET, SECRET], "unit column 'user_id' holds null.*on_null"),
        ([SECRET, SECRET], [SECRET, None], "key column 'query' holds null.*on_null"),
        ([SECRET, SECRET], [SECRET, ""], "key column 'query' holds null"),
        ([1, 2], [SECRET * 9, "a"], r"'query'.*outside strings\(max_bytes=32\).*on_outside"),
        ([[1], [2]], [SECRET, "a"], "dtype List"),
        ([1, 2], [SECRET_NUMBER, 2], "'query' has dtype Int64"),
        ([None, None], [SECRET, SECRET], "Null"),
        ([1.5, 2.0], [SECRET, SECRET], "'user_id' has dtype Float64.*several ways"),
        ([1, 2], pl.Series([SECRET_NUMBER, 2], dtype=pl.Decimal(12, 2)), "'query' has dtype Decimal.*several ways"),
    ],
)
def test_logs_that_break_a_rule_are_refused_without_a_value(units, keys, pattern):
    """An error about an invalid log names the column, the rule and the remedy, but shows no value of the log."""
    refused(DataError, pattern, a_frame(units, keys))


@pytest.mark.parametrize(
    ("name", "content", "pattern"),
    [
        ("nothing.csv", "", "nothing.csv.*empty"),
        ("ragged.csv", f"user_id,query\n1,a\n2,b,{SECRET},d\n", "ragged.csv.*different length"),
        ("inside.csv", f'user_id,query\n1,a\n2,{SECRET}"b\n', "inside.csv.*quote"),
        ("open.csv", f'user_id,query\n1,"{SECRET}\n2,b\n', "quoted field"),
        ("latin.csv", f"user_id,query\n1,{SECRET}é\n", "latin.csv.*not UTF-8"),
        ("cut.jsonl", f'{{"user_id": "{SECRET}", "que\n', "cut.jsonl.*not a JSON object"),
        (
            "bare.csv",
            f"{SECRET},{SECRET_NUMBER}\n",
            "column 'user_id' in file .*; the first line .* delimiter; it has 2 field",
        ),
        ("other.csv", "user_id,q\n1,a\n", r"no column 'query' in file .*; its columns are \['user_id', 'q'\]"),
        ("mac.csv", f"user_id,query\r{SECRET_NUMBER},{SECRET}\r2,b\r", "carriage returns alone"),
        ("log.txt", "user_id,query\n", "must end in"),
    ],
)
def test_files_that_cannot_be_read_are_named(tmp_path, name, content, pattern):
    """An error about an unreadable file gives the file's name and the reason, but none of the content."""
    (tmp_path / name).write_bytes(content.encode("latin-1"))
    refused(InputError, pattern, tmp_path / name)


def test_empty_logs_are_refused():
    """A log is refused if it has no rows, or if all its rows are dropped."""
    refused(DataError, "empty", a_log().clear())
    refused(DataError, "empty", a_frame([1], [SECRET * 9]), on_outside="drop")


def test_damaged_parquet_files_are_named(tmp_path):
    """If one of several Parquet files is damaged, the error names that file."""
    whole, cut, middle = (tmp_path / name for name in ("whole.parquet", "cut.parquet", "middle.parquet"))
    log = a_frame([SECRET] * 2000, [f"{SECRET}{i}" for i in range(2000)])
    log.write_parquet(whole, compression="uncompressed")
    data = whole.read_bytes()
    cut.write_bytes(data[: len(data) // 2])
    middle.write_bytes(data[:50] + bytes(range(256)) * (len(data) // 512) + data[50 + len(data) // 512 * 256 :])
    refused(DataError, "cut.parquet.*not a complete Parquet", cut)
    refused(DataError, "middle.parquet", [whole, middle])
    refused(NotFoundError, "none.*csv", str(tmp_path / "none*.csv"))


def test_a_directory_that_cannot_be_read_is_refused(tmp_path, monkeypatch):
    """A glob pattern that matches an unreadable directory is refused.

    The error shows the directory's name as `day=…`, without the value, because the value may be a key or a unit.
    """
    for day in (1, SECRET_NUMBER):
        (tmp_path / f"day={day}").mkdir()
        a_frame([1], ["a"]).write_parquet(tmp_path / f"day={day}" / "log.parquet")
    monkeypatch.setattr("os.access", lambda place, _, **__: str(SECRET_NUMBER) not in str(place))
    denied = "day=…/' cannot be read: permission denied"
    refused(DataError, denied, str(tmp_path / "*/*.parquet"))
    refused(DataError, denied, Files(tmp_path / "**/*.parquet", hive=["day"]), key=["day"])


def test_sources_that_are_no_log_are_refused(tmp_path):
    """A pipe, directory, SQL text, number or failing query is refused as a log. No error quotes a value."""
    os.mkfifo(tmp_path / "pipe.csv")
    for path in (tmp_path / "pipe.csv", tmp_path, "select 1 as user_id"):
        refused(NotFoundError, "no regular file.*Query", path)
    refused(DeclarationError, "not int", 7)
    refused(GuaranteeError, "one SELECT", Query("selec nothing"))
    failing = f"select cast(x as integer) as user_id, x as query from (values ('1'), ('{SECRET}')) t(x)"
    refused(DataError, "in DuckDB directly$", Query(failing))
    twice = pa.table([[1], [SECRET], [SECRET]], names=["user_id", "query", "query"])
    refused(DataError, "the Table cannot be read .DuplicateError", twice)
    broken = a_frame([SECRET, "1"], ["a", "b"]).lazy().with_columns(pl.col("user_id").cast(pl.Int64))
    refused(DataError, "the LazyFrame cannot be read", broken)
    with duckdb.connect() as connection:
        refused(DataError, "Relation cannot be read", connection.sql(failing))


def test_files_that_disagree_are_refused(tmp_path):
    """Files of one log may have integers of different widths. Column names and all other types must be the same."""
    for i, dtype in enumerate((pl.Int32, pl.Int64, pl.UInt8)):
        a_frame([1, 2], ["a", "b"], schema_overrides={"user_id": dtype}).write_parquet(tmp_path / f"{i}.parquet")
    assert as_dict(count(tmp_path / "*.parquet")) == {"a": 1, "b": 1}
    text, renamed = tmp_path / "text.parquet", tmp_path / "renamed.parquet"
    a_frame(["u1", "1.0"], ["a", SECRET]).write_parquet(text)
    a_frame([1, 2], ["a", "b"]).rename({"query": "other"}).write_parquet(renamed)
    for other in (text, renamed):
        refused(DataError, f"{other.name}.*column is missing or has another type", [tmp_path / "0.parquet", other])


@pytest.mark.parametrize(
    ("counts", "pattern"),
    [
        ("query,count\na,-1\n", "none null or negative"),
        (f"query,count\n{SECRET},3\nb,2.5\n", "whole numbers"),
        (pl.DataFrame({"query": [SECRET, "b"], "count": [1, None]}), "none null"),
        (pl.DataFrame({"query": [SECRET, "b"], "count": ["1", "2"]}), "dtype String"),
        (pl.DataFrame({"query": [SECRET, SECRET], "count": [1, 2]}), "occurs twice"),
    ],
)
def test_counts_that_are_no_whole_numbers_are_refused(tmp_path, counts, pattern):
    """Precomputed counts are refused if a count is negative, fractional, null or text, or if a key occurs twice."""
    if isinstance(counts, str):
        (tmp_path / "counts.csv").write_text(counts)
        counts = tmp_path / "counts.csv"
    refused(DataError, pattern, Counts(counts, largest=1), unit=None)


def test_counts_of_one_cell_are_refused(tmp_path):
    """Precomputed counts for both 1 and 01 are refused in an integer domain, where 1 and 01 are the same cell."""
    (tmp_path / "counts.csv").write_text("query,count\n1,5\n01,7\n2,1\n")
    counts = Counts(tmp_path / "counts.csv", largest=1)
    refused(DataError, "one cell", counts, unit=None, domain=Domain.parse("integers(9)"))
    assert as_dict(count(counts, unit=None)) == {"1": 5, "01": 7, "2": 1}
    refused(DeclarationError, "no units", counts)
