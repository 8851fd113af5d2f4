"""A log that goes on, to be killed: run as `python -m tests.faults.running_scenario STORE OUT`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars as pl

import sparsehist as sh

LEVELS = ["0.05", "0.4", "0.1", "0.2", "0.05", "0.3"]
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
            released = series.release(name, step=at, level=LEVELS[step % len(LEVELS)], threshold=90.0)
            released.write_parquet(out / f"{name}.parquet")


if __name__ == "__main__":
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    go_on(Path(sys.argv[1]), Path(sys.argv[2]))
