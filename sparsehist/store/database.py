"""The one place that talks to SQLite for the state.

A connection lives for one call: no file is open between calls. What is synchronised at a commit, in order
(`pragma synchronous = extra`): the rollback journal and the directory it was made in, the state file, and the
directory once the journal is unlinked, which is the instant of the commit. SQLite gives the journal the mode of the
state file, which is made with 0600 here: nothing rests on the umask, which belongs to the whole process.
"""

from __future__ import annotations

import ctypes
import os
import sqlite3
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sparsehist.errors import StoreDamagedError, StoreError, StoreInUseError, StoreVersionError, raise_alone
from sparsehist.store.layout import STATE
from sparsehist.store.private_files import PRIVATE, disk_errors
from sparsehist.store.statements import statement

_OLDEST = (3, 37)  # strict tables
_IN_USE = ("SQLITE_BUSY", "SQLITE_LOCKED")
_UNREADABLE = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT", "SQLITE_IOERR_READ", "SQLITE_IOERR_SHORT_READ")
_REFUSED_BY_SYSTEM = ("SQLITE_IOERR", "SQLITE_FULL", "SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM")


class Database:
    """A state file, open; its errors never carry the engine's own words."""

    def __init__(self, path: Path, *, durable: bool, create: bool = False, writable: bool = True) -> None:
        """Open a state file, or make an empty one; one that is not `writable` for reading alone."""
        if sqlite3.sqlite_version_info < _OLDEST:
            raise StoreVersionError(
                f"SQLite {sqlite3.sqlite_version} is too old: a store needs a Python with SQLite 3.37 or newer"
            )
        self._path, self._process, self.writable = path, os.getpid(), writable
        if create:
            with disk_errors(path):
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE))
        with self._plain_errors():
            self._connection = sqlite3.connect(
                f"{path.as_uri()}?mode={'rw' if writable else 'ro'}",
                uri=True,
                timeout=0,
                isolation_level=None,
                check_same_thread=False,  # the lock of the store lets one thread in at a time
            )
        _open.add(self)
        try:
            with self._plain_errors():
                self._connection.executescript(statement("settings" if durable else "settings_in_memory"))
                if create:
                    self._connection.executescript(statement("create_tables"))
        except BaseException:
            self.close()
            raise

    def rows(self, name: str, /, **values: object) -> list[tuple[Any, ...]]:
        """Run a statement that gives rows."""
        with self._plain_errors():
            return self._owned().execute(statement(name), values).fetchall()

    def records(self, name: str, /, **values: object) -> list[dict[str, Any]]:
        """Run a statement that gives rows, by column."""
        with self._plain_errors():
            found = self._owned().execute(statement(name), values)
            columns = [column for column, *_ in found.description]
            return [dict(zip(columns, row, strict=True)) for row in found]

    def change(self, name: str, /, **values: object) -> int:
        """Run a statement that changes rows, inside a transaction; returns how many."""
        with self._plain_errors():
            return self._owned().execute(statement(name), values).rowcount

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing, and on the disk when the block is left."""
        with self._plain_errors():
            self._owned().execute("begin immediate")
        try:
            yield
            with self._plain_errors():
                self._owned().execute("commit")
        except BaseException:
            with suppress(sqlite3.Error):
                self._connection.rollback()
            raise

    def close(self) -> None:
        """Let go of the file."""
        if os.getpid() != self._process or self not in _open:
            return
        _open.discard(self)
        with suppress(sqlite3.Error):
            self._connection.close()

    def _owned(self) -> sqlite3.Connection:
        if os.getpid() != self._process:
            raise StoreInUseError("a store opened before a fork cannot be used after it; open it in the child")
        return self._connection

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        try:
            yield
        except UnicodeEncodeError:
            raise_alone(StoreError(f"{self._path!r} cannot hold a path or text that is not valid UTF-8; rename it"))
        except sqlite3.Error as error:
            name = getattr(error, "sqlite_errorname", None) or ""
            if name.startswith(_IN_USE):
                raise_alone(StoreInUseError(f"{self._path} is held by another program; close it and try again"))
            if name.startswith(_REFUSED_BY_SYSTEM) and not name.startswith(_UNREADABLE):
                raise_alone(
                    StoreError(
                        f"{self._path} cannot be written: the disk is full or the place is not writable; "
                        "nothing was changed"
                    )
                )
            raise_alone(StoreDamagedError(f"{self._path} was altered or truncated; restore the store from a backup"))


def now() -> int:
    """The time as the state keeps it: microseconds since 1970, in UTC."""
    return time.time_ns() // 1000


def open_database(store: Path, *, durable: bool, create: bool = False, writable: bool = True) -> Database:
    """Connect to the state file of a store."""
    return Database(store / STATE, durable=durable, create=create, writable=writable)


_open: weakref.WeakSet[Database] = weakref.WeakSet()


def _abandon() -> None:
    """In a forked child: never run the engine's clean-up, which would roll back what the parent is committing."""
    for database in _open:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(database._connection))  # noqa: SLF001 - the same module


os.register_at_fork(after_in_child=_abandon)
