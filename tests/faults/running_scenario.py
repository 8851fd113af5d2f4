"""A log that goes on, killed at every call of the system: `python -m tests.faults.running_scenario PLACE KILLS`.

One process imports everything and starts no thread. Every attempt is a fork of it that dies at its n-th call; another
fork looks at all there is. Says how many kills there were, and over how many steps.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import numpy as np
import polars as pl

import sparsehist as sh
from sparsehist.release.steps import StepFiles
from sparsehist.series import running_series  # noqa: F401 - read once, so that no fork of this process does it again
from tests.store.crashing import in_child, kill_at

LEVELS = ["0.05", "0.4", "0.1", "0.2", "0.05", "0.3"]
STEPS = 60


def day(step: int) -> pl.DataFrame:
    """The log of a step, the same in every process; users, who have names, come back."""
    rng = np.random.default_rng(step)
    keys = [f"k{k}" for k in rng.zipf(1.4, 600) % 60]
    return pl.DataFrame({"user": [f"u{u}" for u in rng.integers(0, 40 * step + 200, 600)], "key": keys})


def go_on(store: Path, out: Path, until: int) -> None:
    """Append and release step by step from where a killed run left off, the last ones again."""
    series = sh.create(
        sh.open(store, create=True, wait=20), name="days", unit="user", key="key", max_keys=3,
        domain="strings(max_bytes=8)", steps=STEPS, if_exists="reuse",
    )  # fmt: skip
    for step in range(max(1, series.appended()), until + 1):
        series.append(day(step), step=step)
        for at, what in ((step, "running"), (1 + 7 * step % step, "running"), (step, "new")):
            name = f"{what}_{step}_{at}"
            released = series.release(name, step=at, what=what, level=LEVELS[step % len(LEVELS)], threshold=90.0)
            if not (out / f"{name}.parquet").exists():
                released.write_parquet(out / f"{name}.parquet")


def check(store: Path, out: Path) -> None:
    """Counts are those of whole steps, each once; what left is in the store as it left; nothing else is there."""
    if not store.exists() or not sh.open(store).series_names():
        return
    series = sh.open(store).series("days")
    steps = series.appended()
    with series._hold() as (state, record):
        state.verify()  # also erases what killed processes left
        files = StepFiles(state, record, series.declaration.domain.dtypes)
        counts = files.counts_at(range(steps), files.all_keys.height)
        # What a step took the place of says who counted: it must not outlive the step.
        known = {file.name for path in state.paths(record) for file in path.files} | {f.name for f in record.files}
        rounds = {path.name for path in record.directory.glob("round-*")}
        there = {path.name for path in record.directory.iterdir()}
        assert set(there) == known | rounds
        released = {made.name for made in state.series_releases(record)}
        assert len(rounds) == len(released)
    assert steps == 0 or (np.diff(counts, axis=0) >= 0).all()
    users = pl.concat([day(step) for step in range(1, steps + 1)]) if steps else day(1).clear()
    pairs = users.unique().group_by("user").len().select(pl.col("len").clip(upper_bound=3).sum()).item()
    assert (counts[-1].sum() if steps else 0) == pairs
    left = {path.stem: sh.read(path) for path in out.glob("*.parquet")}
    assert set(left) <= released
    for name, release in left.items():
        assert series.release(name).frame.equals(release.frame), f"{name} was drawn twice"


def everywhere(place: Path, most: int) -> tuple[int, int]:
    """Kill step after step at each of its calls; how many kills, and the last step that was reached."""
    store, out = place / "store", place / "out"
    out.mkdir(parents=True)
    # At the fourth step runs of the steps before are merged and removed.
    assert in_child(lambda: go_on(store, out, 3)) == 0
    kills, moment, step = 0, 0, 4
    while kills < most:

        def attempt(moment: int = moment, step: int = step) -> None:
            kill_at(moment)
            go_on(store, out, step)

        ended = in_child(attempt)
        assert in_child(lambda: check(store, out)) == 0, f"step {step}, after a kill at call {moment}"
        if ended == 0:
            step, moment = step + 1, 0
            continue
        assert ended == -signal.SIGKILL, f"step {step}, call {moment} failed"
        kills, moment = kills + 1, moment + 1
    return kills, step


if __name__ == "__main__":
    sys.stdout.write(" ".join(map(str, everywhere(Path(sys.argv[1]), int(sys.argv[2])))) + "\n")
