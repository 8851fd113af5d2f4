"""A log in periods, to be killed: run as `python -m tests.faults.periods_scenario STORE OUT`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars as pl

import sparsehist as sh

WEEKS = [f"2026-W{week:02}" for week in (*range(2, 30, 2), *range(1, 30, 2))]
MOST = 3


def of_week(place: int) -> pl.DataFrame:
    """The log of a period, the same in every process; users come back."""
    rng = np.random.default_rng(place)
    return pl.DataFrame({"user": rng.integers(0, 900, 400), "key": rng.integers(0, 5, 400)})


def go_on(store: Path, out: Path) -> None:
    """Add and release period by period, all of them again from the first."""
    log = sh.create(
        sh.open(store, create=True, wait=20), name="weeks", unit="user", key="key", max_keys=5,
        domain="integers(9)", if_exists="reuse", every=sh.Every("week", most_periods=MOST, budget="1"),
    )  # fmt: skip
    for place, week in enumerate(WEEKS):
        made = log.append(of_week(place), period=week).release("public", level="0.3", threshold=20.0)
        made.write_parquet(out / f"{week}.parquet")


if __name__ == "__main__":
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    go_on(Path(sys.argv[1]), Path(sys.argv[2]))
