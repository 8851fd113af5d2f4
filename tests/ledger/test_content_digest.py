"""The digest of a release changes with anything that it says, and with nothing else; no version may change it."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import sparsehist as sh
from sparsehist.errors import InputError
from sparsehist.ledger.content_digest import content_digest

FRAME = pl.DataFrame({"key": ["a", None, "é"], "noisy_count": [1.5, 2.0, None], "n": [1, 2, 3]})
ABOUT = {"name": "public", "level": "0.1", "columns": [1, 2.5, None, True]}


@pytest.mark.parametrize(
    "frame",
    [
        FRAME.with_columns(pl.col("n") + 1),
        FRAME.with_columns(pl.col("n").cast(pl.Int32)),
        FRAME.with_columns(pl.col("key").fill_null("")),
        FRAME.with_columns(pl.col("noisy_count").fill_null(0.0)),
        FRAME.rename({"key": "keys"}),
        FRAME[::-1],
        FRAME[:2],
        FRAME.select("noisy_count", "key", "n"),
    ],
)
def test_every_change_of_the_rows_changes_the_digest(frame: pl.DataFrame) -> None:
    """Values, types, nulls, names, and the order of rows and columns."""
    assert content_digest(frame, ABOUT) != content_digest(FRAME, ABOUT)


@pytest.mark.parametrize("change", [{"level": "0.2"}, {"level": 0.1}, {"more": None}, {"columns": [1, 2.5, None, 1]}])
def test_every_change_of_the_metadata_changes_the_digest(change: dict[str, object]) -> None:
    """Also of the type of a value."""
    assert content_digest(FRAME, ABOUT | change) != content_digest(FRAME, ABOUT)


def test_the_digest_does_not_depend_on_chunks_or_on_the_order_of_metadata() -> None:
    """Equal content, equal digest; the same today as when this was written."""
    assert content_digest(FRAME, ABOUT) == "11ae5910009c1699d2a0778dc196d2577329160a9ef304a626789884922ae787"
    digest = content_digest(FRAME, ABOUT)
    assert content_digest(pl.concat([FRAME[:1], FRAME[1:]], rechunk=False), dict(reversed(ABOUT.items()))) == digest


def test_an_analyst_is_told_of_a_release_that_was_changed(tmp_path: Path) -> None:
    """The public ledger beside it lists another digest."""
    log = pl.DataFrame({"user": range(50), "key": [i % 5 for i in range(50)]})
    series = sh.create(
        tmp_path / "store", log, name="visits", unit="user", key="key", max_keys=1, domain=sh.Integers(5)
    )
    release = series.release("all", level=1, threshold=2)
    out = tmp_path / "out"
    out.mkdir()
    release.write_parquet(out / "all.parquet")
    sh.open_analyst(out).close()
    about = pl.read_parquet_metadata(out / "all.parquet")["sparsehist"]
    frame = release.frame.with_columns(pl.col("noisy_count") + 1)
    frame.write_parquet(out / "all.parquet", metadata={"sparsehist": about})
    with pytest.raises(InputError, match="changed after it was written"):
        sh.open_analyst(out)
