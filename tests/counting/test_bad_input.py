"""Input that breaks a rule is refused by column, rule and remedy; no error shows a value of the log."""

from __future__ import annotations

import math
import os
import traceback

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import sparsehist as sh
from sparsehist.counting import Counts, Files, Query
from sparsehist.domain.base import Domain
from sparsehist.errors import DataError, DeclarationError, GuaranteeError, InputError, NotFoundError
from tests.counting.logs import a_log, as_dict, count

SECRET = "secretplum"
SECRET_NUMBER = 731_973_317
PRODUCT = Domain.parse("product(q=strings(max_bytes=32), n=integers(0, 9))")


def refused(kind, pattern, source, **changes):
    """Expect a refusal of that kind, which shows nothing of the log, not even in its traceback."""
    with pytest.raises(kind, match=pattern) as caught:
        count(source, **changes)
    shown = "".join(traceback.format_exception(caught.value))
    message = str(caught.value)
    assert SECRET not in shown and str(SECRET_NUMBER) not in shown
    assert len(message) > 20 and "\n" not in message


def a_frame(units, keys, **options):
    """Make a log of two columns."""
    return pl.DataFrame({"user_id": units, "query": keys}, **options)


@pytest.mark.parametrize(
    ("changes", "pattern"),
    [
        ({"unit": "nobody"}, r"no column 'nobody'.*\['user_id', 'query'\]"),
        ({"unit": "userid"}, "did you mean 'user_id'"),
        ({"unit": None}, "unit is needed"),
        ({"memory_limit": "much"}, "memory_limit.*'much'"),
    ],
)
def test_wrong_declarations_are_refused_with_their_value(changes, pattern):
    """A wrong declared parameter is named with its value."""
    refused(DeclarationError, pattern, a_frame([SECRET_NUMBER], [SECRET]), **changes)


@pytest.mark.parametrize(
    ("units", "keys", "pattern"),
    [
        ([SECRET_NUMBER, None], [SECRET, SECRET], "unit column 'user_id' holds null.*on_null"),
        ([SECRET, ""], [SECRET, SECRET], "unit column 'user_id' holds null"),
        ([SECRET, SECRET], [SECRET, None], "key column 'query' holds null.*on_null"),
        ([SECRET, SECRET], [SECRET, ""], "key column 'query' holds null"),
        ([1, 2], [SECRET * 9, "a"], r"'query'.*outside strings\(max_bytes=32\).*on_outside"),
        ([[1], [2]], [SECRET, "a"], "dtype List"),
        ([1, 2], [SECRET_NUMBER, 2], "'query' has dtype Int64"),
        ([None, None], [SECRET, SECRET], "Null"),
    ],
)
def test_logs_that_break_a_rule_are_refused_without_a_value(units, keys, pattern):
    """An error about the log names column, rule and remedy, and shows no value."""
    refused(DataError, pattern, a_frame(units, keys))


def test_each_part_of_a_product_key_is_checked():
    """A null or a value outside in the second key column is reported for that column."""
    log = pl.DataFrame({"user_id": [1, 2], "query": [SECRET, "a"], "n": [1, None]})
    refused(DataError, "key column 'n' holds null", log, key=["query", "n"], domain=PRODUCT)
    dropped = count(log, key=["query", "n"], domain=PRODUCT, on_null="drop").frame
    assert dropped.rows() == [(SECRET, 1, 1)]
    log = log.with_columns(n=pl.lit(SECRET_NUMBER, dtype=pl.Int64))
    refused(DataError, r"column\(s\) 'n': .*outside", log, key=["query", "n"], domain=PRODUCT)


def test_empty_logs_are_refused(tmp_path):
    """A log without rows, or without rows that count, is refused."""
    refused(DataError, "empty", a_log().clear())
    refused(DataError, "empty", a_frame([1], [SECRET * 9]), on_outside="drop")
    (tmp_path / "empty.csv").write_text("user_id,query\n")
    refused(DataError, "empty", tmp_path / "empty.csv")


@pytest.mark.parametrize(
    ("name", "content", "pattern"),
    [
        ("nothing.csv", "", "nothing.csv.*empty"),
        ("ragged.csv", f"user_id,query\n1,a\n2,b,{SECRET},d\n", "ragged.csv.*different length"),
        ("inside.csv", f'user_id,query\n1,a\n2,{SECRET}"b\n', "inside.csv.*quote"),
        ("open.csv", f'user_id,query\n1,"{SECRET}\n2,b\n', "quoted field"),
        ("latin.csv", f"user_id,query\n1,{SECRET}é\n", "latin.csv.*not UTF-8"),
        ("twice.csv", "user_id,query,query\n1,a,b\n", "twice.csv.*more than one column 'query'"),
        ("cut.jsonl", f'{{"user_id": "{SECRET}", "que\n', "cut.jsonl.*not a JSON object"),
        ("list.jsonl", f'["{SECRET}"]\n', "list.jsonl.*not a JSON object"),
        ("bare.csv", f"{SECRET},{SECRET_NUMBER}\n", "no column 'user_id'; its first line has 2 field.* delimiter"),
        ("other.csv", "user_id,q\n1,a\n", r"no column 'query'; its columns are \['user_id', 'q'\]"),
        ("mac.csv", f"user_id,query\r{SECRET_NUMBER},{SECRET}\r2,b\r", "carriage returns alone"),
        ("mac2.csv", f'"user_id","query","more"\r1,{SECRET}\r', "carriage returns alone"),
        ("log.txt", "user_id,query\n", "must end in"),
    ],
)
def test_files_that_cannot_be_read_are_named(tmp_path, name, content, pattern):
    """A broken file is named with the reason; neither its first line nor another is shown."""
    (tmp_path / name).write_bytes(content.encode("latin-1"))
    refused(InputError, pattern, tmp_path / name)


def test_damaged_parquet_files_are_named(tmp_path):
    """Of several files the damaged one is named."""
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
    """A pattern does not skip an unreadable directory, whose name may hold a key."""
    for day in (1, SECRET_NUMBER):
        (tmp_path / f"day={day}").mkdir()
        a_frame([1], ["a"]).write_parquet(tmp_path / f"day={day}" / "log.parquet")
    monkeypatch.setattr("os.access", lambda place, _, **__: str(SECRET_NUMBER) not in str(place))
    denied = "day=…/' cannot be read: permission is denied"
    refused(DataError, denied, str(tmp_path / "*/*.parquet"))
    refused(DataError, denied, Files(tmp_path, hive=["day"]), key=["day"])
    assert as_dict(count(str(tmp_path / "day=1" / "*.parquet"))) == {"a": 1}


def test_sources_that_are_no_log_are_refused(tmp_path):
    """Directories, pipes, foreign URLs, SQL and other objects are refused; engine errors are not shown."""
    os.mkfifo(tmp_path / "pipe.csv")
    for path in (tmp_path / "pipe.csv", tmp_path, "ftp://host/log.parquet", "select 1 as user_id"):
        refused(NotFoundError, "no regular file.*Query", path)
    refused(DeclarationError, "not int", 7)
    refused(GuaranteeError, "tables=", Query("select * from variable_of_mine"))
    refused(GuaranteeError, "one SELECT", Query("selec nothing"))
    failing = f"select cast(x as integer) as user_id, x as query from (values ('1'), ('{SECRET}')) t(x)"
    refused(DataError, "in DuckDB directly$", Query(failing))
    twice = pa.table([[1], [SECRET], [SECRET]], names=["user_id", "query", "query"])
    refused(DeclarationError, "more than one column 'query'", twice)
    broken = a_frame([SECRET, "1"], ["a", "b"]).lazy().with_columns(pl.col("user_id").cast(pl.Int64))
    refused(DataError, "lazy frame", broken)
    with duckdb.connect() as connection:
        refused(DataError, "relation", connection.sql(failing))


def test_files_that_disagree_are_refused(tmp_path):
    """Files may differ in the width of whole numbers, not in the kind of a column or in columns."""
    for i, dtype in enumerate((pl.Int32, pl.Int64, pl.UInt8)):
        a_frame([1, 2], ["a", "b"], schema_overrides={"user_id": dtype}).write_parquet(tmp_path / f"{i}.parquet")
    assert as_dict(count(tmp_path / "*.parquet")) == {"a": 1, "b": 1}
    text, renamed = tmp_path / "text.parquet", tmp_path / "renamed.parquet"
    a_frame(["u1", "1.0"], ["a", SECRET]).write_parquet(text)
    a_frame([1, 2], ["a", "b"]).rename({"query": "other"}).write_parquet(renamed)
    refused(DataError, "'user_id'.*one id must not be two", [tmp_path / "0.parquet", text])
    refused(DataError, "no column 'query'", [tmp_path / "0.parquet", renamed])
    a_frame([1], ["a"]).write_csv(tmp_path / "0.csv")
    refused(DeclarationError, "all be Parquet", [tmp_path / "0.csv", tmp_path / "0.parquet"])


@pytest.mark.parametrize(
    ("counts", "pattern"),
    [
        ([1, -SECRET_NUMBER], "none null or negative"),
        ([1.0, 2.5], "whole numbers"),
        ([1.0, math.nan], "whole numbers"),
        ([1, None], "none null"),
        (["1", "2"], "dtype String"),
    ],
)
def test_counts_that_are_no_whole_numbers_are_refused(counts, pattern):
    """A count is a whole number of units."""
    refused(DataError, pattern, Counts(pl.DataFrame({"query": [SECRET, "b"], "count": counts}), largest=1), unit=None)


def test_counts_with_other_faults_are_refused(tmp_path):
    """Each key occurs once, also where 1 and 01 of a CSV file are one cell; CSV counts are digits."""
    (tmp_path / "counts.csv").write_text("query,count\n1,5\n01,7\n2,1\n")
    of_file = Counts(tmp_path / "counts.csv", largest=1)
    refused(DataError, "one cell", of_file, unit=None, domain=Domain.parse("integers(9)"))
    assert as_dict(count(of_file, unit=None)) == {"1": 5, "01": 7, "2": 1}
    (tmp_path / "bad.csv").write_text(f"query,count\n{SECRET},3\nb,2.5\n")
    refused(DataError, "whole numbers", Counts(tmp_path / "bad.csv", largest=1), unit=None)
    twice = pl.DataFrame({"query": [SECRET, SECRET], "count": [1, 2]})
    refused(DataError, "occurs twice", Counts(twice, largest=1), unit=None)
    refused(DeclarationError, "'n'.*query", Counts(twice, count="n", largest=1), unit=None)
    refused(DeclarationError, "no units", Counts(twice, largest=1))


def test_an_error_names_the_type_that_reads_a_column(tmp_path):
    """ISO text is read as days; time stamps and decimals of a CSV file are refused with the type to declare."""
    days = sh.Dates("2024-01-01", "2024-12-31")
    counted = count(a_frame([1, 2, 3], ["2024-05-02", "2024-05-02", "2024-05-03"]), domain=days).frame
    assert sorted(counted["count"].to_list()) == [1, 2] and counted["key_0"].dtype == pl.Date
    refused(DataError, "outside", a_frame([1], [SECRET]), domain=days)
    path = tmp_path / "log.csv"
    path.write_text(f"user_id,day,price\n1,2024-01-02 10:00,{SECRET_NUMBER}.55\n")
    refused(DataError, r"types={'price': 'integer'}", path, key=["price"], domain=sh.Integers(10))
    refused(DataError, r"types={'day': 'date'}", path, key=["day"], domain=days)
