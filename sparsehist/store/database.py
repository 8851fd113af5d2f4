"""The one place that talks to DuckDB for the state.

Settings, each with what it changed (2 cores, a state of a hundred releases): one thread, since every query reads
a few kilobytes; blocks of 16 KiB instead of 256, which makes the file a tenth and closing it 1 ms quicker. A
checkpoint at the end of each connection is kept: without it the log is replayed at every start, which costs
more than it saves. A commit has been seen to be synchronised (fdatasync of the log), the name of a new log file
not, so that `transaction` does it.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb

from sparsehist.errors import StoreDamagedError, StoreError, StoreInUseError
from sparsehist.statements import statement
from sparsehist.store.private_files import disk_errors, private_umask, sync_directory


class Database:
    """A connection to a state file; its errors never carry the engine's own words."""

    def __init__(self, path: Path, *, spill: Path, durable: bool) -> None:
        """Open a state file, or make an empty one."""
        self._path, self._durable, self._process = path, durable, os.getpid()
        settings: dict[str, str | bool | int | float | list[str]] = {
            "threads": "1",
            "default_block_size": "16384",
            "temp_directory": str(spill),
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "fsync_mode": "STANDARD" if durable else "NONE",
        }
        with private_umask(), self._reading():
            self._connection = duckdb.connect(str(path), config=settings)
        _open.add(self)

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
        if os.getpid() != self._process:
            return
        _open.discard(self)
        with private_umask(), suppress(duckdb.Error):
            self._connection.close()

    def keep(self) -> None:
        """In a forked child: never run the engine's clean-up, which would wait for threads and write files."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._connection))

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
        except duckdb.Error:
            raise StoreDamagedError(
                f"{self._path} cannot be read: damaged, written by a newer DuckDB, or not accessible; "
                "upgrade duckdb, or restore the store from a backup"
            ) from None

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except duckdb.Error:  # a TransactionException among them: what DuckDB says when its log cannot be written
            raise StoreError(
                f"{self._path} cannot be written: the disk is full or the place is not writable; nothing was released"
            ) from None


_open: weakref.WeakSet[Database] = weakref.WeakSet()


def _keep_all() -> None:
    for database in list(_open):
        database.keep()


os.register_at_fork(after_in_child=_keep_all)
