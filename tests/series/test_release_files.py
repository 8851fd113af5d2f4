"""A release is written as the file's name says, with its metadata where the format has a place for it."""

from __future__ import annotations

import json
from datetime import date

import polars as pl
import pyarrow as pa
import pytest

import sparsehist as sh
from sparsehist.cli.entry import run


@pytest.fixture(scope="module")
def series(tmp_path_factory):
    """A series with keys that strangers chose."""
    keys = ["=cmd|' /C calc'!A0", "a\u202eb", "</script>", "/plain"]
    log = pl.DataFrame({"user": range(800), "url": [keys[i % 4] for i in range(800)]})
    series = sh.create(
        tmp_path_factory.mktemp("files") / "s", log, name="visits", unit="user", key="url", max_keys=1,
        domain=sh.Strings(max_bytes=20),
    )  # fmt: skip
    series.release("public", level=1)
    return series


def _read(path):
    if path.suffix == ".json":
        return pl.DataFrame(json.loads(path.read_text())["rows"])
    readers = {".parquet": pl.read_parquet, ".csv": pl.read_csv, ".arrow": pl.read_ipc}
    return readers[path.suffix](path.read_bytes())


@pytest.mark.parametrize("ending", ["parquet", "json", "arrow", "csv"])
def test_every_ending_holds_the_rows(series, tmp_path, ending):
    """The same rows, from Python and from the command line, byte for byte; again is no error; the ledger lists it."""
    release = series.release("public")
    target = tmp_path / f"x.{ending}"
    release.write(target)
    release.write(target)
    found = _read(target)
    if ending == "csv":
        found = found.with_columns(pl.col("url").str.strip_prefix("'"))
    assert found.equals(release.frame)
    assert (tmp_path / "sparsehist-ledger.json").is_file()
    other = tmp_path / f"y.{ending}"
    assert (
        run(["release", str(series.store.path), "--series", "visits", "--name", "public", "--out", str(other)]) == 0
    )
    assert other.read_bytes() == target.read_bytes()
    third = tmp_path / f"z.{ending}"
    sh.sql(f"RELEASE public FROM visits TO '{third}'", store=series.store)
    assert third.read_bytes() == target.read_bytes()
    target.write_bytes(b"something else")
    with pytest.raises(sh.errors.InputError, match="is not this release"):
        release.write(target)


def test_json_and_arrow_carry_the_metadata(series, tmp_path):
    """As JSON that any reader takes, and in the schema of the Arrow file."""
    release = series.release("public")
    release.write(tmp_path / "x.json")
    assert json.loads((tmp_path / "x.json").read_text())["metadata"] == release.metadata
    release.write(tmp_path / "x.arrow")
    with pa.ipc.open_file(tmp_path / "x.arrow") as file:
        told = json.loads(file.schema.metadata[b"sparsehist"])
    assert told == {"format": 1, **release.metadata}


def test_days_and_bytes_have_a_json(tmp_path):
    """Dates as ISO text, bytes as hexadecimal."""
    frame = pl.DataFrame({"day": [date(2026, 1, 31)], "id": [b"\x00\xff"], "noisy_count": [2.5]})
    sh.Release(frame, {"name": "x"}).write(tmp_path / "x.json")
    assert json.loads((tmp_path / "x.json").read_text())["rows"] == [
        {"day": "2026-01-31", "id": "00ff", "noisy_count": 2.5}
    ]
