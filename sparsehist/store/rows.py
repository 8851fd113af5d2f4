"""Rows of the state as records and by column, and what happened on a noise path."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from sparsehist.errors import NotFoundError
from sparsehist.privacy.levels import as_level, level_text
from sparsehist.store.database import Database
from sparsehist.store.records import PathRecord, RegisteredFile, ReleaseRecord, SeriesRecord, Spot
from sparsehist.store.round_file import RoundFile, RoundShape
from sparsehist.typing import secret

Row = tuple[Any, ...]

_TIMES = {"first_release", "last_release", "dropped", "happened"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_series(database: Database, series: Path, name: str | None = None) -> list[SeriesRecord]:
    """The series that were not dropped, or the one of a name; `series` is the directory of all."""
    return [_series(database, row, series) for row in database.rows("read_series", name=name)]


def _series(database: Database, row: Row, series: Path) -> SeriesRecord:
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
    found = event_rows(database, "read_ledger")
    for row in found:
        finest = max(map(as_level, json.loads(row.pop("levels"))), default=None)
        row["level"] = None if finest is None else level_text(finest)
        row["unverified"] = bool(row["unverified"])
    return found


def event_rows(database: Database, name: str) -> list[dict[str, Any]]:
    """Rows of a statement; times are UTC without saying so, as frames have them."""
    found = database.records(name)
    for row in found:
        for column in _TIMES & row.keys():
            row[column] = None if row[column] is None else _time(row[column]).replace(tzinfo=None)
    return found


@secret
class StoredRound(NamedTuple):
    """The file of a round and what is in it, as its row in the state says."""

    spends: int
    name: str
    size: int
    digest: str
    n_past: int
    n_new: int
    n_empty: int

    @property
    def file(self) -> RegisteredFile:
        """What the state vouches for."""
        return RegisteredFile(self.name, self.size, self.digest)


@dataclass(frozen=True, repr=False)
class PathHistory:
    """The rounds of a noise path in order; no array is touched until one is asked for.

    `n_levels` are the levels spent up to each round; `levels` (of running counts, steps and levels) stand in the
    order in which they were first spent.
    """

    directory: Path
    kind: str
    integer_noise: bool
    rounds: Sequence[StoredRound]
    n_levels: Sequence[int]
    levels: Sequence[Spot]

    @property
    def n_tracked(self) -> int:
        """Cells tracked so far, or the size of a workload's state."""
        return self.rounds[-1].n_past + self.rounds[-1].n_new if self.rounds else 0

    def new_cells(self) -> Iterator[tuple[int, slice]]:
        """The rounds that tracked new cells, with the numbers of these."""
        for number, made in enumerate(self.rounds):
            if made.n_new:
                yield number, slice(made.n_past, made.n_past + made.n_new)

    def cells_with_noise(self, ordinal: int) -> Iterator[tuple[int, slice]]:
        """The rounds that hold noise at the level of that number, with the cells it is for."""
        for number, n_levels in enumerate(self.n_levels):
            if n_levels > ordinal and (cells := self.cells_at(number, ordinal)).start < cells.stop:
                yield number, cells

    def cells_at(self, number: int, ordinal: int) -> slice:
        """The cells of which the file of a round holds noise at a level: all of them where it spent that level."""
        made = self.rounds[number]
        spent_here = made.spends and self.n_levels[number] - 1 == ordinal
        return slice(0 if spent_here else made.n_past, made.n_past + made.n_new)

    def open_round(self, number: int) -> RoundFile:
        """The file of a round."""
        made = self.rounds[number]
        shape = RoundShape(
            made.n_past, made.n_new, made.n_empty, self.n_levels[number], bool(made.spends), self.integer_noise
        )
        return RoundFile(self.directory, made.file, shape)


def read_history(database: Database, path_id: int, series: Path) -> PathHistory:
    """Read what the state knows of the rounds of a noise path."""
    known = database.rows("read_path", path_id=path_id)
    if not known:
        raise NotFoundError("no such noise path")
    ((series_id, kind, integer_noise),) = known
    rounds = list(map(StoredRound._make, database.rows("read_rounds", path_id=path_id)))
    return PathHistory(
        series / series_id,
        kind,
        bool(integer_noise),
        rounds,
        list(accumulate(made.spends for made in rounds)),
        [
            as_level(level) if step is None else (step, as_level(level))
            for level, _, step in database.rows("read_past", path_id=path_id)
        ],
    )


def release_from_row(row: Row) -> ReleaseRecord:
    """A row of `read_releases` or `read_release`."""
    path_id, generation, name, level, threshold, request, metadata = row
    return ReleaseRecord(path_id, name, as_level(level), threshold, request, metadata, generation)


def _time(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)
