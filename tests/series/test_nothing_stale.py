"""A series is reused only if its declaration, its query and its log are unchanged; otherwise reuse is an error."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import sparsehist as sh
from sparsehist.counting import count_keys
from sparsehist.errors import DataError, NameTakenError, SeriesDiffersError

UNIT = "planted-unit-"
COUNT = "sparsehist.release.creation.count_keys"


def rows(seed: int = 1) -> pl.DataFrame:
    """Return a log whose user names begin with a marker that tests search for in files and messages."""
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {"user": [f"{UNIT}{i}" for i in rng.integers(0, 600, 2000)], "key": rng.integers(0, 30, 2000)}
    )


def made(store: object, source: object, **changed: object) -> sh.Series:
    """Create the series `visits`, or reuse it if it exists."""
    declared: dict = {"name": "visits", "unit": "user", "key": "key", "max_keys": 3, "domain": sh.Integers(100)}
    return sh.create(store, source, **({**declared, "if_exists": "reuse"} | changed))  # type: ignore[arg-type]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Write a log to two Parquet files, and return their directory."""
    (tmp_path / "log").mkdir()
    rows().write_parquet(tmp_path / "log" / "a.parquet")
    rows(seed=2).write_parquet(tmp_path / "log" / "b.parquet")
    return tmp_path / "log"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return the path where tests create the store."""
    return tmp_path / "store"


def differs(store: Path, source: object, what: str = "the log it was made from", **changed: object) -> None:
    """Check that reuse is refused, and that the message states the difference but shows no unit."""
    with pytest.raises(SeriesDiffersError, match=what) as refused:
        made(store, source, **changed)
    assert refused.value.exit_code == 5
    assert UNIT not in str(refused.value)


def test_a_file_is_the_same_as_long_as_the_system_says_so(log: Path, store: Path) -> None:
    """A series is reused if its log files have the same paths, sizes and times; a rewritten file prevents reuse."""
    pattern = str(log / "*.parquet")
    first = made(store, pattern).release("one", level=1)
    assert made(store, pattern).release("one").frame.equals(first.frame)
    differs(store, pattern, "max_keys=3", max_keys=4)
    about = (log / "b.parquet").stat()
    (log / "b.parquet").write_bytes((log / "b.parquet").read_bytes())
    os.utime(log / "b.parquet", ns=(about.st_atime_ns, about.st_mtime_ns))  # now only the change time (ctime) differs
    differs(store, pattern)


@pytest.mark.parametrize("change", ["another", "fewer", "more"])
def test_another_set_of_files_is_another_log(log: Path, store: Path, change: str) -> None:
    """A series is not reused if a file was changed, added or removed, but is reused if files are only reordered."""
    pattern = str(log / "*.parquet")
    made(store, pattern)
    made(store, [log / "b.parquet", log / "a.parquet"])
    if change == "fewer":
        (log / "b.parquet").unlink()
    else:
        rows(seed=3).write_parquet(log / ("b.parquet" if change == "another" else "c.parquet"))
    differs(store, pattern)
    with pytest.raises(NameTakenError):
        made(store, pattern, if_exists="error")


@pytest.mark.parametrize("kind", ["frame", "stream", "counts"])
def test_rows_that_are_handed_over_are_not_compared(store: Path, kind: str) -> None:
    """Reuse is refused for rows in memory, which cannot be compared; the error recommends `store.series`."""
    frame, changed = rows(), {"unit": None} if kind == "counts" else {}

    def source() -> object:
        if kind == "stream":  # a stream can be read only once
            return frame.to_arrow().to_reader()
        return frame if kind == "frame" else sh.Counts(frame.group_by("key").len("count"), largest=1)

    made(store, source(), **changed)
    differs(store, source(), r"store\.series", **changed)


def test_the_text_of_a_query_is_compared(log: Path, store: Path) -> None:
    """A series is not reused if the text of its query or a parameter changes; a final semicolon does not matter."""
    text = f"select user, key from read_parquet('{log}/*.parquet') where user <> 'X'"

    def query(sql: str, **parameters: object) -> sh.Query:
        return sh.Query(sql, parameters=parameters or None)

    made(store, query(text))
    made(store, query(f"{text};\n"))
    differs(store, query(text.replace("'X'", "'X '")), "the text of its query")
    for _ in range(2):
        made(store, query(text + " and key < $n", n=5), name="few")
    differs(store, query(text + " and key < $n", n=6), "the text of its query", name="few")


def test_a_log_that_changes_while_it_is_counted_is_refused(log: Path, store: Path, monkeypatch) -> None:
    """If a file changes while a log is counted, the log is refused and no series is created."""

    def slowly(*given: object, **named: object) -> object:
        counted = count_keys(*given, **named)  # type: ignore[arg-type]
        rows(seed=6).write_parquet(log / "a.parquet")
        return counted

    monkeypatch.setattr(COUNT, slowly)
    with pytest.raises(DataError, match="changed while it was counted"):
        made(store, str(log / "*.parquet"))
    assert sh.open(store).series_names() == []


def test_other_series_are_released_while_a_log_is_counted(log: Path, store: Path, monkeypatch) -> None:
    """While a log is counted, other series can be released. If two runs create the same series, one is refused."""
    other = made(store, rows(seed=7), name="other")
    files = [str(log / "b.parquet"), str(log / "a.parquet")]
    sources = iter(files)

    def meanwhile(*given: object, **named: object) -> object:
        monkeypatch.setattr(COUNT, count_keys)
        assert len(other.release("one", level=1)) > 0
        made(store, next(sources))
        return count_keys(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(COUNT, meanwhile)
    differs(store, files[1])
    sh.open(store).drop("visits")
    monkeypatch.setattr(COUNT, meanwhile)
    assert made(store, files[1]).release("one", level=1).frame.height
    assert list((store / "tmp").iterdir()) == []
    assert len(list((store / "series").iterdir())) == 2


JOB = """
import sys, polars as pl, sparsehist as sh
store, source = sys.argv[1:]
store = sh.open(store, create=True, wait=100)
series = sh.create(store, source, name="visits", unit="user", key="key", max_keys=3, domain=sh.Integers(100),
                   if_exists="reuse", counting=sh.Counting(memory_limit="4MB"))
print(series.release("one", level="0.5").frame.rows())
"""


def job(store: Path, log: Path) -> subprocess.Popen[str]:
    """Start a process that creates or reuses the series and prints a release of it."""
    command = [sys.executable, "-c", JOB, str(store), str(log)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _has_rows(descriptor: Path, store: Path) -> bool:
    """Return whether an open file of a process is a temporary file of the store, and is not empty."""
    try:
        return f"{store}/tmp/" in str(descriptor.readlink()) and descriptor.stat().st_size > 0
    except FileNotFoundError:  # closed since it was listed
        return False


def test_a_killed_count_leaves_nothing_of_the_log_behind(tmp_path: Path, store: Path) -> None:
    """If counting is killed, no row of the log remains on disk, and the next command cleans up."""
    n = 6_000_000
    large = pl.DataFrame({"user": pl.int_range(n, eager=True), "key": pl.int_range(n, eager=True) % 100})
    large.write_parquet(tmp_path / "large.parquet", row_group_size=100_000)
    made(store, rows(), name="other")

    counting = job(store, tmp_path / "large.parquet")
    deadline = time.monotonic() + 60
    while not any(_has_rows(file, store) for file in Path(f"/proc/{counting.pid}/fd").iterdir()):
        assert counting.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    counting.send_signal(signal.SIGKILL)
    counting.communicate(timeout=60)
    assert not any(file.stat().st_size for file in (store / "tmp").rglob("*") if file.is_file())
    sh.open(store)
    assert list((store / "tmp").iterdir()) == []
