"""Stores and files that the first version of format 1 wrote can still be opened and continued."""

import tarfile

import polars as pl
import pytest

import sparsehist as sh
from sparsehist.errors import StoreRolledBackError
from tests.store.format_1 import ARCHIVE, DAYS, FINER, LEVEL, log


@pytest.fixture
def place(tmp_path):
    """Unpack the archived store, and adopt it because its path has changed."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    (tmp_path / "store").chmod(0o700)
    with pytest.raises(StoreRolledBackError):
        sh.open(tmp_path / "store")
    sh.adopt(tmp_path / "store", home_is_gone=True)
    return tmp_path


def test_a_store_of_format_1_is_opened_and_goes_on(place):
    """Releases of an old store equal their published files, and new releases and appends succeed."""
    store = sh.open(place / "store")
    with store.hold() as state:
        state.verify()
    before = store.ledger(full=True)
    for published in sorted(place.glob("*.parquet")):
        if published.name != "keys.parquet":
            read = sh.read(published)
            about = read.metadata
            if about["series"] != "gone":
                again = store.series(about["series"]).release(about["name"])
                assert again.repeated and again.frame.equals(read.frame), published.name
    assert store.ledger(full=True).equals(before)
    for name in store.series_names():
        series = store.series(name)
        if name not in ("daily", "opened"):
            finer = series.release("finer", level="2.5" if name.startswith("weekly") else "3")
            assert set(series.release("again", level=LEVEL).frame.columns) == set(finer.frame.columns)
    assert store.series("listed").interactive("ad_hoc").answers.height == 1
    daily = store.series("daily")
    assert daily.append(log().filter(day=DAYS[0]), step=1) is False
    assert daily.append(log().filter(day=DAYS[1]), step=3) is True
    assert daily.release("finer", step=3, level=FINER).metadata["step"] == 3
    weekly, later = store.series("weekly"), log().with_columns(day=pl.lit("2026-03-24"))
    assert weekly.appended() == ["2026-W11", "2026-W12"]
    weekly.append(later, period="2026-W13").release("public", level=LEVEL)
