"""Read rows of the state as records, and write events."""

from __future__ import annotations

import getpass
import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sparsehist.errors import NotFoundError
from sparsehist.privacy.levels import as_level
from sparsehist.store.database import Database, now
from sparsehist.store.records import PathRecord, RegisteredFile, ReleaseRecord, SeriesRecord
from sparsehist.store.rounds import PathHistory, RoundSizes, sealed

_TIMES = {"first_release", "last_release", "dropped", "happened"}
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  UTC; frames have times without a zone


def read_series(database: Database, series: Path, name: str | None = None) -> list[SeriesRecord]:
    """Return all series that were not dropped, or the one of this name; `series` is their parent directory."""
    return [_series(database, row, series) for row in database.rows("read_series", name=name)]


def _series(database: Database, row: tuple[Any, ...], series: Path) -> SeriesRecord:
    series_id, name, declaration, salt, made_from = row
    files: dict[int | None, list[RegisteredFile]] = {}
    for path_id, *file in database.rows("read_files", series_id=series_id):
        files.setdefault(path_id, []).append(RegisteredFile(*file))
    paths = [
        PathRecord(series_id, kind, workload, strategy, bool(integer), path_id, tuple(files.get(path_id, ())))
        for kind, workload, strategy, integer, path_id in database.rows("read_paths", series_id=series_id)
    ]
    own = tuple(files.get(None, ()))
    directory = series / series_id
    return SeriesRecord(series_id, name, json.loads(declaration), salt, own, made_from, directory, tuple(paths))


def insert_event(
    database: Database,
    what: str,
    generation: int,
    *,
    who: str | None = None,
    details: Mapping[str, Any] | None = None,
    **of: Any,
) -> None:
    """Append an event; `of` holds further columns."""
    told = None if details is None else as_text(details)
    said = {"generation": generation, "happened": now(), "who": who or _user(), "what": what, "details": told}
    database.insert("event", **said, **of)


def as_text(value: Mapping[str, Any]) -> str:
    """Return a value as JSON, as the state stores it."""
    return json.dumps(dict(value), sort_keys=True, ensure_ascii=False)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return "unknown"


def read_releases(database: Database, sql: str, **of: object) -> list[ReleaseRecord]:
    """Run the statement `read_releases` or `read_release`, and return its rows as releases."""
    return [
        ReleaseRecord(
            path_id, name, as_level(level), threshold, json.loads(request), json.loads(metadata), generation
        )
        for path_id, generation, name, level, threshold, request, metadata in database.rows(sql, **of)
    ]


def rows_with_times(database: Database, sql: str, **of: object) -> list[dict[str, Any]]:
    """Return rows as dicts; times are UTC."""
    found = database.records(sql, **of)
    for row in found:
        for column in _TIMES & row.keys():
            row[column] = None if row[column] is None else _EPOCH + timedelta(microseconds=row[column])
    return found


def read_history(database: Database, path_id: int, series: Path) -> PathHistory:
    """Read the rounds of a noise path; `series` is the parent directory of all series."""
    known = database.rows("select series_id, kind, integer_noise from path where path_id = $path_id", path_id=path_id)
    if not known:
        raise NotFoundError("no such noise path")
    ((series_id, kind, integer_noise),) = known
    rounds = []
    for n_past, n_new, n_empty, n_levels, file, size, digest, *row in database.rows("read_rounds", path_id=path_id):
        sizes = RoundSizes(n_past, n_new, n_empty, n_levels, bool(row[-1]), sealed(*row))
        rounds.append((sizes, RegisteredFile(file, size, digest)))
    spent = [
        as_level(level) if step is None else (step, as_level(level))
        for level, _, step in database.rows("read_past", path_id=path_id)
    ]
    return PathHistory(series / series_id, kind, bool(integer_noise), rounds, spent)
