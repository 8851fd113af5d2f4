"""A log that goes on, killed at random instants."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import sparsehist as sh
from sparsehist.running.step_files import StepFiles
from tests.faults.running_scenario import day

pytestmark = pytest.mark.faults
ROOT = Path(__file__).parents[2]


def command(store: Path, out: Path) -> list[str]:
    """The work as a process of its own."""
    return [sys.executable, "-B", "-m", "tests.faults.running_scenario", str(store), str(out)]


def places(parent: Path) -> tuple[Path, Path]:
    """A store and a directory to publish in."""
    shutil.rmtree(parent, ignore_errors=True)
    out = parent / "out"
    out.mkdir(parents=True)
    return parent / "store", out


def published(out: Path) -> dict[str, sh.Release]:
    """What has left: every Parquet file there is has to be whole."""
    return {path.stem: sh.read(path) for path in out.glob("*.parquet")}


@pytest.mark.parametrize("kills", [300])
def test_a_log_that_goes_on_is_killed_at_random_instants(tmp_path: Path, kills: int) -> None:
    """Over appends and releases: every step counts once and in full, and what left stays as it left.

    Steps begin again from an empty store whenever they are through.
    """
    rng, outcomes = random.Random(7), Counter()
    store, out = places(tmp_path / "run")
    for _ in range(kills):
        with subprocess.Popen(command(store, out), cwd=ROOT, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            try:
                process.wait(rng.uniform(0.0, 1.5))
            except subprocess.TimeoutExpired:
                process.kill()
        assert process.returncode in (0, -signal.SIGKILL)
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
        # What a step took the place of says who counted: it must not outlive the step.
        known = {file.name for path in state.paths(record) for file in path.files}
        rounds = {path.name for path in record.directory.glob("round-*")}
        assert {path.name for path in record.directory.iterdir()} == known | rounds | {f.name for f in record.files}
    assert steps == 0 or (np.diff(counts, axis=0) >= 0).all()
    users = pl.concat([day(step) for step in range(1, steps + 1)]) if steps else day(1).clear()
    pairs = users.unique().group_by("user").len().select(pl.col("len").clip(upper_bound=3).sum()).item()
    assert (counts[-1].sum() if steps else 0) == pairs
    for name, released in published(out).items():
        assert series.release(name).frame.equals(released.frame), f"{name} was drawn twice"
    return steps
