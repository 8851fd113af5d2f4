"""Small logs that go on, and what should be kept of them by brute force."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

import sparsehist as sh
from sparsehist.running.step_files import StepFiles

ENGINES = ("polars", "duckdb")
Rows = Sequence[tuple[object, object]]


def frame(rows: Rows) -> pl.DataFrame:
    """Rows of (user, key) as a log."""
    return pl.DataFrame(list(rows), schema={"user": pl.String, "key": pl.Int64}, orient="row")


def started(
    days: Sequence[Rows],
    *,
    max_keys: int = 2,
    steps: int = 5,
    domain: sh.Domain | None = None,
    seed: int = 1,
    engine: str = "auto",
    **declared: object,
) -> sh.RunningSeries:
    """A series in memory with some days appended; of equal seeds the salts are equal."""
    series = sh.create_running(
        ":memory:", name="log", unit="user", key="key", max_keys=max_keys, domain=domain or sh.Integers(50),
        steps=steps, seed=seed, **declared,
    )  # fmt: skip
    for step, rows in enumerate(days, 1):
        series.append(frame(rows), step=step, engine=engine)
    return series


def kept(series: sh.RunningSeries) -> list[set[tuple[str, int]]]:
    """The pairs that counted, by step."""
    with series._hold(None) as (state, record):
        files = StepFiles(state, record, series.declaration.domain.dtypes)
        keys = files.all_keys["key_0"]
        frames = [pl.read_ipc(files._path(step, "pairs")) for step in range(files.n_steps)]
    return [{(user, keys[number]) for user, number in pairs.rows()} for pairs in frames]


def counts(series: sh.RunningSeries, steps: int, cells: int = 50) -> np.ndarray:
    """Running counts of every cell; shape (steps, cells)."""
    with series._hold(None) as (state, record):
        files = StepFiles(state, record, series.declaration.domain.dtypes)
        keys = files.all_keys["key_0"].to_numpy()
        known = files.counts_at(list(range(files.n_steps)), keys.size)
    found = np.zeros((steps, cells), np.int64)
    found[: len(known), keys] = known
    return found
