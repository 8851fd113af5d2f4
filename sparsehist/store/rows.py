"""Rows of the state as records, events, and the rounds of a noise path."""

from __future__ import annotations

import getpass
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from sparsehist.errors import NotFoundError, present, promise
from sparsehist.privacy.levels import as_level, level_text
from sparsehist.store.database import Database, now
from sparsehist.store.records import NewRound, PathRecord, RegisteredFile, ReleaseRecord, SeriesRecord, Spot
from sparsehist.store.round_file import RoundFile, RoundHead, digest_of
from sparsehist.typing import secret

_OF_EVENTS = ("series_id", "path_id", "level", "population", "release", "reason")
_TIMES = {"first_release", "last_release", "dropped", "happened"}
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  UTC; frames have times without a zone


def read_series(database: Database, series: Path, name: str | None = None) -> list[SeriesRecord]:
    """The series that were not dropped, or the one of a name; `series` is their parent directory."""
    return [_series(database, row, series) for row in database.rows("read_series", name=name)]


def _series(database: Database, row: tuple[Any, ...], series: Path) -> SeriesRecord:
    series_id, name, population, declaration, salt, made_from, accepted, source = row
    files: dict[int | None, list[RegisteredFile]] = {}
    for path_id, *file in database.rows("read_files", series_id=series_id):
        files.setdefault(path_id, []).append(RegisteredFile(*file))
    return SeriesRecord(
        series_id=series_id,
        name=name,
        population=population,
        declaration=json.loads(declaration) | {"source": source},
        salt=salt,
        made_from=made_from,
        accepted=accepted is not None,
        directory=series / series_id,
        files=tuple(files.get(None, ())),
        paths=tuple(
            PathRecord(path_id, kind, workload, strategy, family, bool(integer_noise), tuple(files.get(path_id, ())))
            for path_id, kind, workload, strategy, family, integer_noise in database.rows(
                "read_paths", series_id=series_id
            )
        ),
    )


def ledger_rows(database: Database) -> list[dict[str, Any]]:
    """Rows of `read_ledger`, with the finest level compared exactly."""
    found = _with_times(database.records("read_ledger"))
    for row in found:
        finest = max(map(as_level, json.loads(row.pop("levels"))), default=None)
        row["level"] = None if finest is None else level_text(finest)
        row["unverified"] = bool(row["unverified"])
    return found


def event_rows(database: Database, *, limits: bool = False) -> list[dict[str, Any]]:
    """All events in order, or only those that declare a limit; times are UTC."""
    return _with_times(database.records("read_events", limits=limits))


def insert_event(
    database: Database,
    what: str,
    generation: int,
    *,
    who: str | None = None,
    details: Mapping[str, Any] | None = None,
    **of: Any,
) -> None:
    """Append an event; `of` are further columns."""
    told = None if details is None else as_text(details)
    said = {"generation": generation, "happened": now(), "who": who or _user(), "what": what, "details": told}
    database.change("insert_event", **dict.fromkeys(_OF_EVENTS) | of, **said)


def as_text(value: Mapping[str, Any]) -> str:
    """JSON as the state keeps it."""
    return json.dumps(dict(value), sort_keys=True, ensure_ascii=False)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return "unknown"


def release_from_row(row: tuple[Any, ...]) -> ReleaseRecord:
    """A row of `read_releases` or `read_release`."""
    path_id, generation, name, level, threshold, request, metadata = row
    return ReleaseRecord(path_id, name, as_level(level), threshold, request, metadata, generation)


def _with_times(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for row in found:
        for column in _TIMES & row.keys():
            row[column] = None if row[column] is None else _EPOCH + timedelta(microseconds=row[column])
    return found


@secret
class StoredRound(NamedTuple):
    """The row of a round."""

    generation: int
    name: str
    level: str
    spends: int
    threshold: float
    step: int | None
    metadata: str
    file: str
    size: int
    digest: str
    n_past: int
    n_new: int
    n_empty: int

    @property
    def registered(self) -> RegisteredFile:
        """Its file."""
        return RegisteredFile(self.file, self.size, self.digest)


@dataclass(frozen=True, repr=False)
class PathHistory:
    """The rounds of a noise path in order; a file is opened when its arrays are first needed.

    `n_levels` counts the levels spent up to each round; `levels` (of running counts, steps and levels) are in the
    order of their first release.
    """

    directory: Path
    kind: str
    integer_noise: bool
    rounds: Sequence[StoredRound]
    n_levels: Sequence[int]
    levels: Sequence[Spot]
    opened: dict[int, RoundFile]

    @classmethod
    def new(cls, directory: Path, kind: str, *, integer_noise: bool) -> PathHistory:
        """Of a path without rounds."""
        return cls(directory, kind, integer_noise, (), (), (), {})

    @property
    def n_tracked(self) -> int:
        """Cells tracked so far, or the size of a workload's state."""
        return self.rounds[-1].n_past + self.rounds[-1].n_new if self.rounds else 0

    def next_round(self, record: NewRound, generation: int, metadata: str) -> tuple[list[Spot], RoundHead]:
        """The levels with this round's, and the head of its file; a wrong record is a bug."""
        spends = record.spot not in self.levels
        levels = [*self.levels, *([record.spot] if spends else [])]
        n_past, n_new = self.n_tracked, len(record.positions)
        of_cells = self.kind == "cells"  # all noise of other paths is there from the first round on
        if not of_cells and not self.rounds:
            n_past = len(present(record.level_noise))
        n_empty = int((record.positions == -1).sum())
        promise(set(record.paths) == (set(levels) if of_cells else set()), "new cells without noise at every level")
        promise(of_cells or n_new == 0, "new cells on a path that is not of cells")
        promise(
            {len(noise) for noise in record.paths.values()} <= {n_new} == {len(record.counts)},
            "noise or counts of other cells than the new ones",
        )
        promise(spends == (record.level_noise is not None), "noise of a level that spends nothing, or none")
        promise(record.level_noise is None or len(record.level_noise) == n_past, "noise of other tracked cells")
        promise(record.empty_keys.height == n_empty, "empty cells without keys")
        head = RoundHead(
            generation, record.name, level_text(record.level), float(record.threshold), record.step,
            digest_of(metadata), n_past, n_new, n_empty, len(levels), spends, self.integer_noise,
        )  # fmt: skip
        return levels, head

    def new_cells(self) -> Iterator[tuple[int, slice]]:
        """The rounds that tracked new cells, with the numbers of these."""
        for number, made in enumerate(self.rounds):
            if made.n_new:
                yield number, slice(made.n_past, made.n_past + made.n_new)

    def cells_with_noise(self, ordinal: int) -> Iterator[tuple[int, slice]]:
        """The rounds that hold noise at the level of that number, with the numbers of its cells."""
        for number, n_levels in enumerate(self.n_levels):
            if n_levels > ordinal:
                made = self.rounds[number]
                spent_here = made.spends and n_levels - 1 == ordinal
                cells = slice(0 if spent_here else made.n_past, made.n_past + made.n_new)
                if cells.start < cells.stop:
                    yield number, cells

    def open_round(self, number: int) -> RoundFile:
        """The file of a round, checked when it is first opened."""
        if number not in self.opened:
            made = self.rounds[number]
            head = RoundHead(
                made.generation, made.name, made.level, made.threshold, made.step, digest_of(made.metadata),
                made.n_past, made.n_new, made.n_empty, self.n_levels[number], bool(made.spends), self.integer_noise,
            )  # fmt: skip
            self.opened[number] = RoundFile(self.directory, made.registered, head)
        return self.opened[number]


def read_history(database: Database, path_id: int, series: Path) -> PathHistory:
    """Read the rounds of a noise path; `series` is the parent directory of all series."""
    known = database.rows("read_path", path_id=path_id)
    if not known:
        raise NotFoundError("no such noise path")
    ((series_id, kind, integer_noise),) = known
    rounds = list(map(StoredRound._make, database.rows("read_rounds", path_id=path_id)))
    spent = [
        as_level(level) if step is None else (step, as_level(level))
        for level, _, step in database.rows("read_past", path_id=path_id)
    ]
    n_levels = list(accumulate(made.spends for made in rounds))
    return PathHistory(series / series_id, kind, bool(integer_noise), rounds, n_levels, spent, {})
