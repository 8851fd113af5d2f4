"""Read and write a store's SQLite state file and the digest of that file.

Each `Database` has its own connection. With `pragma synchronous = extra`, a commit synchronises (fsync) the rollback
journal and its directory, synchronises the state file, deletes the journal, and synchronises the directory again. The
commit takes effect when the journal is deleted.

SQLite detects few flipped bits, so `state.digest` holds the SHA-256 and the change counter of the state file. The
digest is compared when a store is opened, and written (unsynchronised) when a store that changed is closed. After a
crash, the counter in `state.digest` is older than that of the state file. Then the digest is ignored, and SQLite
checks the state file.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sparsehist.errors import StoreDamagedError, StoreError, StoreInUseError, raise_alone
from sparsehist.store.layout import STATE
from sparsehist.store.private_files import PRIVATE, altered, disk_errors, read_regular, write_file
from sparsehist.store.statements import statement

_DIGEST = "state.digest"
_OLDEST = (3, 37)  # the first version of SQLite that supports STRICT tables
_CHANGES = slice(24, 28)  # byte range of the change counter in the header of an SQLite file
_IN_USE = ("SQLITE_BUSY", "SQLITE_LOCKED")
_UNREADABLE = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT", "SQLITE_IOERR_READ", "SQLITE_IOERR_SHORT_READ")
_REFUSED_BY_SYSTEM = ("SQLITE_IOERR", "SQLITE_FULL", "SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM")
_connections: set[sqlite3.Connection] = set()
"""Open connections. A forked child must not close them, because that would roll back a transaction of the parent."""


class Database:
    """A connection to the state file of a store. Its errors hide SQLite's messages, which may quote secret data."""

    def __init__(self, store: Path, *, durable: bool, create: bool = False) -> None:
        """Open the state file of a store. If `create` is true, create the file first; it must not exist already."""
        if sqlite3.sqlite_version_info < _OLDEST:
            raise StoreError(
                f"SQLite {sqlite3.sqlite_version} is too old: use a Python whose SQLite is version 3.37 or newer"
            )
        self._path, self._durable, self._process, self._recorded_changes = store / STATE, durable, os.getpid(), -1
        if create:
            with disk_errors(self._path):
                os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE))
        with self._plain_errors():
            uri = f"{self._path.as_uri()}?mode=rw"
            # Several threads may use this connection, because the store's lock admits one thread at a time.
            self._connection = sqlite3.connect(
                uri, uri=True, timeout=0, isolation_level=None, check_same_thread=False
            )
        self._connection.row_factory = sqlite3.Row
        _connections.add(self._connection)
        try:
            with self._plain_errors():
                for name in ("settings", *(() if durable else ("settings_in_memory",))):
                    self._connection.executescript(statement(name))
                if create:
                    self._connection.executescript(statement("create_tables"))
            if not create:
                self._check()
        except BaseException:
            self._disconnect()
            raise

    def run(self, sql: str, /, **values: object) -> list[Any]:
        """Run a statement, given as SQL or by its name in sql/state.sql, and return the rows."""
        with self._plain_errors():
            return self._connection.execute(statement(sql) if sql.isidentifier() else sql, values).fetchall()

    def insert(self, table: str, **values: object) -> None:
        columns, parameters = ", ".join(values), ", ".join(f"${name}" for name in values)
        self.run(f"insert into {table} ({columns}) values ({parameters})", **values)  # noqa: S608  names from the code

    def insert_event(self, what: str, generation: int, *, who: str | None = None, **columns: object) -> None:
        self.insert("event", what=what, generation=generation, happened=now(), who=who or _user(), **columns)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the block in a transaction. Commit its changes to disk, or roll them back after an error."""
        self.run("begin immediate")
        try:
            yield
            self.run("commit;")
        except BaseException:
            with suppress(sqlite3.Error):
                self._connection.rollback()
            raise

    def close(self) -> None:
        """Write the digest of the state file if the file has changed, then close the file."""
        if os.getpid() != self._process:
            return
        with suppress(OSError, StoreError):  # without a new digest, the next opening runs an integrity check
            state = self._path.read_bytes()
            # If a journal exists, the next opening rolls back the state file, so do not write a digest now.
            journal = self._path.with_name(f"{STATE}-journal")
            if self._durable and _changes(state) != self._recorded_changes and not journal.exists():
                content = f"{_changes(state)} {hashlib.sha256(state).hexdigest()}\n".encode()
                write_file(self._path.with_name(_DIGEST), content, durable=False)
        self._disconnect()

    def _disconnect(self) -> None:
        _connections.discard(self._connection)
        with suppress(sqlite3.Error):
            self._connection.close()

    def check_integrity(self) -> None:
        if self.run("pragma integrity_check (1)")[0][0] != "ok":
            raise altered(self._path)

    def _check(self) -> None:
        """Raise an error if the state file was altered or has triggers or views, which sparsehist never creates."""
        # The first statement makes SQLite roll back a transaction that a killed process left open.
        if self.run("select 1 from sqlite_schema where type in ('trigger', 'view')"):
            raise altered(self._path)
        if not self._durable:
            return
        with disk_errors(self._path):
            state = self._path.read_bytes()
        try:
            changes, digest = read_regular(self._path.with_name(_DIGEST)).decode("ascii").split()
            self._recorded_changes = int(changes)
        except (OSError, ValueError):
            digest = ""
        recorded = self._recorded_changes
        if recorded > _changes(state) or (
            recorded == _changes(state) and digest != hashlib.sha256(state).hexdigest()
        ):
            raise altered(self._path)
        if recorded < _changes(state):
            self.check_integrity()

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        if os.getpid() != self._process:
            raise StoreInUseError("a child process cannot use a store that its parent opened; open the store again")
        try:
            yield
        except UnicodeEncodeError:
            raise_alone(StoreError(f"{self._path!r} cannot hold a path or text that is not valid UTF-8; rename it"))
        except (sqlite3.Error, UnicodeDecodeError) as error:  # SQLite's messages may quote secret data
            name = getattr(error, "sqlite_errorname", None) or ""
            if name.startswith(_IN_USE):
                raise_alone(
                    StoreInUseError(f"{self._path} is in use by another program; close that program and try again")
                )
            if name.startswith(_REFUSED_BY_SYSTEM) and not name.startswith(_UNREADABLE):
                reason = "the disk is full or the directory is not writable; nothing was changed"
                raise_alone(StoreError(f"{self._path} cannot be written: {reason}"))
            raise_alone(StoreDamagedError(f"{self._path} was altered or truncated; restore the store from a backup"))


def now() -> int:
    """Return the current time as the state file stores it: in microseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1000


def as_text(value: Mapping[str, Any]) -> str:
    return json.dumps(dict(value), sort_keys=True, ensure_ascii=False)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return "unknown"


def _changes(state: bytes) -> int:
    return int.from_bytes(state[_CHANGES])
