"""The `State` class reads and changes an open store: its series, its releases and their noise."""

from __future__ import annotations

import json
import logging
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsehist.errors import NotFoundError, StoreDamagedError, StoreError, StoreInUseError, StoreRolledBackError
from sparsehist.privacy.levels import as_level, level_text
from sparsehist.store.database import Database, as_text, now
from sparsehist.store.layout import FORMAT_VERSION, SERIES, SPILL, store_id_at
from sparsehist.store.private_files import check_file, disk_errors, synchronise, verify_file, write_file
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
from sparsehist.store.rounds import PathHistory, Round, sealed
from sparsehist.store.witnesses import Mark, listed_in_ledger, raise_mark, raise_published_generation

if TYPE_CHECKING:
    import polars as pl

    from sparsehist.store.series_files import SeriesFiles

_log = logging.getLogger("sparsehist")
_TIMES = ("first_release", "last_release", "dropped", "happened")
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  UTC; frames have times without a zone


class State:
    """An open, locked store. It is valid only inside the `with open_state(…)` block.

    Attributes:
        path: The directory of the store.
        store_id: Random id of the store.
        generation: Number of rounds and other changes committed so far.
        identity: Recorded inode and change time of the file `format` (`layout.identity_of`).
        home: Path at which the store was created or last adopted.
        publications: Directories with a public ledger that lists this store.
        durable: Whether writes are synchronised to the disk.
    """

    def __init__(self, path: Path, database: Database, *, durable: bool, who: str | None) -> None:
        """Read the store's row in the state file; raise an error if the row does not match the file `format`."""
        self.path, self.durable, self._who, self._database = path, durable, who, database
        self._series = path / SERIES
        rows = database.run("select format_version, store_id, generation, identity, home from store")
        if len(rows) != 1 or rows[0][:2] != (FORMAT_VERSION, store_id_at(path)):
            raise StoreDamagedError(f"the state file was altered; restore the store from a backup: {path}")
        self.store_id, self.identity, self.home = str(rows[0][1]), str(rows[0][3]), Path(rows[0][4])
        self.generation: int = rows[0][2]
        self.publications = frozenset(Path(name) for (name,) in database.run("select directory from publication"))
        self._histories: dict[int, PathHistory] = {}

    @property
    def spill(self) -> Path:
        """Directory for temporary files. Opening the store removes the files that dead processes left there."""
        return self.path / SPILL

    # Reading

    def series(self, name: str) -> SeriesRecord | None:
        return next(iter(self.all_series(name)), None)

    def all_series(self, name: str | None = None) -> list[SeriesRecord]:
        """Return the series that were not dropped, in order of creation; with `name`, only that series."""
        return [self._series_record(*row) for row in self._database.run("read_series", name=name)]

    def _series_record(
        self, series_id: str, name: str, declaration: str, salt: bytes, made_from: str
    ) -> SeriesRecord:
        files: dict[int | None, list[RegisteredFile]] = {}
        for path_id, *file in self._database.run("read_files", series_id=series_id):
            files.setdefault(path_id, []).append(RegisteredFile(*file))
        paths = tuple(
            PathRecord(series_id, kind, workload, strategy, bool(integer), path_id, tuple(files.get(path_id, ())))
            for kind, workload, strategy, integer, path_id in self._database.run("read_paths", series_id=series_id)
        )
        directory, own_files = self._series / series_id, files.get(None, [])
        return SeriesRecord(series_id, name, json.loads(declaration), salt, own_files, made_from, directory, paths)

    def series_files(self, record: SeriesRecord) -> SeriesFiles:
        from sparsehist.store.series_files import SeriesFiles

        return SeriesFiles(record.directory, record.files, record.salt)

    def paths(self, record: SeriesRecord) -> list[PathRecord]:
        """Read the noise paths of a series anew, because `record` may be outdated. The path of cells comes first."""
        current = self.series(record.name)
        return list(current.paths) if current is not None and current.series_id == record.series_id else []

    def releases(
        self, record: SeriesRecord, *, path_id: int | None = None, name: str | None = None
    ) -> list[ReleaseRecord]:
        """Return the releases of a series in order. `path_id` and `name` select releases by path or by name."""
        rows = self._database.run("read_releases", series_id=record.series_id, path_id=path_id, name=name)
        return [
            ReleaseRecord(path, named, as_level(level), threshold, json.loads(request), json.loads(metadata), at)
            for path, named, level, threshold, request, metadata, at in rows
        ]

    def release_named(self, record: SeriesRecord, name: str) -> ReleaseRecord | None:
        return next(iter(self.releases(record, name=name)), None)

    def past(self, path_id: int) -> list[tuple[Fraction, float]]:
        """Return the levels released on a noise path in order of first release, each with its lowest threshold."""
        return [(level, threshold) for _, level, threshold in self.past_points(path_id)]

    def past_points(self, path_id: int) -> list[tuple[int, Fraction, float]]:
        """Return (step, level, lowest threshold) for each step and level released on a path; the first step is 0."""
        rows = self._database.run("read_past", path_id=path_id)
        return [(step, as_level(level), threshold) for step, level, threshold in rows]

    def steps(self, record: SeriesRecord) -> list[StepRecord]:
        sql = "select step, digest, unit_kind, source from step where series_id = $series_id order by step"
        return [StepRecord(*row) for row in self._database.run(sql, series_id=record.series_id)]

    def is_finished(self, record: SeriesRecord) -> bool:
        sql = "select 1 from event where series_id = $series_id and what = 'finish series'"
        return bool(self._database.run(sql, series_id=record.series_id))

    def tracked(self, path_id: int) -> Tracked:
        """Return the tracked cells of a path: those whose noise was drawn, published or not."""
        return self._history(path_id).tracked()

    def empty_keys(self, path_id: int) -> pl.DataFrame:
        return self._history(path_id).empty_keys()

    def noise(self, path_id: int, level: Spot, n_tracked: int) -> NoiseArray:
        """Return the secret noise of a path at a released level: a value per tracked cell, or a workload's vector."""
        return self._history(path_id).noise(level, n_tracked)

    def _history(self, path_id: int) -> PathHistory:
        if path_id not in self._histories:
            sql = "select series_id, kind, integer_noise from path where path_id = $path_id"
            ((series_id, kind, integer_noise),) = self._database.run(sql, path_id=path_id)
            rows = self._database.run("read_rounds", path_id=path_id)
            rounds = [Round(RegisteredFile(*row[:3]), sealed(*row[7:]), bool(row[-1]), *row[3:7]) for row in rows]
            levels = [level if step is None else (step, level) for step, level, _ in self.past_points(path_id)]
            self._histories[path_id] = PathHistory(
                self._series / series_id, kind, bool(integer_noise), rounds, levels
            )
        return self._histories[path_id]

    def ledger(self) -> list[dict[str, Any]]:
        """Return a row for each noise path, including the paths of dropped series.

        `finest` is the finest level released on the path, or 0 before the first release.
        """
        rows = self._with_times("read_ledger")
        for row in rows:
            row["finest"] = max(map(as_level, json.loads(row.pop("levels"))), default=Fraction(0))
            row["declaration"] = json.loads(row["declaration"])
            row["path"] = tuple(row.pop(part) for part in ("kind", "workload", "strategy"))
        return rows

    def events(self, *, limits: bool = False) -> list[dict[str, Any]]:
        """Return all events in order; with `limits`, only the events that declare a limit on costs."""
        return self._with_times("read_events", limits=limits)

    def _with_times(self, sql: str, **values: object) -> list[dict[str, Any]]:
        """Run a statement, and return its rows as dicts with times in UTC."""
        rows = [dict(row) for row in self._database.run(sql, **values)]
        for row in rows:
            row |= {at: _EPOCH + timedelta(microseconds=row[at]) for at in _TIMES if row.get(at) is not None}
        return rows

    def verify(self) -> None:
        """Check the state file for damage, and read every registered file to compare it with its digest."""
        self._database.check_integrity()
        self._histories.clear()  # forget arrays in memory, so that the files of rounds are read
        for record in self.all_series():
            for file in (*record.files, *(file for path in record.paths for file in path.files)):
                verify_file(record.directory, file)
            for path in record.paths:
                history = self._history(path.path_id)
                for number in range(len(history.rounds)):
                    history.arrays(number)

    # A change first writes and synchronises files, then commits a transaction that refers to these files, and then
    # updates the generation files. The caller must not publish anything until these files are updated.

    def commit_series(self, record: SeriesRecord, written: Path, *, integer_noise: bool = False) -> int:
        """Move the files of a series into the store and register the series; return the id of its path of cells."""
        series_id, directory = record.series_id, self._series / record.series_id
        with disk_errors(directory):
            written.rename(directory)
        if self.durable:
            for changed in (directory, directory.parent):
                synchronise(changed)
        details = {"unverified": True} if record.declaration.get("unverified") else None
        with self._changing("create series"):
            self._database.insert(
                "series", series_id=series_id, name=record.name, declaration=as_text(record.declaration),
                salt=record.salt, made_from=record.made_from, created=now(),
            )  # fmt: skip
            self._register(series_id, record.files)
            path_id = self._open_path(PathRecord(series_id, "cells", integer_noise=integer_noise))
            self._event("create series", series_id=series_id, path_id=path_id, details=details)
        return path_id

    def commit_round(self, record: NewRound) -> int:
        """Commit a round and the rounds in its field `beside` in one transaction.

        Return the generation of the first of these rounds.
        """
        generation, rounds = self.generation + 1, (record, *record.beside)
        written: list[tuple[int, NewRound, PathHistory]] = []
        for at, each in enumerate(rounds, generation):
            # A commit may raise an error although it succeeded. File names are random, so a retry overwrites no file.
            name = f"round-{at}-{secrets.token_hex(4)}"
            row = (at, each.name, level_text(each.level), float(each.threshold), each.step, as_text(each.metadata))
            history = self._history_for(each.path_id).write_round(name, each, row, durable=self.durable)
            written.append((at, each, history))
        with self._changing("release", rounds=len(rounds)):
            current = {self._insert_round(each, at, history): history for at, each, history in written}
        self._histories.update(current)  # keep the written arrays, so that the next release need not read them
        return generation

    def _history_for(self, path: int | PathRecord) -> PathHistory:
        if isinstance(path, PathRecord):
            return PathHistory(self._series / path.series_id, path.kind, path.integer_noise)
        return self._history(path)

    def _insert_round(self, record: NewRound, generation: int, history: PathHistory) -> int:
        """Register a written round, which is the last one of `history`. Return the id of its path."""
        path, level, stored = record.path_id, level_text(record.level), history.rounds[-1]
        path_id, series_id = self._open_path(path) if isinstance(path, PathRecord) else path, history.directory.name
        self._register(series_id, record.attachments, path_id)
        self._database.insert(
            "release", generation=generation, path_id=path_id, series_id=series_id, name=record.name, level=level,
            spends=stored.spends, threshold=float(record.threshold), request=as_text(record.request),
            metadata=as_text(record.metadata), released=now(), file=stored.file.name, size=stored.file.size,
            digest=stored.file.digest, n_past=stored.n_past, n_new=stored.n_new, n_empty=stored.n_empty,
            step=record.step,
        )  # fmt: skip
        self._event("release", generation, series_id=series_id, path_id=path_id, level=level, release=record.name)
        return path_id

    def _open_path(self, path: PathRecord) -> int:
        named = {"workload": path.workload, "strategy": path.strategy, "integer_noise": path.integer_noise}
        self._database.insert("path", series_id=path.series_id, kind=path.kind, **named)
        return int(self._database.run("select last_insert_rowid()")[0][0])

    def commit_step(
        self, record: SeriesRecord, step: StepRecord, files: Sequence[RegisteredFile], replaced: Sequence[str] = ()
    ) -> None:
        """Append a step to a running series. Register the new files, and erase the files that they replace."""
        series_id, details = record.series_id, {"step": step.step + 1, "source": step.source}
        with self._changing("append"):
            self._database.insert("step", series_id=series_id, **asdict(step))
            source = max(record.declaration.get("source") or "", step.source)
            declaration = as_text({**record.declaration, "source": source})
            sql = "update series set declaration = $declaration where series_id = $series_id"
            self._database.run(sql, declaration=declaration, series_id=series_id)
            self._register(series_id, files, record.path_id)
            self._forget_files(record, replaced)
            self._event("append", series_id=series_id, path_id=record.path_id, details=details)
        self.erase_unknown()

    def finish_series(self, record: SeriesRecord, erased: Sequence[str]) -> None:
        """End a running series: refuse further steps, and erase the files that show which units were counted."""
        with self._changing("finish series"):
            self._database.run("forget_steps", series_id=record.series_id)
            self._forget_files(record, erased)
            self._event("finish series", series_id=record.series_id)
        self.erase_unknown()

    def _forget_files(self, record: SeriesRecord, names: Sequence[str]) -> None:
        for name in names:
            sql = "delete from file where series_id = $series_id and name = $name"
            self._database.run(sql, series_id=record.series_id, name=name)

    def drop_series(self, name: str, *, reason: str | None = None) -> None:
        """Erase a series and its secrets; its costs remain in the ledger."""
        record = self.series(name)
        if record is None:
            raise NotFoundError(f"no series {name!r} in store {self.path}")
        with self._changing("drop series"):
            self._database.run("forget_series", series_id=record.series_id, dropped=now())
            for sql in ("forget_rounds", "forget_steps", "delete from file where series_id = $series_id"):
                self._database.run(sql, series_id=record.series_id)
            self._event("drop series", series_id=record.series_id, reason=reason)
        self.erase_unknown()

    def erase_unknown(self) -> None:
        """Erase files that the state does not list: they are obsolete, or a process died before it committed them."""
        registered = {f"{self._series}/{name}" for (name,) in self._database.run("read_known_names")}
        unknown = [
            file
            for parent, directories, files in os.walk(self._series)
            for name in (*directories, *files)
            if (file := f"{parent}/{name}") not in registered
        ]
        if not unknown:
            return
        self._database.run("vacuum;")  # the state file may still contain deleted rows; this removes them
        with disk_errors(self._series):
            for path in map(Path, unknown):
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
                if self.durable and path.parent.exists():
                    synchronise(path.parent)

    def write_attachment(self, record: SeriesRecord, suffix: str, content: bytes | memoryview) -> RegisteredFile:
        """Write a file of a noise path. The file is registered when the next round of the path is committed."""
        name = f"path-{secrets.token_hex(8)}{suffix}"
        return write_file(record.directory / name, content, durable=self.durable)

    def declare(self, what: str, **columns: Any) -> None:
        """Record a declaration, such as a limit. Older copies of the store are refused from then on."""
        with self._changing(what):
            self._event(what, **columns)

    def record_refusal(self, **columns: Any) -> None:
        """Record a refusal as an event. Ignore disk errors, because the caller must see the refusal instead."""
        _log.info("release %s refused", columns.get("release"))
        with suppress(StoreError), self._database.transaction():
            self._event("refuse", self.generation, **columns)

    def record_publication(self, directory: Path) -> None:
        """Record a directory before publishing in it. Its public ledger is checked whenever the store is opened."""
        rows = self._database.run("select json_extract(metadata, '$.round') from release")
        listed = listed_in_ledger(directory, self.store_id)["releases"]
        if not {release["round"] for release in listed} <= {round_id for (round_id,) in rows}:
            raise StoreRolledBackError(
                f"the public ledger in {directory} shows releases that this store lacks: the store was restored from "
                "an older copy. Restore the newest copy, and do not publish releases drawn from the older copy"
            )
        directory = directory.resolve()
        with self._database.transaction():
            self._database.run("insert or ignore into publication values ($directory)", directory=str(directory))
        self.publications |= {directory}

    def adopt(self, identity: str) -> None:
        """Record that this copy is now the original store, with its current path and identity."""
        with self._changing("adopt store"):
            self._database.run("update store set identity = $identity", identity=identity)
            self._event("adopt store")
            self.identity = identity
        # If the process dies here, the next opening updates the generation files at the old and the new path.
        for directory in self.publications:
            if os.access(directory, os.W_OK):
                raise_published_generation(directory, self.store_id, self.generation)
        with self._database.transaction():
            self._database.run("update store set home = $home", home=str(self.path))

    def raise_marks(self) -> None:
        """Write the generation to the store's generation file and, after a move, to the file at the old path too."""
        if not self.durable or not self.generation:
            return
        mark = Mark(self.generation, self.identity)
        raise_mark(self.path, self.store_id, mark)
        if self.home != self.path and os.access(self.home.parent, os.W_OK):
            raise_mark(self.home, self.store_id, mark)

    @contextmanager
    def _changing(self, what: str, *, rounds: int = 1) -> Iterator[None]:
        """Run the block in a transaction that raises the generation by `rounds`. Then update the generation files."""
        with self._database.transaction():
            if not self._database.run("raise_generation", seen=self.generation, rounds=rounds):
                raise StoreInUseError("another process changed the store, and nothing was written: try again")
            yield
        self.generation += rounds
        self._histories.clear()
        self.raise_marks()
        _log.info("%s done, generation %d", what, self.generation)

    def _event(
        self, what: str, generation: int | None = None, *, details: Mapping[str, Any] | None = None, **columns: Any
    ) -> None:
        at, text = self.generation + 1 if generation is None else generation, details and as_text(details)
        self._database.insert_event(what, at, who=self._who, details=text, **columns)

    def _register(self, series_id: str, files: Sequence[RegisteredFile], path_id: int | None = None) -> None:
        for file in files:
            check_file(self._series / series_id, file)
            self._database.insert("file", series_id=series_id, path_id=path_id, **asdict(file))
