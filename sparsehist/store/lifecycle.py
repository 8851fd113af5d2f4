"""Create, copy and adopt stores."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sparsehist.errors import DeclarationError, NameTakenError, NotFoundError, StoreRolledBackError
from sparsehist.store.database import Database
from sparsehist.store.layout import (
    FORMAT,
    FORMAT_VERSION,
    LOCK,
    SERIES,
    SPILL,
    identity_of,
    is_store,
    locked_directory,
    remove_dead,
    store_id_at,
)
from sparsehist.store.opening import check_is_newest, locked_state, open_state
from sparsehist.store.private_files import NEW, disk_errors, synchronise, write_file
from sparsehist.store.witnesses import MARK_SUFFIX


def create_store(path: Path, *, durable: bool = True) -> None:
    """Create an empty store, completely or not at all, in a directory that only its owner can read."""
    _check_is_free(path)
    path = path.resolve()
    with _building(path, durable=durable) as building:
        with disk_errors(building):
            for name in (SERIES, SPILL):
                (building / name).mkdir(mode=0o700)
        store_id = secrets.token_hex(16)
        text = json.dumps({"sparsehist store": FORMAT_VERSION, "store_id": store_id}) + "\n"
        write_file(building / FORMAT, text.encode(), durable=durable)
        with closing(Database(building, durable=durable, create=True)) as database, database.transaction():
            database.insert(
                "store", format_version=FORMAT_VERSION, store_id=store_id, generation=0,
                identity=identity_of(building), home=str(path),
            )  # fmt: skip
            database.insert_event("create store", 0)


def ensure_store(path: Path) -> None:
    """Create a store at a path, unless a store is there already."""
    if not is_store(path):
        try:
            create_store(path)
        except NameTakenError:
            if not is_store(path):  # no error if another process has just created a store there
                raise


def backup(path: str | os.PathLike[str], destination: str | os.PathLike[str], *, wait: float = 0.0) -> None:
    """Make a consistent copy of a store. The copy is safely on disk when this function returns.

    The copy is a backup, not a second store: it cannot be used until `adopt` lets it replace a lost store. As
    soon as anything is released from the store, earlier copies are refused for good.

    Args:
        path: The store.
        destination: Path of the copy; must not exist, or be an empty directory.
        wait: Seconds to wait for another process or thread that holds the store.
    """
    _check_is_free(Path(destination))
    path, destination = Path(path).resolve(), Path(destination).resolve()
    if path in destination.parents:
        raise DeclarationError(f"{destination} is inside the store: choose a directory outside it")
    with open_state(path, wait=wait), _building(destination, durable=True) as building, disk_errors(destination):
        ignore = shutil.ignore_patterns(LOCK, SPILL)
        shutil.copytree(path, building, ignore=ignore, dirs_exist_ok=True)
        building.chmod(0o700)
        for copied in (*building.rglob("*"), building):
            synchronise(copied)


def adopt(path: str | os.PathLike[str], *, home_is_gone: bool = False, wait: float = 0.0) -> None:
    """Use a copy of a store in place of the original, which must be gone: lost, or overwritten by the copy.

    Afterwards, `adopt` refuses a second copy if it can read the generation file at the old path, or a public ledger
    of the store. If it can read neither, for example on a different machine, nothing prevents a second adoption. The
    two copies would then draw different noise for the same level, and together reveal more than the ledger of either
    copy shows.

    Args:
        path: The copy.
        home_is_gone: You promise that the original store will never be used again, that no other copy of it was or
            will be adopted, and that nothing was released from it after this copy was made.
        wait: Seconds to wait for another process or thread that holds the copy.

    Raises:
        DeclarationError: If `home_is_gone` is not given.
        StoreRolledBackError: If the original still exists, or there were releases after the copy was made.
    """
    path = Path(path).resolve()
    with locked_state(path, wait=wait) as state:
        home, identity = state.home, identity_of(path)
        if store_id_at(home) == state.store_id and not path.samefile(home):
            raise StoreRolledBackError(
                f"the original store still exists, and a copy would draw different noise for the same level: use the "
                f"original, or remove it first; original: {home}"
            )
        check_is_newest(state)
        if identity != state.identity and home_is_gone is not True:
            raise DeclarationError(
                f"give home_is_gone=True (--home-is-gone) to confirm that the original store is gone for good, that "
                f"no other copy is used, and that nothing was released after this copy was made; original: {home}"
            )
        if (identity, path) != (state.identity, home):
            state.adopt(identity)


def _check_is_free(path: Path) -> None:
    if "?" in path.name or path.name.endswith(MARK_SUFFIX):
        raise DeclarationError(f"a store's name must not contain a question mark or end in {MARK_SUFFIX}, got {path}")
    with disk_errors(path):
        in_use = path.is_symlink() or (path.exists() and (not path.is_dir() or any(path.iterdir())))
    if in_use:
        raise NameTakenError(f"{path} exists already; choose another path, or open it if it is a store")
    if not path.parent.is_dir():
        raise NotFoundError(f"there is no directory {path.parent}; create it first")


@contextmanager
def _building(path: Path, *, durable: bool) -> Iterator[Path]:
    remove_dead(path.parent, f".{path.name}.", NEW)
    building = path.with_name(f".{path.name}.{secrets.token_hex(8)}{NEW}")
    with locked_directory(building):
        yield building
        try:
            building.rename(path)  # if `path` exists and is not an empty directory, `rename` raises OSError
        except OSError:
            raise NameTakenError(f"{path} exists already; choose another path") from None
        if durable:
            with disk_errors(path.parent):
                synchronise(path.parent)
