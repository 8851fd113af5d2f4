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
_LEDGER: dict[str, type[pl.DataType] | pl.DataType] = {
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
    "numerical_slack": pl.Float64,
    "dropped": _TIME,
    "delta_infinity": pl.Float64,
    "first_generation": pl.Int64,
    "unit": pl.String,
    "max_keys": pl.Int64,
    "unverified": pl.Boolean,
}
_EVENTS: dict[str, type[pl.DataType] | pl.DataType] = {
    "number": pl.Int64,
    "generation": pl.Int64,
    "happened": _TIME,
    "who": pl.String,
    "what": pl.String,
    "series": pl.String,
    "series_id": pl.String,
    "path_id": pl.Int64,
    "level": pl.String,
    "population": pl.String,
    "release": pl.String,
    "reason": pl.String,
    "details": pl.String,
}


def series_from_rows(row: Row, files: Sequence[Row], paths: Sequence[Row], series: Path) -> SeriesRecord:
    """A row of `state_read_series` with all rows of its files and paths; `series` is the directory of all."""
    series_id, name, population, declaration, salt, created = row
    return SeriesRecord(
        series_id=series_id,
        name=name,
        population=population,
        declaration=json.loads(declaration),
        salt=bytes(salt),
        created=created.replace(tzinfo=UTC),
        directory=series / series_id,
        files=_files_of(files, series_id, None),
        paths=tuple(
            _path(path, _files_of(files, series_id, path[1]))
            for path in sorted(paths, key=_path_id)
            if path[0] == series_id
        ),
    )


def _path(row: Row, files: tuple[RegisteredFile, ...]) -> PathRecord:
    _, path_id, kind, workload, strategy, family, integer_noise = row
    return PathRecord(path_id, kind, workload, strategy, family, integer_noise, files)


def _files_of(rows: Sequence[Row], series_id: str, path_id: int | None) -> tuple[RegisteredFile, ...]:
    return tuple(sorted((RegisteredFile(*row[2:]) for row in rows if row[:2] == (series_id, path_id)), key=_name))


def ledger_frame(rows: Sequence[Row]) -> pl.DataFrame:
    """Rows of `state_read_ledger`, with the finest level compared exactly."""
    return pl.DataFrame([_with_finest(row) for row in rows], schema=_LEDGER, orient="row")


def event_frame(rows: Sequence[Row]) -> pl.DataFrame:
    """Rows of `state_read_events`."""
    return pl.DataFrame(rows, schema=_EVENTS, orient="row")


def _with_finest(row: Row) -> Row:
    path, levels, more = row[:8], row[8], row[9:]
    finest = max(map(as_level, levels), default=None)
    shown = (None, None) if finest is None else (level_text(finest), level_float(finest))
    return (*path, *shown, *more)


def _path_id(row: Row) -> int:
    return int(row[1])


def _name(file: RegisteredFile) -> str:
    return file.name
