"""The digest of a release covers exactly the content of the release, and stays the same in all versions."""

from __future__ import annotations

import polars as pl
import pytest

import sparsehist as sh
from sparsehist.errors import InputError
from sparsehist.ledger.content_digest import content_digest

FRAME = pl.DataFrame({"key": ["a", None, "é"], "noisy_count": [1.5, 2.0, None], "n": [1, 2, 3]})
ABOUT = {"name": "public", "level": "0.1", "columns": [1, 2.5, None, True]}


@pytest.mark.parametrize(
    ("frame", "metadata"),
    [
        (FRAME.with_columns(pl.col("n") + 1), ABOUT),
        (FRAME.with_columns(pl.col("n").cast(pl.Int32)), ABOUT),
        (FRAME.with_columns(pl.col("key").fill_null("")), ABOUT),
        (FRAME.with_columns(pl.col("noisy_count").fill_null(0.0)), ABOUT),
        (FRAME.rename({"key": "keys"}), ABOUT),
        (FRAME[::-1], ABOUT),
        (FRAME[:2], ABOUT),
        (FRAME.select("noisy_count", "key", "n"), ABOUT),
        (FRAME, ABOUT | {"level": "0.2"}),
        (FRAME, ABOUT | {"level": 0.1}),
        (FRAME, ABOUT | {"more": None}),
        (FRAME, ABOUT | {"columns": [1, 2.5, None, 1]}),
    ],
)
def test_every_change_changes_the_digest(frame, metadata):
    """The digest of a release depends on all values, types, nulls and names, on their order, and on the metadata."""
    assert content_digest(frame, metadata) != content_digest(FRAME, ABOUT)


def test_the_digest_does_not_depend_on_chunks_or_on_the_order_of_metadata():
    """Equal content has the same digest in all package versions; chunks and the order of metadata do not matter."""
    digest = content_digest(FRAME, ABOUT)
    assert digest == "11ae5910009c1699d2a0778dc196d2577329160a9ef304a626789884922ae787"
    assert content_digest(pl.concat([FRAME[:1], FRAME[1:]], rechunk=False), dict(reversed(ABOUT.items()))) == digest


def test_a_release_that_was_changed_is_an_error_for_analysts(tmp_path):
    """An analyst session refuses a release file whose digest differs from the digest in the public ledger."""
    counts = sh.Counts(pl.DataFrame({"key": range(5), "count": [10] * 5}), largest=1)
    series = sh.create(tmp_path / "store", counts, name="visits", key="key", max_keys=1, domain=sh.Integers(5))
    release, file = series.release("all", level=1, threshold=2), tmp_path / "out" / "all.parquet"
    file.parent.mkdir()
    release.write_parquet(file)
    sh.open_analyst(file.parent).close()
    about = pl.read_parquet_metadata(file)["sparsehist"]
    release.frame.with_columns(pl.col("noisy_count") + 1).write_parquet(file, metadata={"sparsehist": about})
    with pytest.raises(InputError, match="changed after it was written"):
        sh.open_analyst(file.parent)
