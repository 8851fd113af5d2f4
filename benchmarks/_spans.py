"""Where the time of a release goes: spans around the seams of the package, each without what it contains."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import polars as pl

from sparsehist.release import cell_round, release_files
from sparsehist.store import opening, state
from sparsehist.store.database import Database
from sparsehist.store.rounds import PathHistory
from sparsehist.store.series_files import SeriesFiles

REST = "everything else"

# (owner, name, phase); a phase is what its functions take themselves, less the phases inside them.
_SEAMS: tuple[tuple[Any, str, str], ...] = (
    (Database, "__init__", "SQLite: open"),
    (Database, "run", "SQLite: statements"),
    (Database, "close", "SQLite: close"),
    (state.State, "tracked", "noise and tracked cells: read"),
    (state.State, "noise", "noise and tracked cells: read"),
    (SeriesFiles, "__init__", "files of the series: open"),
    (SeriesFiles, "keys", "keys: read"),
    (cell_round, "draw_round", "draw"),
    (cell_round, "_draw_empty_keys", "keys of empty cells: draw"),
    (cell_round, "published_frame", "frame"),
    (PathHistory, "write_round", "round file: write"),
    (opening, "check_is_newest", "marks: read"),
    (state, "raise_mark", "marks: write"),
    (release_files, "publish", "public ledger"),
    (pl.DataFrame, "write_parquet", "Parquet: encode"),
    (os, "fsync", "fsync"),
)


class Written(NamedTuple):
    """One synchronised file or directory."""

    directory: bool
    size: int


class Spans:
    """Seconds by phase, on the clock and of the processor, and everything that was synchronised, over some work."""

    def __init__(self) -> None:
        self.wall_s: Counter[str] = Counter()
        self.cpu_s: Counter[str] = Counter()
        self.synchronised: list[Written] = []
        self._inner: list[list[float]] = []

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Charge a phase with the time of a block, less that of phases inside."""
        self._inner.append([0.0, 0.0])
        begin = time.perf_counter(), time.process_time()
        try:
            yield
        finally:
            took = time.perf_counter() - begin[0], time.process_time() - begin[1]
            inner = self._inner.pop()
            self.wall_s[name] += took[0] - inner[0]
            self.cpu_s[name] += took[1] - inner[1]
            if self._inner:
                self._inner[-1] = [before + more for before, more in zip(self._inner[-1], took, strict=True)]

    def around(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        """The same function, charged to a phase."""

        def charged(*arguments: Any, **named: Any) -> Any:
            with self.phase(name):
                return function(*arguments, **named)

        return charged


@contextmanager
def spans() -> Iterator[Spans]:
    """Watch the work done in a block."""
    seen = Spans()
    with ExitStack() as patches:
        for owner, name, phase in _SEAMS:
            charged = seen.around(getattr(owner, name), phase)
            patches.enter_context(patch.object(owner, name, charged))
        _watch_transactions(seen, patches)
        _watch_synchronising(seen, patches)
        with seen.phase(REST):
            yield seen


def _watch_transactions(seen: Spans, patches: ExitStack) -> None:
    """The end of a transaction is its commit."""
    transaction = Database.transaction

    @contextmanager
    def watched(database: Database) -> Iterator[None]:
        block = transaction(database)
        with seen.phase("SQLite: begin"):
            block.__enter__()
        try:
            yield
        except BaseException as error:
            block.__exit__(type(error), error, error.__traceback__)
            raise
        with seen.phase("SQLite: commit"):
            block.__exit__(None, None, None)

    patches.enter_context(patch.object(Database, "transaction", watched))


def _watch_synchronising(seen: Spans, patches: ExitStack) -> None:
    synchronise = os.fsync

    def watched(descriptor: int) -> None:
        target = Path(f"/proc/self/fd/{descriptor}")
        seen.synchronised.append(Written(target.is_dir(), os.fstat(descriptor).st_size))
        synchronise(descriptor)

    patches.enter_context(patch.object(os, "fsync", watched))
