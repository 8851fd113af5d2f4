"""Files that falsely claim to be releases are refused early, and errors show nothing of their content."""

import json

import polars as pl
import pytest

import sparsehist as sh
from sparsehist.errors import InputError
from sparsehist.release import release_files
from sparsehist.sqlfront.analyst import open_analyst

GOOD = {"query": ["weather", "secretplum"], "noisy_count": [9.0, 4.0]}


@pytest.fixture
def written(tmp_path):
    """Return a function that writes a release file with the given rows and altered metadata."""
    counts = sh.Counts(pl.DataFrame({"query": ["weather"], "n": [9000]}), count="n", largest=1)
    series = sh.create(":memory:", counts, name="s", key="query", max_keys=1, domain=sh.Strings(max_bytes=8))
    file = tmp_path / "forged.parquet"
    series.release("r", level=1, threshold=100).write_parquet(file)
    metadata = json.loads(pl.read_parquet_metadata(file)["sparsehist"])

    def write(rows, **changed):
        told = json.dumps({**metadata, **changed})
        pl.DataFrame(rows).write_parquet(file, metadata={"sparsehist": told})
        return file

    return write


@pytest.mark.parametrize(
    ("rows", "changed", "reason"),
    [
        ({"query": [["secretplum"]], "noisy_count": [1.0]}, {}, "keys must be"),
        ({"query": ["a"], "noisy_count": ["secretplum"]}, {}, "does not contain numbers"),
        ({"query": ["a"], "noisy_count": [float("nan")]}, {}, "not a finite number"),
        ({"query": ["a"]}, {}, "no column noisy_count"),
        ({"noisy_count": [1.0]}, {}, "key column .* is missing"),
        (GOOD, {"threshold": float("nan")}, "wrong type: 'threshold' must be"),
        (GOOD, {"std": "secretplum"}, "wrong type: 'std' must be"),
        (GOOD, {"name": None}, "forged"),
    ],
)
def test_a_file_that_is_no_release_is_refused(written, rows, changed, reason):
    """`sh.read` and analyst sessions refuse a forged release file; the error names the file but shows no row."""
    file = written(rows, **changed)
    for read, path in ((sh.read, file), (open_analyst, file.parent)):
        with pytest.raises(InputError, match=reason) as refused:
            read(path)
        assert str(file) in str(refused.value)
        assert "secretplum" not in str(refused.value)


def test_a_file_that_claims_too_many_rows_is_refused_by_its_footer(written, monkeypatch):
    """A file with too many rows is refused before its rows are read, because even a small file can hold 10⁸ rows."""
    file = written(GOOD)
    assert sh.read(file).frame.height == 2
    monkeypatch.setattr(release_files, "MOST_ROWS", 1)
    monkeypatch.setattr(pl, "read_parquet", lambda *_, **__: pytest.fail("the rows were read"))
    with pytest.raises(InputError, match="got 2, limit 1"):
        sh.read(file)
