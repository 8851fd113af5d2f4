"""The one place that talks to DuckDB for the state.

Starting DuckDB costs 15 ms, attaching a file to it half a millisecond. So an engine that holds nothing is kept
for the next call, and a state file is attached to it for the length of one: no file is open between calls.

Settings, each with what it changed (2 cores, a state of a hundred releases): one thread, since every query reads
a few kilobytes; blocks of 16 KiB instead of 256, which makes the file a tenth and closing it 1 ms quicker. A
checkpoint at the end of each attachment is kept: without it the log is replayed at every start, which costs
more than it saves. A commit has been seen to be synchronised (fdatasync of the log), the name of a new log file
not, so that `transaction` does it.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb

from sparsehist.errors import StoreDamagedError, StoreError, StoreInUseError, raise_alone
from sparsehist.store.layout import STATE
from sparsehist.store.private_files import NO_ROOM, disk_errors, private_umask, says_no_room, sync_directory
from sparsehist.store.statements import statement

_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "threads": "1",
    "temp_directory": "",  # the state is small; nothing of it is ever spilled
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}

_idle: dict[bool, list[duckdb.DuckDBPyConnection]] = {True: [], False: []}


def _engine(*, durable: bool) -> duckdb.DuckDBPyConnection:
    """An engine with nothing attached, in the hands of one caller."""
    try:
        return _idle[durable].pop()
    except IndexError:
        return duckdb.connect(config={**_SETTINGS, "fsync_mode": "STANDARD" if durable else "NONE"})


@atexit.register
def _close_idle() -> None:
    for engines in _idle.values():
        while engines:
            engines.pop().close()


class Database:
    """A state file, attached; its errors never carry the engine's own words."""

    def __init__(self, path: Path, *, durable: bool) -> None:
        """Open a state file, or make an empty one."""
        self._path, self._durable, self._process = path, durable, os.getpid()
        self._connection = _engine(durable=durable)
        _open.add(self)
        try:
            with private_umask(), self._reading():
                self._connection.execute(statement("state_attach"), {"path": str(path)})
                self._connection.execute(statement("state_use"))
        except BaseException:
            self.close()
            raise

    def rows(self, name: str, /, **values: object) -> list[tuple[Any, ...]]:
        """Run a statement that reads."""
        with private_umask(), self._reading():
            return self._run(name, values).fetchall()

    def change(self, name: str, /, **values: object) -> list[tuple[Any, ...]]:
        """Run a statement that writes, inside a transaction."""
        with private_umask(), self._writing():
            return self._run(name, values).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing, and on the disk when the block is left."""
        with private_umask(), self._writing():
            self._owned().begin()
        try:
            yield
            with private_umask(), self._writing():
                self._owned().commit()
        except BaseException:
            with suppress(duckdb.Error):
                self._connection.rollback()
            raise
        if self._durable:
            with disk_errors(self._path):
                sync_directory(self._path.parent)

    def close(self) -> None:
        """Write a checkpoint and let go of the file."""
        if os.getpid() != self._process or self not in _open:
            return
        _open.discard(self)
        with suppress(duckdb.Error):
            self._connection.rollback()
        try:
            with private_umask():
                self._connection.execute(statement("state_leave"))
                self._connection.execute(statement("state_detach"))
        except duckdb.Error:
            with private_umask(), suppress(duckdb.Error):
                self._connection.close()
        else:
            _idle[self._durable].append(self._connection)

    def _run(self, name: str, values: dict[str, object]) -> duckdb.DuckDBPyConnection:
        return self._owned().execute(statement(name), values or None)

    def _owned(self) -> duckdb.DuckDBPyConnection:
        if os.getpid() != self._process:
            raise StoreInUseError("a store opened before a fork cannot be used after it; open it in the child")
        return self._connection

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except duckdb.Error as error:
            if says_no_room(error):
                raise_alone(StoreError(f"{self._path} cannot be used: {NO_ROOM}; make room and repeat"))
            raise_alone(
                StoreDamagedError(
                    f"{self._path} cannot be read: damaged, written by a newer DuckDB, or not accessible; "
                    "upgrade duckdb, or restore the store from a backup"
                )
            )

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except duckdb.Error:  # a TransactionException among them: what DuckDB says when its log cannot be written
            raise_alone(
                StoreError(
                    f"{self._path} cannot be written: the disk is full or the place is not writable; "
                    "nothing was changed"
                )
            )


def now() -> datetime:
    """The time, in UTC, as the state keeps it."""
    return datetime.now(UTC).replace(tzinfo=None)


def open_database(store: Path, *, durable: bool) -> Database:
    """Connect to the state file of a store."""
    return Database(store / STATE, durable=durable)


_open: weakref.WeakSet[Database] = weakref.WeakSet()


def _abandon() -> None:
    """In a forked child: never run an engine's clean-up, which would wait for threads and write files."""
    inherited = [database._connection for database in _open]  # noqa: SLF001 - the same module
    for engine in (*inherited, *_idle[True], *_idle[False]):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(engine))
    for engines in _idle.values():
        engines.clear()


os.register_at_fork(after_in_child=_abandon)
