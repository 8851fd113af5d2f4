"""A log in periods, killed at random instants."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

import sparsehist as sh
from tests.faults.periods_scenario import MOST, WEEKS, of_week
from tests.periods.logs import who_counts

pytestmark = pytest.mark.faults


ROOT = Path(__file__).parents[2]


def places(parent: Path) -> tuple[Path, Path]:
    """A store and a directory to publish in."""
    shutil.rmtree(parent, ignore_errors=True)
    out = parent / "out"
    out.mkdir(parents=True)
    return parent / "store", out


def published(out: Path) -> dict[str, sh.Release]:
    """What has left: every Parquet file there is has to be whole."""
    return {path.stem: sh.read(path) for path in out.glob("*.parquet")}


@pytest.mark.parametrize("kills", [60])
def test_a_log_in_periods_is_killed_at_random_instants(tmp_path: Path, kills: int) -> None:
    """A period counts in full or not at all, nobody in more than may be, and what left stays as it left."""
    rng, outcomes = random.Random(11), Counter()
    store, out = places(tmp_path / "whole")
    begin = time.monotonic()
    assert not run(store, out, None)
    whole = time.monotonic() - begin
    assert check(store, out) == len(WEEKS)
    store, out = places(tmp_path / "run")
    for number in range(kills):
        killed = run(store, out, rng.uniform(0.05, 0.5) * whole)
        outcomes["killed" if killed else "through"] += 1
        if store.exists():
            outcomes["periods"] += check(store, out)
        if not killed:
            store, out = places(tmp_path / f"run{number}")
    assert outcomes["killed"] > 0.8 * kills, outcomes


def run(store: Path, out: Path, seconds: float | None) -> bool:
    """Add all periods, and kill that after some time unless it is through; says whether it was killed."""
    command = [sys.executable, "-B", "-m", "tests.faults.periods_scenario", str(store), str(out)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
    assert process.returncode in (0, -signal.SIGKILL)
    return process.returncode != 0


def check(store: Path, out: Path) -> int:
    """Who counts is what first come, first kept says of the periods that are there."""
    try:
        log = sh.open(store).series("weeks")
    except sh.errors.NotFoundError:
        return 0
    added = log.appended()
    assert added == WEEKS[: len(added)]
    times: Counter[int] = Counter()
    for place, (week, units) in enumerate(who_counts(log).items()):
        assert week == WEEKS[place]
        wanted = {user for user in of_week(place)["user"].unique() if times[user] < MOST}
        assert units == wanted
        times.update(wanted)
    for week, released in published(out).items():
        assert log.series(week).release("public").frame.equals(released.frame), f"{week} was drawn twice"
    with log.store.home.hold() as state:
        state.verify()
    return len(added)
