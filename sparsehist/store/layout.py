"""The directory of a store: names of its parts, format, lock, and temporary directories."""

from __future__ import annotations

import fcntl
import json
import logging
import math
import os
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sparsehist.errors import NotFoundError, StoreDamagedError, StoreError, StoreInUseError, StoreVersionError
from sparsehist.store.private_files import PRIVATE, disk_errors, read_json, write_file

FORMAT_VERSION = 1
STATE, LOCK, SERIES, SPILL, SET_ASIDE = "state.sqlite", "lock", "series", "tmp", "set-aside"
NEW = ".new"
"""Suffix of files that are being written; an unfinished one may be deleted."""
_FORMAT = "format"
_SPILL_NAME = "sparsehist-spill-"
_SHORTEST_NAP, _LONGEST_NAP = 0.002, 0.05
_log = logging.getLogger("sparsehist")


def write_format(store: Path, store_id: str, *, durable: bool) -> None:
    """Write the file `format`: identity and version of the store. It is never written again."""
    text = json.dumps({"sparsehist store": FORMAT_VERSION, "store_id": store_id}) + "\n"
    write_file(store / _FORMAT, text.encode(), durable=durable)


def identity_of(store: Path) -> str:
    """Inode and time of change of the file `format`: a copy or a restored file has others.

    No program can set the time of change. Moving the directory on its file system keeps both.
    """
    with disk_errors(store):
        found = (store / _FORMAT).stat()
    return f"{found.st_ino}:{found.st_ctime_ns}"


def store_id_at(place: Path) -> str | None:
    """The id of the store at a place, None if its format file cannot be read."""
    try:
        return str(read_json(place / _FORMAT)["store_id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def is_store(store: Path) -> bool:
    """Whether there is a store at a place, whole or damaged."""
    with disk_errors(store):
        return any((store / name).is_file() for name in (_FORMAT, STATE))


def check_is_store(store: Path) -> None:
    """Refuse a place without a store."""
    if not is_store(store):
        raise NotFoundError(f"no store at {store}; make one with `sparsehist create`")


def check_format(store: Path) -> None:
    """Refuse a store of another format version, one without its state, and one that others can write to."""
    try:
        version = read_json(store / _FORMAT)["sparsehist store"]
    except (OSError, ValueError, KeyError, TypeError):
        raise StoreDamagedError(f"{store / _FORMAT} is missing or altered; restore the store from a backup") from None
    if version != FORMAT_VERSION:
        raise StoreVersionError(
            f"store {store} has format {version!r}, this sparsehist reads format {FORMAT_VERSION}; upgrade sparsehist"
        )
    for name in (STATE, SERIES):
        if not (store / name).exists():
            raise StoreDamagedError(f"{store / name} is missing; restore the store from a backup")
    check_modes(store)


def check_modes(store: Path) -> None:
    """Refuse a store that other users can write to; warn of one whose parent directory they can write to."""
    with disk_errors(store):
        mode, above = store.stat().st_mode, store.parent.stat().st_mode
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise StoreError(
            f"other users can write to the store {store}: make sure that nobody did, then `chmod 700 {store}`"
        )
    if above & stat.S_IWOTH and not above & stat.S_ISVTX:
        _log.warning("every user can rename or replace the store in %s: `chmod o-w` that directory", store.parent)


@contextmanager
def exclusive_lock(path: Path, *, wait: float = 0.0) -> Iterator[None]:
    """Hold the lock file at `path`; the file stays there afterwards.

    Every entry opens the file anew, so two threads exclude each other like two processes. A child made by a fork
    inside the block cannot release the lock.
    """
    owner = os.getpid()
    descriptor = _locked_descriptor(path, time.monotonic() + wait)
    try:
        yield
    finally:
        if os.getpid() == owner:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _locked_descriptor(path: Path, deadline: float) -> int:
    nap = _SHORTEST_NAP
    while True:
        descriptor = _open_lock(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _still_at(path, descriptor):
                return descriptor
        except BlockingIOError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise StoreInUseError(f"store {path.parent} is in use; try again later, or wait with wait=SECONDS")
        time.sleep(min(nap, remaining))
        nap = min(2 * nap, _LONGEST_NAP)


def _open_lock(path: Path) -> int:
    try:
        with disk_errors(path):
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
    except StoreError:
        if not path.parent.is_dir():
            raise NotFoundError(f"no store at {path.parent}") from None
        raise


def _still_at(path: Path, descriptor: int) -> bool:
    """Whether `path` still names the locked file: the store may have been replaced meanwhile."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


@contextmanager
def spill_directory(parent: Path | None = None) -> Iterator[Path]:
    """A private temporary directory for rows of the log; if its process dies, the next one removes it."""
    clear_spill()
    directory = (parent or Path(tempfile.gettempdir())) / f"{_SPILL_NAME}{secrets.token_hex(8)}"
    lock = make_locked(directory)
    try:
        yield directory
    finally:
        remove_locked(directory)
        os.close(lock)


def clear_spill() -> None:
    """Remove temporary directories of dead processes from the system's directory for temporary files."""
    with suppress(OSError):
        remove_dead(Path(tempfile.gettempdir()), _SPILL_NAME)


def make_spill(store: Path) -> None:
    """Make the directory for temporary files of a locked store and remove those of dead processes."""
    clear_spill()
    spill = store / SPILL
    with disk_errors(spill):
        spill.mkdir(mode=0o700, exist_ok=True)
        remove_dead(spill, _SPILL_NAME)
        for place in spill.iterdir():
            if not (place / LOCK).exists():  # directories with a lock are made only while the store is locked
                _remove(place)


def make_locked(directory: Path) -> int:
    """Make a private directory and hold its lock, which shows other processes that this one is alive."""
    with disk_errors(directory.parent):
        while True:
            directory.mkdir(mode=0o700, exist_ok=True)
            with suppress(NotFoundError):  # another process removed it before it was locked
                return _locked_descriptor(directory / LOCK, math.inf)


def remove_dead(parent: Path, begins: str, ends: str = "") -> None:
    """Remove this user's directories in `parent` whose processes died, by names; each while its lock is held."""
    for name in os.listdir(parent) if parent.is_dir() else ():  # noqa: PTH208  names alone, of many files perhaps
        if not (name.startswith(begins) and name.endswith(ends)):
            continue
        directory = parent / name
        try:
            if directory.is_symlink() or not directory.is_dir() or directory.stat().st_uid != os.geteuid():
                continue
            lock = os.open(directory / LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            with suppress(OSError):  # its process died before it made the lock
                directory.rmdir()
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _still_at(directory / LOCK, lock):
                remove_locked(directory)
        except BlockingIOError:
            pass
        finally:
            os.close(lock)


def remove_locked(directory: Path) -> None:
    """Remove a directory of `make_locked`; the lock goes last, so that a kill leaves a removable directory."""
    with suppress(OSError):
        for place in directory.iterdir():
            if place.name != LOCK:
                _remove(place)
        _remove(directory)


def _remove(place: Path) -> None:
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place, ignore_errors=True)
    else:
        place.unlink(missing_ok=True)


def set_aside(store: Path, place: Path) -> None:
    """Move a file or directory that the state does not know out of the way; nothing unknown is deleted."""
    kept = store / SET_ASIDE
    kept.mkdir(mode=0o700, exist_ok=True)
    place.rename(kept / f"{place.name}.{secrets.token_hex(4)}")
    _log.warning("%s is unknown to the store and was moved to %s", place.name, kept)
