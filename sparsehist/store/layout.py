"""The layout of a store's directory: file names, format version, lock, and temporary directories."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import stat
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sparsehist.errors import NotFoundError, StoreDamagedError, StoreError, StoreInUseError
from sparsehist.store.private_files import PRIVATE, disk_errors, read_json

FORMAT_VERSION = 1
STATE, LOCK, SERIES, SPILL = "state.sqlite", "lock", "series", "tmp"
FORMAT = "format"
_SPILL_NAME = "sparsehist-spill-"
_NAP = 0.01  # seconds between two attempts to lock a store


def identity_of(store: Path) -> str:
    """Return the identity of a store: the inode number and the change time (ctime) of its file `format`.

    A copied or restored store has a different identity, because programs cannot set the change time. A store that is
    moved within its file system keeps its identity.
    """
    with disk_errors(store):
        file = (store / FORMAT).stat()
    return f"{file.st_ino}:{file.st_ctime_ns}"


def store_id_at(store: Path) -> str | None:
    """Return the id of the store at a path, or None if the store's format file cannot be read."""
    try:
        return str(read_json(store / FORMAT)["store_id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def is_store(store: Path) -> bool:
    """Return whether there is a store at a path, intact or damaged."""
    with disk_errors(store):
        return any((store / name).is_file() for name in (FORMAT, STATE))


def check_format(store: Path) -> None:
    """Raise an error if a store has an unknown format or lacks a file, or if other users can write to the store.

    Warn if any user could replace the whole store, because its parent directory is writable for all users.
    """
    try:
        version = read_json(store / FORMAT)["sparsehist store"]
    except (OSError, ValueError, KeyError, TypeError):
        raise StoreDamagedError(f"{store / FORMAT} is missing or altered; restore the store from a backup") from None
    if version != FORMAT_VERSION:
        raise StoreError(
            f"upgrade sparsehist to open {store}: its format is {version!r}; this version reads {FORMAT_VERSION}"
        )
    for name in (STATE, SERIES):
        if not (store / name).exists():
            raise StoreDamagedError(f"{store / name} is missing; restore the store from a backup")
    if store.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise StoreError(
            f"other users can write to the store: make sure that nobody altered it, then run `chmod 700 {store}`"
        )
    if store.parent.stat().st_mode & (stat.S_IWOTH | stat.S_ISVTX) == stat.S_IWOTH:
        warnings.warn(
            f"any user can replace the store {store}: run `chmod o-w {store.parent}`, or move the store", stacklevel=2
        )


@contextmanager
def exclusive_lock(path: Path, *, wait: float = 0.0) -> Iterator[None]:
    """Lock the file at `path` while the block runs; the file is not removed afterwards.

    Every call opens the file again, so the lock excludes other threads as well as other processes. A child process
    that is forked inside the block cannot release the lock.
    """
    owner, deadline = os.getpid(), time.monotonic() + wait
    while (descriptor := _locked(path)) is None:
        if time.monotonic() >= deadline:
            raise StoreInUseError(f"store {path.parent} is in use; try again later, or wait with wait=SECONDS")
        time.sleep(_NAP)
    try:
        yield
    finally:
        if os.getpid() == owner:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _locked(path: Path) -> int | None:
    """Lock a file and return its descriptor, or None if another process or thread holds the lock."""
    try:
        with disk_errors(path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE)
    except StoreError:
        if not path.parent.is_dir():
            raise NotFoundError(f"no store at {path.parent}") from None
        raise
    with suppress(BlockingIOError, FileNotFoundError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Check that the file was not replaced after it was opened and before it was locked.
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor
    os.close(descriptor)
    return None


@contextmanager
def locked_directory(directory: Path) -> Iterator[None]:
    """Make a private directory, lock it while the block runs, and then remove it unless the block renamed it."""
    owner, descriptor = os.getpid(), None
    while descriptor is None:
        with disk_errors(directory.parent), suppress(FileExistsError):
            directory.mkdir(mode=0o700)
        with suppress(NotFoundError):  # another process may remove the directory before it is locked
            descriptor = _locked(directory / LOCK)
    try:
        yield
    finally:
        if os.getpid() == owner:  # a child forked inside the block must not remove the directory
            shutil.rmtree(directory, ignore_errors=True)
        os.close(descriptor)


@contextmanager
def spill_directory(parent: Path | None = None) -> Iterator[Path]:
    """Make a private temporary directory for rows that do not fit in memory. Remove it when the block ends."""
    parent = parent or Path(tempfile.gettempdir())
    with suppress(OSError):
        remove_dead(parent, _SPILL_NAME)
    directory = parent / f"{_SPILL_NAME}{secrets.token_hex(8)}"
    with locked_directory(directory):
        yield directory


def remove_dead(parent: Path, begins: str, ends: str = "") -> None:
    """Remove directories that killed processes left in `parent`.

    A directory is removed if this user owns it, no process has locked it, and its name starts with `begins` and ends
    with `ends`.
    """
    for name in os.listdir(parent) if parent.is_dir() else ():  # noqa: PTH208  only names; there may be many files
        directory = parent / name
        if name.startswith(begins) and name.endswith(ends):
            with suppress(OSError, StoreError, NotFoundError):
                status = directory.lstat()
                if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
                    with exclusive_lock(directory / LOCK):
                        shutil.rmtree(directory, ignore_errors=True)
