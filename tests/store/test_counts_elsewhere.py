"""What a cluster wrote is as secret as the log: it goes where no series comes of it, however the run ends."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import polars as pl
import pytest
from pyarrow import fs

import sparsehist as sh
from sparsehist.cli.commands import check_store
from sparsehist.counting import count
from sparsehist.counting.contract import WrittenCounts
from sparsehist.errors import DeclarationError, NameTakenError, SparsehistError, StoreError
from sparsehist.series import creation
from sparsehist.store.parts import counts_in_parts
from sparsehist.store.state import State
from tests.store.test_parts import write_copies
from tests.test_layout import CHECKOUT

LOG = pl.DataFrame({"u": [1, 2, 2], "k": ["a", "a", "b"]})
DECLARED = {"name": "s", "unit": "u", "key": "k", "max_keys": 2, "domain": "strings(max_bytes=4)", "portable": True}


def create(directory: Path, meanwhile=lambda: None, *, url=None, **more):
    """Create a series whose counts a stand-in for Spark writes, and do something before it is done."""

    def written(_, wanted, place):
        keys, counts = pl.DataFrame({"key_0": ["b", "a"]}), pl.Series([1, 2]).to_numpy()
        at = directory / "c" / place.url.rpartition("/")[2]
        found = write_copies(at, keys, counts, shards=1, salt=place.order, look_up=place.look_up)
        with mock.patch.object(count, "_opened", opened), mock.patch.object(count, "with_spark", real):
            meanwhile()
        return WrittenCounts(*found)

    opened, real = count._opened, count.with_spark
    stand_in = SimpleNamespace(name=lambda: "spark", write=written)
    with (
        mock.patch.object(count, "_opened", return_value=(stand_in, None)),
        mock.patch.object(count, "with_spark", stand_in),
    ):
        return sh.create(directory / "store", LOG, **{**DECLARED, **more}, counts_directory=url or directory / "c")


def left(directory: Path) -> list[Path]:
    """Files that the cluster wrote and that are still there."""
    return [path for path in (directory / "c").rglob("*") if path.is_file()]


def failing() -> None:
    """Fail as Spark's writing does."""
    raise StoreError("Spark wrote other rows than it counted")


@pytest.mark.parametrize("when", ["writing", "registering", "committing"])
@pytest.mark.parametrize("kept", [False, True])
def test_a_run_that_fails_leaves_nothing(tmp_path: Path, monkeypatch, when: str, *, kept: bool) -> None:
    """Whichever step fails, and whether the store was there before: no file stays, and a rerun makes the series."""
    if kept:
        sh.open(tmp_path / "store", create=True)
    seen = []
    with monkeypatch.context() as broken:
        if when == "registering":
            broken.setattr(creation, "register_parts", lambda *_, **__: failing())
        if when == "committing":
            broken.setattr(State, "commit_series", lambda *_: failing())

        def meanwhile():
            seen.extend(left(tmp_path))
            if when == "writing":
                failing()

        with pytest.raises(StoreError, match="other rows"):
            create(tmp_path, meanwhile)
    assert len(seen) == 2
    assert not left(tmp_path)
    assert (tmp_path / "store").exists() == kept
    assert create(tmp_path).release("all", level=10**4, threshold=0.5).frame.height == 2


def test_a_run_that_fails_after_its_commit_erases_nothing(tmp_path: Path, monkeypatch) -> None:
    """The series is there, and so is what it refers to."""
    commit = State.commit_series
    with monkeypatch.context() as broken:
        broken.setattr(State, "commit_series", lambda *asked: (commit(*asked), failing()))
        with pytest.raises(StoreError, match="other rows"):
            create(tmp_path)
    assert sh.open(tmp_path / "store").series("s").release("all", level=10**4, threshold=0.5).frame.height == 2


@pytest.mark.parametrize("if_exists", ["error", "reuse"])
def test_the_slower_of_two_runs_leaves_nothing(tmp_path: Path, if_exists: str) -> None:
    """Whether it is refused or given the series of the faster one."""

    def rival():
        sh.create(tmp_path / "store", LOG, **DECLARED)

    if if_exists == "error":
        with pytest.raises(NameTakenError):
            create(tmp_path, rival)
    else:
        assert create(tmp_path, rival, if_exists="reuse").name == "s"
    assert not left(tmp_path)


def test_what_is_committed_stays_and_what_is_being_written_too(tmp_path: Path) -> None:
    """Opening the store takes neither for what a dead run left."""
    seen = []

    def others():
        with sh.open(tmp_path / "store")._hold() as state:
            assert (state.removed, state.left) == ((), ())
        seen.extend(left(tmp_path))

    series = create(tmp_path, others)
    with series.store._hold() as state:
        assert (state.removed, state.left) == ((), ())
    assert seen == left(tmp_path) != []
    check_store(tmp_path / "store", wait=0)
    assert series.release("all", level=10**4, threshold=0.5).frame.height == 2


_KILLED = """
import os, sys
from pathlib import Path
from tests.store.test_counts_elsewhere import create
create(Path(sys.argv[1]), lambda: os.kill(os.getpid(), 9), url=sys.argv[2] or None)
"""


def killed(directory: Path, url: str = "") -> None:
    """A run that dies while the cluster writes."""
    sh.open(directory / "store", create=True)
    script = [sys.executable, "-W", "ignore", "-c", _KILLED, str(directory), url]
    assert subprocess.run(script, cwd=CHECKOUT, check=False, timeout=120).returncode == -9
    assert len(left(directory)) == 2


def test_what_a_killed_run_left_goes_with_the_next_opening(tmp_path: Path) -> None:
    """In a directory of this machine it is removed, as remains of copies are, and the opening says so."""
    killed(tmp_path)
    (place,) = (tmp_path / "c").iterdir()
    sh.open(tmp_path / "store")
    assert not place.exists()
    killed(tmp_path)
    (place,) = (tmp_path / "c").iterdir()
    assert check_store(tmp_path / "store", wait=0).data["removed"] == [str(place)]
    assert check_store(tmp_path / "store", wait=0).data["removed"] == []


def test_what_lies_where_the_store_does_not_reach_is_named(tmp_path: Path, monkeypatch, caplog) -> None:
    """An object store is not asked by an opening, which warns; `check` erases there, or fails with its name."""
    url = "s3://SECRETid:SECRETkey@bucket/c"

    def unreachable(_):
        raise OSError("SECRET")

    monkeypatch.setattr(counts_in_parts, "_found", unreachable)
    with pytest.raises(StoreError, match="other rows") as caught:
        create(tmp_path, failing, url=url)
    assert "s3://bucket/c/" in caught.value.__notes__[0]
    for file in left(tmp_path):
        file.unlink()
    killed(tmp_path, url)
    caplog.clear()
    with sh.open(tmp_path / "store")._hold() as state:
        assert len(state.left) == 2
    assert "s3://bucket/c/" in caplog.text
    with pytest.raises(SparsehistError, match="s3://bucket/c/") as caught:
        check_store(tmp_path / "store", wait=0)
    assert "SECRET" not in f"{caplog.text} {caught.value}"
    local = fs.LocalFileSystem()
    monkeypatch.setattr(counts_in_parts, "_found", lambda at: (local, f"{tmp_path}/c/{at.rpartition('/')[2]}"))
    assert len(check_store(tmp_path / "store", wait=0).data["removed"]) == 2
    assert not left(tmp_path)
    caplog.clear()
    assert check_store(tmp_path / "store", wait=0).data["removed"] == []
    assert not caplog.text


def test_a_store_in_memory_refers_to_nothing_elsewhere() -> None:
    """It would forget, with its owner, what lies there."""
    with pytest.raises(DeclarationError, match="on disk"):
        sh.create(":memory:", LOG, **DECLARED, counts_directory="c")
