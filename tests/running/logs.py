"""Small logs that go on, and what should be kept of them by brute force."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import polars as pl

import sparsehist as sh
from sparsehist.release.step_files import StepFiles
from sparsehist.release.step_pairs import spread

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
    **declared: object,
) -> sh.RunningSeries:
    """A series in memory with some days appended; of equal seeds the salts are equal."""
    series = sh.create(
        sh.open(":memory:", seed=seed), name="log", unit="user", key="key", max_keys=max_keys,
        domain=domain or sh.Integers(50), steps=steps, **declared,
    )  # fmt: skip
    for step, rows in enumerate(days, 1):
        series.append(frame(rows), step=step)
    return series


def pairs_of(series: sh.RunningSeries) -> set[tuple[str, int]]:
    """The pairs that counted so far."""
    with series._hold() as (state, record):
        files = StepFiles(state, record, series.declaration.domain.dtypes)
        keys = files.all_keys["key_0"]
        users = [user for values in files.known_units.values() for user in values["unit"]]
        unit_of = {
            int(word): user for word, user in zip(spread(np.arange(len(users)), record.salt), users, strict=True)
        }
        return {
            (unit_of[int(word)], keys[int(number)])
            for run in files.pair_runs
            for word, low, high in zip(run.units, run.starts[:-1], run.starts[1:], strict=True)
            for number in run.keys[low:high]
        }


def kept(days: Sequence[Rows], **declared: object) -> list[set[tuple[str, int]]]:
    """The pairs that counted, by step."""
    series = started([], **declared)
    found = [set()]
    for step, rows in enumerate(days, 1):
        series.append(
            frame(rows),
            step=step,
        )
        found.append(pairs_of(series))
    return [now - before for before, now in itertools.pairwise(found)]


def counts(series: sh.RunningSeries, steps: int, cells: int = 50) -> np.ndarray:
    """Running counts of every cell; shape (steps, cells)."""
    with series._hold() as (state, record):
        files = StepFiles(state, record, series.declaration.domain.dtypes)
        keys = files.all_keys["key_0"].to_numpy()
        known = files.counts_at(list(range(files.n_steps)), keys.size)
    found = np.zeros((steps, cells), np.int64)
    found[: len(known), keys] = known
    return found
