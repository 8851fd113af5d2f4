"""Work that is to be killed, run as `python -m tests.faults.scenario WORK STORE OUT`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars as pl

import sparsehist as sh

SECOND = {"level": "0.3", "false_keys": 20}
LEVELS = ["0.05", "0.4", "0.1", "0.2", "0.05", "0.3"]


def log() -> pl.DataFrame:
    """A small log, the same in every process."""
    rng = np.random.default_rng(5)
    return pl.DataFrame({"user": np.repeat(np.arange(800), 3), "key": [f"k{k}" for k in rng.zipf(1.4, 2400) % 60]})


def create(store: Path, name: str = "visits") -> sh.Series:
    """Create the series, or go on where a killed run left off."""
    return sh.create(
        store, log(), name=name, unit="user", key="key", max_keys=3, domain="strings(max_bytes=8)",
        if_exists="reuse", engine="polars", wait=20,
    )  # fmt: skip


def release(store: Path, out: Path, name: str, **request: object) -> sh.Release:
    """Release under a name and publish the file."""
    released = sh.open(store, wait=20).series("visits").release(name, **request)  # type: ignore[arg-type]
    released.write_parquet(out / f"{name}.parquet")
    return released


STEPS = 60


def day(step: int) -> pl.DataFrame:
    """The log of a step, the same in every process; users come back."""
    rng = np.random.default_rng(step)
    keys = [f"k{k}" for k in rng.zipf(1.4, 600) % 60]
    return pl.DataFrame({"user": rng.integers(0, 40 * step + 200, 600), "key": keys})


def go_on(store: Path, out: Path) -> None:
    """Append and release step by step from where a killed run left off, the last ones again."""
    series = sh.create_running(
        store, name="days", unit="user", key="key", max_keys=3, domain="strings(max_bytes=8)", steps=STEPS,
        if_exists="reuse", wait=20,
    )  # fmt: skip
    for step in range(max(1, series.appended()), STEPS + 1):
        series.append(day(step), step=step)
        for at in (step, 1 + 7 * step % step):
            name = f"r{step}_{at}"
            released = series.release(name, step=at, level=LEVELS[step % len(LEVELS)], threshold=60.0)
            released.write_parquet(out / f"{name}.parquet")


def main(work: str, store: Path, out: Path) -> None:
    """Do one piece of work."""
    if work == "create":
        create(store)
    elif work == "release":
        release(store, out, "second", **SECOND)
    elif work == "drop":
        sh.open(store).drop("visits")
    elif work == "running":
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        go_on(store, out)
    elif work == "many":
        made = sh.open(store, wait=20).series("visits").releases().height
        for i in range(max(0, made - 2), 100_000):  # the last ones again, then on
            release(store, out, f"r{i}", level=LEVELS[i % len(LEVELS)], threshold=42.0 + i % 5)
    else:
        raise ValueError(work)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
