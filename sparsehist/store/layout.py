"""The directory of a store: what is where in it, of which version it is, and who holds it."""

from __future__ import annotations

import ctypes
import fcntl
import json
import math
import os
import secrets
import shutil
import struct
import sys
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sparsehist.errors import NotFoundError, StoreDamagedError, StoreError, StoreInUseError, StoreVersionError
from sparsehist.store.private_files import PRIVATE, disk_errors, read_json, write_file

FORMAT_VERSION = 1
STATE, LOCK, SERIES, SPILL = "state.sqlite", "lock", "series", "tmp"
RECEIPT, UNFINISHED = "written-", "unfinished"
"""How the names of receipts begin, and that of a round begun: files of a series that no commit vouches for."""
_BEFORE_0_1 = "state.duckdb"
_FORMAT, ADOPTING = "format", "adopting"
_SPILL_NAME = "sparsehist-spill-"
_BIRTH = 0x800  # of statx
_CHANGES = 24  # where the header of a SQLite file counts them
_KEEPS_ITS_ID = (0xEF53, 0x9123683E, 0x2FC12FC1)  # ext4, btrfs, ZFS
_SHORTEST_NAP, _LONGEST_NAP = 0.002, 0.05


def write_format(store: Path, store_id: str, *, durable: bool) -> None:
    """Say that this directory is a store, which, and of which version."""
    text = json.dumps({"sparsehist store": FORMAT_VERSION, "store_id": store_id}) + "\n"
    write_file(store / _FORMAT, text.encode(), durable=durable)


def is_store(store: Path) -> bool:
    """Whether there is a store at a place, whole or damaged."""
    with disk_errors(store):
        return any((store / name).is_file() for name in (_FORMAT, STATE, _BEFORE_0_1))


def is_writable(store: Path) -> bool:
    """Whether this process may change what is in a store; else it may still be looked at."""
    return os.access(store, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def store_id_at(place: Path) -> str | None:
    """Which store stands at a place, as far as its format file says."""
    try:
        return str(read_json(place / _FORMAT)["store_id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def check_is_store(store: Path) -> None:
    """Refuse what is no store."""
    if not is_store(store):
        raise NotFoundError(f"no store at {store}; make one with `sparsehist create`")


def check_format(store: Path) -> None:
    """Refuse a store of another version, or one without its state file."""
    if (store / _BEFORE_0_1).exists() and not (store / STATE).exists():
        raise StoreVersionError(
            f"store {store} was made before sparsehist 0.1 and keeps its state in DuckDB, which is no longer read: "
            "count the log again into a new store. What was released from this one stays spent"
        )
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


def make_spill(store: Path) -> Path:
    """The place for spill of a store that is held: only directories of runs that live stay in it."""
    clear_spill()
    spill = store / SPILL
    with disk_errors(spill):
        spill.mkdir(mode=0o700, exist_ok=True)
        remove_dead(spill, _SPILL_NAME)
        for place in spill.iterdir():
            if not (place / LOCK).exists():  # they are made while the store is held
                _remove(place)
    return spill


def make_locked(directory: Path) -> int:
    """Make a private directory and hold its lock: other runs know by it that this one is alive."""
    with disk_errors(directory.parent):
        while True:
            directory.mkdir(mode=0o700, exist_ok=True)
            with suppress(NotFoundError):  # it was taken for dead before it was locked
                return _locked_descriptor(directory / LOCK, math.inf)[0]


def remove_dead(parent: Path, begins: str, ends: str = "") -> list[Path]:
    """Remove directories of this user's whose makers died, each while its lock is held; returns what was removed."""
    removed = []
    for name in os.listdir(parent) if parent.is_dir() else ():  # noqa: PTH208  names alone, of many files perhaps
        if not (name.startswith(begins) and name.endswith(ends)):
            continue
        directory = parent / name
        try:
            if directory.is_symlink() or not directory.is_dir() or directory.stat().st_uid != os.geteuid():
                continue
            lock = os.open(directory / LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            with suppress(OSError):  # of one that died before it had a lock
                directory.rmdir()
                removed.append(directory)
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _still_at(directory / LOCK, lock):
                remove_locked(directory)
                removed.append(directory)
        except BlockingIOError:
            pass
        finally:
            os.close(lock)
    return removed


def remove_locked(directory: Path) -> None:
    """Remove what `make_locked` made; the lock goes last, so that who dies in between leaves a dead directory."""
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


def remove_dead_buildings(place: Path) -> list[Path]:
    """Remove what runs that died while they made or copied a store left beside its place."""
    return remove_dead(place.parent, f".{place.name}.", ".new")


@contextmanager
def spill_directory(parent: Path | None = None) -> Iterator[Path]:
    """A private directory for what is of the log; when a run dies in it, the next one removes it."""
    clear_spill()
    directory = (parent or Path(tempfile.gettempdir())) / f"{_SPILL_NAME}{secrets.token_hex(8)}"
    lock = make_locked(directory)
    try:
        yield directory
    finally:
        remove_locked(directory)
        os.close(lock)


def token_of(spill: Path) -> str:
    """What tells a spill directory from others: what its run writes elsewhere is named by it."""
    return spill.name.removeprefix(_SPILL_NAME)


def is_alive(store: Path, token: str) -> bool:
    """Whether the run with that spill directory may be alive, once `make_spill` has removed those of dead ones."""
    return (store / SPILL / f"{_SPILL_NAME}{token}").exists()


def clear_spill() -> None:
    """Remove what runs that died left in the system's place for temporary files."""
    with suppress(OSError):
        remove_dead(Path(tempfile.gettempdir()), _SPILL_NAME)


def leftovers(store: Path, registered: Collection[tuple[str, str | None]]) -> list[Path]:
    """What no commit vouches for: series and rounds of runs that died, and series dropped by one.

    `registered` are pairs of series and file name, None for the directory of the series.
    """
    known = set(registered)
    series = {series_id for series_id, _ in known}
    with disk_errors(store):
        directories = list((store / SERIES).iterdir())
        return [
            *store.glob("*.new"),
            *store.glob(f"{STATE}-journal"),  # a hot one was rolled back when the state was read
            *(directory for directory in directories if directory.name not in series),
            *(
                directory / name
                for directory in directories
                if directory.name in series
                for name in os.listdir(directory)  # noqa: PTH208  names suffice, of hundreds of rounds
                if (directory.name, name) not in known and name != UNFINISHED and not is_receipt(name)
            ),
        ]


def is_receipt(name: str) -> bool:
    """Whether a file of a series is a receipt, and a whole one."""
    return name.startswith(RECEIPT) and not name.endswith(".new")


@contextmanager
def exclusive_lock(path: Path, *, wait: float = 0.0, or_shared: bool = False) -> Iterator[bool]:
    """Hold the lock file at `path`, which stays there afterwards; says whether nobody else holds it.

    With `or_shared`, all who may only read the directory hold it together, and whoever may write waits for them. One
    of these may only read for as long as the lock is held, whatever becomes of the directory meanwhile.

    Every entry opens the file anew, so that two threads exclude each other like two processes. A child made
    by a fork inside the block cannot give the lock away.
    """
    owner = os.getpid()
    descriptor, alone = _locked_descriptor(path, time.monotonic() + wait, or_shared=or_shared)
    try:
        yield alone
    finally:
        if os.getpid() == owner:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _locked_descriptor(path: Path, deadline: float, *, or_shared: bool = False) -> tuple[int, bool]:
    nap = _SHORTEST_NAP
    while True:
        alone = not or_shared or is_writable(path.parent)
        descriptor = _open_lock(path, os.O_RDWR | os.O_CREAT if alone else os.O_RDONLY)
        try:
            # A shared one is all that network file systems give who may only read.
            fcntl.flock(descriptor, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
            if _still_at(path, descriptor):
                return descriptor, alone
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


def _open_lock(path: Path, how: int) -> int:
    try:
        with disk_errors(path):
            return os.open(path, how | os.O_CLOEXEC, PRIVATE)
    except StoreError:
        if not path.parent.is_dir():
            raise NotFoundError(f"no store at {path.parent}") from None
        raise


def _still_at(path: Path, descriptor: int) -> bool:
    """Whether the file that is locked is the one others will find: the store may have been replaced meanwhile."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def directory_id(path: Path) -> str:
    """What tells a directory from its copies: inode, birth time and file system, as far as they are known.

    A restored directory may have the number of the lost one, and the first directories of two file systems do; the
    birth time cannot be set. Of the file system only an id that it keeps is taken: a number of a device changes when
    a disk is attached in another order.
    """
    with disk_errors(path):
        born, system = birth_time(path), system_id(path)
        return f"{path.stat().st_ino}:{born or ''}:{system or ''}"


def same_directory(one: str, other: str) -> bool:
    """Whether two of these ids may be of one directory: what is known of both is equal."""
    pairs = list(zip(one.split(":"), other.split(":"), strict=False))
    return bool(pairs) and all(a == b for a, b in pairs if a and b)


def birth_time(path: Path) -> int | None:
    """When a file was made, in nanoseconds, where the system knows; Python does not ask Linux for it."""
    statx = getattr(ctypes.CDLL(None), "statx", None)
    answer = ctypes.create_string_buffer(256)
    if statx is None or statx(-100, os.fsencode(path), 0, _BIRTH, answer):  # relative to the working directory
        return None
    (mask,), (seconds, nanoseconds) = struct.unpack_from("I", answer), struct.unpack_from("qI", answer, 80)
    return seconds * 10**9 + nanoseconds if mask & _BIRTH and seconds else None


def system_id(path: Path) -> str | None:
    """The id of a file system that keeps it over restarts, and does not share it with its snapshots."""
    statfs = getattr(ctypes.CDLL(None), "statfs", None)
    answer = ctypes.create_string_buffer(512)
    if sys.platform != "linux" or struct.calcsize("l") != 8 or statfs is None or statfs(os.fsencode(path), answer):
        return None
    kind = struct.unpack_from("l", answer)[0]
    return answer.raw[56:64].hex() if kind in _KEEPS_ITS_ID else None


def last_change(store: Path) -> tuple[int, int]:
    """How often the state file was changed, by SQLite's count, and when last, in nanoseconds.

    The time is that of its inode, which no copying tool can set: a file put back from a copy has a later one.
    """
    path = store / STATE
    with disk_errors(path), path.open("rb") as file:
        file.seek(_CHANGES)
        return int.from_bytes(file.read(4)), os.fstat(file.fileno()).st_ctime_ns


def has_journal(store: Path) -> bool:
    """Whether a run died within a transaction, which the next one rolls back."""
    return (store / f"{STATE}-journal").exists()
