"""The `Home` class: the location of a store, and settings for its use (waiting time, caller, randomness)."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from sparsehist import entropy
from sparsehist.declaration.checks import checked_text, checked_wait, checked_whole
from sparsehist.errors import DeclarationError, NotFoundError, StoreError, shown
from sparsehist.ledger.ledger import Ledger
from sparsehist.store import SeriesRecord, State, create_store, open_state

MEMORY = ":memory:"
PATIENCE = 60.0
"""Minimum time, in seconds, to wait for a store in use when a log has been counted. A release takes less time."""

_worked_in: int | None = None
"""Id of the process in which Polars ran, or None."""


class Home:
    """The location of a store (a directory, or memory), and the settings for opening it.

    Each operation opens the store and closes it again. While another process uses the store, an operation waits for
    up to `wait` seconds. `who` is the name that the ledger records for each operation, by default the user of the
    operating system. A store in memory is erased when its `Home` is deleted.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, wait: float = 0.0, seed: int | None = None, who: str | None = None
    ) -> None:
        if not isinstance(path, str | os.PathLike):
            raise DeclarationError(f'a store must be the path of a directory, or ":memory:"; got {shown(path)}')
        self.wait, self.who = checked_wait(wait), checked_text("who", who)
        self.in_memory = os.fspath(path) == MEMORY
        self._seeded = None
        if seed is not None:
            if not self.in_memory:
                raise DeclarationError('seed= is for ":memory:" stores only: a store on disk never repeats its noise')
            self._seeded = entropy.seeded(checked_whole("seed", seed, 0, 2**63))
        self.path = _directory_in_memory(self) if self.in_memory else Path(path).absolute()

    def __repr__(self) -> str:
        return f"Store({MEMORY if self.in_memory else str(self.path)!r})"

    @contextmanager
    def hold(self, *, at_least: float = 0.0) -> Iterator[State]:
        """Lock and open the store for a `with` block; wait for the lock up to max(`wait`, `at_least`) seconds."""
        if _worked_in not in (None, os.getpid()):
            raise StoreError(
                "this process was forked after Polars had started threads, and a fork does not copy threads: start "
                "workers with multiprocessing's 'spawn' or 'forkserver', or fork before the first release"
            )
        wait = max(self.wait, at_least)
        with open_state(self.path, wait=wait, durable=not self.in_memory, who=self.who) as state:
            yield state

    @property
    def reproducible(self) -> bool:
        """Whether the store has a seed, so that every run draws the same random numbers."""
        return self._seeded is not None

    def work(self) -> None:
        """Record that this process used Polars. `hold` then fails in forked children, where Polars would hang."""
        global _worked_in  # noqa: PLW0603 - threads belong to the process
        _worked_in = os.getpid()

    def generator(self) -> np.random.Generator:
        """Return the store's seeded generator or, if the store has no seed, a new generator with a secret seed."""
        self.work()
        return entropy.generator() if self._seeded is None else self._seeded

    def series_names(self) -> list[str]:
        """Return the names of all series in the store, sorted."""
        with self.hold() as state:
            return sorted(record.name for record in state.all_series())

    def find(self, state: State, name: str, series_id: str | None = None) -> SeriesRecord:
        """Return the series with this name and, if an id is given, this id; raise NotFoundError if there is none."""
        record = state.series(name)
        if record is not None and series_id in (None, record.series_id):
            return record
        if series_id is not None:
            raise NotFoundError(f"the series {name!r} was dropped from {self!r}")
        names = ", ".join(sorted(record.name for record in state.all_series())) or "none"
        if name in Ledger.of(state).limits.periods:
            raise NotFoundError(f"{name!r} is a periodic series: name the series of a period; the store has {names}")
        raise NotFoundError(f"{self!r} has no series {name!r}; it has {names}")

    def close(self) -> None:
        """Erase the store if it is in memory."""
        if self.in_memory:
            shutil.rmtree(self.path.parent, ignore_errors=True)


def home_of(store: str | os.PathLike[str] | Home) -> Home:
    """Return a `Home` unchanged, or make the `Home` of a directory."""
    return store if isinstance(store, Home) else Home(store)


def _directory_in_memory(owner: object) -> Path:
    """Create a store in a private directory, in memory if possible. Erase the directory when `owner` is deleted."""
    shared = Path("/dev/shm")  # noqa: S108 - the directory made in it is private
    parent = shared if os.access(shared, os.W_OK) else None
    directory = Path(tempfile.mkdtemp(prefix="sparsehist-", dir=parent))
    create_store(directory / "store", durable=False)
    weakref.finalize(owner, _erase, directory, os.getpid())
    return directory / "store"


def _erase(directory: Path, process: int) -> None:
    """Erase a directory if this process made it; a forked child leaves the directory to its parent."""
    if os.getpid() == process:
        shutil.rmtree(directory, ignore_errors=True)
