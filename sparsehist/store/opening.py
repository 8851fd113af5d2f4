"""Opening a store: locked, whole, the original, and no older than what left it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sparsehist.errors import StoreDamagedError, StoreRolledBackError
from sparsehist.store.database import Database, open_database
from sparsehist.store.layout import (
    FORMAT_VERSION,
    LOCK,
    SERIES,
    check_format,
    check_is_store,
    exclusive_lock,
    leftovers,
    make_spill,
    remove_dead_buildings,
    store_id_at,
)
from sparsehist.store.private_files import disk_errors
from sparsehist.store.state import State
from sparsehist.store.witnesses import (
    LEDGER_NAME,
    mark_path,
    published_generation,
    raise_mark,
    raise_published_generation,
    read_mark,
    read_token,
)


@dataclass(frozen=True)
class StoreIdentity:
    """The row of the state that says which store this is and how far it has come.

    Attributes:
        inode: Of its directory, when it was made or adopted.
        home: Where that was.
        publications: Directories with a public ledger that knows it.
    """

    store_id: str
    generation: int
    inode: str
    home: Path
    publications: tuple[Path, ...]


@contextmanager
def open_state(path: Path, *, wait: float = 0.0, durable: bool = True) -> Iterator[State]:
    """Lock and open a store for the length of a block; nothing of it is kept afterwards.

    Args:
        path: Its directory.
        wait: How long to wait for whoever holds it, in seconds.
        durable: False for a store that nobody needs after a power cut: no synchronisation, no marks.

    Raises:
        NotFoundError: If there is no store.
        StoreInUseError: If it is held by another thread or process.
        StoreVersionError: If another version wrote it.
        StoreDamagedError: If a file is missing, truncated or altered.
        StoreRolledBackError: If it is older than what was published from it, or a copy.
    """
    path = path.resolve()
    check_is_store(path)
    with exclusive_lock(path / LOCK, wait=wait):
        check_format(path)
        make_spill(path)
        database = open_database(path, durable=durable)
        state = None
        try:
            identity = read_identity(database, path)
            check_is_original(path, identity)
            if durable:
                check_is_newest(path, identity)
                settle_home(path, database, identity)
                if identity.generation:
                    # A run that died after its commit left no mark, and what it committed may be published now.
                    raise_mark(path, identity.store_id, identity.generation)
            removed = _remove_leftovers(path, database)
            state = State(
                path,
                database,
                identity.store_id,
                identity.generation,
                publications=frozenset(identity.publications),
                removed=tuple(removed),
                durable=durable,
            )
            yield state
        finally:
            (state or database).close()


def read_identity(database: Database, path: Path) -> StoreIdentity:
    """Which store this is."""
    rows = database.rows("read_store")
    if len(rows) != 1 or rows[0][0] != FORMAT_VERSION:
        raise StoreDamagedError(f"the state of store {path} was altered; restore it from a backup")
    _, store_id, generation, inode, home = rows[0]
    publications = tuple(Path(directory) for (directory,) in database.rows("read_publications"))
    return StoreIdentity(store_id, generation, inode, Path(home), publications)


def _remove_leftovers(path: Path, database: Database) -> list[Path]:
    """Remove what runs that died left behind; a series one of them was dropping leaves the state file too.

    Returns:
        What was removed outside the store: the remains of copies.
    """
    copies: list[Path] = []
    for (text,) in database.rows("read_copies"):
        place = Path(text)
        with suppress(OSError):  # a disk that is not there today is looked at on another day
            if place.parent.is_dir():
                copies += remove_dead_buildings(place)
                with database.transaction():
                    database.change("forget_copy", place=text)
    found = leftovers(path, database.rows("read_registered_files"))
    if any(place.parent.name == SERIES for place in found):
        database.rows("write_anew")
    with disk_errors(path):
        for place in found:
            if place.is_dir():
                shutil.rmtree(place)
            else:
                place.unlink()
    return copies


def check_is_original(path: Path, identity: StoreIdentity) -> None:
    """Refuse a copy: two of them, used side by side, would draw two noises for one level.

    Moving a directory keeps its inode, copying or restoring it does not.
    """
    if inode_of(path) == identity.inode and not stands_elsewhere(path, identity):
        return
    if path == identity.home:
        raise StoreRolledBackError(
            f"store {path} was put back from a copy. If it is the newest copy there is, take it with "
            f"`sparsehist adopt {path}`"
        )
    raise StoreRolledBackError(
        f"store {path} is a copy of the one made at {identity.home}. If that one is gone for good, take "
        f"this one in its place with `sparsehist adopt {path}`; otherwise keep using that one"
    )


def stands_elsewhere(path: Path, identity: StoreIdentity) -> bool:
    """Whether the place this store calls its home holds the same store, in another directory.

    Numbers of directories repeat on other file systems, so that the number alone does not tell a copy.
    """
    if store_id_at(identity.home) != identity.store_id:
        return False
    with disk_errors(path):
        return not path.samefile(identity.home)


def check_is_newest(path: Path, identity: StoreIdentity, *, token: str | None = None) -> None:
    """Refuse a store that forgot something: it would draw again what is already out.

    A mark that this very adoption (`token`) raised, before a run died, is no witness against it.
    """
    seen = {
        mark_path(place): read_mark(place, identity.store_id)
        for place in (path, identity.home)
        if token is None or read_token(place, identity.store_id) != token
    }
    seen |= {
        directory / LEDGER_NAME: published_generation(directory, identity.store_id)
        for directory in identity.publications
    }
    witness, newest = max(seen.items(), key=lambda item: item[1], default=(path, -1))
    if newest > identity.generation:
        raise StoreRolledBackError(
            f"store {path} is at generation {identity.generation}, but {witness} shows that it had reached "
            f"{newest}: it was put back from an older copy and would draw other noise for levels that are out. "
            "Restore the newest copy; if there is none, make a new store under a new budget"
        )


def settle_home(path: Path, database: Database, identity: StoreIdentity) -> None:
    """Finish a move or an adoption: raise every mark in reach, then record the new place.

    The old place is recorded until then, so that a run that dies in between is made up for by the next.
    """
    if identity.home == path:
        return
    for place in (path, identity.home):
        if os.access(place.parent, os.W_OK):
            raise_mark(place, identity.store_id, identity.generation)
    for directory in identity.publications:
        if os.access(directory, os.W_OK):
            raise_published_generation(directory, identity.store_id, identity.generation)
    with database.transaction():
        database.change("move_home", home=str(path))


def inode_of(path: Path) -> str:
    """What tells a directory from its copies."""
    with disk_errors(path):
        return str(path.stat().st_ino)
