"""Tests of creating a series, making releases that never change, and writing them to files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import sparsehist as sh
from sparsehist.errors import (
    DataError,
    DeclarationError,
    DomainError,
    InputError,
    LevelError,
    NameTakenError,
    NotFoundError,
    ThresholdError,
)
from tests.series.in_memory import over_log

SECRET = "zz-secret-"


def a_log(units: int = 3000, seed: int = 1) -> pl.DataFrame:
    """Return a log in which each unit has a few popular keys, and one key that no other unit has."""
    rng = np.random.default_rng(seed)
    popular = np.minimum(rng.zipf(1.5, units * 3), 40)
    users = np.repeat(np.arange(units), 3)
    own = pl.DataFrame({"user": np.arange(units), "key": [f"{SECRET}{i}" for i in range(units)]})
    return pl.concat([pl.DataFrame({"user": users, "key": [f"/page/{p}" for p in popular]}), own])


def a_series(store: str | Path = ":memory:", **changes: object) -> sh.Series:
    """Create a series over all strings of at most 16 bytes."""
    declared: dict = {
        "name": "visits", "unit": "user", "key": "key", "max_keys": 4, "domain": sh.Strings(max_bytes=16),
    }  # fmt: skip
    log = changes.pop("log", None)
    home = sh.open(store, seed=7) if store == ":memory:" else store
    return sh.create(home, a_log() if log is None else log, **(declared | changes))  # type: ignore[return-value, arg-type]


def test_a_name_that_exists_gives_the_same_release_for_ever(tmp_path: Path) -> None:
    """A later release never changes an earlier release, and a used name is refused for other parameters."""
    series = a_series(tmp_path / "store")
    first = series.release("one", level="0.1", false_keys=2)
    series.release("two", level="0.7", threshold=20)
    series.release("three", level="0.02", false_keys=3)
    lower = series.release("lower", level="0.1", false_keys=20).frame
    assert lower.join(first.frame, on=first.frame.columns, how="semi").height == first.frame.height < lower.height
    again = sh.open(tmp_path / "store").series("visits")
    for release in (again.release("one"), again.release("one", level=0.1, false_keys=2)):
        assert release.frame.equals(first.frame)
        assert release.metadata == first.metadata
    with pytest.raises(NameTakenError, match=r"level='0\.1'"):
        again.release("one", level="0.2")


def test_a_product_domain_has_several_key_columns() -> None:
    """Releases over a product domain have a column for each part of the key, and sort rows of equal counts by key."""
    log = pl.DataFrame({"unit": range(4000), "row": np.arange(4000) % 40, "index": np.arange(4000) % 3})
    domain = sh.Product(row=sh.Integers(40), index=sh.Integers(-1, 3))
    series = over_log(log, key=["row", "index"], noise="discrete_laplace", domain=domain)
    frame = series.release("all", level=3, threshold=-1e6).frame
    assert frame.height == domain.size and frame.columns == ["row", "index", "noisy_count"]
    assert frame["noisy_count"].n_unique() < 60
    assert frame.equals(frame.sort(["noisy_count", "row", "index"], descending=[True, False, False]))


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        ({"level": "1e9"}, LevelError),
        ({"level": 1, "threshold": float("nan")}, DeclarationError),
        ({"level": 1, "threshold": 3.0}, ThresholdError),
        ({"level": 1, "false_keys": 30, "max_false_keys": 10}, ThresholdError),
        ({}, NotFoundError),
    ],
)
def test_a_bad_request_is_refused_before_anything_is_drawn(request_: dict, error: type[Exception]) -> None:
    """An invalid release request is refused, spends nothing and leaves its name free."""
    series = a_series()
    with pytest.raises(error):
        series.release("one", **request_)
    assert series.store.ledger(full=True)["releases"].to_list() == [0] * 4
    assert series.release("one", level=1).name == "one"


HUGE = sh.Counts(pl.DataFrame({"key": ["a"], "count": [2**53 + 1]}), largest=1)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"unit": "nobody"}, DeclarationError),
        ({"cap": 0}, LevelError),
        ({"domain": "strings(max_bytes=4096)"}, DomainError),
        ({"domain": sh.Integers(5)}, DataError),
        ({"log": HUGE, "unit": None}, DataError),
        ({"noise": sh.noise.Laplace(2.0)}, DeclarationError),
    ],
)
def test_a_bad_declaration_is_refused_and_leaves_no_series(
    tmp_path: Path, wrong: dict, error: type[Exception]
) -> None:
    """An invalid declaration or a count above 2^53 is refused, and no series is created."""
    with pytest.raises(error):
        a_series(tmp_path / "store", **wrong)
    assert sh.open(tmp_path / "store", create=True).series_names() == []


def test_the_ledger_fits_a_screen_unless_all_of_it_is_asked_for() -> None:
    """By default, the ledger has eight columns, which fit the screen; the column `limit` shows caps and budgets."""
    series = a_series(cap=1)
    series.store.set_budget(rho=2)
    series.release("first", level="0.5")
    ledger = series.store.ledger()
    assert ledger.columns == ["scope", "population", "series", "path", "level", "epsilon", "limit", "remaining"]
    assert "…" not in str(ledger).splitlines()[1]
    limits = dict(ledger.filter(pl.col("scope") != "path").select("scope", "limit").rows())
    assert limits == {"series": "1", "population": "rho 2", "everybody": None}


def string_bytes(frame: pl.DataFrame) -> bytes:
    """Return the bytes in all memory buffers of a frame's strings, including bytes that belong to no row."""
    arrays = [chunk for column in frame.to_arrow(compat_level=pl.CompatLevel.newest()) for chunk in column.chunks]
    return b"".join(bytes(buffer) for array in arrays for buffer in array.buffers()[2:] if buffer)


def test_the_memory_behind_a_release_is_a_function_of_its_rows() -> None:
    """The string buffers of a release contain only the published keys, in the order of its rows."""
    log = pl.DataFrame({"unit": np.arange(6000), "key": [f"{7**30 % (10**15 + u % 40):020d}" for u in range(6000)]})
    series = over_log(log, seed=5, domain=sh.Strings(max_bytes=24, alphabet="digits"))
    wide = series.release("wide", level="0.05", false_keys=300)
    narrow = series.release("narrow", level="0.1", false_keys=1)
    assert wide.frame.height > narrow.frame.height + 200
    for release in (wide, narrow):
        keys = [key for key in release.frame["key"] if len(key) > 12]
        assert "".join(keys).encode() == string_bytes(release.frame)
    reordered = wide.frame.sort("key")
    assert "".join(reordered["key"]).encode() != string_bytes(reordered), "sorting alone moves no string"


def test_keys_like_formulas_are_written_so_that_no_spreadsheet_runs_them(tmp_path: Path) -> None:
    """CSV files escape keys that a spreadsheet would run as formulas, and the escapes can be undone."""
    keys = ["=cmd|'/c calc'!A1", "+1", "-1", "@x", "\t=1", "\r=1", "'=1", "'", "\uff1d1", "plain", 'a,"b"\n=c', "é"]
    keys += ["a\x1b[2J", "a\\x1b[2J", "\x9b2J", "\x7f", "\\", "'\x1b"]
    log = pl.DataFrame({"user": range(100 * len(keys)), "key": keys * 100})
    release = a_series(tmp_path / "s", log=log, max_keys=1, domain=sh.Strings(max_bytes=24)).release("one", level=50)
    release.write(tmp_path / "one.csv")
    back = pl.read_csv(tmp_path / "one.csv")
    assert not back.filter(pl.col("key").str.contains(r"^[=+\-@\t\r\uff1d]")).height
    assert not back.filter(pl.col("key").str.contains(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")).height
    undone = [
        re.sub(r"\\(?:x(..)|\\)", lambda found: chr(int(found[1] or "5c", 16)), key.removeprefix("'"))
        for key in back["key"]
    ]
    plain = back.with_columns(key=pl.Series(undone))
    assert plain.equals(release.frame) and set(keys) <= set(plain["key"])
    release.write(tmp_path / "raw.csv", spreadsheet_safe=False)
    assert pl.read_csv(tmp_path / "raw.csv").equals(release.frame)


@pytest.mark.parametrize("ending", ["parquet", "json", "arrow", "csv"])
def test_every_ending_holds_the_rows(tmp_path: Path, ending: str) -> None:
    """Every file format stores the rows of a release, and its metadata if the format supports metadata."""
    series = a_series(tmp_path / "store")
    release = series.release("public", level=1)
    target = tmp_path / f"x.{ending}"
    release.write(target)
    release.write(target)
    if ending == "json":
        content = json.loads(target.read_text())
        assert content["metadata"] == release.metadata
        found = pl.DataFrame(content["rows"])
    else:
        readers = {"parquet": pl.read_parquet, "csv": pl.read_csv, "arrow": pl.read_ipc}
        found = readers[ending](target.read_bytes())
    assert found.equals(release.frame)
    if ending == "arrow":
        with pa.ipc.open_file(target) as file:
            assert json.loads(file.schema.metadata[b"sparsehist"]) == {"format": 1, **release.metadata}
    assert (tmp_path / "sparsehist-ledger.json").read_text().count('"release"') == 1
    target.write_bytes(b"something else")
    with pytest.raises(InputError, match="is not this release"):
        release.write(target)


def test_nothing_public_is_written_into_the_store(tmp_path: Path) -> None:
    """A release or backup cannot be written into the store's directory, which contains secrets."""
    series = a_series(tmp_path / "store")
    inside = tmp_path / "store" / "public"
    with pytest.raises(DeclarationError, match="is inside the store"):
        series.release("public", level=1).write_parquet(f"{inside}.parquet")
    with pytest.raises(DeclarationError, match="is inside the store"):
        series.store.backup(inside)
    assert not list(inside.parent.glob("public*"))


def test_the_name_of_a_release_is_text() -> None:
    """A data frame that is passed as the name of a release must be refused with an error about the name."""
    with pytest.raises(DeclarationError, match="the name of a release must be"):
        a_series().release(pl.DataFrame({"a": [1]}), level=1)


def test_a_seed_is_for_stores_in_memory_only(tmp_path: Path) -> None:
    """Two stores in memory with the same seed give the same releases; a store on disk refuses a seed."""
    assert a_series().release("one", level=1).frame.equals(a_series().release("one", level=1).frame)
    with pytest.raises(DeclarationError, match="memory"):
        sh.open(tmp_path / "store", create=True, seed=7)
    assert list(tmp_path.iterdir()) == []
