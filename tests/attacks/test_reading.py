"""No row of one user changes how other rows are read, and no column or file is mistaken for another."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from sparsehist.counting import Query
from sparsehist.errors import InputError
from tests.counting.logs import count, kept_pairs

USERS = [f"u{i}" for i in range(50)]


def written(path: Path, log: pl.DataFrame | str) -> Path:
    """Write a text to a file, or a frame as CSV or Parquet, depending on the path's ending; return the path."""
    path.parent.mkdir(exist_ok=True)
    if isinstance(log, str):
        path.write_text(log)
    elif path.suffix == ".csv":
        log.write_csv(path)
    else:
        log.write_parquet(path)
    return path


def kept_or_refused(source, **declared) -> set | str:
    """Return the (user, key) pairs that are counted from a log, or "refused" if the log is refused."""
    try:
        return kept_pairs(source, on_null="error", on_outside="error", **declared)
    except InputError:
        return "refused"


OTHERS = "".join(f"{user},c# k{i},\n" for i, user in enumerate(USERS))


@pytest.mark.parametrize(
    "rows_of_one",
    [
        ("#one\n", ""),
        ('one,"kiwi,\n', ""),
        ('"one,kiwi,\n', ""),
        ('one,kiwi,"x\n', ""),
        ('one,kiwi,5" disk\n', 'one,kiwi,7" disk\n'),
        ('one,5" disk,\n', 'one,7" disk,\n'),
        ('one,"a"b,\n', ""),
        ("one,kiwi,,1\n", ""),
    ],
    ids=["short", "open", "open unit", "open elsewhere", "inches elsewhere", "inches", "text after a quote", "long"],
)
@pytest.mark.parametrize("files", [1, 2])
def test_a_broken_row_of_one_unit_does_not_change_the_rows_of_others(
    tmp_path: Path, rows_of_one: tuple[str, str], files: int
) -> None:
    """A CSV file with a broken row of one user is refused, or all rows of the other users are counted."""
    first, last = rows_of_one
    broken = written(tmp_path / "b.csv", f"user_id,query,note\n{OTHERS}{first}{OTHERS}{last}{OTHERS}")
    whole = written(tmp_path / "a.csv", "user_id,query,note\nann,apple,\n")
    kept = kept_or_refused([str(whole), str(broken)][-files:])
    assert kept == "refused" or {(user, f"c# k{i}") for i, user in enumerate(USERS)} <= kept


def test_line_breaks_inside_quotes_are_part_of_the_key(tmp_path: Path) -> None:
    """A quoted CSV field that contains line breaks is read unchanged, even in a file of many megabytes."""
    log = pl.select(user_id=pl.int_range(100_000, 500_000).cast(pl.String)).with_columns(
        query=pl.concat_str(pl.lit('a\n"x",1,2\n#'), pl.col("user_id").str.tail(2), pl.lit("\n9,b"))
    )
    counted = count(written(tmp_path / "log.csv", log)).frame
    assert set(counted["key_0"]) == set(log["query"]) and set(counted["count"]) == {4000}


def test_the_ending_of_each_file_says_what_separates_its_fields(tmp_path: Path) -> None:
    """A file's ending, .csv or .tsv, determines the delimiter. Columns of several files are matched by name."""
    first = written(tmp_path / "log.tsv.d" / "a.csv", "user_id,query\nann,a\tb\n")
    second = written(tmp_path / "log.tsv.d" / "b.tsv", "query\tuser_id\na,b\tcid\n")
    assert kept_pairs([str(first), str(second)]) == {("ann", "a\tb"), ("cid", "a,b")}


def test_relations_whose_columns_differ_in_case_are_read_exactly_or_refused() -> None:
    """With unit column user_id, a query that also returns a column USER_ID is refused.

    Columns that are not used, such as Q and q, may have names that differ only in case.
    """
    assert kept_or_refused(Query("select 1 as USER_ID, 2 as user_id, 'a' as query")) == "refused"
    read = kept_pairs(Query("select 'x' as Q, 'y' as q, 'z' as q_1, 'a' as query, 'u' as user_id"))
    assert read == {("u", "a")}


def test_times_with_a_zone_are_refused() -> None:
    """Times of day with a time zone are refused as privacy units: DuckDB drops the zone, which would merge units."""
    zoned = Query("select ('12:00:00+0' || i)::timetz as user_id, 'a' as query from range(3) t(i)")
    assert kept_or_refused(zoned) == "refused"


@pytest.mark.parametrize("kind", ["frame", "csv", "parquet"])
def test_columns_that_differ_in_case_are_two_columns(tmp_path: Path, kind: str) -> None:
    """With unit column `User` and key column `user`, keys are read from `user` only, or the log is refused."""
    log = pl.DataFrame({"User": ["secret-1", "secret-2"], "user": ["a", "b"]})
    source = log if kind == "frame" else written(tmp_path / f"log.{kind}", log)
    try:
        counted = count(source, unit="User", key=["user"])
    except InputError:
        return
    assert set(counted.frame["key_0"]) == {"a", "b"}


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("column", ["user_id", "query"])
def test_a_column_is_read_from_the_file_not_from_the_name_of_its_folder(
    tmp_path: Path, kind: str, column: str
) -> None:
    """A column is read from the file even if a folder is named after the column, such as `user_id=7`."""
    log = pl.DataFrame({"user_id": ["1", "2", "3"], "query": ["a", "b", "c"]})
    assert kept_pairs(written(tmp_path / f"{column}=7" / f"log.{kind}", log)) == set(log.rows())


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(("name", "other"), [("log[1]", "log1"), ("log*", "log-old"), ("log?", "logs")])
def test_a_file_with_a_pattern_for_a_name_is_that_file(tmp_path: Path, kind: str, name: str, other: str) -> None:
    """A path such as `log[1].csv` or `log*.csv` is read as that file, not as a pattern, if the file exists."""
    for stem, key in ((name, "right"), (other, "wrong")):
        written(tmp_path / f"{stem}.{kind}", pl.DataFrame({"user_id": ["1"], "query": [key]}))
    assert kept_pairs(tmp_path / f"{name}.{kind}") == {("1", "right")}


@pytest.mark.parametrize("dtype", [pl.Duration("ns"), pl.Datetime("ns", "UTC"), pl.Time()], ids=str)
def test_units_a_nanosecond_apart_are_not_merged(tmp_path: Path, dtype: pl.DataType) -> None:
    """Users whose identifiers are timestamps that differ by one nanosecond are not merged, in frames and files."""
    log = pl.DataFrame({"user_id": pl.Series([1, 2, 3]).cast(dtype), "query": ["a"] * 3})
    for source in (log, written(tmp_path / "log.parquet", log)):
        assert count(source).frame["count"].to_list() == [3]


@pytest.mark.parametrize(
    "units",
    [["a", "a\0", "a ", " a", "A"], ["é", "e\u0301", "E\u0301", "É", "ﬁ"], ["1", "01", "+1", "1.0", "１"]],
    ids=["white space", "normal forms", "spellings of one"],
)
@pytest.mark.parametrize("kind", ["frame", "categorical", "csv", "parquet", "arrow dictionary"])
def test_units_that_look_alike_stay_apart(tmp_path: Path, units: list[str], kind: str) -> None:
    """User names that look equal but differ in their characters stay different users, from every kind of source."""
    log = pl.DataFrame({"user_id": units, "query": ["a"] * len(units)})
    source: object = log
    if kind == "categorical":
        source = log.with_columns(pl.col("user_id").cast(pl.Categorical(pl.Categories.random())))
    elif kind == "arrow dictionary":
        table = log.to_arrow()
        source = table.set_column(0, "user_id", table["user_id"].combine_chunks().dictionary_encode())
    elif kind != "frame":
        source = written(tmp_path / f"log.{kind}", log)
    assert {unit for unit, _ in kept_or_refused(source)} == set(units)
