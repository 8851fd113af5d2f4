"""Tests that periods can be appended in any order, and each period only once."""

from __future__ import annotations

import gzip
import runpy
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path

import polars as pl
import pytest

import sparsehist as sh
from sparsehist.errors import (
    DeclarationError,
    NameTakenError,
    NotFoundError,
    RefusedError,
    SeriesDiffersError,
    StoreDamagedError,
    StoreError,
    StoreInUseError,
)
from sparsehist.store import State
from tests.periods.logs import WEEKS, in_weeks, of_users, true_count, who_counts

USERS = [f"u{i}" for i in range(40)]


def test_periods_come_in_any_order_and_twice(tmp_path: Path) -> None:
    """Appending a file again for its period returns the same series; a different file for the period is refused."""
    log = in_weeks()
    files = {n: tmp_path / f"{n}.parquet" for n in (10, 20, 30, 31)}
    for n, file in files.items():
        of_users(USERS[:n]).write_parquet(file)
    for week, n in ((WEEKS[2], 30), (WEEKS[0], 20), (WEEKS[1], 10)):
        series = log.append(files[n], period=week)
        assert series.name == f"log_{week.replace('-', '').lower()}" and true_count(log, week) == n
    made = log.series(WEEKS[2]).release("public", level=1)
    assert "it assumes that the log of a period has no rows of another period" in made.metadata["guarantee"]
    again = log.append(files[30], period=date(2026, 3, 18))
    assert again.release("public", level=1).frame.equals(made.frame)
    with pytest.raises(SeriesDiffersError, match="the log it was made from"):
        log.append(files[31], period=WEEKS[2])
    assert log.appended() == [WEEKS[2], WEEKS[0], WEEKS[1]]
    with pytest.raises(NotFoundError):
        log.series(WEEKS[4])


def test_a_store_is_usable_before_the_first_period_brings_a_long_catalogue() -> None:
    """Before its first period, a periodic series with a long catalogue can be opened, but not appended to.

    Before the first period, the store contains only the digest of the catalogue. Therefore only the object that
    `create` returned, which has the catalogue, can append the first period.
    """
    store, keys = sh.open(":memory:"), sh.Catalogue([f"k{i}" for i in range(2000)])
    declared = {"unit": "user", "key": "key", "max_keys": 1, "domain": keys, "every": sh.Every("week", budget=1)}
    declaring = sh.create(store, name="visits", **declared)
    log = pl.DataFrame({"user": range(40), "key": ["k7"] * 40})
    assert store.sql("show series").frame.height <= 1
    opened = store.series("visits")
    with pytest.raises(NotFoundError, match="call create again"):
        opened.append(log, period=WEEKS[0])
    declaring.append(log, period=WEEKS[0])
    assert store.series("visits").append(log, period=WEEKS[1]).declaration.domain.size == 2000


def test_what_cannot_be_declared_is_refused() -> None:
    """Wrong values of `every=` are refused. With `most_periods=`, a period needs a log, and counts are refused."""
    for wrong in ({"period": "quarter"}, {"protects": "user-day"}, {"unit": None, "most_periods": 3}):
        with pytest.raises(DeclarationError):
            in_weeks(**wrong)
    counts = sh.Counts(pl.DataFrame({"key": [1], "count": [3]}), largest=1)
    with pytest.raises(DeclarationError, match="append the log"):
        in_weeks(most_periods=2).append(counts, period=WEEKS[0])


def test_what_dies_before_the_commit_leaves_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If appending a period fails before the commit, its series does not exist and none of its units is counted."""
    log = in_weeks(store=tmp_path / "s", most_periods=1)

    def dies(*_: object, **__: object) -> None:
        raise StoreError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(State, "commit_series", dies)
        with pytest.raises(StoreError, match="full"):
            log.append(of_users("ab"), period=WEEKS[0])
    assert log.appended() == []
    log.append(of_users("bc"), period=WEEKS[1])
    log.append(of_users("ab"), period=WEEKS[0])
    assert who_counts(log) == {WEEKS[1]: set("bc"), WEEKS[0]: {"a"}}
    with log.store.hold() as state:
        state.verify()


def test_two_that_add_at_once_count_nobody_twice(tmp_path: Path) -> None:
    """If two threads append periods at once, one of them is refused, so that no unit counts in too many periods."""
    log = in_weeks(store=sh.open(tmp_path / "s", create=True, wait=60), most_periods=1)
    barrier = threading.Barrier(2, timeout=60)
    ended: list[str] = []

    def add(week: str) -> None:
        met = False

        def meet(phase: str) -> None:
            nonlocal met
            if phase == "writing" and not met:
                met = True
                barrier.wait()

        try:
            log.append(of_users("ab"), period=week, counting=sh.Counting(progress=meet))
            ended.append("added")
        except StoreInUseError:
            ended.append("begin again")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(add, WEEKS[:2]))
    assert sorted(ended) == ["added", "begin again"]
    for week in WEEKS[:2]:
        log.append(of_users("ab"), period=week)
    assert sorted(map(sorted, who_counts(log).values())) == [[], ["a", "b"]]


def test_who_counted_can_be_erased(tmp_path: Path) -> None:
    """After `finish`, no file of the store contains a unit, but the appended periods can still be released."""
    log = in_weeks(store=tmp_path / "s", most_periods=2)
    log.append(of_users(["secret_user"]), period=WEEKS[0])
    held = [file for file in (tmp_path / "s").rglob("*") if file.is_file() and b"secret_user" in file.read_bytes()]
    assert [file.name for file in held] == ["units"]
    log.finish()
    assert not any(b"secret_user" in file.read_bytes() for file in (tmp_path / "s").rglob("*") if file.is_file())
    log.series(WEEKS[0]).release("later", level=1)


def test_a_bit_that_is_lost_lets_nobody_count_twice(tmp_path: Path) -> None:
    """If the file of counted units is damaged, no period can be appended, so that no unit counts too often."""
    log = in_weeks(store=tmp_path / "s", most_periods=1)
    log.append(of_users(USERS), period=WEEKS[0])
    (file,) = (tmp_path / "s").rglob("units")
    content = file.read_bytes()
    file.write_bytes(content.replace(b"u39", b"u38"))
    with pytest.raises(StoreDamagedError, match="restore"):
        log.append(of_users(USERS), period=WEEKS[1])
    file.write_bytes(content)
    log.append(of_users(USERS), period=WEEKS[1])
    assert true_count(log, WEEKS[1]) == 0


@pytest.mark.parametrize("most_periods", [None, 2])
def test_nothing_is_added_once_it_is_finished(most_periods: int | None) -> None:
    """A finished periodic series refuses new periods, including a period whose counting began before `finish`."""
    log = in_weeks(most_periods=most_periods)
    log.append(of_users(USERS), period=WEEKS[0])
    finishing = sh.Counting(progress=lambda phase: log.finish() if phase == "writing" else None)
    for counting in (finishing, None):
        with pytest.raises(RefusedError, match="finished"):
            log.append(of_users(USERS), period=WEEKS[1], counting=counting)
    assert log.appended() == [WEEKS[0]]
    assert log.append(of_users(USERS), period=WEEKS[0]).release("later", level=1).metadata["per_user"] == "1"
    assert log.store.events()["what"].to_list().count("finish periods") == 1


def test_names_of_a_log_and_of_its_periods_are_its_own(tmp_path: Path) -> None:
    """A name can belong to only one series, periodic series or period of a periodic series."""
    told = {"unit": "user", "key": "key", "max_keys": 1, "domain": sh.Integers(50)}
    store = in_weeks(store=tmp_path / "s").store
    for name in ("log", "log_2026w14"):
        for kind in ({"log": of_users(USERS)}, {"steps": 9}, {"every": sh.Every("week")}):
            with pytest.raises(NameTakenError):
                sh.create(store, name=name, **told, **kind)
    for name in ("log_2026", "weekly_2026w14"):
        sh.create(store, of_users(USERS), name=name, **told)
    with pytest.raises(NameTakenError, match="weekly_2026w14"):
        in_weeks(store=store, seed=None, name="weekly")
    assert in_weeks(store=store, seed=None, if_exists="reuse").name == "log"
    with pytest.raises(SeriesDiffersError, match="it was declared with every="):
        in_weeks(store=store, seed=None, if_exists="reuse", most_periods=3)
    with pytest.raises(DeclarationError, match="another population"):
        sh.create(store, of_users(USERS), name="x", population="log", **told)


@pytest.mark.parametrize("most_periods", [None, 2])
def test_a_released_period_that_was_dropped_is_not_counted_again(most_periods: int | None) -> None:
    """A period that was dropped can be appended again only if it had never been released."""
    log = in_weeks(most_periods=most_periods)
    log.append(of_users(USERS[:9]), period=WEEKS[0])
    log.store.drop("log_2026w10")
    log.append(of_users(USERS), period=WEEKS[0]).release("public", level=1)
    log.store.drop("log_2026w10")
    with pytest.raises(RefusedError):
        log.append(of_users(USERS), period=WEEKS[0])
    if most_periods is None:
        log.append(of_users(USERS), period=WEEKS[1])


def test_the_example_of_a_download_log_runs(tmp_path: Path) -> None:
    """The example `cran_days.py` makes running and daily releases from the files of a download log."""
    for day, n in ((1, 100), (2, 400)):
        rows = {"date": [f"2014-05-0{day}"] * n, "package": ["sh"] * (n - 1) + ["NA"], "ip_id": range(n)}
        (tmp_path / f"2014-05-0{day}.csv.gz").write_bytes(gzip.compress(pl.DataFrame(rows).write_csv().encode()))
    example = Path(__file__).parents[2] / "docs" / "examples" / "cran_days.py"
    found = runpy.run_path(str(example))["table"](tmp_path, seed=1)
    assert found["date"].to_list() == ["2014-05-01", "2014-05-02"]
    assert found.select("keys_running", "keys_daily", "std_daily").rows() == [(0, 0, 10.0), (1, 1, 10.0)]
