"""Provide small logs for periodic series, and read from a store which units a series counted."""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

import sparsehist as sh
from sparsehist.release.periods import periods_of

WEEKS = ("2026-W10", "2026-W11", "2026-W12", "2026-W13", "2026-W14")


def of_users(users: Collection[str], key: int = 1) -> pl.DataFrame:
    """Return a log in which each of these users has the given key."""
    return pl.DataFrame(
        {"user": sorted(users), "key": [key] * len(users)}, schema={"user": pl.String, "key": pl.Int64}
    )


def in_weeks(*, store: object = ":memory:", seed: int | None = 1, **declared: object) -> sh.PeriodicSeries:
    """Declare a periodic series, weekly by default, without appending a period."""
    given = {"name": "log", "unit": "user", "key": "key", "max_keys": 1, "domain": sh.Integers(50)}
    of_every = {
        name: declared.pop(name) for name in ("periods", "protects", "most_periods", "budget") & declared.keys()
    }
    every = sh.Every(declared.pop("period", "week"), **of_every)
    home = (
        store
        if isinstance(store, sh.Store)
        else sh.open(store, create=True, seed=seed if store == ":memory:" else None)
    )
    return sh.create(home, every=every, **given | declared)


def who_counts(log: sh.PeriodicSeries) -> dict[str, set[str]]:
    """Return the units that a periodic series counts in each of its periods."""
    with log.store.hold() as state:
        files = {record.declaration["period"]: record.directory / "units" for record in periods_of(state, log.name)}
        return {period: set(pl.read_ipc(file).to_series()) for period, file in files.items()}


def true_count(log: sh.PeriodicSeries, period: str) -> int:
    """Return the exact number of units that a periodic series counts in a period."""
    with log.store.hold() as state:
        record = next(one for one in periods_of(state, log.name) if one.declaration["period"] == period)
        return int(sum(state.series_files(record).groups[0], start=0))
