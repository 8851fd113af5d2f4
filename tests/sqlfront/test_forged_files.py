"""Files that claim to be releases and are none: refused before they take memory, without what they hold."""

import json

import polars as pl
import pytest

import sparsehist as sh
from sparsehist.errors import InputError
from sparsehist.release import release_files
from sparsehist.sqlfront.analyst import open_analyst

GOOD = {"query": ["weather", "secretplum"], "noisy_count": [9.0, 4.0]}


@pytest.fixture(scope="module")
def metadata(tmp_path_factory):
    """The metadata of a release that was written, as its file has them."""
    place = tmp_path_factory.mktemp("release") / "good.parquet"
    with sh.open(":memory:", seed=3) as store:
        counts = sh.Counts(pl.DataFrame({"query": ["weather"], "n": [9000]}), count="n", largest=1)
        series = sh.create(store, counts, name="s", key="query", max_keys=1, domain=sh.Strings(max_bytes=8))
        series.release("r", level=1, threshold=100).write_parquet(place)
    return json.loads(pl.read_parquet_metadata(place)["sparsehist"])


def written(place, rows, metadata, **changed):
    """Write a file whose metadata were changed."""
    told = json.dumps({**metadata, **changed})
    pl.DataFrame(rows).write_parquet(place / "forged.parquet", metadata={"sparsehist": told})
    return place / "forged.parquet"


@pytest.mark.parametrize(
    ("rows", "changed", "reason"),
    [
        ({"query": [["secretplum"]], "noisy_count": [1.0]}, {}, "keys must be"),
        ({"query": ["a"], "noisy_count": ["secretplum"]}, {}, "not of numbers"),
        ({"query": ["a"], "noisy_count": [float("nan")]}, {}, "no finite number"),
        ({"query": ["a"], "noisy_count": [None]}, {}, "not of numbers"),
        ({"query": ["a"]}, {}, "no column noisy_count"),
        ({"noisy_count": [1.0]}, {}, "key column .* is missing"),
        (GOOD, {"threshold": float("nan")}, "'threshold' that is not of type"),
        (GOOD, {"threshold": "secretplum"}, "'threshold' that is not of type"),
        (GOOD, {"std": float("inf")}, "'std' that is not of type"),
    ],
)
def test_what_no_release_has_is_refused(tmp_path, metadata, rows, changed, reason):
    """By sh.read and by a session for readers, with the file's name and nothing of its rows."""
    file = written(tmp_path, rows, metadata, **changed)
    for reads in (sh.read, open_analyst):
        with pytest.raises(InputError, match=reason) as refused:
            reads(file)
        assert str(file) in str(refused.value)
        assert "secretplum" not in str(refused.value)
    assert sh.read(written(tmp_path, GOOD, metadata)).frame.height == 2


def test_a_file_that_claims_too_many_rows_is_refused_before_it_is_read(tmp_path, metadata, monkeypatch):
    """A megabyte of Parquet may stand for 10⁸ rows: the footer is enough to say no."""
    file = written(tmp_path, GOOD, metadata)
    monkeypatch.setattr(release_files, "MOST_ROWS", 1)
    monkeypatch.setattr(pl, "read_parquet", lambda *_, **__: pytest.fail("the rows were read"))
    with pytest.raises(InputError, match="2 rows, and at most 1 are read"):
        sh.read(file)


def test_an_unnamed_release_names_its_file(tmp_path, metadata):
    """In a directory of many files, the error says which one it is."""
    with pytest.raises(InputError, match=r"forged\.parquet"):
        open_analyst(written(tmp_path, GOOD, metadata, name=None))


def test_ends_of_ranges_may_be_texts(tmp_path, metadata):
    """In a release of a workload, low and high are keys."""
    rows = {"low": ["a"], "high": ["b"], "noisy_answer": [3.0], "std": [1.0]}
    told = {"kind": "workload", "workload": "ranges()", "strategy": "identity", "queries": "1", "cell_grid": None}
    told |= dict.fromkeys(("noise_std", "least_std", "sensitivity"), 1.0)
    assert sh.read(written(tmp_path, rows, metadata, **told)).frame.height == 1
