from __future__ import annotations

import math
import os
import re
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
        ({"key": ["nothing"]}, "no column 'nothing'.*user_id"),
        ({"unit": None}, "unit is needed"),
        ({"memory_limit": "much"}, "memory_limit.*'much'"),
    ],
)
def test_wrong_declarations_are_refused_with_their_value(changes, pattern):
    """A declared parameter that cannot be is named with its value."""
    log = a_frame([SECRET_NUMBER], [SECRET])
    refused(DeclarationError, pattern, log, **changes)


@pytest.mark.parametrize(
    ("units", "keys", "pattern"),
    [
        ([SECRET_NUMBER, None], [SECRET, SECRET], "unit column 'user_id' holds null.*on_null"),
        ([SECRET, ""], [SECRET, SECRET], "unit column 'user_id' holds null"),
        ([SECRET, SECRET], [SECRET, None], "key column 'query' holds null.*on_null"),
        ([SECRET, SECRET], [SECRET, ""], "key column 'query' holds null"),
        ([1, 2], [SECRET * 9, "a"], r"'query'.*outside strings\(max_bytes=32\).*on_outside"),
        ([1.0, 2.0], [SECRET, "a"], "several ways"),
        ([SECRET_NUMBER + 0.5, math.nan], [SECRET, "a"], "several ways"),
        ([[1], [2]], [SECRET, "a"], "dtype List"),
        ([1, 2], [SECRET_NUMBER, 2], "'query' has dtype Int64"),
        ([None, None], [SECRET, SECRET], "Null"),
    ],
)
def test_logs_that_break_a_rule_are_refused_without_a_value(units, keys, pattern):
    """Column, rule and remedy, nothing else."""
    refused(DataError, pattern, a_frame(units, keys))


def test_each_part_of_a_product_key_is_checked():
    """A null or a key outside in the second column is named by that column or its key."""
    product = Domain.parse("product(q=strings(max_bytes=32), n=integers(0, 9))")
    log = pl.DataFrame({"user_id": [1, 2], "query": [SECRET, "a"], "n": [1, None]})
    refused(DataError, "key column 'n' holds null", log, key=["query", "n"], domain=product)
    dropped = count(log, key=["query", "n"], domain=product, on_null="drop").frame
    assert dropped.rows() == [(SECRET, 1, 1)]
    log = log.with_columns(n=pl.lit(SECRET_NUMBER, dtype=pl.Int64))
    refused(DataError, r"column\(s\) 'n': .*outside", log, key=["query", "n"], domain=product)


def test_empty_logs_are_refused(tmp_path):
    """No rows, or none left after dropping, is no log."""
    refused(DataError, "empty", a_log().clear())
    gaps = a_frame([None, 1], ["a", None], schema_overrides={"user_id": pl.Int64})
    refused(DataError, "empty", gaps, on_null="drop")
    refused(DataError, "empty", a_frame([1], [SECRET * 9]), on_outside="drop")
    (tmp_path / "empty.csv").write_text("user_id,query\n")
    refused(DataError, "empty", tmp_path / "empty.csv")
    (tmp_path / "nothing.csv").write_text("")
    refused(DataError, "nothing.csv.*empty", tmp_path / "nothing.csv")


def test_files_that_cannot_be_read_are_named(tmp_path):
    """A missing, truncated or foreign file is named as the caller gave it, without the engine's words."""
    refused(NotFoundError, "none.parquet", tmp_path / "none.parquet")
    refused(NotFoundError, "none.*csv", str(tmp_path / "none*.csv"))
    refused(DeclarationError, "must end in", __file__)
    whole, cut, middle = (tmp_path / name for name in ("whole.parquet", "cut.parquet", "middle.parquet"))
    log = a_frame([SECRET] * 2000, [f"{SECRET}{i}" for i in range(2000)])
    log.write_parquet(whole, compression="uncompressed")
    data = whole.read_bytes()
    cut.write_bytes(data[: len(data) // 2])
    middle.write_bytes(data[:50] + bytes(range(256)) * (len(data) // 512) + data[50 + len(data) // 512 * 256 :])
    refused(DataError, "cut.parquet.*no whole Parquet", cut)
    refused(DataError, "middle.parquet", middle)
    refused(DataError, "middle.parquet", [whole, middle])
    (tmp_path / "ragged.csv").write_text(f"user_id,query\n1,a\n2,b,{SECRET},d\n")
    refused(DataError, "ragged.csv.*different length", tmp_path / "ragged.csv")
    (tmp_path / "quote.csv").write_text(f'user_id,query\n1,a\n2,{SECRET}"b\n')
    refused(DataError, "quote.csv.*quote", tmp_path / "quote.csv")
    for name, line in (("cut.jsonl", f'{{"user_id": "{SECRET}", "que'), ("list.jsonl", f'["{SECRET}"]')):
        (tmp_path / name).write_text(f'{{"user_id": "1", "query": "a"}}\n{line}\n')
        refused(DataError, f"{name}.*no JSON object", tmp_path / name)
    (tmp_path / "twice.csv").write_text("user_id,query,query\n1,a,b\n")
    refused(DeclarationError, "twice.csv.*more than one column 'query'", tmp_path / "twice.csv")
    (tmp_path / "latin.csv").write_bytes(f"user_id,query\n1,{SECRET}".encode() + b"\xe9t\xe9\n")
    refused(DataError, "latin.csv.*not UTF-8", tmp_path / "latin.csv")


def test_a_first_line_that_is_no_header_is_not_shown(tmp_path):
    """A row in the place of the header may hold a unit and a key; a line with a declared column is a header."""
    (tmp_path / "bare.csv").write_text(f"{SECRET},{SECRET_NUMBER}\n")
    told = "no column 'user_id'; its first line has 2 field.* delimiter"
    refused(DeclarationError, told, tmp_path / "bare.csv")
    (tmp_path / "bytes.csv").write_bytes(SECRET.encode() + bytes(range(128, 256)))
    refused(InputError, "bytes.csv", tmp_path / "bytes.csv")
    (tmp_path / "other.csv").write_text("user_id,q\n1,a\n")
    refused(DeclarationError, r"no column 'query'; its columns are \['user_id', 'q'\]", tmp_path / "other.csv")


def test_lines_that_end_in_carriage_returns_are_told_and_not_shown(tmp_path):
    """Such a file is one header: what is in it would be shown as names of columns, or pass for an empty log."""
    for number, header in enumerate(("user_id,query", "user_id,query,more", '"user_id","query"')):
        log = tmp_path / f"{number}.csv"
        log.write_text(f"{header}\r{SECRET_NUMBER},{SECRET}\r2,b\r", newline="")
        refused(DataError, "carriage returns alone: write it with line feeds", log)
    log.write_bytes(b"user_id,query\r\n1,a\r\n2,a\r\n")
    assert as_dict(count(log)) == {"a": 2}


def test_a_directory_that_cannot_be_read_is_no_empty_one(tmp_path, monkeypatch):
    """Searches leave it out without a word; its name may hold a key."""
    for day in (1, SECRET_NUMBER):
        (tmp_path / f"day={day}").mkdir()
        a_frame([1], ["a"]).write_parquet(tmp_path / f"day={day}" / "log.parquet")
    monkeypatch.setattr("os.access", lambda place, _, **__: str(SECRET_NUMBER) not in str(place))
    denied = "day=…/' cannot be read: permission is denied"
    for log in ("*/*.parquet", "**/*.parquet", f"day={SECRET_NUMBER}/log.parquet"):
        refused(DataError, denied, str(tmp_path / log))
    refused(DataError, denied, Files(tmp_path, hive=["day"]), key=["day"])
    assert as_dict(count(str(tmp_path / "day=1" / "*.parquet"))) == {"a": 1}


def test_what_looks_like_a_path_and_is_none_is_told_apart(tmp_path):
    """A directory, a pipe, a URL of another kind and SQL are refused alike; an open quote is named."""
    os.mkfifo(tmp_path / "pipe.csv")
    for path in (tmp_path / "pipe.csv", tmp_path, "ftp://host/log.parquet", "select 1 as user_id"):
        refused(NotFoundError, "no regular file.*Query", path)
    refused(GuaranteeError, "tables=", Query("select * from variable_of_mine"))
    failing = Query(f"select '{SECRET}'::int as user_id, 'a' as query")
    refused(DataError, "in DuckDB on its own$", failing)
    huge = Query("select 7::hugeint as user_id, 'a' as query")
    refused(DataError, "dtype .*one number may be written in several ways: cast .* 64 bits", huge)
    twice = pa.table([[1], [SECRET], [SECRET]], names=["user_id", "query", "query"])
    refused(DeclarationError, "more than one column 'query'", twice)
    refused(DataError, "several ways: read it", a_frame([1], [1.5]))
    (tmp_path / "quote.csv").write_text(f'user_id,query\n1,"{SECRET}\n2,b\n')
    refused(DataError, "quoted field", tmp_path / "quote.csv")


def test_files_that_disagree_are_refused(tmp_path):
    """A unit that is a number in one file and text in another would be two units."""
    for ending, write in (("parquet", "write_parquet"), ("csv", "write_csv")):
        files = [tmp_path / f"{i}.{ending}" for i in range(2)]
        getattr(a_frame([1, 2], ["a", SECRET]), write)(files[0])
        getattr(a_frame(["u1", "1.0"], ["a", SECRET]), write)(files[1])
        if ending == "parquet":
            refused(DataError, "'user_id'.*one id must not be two", files)
        getattr(a_frame([1, 2], ["a", "b"]).rename({"query": "other"}), write)(files[1])
        refused(DataError, "no column 'query'", files)
    refused(DeclarationError, "all be Parquet", [tmp_path / "0.csv", tmp_path / "0.parquet"])


def test_whole_numbers_of_two_widths_agree(tmp_path):
    """A unit is the same whatever width a file stores it in."""
    for i, dtype in enumerate((pl.Int32, pl.Int64, pl.UInt8)):
        a_frame([1, 2], ["a", "b"], schema_overrides={"user_id": dtype}).write_parquet(tmp_path / f"{i}.parquet")
    assert as_dict(count(tmp_path / "*.parquet")) == {"a": 1, "b": 1}


def test_queries_and_frames_that_fail_are_refused_without_the_engines_words():
    """An error while a query or a lazy frame runs may quote the log, so its text does not get out."""
    refused(GuaranteeError, "one SELECT", Query("selec nothing"))
    failing = f"select cast(x as integer) as user_id, x as query from (values ('1'), ('{SECRET}')) t(x)"
    refused(DataError, "query", Query(failing))
    refused(InputError, "SELECT", Query("create table t as select 1 as user_id"))
    broken = a_frame([SECRET, "1"], ["a", "b"]).lazy().with_columns(pl.col("user_id").cast(pl.Int64))
    refused(DataError, "lazy frame", broken)
    refused(DeclarationError, "not int", 7)
    with duckdb.connect() as connection:
        relation = connection.sql(failing)
        refused(DataError, "relation", relation)


@pytest.mark.parametrize(
    ("counts", "pattern"),
    [
        ([1, -SECRET_NUMBER], "none null or negative"),
        ([1.0, 2.5], "whole numbers"),
        ([1.0, math.nan], "whole numbers"),
        ([1.0, math.inf], "whole numbers"),
        ([1, None], "none null"),
        (["1", "2"], "dtype String"),
    ],
)
def test_counts_that_are_none_are_refused(counts, pattern):
    """A count is a whole number of units."""
    refused(DataError, pattern, Counts(pl.DataFrame({"query": [SECRET, "b"], "count": counts}), largest=1), unit=None)


def test_counts_in_csv_are_whole_numbers_written_out(tmp_path):
    """CSV is read as text: digits are a count, anything else is refused."""
    declared = {"unit": None}
    (tmp_path / "good.csv").write_text("query,count\na,3\nb,0\n")
    assert as_dict(count(Counts(tmp_path / "good.csv", largest=1), **declared)) == {"a": 3}
    for wrong in ("-3", "2.5", "many", ""):
        (tmp_path / "bad.csv").write_text(f"query,count\n{SECRET},3\nb,{wrong}\n")
        refused(DataError, "whole numbers", Counts(tmp_path / "bad.csv", largest=1), **declared)


def test_dates_may_be_iso_text_in_any_log():
    """Text is read as a day where the domain wants days; text that is none is outside."""
    days = Domain.parse("dates('2014-05-01', '2014-05-12')")
    frame = a_frame([1, 2, 3], ["2014-05-02", "2014-05-02", "2014-05-03"])
    counted = count(frame, domain=days).frame
    assert sorted(counted["count"].to_list()) == [1, 2] and counted["key_0"].dtype == pl.Date
    refused(DataError, "outside", a_frame([1], [SECRET]), domain=days)


def test_counts_with_other_faults_are_refused(tmp_path):
    """Keys once, also where 1 and 01 of a CSV file are one cell; columns there, no unit."""
    (tmp_path / "counts.csv").write_text("query,count\n1,5\n01,7\n2,1\n")
    of_file = Counts(tmp_path / "counts.csv", largest=1)
    refused(DataError, "one cell", of_file, unit=None, domain=Domain.parse("integers(9)"))
    twice = pl.DataFrame({"query": [SECRET, SECRET], "count": [1, 2]})
    refused(DataError, "occurs twice", Counts(twice, largest=1), unit=None)
    refused(DeclarationError, "'n'.*query", Counts(twice, count="n", largest=1), unit=None)
    refused(DeclarationError, "no units", Counts(twice, largest=1))
    no_key = twice.with_columns(query=pl.lit(None, dtype=pl.String))[:1]
    refused(DataError, "null", Counts(no_key, largest=1), unit=None)


@pytest.mark.parametrize(
    ("unit", "key", "domain", "said"),
    [
        ("userid", "Price", sh.Integers(10), "did you mean 'UserID'"),
        ("UserID", "Price", sh.Integers(10), "types={'Price': 'integer'}"),
        ("UserID", "InvoiceDate", sh.Dates("2024-01-01", "2024-12-31"), "types={'InvoiceDate': 'date'}"),
    ],
)
def test_an_error_names_the_option_that_helps(tmp_path, unit, key, domain, said):
    """Time stamps and decimals of a CSV file are read with a type; a column of nearly that name is proposed."""
    path = tmp_path / "log.csv"
    path.write_text("UserID,InvoiceDate,Price\n1,2024-01-02 10:00,2.55\n2,2024-01-03 11:00,1.0\n")
    with pytest.raises(InputError, match=re.escape(said)) as refused:
        count(path, unit=unit, key=[key], domain=domain)
    assert "2.55" not in str(refused.value) and "10:00" not in str(refused.value)
