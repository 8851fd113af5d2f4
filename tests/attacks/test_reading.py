"""Attacks on reading a log: rows of one unit that change how others are read, and mistaken columns or files."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from sparsehist.counting import Query
from sparsehist.domain.base import Domain
from sparsehist.errors import InputError
from tests.counting.logs import count, kept_pairs

USERS = [f"u{i}" for i in range(50)]


def written(path: Path, text: str) -> Path:
    """Write a text file."""
    path.write_text(text)
    return path


def rows(users: list[str]) -> str:
    """A row of a query with a hash sign for each user."""
    return "".join(f"{user},c# course {user}\n" for user in users)


def kept_or_refused(source, **declared) -> set | str:
    """The pairs that count, or "refused"."""
    try:
        return kept_pairs(source, on_null="error", on_outside="error", **declared)
    except InputError:
        return "refused"


def test_a_short_row_of_one_unit_does_not_cut_the_keys_of_others(tmp_path: Path) -> None:
    """A row with a missing field is refused, or read as it is; it never turns the `c# course` of others into `c`."""
    whole = kept_pairs(written(tmp_path / "a.csv", "user_id,query\n" + rows(USERS)))
    assert len(whole) == len(USERS)
    broken = kept_or_refused(written(tmp_path / "b.csv", "user_id,query\n" + rows(USERS) + "#one\n"))
    assert broken == "refused" or whole <= broken


def test_a_long_row_of_one_unit_does_not_remove_the_rows_of_others(tmp_path: Path) -> None:
    """A row with a field too many is refused, whether the log is one file or several."""
    first = written(tmp_path / "a.csv", "user_id,query\nann,apple\n")
    second = written(tmp_path / "b.csv", "user_id,query\n" + rows(USERS) + "cid,plum,1\n")
    broken = kept_or_refused([str(first), str(second)])
    assert broken == "refused" or len(broken) >= len(USERS)


OTHERS = "".join(f"{user},k{i},\n" for i, user in enumerate(USERS))


@pytest.mark.parametrize(
    "rows_of_one",
    [
        ('one,"kiwi,\n', ""),
        ('"one,kiwi,\n', ""),
        ('one,kiwi,"x\n', ""),
        ('one,kiwi,5" disk\n', 'one,kiwi,7" disk\n'),
        ('one,5" disk,\n', 'one,7" disk,\n'),
        ('one,"a"b,\n', ""),
        ("one,kiwi,,1\n", ""),
    ],
    ids=["open", "open unit", "open elsewhere", "inches elsewhere", "inches", "text after a quote", "long"],
)
def test_a_stray_quote_of_one_unit_does_not_swallow_the_rows_of_others(
    tmp_path: Path, rows_of_one: tuple[str, str]
) -> None:
    """A file with a quote where none may stand is refused, in columns that are not counted too."""
    first, last = rows_of_one
    path = written(tmp_path / "log.csv", f"user_id,query,note\n{OTHERS}{first}{OTHERS}{last}{OTHERS}")
    broken = kept_or_refused(path)
    assert broken == "refused" or {(user, f"k{i}") for i, user in enumerate(USERS)} <= broken


def test_line_breaks_inside_quotes_are_part_of_the_key(tmp_path: Path) -> None:
    """A field written as CSV wants it comes back as it was, over many megabytes."""
    log = pl.select(user_id=pl.int_range(100_000, 500_000).cast(pl.String)).with_columns(
        query=pl.concat_str(pl.lit('a\n"x",1,2\n#'), pl.col("user_id").str.tail(2), pl.lit("\n9,b"))
    )
    log.write_csv(tmp_path / "log.csv")
    counted = count(tmp_path / "log.csv").frame
    assert set(counted["key_0"]) == set(log["query"]) and set(counted["count"]) == {4000}


def test_the_ending_of_each_file_says_what_separates_its_fields(tmp_path: Path) -> None:
    """The delimiter does not depend on the folder, the first file or the rows; columns are matched by name."""
    folder = tmp_path / "log.tsv.d"
    folder.mkdir()
    first = written(folder / "a.csv", "user_id,query\nann,a\tb\n")
    second = written(folder / "b.tsv", "query\tuser_id\na,b\tcid\n")
    assert kept_pairs([str(first), str(second)]) == {("ann", "a\tb"), ("cid", "a,b")}


def test_relations_whose_columns_differ_in_case_are_read_exactly_or_refused() -> None:
    """A column whose name differs from a needed one only in case is refused; others do not matter."""
    assert kept_or_refused(Query("select 1 as USER_ID, 2 as user_id, 'a' as query")) == "refused"
    read = kept_pairs(Query("select 'x' as Q, 'y' as q, 'z' as q_1, 'a' as query, 'u' as user_id"))
    assert read == {("u", "a")}


def test_times_with_a_zone_are_refused() -> None:
    """On its way out of DuckDB a time loses its zone: three units would be one."""
    zoned = Query("select ('12:00:00+0' || i)::timetz as user_id, 'a' as query from range(3) t(i)")
    assert kept_or_refused(zoned) == "refused"


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_columns_that_differ_in_case_are_two_columns(tmp_path: Path, kind: str) -> None:
    """`ID` is not `id`: with a row number for a unit, one person would count as many."""
    log = pl.DataFrame(
        {"user_ID": range(40), "user_id": [i // 10 for i in range(40)], "query": [f"q{i}" for i in range(40)]}
    )
    path = tmp_path / f"log.{kind}"
    log.write_csv(path) if kind == "csv" else log.write_parquet(path)
    kept = kept_or_refused(path, max_keys=2)
    assert kept == "refused" or len(kept) == 8


@pytest.mark.parametrize("kind", ["frame", "csv", "parquet"])
def test_a_unit_never_stands_in_the_place_of_a_key(tmp_path: Path, kind: str) -> None:
    """Where unit and key differ in case alone, what is counted is the key column."""
    log = pl.DataFrame({"User": ["secret-1", "secret-2"], "user": ["a", "b"]})
    source = {"frame": log, "csv": tmp_path / "log.csv", "parquet": tmp_path / "log.parquet"}[kind]
    if kind == "csv":
        log.write_csv(source)
    if kind == "parquet":
        log.write_parquet(source)
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
    """A folder `user_id=7` does not make all its rows those of user 7."""
    folder = tmp_path / f"{column}=7"
    folder.mkdir()
    log = pl.DataFrame({"user_id": ["1", "2", "3"], "query": ["a", "b", "c"]})
    path = folder / f"log.{kind}"
    log.write_csv(path) if kind == "csv" else log.write_parquet(path)
    assert kept_pairs(path) == set(log.rows())


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(("name", "other"), [("log[1]", "log1"), ("log*", "log-old"), ("log?", "logs")])
def test_a_file_with_a_pattern_for_a_name_is_that_file(tmp_path: Path, kind: str, name: str, other: str) -> None:
    """A file that exists under the name given is read, and no other that its name would match as a pattern."""
    for stem, key in ((name, "right"), (other, "wrong")):
        log = pl.DataFrame({"user_id": ["1"], "query": [key]})
        path = tmp_path / f"{stem}.{kind}"
        log.write_csv(path) if kind == "csv" else log.write_parquet(path)
    assert kept_pairs(tmp_path / f"{name}.{kind}") == {("1", "right")}


@pytest.mark.parametrize("kind", ["frame", "lazy", "parquet"])
@pytest.mark.parametrize(
    "dtype",
    [pl.Duration("ns"), pl.Duration("ms"), pl.Datetime("ns"), pl.Datetime("ns", "UTC"), pl.Time(), pl.Int128()],
    ids=str,
)
def test_units_of_any_resolution_stay_apart(tmp_path: Path, dtype: pl.DataType, kind: str) -> None:
    """Units that differ by a nanosecond are three units, or refused."""
    log = pl.DataFrame({"user_id": pl.Series([1, 2, 3]).cast(dtype), "query": ["a"] * 3})
    log.write_parquet(tmp_path / "log.parquet")
    source = {"frame": log, "lazy": log.lazy(), "parquet": tmp_path / "log.parquet"}[kind]
    counted = count(source)
    assert counted.frame["count"].to_list() == [3]


@pytest.mark.parametrize(
    "units",
    [["a", "a\0", "a ", " a", "A"], ["é", "e\u0301", "E\u0301", "É", "ﬁ"], ["1", "01", "+1", "1.0", "１"]],
    ids=["white space", "normal forms", "spellings of one"],
)
@pytest.mark.parametrize("kind", ["frame", "categorical", "csv", "parquet", "arrow dictionary"])
def test_units_that_look_alike_stay_apart(tmp_path: Path, units: list[str], kind: str) -> None:
    """No two texts are merged, whichever way they come in."""
    log = pl.DataFrame({"user_id": units, "query": ["a"] * len(units)})
    source: object = log
    if kind == "categorical":
        source = log.with_columns(pl.col("user_id").cast(pl.Categorical(pl.Categories.random())))
    elif kind == "csv":
        log.write_csv(tmp_path / "log.csv")
        source = tmp_path / "log.csv"
    elif kind == "parquet":
        log.write_parquet(tmp_path / "log.parquet")
        source = tmp_path / "log.parquet"
    elif kind == "arrow dictionary":
        table = log.to_arrow()
        source = table.set_column(0, "user_id", table["user_id"].combine_chunks().dictionary_encode())
    assert {unit for unit, _ in kept_or_refused(source)} == set(units)


def test_deleting_a_unit_that_shaped_a_dictionary_changes_nothing() -> None:
    """Codes by first appearance, in Polars, Arrow and DuckDB, do not decide which keys others keep."""
    users = [f"user{(i * i) % 7}" for i in range(60)]
    keys = [f"key{(i * 5) % 12}" for i in range(60)]

    def kept(pairs: list[tuple[str, str]]) -> set:
        categories = pl.Categories.random()
        log = pl.DataFrame(pairs, schema=["user_id", "query"], orient="row")
        return kept_pairs(
            log.cast(pl.Categorical(categories)), max_keys=2, domain=Domain.parse("strings(max_bytes=9)")
        )

    everything = list(zip(users, keys, strict=True))
    before = kept(everything)
    for gone in set(users):
        assert kept([pair for pair in everything if pair[0] != gone]) == {pair for pair in before if pair[0] != gone}
