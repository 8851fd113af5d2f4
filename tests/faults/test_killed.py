"""Killed at every write, fsync and rename, and at random instants: no noise twice, nothing lost, always a store."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import sparsehist as sh
from sparsehist.errors import NotFoundError
from sparsehist.privacy import as_level
from sparsehist.running.step_files import StepFiles
from tests.faults.scenario import SECOND, create, day, log, release

pytestmark = pytest.mark.faults

CALLS = (
    "write,pwrite64,writev,pwritev,fsync,fdatasync,sync_file_range,rename,renameat,renameat2,unlink,unlinkat,"
    "ftruncate,fallocate,mkdir,mkdirat,rmdir"
)
ROOT = Path(__file__).parents[2]


def command(work: str, store: Path, out: Path) -> list[str]:
    """The work as a process of its own."""
    return [sys.executable, "-B", "-m", "tests.faults.scenario", work, str(store), str(out)]


def moments(work: str, store: Path, out: Path) -> list[tuple[str, int]]:
    """Every (call, how often a thread has made it) that the work comes to; does the work once."""
    trace = out.parent / "trace"
    traced = ["strace", "-f", "-qq", "-o", str(trace), "-e", f"trace={CALLS}", *command(work, store, out)]
    subprocess.run(traced, cwd=ROOT, check=True, timeout=120)
    made = Counter(re.findall(r"^(\d+) +(\w+)\(", trace.read_text(), flags=re.MULTILINE))
    most: dict[str, int] = {}
    for (_, call), times in made.items():
        most[call] = max(times, most.get(call, 0))
    return [(call, n) for call, times in most.items() for n in range(1, times + 1)]


def kill(work: str, store: Path, out: Path, moment: tuple[str, int]) -> bool:
    """Do the work, killed as a thread enters a call for the n-th time; whether that moment came."""
    call, n = moment
    inject = f"inject={call}:signal=SIGKILL:when={n}"
    traced = ["strace", "-f", "-qq", "-o", os.devnull, "-e", f"trace={call}", "-e", inject]
    done = subprocess.run([*traced, *command(work, store, out)], cwd=ROOT, check=False, timeout=120)
    return done.returncode != 0


def places(parent: Path) -> tuple[Path, Path]:
    """A store and a directory to publish in."""
    shutil.rmtree(parent, ignore_errors=True)
    out = parent / "out"
    out.mkdir(parents=True)
    return parent / "store", out


def published(out: Path) -> dict[str, sh.Release]:
    """What has left: every Parquet file there is has to be whole."""
    return {path.stem: sh.read(path) for path in out.glob("*.parquet")}


def check_what_left(store: Path, out: Path) -> set[str]:
    """Everything that left is in the state, as it left, and in both ledgers; the names in the state."""
    opened = sh.open(store)
    series = opened.series("visits")
    made = series.releases()
    names = set(made["name"])
    for name, released in published(out).items():
        again = series.release(name)
        assert again.frame.equals(released.frame), f"{name} was drawn twice"
        assert again.metadata == released.metadata
    ledger_file = out / "sparsehist-ledger.json"
    if ledger_file.exists():
        stores = json.loads(ledger_file.read_text())["stores"].values()
        assert {entry["release"] for each in stores for entry in each["releases"]} <= names
    assert set(published(out)) <= names
    spent = opened.ledger().filter(pl.col("scope") == "path")["level"].item()
    finest = max((as_level(level) for level in made["level"]), default=None)
    assert (spent is None) == (finest is None)
    assert finest is None or as_level(spent) == finest
    return names


def test_a_release_killed_at_every_call_is_whole_or_was_never_drawn(tmp_path: Path) -> None:
    """Before every write, fsync, rename, … of a release that is committed and published."""
    store, out = places(tmp_path / "count")
    create(store)
    release(store, out, "first", level="0.1", false_keys=20)
    all_moments = moments("release", store, out)
    assert {"fsync", "rename"} < {call for call, _ in all_moments}
    outcomes = Counter()
    for moment in all_moments:
        store, out = places(tmp_path / "run")
        create(store)
        first = release(store, out, "first", level="0.1", false_keys=20)
        if not kill("release", store, out, moment):
            outcomes["moment did not come"] += 1
        names = check_what_left(store, out)
        outcomes["committed" if "second" in names else "never drawn"] += 1
        before = sh.open(store).series("visits").release("second").frame if "second" in names else None
        again = release(store, out, "second", **SECOND)
        assert before is None or again.frame.equals(before)
        assert check_what_left(store, out) == {"first", "second"}
        assert sh.read(out / "first.parquet").frame.equals(first.frame)
    assert min(outcomes["committed"], outcomes["never drawn"]) > 3, outcomes
    assert outcomes["moment did not come"] <= 2, outcomes  # calls fall to threads differently from run to run


def test_a_creation_killed_at_every_call_can_be_repeated(tmp_path: Path) -> None:
    """Half a series is never seen: the same creation again gives the whole one."""
    store, out = places(tmp_path / "count")
    all_moments = moments("create", store, out)
    assert len(all_moments) > 20
    for moment in all_moments:
        store, out = places(tmp_path / "run")
        kill("create", store, out, moment)
        series = create(store)
        frame = series.release("all", level=100, threshold=2.0).frame
        truth = log().unique().group_by("key").len().sort("len", descending=True)
        top = frame.join(truth, on="key").with_columns(error=(pl.col("noisy_count") - pl.col("len")).abs())
        assert top.height == truth.filter(pl.col("len") > 3).height or top.height > 20
        assert top["error"].max() < 2
        left = {path.name for path in store.parent.iterdir()} - {"store", "store.generation", "out"}
        assert not left, f"left behind at moment {moment}: {left}"


def test_a_drop_killed_at_every_call_is_whole_or_did_not_happen(tmp_path: Path) -> None:
    """The ledger keeps what was spent either way, and a second try ends it."""
    store, out = places(tmp_path / "count")
    create(store)
    release(store, out, "first", level="0.1", false_keys=20)
    all_moments = moments("drop", store, out)
    for moment in all_moments:
        store, out = places(tmp_path / "run")
        create(store)
        release(store, out, "first", level="0.1", false_keys=20)
        kill("drop", store, out, moment)
        opened = sh.open(store)
        assert set(opened.ledger()["level"]) == {"0.1"}
        if opened.series_names():
            assert opened.series("visits").release("first").frame.equals(sh.read(out / "first.parquet").frame)
            opened.drop("visits")
        assert set(opened.ledger()["level"]) == {"0.1"}
        with pytest.raises(NotFoundError):
            opened.series("visits")
        assert not list((store / "series").iterdir()), f"files left behind at moment {moment}"


def test_three_hundred_kills_at_random_instants_leave_one_history(tmp_path: Path) -> None:
    """A process that releases and publishes is killed again and again, and goes on where it stopped."""
    store, out = places(tmp_path / "run")
    create(store)
    chance = random.Random(1)
    seen: dict[str, pl.DataFrame] = {}
    for _ in range(300):
        work = subprocess.Popen(command("many", store, out), cwd=ROOT)
        time.sleep(0.5 + chance.random() * 1.2)
        work.send_signal(signal.SIGKILL)
        work.wait()
        for name, released in published(out).items():
            assert name not in seen or seen[name].equals(released.frame), f"{name} left twice, differently"
            seen[name] = released.frame
    names = check_what_left(store, out)
    assert len(names) > 50


@pytest.mark.parametrize("kills", [300])
def test_a_log_that_goes_on_is_killed_at_random_instants(tmp_path: Path, kills: int) -> None:
    """Over appends and releases: every step counts once and in full, and what left stays as it left.

    Steps begin again from an empty store whenever they are through.
    """
    rng, outcomes = random.Random(7), Counter()
    store, out = places(tmp_path / "run")
    for _ in range(kills):
        with subprocess.Popen(command("running", store, out), cwd=ROOT, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            try:
                process.wait(rng.uniform(0.0, 1.5))
            except subprocess.TimeoutExpired:
                process.kill()
        outcomes["killed" if process.returncode else "through"] += 1
        if not process.returncode:
            check_running(store, out)
            store, out = places(tmp_path / "run")
        elif store.exists() and sh.open(store).series_names():
            outcomes["steps"] += check_running(store, out)
    assert outcomes["killed"] > 0.9 * kills, outcomes


def check_running(store: Path, out: Path) -> int:
    """Running counts are those of whole steps, each once, and releases that left are in the store as they left."""
    series = sh.open_running(store, "days")
    steps = series.appended()
    with series._hold(None) as (state, record):
        files = StepFiles(state, record, series.declaration.domain.dtypes)
        keys = files.all_keys["key_0"]
        counts = files.counts_at(range(steps), keys.len())
    assert steps == 0 or (np.diff(counts, axis=0) >= 0).all()
    users = pl.concat([day(step) for step in range(1, steps + 1)]) if steps else day(1).clear()
    pairs = users.unique().group_by("user").len().select(pl.col("len").clip(upper_bound=3).sum()).item()
    assert (counts[-1].sum() if steps else 0) == pairs
    for name, released in published(out).items():
        assert series.release(name).frame.equals(released.frame), f"{name} was drawn twice"
    return steps
