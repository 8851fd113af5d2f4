"""The one place that talks to SQLite, and the digest of the state file.

A connection lives for one call. At a commit (`pragma synchronous = extra`) SQLite synchronises the rollback journal
and its directory, the state file, and the directory again once the journal is unlinked: the instant of the commit.

SQLite notices few flipped bits, so `state.digest` holds the SHA-256 of the state file with SQLite's count of its
changes. It is compared at every opening and written, unsynchronised, when a block that changed the state ends. A
process that died in between leaves a digest of an earlier count, which says nothing; SQLite's own check runs then.
"""

from __future__ import annotations

import ctypes
import hashlib
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
from sparsehist.store.private_files import PRIVATE, altered, disk_errors, read_regular, write_file
from sparsehist.store.statements import statement

_DIGEST = "state.digest"
_OLDEST = (3, 37)  # strict tables
_CHANGES = slice(24, 28)  # the count of changes in the header of a SQLite file
_IN_USE = ("SQLITE_BUSY", "SQLITE_LOCKED")
_UNREADABLE = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT", "SQLITE_IOERR_READ", "SQLITE_IOERR_SHORT_READ")
_REFUSED_BY_SYSTEM = ("SQLITE_IOERR", "SQLITE_FULL", "SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM")


class Database:
    """An open state file; its errors never carry SQLite's own words."""

    def __init__(self, store: Path, *, durable: bool, create: bool = False) -> None:
        """Open the state of a store, or make an empty one."""
        if sqlite3.sqlite_version_info < _OLDEST:
            raise StoreVersionError(
                f"SQLite {sqlite3.sqlite_version} is too old: a store needs a Python with SQLite 3.37 or newer"
            )
        self._store, self._path, self._durable = store, store / STATE, durable
        self._process, self._digest_of = os.getpid(), -1
        if create:
            with disk_errors(self._path):
                os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE))
        with self._plain_errors():
            self._connection = sqlite3.connect(
                f"{self._path.as_uri()}?mode=rw",
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
            if not create:
                self._check()
        except BaseException:
            self.close()
            raise

    def rows(self, name: str, /, **values: object) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        with self._plain_errors():
            return self._owned().execute(statement(name), values).fetchall()

    def records(self, name: str, /, **values: object) -> list[dict[str, Any]]:
        """Run a statement and return its rows as dicts."""
        with self._plain_errors():
            found = self._owned().execute(statement(name), values)
            columns = [column for column, *_ in found.description]
            return [dict(zip(columns, row, strict=True)) for row in found]

    def change(self, name: str, /, **values: object) -> int:
        """Run a statement inside a transaction; returns the number of changed rows."""
        with self._plain_errors():
            return self._owned().execute(statement(name), values).rowcount

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing, and on the disk when the block ends."""
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
        """Close the file."""
        if os.getpid() != self._process or self not in _open:
            return
        _open.discard(self)
        with suppress(sqlite3.Error):
            self._connection.close()

    def write_digest(self) -> None:
        """Write the digest of the state file if it has changed since it was read; a failure loses nothing."""
        journal = self._path.with_name(f"{self._path.name}-journal")
        if not self._durable or journal.exists():  # of a transaction that could not be rolled back yet
            return
        with suppress(OSError, StoreError):
            state = self._path.read_bytes()
            if _changes(state) != self._digest_of:
                text = f"{_changes(state)} {hashlib.sha256(state).hexdigest()}"
                write_file(self._store / _DIGEST, f"{text} {_sha256(text)}\n".encode(), durable=False)

    def _check(self) -> None:
        """Refuse a state that was altered, by decay or by somebody else's triggers and views."""
        foreign = self.rows("foreign_objects")  # first: rolls back what a killed process left of a transaction
        if foreign != [(0,)]:
            raise altered(self._path)
        if not self._durable:
            return
        with disk_errors(self._path):
            state = self._path.read_bytes()
        known, digest = self._known_digest()
        self._digest_of = known
        if known > _changes(state) or (known == _changes(state) and digest != hashlib.sha256(state).hexdigest()):
            raise altered(self._path)
        if known < _changes(state) and self.rows("check_whole") != [("ok",)]:
            raise altered(self._path)

    def _known_digest(self) -> tuple[int, str]:
        """The count of changes and the digest that were written last; (-1, "") if that file is not whole."""
        try:
            content = str(read_regular(self._store / _DIGEST, at_most=1 << 10), "ascii")
        except (OSError, ValueError):
            return -1, ""
        text, _, check = content.strip().rpartition(" ")
        if check != _sha256(text):
            return -1, ""
        changes, digest = text.split()
        return int(changes), digest

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


def _changes(state: bytes) -> int:
    return int.from_bytes(state[_CHANGES])


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


_open: weakref.WeakSet[Database] = weakref.WeakSet()


def _abandon() -> None:
    """In a forked child: never close the connection, which would roll back what the parent is committing."""
    for database in _open:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(database._connection))  # noqa: SLF001 - the same module


os.register_at_fork(after_in_child=_abandon)
