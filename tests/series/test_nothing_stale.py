"""Reusing a series gives the same series if declaration, query and log are the same, and an error otherwise."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import sparsehist as sh
from sparsehist.errors import DataError, NameTakenError, SeriesDiffersError

UNIT = "planted-unit-"


def rows(n: int = 2000, seed: int = 1) -> pl.DataFrame:
    """A log whose units can be told from anything else."""
    rng = np.random.default_rng(seed)
    return pl.DataFrame({"user": [f"{UNIT}{i}" for i in rng.integers(0, 600, n)], "key": rng.integers(0, 30, n)})


def made(store: object, source: object, **changed: object) -> sh.Series:
    """The series, made or reused."""
    declared: dict = {"name": "visits", "unit": "user", "key": "key", "max_keys": 3, "domain": sh.Integers(100)}
    return sh.create(store, source, **({**declared, "if_exists": "reuse"} | changed))  # type: ignore[arg-type]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Two Parquet files."""
    (tmp_path / "log").mkdir()
    rows().write_parquet(tmp_path / "log" / "a.parquet")
    rows(seed=2).write_parquet(tmp_path / "log" / "b.parquet")
    return tmp_path / "log"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Where the store is to be."""
    return tmp_path / "store"


def differs(store: Path, source: object, what: str = "the log it was made from", **changed: object) -> None:
    """Being asked for again is refused, and says what differs and nothing of the log."""
    with pytest.raises(SeriesDiffersError, match=what) as refused:
        made(store, source, **changed)
    assert refused.value.exit_code == 5
    assert UNIT not in str(refused.value)


def test_a_file_is_the_same_as_long_as_the_system_says_so(log: Path, store: Path) -> None:
    """Nothing is read: path, size and times decide, and a touched or rewritten file is another one."""
    pattern = str(log / "*.parquet")
    first = made(store, pattern).release("one", level=1)
    assert made(store, pattern).release("one").frame.equals(first.frame)
    differs(store, pattern, "max_keys=3", max_keys=4)
    about = (log / "b.parquet").stat()
    (log / "b.parquet").write_bytes((log / "b.parquet").read_bytes())
    os.utime(log / "b.parquet", ns=(about.st_atime_ns, about.st_mtime_ns))  # its time of change stays new
    differs(store, pattern)


@pytest.mark.parametrize("change", ["another", "fewer", "more", "gone"])
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_another_set_of_files_is_another_log(tmp_path: Path, store: Path, change: str, ending: str) -> None:
    """The next day's file, one file less or more, none at all."""
    write = getattr(pl.DataFrame, f"write_{ending}")
    for name, seed in (("a", 1), ("b", 2)):
        write(rows(seed=seed), tmp_path / f"{name}.{ending}")
    pattern = str(tmp_path / f"*.{ending}")
    made(store, pattern)
    made(store, [tmp_path / f"b.{ending}", tmp_path / f"a.{ending}"])
    if change == "another":
        write(rows(seed=3), tmp_path / f"b.{ending}")
    elif change == "more":
        write(rows(seed=3), tmp_path / f"c.{ending}")
    else:
        (tmp_path / f"b.{ending}").unlink()
        if change == "gone":
            (tmp_path / f"a.{ending}").unlink()
    differs(store, pattern)
    with pytest.raises(NameTakenError):
        made(store, pattern, if_exists="error")


def _as(kind: str, frame: pl.DataFrame) -> object:
    if kind == "lazy":
        return frame.lazy()
    if kind == "arrow":
        return frame.to_arrow()
    if kind == "stream":  # can be read once
        return pa.RecordBatchReader.from_batches(frame.to_arrow().schema, frame.to_arrow().to_batches())
    if kind in ("relation", "query"):
        connection = duckdb.connect()
        connection.register("log", frame)
        query = "select user, key from log"
        return connection.sql(query) if kind == "relation" else sh.Query(query, tables={"log": frame})
    if kind == "counts":
        return sh.Counts(frame.group_by("key").len("count"), largest=1)
    return frame


@pytest.mark.parametrize("kind", ["frame", "lazy", "arrow", "stream", "relation", "query", "counts"])
def test_rows_that_are_handed_over_are_not_compared(store: Path, kind: str) -> None:
    """The error names what opens the series."""
    changed = {"unit": None} if kind == "counts" else {}
    made(store, _as(kind, rows()), **changed)
    differs(store, _as(kind, rows()), r"store\.series", **changed)


def test_the_text_of_a_query_is_compared_without_blanks_comments_and_case(log: Path, store: Path) -> None:
    """A WHERE that was added is another query; so is another value of a parameter, or case within quotes."""
    text = f"select user, key from read_parquet('{log}/*.parquet') where user <> 'X'"

    def query(sql: str, **parameters: object) -> sh.Query:
        return sh.Query(sql, parameters=parameters or None)

    made(store, query(text))
    made(store, query(f"/* daily */ SELECT user,\n key FROM {text.split('from ')[1]}; -- end"))
    for other in (text + " and key < 5", text.replace("'X'", "'x'"), text.replace("'X'", "'X '")):
        differs(store, query(other), "the text of its query")
    made(store, query(text + " and key < $n", n=5), name="few")
    made(store, query(text + " and key < $n", n=5), name="few")
    differs(store, query(text + " and key < $n", n=6), "the text of its query", name="few")


def test_a_log_that_changes_while_it_is_counted_is_refused(
    log: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If files change during the count, it is refused, since rows may be of neither version, and leaves nothing."""
    from sparsehist.counting import count_keys

    def slowly(*given: object, **named: object) -> object:
        counted = count_keys(*given, **named)  # type: ignore[arg-type]
        rows(seed=6).write_parquet(log / "a.parquet")
        return counted

    monkeypatch.setattr("sparsehist.release.creation.count_keys", slowly)
    with pytest.raises(DataError, match="changed while it was counted"):
        made(store, str(log / "*.parquet"))
    assert not store.exists()


def test_other_series_are_released_while_a_log_is_counted(
    log: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counting does not hold the store; of two that count one name, one wins and the other is given the same."""
    from sparsehist.counting import count_keys

    other = made(store, rows(seed=7), name="other")
    files = [str(log / "b.parquet"), str(log / "a.parquet")]
    sources = iter(files)

    def meanwhile(*given: object, **named: object) -> object:
        monkeypatch.setattr("sparsehist.release.creation.count_keys", count_keys)
        assert len(other.release("one", level=1)) > 0
        made(store, next(sources))
        return count_keys(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr("sparsehist.release.creation.count_keys", meanwhile)
    differs(store, files[1])
    sh.open(store).drop("visits")
    monkeypatch.setattr("sparsehist.release.creation.count_keys", meanwhile)
    assert made(store, files[1]).release("one", level=1).frame.height
    assert list((store / "tmp").iterdir()) == []
    assert len(list((store / "series").iterdir())) == 2


_JOB = """
import sys, polars as pl, sparsehist as sh
store, source = sys.argv[1:]
store = sh.open(store, create=True, wait=100)
series = sh.create(store, source, name="visits", unit="user", key="key", max_keys=3, domain=sh.Integers(100),
                   if_exists="reuse", counting=sh.Counting(memory_limit="4MB"))
print(series.release("one", level="0.5").frame.rows())
"""


def _job(store: Path, log: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _JOB, str(store), str(log)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_job_run_twice_and_twice_at_once_gives_the_same(log: Path, store: Path) -> None:
    """Two processes that begin with no store at all, and one after them, print the same numbers."""
    jobs = [_job(store, log / "a.parquet") for _ in range(2)]
    said = [job.communicate(timeout=120) for job in jobs]
    said.append(_job(store, log / "a.parquet").communicate(timeout=120))
    assert [err for _, err in said] == ["", "", ""]
    assert len({out for out, _ in said}) == 1 and len(said[0][0]) > 20


def test_a_killed_count_leaves_nothing_of_the_log_behind(tmp_path: Path, store: Path) -> None:
    """Rows are on disk when the run is killed, and gone after the next command; the job then runs."""
    n = 6_000_000
    large = pl.DataFrame({"user": pl.int_range(n, eager=True), "key": pl.int_range(n, eager=True) % 100})
    large.write_parquet(tmp_path / "large.parquet", row_group_size=100_000)
    made(store, rows(), name="other")
    job = _job(store, tmp_path / "large.parquet")
    deadline = time.monotonic() + 60
    while not _rows_on_disk(store / "tmp"):
        assert job.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    job.send_signal(signal.SIGKILL)
    job.communicate(timeout=60)
    assert _rows_on_disk(store / "tmp")
    sh.open(store)
    assert list((store / "tmp").iterdir()) == []
    out, err = _job(store, tmp_path / "large.parquet").communicate(timeout=300)
    assert (err, out[:1]) == ("", "[")


def _rows_on_disk(place: Path) -> bool:
    return any(file.is_file() and file.stat().st_size for file in place.rglob("rows"))
