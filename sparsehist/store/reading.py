"""Rows of the state as records and frames."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC
from pathlib import Path
from typing import Any

import polars as pl

from sparsehist.privacy.levels import as_level, level_float, level_text
from sparsehist.store.records import PathRecord, RegisteredFile, SeriesRecord

Row = tuple[Any, ...]

_TIME = pl.Datetime("us")
_LEDGER = {
    "series": pl.String,
    "series_id": pl.String,
    "population": pl.String,
    "path_id": pl.Int64,
    "kind": pl.String,
    "workload": pl.String,
    "strategy": pl.String,
    "family": pl.String,
    "level": pl.String,
    "level_float": pl.Float64,
    "n_releases": pl.Int64,
    "cap": pl.String,
    "first_release": _TIME,
    "last_release": _TIME,
    "dropped": _TIME,
}
_EVENTS = {
    "event_id": pl.Int64,
    "happened": _TIME,
    "who": pl.String,
    "what": pl.String,
    "series": pl.String,
    "path_id": pl.Int64,
    "level": pl.String,
    "generation": pl.Int64,
}


def series_from_row(row: Row, series: Path) -> SeriesRecord:
    """A row of `state_read_series`; `series` is the directory of all series."""
    series_id, name, population, declaration, salt, created, files, paths = row
    return SeriesRecord(
        series_id=series_id,
        name=name,
        population=population,
        declaration=json.loads(declaration),
        salt=bytes(salt),
        created=created.replace(tzinfo=UTC),
        directory=series / series_id,
        files=tuple(RegisteredFile(*_values(file)) for file in files),
        paths=tuple(PathRecord(*_values(path)) for path in paths),
    )


def ledger_frame(rows: Sequence[Row]) -> pl.DataFrame:
    """Rows of `state_read_ledger`, with the finest level compared exactly."""
    return pl.DataFrame([_with_finest(row) for row in rows], schema=_LEDGER, orient="row")


def event_frame(rows: Sequence[Row]) -> pl.DataFrame:
    """Rows of `state_read_events`."""
    return pl.DataFrame(rows, schema=_EVENTS, orient="row")


def _with_finest(row: Row) -> Row:
    *path, levels, n_releases, cap, first, last, dropped = row
    finest = max(map(as_level, levels), default=None)
    shown = (None, None) if finest is None else (level_text(finest), level_float(finest))
    return (*path, *shown, n_releases, cap, first, last, dropped)


def _values(structure: Any) -> list[Any]:
    """The values of a row inside a list, which DuckDB hands over by name or, without names, in order."""
    return list(structure.values()) if isinstance(structure, dict) else list(structure)
