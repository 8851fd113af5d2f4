"""The releases of a series, of cells and of workloads alike."""

from __future__ import annotations

import polars as pl

from sparsehist.series.pipeline import ANSWER
from sparsehist.series.release import Release
from sparsehist.series.store_handle import Store

_SHOWN = {
    "series": pl.String,
    "name": pl.String,
    "workload": pl.String,
    "strategy": pl.String,
    "level": pl.String,
    "std": pl.Float64,
    "threshold": pl.Float64,
    "expected_false_keys": pl.Float64,
    "released_at": pl.String,
}


def releases(store: Store, series: str) -> pl.DataFrame:
    """Each release of a series with its public parameters, in order; `workload` is null for one of cells."""
    with store._hold() as state:
        record = state.series(series)
        made = [] if record is None else state.series_releases(record)
    listed = [release for release in made if ANSWER not in release.name]
    rows = [{**release.metadata, "series": series, "name": release.name} for release in listed]
    return pl.DataFrame([{column: row.get(column) for column in _SHOWN} for row in rows], schema=_SHOWN)


def made_before(store: Store, series: str, name: str) -> Release | None:
    """A release that was made, of whichever kind; None if there is none of that name."""
    found = releases(store, series).filter(name=name)
    if found.is_empty():
        return None
    known = store.series(series)
    return known.release(name) if found["workload"].item() is None else known.release_workload(name)
