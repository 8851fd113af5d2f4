"""Transactions: each claims a generation and ends with an event. New series and rounds are committed here."""

from __future__ import annotations

import getpass
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sparsehist.errors import NameTakenError, StoreInUseError, promise
from sparsehist.privacy.levels import level_text
from sparsehist.store.database import Database
from sparsehist.store.private_files import check_file
from sparsehist.store.records import NewPath, NewRound, NewSeries, RegisteredFile, Spot
from sparsehist.store.round_file import RoundHead, digest_of, write_round
from sparsehist.store.rows import PathHistory

_OF_EVENTS = ("series_id", "path_id", "level", "population", "release", "reason")
_TOLD = ("unverified",)
"""Fields of a declaration that the event of its series repeats."""


@contextmanager
def changing(database: Database, generation: int, when: int, what: str, **said: Any) -> Iterator[dict[str, Any]]:
    """A transaction on top of a generation. It ends with an event, to whose columns the block may add."""
    with database.transaction():
        if not database.change("raise_generation", seen=generation):
            raise StoreInUseError(
                "the store was changed by somebody else meanwhile; nothing was written, begin again"
            )
        yield said
        insert_event(database, when, what, generation=generation + 1, **said)


def commit_series(database: Database, directory: Path, record: NewSeries, generation: int, when: int) -> int:
    """Register a series on top of a generation; returns the path of its cells."""
    for file in record.files:
        check_file(directory, file)
    declaration = record.declaration
    details = {name: value for name in _TOLD if (value := declaration.get(name))} or None
    said = {"who": record.who, "series_id": record.series_id, "details": details}
    with changing(database, generation, when, "create series", **said) as event:
        database.change("insert_population", name=declaration["population"], created=when)
        unit = declaration.get("unit")
        inserted = database.change(
            "insert_series",
            series_id=record.series_id,
            name=record.name,
            population=declaration["population"],
            declaration=_as_text(declaration),
            salt=record.salt,
            made_from=record.made_from,
            created=when,
            unit=f"({', '.join(unit)})" if isinstance(unit, list) else unit,
            max_keys=declaration.get("max_keys"),
            unverified=bool(declaration.get("unverified")),
            source=declaration.get("source") or "",
        )
        if not inserted:
            raise NameTakenError(f"a series {record.name!r} exists already")
        register_files(database, record.series_id, record.files)
        path = NewPath(
            "cells", record.series_id, None, None, declaration["noise"], record.integer_noise, declaration.get("cap")
        )
        ((path_id,),) = database.rows("insert_path", **asdict(path))
        event["path_id"] = path_id
    return int(path_id)


def commit_round(
    database: Database,
    history: PathHistory,
    record: NewRound,
    generation: int,
    when: int,
    *,
    durable: bool,
) -> None:
    """Write the arrays of a round and commit it on top of a generation, with its path if that is new."""
    series_id = history.directory.name
    if database.rows("read_release", series_id=series_id, name=record.name):
        raise NameTakenError(f"a release {record.name!r} exists already")
    for file in record.attachments:
        check_file(history.directory, file)
    metadata = _as_text(record.metadata)
    levels, head = _checked(history, record, generation + 1, metadata)
    # The random part: a round that failed without saying whether it committed is never written over.
    target = history.directory / f"round-{generation + 1}-{secrets.token_hex(4)}"
    written = write_round(
        target,
        head,
        record.positions,
        record.counts,
        record.level_noise,
        [record.paths[level] for level in levels] if record.paths else [],
        record.empty_keys,
        durable=durable,
    )
    try:
        spent = {"series_id": series_id, "level": head.level}
        with changing(database, generation, when, "release", **spent, who=record.who, release=record.name) as event:
            path_id = record.path_id
            if isinstance(path_id, NewPath):
                ((path_id,),) = database.rows("insert_path", **asdict(path_id))
            event["path_id"] = path_id
            register_files(database, series_id, record.attachments, path_id)
            columns = {
                name: value for name, value in asdict(head).items() if name not in ("n_levels", "integer_noise")
            }
            database.change(
                "insert_release",
                **(columns | {"metadata": metadata}),
                series_id=series_id,
                path_id=path_id,
                request=_as_text(record.request),
                round=record.metadata.get("round"),
                numerical_slack=record.metadata.get("numerical_slack") or 0.0,
                delta_infinity=record.metadata.get("delta_infinity") or 0.0,
                released=when,
                file=written.name,
                size=written.size,
                digest=written.digest,
            )
    except StoreInUseError:
        for name in (target.name, *(file.name for file in record.attachments)):
            (history.directory / name).unlink(missing_ok=True)
        raise


def insert_event(
    database: Database,
    when: int,
    what: str,
    *,
    generation: int,
    who: str | None = None,
    details: Mapping[str, Any] | None = None,
    **of: Any,
) -> None:
    """Append an event; `of` are further columns."""
    database.change(
        "insert_event",
        generation=generation,
        happened=when,
        who=_user() if who is None else who,
        what=what,
        details=None if details is None else _as_text(details),
        **dict.fromkeys(_OF_EVENTS) | of,
    )


def register_files(
    database: Database, series_id: str, files: Sequence[RegisteredFile], path_id: int | None = None
) -> None:
    """Register files of a series."""
    for file in files:
        database.change("insert_file", series_id=series_id, path_id=path_id, **asdict(file))


def _checked(history: PathHistory, record: NewRound, generation: int, metadata: str) -> tuple[list[Spot], RoundHead]:
    """The levels of the path with this round's, and the head of its file; a wrong record is a bug."""
    spends = record.spot not in history.levels
    levels = [*history.levels, *([record.spot] if spends else [])]
    n_new = len(record.positions)
    is_workload = history.kind != "cells"  # all of its noise is there from the first round on
    promise(set(record.paths) == (set() if is_workload else set(levels)), "new cells without noise at every level")
    promise(n_new == 0 or not is_workload, "new cells on a path that is not of cells")
    promise(len(record.counts) == n_new, "new cells without counts")
    promise(all(len(noise) == n_new for noise in record.paths.values()), "noise of other cells than the new ones")
    promise(
        (record.level_noise is not None) == spends, "noise of a level that spends nothing, or none of one that does"
    )
    n_past = history.n_tracked
    if is_workload and record.level_noise is not None and not history.rounds:
        n_past = len(record.level_noise)
    promise(
        record.level_noise is None or len(record.level_noise) == n_past, "noise of other cells than those tracked"
    )
    n_empty = int((record.positions == -1).sum())
    promise(record.empty_keys.height == n_empty, "empty cells without keys")
    head = RoundHead(
        generation, record.name, level_text(record.level), float(record.threshold), record.step, digest_of(metadata),
        n_past, n_new, n_empty, len(levels), spends, history.integer_noise,
    )  # fmt: skip
    return levels, head


def _as_text(value: Mapping[str, Any]) -> str:
    return json.dumps(dict(value), sort_keys=True, ensure_ascii=False)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return "unknown"
