"""Tests of declared file formats: text columns, delimiters, Hive folders, JSON lines and key types."""

from __future__ import annotations

import datetime as dt
import gzip
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest

import sparsehist as sh
from sparsehist.counting import count_keys
from sparsehist.errors import DataError, DeclarationError


def counted(source: object, directory: Path, domain: sh.Domain, **options: object) -> dict:
    """Return a dict from each key of a source to its number of privacy units."""
    options = {"unit": "user", "key": ["key"], "max_keys": 5, **options}
    found = count_keys(source, domain=domain, salt=bytes(16), temporary_directory=directory, **options)  # type: ignore[call-overload]
    return {row[:-1] if len(row) > 2 else row[0]: row[-1] for row in found.frame.rows()}


def test_a_delimiter_is_declared(tmp_path: Path) -> None:
    """A CSV delimiter other than the comma must be declared, as one ASCII character, and is never guessed."""
    log = tmp_path / "log.csv"
    log.write_text('user;key\n1;"a;b"\n2;c,d\n')
    assert counted(sh.Files(log, delimiter=";"), tmp_path, sh.Strings(max_bytes=4)) == {"a;b": 1, "c,d": 1}
    with pytest.raises(DeclarationError, match="1 field"):
        counted(log, tmp_path, sh.Strings(max_bytes=4))
    with pytest.raises(DeclarationError, match="one ASCII character"):
        sh.Files(log, delimiter="é")


def test_json_lines_are_text_as_csv_is(tmp_path: Path) -> None:
    """Values in JSON lines are read as text, absent fields are null, and error messages never quote a value."""
    log = tmp_path / "log.jsonl.gz"
    lines = '{"user": 1, "key": 5, "more": {"x": []}}\n{"key": "5", "user": "1"}\n{"user": "planted"}\n'
    log.write_bytes(gzip.compress(lines.encode()))
    with pytest.raises(DataError, match="null, NaN or empty") as refused:
        counted(log, tmp_path, sh.Integers(10))
    assert "planted" not in str(refused.value)
    assert counted(log, tmp_path, sh.Integers(10), on_null="drop") == {5: 1}


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_columns_in_names_of_folders(tmp_path: Path, ending: str) -> None:
    """Declared Hive columns are read from the names of folders, such as `day=2024-01-01`."""
    for day, place, users in (("2024-01-01", "a b", [1, 2]), ("2024-01-02", "c%20d", [2]), ("2024-01-02", "x", [3])):
        folder = tmp_path / "log" / f"day={day}" / f"place={place}"
        folder.mkdir(parents=True)
        getattr(pl.DataFrame({"user": users}), f"write_{ending}")(folder / f"part.{ending}")
    pattern = str(tmp_path / "log" / "**" / f"*.{ending}")
    source = sh.Files(pattern, hive=["day", "place"])
    days = sh.Dates("2024-01-01", "2024-01-31")
    first, second = dt.date(2024, 1, 1), dt.date(2024, 1, 2)
    assert counted(source, tmp_path, days, key=["day"]) == {first: 2, second: 2}
    both = sh.Product(place=sh.Strings(max_bytes=8), day=days)
    assert counted(source, tmp_path, both, key=["place", "day"]) == {
        ("a b", first): 2, ("c d", second): 1, ("x", second): 1,
    }  # fmt: skip
    with pytest.raises(DataError, match="a folder for each hive= column; hour=… is missing"):
        counted(sh.Files(pattern, hive=["hour"]), tmp_path, days, key=["hour"])


@pytest.mark.parametrize("form", ["frame", "csv"])
def test_keys_become_what_they_are_declared_to_be(tmp_path: Path, form: str) -> None:
    """`key_types` turns timestamps into days, booleans and decimals into text, and whole decimals into integers."""
    noon = dt.datetime.fromisoformat("2024-01-02T12:30")
    prices = pl.Series([Decimal("2.00"), Decimal("2.50"), Decimal("10.00")], dtype=pl.Decimal(9, 2))
    times = [noon, noon.replace(hour=23, minute=59, second=59, microsecond=999999), noon.replace(day=3)]
    frame = pl.DataFrame({"user": [1, 2, 3], "time": times, "flag": [True, False, True], "price": prices})
    source: object = frame
    if form == "csv":
        source = tmp_path / "log.csv"
        frame.write_csv(source)
    day, flags, texts = dt.date(2024, 1, 2), sh.Catalogue(["true", "false"]), sh.Strings(max_bytes=5)
    for key, kind, domain, expected in (
        ("time", "date", sh.Dates("2024-01-01", "2024-01-31"), {day: 2, day.replace(day=3): 1}),
        ("flag", "text", flags, {"true": 2, "false": 1}),
        ("price", "integer", sh.Integers(20), {2: 1, 10: 1}),
        ("price", "text", texts, {"2.00": 1, "2.50": 1, "10.00": 1}),
    ):
        options = {"key": [key], "key_types": {key: kind}, "on_outside": "drop"}
        assert counted(source, tmp_path, domain, **options) == expected


@pytest.mark.parametrize("content", [b"key\n\xff\n", b'key\n"a\n', b"other\n1\n", b""])
@pytest.mark.parametrize("hive", ["user", "hour"])
def test_no_error_shows_what_names_of_folders_hold(tmp_path: Path, content: bytes, hive: str) -> None:
    """No error about a file shows the value in the name of a Hive folder, because it may be a unit or a key."""
    folder = tmp_path / "log" / "user=planted"
    folder.mkdir(parents=True)
    (folder / "part.csv").write_bytes(content)
    with pytest.raises(sh.errors.InputError) as refused:
        counted(sh.Files(tmp_path / "log/*/*.csv", hive=[hive]), tmp_path, sh.Strings(max_bytes=4))
    assert "planted" not in str(refused.value)
