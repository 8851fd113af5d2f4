"""The main job end to end: a log becomes a series, and a series several lossless releases that never change."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
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

SECRET = "zz-secret-"


def a_log(units: int = 3000, seed: int = 1) -> pl.DataFrame:
    """Units that visit a few popular keys and one secret key of their own."""
    rng = np.random.default_rng(seed)
    popular = np.minimum(rng.zipf(1.5, units * 3), 40)
    users = np.repeat(np.arange(units), 3)
    own = pl.DataFrame({"user": np.arange(units), "key": [f"{SECRET}{i}" for i in range(units)]})
    return pl.concat([pl.DataFrame({"user": users, "key": [f"/page/{p}" for p in popular]}), own])


def a_series(store: str | Path = ":memory:", **changes: object) -> sh.Series:
    """A series over all strings of at most 16 bytes."""
    declared: dict = {
        "name": "visits", "unit": "user", "key": "key", "max_keys": 4, "domain": sh.Strings(max_bytes=16),
    }  # fmt: skip
    return sh.create(sh.open(store, seed=7) if store == ":memory:" else store, a_log(), **(declared | changes))  # type: ignore[arg-type]


def test_three_releases_out_of_order_cost_what_the_finest_costs(tmp_path: Path) -> None:
    """Levels in any order; the ledger shows the finest for the path, the series and the population."""
    series = a_series(tmp_path / "store")
    for name, level in (("public", "0.01"), ("partner", "1/2"), ("internal", "0.1")):
        release = series.release(name, level=level, false_keys=0.5)
        assert release.metadata["expected_false_keys"] <= 0.5
        assert release.frame.columns == ["key", "noisy_count"]
    ledger = sh.open(tmp_path / "store").ledger(full=True)
    assert ledger["scope"].to_list() == ["path", "series", "population", "everybody"]
    assert ledger["level"].to_list() == ["0.5"] * 4
    assert ledger["releases"].to_list() == [3] * 4


def test_a_name_that_exists_gives_the_same_release_for_ever(tmp_path: Path) -> None:
    """Also after other levels and a lower threshold at its own came, after reopening, with or without parameters."""
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
    """Columns come back under their input names; false keys are cells of the product."""
    log = a_log().filter(~pl.col("key").str.starts_with(SECRET)).with_columns(
        day=(pl.col("user") % 3).cast(pl.Int32), key=pl.col("key").str.slice(6)
    )  # fmt: skip
    domain = sh.Product(day=sh.Integers(0, 6), key=sh.Strings(max_bytes=2, alphabet="0123456789"))
    series = sh.create(
        sh.open(":memory:", seed=3), log, name="daily", unit="user", key=["day", "key"], max_keys=3, domain=domain
    )
    frame = series.release("all", level="0.2", false_keys=5).frame
    assert frame.columns == ["day", "key", "noisy_count"]
    assert frame["day"].is_between(0, 6).all()
    assert series.release("whole", level="0.1", threshold=-1e5).frame.height == domain.size


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        ({"level": float("nan")}, LevelError),
        ({"level": 1, "threshold": float("nan")}, DeclarationError),
        ({"level": 1, "threshold": 1e300}, ThresholdError),
        ({"level": "1e9"}, LevelError),
        ({"level": 1, "threshold": 5, "false_keys": 1}, DeclarationError),
        ({"level": 1, "false_keys": 0}, ThresholdError),
        ({"level": 1, "threshold": 3.0}, ThresholdError),
        ({"level": 1, "false_keys": 30, "max_false_keys": 10}, ThresholdError),
        ({}, NotFoundError),
    ],
)
def test_a_bad_request_is_refused_before_anything_is_drawn(request_: dict, error: type[Exception]) -> None:
    """Nothing is spent, and the same name can still be used."""
    series = a_series()
    with pytest.raises(error):
        series.release("one", **request_)
    assert series.store.ledger(full=True)["releases"].to_list() == [0] * 4
    assert series.release("one", level=1).name == "one"


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"unit": "nobody"}, DeclarationError),
        ({"if_exists": "replace"}, DeclarationError),
        ({"cap": 0}, LevelError),
        ({"domain": "strings(max_bytes=0)"}, DomainError),
        ({"domain": sh.Integers(5)}, DataError),
    ],
)
def test_a_bad_declaration_is_refused_and_leaves_no_store(
    tmp_path: Path, wrong: dict, error: type[Exception]
) -> None:
    """The directory is as it was."""
    with pytest.raises(error):
        a_series(tmp_path / "store", **wrong)
    assert list(tmp_path.iterdir()) == []


def string_bytes(frame: pl.DataFrame) -> bytes:
    """All bytes of the buffers behind a frame's strings, published or not."""
    arrays = [chunk for column in frame.to_arrow(compat_level=pl.CompatLevel.newest()) for chunk in column.chunks]
    return b"".join(bytes(buffer) for array in arrays for buffer in array.buffers()[2:] if buffer)


def test_the_memory_behind_a_release_is_a_function_of_its_rows() -> None:
    """No false key of another release stands in it, and strings lie in row order, not in that of true counts."""
    log = pl.DataFrame({"user": np.arange(6000), "key": [f"{7**30 % (10**15 + u % 40):020d}" for u in range(6000)]})
    domain = sh.Strings(max_bytes=24, alphabet="digits")
    series = sh.create(
        sh.open(":memory:", seed=5), log, name="long", unit="user", key="key", max_keys=1, domain=domain
    )
    wide = series.release("wide", level="0.05", false_keys=300)
    narrow = series.release("narrow", level="0.1", false_keys=1)
    assert wide.frame.height > narrow.frame.height + 200
    for release in (wide, narrow):
        keys = [key for key in release.frame["key"] if len(key) > 12]
        assert "".join(keys).encode() == string_bytes(release.frame)
    reordered = wide.frame.sort("key")
    assert "".join(reordered["key"]).encode() != string_bytes(reordered), "sorting alone moves no string"


def test_keys_like_formulas_are_written_so_that_no_spreadsheet_runs_them(tmp_path: Path) -> None:
    """Nor obeyed by a terminal; what is added can be taken off again; numbers and the ledger are as ever."""
    keys = ["=cmd|'/c calc'!A1", "+1", "-1", "@x", "\t=1", "\r=1", "'=1", "'", "\uff1d1", "plain", 'a,"b"\n=c', "é"]
    keys += ["a\x1b[2J", "a\\x1b[2J", "\x9b2J", "\x7f", "\\", "'\x1b"]
    log = pl.DataFrame({"user": range(100 * len(keys)), "key": keys * 100})
    series = sh.create(
        tmp_path / "s", log, name="visits", unit="user", key="key", max_keys=1, domain=sh.Strings(max_bytes=24)
    )
    release = series.release("one", level=50)
    release.write_csv(tmp_path / "one.csv")
    release.write_csv(tmp_path / "one.csv")
    back = pl.read_csv(tmp_path / "one.csv")
    assert not back.filter(pl.col("key").str.contains(r"^[=+\-@\t\r\uff1d]")).height
    assert not back.filter(pl.col("key").str.contains(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")).height
    undone = [
        re.sub(r"\\(?:x(..)|\\)", lambda found: chr(int(found[1] or "5c", 16)), key.removeprefix("'"))
        for key in back["key"]
    ]
    plain = back.with_columns(key=pl.Series(undone))
    assert plain.equals(release.frame) and set(keys) <= set(plain["key"])
    release.write_csv(tmp_path / "raw.csv", spreadsheet_safe=False)
    assert pl.read_csv(tmp_path / "raw.csv").equals(release.frame)
    assert (tmp_path / "sparsehist-ledger.json").read_text().count('"release"') == 1
    with pytest.raises(InputError, match="is not this release"):
        series.release("two", level=1).write_csv(tmp_path / "one.csv")
    for write, name in ((release.write_parquet, "p.csv"), (release.write_csv, "p.parquet"), (release.write, "p.txt")):
        with pytest.raises(DeclarationError, match="must end in"):
            write(tmp_path / name)
    release.write(tmp_path / "p.pq")
    assert sh.read(tmp_path / "p.pq").frame.equals(release.frame)


def test_a_seed_is_for_stores_in_memory_only(tmp_path: Path) -> None:
    """Two stores in memory with one seed agree; a store on disk refuses a seed."""
    assert a_series().release("one", level=1).frame.equals(a_series().release("one", level=1).frame)
    with pytest.raises(DeclarationError, match="memory"):
        sh.open(tmp_path / "store", create=True, seed=7)
    assert list(tmp_path.iterdir()) == []
