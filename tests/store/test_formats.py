"""Stores of released formats stay readable; `python -m tests.store.test_formats PLACE` makes one of today's."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import polars as pl
import pytest

import sparsehist as sh
from sparsehist.errors import StoreRolledBackError
from sparsehist.store.layout import FORMAT_VERSION

FIXTURES = Path(__file__).parents[1] / "data"


def make(place: Path) -> None:
    """A store with a series, three releases of its cells, one of a workload, a budget and a dropped series."""
    (place / "published").mkdir(parents=True)
    counts = sh.Counts(pl.DataFrame({"word": [f"word {i}" for i in range(40)], "count": range(40, 0, -1)}))
    words = pl.Series([f"word {i}" for i in range(50)])
    declared = {"key": "word", "max_keys": 2, "domain": sh.Catalogue(words), "who": "curator"}
    store = sh.open(place / "store", create=True)
    store.set_budget("default", rho=5, who="curator")
    for name in ("words", "dropped"):
        series = sh.create(store, counts, name=name, cap=2, **declared)
        for level, threshold in (("1/10", 20), ("1", 5), ("1/2", 5)):
            released = series.release(
                f"at_{level.replace('/', '_')}", level=level, threshold=threshold, who="curator"
            )
            released.write_parquet(place / "published" / f"{name}_{released.name}.parquet")
    sums = store.series("words").release_workload("sums", "prefix()", level="1/4", who="curator")
    sums.write_parquet(place / "published" / "words_sums.parquet")
    store.drop("dropped", who="curator")
    for name in ("lock", "tmp"):
        path = place / "store" / name
        path.unlink() if path.is_file() else path.rmdir()


@pytest.mark.parametrize("version", range(1, FORMAT_VERSION + 1))
def test_a_store_of_an_earlier_format_goes_on(tmp_path, version):
    """Taken where it stands now, it gives every release as it left, shows what was spent, and releases again."""
    place = tmp_path / "place"
    shutil.copytree(FIXTURES / f"store_of_format_{version}", place)
    store, published = place / "store", place / "published"
    assert json.loads((store / "format").read_text())["sparsehist store"] == version
    with pytest.raises(StoreRolledBackError, match="copy"):
        sh.open(store)
    sh.migrate(store)
    sh.adopt(store)
    opened = sh.open(store)
    with opened._hold() as state:
        state.verify()
    series = opened.series("words")
    files = sorted(published.glob("words_*.parquet"))
    assert len(files) == 4
    for file in files:
        left = sh.read(file)
        again = series.release_workload(left.name) if left.name == "sums" else series.release(left.name)
        assert again.frame.equals(left.frame) and again.metadata == left.metadata
    with sh.open_analyst(published) as session:
        assert session.tables().height == 8
    spent = opened.ledger().filter(pl.col("scope") == "everybody")
    assert spent["level"].to_list() == ["2.25"] and spent["releases"].to_list() == [7]
    before = series.release("at_1").frame
    finer = series.release("finer", level="3/2", threshold=5)
    assert finer.frame.height > 0 and series.release("at_1").frame.equals(before)
    finer.write_parquet(published / "finer.parquet")


if __name__ == "__main__":
    make(Path(sys.argv[1]))
