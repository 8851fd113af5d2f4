"""The state of an open store: series, releases and noise. It stores arrays of noise, whatever their law."""

from __future__ import annotations

import json
import logging
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from fractions import Fraction
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparsehist.errors import (
    NameTakenError,
    NotFoundError,
    StoreError,
    StoreInUseError,
    StoreRolledBackError,
    promise,
)
from sparsehist.privacy.levels import as_level, level_text
from sparsehist.store.database import Database, now
from sparsehist.store.layout import SERIES, SPILL, STATE
from sparsehist.store.private_files import altered, check_file, disk_errors, sync_directory, verify_file, write_file
from sparsehist.store.records import (
    NewRound,
    NoiseArray,
    PathRecord,
    RegisteredFile,
    ReleaseRecord,
    SeriesRecord,
    Spot,
    StepRecord,
    Tracked,
)
from sparsehist.store.rounds import TRACKING, PathHistory, RoundSizes
from sparsehist.store.rows import (
    as_text,
    insert_event,
    read_history,
    read_releases,
    read_series,
    rows_with_times,
)
from sparsehist.store.witnesses import Mark, listed_in_ledger, raise_mark

if TYPE_CHECKING:
    import polars as pl

    from sparsehist.store.series_files import SeriesFiles

_log = logging.getLogger("sparsehist")
_TOLD = ("unverified",)
"""Fields of a declaration that are repeated in the event of its series."""


@dataclass(frozen=True)
class StoreIdentity:
    """The id of a store, its generation, and the path (`home`) where it was made or adopted.

    `identity` is that of the original's format file (`layout.identity_of`); `publications` are directories whose
    public ledger lists the store.
    """

    store_id: str
    generation: int
    identity: str
    home: Path
    publications: tuple[Path, ...]


class _WrittenRound(NamedTuple):
    """A round whose file was written to the directory of its series."""

    sizes: RoundSizes
    file: RegisteredFile
    directory: Path


class State:
    """An open, locked store; `open_state` makes it, and it is unusable after that block.

    Attributes:
        path: The directory of the store.
        store_id: Random id of the store.
        generation: Number of commits so far.
        publications: Directories with a public ledger that lists this store.
        durable: Whether writes are synchronised to the disk.
    """

    def __init__(self, path: Path, database: Database, identity: StoreIdentity, *, durable: bool) -> None:
        self.path, self.store_id, self.generation = path, identity.store_id, identity.generation
        self.publications, self.durable = frozenset(identity.publications), durable
        self._database, self._identity = database, identity
        self._histories: dict[int, PathHistory] = {}

    @property
    def spill(self) -> Path:
        """Parent of temporary directories; opening the store removes those of dead processes."""
        return self.path / SPILL

    def series(self, name: str) -> SeriesRecord | None:
        """Return the series of this name; None if there is none or it was dropped."""
        found = read_series(self._database, self.path / SERIES, name)
        return found[0] if found else None

    def all_series(self) -> list[SeriesRecord]:
        """Return all series that were not dropped, in order of creation."""
        return read_series(self._database, self.path / SERIES)

    def take_series_directory(self, written: Path, series_id: str) -> None:
        """Move the files of a series into the store, before the series is committed."""
        directory = self.path / SERIES / series_id
        with disk_errors(directory):
            written.rename(directory)

    def series_files(self, record: SeriesRecord) -> SeriesFiles:
        """Open the files of a series."""
        from sparsehist.store.series_files import SeriesFiles

        return SeriesFiles(record.directory, record.files, record.salt)

    def releases(self, path_id: int) -> list[ReleaseRecord]:
        """Return the releases of a noise path, in order."""
        return read_releases(self._database, "read_releases", path_id=path_id)

    def release_named(self, record: SeriesRecord, name: str) -> ReleaseRecord | None:
        """Return the release of that name on any noise path of a series."""
        found = read_releases(self._database, "read_release", series_id=record.series_id, name=name)
        return found[0] if found else None

    def past(self, path_id: int) -> list[tuple[Fraction, float]]:
        """Return the levels spent on a noise path, in order of first release, with the lowest threshold of each.

        The next round needs to know nothing else of earlier ones.
        """
        rows = self._database.rows("read_past", path_id=path_id)
        return [(as_level(level), threshold) for level, threshold, _ in rows]

    def past_points(self, path_id: int) -> list[tuple[int, Fraction, float]]:
        """Return the releases of a running path: step (from 0), level and lowest threshold."""
        rows = self._database.rows("read_past", path_id=path_id)
        return [(step, as_level(level), threshold) for level, threshold, step in rows]

    def steps(self, record: SeriesRecord) -> list[StepRecord]:
        """Return the steps of a running series, in order."""
        sql = "select step, digest, unit_kind, source from step where series_id = $series_id order by step"
        return [StepRecord(*row) for row in self._database.rows(sql, series_id=record.series_id)]

    def is_finished(self, record: SeriesRecord) -> bool:
        """Return whether nothing more can be appended to a running series."""
        sql = "select 1 from event where series_id = $series_id and what = 'finish series'"
        return bool(self._database.rows(sql, series_id=record.series_id))

    def paths(self, record: SeriesRecord) -> list[PathRecord]:
        """Return the current noise paths of a series, cells first; some may be newer than `record`."""
        known = self.series(record.name)
        return list(known.paths) if known is not None and known.series_id == record.series_id else []

    def series_releases(self, record: SeriesRecord) -> list[ReleaseRecord]:
        """Return the releases of all noise paths of a series, in order."""
        made = [release for path in self.paths(record) for release in self.releases(path.path_id)]
        return sorted(made, key=attrgetter("generation"))

    def tracked(self, path_id: int) -> Tracked:
        """Return the tracked cells of a path of cells: their noise was drawn, published or not."""
        history = self._history(path_id)
        promise(history.kind in TRACKING, "tracked cells of a path that tracks none")
        position, count = (np.empty(history.n_tracked, dtype=np.int64) for _ in range(2))
        for file, cells in history.new_cells():
            position[cells], count[cells] = file.positions, file.counts
        return Tracked(position, count)

    def empty_keys(self, path_id: int) -> pl.DataFrame:
        """Return the keys of the tracked empty cells, in the order of cells; there must be at least one."""
        import polars as pl
        import pyarrow as pa

        history = self._history(path_id)
        tables = [history.open_round(at).empty_keys() for at, (head, _) in enumerate(history.rounds) if head.n_empty]
        return pl.DataFrame(pl.from_arrow(pa.concat_tables(tables)))

    def noise(self, path_id: int, level: Spot, n_tracked: int) -> NoiseArray:
        """Return the noise at a spent level of a path's tracked cells, by cell number, or of a workload. Secret."""
        history = self._history(path_id)
        if n_tracked != history.n_tracked:
            raise StoreInUseError("the tracked cells changed meanwhile; begin the round again")
        if level not in history.levels:
            raise NotFoundError("that level was never spent on this path")
        return history.noise(history.levels.index(level))

    def commit_series(self, record: SeriesRecord, *, integer_noise: bool = False, who: str | None = None) -> int:
        """Register a series whose files are in place; return the path of its cells."""
        directory = self.path / SERIES / record.series_id
        if self.durable:
            for place in (directory, directory.parent):
                sync_directory(place)
        for file in record.files:
            check_file(directory, file)
        declaration, series_id = record.declaration, record.series_id
        details = {name: value for name in _TOLD if (value := declaration.get(name))} or None
        said: dict[str, Any] = {"who": who, "series_id": series_id, "details": details}
        with self._changing("create series", **said) as event:
            if self.series(record.name) is not None:
                raise NameTakenError(f"a series {record.name!r} exists already")
            self._database.insert(
                "series", series_id=series_id, name=record.name, declaration=as_text(declaration), salt=record.salt,
                made_from=record.made_from, created=now(),
            )  # fmt: skip
            self._register(series_id, record.files)
            path_id = event["path_id"] = self._open_path(PathRecord(series_id, "cells", integer_noise=integer_noise))
        return path_id

    def commit_round(self, record: NewRound) -> int:
        """Commit a round and those beside it, all or none. They may be published only afterwards.

        Return the generation of the round; rounds beside it take the next ones.
        """
        rounds, written = [record, *record.beside], list[_WrittenRound]()
        generation = self.generation + 1
        for at, each in enumerate(rounds, generation):
            history = self._history_for(each)
            # A random name: a round may have been committed although its commit failed, so it is never overwritten.
            name = f"round-{at}-{secrets.token_hex(4)}"
            row = (at, each.name, level_text(each.level), float(each.threshold), each.step, as_text(each.metadata))
            sizes, file = history.write_round(name, each, row, durable=self.durable)
            written.append(_WrittenRound(sizes, file, history.directory))
        try:
            with self._changing("release", rounds=len(rounds)) as event:
                event.update(self._insert_round(record, written[0], generation))
                for at, (each, made) in enumerate(zip(rounds[1:], written[1:], strict=True), generation + 1):
                    insert_event(self._database, "release", at, **self._insert_round(each, made, at))
        except StoreInUseError:
            for each, made in zip(rounds, written, strict=True):
                for one in (made.file, *each.attachments):
                    (made.directory / one.name).unlink(missing_ok=True)
            raise
        return generation

    def _history_for(self, record: NewRound) -> PathHistory:
        """Return the path of a new round; check that its name is free and its attachments are in place."""
        path_id = record.path_id
        if isinstance(path_id, PathRecord):
            directory = self.path / SERIES / path_id.series_id
            history = PathHistory(directory, path_id.kind, path_id.integer_noise)
        else:
            history = self._history(path_id)
        if self._database.rows("read_release", series_id=history.directory.name, name=record.name):
            raise NameTakenError(f"a release {record.name!r} exists already")
        for file in record.attachments:
            check_file(history.directory, file)
        return history

    def _insert_round(self, record: NewRound, written: _WrittenRound, generation: int) -> dict[str, Any]:
        """Register a round in a transaction; return the details of its event."""
        path_id, sizes, series_id = record.path_id, written.sizes, written.directory.name
        if isinstance(path_id, PathRecord):
            path_id = self._open_path(path_id)
        self._register(series_id, record.attachments, path_id)
        of_file = {"file": written.file.name, "size": written.file.size, "digest": written.file.digest}
        self._database.insert(
            "release", generation=generation, path_id=path_id, series_id=series_id, name=record.name,
            level=level_text(record.level), spends=sizes.spends, threshold=float(record.threshold),
            request=as_text(record.request), metadata=as_text(record.metadata), released=now(), **of_file,
            n_past=sizes.n_past, n_new=sizes.n_new, n_empty=sizes.n_empty, step=record.step,
        )  # fmt: skip
        said = {"series_id": series_id, "level": level_text(record.level), "who": record.who, "release": record.name}
        return said | {"path_id": path_id}

    def _open_path(self, path: PathRecord) -> int:
        """Insert a path in a transaction, and return its number."""
        named = {"workload": path.workload, "strategy": path.strategy, "integer_noise": path.integer_noise}
        ((path_id,),) = self._database.rows("insert_path", series_id=path.series_id, kind=path.kind, **named)
        return int(path_id)

    def commit_step(
        self,
        record: SeriesRecord,
        step: StepRecord,
        files: Sequence[RegisteredFile],
        replaced: Sequence[str] = (),
        *,
        who: str | None = None,
    ) -> None:
        """Append a step to a running series; its files are in place, and replace those named in `replaced`."""
        for file in files:
            check_file(record.directory, file)
        details = {"step": step.step + 1, "source": step.source}
        with self._changing("append", series_id=record.series_id, who=who, path_id=record.path_id, details=details):
            self._database.insert("step", series_id=record.series_id, **asdict(step), appended=now())
            source = max(record.declaration.get("source") or "", step.source)
            declaration = as_text({**record.declaration, "source": source})
            sql = "update series set declaration = $declaration where series_id = $series_id"
            self._database.change(sql, declaration=declaration, series_id=record.series_id)
            self._register(record.series_id, files, record.path_id)
            self._erase_names(record, replaced)
        self._erase_files(record, replaced)

    def finish_series(self, record: SeriesRecord, erased: Sequence[str], *, who: str | None = None) -> None:
        """End a running series: refuse further steps, and erase the files that show which units counted."""
        with self._changing("finish series", series_id=record.series_id, who=who):
            sql = "update step set digest = null where series_id = $series_id"
            self._database.change(sql, series_id=record.series_id)
            self._erase_names(record, erased)
        self._database.rows("vacuum")
        self._erase_files(record, erased)

    def _erase_names(self, record: SeriesRecord, names: Sequence[str]) -> None:
        self._database.change("delete from file where series_id = $series_id and erased", series_id=record.series_id)
        sql = "update file set erased = 1 where series_id = $series_id and name = $name"
        for name in names:
            self._database.change(sql, series_id=record.series_id, name=name)

    def _erase_files(self, record: SeriesRecord, names: Sequence[str]) -> None:
        """Erase files after the erasure was committed; after a kill, the next opening erases the rest."""
        with disk_errors(record.directory):
            for name in names:
                (record.directory / name).unlink(missing_ok=True)
            if names and self.durable:
                sync_directory(record.directory)

    def write_attachment(self, record: SeriesRecord, suffix: str, *parts: bytes | memoryview) -> RegisteredFile:
        """Write a file for a path, which the next round registers."""
        name = f"path-{secrets.token_hex(8)}{suffix}"
        return write_file(record.directory / name, *parts, durable=self.durable)

    def drop_series(self, name: str, *, who: str | None = None, reason: str | None = None) -> None:
        """Erase a series and its secrets; its costs remain in the ledger."""
        record = self.series(name)
        if record is None:
            raise NotFoundError(f"no series {name!r} in store {self.path}")
        with self._changing("drop series", series_id=record.series_id, who=who, reason=reason):
            self._database.change("forget_series", series_id=record.series_id, dropped=now())
            for forget in (
                "delete from file where series_id = $series_id",
                "forget_rounds",
                "update step set digest = null where series_id = $series_id",
            ):
                self._database.change(forget, series_id=record.series_id)
        # SQLite may hold old copies of moved rows, so vacuum. If this process dies here, the next opening vacuums and
        # erases the directory.
        self._database.rows("vacuum")
        with disk_errors(record.directory):
            shutil.rmtree(record.directory)
            if self.durable:
                sync_directory(record.directory.parent)

    def verify(self) -> None:
        """Check the state for damage, and every registered file against its digest; this reads all files.

        Files unknown to the state are leftovers of dead processes; they are erased if no damage is found.
        """
        if self._database.rows("pragma integrity_check (1)") != [("ok",)]:
            raise altered(self.path / STATE)
        known = set()
        for record in self.all_series():
            files = [*record.files, *(file for path in record.paths for file in path.files)]
            for file in files:
                verify_file(record.directory, file)
            for path in record.paths:
                history = self._history(path.path_id)
                for number, (_, file) in enumerate(history.rounds):
                    history.open_round(number)
                    files.append(file)
            known |= {record.directory, *(record.directory / file.name for file in files)}
        with disk_errors(self.path):
            for place in [*(self.path / SERIES).glob("*/*"), *(self.path / SERIES).iterdir()]:
                if place not in known:
                    shutil.rmtree(place) if place.is_dir() else place.unlink()

    def ledger(self) -> list[dict[str, Any]]:
        """Return one row of costs per noise path with its finest level (0 if none), also of dropped series."""
        found = rows_with_times(self._database, "read_ledger")
        for row in found:
            row["finest"] = max(map(as_level, json.loads(row.pop("levels"))), default=Fraction(0))
            row["declaration"] = json.loads(row["declaration"])
            row["path"] = tuple(row.pop(part) for part in ("kind", "workload", "strategy"))
        return found

    def events(self, *, limits: bool = False) -> list[dict[str, Any]]:
        """Return all events in order; with `limits`, only those that declare a limit, as a release needs."""
        return rows_with_times(self._database, "read_events", limits=limits)

    def declare(self, what: str, **said: Any) -> None:
        """Record a limit or another declaration; older copies of the store are refused from then on."""
        with self._changing(what, **said):
            pass

    def record_refusal(self, **asked: Any) -> None:
        """Record a refusal; ignore errors of the disk, so that the refusal itself reaches the caller."""
        _log.info("release %s refused", asked.get("release"))
        with suppress(StoreError), self._database.transaction():
            insert_event(self._database, "refuse", self.generation, **asked)

    def record_publication(self, directory: Path) -> None:
        """Record a directory before anything is published there: its public ledger will list this store."""
        rounds = self._database.rows("select json_extract(metadata, '$.round') from release")
        known = {round_id for (round_id,) in rounds}
        listed = listed_in_ledger(directory, self.store_id)["releases"]
        if not {made["round"] for made in listed} <= known:
            raise StoreRolledBackError(
                f"the public ledger in {directory} shows releases that store {self.path} does not know: it was "
                "put back from an older copy, and what it drew since must not be published. Restore the newest copy"
            )
        directory = directory.resolve()
        with self._database.transaction():
            self._database.change("insert or ignore into publication values ($directory)", directory=str(directory))
        self.publications |= {directory}

    def raise_marks(self) -> None:
        """Raise the mark beside the store to the generation; if it was moved, the mark at its home too."""
        if not self.durable or not self.generation:
            return
        mark = Mark(self.generation, self._identity.identity)
        raise_mark(self.path, self.store_id, mark)
        if self._identity.home != self.path and os.access(self._identity.home.parent, os.W_OK):
            raise_mark(self._identity.home, self.store_id, mark)

    @contextmanager
    def _changing(self, what: str, *, rounds: int = 1, **said: Any) -> Iterator[dict[str, Any]]:
        """Run the block as a transaction with an event, which it may extend; it adds a generation per round.

        Nothing may be published before the marks are raised at the end.
        """
        with self._database.transaction():
            if not self._database.change("raise_generation", seen=self.generation, rounds=rounds):
                raise StoreInUseError("another process changed the store meanwhile; nothing was written, begin again")
            yield said
            insert_event(self._database, what, self.generation + 1, **said)
        self.generation += rounds
        self._histories.clear()
        self.raise_marks()
        _log.info("%s done, generation %d", what, self.generation)

    def _register(self, series_id: str, files: Sequence[RegisteredFile], path_id: int | None = None) -> None:
        for file in files:
            self._database.insert("file", series_id=series_id, path_id=path_id, **asdict(file), erased=0)

    def _history(self, path_id: int) -> PathHistory:
        if path_id not in self._histories:
            self._histories[path_id] = read_history(self._database, path_id, self.path / SERIES)
        return self._histories[path_id]
