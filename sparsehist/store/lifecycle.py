"""Making, copying, adopting and migrating stores."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sparsehist.errors import DeclarationError, NameTakenError, NotFoundError, StoreError, StoreRolledBackError
from sparsehist.store.committing import insert_event
from sparsehist.store.database import now, open_database
from sparsehist.store.layout import (
    ADOPTING,
    FORMAT_VERSION,
    LOCK,
    SERIES,
    SPILL,
    check_format,
    check_is_store,
    directory_id,
    exclusive_lock,
    is_store,
    make_locked,
    remove_dead_buildings,
    remove_locked,
    write_format,
)
from sparsehist.store.opening import (
    check_is_newest,
    held,
    is_original,
    open_state,
    read_identity,
    stands_elsewhere,
    take_place,
)
from sparsehist.store.private_files import PRIVATE, disk_errors, sync_directory
from sparsehist.store.witnesses import CLAIMS, MARK_SUFFIX, Anchor


def create_store(path: Path, *, anchor: Path | None = None, durable: bool = True) -> None:
    """Make an empty store: a directory nobody else can read, there at once or not at all."""
    _check_is_free(path)
    path = path.resolve()
    with _building(path, durable=durable) as building:
        _fill(building, path, anchor=_checked_anchor(anchor, path), durable=durable)


def ensure_store(path: Path, *, anchor: Path | None = None) -> bool:
    """Make a store unless there is one; whether this call made it."""
    if is_store(path):
        return False
    try:
        create_store(path, anchor=anchor)
    except NameTakenError:  # two runs at once
        if not is_store(path):
            raise
        return False
    return True


def backup(path: str | os.PathLike[str], destination: str | os.PathLike[str], *, wait: float = 0.0) -> None:
    """Copy a store, consistent and on the disk when this returns.

    The copy is a backup, not a second store: it is refused until `adopt` takes it in the place of a lost one,
    and for ever once the store has gone on to release something after it.

    Args:
        path: The store.
        destination: Where to; nothing may be there yet but an empty directory.
        wait: How long to wait for whoever holds the store, in seconds.
    """
    _check_is_free(Path(destination))
    path, destination = Path(path).resolve(), Path(destination).resolve()
    with open_state(path, wait=wait) as state:
        state.record_copy(destination)  # whoever opens the store next looks there for what a dead run left
    with (
        exclusive_lock(path / LOCK, wait=wait),
        _building(destination, durable=True) as building,
        disk_errors(destination),
    ):
        ignore = shutil.ignore_patterns(LOCK, SPILL, ADOPTING, CLAIMS)
        shutil.copytree(path, building, ignore=ignore, dirs_exist_ok=True, copy_function=_copy_durably)
        for directory in [*(place for place in building.rglob("*") if place.is_dir()), building]:
            directory.chmod(0o700)
            sync_directory(directory)


def adopt(path: str | os.PathLike[str], *, anchor: str | os.PathLike[str] | None = None, wait: float = 0.0) -> None:
    """Take a copy of a store in the place of one that is gone for good, or one that was put back where it stood.

    Every other copy of the same age is refused from then on, where the marks of the old place, a public ledger or
    its anchor can be reached.

    Args:
        path: The copy.
        anchor: A directory on another machine or disk that is to know from now on how far the store has come, in the
            place of the one it had.
        wait: How long to wait for whoever holds it, in seconds.

    Raises:
        StoreRolledBackError: If the original is still there, or had gone on to release something since.
    """
    path = Path(path).resolve()
    place = _checked_anchor(None if anchor is None else Path(anchor), path)
    with held(path, wait=wait, durable=True) as database:
        identity = read_identity(database, path)
        if stands_elsewhere(path, identity):
            raise StoreRolledBackError(
                f"the store this one was copied from still stands at {identity.home}; two of them would draw two "
                "noises for one level. Use that one, or remove it first"
            )
        reachable = identity.anchor is not None and identity.anchor.path.exists()
        check_is_newest(path, identity, anchored=place is None or reachable)
        if place is not None or identity.home != path or not is_original(path, identity):
            take_place(path, database, identity, "adopt store", anchor=place)


def migrate(path: str | os.PathLike[str], *, wait: float = 0.0) -> int:
    """Bring a store to the format of this version: format 1 is the first, so that there is nothing to do.

    Args:
        path: The store; a copy that was not adopted yet may be asked too.
        wait: How long to wait for whoever holds it, in seconds.

    Returns:
        The format it had.

    Raises:
        StoreVersionError: If a newer version wrote it, or one before 0.1, which kept its state in DuckDB.
        StoreDamagedError: If it does not say which version wrote it, or a file is missing.
    """
    path = Path(path).resolve()
    check_is_store(path)
    with exclusive_lock(path / LOCK, wait=wait):
        check_format(path)
    return FORMAT_VERSION


def _check_is_free(path: Path) -> None:
    if "?" in path.name or path.name.endswith(MARK_SUFFIX):
        raise DeclarationError(
            f"the name of a store has no question mark and does not end in {MARK_SUFFIX}, got {path}"
        )
    try:
        taken = path.is_symlink() or (path.exists() and (not path.is_dir() or any(path.iterdir())))
    except OSError:
        raise StoreError(f"{path} cannot be read; check its owner and mode") from None
    if taken:
        raise NameTakenError(f"{path} exists already; choose another place, or open it if it is a store")
    if not path.parent.is_dir():
        raise NotFoundError(f"{path.parent} is no directory; make it first")


def _checked_anchor(anchor: Path | None, path: Path) -> Path | None:
    """The directory of an anchor, absolute; refused inside the store, with which it would be copied."""
    if anchor is None:
        return None
    anchor = anchor.resolve()
    if not anchor.is_dir():
        raise NotFoundError(f"{anchor} is no directory to anchor a store in; make it first")
    if anchor == path or path in anchor.parents:
        raise DeclarationError(f"the anchor {anchor} is inside the store, which would be copied with it")
    return anchor


@contextmanager
def _building(path: Path, *, durable: bool) -> Iterator[Path]:
    """A directory beside a place, locked; put there when the block is left, and removed if anything fails."""
    with disk_errors(path.parent):
        remove_dead_buildings(path)
    building = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    lock = make_locked(building)
    try:
        yield building
        _put_in_place(building, path, durable=durable)
    except BaseException:
        remove_locked(building)
        raise
    finally:
        os.close(lock)


def _fill(building: Path, path: Path, *, anchor: Path | None, durable: bool) -> None:
    with disk_errors(building):
        for name in (SERIES, SPILL):
            (building / name).mkdir(mode=0o700)
    store_id = secrets.token_hex(16)
    if anchor is not None:
        Anchor(anchor, store_id).begin(0)
    database = open_database(building, durable=durable, create=True)
    try:
        with database.transaction():
            when = now()
            database.change(
                "insert_store",
                format_version=FORMAT_VERSION,
                store_id=store_id,
                directory=directory_id(building),
                home=str(path),
                anchor=anchor and str(anchor),
                created=when,
            )
            insert_event(database, when, "create store", generation=0)
    finally:
        database.close()
    write_format(building, store_id, durable=durable)


def _put_in_place(building: Path, path: Path, *, durable: bool) -> None:
    try:
        building.rename(path)  # onto nothing or an empty directory; the system refuses anything else
    except OSError:
        raise NameTakenError(f"{path} exists already; choose another place") from None
    if durable:
        with disk_errors(path.parent):
            sync_directory(path.parent)


def _copy_durably(source: str, target: str) -> str:
    """Copy one file for nobody else to read."""
    with disk_errors(Path(target)), open(source, "rb") as read:  # noqa: PTH123  shutil passes text
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE)
        with os.fdopen(descriptor, "wb") as write:
            shutil.copyfileobj(read, write, 1 << 20)
            write.flush()
            os.fsync(write.fileno())
    return target
