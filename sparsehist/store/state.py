"""The state of an open store: what was declared, released and drawn. Arrays in, arrays out.

It knows no law of noise. What changes is metadata in `state.sqlite`, one transaction a round, and one file a
round for the arrays (`round_file`), written before and vouched for in that transaction.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from sparsehist.errors import (
    DeclarationError,
    NotFoundError,
    StoreError,
    StoreInUseError,
    StoreRolledBackError,
    promise,
)
from sparsehist.privacy.levels import as_level, level_text
from sparsehist.store import committing
from sparsehist.store.database import Database, now
from sparsehist.store.layout import SERIES, SPILL, STATE, last_change
from sparsehist.store.parts.counts_in_parts import erase_parts, shown_place
from sparsehist.store.private_files import altered, check_file, disk_errors, sync_directory, verify_file, write_file
from sparsehist.store.records import (
    NewPath,
    NewRound,
    NewSeries,
    NewStep,
    NoiseArray,
    PathRecord,
    RegisteredFile,
    ReleaseRecord,
    SeriesRecord,
    Spot,
    StepRecord,
    Tracked,
)
from sparsehist.store.rows import (
    PathHistory,
    event_rows,
    ledger_rows,
    read_history,
    read_series,
    release_from_row,
)
from sparsehist.store.series_files import SeriesFiles, parts_of
from sparsehist.store.witnesses import Anchor, Mark, published_rounds, raise_mark, read_mark
from sparsehist.typing import FloatArray


@dataclass(frozen=True)
class StoreIdentity:
    """The row of the state that says which store this is and how far it has come.

    `directory` tells it from copies (`layout.directory_id`) and `home` says where it was, when it was made, moved
    or adopted.
    """

    store_id: str
    generation: int
    directory: str
    home: Path
    anchor: Anchor | None
    publications: tuple[Path, ...]


class State:
    """An open, locked store; made by `open_state` and useless once its block is left.

    Attributes:
        publications: Directories with a public ledger that knows this store.
        removed: Remains of copies and of what clusters wrote for runs that died, which opening found and removed.
        left: URLs of what clusters wrote for such runs where opening does not reach; `erase_left` does.
    """

    def __init__(
        self,
        path: Path,
        database: Database,
        identity: StoreIdentity,
        *,
        removed: tuple[Path, ...],
        left: tuple[str, ...],
        durable: bool,
    ) -> None:
        self.path, self.store_id, self.generation = path, identity.store_id, identity.generation
        self.publications, self.removed, self.left = frozenset(identity.publications), removed, left
        self._database, self._durable, self._anchor = database, durable, identity.anchor
        self._histories: dict[int, PathHistory] = {}

    @property
    def spill(self) -> Path:
        """Where runs may spill, each into a directory of its own; opening removes those of dead ones."""
        return self.path / SPILL

    @property
    def durable(self) -> bool:
        """Whether what is written is synchronised."""
        return self._durable

    def series(self, name: str) -> SeriesRecord | None:
        """The series of that name, if there is one that was not dropped."""
        found = read_series(self._database, self.path / SERIES, name)
        return found[0] if found else None

    def all_series(self) -> list[SeriesRecord]:
        """Every series that was not dropped, in order of creation."""
        return read_series(self._database, self.path / SERIES)

    def take_series_directory(self, written: Path, series_id: str) -> None:
        """Move the files of a series to where they stay; they are removed unless the series is committed."""
        directory = self.path / SERIES / series_id
        with disk_errors(directory):
            written.rename(directory)

    def series_files(self, record: SeriesRecord) -> SeriesFiles:
        """Open the files of a series, in constant time."""
        return SeriesFiles.open(record.directory, record)

    def releases(self, path_id: int) -> list[ReleaseRecord]:
        """What was released on a noise path, in order."""
        return [release_from_row(row) for row in self._database.rows("read_releases", path_id=path_id)]

    def release_named(self, record: SeriesRecord, name: str) -> ReleaseRecord | None:
        """The release of that name, on whichever noise path of a series, if there is one."""
        rows = self._database.rows("read_release", series_id=record.series_id, name=name)
        return release_from_row(rows[0]) if rows else None

    def past(self, path_id: int) -> list[tuple[Fraction, float]]:
        """The levels spent on a noise path, each with the lowest threshold it was released at.

        In the order in which they were first spent. That is all a further round needs to know of those before it,
        and it does not grow with releases at levels that are spent already.
        """
        rows = self._database.rows("read_past", path_id=path_id)
        return [(as_level(level), threshold) for level, threshold, _ in rows]

    def past_points(self, path_id: int) -> list[tuple[int, Fraction, float]]:
        """The same of running counts: step (from 0), level and lowest threshold."""
        rows = self._database.rows("read_past", path_id=path_id)
        return [(step, as_level(level), threshold) for level, threshold, step in rows]

    def steps(self, record: SeriesRecord) -> list[StepRecord]:
        """What was appended to a running series, in order."""
        return [StepRecord(*row) for row in self._database.rows("read_steps", series_id=record.series_id)]

    def is_finished(self, record: SeriesRecord) -> bool:
        """Whether nothing more can be appended to a running series."""
        return bool(self._database.rows("read_finished", series_id=record.series_id))

    def paths(self, record: SeriesRecord) -> list[PathRecord]:
        """The noise paths of a series as they stand now, those opened since it was read included; cells first."""
        return [path for known in self.all_series() if known.series_id == record.series_id for path in known.paths]

    def series_releases(self, record: SeriesRecord) -> list[ReleaseRecord]:
        """What was released on all noise paths of a series, in order."""
        made = [release for path in self.paths(record) for release in self.releases(path.path_id)]
        return sorted(made, key=attrgetter("generation"))

    def tracked(self, path_id: int) -> Tracked:
        """The cells of a path of cells whose noise was drawn, published or not."""
        history = self._history(path_id)
        promise(history.kind == "cells", "tracked cells of a path that is not of cells")
        position, count = (np.empty(history.n_tracked, dtype=np.int64) for _ in range(2))
        for number, cells in history.new_cells():
            with history.open_round(number) as file:
                file.positions(position[cells])
                file.counts(count[cells])
        return Tracked(position, count)

    def empty_keys(self, path_id: int) -> pl.DataFrame:
        """The keys of the tracked cells that are empty, in the order of cells; there has to be one."""
        import pyarrow as pa

        history, tables = self._history(path_id), []
        for number, made in enumerate(history.rounds):
            if made.n_empty:
                with history.open_round(number) as file:
                    tables.append(file.empty_keys())
        return pl.DataFrame(pl.from_arrow(pa.concat_tables(tables)))

    def noise(self, path_id: int, level: Spot, n_tracked: int) -> NoiseArray:
        """The noise of a path's tracked cells, or of a workload, at a level it has spent, by cell number. Secret."""
        history = self._history(path_id)
        if n_tracked != history.n_tracked:
            raise StoreInUseError("the tracked cells changed meanwhile; begin the round again")
        if level not in history.levels:
            raise NotFoundError("that level was never spent on this path")
        ordinal = history.levels.index(level)
        out: NoiseArray = np.empty(n_tracked, dtype=np.float64)
        if history.integer_noise:
            out = out.view(np.int64)
        for number, cells in history.cells_with_noise(ordinal):
            with history.open_round(number) as file:
                file.noise(ordinal, out[cells])
        return out

    def all_noise(self, path_id: int, n_tracked: int) -> FloatArray:
        """The noise of the tracked cells at all levels of a path, in the order in which they were first spent.

        Each file is opened once, however many levels there are. Secret; shape (levels, n_tracked).
        """
        history = self._history(path_id)
        if n_tracked != history.n_tracked:
            raise StoreInUseError("the tracked cells changed meanwhile; begin the round again")
        out = np.empty((len(history.levels), n_tracked))
        for number, n_levels in enumerate(history.n_levels):
            with history.open_round(number) as file:
                for level in range(n_levels):
                    cells = history.cells_at(number, level)
                    if cells.start < cells.stop:
                        file.noise(level, out[level, cells])
        return out

    def commit_series(self, record: NewSeries) -> int:
        """Register a series whose files are in place; returns the path of its cells."""
        directory = self.path / SERIES / record.series_id
        if self._durable:
            for place in (directory, directory.parent):
                sync_directory(place)
        with self._committing("series %s created", record.name):
            return committing.commit_series(self._database, directory, record, self.generation, now())

    def commit_round(self, record: NewRound) -> int:
        """Commit a round: afterwards, and only then, may it be published. Returns the new generation."""
        path = record.path_id
        if isinstance(path, NewPath):
            directory = self.path / SERIES / path.series_id
            history = PathHistory(directory, path.kind, path.integer_noise, (), (), ())
        else:
            history = self._history(path)
        with self._committing("release %s at level %s committed", record.name, level_text(record.level)):
            committing.commit_round(self._database, history, record, self.generation, now(), durable=self._durable)
        return self.generation

    def commit_step(self, record: SeriesRecord, step: NewStep) -> None:
        """Append to a running series."""
        for file in step.files:
            check_file(record.directory, file)
        details = {"step": step.step + 1, "source": step.source}
        with self._changing("append", record, who=step.who, path_id=record.path_id, details=details):
            inserted = self._database.change(
                "insert_step",
                series_id=record.series_id,
                step=step.step,
                digest=step.digest,
                unit_kind=step.unit_kind,
                appended=now(),
            )
            promise(inserted == 1, "a step that was appended before")
            committing.vouch(self._database, record.series_id, step.files, record.path_id)
            self._forget_files(record, step.replaced)
        self._remove(record, step.replaced)

    def finish_series(self, record: SeriesRecord, erased: Sequence[str], *, who: str | None = None) -> None:
        """Let nothing more be appended to a running series, and erase the files that say who counted."""
        with self._changing("finish series", record, who=who):
            self._database.change("forget_digests", series_id=record.series_id)
            self._forget_files(record, erased)
        self._database.rows("write_anew")
        self._remove(record, erased)

    def _forget_files(self, record: SeriesRecord, names: Sequence[str]) -> None:
        for name in names:
            self._database.change("forget_file", series_id=record.series_id, name=name)

    def _remove(self, record: SeriesRecord, names: Sequence[str]) -> None:
        """Remove files that nothing vouches for any more; those that a kill leaves go with the next opening."""
        with disk_errors(record.directory):
            for name in names:
                (record.directory / name).unlink(missing_ok=True)
            if names and self._durable:
                sync_directory(record.directory)

    def write_attachment(self, record: SeriesRecord, suffix: str, *parts: bytes | memoryview) -> RegisteredFile:
        """Write a file for a path about to be opened; removed unless a round commits with it."""
        name = f"path-{secrets.token_hex(8)}{suffix}"
        return write_file(record.directory / name, *parts, durable=self._durable)

    def drop_series(self, name: str, *, who: str | None = None, reason: str | None = None) -> None:
        """Remove a series and its secrets; what it spent stays in the ledger.

        If what a cluster wrote elsewhere cannot be erased, the series is gone all the same.
        """
        record = self.series(name)
        if record is None:
            raise NotFoundError(f"no series {name!r} in store {self.path}")
        parts = parts_of(record)
        with self._changing("drop series", record, who=who, reason=reason):
            self._database.change("forget_series", series_id=record.series_id, dropped=now())
            for forget in ("forget_files", "forget_rounds", "forget_digests"):
                self._database.change(forget, series_id=record.series_id)
        # What was overwritten where it stood may have been moved before; a run that dies here leaves the directory,
        # by which the next opening sees that the file is to be written anew.
        self._database.rows("write_anew")
        with disk_errors(record.directory):
            shutil.rmtree(record.directory)
            if self._durable:
                sync_directory(record.directory.parent)
        if parts is not None:
            try:
                parts.erase()
            except StoreError as error:
                raise StoreError(
                    f"{error}; the series {name!r} is dropped all the same: remove what is there"
                ) from None

    def verify(self) -> None:
        """Look for damage in the state, and compare every registered file with its digest; reads all of them."""
        if self._database.rows("check_whole") != [("ok",)]:
            raise altered(self.path / STATE)
        for record in self.all_series():
            for file in record.files:
                verify_file(record.directory, file)
            if (parts := parts_of(record)) is not None:
                parts.verify()
            for path in record.paths:
                for file in (*path.files, *(made.file for made in self._history(path.path_id).rounds)):
                    verify_file(record.directory, file)

    def ledger(self) -> list[dict[str, Any]]:
        """What was spent, one row for each noise path, dropped series included."""
        return ledger_rows(self._database)

    def events(self) -> list[dict[str, Any]]:
        """Who did what, when, in order."""
        return event_rows(self._database, "read_events")

    def limit_events(self) -> list[dict[str, Any]]:
        """Those of the events that declare a limit; a release reads no others."""
        return event_rows(self._database, "read_limit_events")

    def declare(self, what: str, **said: Any) -> None:
        """Record a limit or another declaration; an older copy of the store is refused from then on."""
        with self._changing(what, None, **said):
            if said.get("population") is not None:
                self._database.change("insert_population", name=said["population"], created=now())

    def record_refusal(self, **asked: Any) -> None:
        """Record what was refused, as far as the disk allows: the refusal itself must reach whoever asked."""
        _log("release %s refused", asked.get("release"))
        with suppress(StoreError), self._database.transaction():
            committing.insert_event(self._database, now(), "refuse", generation=self.generation, **asked)

    def record_publication(self, directory: Path) -> None:
        """Remember a directory whose public ledger will know this store; before anything is published there."""
        known = {round_id for (round_id,) in self._database.rows("read_round_ids")}
        if not published_rounds(directory, self.store_id) <= known:
            raise StoreRolledBackError(
                f"the public ledger in {directory} shows releases that store {self.path} knows nothing of: it was "
                "put back from an older copy, and what it drew since must not be published. Restore the newest copy"
            )
        directory = directory.resolve()
        with self._database.transaction():
            self._database.change("insert_publication", directory=str(directory))
        self.publications |= {directory}

    def record_copy(self, place: Path | str) -> None:
        """Remember where a copy is about to be made, or the URL where a cluster writes counts until these commit."""
        with self._database.transaction():
            self._database.change("insert_copy", place=str(place))

    def erase_left(self) -> list[str]:
        """Erase what opening did not reach for; says where that was."""
        erased = []
        while self.left:
            erase_parts(self.left[0], begun=False)
            with self._database.transaction():
                self._database.change("forget_copy", place=self.left[0])
            erased.append(shown_place(self.left[0]))
            self.left = self.left[1:]
        return erased

    def tell_left(self) -> None:
        """Warn of what opening did not reach for."""
        if self.left:
            import logging

            told = "what runs that died left at %s is as secret as the log: `sparsehist check --store` removes it"
            logging.getLogger("sparsehist").warning(told, ", ".join(map(shown_place, self.left)))

    def accept_source(self, record: SeriesRecord, *, who: str | None) -> None:
        """Record, once, that the series stands whatever has become of its log."""
        if not record.accepted:
            with self._changing("accept changed source", record, who=who):
                self._database.change("accept_source", series_id=record.series_id)

    def check_anchor(self, directory: str | os.PathLike[str] | None) -> None:
        """Refuse a store that is not anchored where somebody takes it to be."""
        anchored = None if self._anchor is None else self._anchor.directory
        if directory is not None and Path(directory).resolve() != anchored:
            raise DeclarationError(
                f"store {self.path} is anchored in {anchored or 'no directory'}, not in {directory}: an anchor is "
                "declared when the store is made, and later by `adopt`"
            )

    def note(self) -> None:
        """Note beside the store how far it has come and when its state file was changed, unless that is noted."""
        if not self._durable:
            return
        changed = last_change(self.path)
        known = read_mark(self.path, self.store_id)
        if self.generation and (known.generation, known.changed) != (self.generation, changed):
            raise_mark(self.path, self.store_id, Mark(self.generation, changed=changed))

    @contextmanager
    def _committing(self, told: str, *parts: object) -> Iterator[None]:
        """Claim the next generation before it is committed, and raise what guards against old copies afterwards."""
        if self._anchor is not None:
            self._anchor.claim(self.generation + 1, self.path)
        yield
        self.generation += 1
        self._histories.clear()
        self.note()
        _log(f"{told}, generation %d", *parts, self.generation)

    @contextmanager
    def _changing(self, what: str, record: SeriesRecord | None, **said: Any) -> Iterator[None]:
        """A transaction that changes a series, or declares something, and its event."""
        of = {} if record is None else {"series_id": record.series_id}
        with (
            self._committing("%s %s", what, "done" if record is None else f"of series {record.name} done"),
            committing.changing(self._database, self.generation, now(), what, **of, **said),
        ):
            yield

    def _history(self, path_id: int) -> PathHistory:
        if path_id not in self._histories:
            self._histories[path_id] = read_history(self._database, path_id, self.path / SERIES)
        return self._histories[path_id]


def _log(told: str, *parts: object) -> None:
    """Tell the logger "sparsehist": words of this package, names and declared parameters, never what a log holds."""
    import logging  # what only reads a store starts without it

    logging.getLogger("sparsehist").info(told, *parts)
