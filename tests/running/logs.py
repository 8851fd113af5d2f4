"""Provide small logs of several steps, and read from the store which (unit, key) pairs and counts it keeps."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import polars as pl

import sparsehist as sh
from sparsehist.release.steps import StepFiles, unit_digests

Rows = Sequence[tuple[object, object]]


def frame(rows: Rows) -> pl.DataFrame:
    """Return a log with the columns `user` and `key` from (user, key) pairs."""
    return pl.DataFrame(list(rows), schema={"user": pl.String, "key": pl.Int64}, orient="row")


def started(
    days: Sequence[Rows],
    *,
    max_keys: int = 2,
    steps: int = 5,
    domain: sh.Domain | None = None,
    seed: int = 1,
    **declared: object,
) -> sh.RunningSeries:
    """Create a running series in memory and append each log in `days` as one step; equal seeds give equal salts."""
    series = sh.create(
        sh.open(":memory:", seed=seed), name="log", unit="user", key="key", max_keys=max_keys,
        domain=domain or sh.Integers(50), steps=steps, **declared,
    )  # fmt: skip
    for step, rows in enumerate(days, 1):
        series.append(frame(rows), step=step)
    return series


def pairs_of(series: sh.RunningSeries, days: Sequence[Rows]) -> set[tuple[str, int]]:
    """Return the (user, key) pairs that a running series has counted for the users in the logs `days`."""
    users = pl.Series(sorted({str(user) for day in days for user, _ in day}), dtype=pl.String)
    with series._hold() as (state, record):
        files = StepFiles(state, record, series.declaration.domain.dtypes)
        digests = unit_digests(users, record.salt)[0]
        keys = files.all_keys["key_0"]
        return {(users[row], keys[number]) for row, number in files.pairs_of(digests).iter_rows()}


def kept(days: Sequence[Rows], **declared: object) -> list[set[tuple[str, int]]]:
    """Append the logs in `days` to a new running series, and return the new (user, key) pairs of each step."""
    series = started([], **declared)
    found = [set()]
    for step, rows in enumerate(days, 1):
        series.append(frame(rows), step=step)
        found.append(pairs_of(series, days))
    return [now - before for before, now in itertools.pairwise(found)]


def counts(series: sh.RunningSeries, steps: int, cells: int = 50) -> np.ndarray:
    """Return the running counts of all cells as an array of shape (steps, cells)."""
    with series._hold() as (state, record):
        files = StepFiles(state, record, series.declaration.domain.dtypes)
        keys = files.all_keys["key_0"].to_numpy()
        known = files.counts_at(range(files.n_steps), np.arange(keys.size))
    found = np.zeros((steps, cells), np.int64)
    found[: len(known), keys] = known
    return found
